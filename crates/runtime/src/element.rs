//! The Rust types that tensor elements have on the host.

use half::{bf16, f16};
use lanthorn_ir::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type with the bits of one dtype.
///
/// # Safety
///
/// `size_of::<Self>() == DTYPE.size()`, no padding, and every bit pattern that `from_bits` is
/// not asked to repair is a valid value.
pub unsafe trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The dtype whose elements this type holds.
    const DTYPE: DType;

    /// The elements of `bytes`, which may be of any alignment; a rest shorter than an element is left out.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;

    /// The bytes of elements.
    fn as_bytes(elements: &[Self]) -> &[u8] {
        // SAFETY: the trait promises that there is no padding; the length is that of the slice in bytes.
        unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
    }
}

macro_rules! plain {
    ($($element:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $element {}

        // SAFETY: a number type of the size of its dtype, without padding; every bit pattern is a value.
        unsafe impl Element for $element {
            const DTYPE: DType = DType::$dtype;

            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                let count = bytes.len() / size_of::<$element>();
                let mut elements: Vec<$element> = Vec::with_capacity(count);
                // SAFETY: the destination has room for `count` elements, the source holds as many bytes, and
                // whatever the bytes are, they are values of the type.
                unsafe {
                    let to: *mut u8 = elements.as_mut_ptr().cast();
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count * size_of::<$element>());
                    elements.set_len(count);
                }
                elements
            }
        }
    )*};
}

plain! {
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64,
}

impl sealed::Sealed for bool {}

// SAFETY: one byte; `from_bytes` makes any other byte than 0 and 1 a valid value.
unsafe impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn from_bytes(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }
}

/// The bytes of a float rounded to `dtype`, or of a whole number wrapped to it; `None` for a dtype without a
/// host type.
pub(crate) fn encode(value: lanthorn_ir::expr::Scalar, dtype: DType) -> Option<[u8; 8]> {
    use lanthorn_ir::expr::Scalar;
    let mut bytes = [0; 8];
    let mut put = |source: &[u8]| bytes[..source.len()].copy_from_slice(source);
    let float = value.as_f64();
    macro_rules! whole {
        ($element:ty) => {
            put(&match value {
                Scalar::Float(v) => (v.0 as $element).to_ne_bytes(),
                other => (other.as_i64() as $element).to_ne_bytes(),
            })
        };
    }
    match dtype {
        DType::Bool => put(&[(float != 0.0) as u8]),
        DType::U8 => whole!(u8),
        DType::U16 => whole!(u16),
        DType::U32 => whole!(u32),
        DType::U64 => whole!(u64),
        DType::I8 => whole!(i8),
        DType::I16 => whole!(i16),
        DType::I32 => whole!(i32),
        DType::I64 => whole!(i64),
        DType::F16 => put(&f16::from_f64(float).to_ne_bytes()),
        DType::BF16 => put(&bf16::from_f64(float).to_ne_bytes()),
        DType::F32 => put(&(float as f32).to_ne_bytes()),
        DType::F64 => put(&float.to_ne_bytes()),
        DType::F8E4M3 | DType::F8E5M2 | DType::C64 | DType::C128 => return None,
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_survive_bytes_of_any_alignment() {
        let mut bytes = vec![0u8];
        bytes.extend_from_slice(f32::as_bytes(&[1.5, -2.0]));
        assert_eq!(f32::from_bytes(&bytes[1..]), [1.5, -2.0]);
        assert_eq!(bool::from_bytes(&[0, 1, 7]), [false, true, true]);
        assert_eq!(i64::from_bytes(&[0; 7]), []);
    }
}
