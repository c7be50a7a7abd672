#!/usr/bin/env bash
# Installs what the packages of js are built with, and builds their JavaScript: js/lanthorn, which is for Node and for the
# browser, and what stands on it.
set -euo pipefail
cd "$(dirname "$0")/../js"

command -v node >/dev/null || { echo "node-package: Node 20 or newer is needed; install nodejs and npm" >&2; exit 1; }
major=$(node --print 'process.versions.node.split(".")[0]')
((major >= 20)) || { echo "node-package: Node 20 or newer is needed, found $(node --version)" >&2; exit 1; }
npm ci --loglevel=error --prefix lanthorn
npm run --silent --prefix lanthorn build
# What stands on `effect` is a workspace, so that there is one `effect`.
npm ci --loglevel=error
for package in effect backend-cpu tokenizers; do
    npm run --silent --prefix "$package" build
done
