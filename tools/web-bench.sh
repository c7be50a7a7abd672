#!/usr/bin/env bash
# Measures the browser's face beside TensorFlow.js (installed once, outside the tree) and merges the rows into
# out/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=$(benches/peers/tfjs.sh)
tools/node-package.sh
tools/web-build.sh
npm ci --loglevel=error --prefix bindings/web
node bindings/web/bench/web.mjs "${OUT:-out}/bench.json" "$peers"
