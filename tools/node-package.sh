#!/usr/bin/env bash
# Installs what js/lanthorn is built with, and builds its JavaScript. For Node and for the browser.
set -euo pipefail
cd "$(dirname "$0")/../js/lanthorn"

command -v node >/dev/null || { echo "node-package: Node 20 or newer is needed; install nodejs and npm" >&2; exit 1; }
major=$(node --print 'process.versions.node.split(".")[0]')
((major >= 20)) || { echo "node-package: Node 20 or newer is needed, found $(node --version)" >&2; exit 1; }
npm ci --silent
npm run --silent build
