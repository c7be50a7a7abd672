#!/usr/bin/env bash
# Builds Node's addon and the packages for Effect and runs their tests: of behaviour and of types. Ends with one line:
# N passed, N failed, N skipped. LANTHORN_NODE_BUILT says that all is built.
set -uo pipefail
cd "$(dirname "$0")/.."

[[ -n ${LANTHORN_NODE_BUILT:-} ]] || { tools/node-build.sh && tools/node-package.sh; } || exit 1
# Examples are tested too, with what they are drawn and shown by.
npm ci --loglevel=error --prefix examples/node || exit 1
source tools/node-counts.sh
# Programs in TypeScript are tests as well, once they are compiled.
(cd js/effect && npx --no-install tsc -p test) || exit 1
test_package js/effect effect 'out/test/*.test.*js'
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
