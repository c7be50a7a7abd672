#!/usr/bin/env bash
# Tests the Python face: builds the extension module, makes an environment with NumPy and pytest (once, outside of the
# tree) and runs bindings/python/tests; the binding's tests in Rust are among those of `cargo test --workspace`. The last
# line counts: N passed, N failed, N skipped.
#
#   tools/python-test.sh [pytest arguments]
set -uo pipefail
cd "$(dirname "$0")/.."

export PYO3_PYTHON=${PYO3_PYTHON:-python3.11}
environment=${LANTHORN_CACHE:-${HOME:-/tmp}/.cache/lanthorn}/python-tests
python=$environment/bin/python
packages=(numpy==2.2.6 pytest==8.4.2)
complete=$environment/complete-$(printf '%s\n' "${packages[@]}" | sha256sum | cut -c 1-16)

if [[ ! -e $complete ]] || ! "$python" -c '' 2>/dev/null; then
    rm -rf "$environment"
    mkdir -p "$(dirname "$environment")"
    if ! "$PYO3_PYTHON" -m venv "$environment" ||
        ! "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"; then
        echo "python-test: the environment $environment could not be made with $PYO3_PYTHON (it needs venv and PyPI)" >&2
        exit 1
    fi
    touch "$complete"
fi

tools/python-build.sh || exit 1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
PYTHONPATH=python "$python" -m pytest -q -p no:cacheprovider --junit-xml="$log" bindings/python/tests "$@"
status=$?
"$python" - "$log" <<'END'
import sys
import xml.etree.ElementTree as tree

suite = tree.parse(sys.argv[1]).getroot().find("testsuite").attrib
failed = int(suite["failures"]) + int(suite["errors"])
skipped = int(suite["skipped"])
print(f"{int(suite['tests']) - failed - skipped} passed, {failed} failed, {skipped} skipped")
END
exit "$status"
