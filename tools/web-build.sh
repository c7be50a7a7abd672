#!/usr/bin/env bash
# Builds the three modules of the browser into js/lanthorn/web, lays their workers beside them, and prints their sizes:
#   page.wasm             the small module of the main thread
#   engine.wasm           the engine for one thread, for pages that are not cross-origin isolated
#   engine-threads.wasm   the engine with shared memory and worker threads
# The two engines differ in the features of all their code, the standard library's included, so nothing is shared but what
# runs while building.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/wasm-toolchain.sh
source tools/wasm-toolchain.sh

dist=js/lanthorn/web
target_folder=${CARGO_TARGET_DIR:-target}/web
# How far the shared memory may grow; the page may ask for less. Beyond 2 GiB some browsers refuse to reserve it.
max_memory=$((2 << 30))

export RUSTFLAGS=
wasm_toolchain link
base_flags="$RUSTFLAGS -C link-arg=--export=__stack_pointer"
thread_flags="-C link-arg=--shared-memory -C link-arg=--import-memory -C link-arg=--max-memory=$max_memory"
for name in __wasm_init_tls __tls_size __tls_align __tls_base; do
    thread_flags+=" -C link-arg=--export=$name"
done

build() { # build FEATURES FLAGS PACKAGE...
    local features=$1 flags=$2
    shift 2
    RUSTFLAGS="$base_flags -C target-feature=$features $flags" "${wasm_cargo[@]}" --locked --profile web \
        --target "$wasm_target" --target-dir "$target_folder" "${@/#/--package=}"
}

place() { # place MODULE NAME
    cp "$target_folder/$wasm_target/web/$1.wasm" "$dist/$2.wasm"
}

mkdir -p "$dist"
build +simd128 "" lanthorn-web-page lanthorn-web-engine
place lanthorn_web_page page
place lanthorn_web_engine engine
build +simd128,+atomics,+bulk-memory,+mutable-globals "$thread_flags" lanthorn-web-engine
place lanthorn_web_engine engine-threads

cp bindings/web/src/*.js "$dist"
for module in "$dist"/*.wasm; do
    printf '%-22s %8d bytes, %8d gzip\n' "$(basename "$module")" "$(wc -c <"$module")" "$(gzip -9c "$module" | wc -c)"
done
