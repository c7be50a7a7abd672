#!/usr/bin/env bash
# Writes js/lanthorn/src/generated from the op table of the engine; with --check only says whether it is stale.
#
# The example that prints the table is one of those that `cargo test --workspace` builds (see tools/node-build.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

table=$(mktemp)
trap 'rm -f "$table"' EXIT
example=${CARGO_TARGET_DIR:-target}/debug/examples/op_table
if [[ -n ${LANTHORN_TESTS_BUILT:-} && -x $example ]]; then
    "$example" >"$table"
else
    cargo run --quiet --locked --package lanthorn-session --example op_table >"$table"
fi
node js/lanthorn/scripts/generate-ops.mjs "$@" "$table"
