#!/usr/bin/env bash
# Runs the kernels' tests on another processor: 64-bit ARM with NEON, emulated. Slow; for a change to what the kernels' vectors
# are made of (crates/kernels/src/simd) or to what unrolls over them.
#
#   tools/neon.sh [FILTER...]    of the tests' names
#
# Needs qemu-user, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross, and a Rust with the standard library's sources, which is
# built for ARM: a nightly with rust-src, or Debian's rustc-web, cargo-web and rust-web-src. Ends with status 3 where they are
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTUP_AUTO_INSTALL=0

need() {
    echo "neon: $1" >&2
    exit 3
}
command -v qemu-aarch64 >/dev/null || need "qemu-aarch64 is missing; apt-get install qemu-user"
command -v aarch64-linux-gnu-gcc >/dev/null ||
    need "a linker for ARM is missing; apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
library=lib/rustlib/src/rust/library/std
if [[ -d $(rustc +nightly --print sysroot 2>/dev/null)/$library ]]; then
    cargo=(cargo +nightly)
elif [[ -d /usr/$library && -x /usr/bin/rustc && -x /usr/bin/cargo ]]; then
    cargo=(/usr/bin/cargo)
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1
else
    need "the sources of the standard library are missing; rustup toolchain install nightly --component rust-src"
fi

# The large products and tests of 2 GiB take hours there.
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
    LANTHORN_THREADS=2 PROPTEST_CASES=8 \
    "${cargo[@]}" test --locked -Zbuild-std --target aarch64-unknown-linux-gnu \
    --package lanthorn-kernels --lib -- --skip large_products "$@"
