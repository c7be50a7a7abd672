#!/usr/bin/env bash
# Checks for wasm32-unknown-unknown every crate that a browser may carry, with SIMD128. Those that the modules of the
# browser carry are built by `web-build.sh`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/wasm-toolchain.sh
source tools/wasm-toolchain.sh

crates=(error blocks ir kernels linalg compiler session remote interp cpu gpu runtime nn)
# Without tokenizers, which stay out of a browser's modules.
without_tokenizers=(io llm)

wasm_toolchain check
export RUSTFLAGS="-C target-feature=+simd128"

check() {
    "${wasm_cargo[@]}" --locked --lib --target "$wasm_target" --target-dir "${CARGO_TARGET_DIR:-target}/wasm" "$@"
}

check "${crates[@]/#/--package=lanthorn-}"
check --no-default-features "${without_tokenizers[@]/#/--package=lanthorn-}"
echo "wasm-check: ${crates[*]} ${without_tokenizers[*]} hold for $wasm_target"
