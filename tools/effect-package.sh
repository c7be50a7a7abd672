#!/usr/bin/env bash
# Installs what the packages for Effect (js/effect, js/backend-cpu) are built with, and builds their JavaScript. js/lanthorn
# is built before: tools/node-package.sh.
set -euo pipefail
cd "$(dirname "$0")/../js"

npm ci --silent
for package in effect backend-cpu; do
    npm run --silent build --workspace "@lanthorn/$package"
done
