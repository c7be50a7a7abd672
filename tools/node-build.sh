#!/usr/bin/env bash
# Builds Node's addon and puts it beside the package that loads it: tools/node-build.sh [--release].
#
# Where `cargo test --workspace` has just run (tools/test.sh says so in LANTHORN_TESTS_BUILT), with what that has built: a
# package alone has other features of its dependencies, and all of them would be compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=debug
for argument in "$@"; do
    [[ $argument == --release ]] && profile=release
done
packages=(--package lanthorn-node)
[[ -z ${LANTHORN_TESTS_BUILT:-} ]] || packages=(--workspace --lib --test command)
cargo build --locked "${packages[@]}" "$@"

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
