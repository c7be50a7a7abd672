#!/usr/bin/env bash
# Runs every test of the workspace and ends with one line that counts them all: N passed, N failed, N skipped.
# cargo test prints a line for each crate, and its last one is often a crate without documentation tests.
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT

cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

read -r passed failed skipped < <(awk '
    /^test result: / { passed += $4; failed += $6; skipped += $8 }
    END { print passed + 0, failed + 0, skipped + 0 }' "$log")
if ((status != 0 && failed == 0)); then
    echo "cargo test ended with status $status before every test had run" >&2
elif ((status == 0 && passed == 0)); then
    echo "no test has run" >&2
    status=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
