#!/usr/bin/env bash
# Runs every test: Rust, then each face of the engine by its own script. Ends with one line that counts them all:
# N passed, N failed, N skipped. (cargo test prints a line for each crate, and its last one is often a crate without
# documentation tests.)
#
# FACES names the faces to test, all by default: FACES="" tools/test.sh runs the Rust tests alone.
set -uo pipefail
cd "$(dirname "$0")/.."

faces=${FACES-python node web}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
total_passed=0 total_failed=0 total_skipped=0 status=0

# count NAME STATUS AWK-PROGRAM: adds what the log says; a suite that fails without a failed test, or runs none, is a failure.
count() {
    local name=$1 ended=$2 passed failed skipped
    read -r passed failed skipped < <(awk "$3" "$log")
    if ((ended != 0 && failed == 0)); then
        echo "$name: ended with status $ended before every test had run" >&2
    elif ((ended == 0 && passed == 0)); then
        echo "$name: no test has run" >&2
        ended=1
    fi
    ((ended == 0)) || status=1
    ((total_passed += passed, total_failed += failed, total_skipped += skipped))
    echo "$name: $passed passed, $failed failed, $skipped skipped"
}

cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
count rust "${PIPESTATUS[0]}" '
    /^test result: / { passed += $4; failed += $6; skipped += $8 }
    END { print passed + 0, failed + 0, skipped + 0 }'

export LANTHORN_TESTS_BUILT=1
# Each script ends with a line "N passed, N failed" or "N passed, N failed, N skipped".
for face in $faces; do
    "tools/$face-test.sh" 2>&1 | tee "$log"
    count "$face" "${PIPESTATUS[0]}" '
        /^[0-9]+ passed, [0-9]+ failed/ { passed = $1; failed = $3; skipped = $5 }
        END { print passed + 0, failed + 0, skipped + 0 }'
done

echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
exit "$status"
