#!/usr/bin/env bash
# Builds Node's addon, the class API, the tokenizers and the packages for Effect, and runs their tests: of behaviour, of
# types, of the packages. Ends with one line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

tools/node-build.sh && tools/node-package.sh || exit 1
# The examples are tested too, with what they are drawn and shown by.
npm ci --loglevel=error --prefix examples/node || exit 1
source tools/node-counts.sh

test_package js/lanthorn lanthorn
# The last line of each of these counts as this script's does.
for package in tokenizers effect; do
    LANTHORN_NODE_BUILT=1 "tools/$package-test.sh" 2>&1 | tee "$log"
    count "$package" "${PIPESTATUS[0]}" "$(number '^\([0-9]*\) passed.*')" "$(number '^[0-9]* passed, \([0-9]*\) failed.*')" \
        "$(number '.* failed, \([0-9]*\) skipped$')"
done

if tools/node-generate.sh --check; then count generated 0 1; else count generated 1 0 1; fi

echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
