#!/usr/bin/env bash
# Builds the three modules of the browser into js/lanthorn/web, lays their workers beside them, and prints their sizes:
#   page.wasm             the small module of the main thread
#   engine.wasm           the engine for one thread, for pages that are not cross-origin isolated
#   engine-threads.wasm   the engine with shared memory and worker threads
# The two engines differ in the features of their standard library, so each has its own target folder.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/wasm-toolchain.sh
source tools/wasm-toolchain.sh

dist=js/lanthorn/web
target_folder=${CARGO_TARGET_DIR:-target}
# How far the shared memory may grow; the page may ask for less. Beyond 2 GiB some browsers refuse to reserve it.
max_memory=$((2 << 30))

export RUSTFLAGS=
wasm_toolchain link
base_flags="$RUSTFLAGS -C link-arg=--export=__stack_pointer"
thread_flags="-C link-arg=--shared-memory -C link-arg=--import-memory -C link-arg=--max-memory=$max_memory"
for name in __wasm_init_tls __tls_size __tls_align __tls_base; do
    thread_flags+=" -C link-arg=--export=$name"
done

build() { # build FOLDER FEATURES FLAGS PACKAGE...
    local folder=$target_folder/$1 features=$2 flags=$3
    shift 3
    RUSTFLAGS="$base_flags -C target-feature=$features $flags" "${wasm_cargo[@]}" --locked --profile web \
        --target "$wasm_target" --target-dir "$folder" "${@/#/--package=}"
}

place() { # place FOLDER MODULE NAME
    cp "$target_folder/$1/$wasm_target/web/$2.wasm" "$dist/$3.wasm"
}

mkdir -p "$dist"
build web +simd128 "" lanthorn-web-page lanthorn-web-engine
place web lanthorn_web_page page
place web lanthorn_web_engine engine
build web-threads +simd128,+atomics,+bulk-memory,+mutable-globals "$thread_flags" lanthorn-web-engine
place web-threads lanthorn_web_engine engine-threads

cp bindings/web/src/*.js "$dist"
for module in "$dist"/*.wasm; do
    printf '%-22s %8d bytes, %8d gzip\n' "$(basename "$module")" "$(wc -c <"$module")" "$(gzip -9c "$module" | wc -c)"
done
