#!/usr/bin/env bash
# Builds the modules of the browser and runs their tests in headless Chromium; ends with `N passed, N failed`.
# Installs what is missing: Chromium by apt (or name one in CHROMIUM), the test driver by npm.
set -uo pipefail
cd "$(dirname "$0")/.."

export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
if [[ ! -x $CHROMIUM ]]; then
    as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    if ! command -v apt-get >/dev/null ||
        ! "${as_root[@]}" apt-get update -qq ||
        ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends chromium >/dev/null; then
        echo "web-test: there is no browser at $CHROMIUM and it cannot be installed; name one in CHROMIUM" >&2
        exit 1
    fi
fi
tools/node-package.sh && tools/web-build.sh && npm ci --loglevel=error --prefix bindings/web || exit 1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
(cd bindings/web && node --test --test-concurrency=1 --test-reporter=tap test/*.test.mjs) 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

count() { # count WORD
    local found
    found=$(sed -n "s/^# $1 //p" "$log")
    echo "${found:-0}"
}
passed=$(count pass)
failed=$(($(count fail) + $(count cancelled)))
if ((status != 0 && failed == 0)); then
    echo "web-test: the run ended with status $status before every test had run" >&2
fi
echo "$passed passed, $failed failed"
exit "$status"
