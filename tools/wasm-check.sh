#!/usr/bin/env bash
# Builds for wasm32-unknown-unknown every crate that a browser carries, with SIMD128. Libraries are not linked, so no
# linker is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/wasm-toolchain.sh
source tools/wasm-toolchain.sh

crates=(error ir kernels linalg compiler session remote interp cpu gpu runtime nn llm)

wasm_toolchain check
export RUSTFLAGS="-C target-feature=+simd128"

build() {
    "${wasm_cargo[@]}" --locked --lib --target "$wasm_target" --target-dir "${CARGO_TARGET_DIR:-target}/wasm" "$@"
}

build "${crates[@]/#/--package=lanthorn-}"
# Reads its formats from bytes there; tokenizers stay out.
build --package=lanthorn-io --no-default-features
echo "wasm-check: ${crates[*]} and io build for $wasm_target"
