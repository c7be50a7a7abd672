//! A cache of keys and values in blocks.

use half::{bf16, f16};
use lanthorn_ir::prim::Paged;
use lanthorn_ir::prim::paged::Lookback;
use lanthorn_ir::{DType, Error, Result};
use lanthorn_kernels::attention::{PagedOptions, Pool, Tables, paged_attention, paged_update};
use lanthorn_kernels::rows::{Cpu, Element, Scratch};

use super::prims::Operands;

/// # Safety
/// The operands are those of the primitive, dense but for the queries, whose last axis is.
pub(super) unsafe fn run(cpu: Cpu, paged: &Paged, call: &Operands<'_>, scratch: Scratch<'_>) -> Result<()> {
    // SAFETY: the caller's promise; dtypes are those that `infer` has accepted.
    unsafe {
        match paged {
            Paged::Update => {
                let (shape, dtype, rows) = (call.shape(0), call.dtype(0), call.shape(1));
                let width = shape[2..].iter().product::<usize>() * dtype.size();
                let bytes = rows.iter().product::<usize>() * dtype.size();
                let new = std::slice::from_raw_parts(call.address(1), bytes);
                let sizes = [shape[0], shape[1], width];
                paged_update(cpu, sizes, call.address(0), new, rows[1], tables(call), call.target(0))
            }
            Paged::Attention(lookback) => match call.dtype(1) {
                DType::F32 => attend::<f32, f32>(cpu, lookback, call, scratch),
                DType::BF16 => attend::<f32, bf16>(cpu, lookback, call, scratch),
                DType::F16 => attend::<f32, f16>(cpu, lookback, call, scratch),
                DType::I8 => attend::<f32, i8>(cpu, lookback, call, scratch),
                DType::F64 => attend::<f64, f64>(cpu, lookback, call, scratch),
                other => {
                    Err(Error::dtype(call.name(), format!("the cpu has no kernel for pools of {other}")))
                }
            },
        }
    }
}

/// The last three operands.
unsafe fn tables<'a>(call: &Operands<'a>) -> Tables<'a> {
    let count = call.inputs();
    // SAFETY: dense, of i32 by `infer`.
    unsafe {
        Tables { tables: call.slice(count - 3), starts: call.slice(count - 2), counts: call.slice(count - 1) }
    }
}

/// # Safety
/// As [`run`], of queries of `E` and pools of `K`.
unsafe fn attend<E: Element, K: Element<Wide = E::Wide>>(
    cpu: Cpu,
    lookback: &Lookback,
    call: &Operands<'_>,
    scratch: Scratch<'_>,
) -> Result<()> {
    let shape = call.shape(1);
    let options = PagedOptions {
        shape: [shape[0], shape[1], shape[2], shape[3]],
        scale: lookback.scale.0,
        window: lookback.window,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let pool = |at: usize| Pool {
            rows: call.slice::<K>(at),
            scales: lookback.scaled.then(|| call.slice::<f32>(at + 2)),
        };
        let (q, o) = (call.heads::<E>(0), call.slice_mut(0));
        paged_attention(cpu, q, pool(1), pool(2), tables(call), &options, o, scratch)
    }
}
