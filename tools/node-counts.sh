# Sourced by the tests of Node's packages: counts what their runners print.

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

# test_package FOLDER NAME [PATTERN..]: runs the tests of a package's behaviour and of its types. The tests are those of its
# folder test, and of the patterns.
test_package() {
    local ended failures
    (cd "$1" && node --expose-gc --test --test-reporter=tap test/*.test.mjs ${@:3}) 2>&1 | tee "$log"
    ended=${PIPESTATUS[0]}
    failures=$(($(number '^# fail \(.*\)') + $(number '^# cancelled \(.*\)')))
    count "$2: behaviour" "$ended" "$(number '^# pass \(.*\)')" "$failures" "$(number '^# skipped \(.*\)')"

    (cd "$1" && NO_COLOR=1 npx --no-install tstyche) 2>&1 | tee "$log"
    ended=${PIPESTATUS[0]}
    count "$2: types" "$ended" "$(number '^Tests:.* \([0-9]*\) passed.*')" "$(number '^Tests:.* \([0-9]*\) failed.*')"
}
