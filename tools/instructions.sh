#!/usr/bin/env bash
# Counts the instructions of one run of each workload of `lanthorn bench` (valgrind's callgrind, one thread, AVX2): figures
# that a busy machine does not move. docs/performance.md keeps them.
#
#   tools/instructions.sh [NAME ...]     names begin so; all but the largest by default
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "valgrind is not installed; apt-get install valgrind" >&2; exit 1; }
lanthorn=${CARGO_TARGET_DIR:-target}/release/lanthorn
[[ -x $lanthorn ]] || cargo build --release --locked --package lanthorn
if (($# == 0)); then
    set -- matmul_f32_256 matmul_f32_512 gemv skinny chain softmax layer_norm sum mean_axis0 argmax_axis1 argmax_axis0 eager_add conv2d_f32 conv2d_depthwise conv2d_grad max_pool2d mlp_step
fi

# count NAME TIMES
count() {
    LANTHORN_ISA=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$lanthorn" bench --only "$1" --just "$2" --threads 1 2>&1 | awk '/Collected/ { print $NF }'
}
for name in "$@"; do
    # What runs once, such as making the operands, is in both.
    printf '%-24s %15d\n' "$name" $((($(count "$name" 6) - $(count "$name" 2)) / 4))
done
