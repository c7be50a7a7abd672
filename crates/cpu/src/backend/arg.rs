//! Index ramps, and the index of the largest or smallest element.

use half::{bf16, f16};
use lanthorn_ir::{DType, Error, Result};
use lanthorn_kernels::interrupt::stretches;

use crate::rows;

/// `0, 1, ..` as `dtype`.
///
/// # Safety
/// `out` holds `len` elements.
pub(super) unsafe fn iota(dtype: DType, out: *mut u8, len: usize) -> Result<()> {
    macro_rules! ramp {
        ($t:ty, |$i:ident| $value:expr) => {{
            let out = out as *mut $t;
            for $i in stretches(len, 1 << 16).flatten() {
                // SAFETY: the caller's promise.
                unsafe { out.add($i).write($value) };
            }
        }};
    }
    match dtype {
        DType::U8 => ramp!(u8, |i| i as u8),
        DType::U16 => ramp!(u16, |i| i as u16),
        DType::U32 => ramp!(u32, |i| i as u32),
        DType::U64 => ramp!(u64, |i| i as u64),
        DType::I8 => ramp!(i8, |i| i as i8),
        DType::I16 => ramp!(i16, |i| i as i16),
        DType::I32 => ramp!(i32, |i| i as i32),
        DType::I64 => ramp!(i64, |i| i as i64),
        DType::F16 => ramp!(f16, |i| f16::from_f32(i as f32)),
        DType::BF16 => ramp!(bf16, |i| bf16::from_f32(i as f32)),
        DType::F32 => ramp!(f32, |i| i as f32),
        DType::F64 => ramp!(f64, |i| i as f64),
        other => return Err(Error::dtype("iota", format!("the cpu does not count in {other}"))),
    }
    Ok(())
}

/// The index along `axis` of the first largest (or smallest) element; NaN wins over all numbers.
///
/// # Safety
/// `source` holds a dense value of `dtype` and `shape`.
pub(super) unsafe fn arg_extreme(
    dtype: DType,
    source: *const u8,
    shape: &[usize],
    axis: usize,
    largest: bool,
    out: &mut [i64],
) -> Result<()> {
    let sizes = [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product()];
    macro_rules! search {
        ($t:ty) => {{
            // SAFETY: the caller's promise.
            let x = unsafe { std::slice::from_raw_parts(source.cast::<$t>(), sizes.iter().product()) };
            rows::arg_extreme(x, sizes, largest, out);
        }};
    }
    match dtype {
        DType::U8 => search!(u8),
        DType::U16 => search!(u16),
        DType::U32 => search!(u32),
        DType::U64 => search!(u64),
        DType::I8 => search!(i8),
        DType::I16 => search!(i16),
        DType::I32 => search!(i32),
        DType::I64 => search!(i64),
        DType::F16 => search!(f16),
        DType::BF16 => search!(bf16),
        DType::F32 => search!(f32),
        DType::F64 => search!(f64),
        other => return Err(Error::dtype("argmax", format!("the cpu does not compare {other}"))),
    }
    Ok(())
}
