#!/usr/bin/env bash
# Builds the extension module lanthorn._C for one CPython and puts it where the package is: python/lanthorn/.
#
#   tools/python-build.sh             optimised as in development
#   tools/python-build.sh --release   as for measurements
#
# The interpreter is $PYO3_PYTHON, or python3.11. An extension module links to no libpython: the interpreter that loads
# it brings the symbols.
set -euo pipefail
cd "$(dirname "$0")/.."

export PYO3_PYTHON=${PYO3_PYTHON:-python3.11}
if ! suffix=$("$PYO3_PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))'); then
    echo "python-build: $PYO3_PYTHON does not run; set PYO3_PYTHON to a CPython 3.11" >&2
    exit 1
fi

profile=debug
if [[ ${1:-} == --release ]]; then
    profile=release
fi
packages=(--package lanthorn-python --features extension)
# As in node-build.sh.
[[ -z ${LANTHORN_TESTS_BUILT:-} ]] || packages=(--workspace --lib --test command --features lanthorn-python/extension)
cargo build --locked "${packages[@]}" "$@"

built=${CARGO_TARGET_DIR:-target}/$profile/liblanthorn_python.so
placed=python/lanthorn/_C$suffix
# Replaced as a whole: a running interpreter keeps the file that it has mapped.
cp "$built" "$placed.new"
mv "$placed.new" "$placed"
echo "python-build: $placed"
