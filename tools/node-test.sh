#!/usr/bin/env bash
# Builds Node's addon and the class API and runs their tests; ends with `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/.."

tools/node-build.sh && tools/node-package.sh || exit 1
# The examples are tested too, with what they are drawn and shown by.
npm ci --silent --prefix examples/node || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
(cd js/lanthorn && node --expose-gc --test --test-reporter=tap test/*.test.mjs) 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

passed=$(sed -n 's/^# pass //p' "$log")
failed=$(sed -n 's/^# fail //p' "$log")
cancelled=$(sed -n 's/^# cancelled //p' "$log")
failed=$((${failed:-0} + ${cancelled:-0}))
if tools/node-generate.sh --check; then
    passed=$((${passed:-0} + 1))
else
    failed=$((failed + 1)) status=1
fi
if ((status != 0 && failed == 0)); then
    echo "node-test: the run ended with status $status before every test had run" >&2
fi
echo "${passed:-0} passed, $failed failed"
exit "$status"
