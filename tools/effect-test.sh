#!/usr/bin/env bash
# Builds the packages for Effect and runs their tests: of behaviour and of types. Ends with one line:
# N passed, N failed, N skipped. The addon and js/lanthorn are built before: tools/node-build.sh and tools/node-package.sh.
set -uo pipefail
cd "$(dirname "$0")/.."

tools/effect-package.sh || exit 1
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
        echo "effect-test: $name ended with status $ended before every test had run" >&2
        failures=1
    elif ((ended == 0 && passes == 0)); then
        echo "effect-test: no test of $name has run" >&2
        failures=1
    fi
    ((failures == 0)) || status=1
    ((passed += passes, failed += failures, skipped += skips))
}

cd js/effect
{ npx --no-install tsc -p test && node --expose-gc --test --test-reporter=tap test/*.test.mjs out/test/*.test.mjs; } 2>&1 | tee "$log"
ended=${PIPESTATUS[0]}
failures=$(($(number '^# fail \(.*\)') + $(number '^# cancelled \(.*\)')))
count behaviour "$ended" "$(number '^# pass \(.*\)')" "$failures" "$(number '^# skipped \(.*\)')"

NO_COLOR=1 npx --no-install tstyche 2>&1 | tee "$log"
ended=${PIPESTATUS[0]}
count types "$ended" "$(number '^Tests:.* \([0-9]*\) passed.*')" "$(number '^Tests:.* \([0-9]*\) failed.*')"

echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
