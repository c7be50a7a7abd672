#!/usr/bin/env bash
# Finds a Rust that builds for wasm32-unknown-unknown; to be sourced. Sets `wasm_cargo`, the command to call, and what
# it needs in the environment, and adds to RUSTFLAGS where a linker must be named.
#
# Two toolchains will do, tried in this order:
#   1. the Rust on the PATH, if its wasm32-unknown-unknown target is installed (threads also need its rust-src, because
#      the standard library must be built with atomics);
#   2. Debian's rustc-web, cargo-web and rust-web-src, which come with the standard library's source: it is compiled
#      along (-Zbuild-std, about half a minute on 2 cores, kept in the target folder). Installed here if they are not
#      there and this is Debian and we may.

wasm_target=wasm32-unknown-unknown
wasm_packages=(rustc-web cargo-web rust-web-src)
unset CARGO_BUILD_TARGET CARGO_ENCODED_RUSTFLAGS RUSTC RUSTC_WRAPPER

at_least() { # at_least VERSION LEAST
    [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

debian_version() {
    [[ -x /usr/bin/rustc && -x /usr/bin/cargo && -d /usr/lib/rustlib/src/rust/library/std ]] &&
        /usr/bin/rustc --version | cut -d ' ' -f 2
}

# install_debian PACKAGE...
install_debian() {
    command -v apt-get >/dev/null || return 1
    local as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    echo "installing $*"
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# wasm_toolchain check|link: to check only, or to build and link modules, with and without atomics
wasm_toolchain() {
    local purpose=$1 sysroot version needed
    local -A verb=([check]=check [link]=build)
    sysroot=$(rustc --print sysroot 2>/dev/null) || sysroot=
    if [[ -d $sysroot/lib/rustlib/$wasm_target ]] &&
        [[ $purpose == check || -d $sysroot/lib/rustlib/src/rust/library/std ]]; then
        wasm_cargo=(cargo "${verb[$purpose]}")
        if [[ $purpose == link ]]; then
            export RUSTC_BOOTSTRAP=1
            wasm_cargo+=(-Zbuild-std=std,panic_abort)
        fi
        return
    fi
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    [[ $purpose == check ]] || wasm_packages+=(lld-19)
    version=$(debian_version) || version=
    if [[ -z $version ]] || ! at_least "$version" "$needed" ||
        [[ $purpose == link && ! -x /usr/lib/llvm-19/bin/wasm-ld ]]; then
        install_debian "${wasm_packages[@]}" || true
        version=$(debian_version) || version=
    fi
    if [[ -z $version ]] || ! at_least "$version" "$needed"; then
        echo "no Rust $needed or newer for $wasm_target (found: ${version:-none}); run" \
            "'rustup target add $wasm_target' and 'rustup component add rust-src', or on Debian" \
            "'apt-get install ${wasm_packages[*]}'" >&2
        return 1
    fi
    export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
    wasm_cargo=(/usr/bin/cargo "${verb[$purpose]}" -Zbuild-std=std,panic_abort)
    if [[ $purpose == link ]]; then
        RUSTFLAGS="${RUSTFLAGS:-} -C linker=/usr/lib/llvm-19/bin/wasm-ld"
    fi
}
