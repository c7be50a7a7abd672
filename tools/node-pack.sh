#!/usr/bin/env bash
# Packs Node's packages as they are published: tools/node-pack.sh OUT [--all] [NAME=FILE ...]. Without files it builds the
# addon of this machine, optimised, and packs it; a release names the file of every platform and says --all.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:?usage: tools/node-pack.sh OUT [--all] [NAME=FILE ...]}
shift
[[ " $* " == *=* ]] || tools/node-build.sh --release
tools/node-package.sh
node js/lanthorn/scripts/pack.mjs "$out" "$@"
