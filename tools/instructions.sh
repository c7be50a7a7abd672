#!/usr/bin/env bash
# Counts the instructions of one run of each workload of `lanthorn bench` (valgrind's callgrind, one thread, AVX2): figures
# that a busy machine does not move. docs/performance.md keeps them. `build_op` is an op of a graph that is built and
# released, as bindings do it (crates/session/examples/op_cost.rs).
#
#   tools/instructions.sh [NAME ...]     names begin so; all but the largest by default
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "valgrind is not installed; apt-get install valgrind" >&2; exit 1; }
release=${CARGO_TARGET_DIR:-target}/release
if (($# == 0)); then
    set -- matmul_f32_256 matmul_f32_512 gemv skinny chain softmax layer_norm sum mean_axis0 argmax_axis1 argmax_axis0 eager_add build_op conv2d_f32 conv2d_depthwise conv2d_grad max_pool2d mlp_step
fi

# instructions PROGRAM ARGUMENT...
instructions() {
    LANTHORN_ISA=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 | awk '/Collected/ { print $NF }'
}
# count NAME TIMES
count() {
    if [[ $1 == build_op ]]; then
        instructions "$release/examples/op_cost" "$2"
    else
        instructions "$release/lanthorn" bench --only "$1" --just "$2" --threads 1
    fi
}
for name in "$@"; do
    if [[ $name == build_op ]]; then
        [[ -x $release/examples/op_cost ]] || cargo build --release --locked --package lanthorn-session --example op_cost
        few=1000 many=3000
    else
        [[ -x $release/lanthorn ]] || cargo build --release --locked --package lanthorn
        few=2 many=6
    fi
    # What runs once, such as making the operands, is in both.
    printf '%-24s %15d\n' "$name" $((($(count "$name" $many) - $(count "$name" $few)) / (many - few)))
done
