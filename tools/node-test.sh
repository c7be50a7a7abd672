#!/usr/bin/env bash
# Builds Node's addon, the class API and the packages for Effect, and runs their tests: of behaviour, of types, of the
# packages. Ends with one line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

tools/node-build.sh && tools/node-package.sh || exit 1
# The examples are tested too, with what they are drawn and shown by.
npm ci --silent --prefix examples/node || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0 status=0

# The number that the log's last line of this form holds, 0 if there is none.
number() {
    local found
    found=$(sed -n "s/$1/\\1/p" "$log" | tail -n 1)
    echo "${found:-0}"
}

# count NAME STATUS PASSED FAILED SKIPPED: a run that fails without a failed test, or runs none, is a failure itself.
count() {
    local name=$1 ended=$2 passes=$3 failures=${4:-0} skips=${5:-0}
    if ((ended != 0 && failures == 0)); then
        echo "node-test: $name ended with status $ended before every test had run" >&2
        failures=1
    elif ((ended == 0 && passes == 0)); then
        echo "node-test: no test of $name has run" >&2
        failures=1
    fi
    ((failures == 0)) || status=1
    ((passed += passes, failed += failures, skipped += skips))
}

(cd js/lanthorn && node --expose-gc --test --test-reporter=tap test/*.test.mjs) 2>&1 | tee "$log"
ended=${PIPESTATUS[0]}
failures=$(($(number '^# fail \(.*\)') + $(number '^# cancelled \(.*\)')))
count behaviour "$ended" "$(number '^# pass \(.*\)')" "$failures" "$(number '^# skipped \(.*\)')"

(cd js/lanthorn && NO_COLOR=1 npx --no-install tstyche) 2>&1 | tee "$log"
ended=${PIPESTATUS[0]}
count types "$ended" "$(number '^Tests:.* \([0-9]*\) passed.*')" "$(number '^Tests:.* \([0-9]*\) failed.*')"

# Its last line counts as this script's does.
tools/effect-test.sh 2>&1 | tee "$log"
ended=${PIPESTATUS[0]}
counts='\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$'
read -r passes failures skips < <(sed -n "s/^$counts/\\1 \\2 \\3/p" "$log" | tail -n 1)
count effect "$ended" "${passes:-0}" "${failures:-0}" "${skips:-0}"

if tools/node-generate.sh --check; then count generated 0 1; else count generated 1 0 1; fi

echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
