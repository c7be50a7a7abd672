#!/usr/bin/env bash
# Installs TensorFlow.js, the peer of Node and of browsers, once and outside the tree; prints the folder.
set -euo pipefail

peers=${XDG_CACHE_HOME:-$HOME/.cache}/lanthorn/node-peers
if [[ ! -d $peers/node_modules/@tensorflow/tfjs-backend-wasm || ! -d $peers/node_modules/@tensorflow/tfjs ]]; then
    mkdir -p "$peers"
    npm install --loglevel=error --prefix "$peers" --no-audit --no-fund --omit=optional \
        @tensorflow/tfjs@4.22.0 @tensorflow/tfjs-core@4.22.0 @tensorflow/tfjs-backend-cpu@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0 >&2
fi
echo "$peers"
