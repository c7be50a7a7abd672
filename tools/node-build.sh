#!/usr/bin/env bash
# Builds Node's addon and puts it beside the package that loads it: tools/node-build.sh [--release].
set -euo pipefail
cd "$(dirname "$0")/.."

profile=debug
for argument in "$@"; do
    [[ $argument == --release ]] && profile=release
done
cargo build --locked --package lanthorn-node "$@"

folder=${CARGO_TARGET_DIR:-target}/$profile
for library in liblanthorn_node.so liblanthorn_node.dylib lanthorn_node.dll; do
    [[ -f $folder/$library ]] || continue
    # Moved, not copied over: a process may be running in the old one.
    cp "$folder/$library" js/lanthorn/lanthorn.node.tmp
    mv js/lanthorn/lanthorn.node.tmp js/lanthorn/lanthorn.node
    exit
done
echo "node-build: cargo has left no library in $folder" >&2
exit 1
