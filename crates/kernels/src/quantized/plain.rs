//! Row after row is unpacked and multiplied as f32.

use lanthorn_blocks::Encoding;

use super::{QuantizedPlan, QuantizedShape};
use crate::pool::pool;

/// Rows of the weight that one task takes.
const TASK: usize = 16;

pub(super) fn scratch_floats(shape: &QuantizedShape, threads: usize) -> usize {
    shape.inner * threads
}

#[derive(Clone, Copy)]
struct Places {
    x: *const f32,
    blocks: *const u8,
    out: *mut f32,
    scratch: *mut f32,
}

// SAFETY: the operands are only read, tasks write distinct results, and every worker has scratch of its own.
unsafe impl Sync for Places {}

pub(super) unsafe fn linear(
    plan: &QuantizedPlan,
    x: *const f32,
    blocks: *const u8,
    out: *mut f32,
    scratch: *mut f32,
) {
    let QuantizedShape { rows, inner, outputs } = plan.shape;
    let places = Places { x, blocks, out, scratch };
    let places = &places;
    let row_bytes = inner / plan.encoding.block_elements() * plan.encoding.block_bytes();
    pool().run_on(plan.threads, outputs.div_ceil(TASK), &|task, worker| {
        for output in task * TASK..outputs.min((task + 1) * TASK) {
            // SAFETY: the row exists; the worker's scratch takes it.
            unsafe {
                let packed = std::slice::from_raw_parts(places.blocks.add(output * row_bytes), row_bytes);
                let weight = std::slice::from_raw_parts_mut(places.scratch.add(worker * inner), inner);
                let _ = plan.encoding.unpack(packed, weight);
                for row in 0..rows {
                    let x = std::slice::from_raw_parts(places.x.add(row * inner), inner);
                    *places.out.add(row * outputs + output) =
                        x.iter().zip(&*weight).map(|(x, w)| x * w).sum();
                }
            }
        }
    });
}

pub(super) unsafe fn dequantize(encoding: Encoding, blocks: *const u8, bytes: usize, elements: *mut f32) {
    let places = Places { x: std::ptr::null(), blocks, out: elements, scratch: std::ptr::null_mut() };
    let places = &places;
    let per_task = 256;
    let count = bytes / encoding.block_bytes();
    pool().run(count.div_ceil(per_task), &|task, _| {
        let first = task * per_task;
        let blocks = per_task.min(count - first);
        // SAFETY: the blocks exist, and their elements are this task's alone.
        unsafe {
            let at = places.blocks.add(first * encoding.block_bytes());
            let packed = std::slice::from_raw_parts(at, blocks * encoding.block_bytes());
            let at = places.out.add(first * encoding.block_elements());
            let elements = std::slice::from_raw_parts_mut(at, blocks * encoding.block_elements());
            let _ = encoding.unpack(packed, elements);
        }
    });
}
