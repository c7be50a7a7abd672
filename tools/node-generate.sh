#!/usr/bin/env bash
# Writes js/lanthorn/src/generated from the op table of the engine; with --check only says whether it is stale.
set -euo pipefail
cd "$(dirname "$0")/.."

table=$(mktemp)
trap 'rm -f "$table"' EXIT
cargo run --quiet --locked --package lanthorn-session --example op_table >"$table"
node js/lanthorn/scripts/generate-ops.mjs "$@" "$table"
