#!/usr/bin/env bash
# Builds for wasm32-unknown-unknown every crate that a browser carries, with SIMD128.
#
# Two toolchains will do, tried in this order:
#   1. the Rust on the PATH, if its wasm32-unknown-unknown target is installed;
#   2. Debian's rustc-web, cargo-web and rust-web-src, which come with the standard library's source: it is compiled
#      along (-Zbuild-std, about half a minute on 2 cores, kept in the target folder). Installed here if they are not
#      there and this is Debian and we may.
# Libraries are not linked, so no linker is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-unknown-unknown
packages=(rustc-web cargo-web rust-web-src)
crates=(ir compiler session interp cpu gpu runtime nn llm)
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

export RUSTFLAGS="-C target-feature=+simd128"
unset CARGO_BUILD_TARGET CARGO_ENCODED_RUSTFLAGS RUSTC RUSTC_WRAPPER

at_least() { # at_least VERSION LEAST
    [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

debian_version() {
    [[ -x /usr/bin/rustc && -x /usr/bin/cargo && -d /usr/lib/rustlib/src/rust/library/std ]] &&
        /usr/bin/rustc --version | cut -d ' ' -f 2
}

install_debian() {
    command -v apt-get >/dev/null || return 1
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    echo "wasm-check: installing ${packages[*]}"
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
}

cargo_command=(cargo build)
if [[ ! -d $(rustc --print sysroot 2>/dev/null)/lib/rustlib/$target ]]; then
    version=$(debian_version) || version=
    if [[ -z $version ]] || ! at_least "$version" "$needed"; then
        install_debian || true
        version=$(debian_version) || version=
    fi
    if [[ -z $version ]] || ! at_least "$version" "$needed"; then
        echo "wasm-check: no Rust $needed or newer for $target (found: ${version:-none}); run" \
            "'rustup target add $target', or on Debian 'apt-get install ${packages[*]}'" >&2
        exit 1
    fi
    export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
    cargo_command=(/usr/bin/cargo build -Zbuild-std=std,panic_abort)
fi

build() {
    "${cargo_command[@]}" --locked --lib --target "$target" --target-dir "${CARGO_TARGET_DIR:-target}/wasm" "$@"
}

build "${crates[@]/#/--package=lanthorn-}"
# Reads its formats from bytes there; tokenizers stay out.
build --package=lanthorn-io --no-default-features
echo "wasm-check: ${crates[*]} and io build for $target"
