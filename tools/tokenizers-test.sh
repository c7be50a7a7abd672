#!/usr/bin/env bash
# Builds Node's addon and js/tokenizers and runs the tests of that package: of behaviour and of types. Ends with one line:
# N passed, N failed, N skipped. LANTHORN_NODE_BUILT says that all is built.
set -uo pipefail
cd "$(dirname "$0")/.."

[[ -n ${LANTHORN_NODE_BUILT:-} ]] || { tools/node-build.sh && tools/node-package.sh; } || exit 1
source tools/node-counts.sh
test_package js/tokenizers tokenizers
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
