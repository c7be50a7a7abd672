//! The Rust types that tensor elements have on the host.

use half::{bf16, f16};
use lanthorn_ir::DType;
use lanthorn_ir::float8::{F8E4M3, F8E5M2};

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
    F8E4M3 => F8E4M3, F8E5M2 => F8E5M2,
    // Real and imaginary part.
    [f32; 2] => C64, [f64; 2] => C128,
}

impl sealed::Sealed for bool {}

// SAFETY: one byte; `from_bytes` makes any other byte than 0 and 1 a valid value.
unsafe impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn from_bytes(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }
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
