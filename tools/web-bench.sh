#!/usr/bin/env bash
# Measures the browser's face beside TensorFlow.js (installed once, outside the tree) and merges the rows into
# out/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=${XDG_CACHE_HOME:-$HOME/.cache}/lanthorn/node-peers
if [[ ! -d $peers/node_modules/@tensorflow/tfjs-backend-wasm ]]; then
    mkdir -p "$peers"
    npm install --silent --prefix "$peers" --no-audit --no-fund --omit=optional \
        @tensorflow/tfjs-core@4.22.0 @tensorflow/tfjs-backend-cpu@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0
fi
tools/node-package.sh
tools/web-build.sh
npm ci --silent --prefix bindings/web
node bindings/web/bench/web.mjs "${OUT:-out}/bench.json" "$peers"
