//! Index ramps, and the index of the largest or smallest element.

use half::{bf16, f16};
use lanthorn_ir::{DType, Error, Result};

use crate::pool::pool;

/// `0, 1, ..` as `dtype`.
///
/// # Safety
/// `out` holds `len` elements.
pub(super) unsafe fn iota(dtype: DType, out: *mut u8, len: usize) -> Result<()> {
    macro_rules! ramp {
        ($t:ty, |$i:ident| $value:expr) => {{
            let out = out as *mut $t;
            for $i in 0..len {
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

/// An element in an order in which NaN comes first.
trait Ordered: Copy {
    fn is_nan(self) -> bool;
    fn exceeds(self, other: Self) -> bool;
}

macro_rules! ordered_int {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            fn is_nan(self) -> bool {
                false
            }
            fn exceeds(self, other: Self) -> bool {
                self > other
            }
        }
    )*};
}
ordered_int!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! ordered_float {
    ($($t:ty),*) => {$(
        impl Ordered for $t {
            fn is_nan(self) -> bool {
                <$t>::is_nan(self)
            }
            fn exceeds(self, other: Self) -> bool {
                self > other
            }
        }
    )*};
}
ordered_float!(f16, bf16, f32, f64);

struct Addresses<T>(*const T, *mut i64);
// SAFETY: the input is only read and tasks write distinct results.
unsafe impl<T> Sync for Addresses<T> {}

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
    macro_rules! search {
        ($t:ty) => {
            // SAFETY: the caller's promise.
            unsafe { search::<$t>(source.cast(), shape, axis, largest, out) }
        };
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

unsafe fn search<T: Ordered>(source: *const T, shape: &[usize], axis: usize, largest: bool, out: &mut [i64]) {
    let length = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    let addresses = Addresses(source, out.as_mut_ptr());
    let one = |result: usize| {
        let Addresses(source, out) = &addresses;
        let start = result / inner * length * inner + result % inner;
        // SAFETY: indices lie in the dense value; this call alone writes the result.
        unsafe {
            let mut best = *source.add(start);
            let mut at = 0;
            for i in 1..length {
                if best.is_nan() {
                    break;
                }
                let x = *source.add(start + i * inner);
                if x.is_nan() || if largest { x.exceeds(best) } else { best.exceeds(x) } {
                    (best, at) = (x, i);
                }
            }
            out.add(result).write(at as i64);
        }
    };
    let per_task = (1 << 14) / length.max(1) + 1;
    let tasks = out.len().div_ceil(per_task);
    let count = out.len();
    let run = |task: usize| (task * per_task..count.min((task + 1) * per_task)).for_each(one);
    if tasks <= 1 {
        (0..tasks).for_each(run);
    } else {
        pool().run(tasks, &|task, _| run(task));
    }
}
