//! Gather, scatter, scans, sorts and random values: from operands to the plain kernels.

use half::{bf16, f16};
use lanthorn_ir::prim::{Random, Scan, ScanOp, ScatterOp, Sort};
use lanthorn_ir::{DType, Error, Result};

use super::prims::Operands;
use lanthorn_kernels::plain::number::Number;
use lanthorn_kernels::plain::place::{self, Half, Meeting, Places};
use lanthorn_kernels::plain::scan::{self, Combine, Lines};
use lanthorn_kernels::plain::sort;
use lanthorn_kernels::rows::{self, Cpu, RandomKey, Scratch};

/// Runs `$body` with `$T` bound to the element type of a real dtype; a truth value is a u8.
macro_rules! with_number {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        with_number!(@ $op, $dtype, $T => $body,
            Bool u8, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 f16, BF16 bf16, F32 f32, F64 f64)
    };
    (@ $op:expr, $dtype:expr, $T:ident => $body:expr, $($name:ident $t:ty),*) => {
        match $dtype {
            $(DType::$name => {
                type $T = $t;
                $body
            })*
            other => Err(Error::dtype($op, format!("the cpu has no kernel for {other}; cast to f32 first"))),
        }
    };
}

/// Runs `$body` with `$T` bound to an element type of that size.
macro_rules! by_size {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            size => Err(Error::dtype($op, format!("the cpu moves no elements of {size} bytes"))),
        }
    };
}

/// # Safety
/// The operands are those of the gather.
pub(super) unsafe fn gather(cpu: Cpu, axis: usize, call: &Operands<'_>) -> Result<()> {
    let (dtype, x) = call.input(0);
    let shape = &call.input(1).1.shape;
    // SAFETY: `infer` made the layouts and shapes fit; the ids are checked by the kernel.
    by_size!("gather", dtype, T => unsafe {
        let ids = call.indices(1)?;
        let out = call.slice_mut::<T>(0);
        place::gather(cpu, call.address(0).cast::<T>(), &x.strides, axis, x.shape[axis], ids, shape, out)
    })
}

/// # Safety
/// The operands are those of the scatter, dense.
pub(super) unsafe fn scatter(
    name: &str,
    axis: usize,
    op: ScatterOp,
    call: &Operands<'_>,
    mut scratch: Scratch<'_>,
) -> Result<()> {
    let (dtype, base) = call.input(0);
    let shape = &call.input(1).1.shape;
    // SAFETY: the caller's promise; the output is either the base's own memory or apart from it.
    unsafe {
        let places = Places { op: name, axis, ids: call.indices(1)?, shape, target: &base.shape };
        let meeting = match op {
            ScatterOp::Set => {
                return by_size!(name, dtype, T => {
                    copy_base::<T>(call);
                    place::scatter_set(&places, call.slice::<T>(2), call.slice_mut::<T>(0))
                });
            }
            ScatterOp::Add => Meeting::Add,
            ScatterOp::Mul => Meeting::Mul,
            ScatterOp::Min => Meeting::Min,
            ScatterOp::Max => Meeting::Max,
        };
        let is_wide = matches!(op, ScatterOp::Add | ScatterOp::Mul);
        match dtype {
            DType::F16 if is_wide => wide::<f16>(&places, meeting, call, &mut scratch),
            DType::BF16 if is_wide => wide::<bf16>(&places, meeting, call, &mut scratch),
            _ => with_number!(name, dtype, T => {
                copy_base::<T>(call);
                place::scatter_into(&places, meeting, call.slice::<T>(2), call.slice_mut::<T>(0))
            }),
        }
    }
}

/// Bytes of scratch that a scatter needs.
pub(super) fn scatter_scratch_bytes(op: ScatterOp, dtype: DType, numel: usize) -> usize {
    let is_half = matches!(dtype, DType::F16 | DType::BF16);
    if is_half && matches!(op, ScatterOp::Add | ScatterOp::Mul) { Scratch::bytes_of::<f32>(numel) } else { 0 }
}

unsafe fn wide<T: Half>(
    places: &Places<'_>,
    meeting: Meeting,
    call: &Operands<'_>,
    scratch: &mut Scratch<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        copy_base::<T>(call);
        let out = call.slice_mut::<T>(0);
        let room = scratch.take::<f32>(out.len());
        room.iter_mut().for_each(|element| {
            element.write(0.0);
        });
        // Every element was written just now.
        let room = std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<f32>(), room.len());
        place::scatter_wide(places, meeting, call.slice::<T>(2), room, out)
    }
}

/// Copies the base to the output, where it is not there already.
unsafe fn copy_base<T: Copy>(call: &Operands<'_>) {
    // SAFETY: both are dense and of one shape; `copy` allows that they are one.
    unsafe {
        let out = call.slice_mut::<T>(0);
        std::ptr::copy(call.address(0).cast::<T>(), out.as_mut_ptr(), out.len());
    }
}

/// # Safety
/// The operands are those of the scan, dense.
pub(super) unsafe fn scan(cpu: Cpu, name: &str, scan: &Scan, call: &Operands<'_>) -> Result<()> {
    let Scan::Cumulative { op, axis, reverse } = *scan;
    let (dtype, layout) = call.input(0);
    let lines = Lines::new(&layout.shape, axis);
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            ScanOp::Sum | ScanOp::Prod => {
                let combine = if op == ScanOp::Sum { Combine::Sum } else { Combine::Prod };
                with_number!(name, dtype, T => {
                    scan::fold::<T>(cpu, combine, lines, reverse, call.slice(0), call.slice_mut(0));
                    Ok(())
                })
            }
            ScanOp::Max | ScanOp::Min => with_number!(name, dtype, T => {
                let (x, values, places) = (call.slice::<T>(0), call.slice_mut(0), call.slice_mut(1));
                scan::extreme(cpu, op == ScanOp::Max, lines, reverse, x, values, places);
                Ok(())
            }),
            ScanOp::LogSumExp => match dtype {
                DType::F64 => log_sum_exp::<f64>(cpu, lines, reverse, call),
                DType::F32 => log_sum_exp::<f32>(cpu, lines, reverse, call),
                DType::F16 => log_sum_exp::<f16>(cpu, lines, reverse, call),
                DType::BF16 => log_sum_exp::<bf16>(cpu, lines, reverse, call),
                other => Err(Error::dtype(name, format!("the cpu has no kernel for {other}"))),
            },
        }
    }
}

unsafe fn log_sum_exp<T: Number<Wide = f64>>(
    cpu: Cpu,
    lines: Lines,
    reverse: bool,
    call: &Operands<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { scan::log_sum_exp::<T>(cpu, lines, reverse, call.slice(0), call.slice_mut(0)) };
    Ok(())
}

/// # Safety
/// The operands are those of the sort, dense.
pub(super) unsafe fn sort(cpu: Cpu, sort: &Sort, call: &Operands<'_>) -> Result<()> {
    let Sort::Stable { axis, descending } = *sort;
    let (dtype, layout) = call.input(0);
    let lines = Lines::new(&layout.shape, axis);
    // SAFETY: the caller's promise.
    with_number!("sort", dtype, T => unsafe {
        let (x, values, places) = (call.slice::<T>(0), call.slice_mut(0), call.slice_mut(1));
        sort::sort(cpu, lines, descending, x, values, places);
        Ok(())
    })
}

/// Values of each key in turn.
///
/// # Safety
/// The operands are those of the random primitive.
pub(super) unsafe fn random(cpu: Cpu, random: &Random, call: &Operands<'_>) -> Result<()> {
    let count = random.shape().iter().product::<usize>();
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe {
        for (at, key) in call.slice::<u64>(0).chunks_exact(2).enumerate() {
            let key = RandomKey { seed: key[0], draw: key[1], stream: random.stream() };
            let part = at * count..(at + 1) * count;
            match random {
                Random::Uniform { .. } => rows::uniform(cpu, key, &mut call.slice_mut(0)[part]),
                Random::Normal { .. } => rows::normal(cpu, key, &mut call.slice_mut(0)[part]),
                Random::Bits { dtype: DType::U64, .. } => {
                    rows::long_words(cpu, key, &mut call.slice_mut(0)[part]);
                }
                Random::Bits { .. } => rows::words(cpu, key, &mut call.slice_mut(0)[part]),
            }
        }
    }
    Ok(())
}
