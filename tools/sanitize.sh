#!/usr/bin/env bash
# Looks for undefined behaviour, data races and leaks where there is unsafe code and where threads meet: the memory pool
# and the storages, the thread pool, the executable cache.
#
#   tools/sanitize.sh            both
#   tools/sanitize.sh miri       an interpreter: every access is checked; the portable kernels, many schedules of the threads
#   tools/sanitize.sh threads    ThreadSanitizer over machine code: SIMD kernels and many more tests, races only
#
# Both need a nightly toolchain with Miri and the standard library's sources. Ends with status 3 where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTUP_AUTO_INSTALL=0

need() {
    echo "sanitize: $1; rustup toolchain install nightly --component miri --component rust-src" >&2
    exit 3
}
cargo +nightly --version >/dev/null 2>&1 || need "there is no nightly toolchain"
cargo +nightly miri --version >/dev/null 2>&1 || need "the nightly toolchain lacks Miri"
[[ -d $(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library ]] || need "the nightly toolchain lacks rust-src"

# miri THREADS FLAGS ARGUMENTS...
miri() {
    local threads=$1 flags=$2
    shift 2
    echo "sanitize: miri, $threads threads: $*"
    # Miri has no vector instructions of a machine; naming the portable ones makes sure that it is they that run.
    LANTHORN_ISA=scalar LANTHORN_THREADS=$threads MIRIFLAGS="-Zmiri-disable-isolation $flags" \
        cargo +nightly miri test --locked --quiet "$@"
}

under_miri() {
    miri 1 "" --package lanthorn-runtime --lib
    # With one thread nothing outlives the tests, so leaks are looked for. The test left out only repeats a call.
    miri 1 "" --package lanthorn-runtime --test it -- on_cpu::executable --skip keeps_memory_flat
    # The pool's workers live as long as the process, which Miri would call a leak.
    miri 3 "-Zmiri-ignore-leaks -Zmiri-many-seeds=0..8" --package lanthorn-kernels --lib -- pool::tests interrupt::tests
}

# threads ARGUMENTS...
threads() {
    echo "sanitize: ThreadSanitizer: $*"
    RUSTFLAGS=-Zsanitizer=thread TSAN_OPTIONS=halt_on_error=1 LANTHORN_THREADS=4 PROPTEST_CASES=4 \
        cargo +nightly test --locked --quiet -Zbuild-std --target "$host" "$@"
}

under_thread_sanitizer() {
    host=$(rustc +nightly --print host-tuple)
    # It refuses threads in a forked child; the large products take minutes.
    threads --package lanthorn-kernels --lib -- --skip forked_child --skip large_products
    threads --package lanthorn-runtime --lib --test it -- --skip on_reference --skip on_remote
}

case ${1-both} in
    miri) under_miri ;;
    threads) under_thread_sanitizer ;;
    both)
        under_miri
        under_thread_sanitizer
        ;;
    *) echo "usage: tools/sanitize.sh [miri|threads]" >&2; exit 2 ;;
esac
echo "sanitize: nothing found"
