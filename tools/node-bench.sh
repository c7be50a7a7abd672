#!/usr/bin/env bash
# Measures Node's face beside TensorFlow.js (installed once, outside the tree) and merges the rows into out/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=$(benches/peers/tfjs.sh)
tools/node-build.sh --release
tools/node-package.sh
command=${CARGO_TARGET_DIR:-target}/release/lanthorn
[[ -x $command ]] || cargo build --release --locked --package lanthorn
node --expose-gc js/lanthorn/bench/node.mjs "${OUT:-out}/bench.json" "$peers" "$command"
(cd js && npm ci --loglevel=error && npx --no-install tsc -p effect && npx --no-install tsc -p backend-cpu)
node --expose-gc js/effect/bench/training.mjs "${OUT:-out}/bench.json" "$peers" "$command"
