//! Tensors in host memory: typed storage, row-major, without views.

use std::sync::Arc;

use half::{bf16, f16};
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::float8::{F8E4M3, F8E5M2};
use lanthorn_ir::{DType, Error, Result, TensorType};

/// One element, at full width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Float(f64),
    /// Holds every integer type.
    Int(i128),
    Bool(bool),
    /// Real and imaginary part.
    Complex(f64, f64),
}

impl Number {
    /// As a float; `true` is 1, and of a complex number it is the real part.
    pub fn float(self) -> f64 {
        match self {
            Number::Float(v) | Number::Complex(v, _) => v,
            Number::Int(v) => v as f64,
            Number::Bool(v) => v as u8 as f64,
        }
    }

    /// The imaginary part.
    pub fn imaginary(self) -> f64 {
        match self {
            Number::Complex(_, v) => v,
            _ => 0.0,
        }
    }

    /// As an f32, which is also the way to every narrower float (see `DType::round`).
    pub fn single(self) -> f32 {
        match self {
            Number::Int(v) => v as f32,
            other => other.float() as f32,
        }
    }

    /// As an integer: floats truncate towards zero and NaN gives 0.
    pub fn int(self) -> i128 {
        match self {
            Number::Float(v) | Number::Complex(v, _) => v as i128,
            Number::Int(v) => v,
            Number::Bool(v) => v as i128,
        }
    }

    /// As a truth value: anything but 0.
    pub fn bool(self) -> bool {
        match self {
            Number::Float(v) => v != 0.0,
            Number::Complex(re, im) => re != 0.0 || im != 0.0,
            Number::Int(v) => v != 0,
            Number::Bool(v) => v,
        }
    }
}

impl From<Scalar> for Number {
    fn from(value: Scalar) -> Self {
        match value {
            Scalar::Float(v) => Number::Float(v.0),
            Scalar::Int(v) => Number::Int(v.into()),
            Scalar::Bool(v) => Number::Bool(v),
        }
    }
}

/// Elements as bytes.
trait Bits: Copy {
    fn bits(self) -> Vec<u8>;
    /// Of exactly as many bytes as the element has.
    fn of_bits(bytes: &[u8]) -> Self;
}

macro_rules! bits {
    ($($element:ty),*) => {$(
        impl Bits for $element {
            fn bits(self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
            fn of_bits(bytes: &[u8]) -> Self {
                let mut word = [0; size_of::<$element>()];
                word.copy_from_slice(bytes);
                <$element>::from_ne_bytes(word)
            }
        }
    )*};
}
bits!(u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64);

macro_rules! single_byte {
    ($($element:ty, |$v:ident| $write:expr, |$byte:ident| $read:expr;)*) => {$(
        impl Bits for $element {
            fn bits(self) -> Vec<u8> {
                let $v = self;
                vec![$write]
            }
            fn of_bits(bytes: &[u8]) -> Self {
                let $byte = bytes[0];
                $read
            }
        }
    )*};
}
single_byte! {
    bool, |v| v as u8, |byte| byte != 0;
    F8E4M3, |v| v.0, |byte| F8E4M3(byte);
    F8E5M2, |v| v.0, |byte| F8E5M2(byte);
}

impl<T: Bits> Bits for [T; 2] {
    fn bits(self) -> Vec<u8> {
        let [re, im] = self;
        [re.bits(), im.bits()].concat()
    }
    fn of_bits(bytes: &[u8]) -> Self {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        [T::of_bits(re), T::of_bits(im)]
    }
}

macro_rules! storage {
    ($($variant:ident($element:ty), $read:expr, $write:expr;)*) => {
        /// Elements of one dtype.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Data {
            $($variant(Vec<$element>)),*
        }

        impl Data {
            /// The dtype of the elements.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Data::$variant(_) => DType::$variant),*
                }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Data::$variant(v) => v.len()),*
                }
            }

            /// One element.
            pub fn get(&self, index: usize) -> Number {
                match self {
                    $(Data::$variant(v) => {
                        let read: fn($element) -> Number = $read;
                        read(v[index])
                    }),*
                }
            }

            /// Elements rounded (or, integers, wrapped) to `dtype`; floats saturate on their way to integers.
            pub fn collect(dtype: DType, numbers: impl Iterator<Item = Number>) -> Result<Data> {
                Ok(match dtype {
                    $(DType::$variant => {
                        let write: fn(Number) -> $element = $write;
                        Data::$variant(numbers.map(write).collect())
                    })*
                })
            }

            /// The bytes of the elements in the machine's byte order.
            pub fn to_bytes(&self) -> Vec<u8> {
                match self {
                    $(Data::$variant(v) => v.iter().flat_map(|&element| element.bits()).collect()),*
                }
            }

            /// The elements of bytes in the machine's byte order.
            pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Data {
                match dtype {
                    $(DType::$variant => {
                        Data::$variant(bytes.chunks_exact(dtype.size()).map(Bits::of_bits).collect())
                    }),*
                }
            }
        }

        $(impl From<Vec<$element>> for Data {
            fn from(elements: Vec<$element>) -> Data {
                Data::$variant(elements)
            }
        })*
    };
}

/// A float saturates to the integer type, an integer wraps.
macro_rules! to_int {
    ($element:ty) => {
        |n| match n {
            Number::Float(v) => v as $element,
            other => other.int() as $element,
        }
    };
}

storage! {
    Bool(bool), Number::Bool, |n| n.bool();
    U8(u8), |v| Number::Int(v.into()), to_int!(u8);
    U16(u16), |v| Number::Int(v.into()), to_int!(u16);
    U32(u32), |v| Number::Int(v.into()), to_int!(u32);
    U64(u64), |v| Number::Int(v.into()), to_int!(u64);
    I8(i8), |v| Number::Int(v.into()), to_int!(i8);
    I16(i16), |v| Number::Int(v.into()), to_int!(i16);
    I32(i32), |v| Number::Int(v.into()), to_int!(i32);
    I64(i64), |v| Number::Int(v.into()), to_int!(i64);
    F16(f16), |v| Number::Float(v.to_f64()), |n| f16::from_f32(n.single());
    BF16(bf16), |v| Number::Float(v.to_f64()), |n| bf16::from_f32(n.single());
    F32(f32), |v| Number::Float(v.into()), |n| n.single();
    F64(f64), Number::Float, |n| n.float();
    F8E4M3(F8E4M3), |v| Number::Float(v.to_f32().into()), |n| F8E4M3::from_f32(n.single());
    F8E5M2(F8E5M2), |v| Number::Float(v.to_f32().into()), |n| F8E5M2::from_f32(n.single());
    C64([f32; 2]), |[re, im]| Number::Complex(re.into(), im.into()), |n| [n.single(), n.imaginary() as f32];
    C128([f64; 2]), |[re, im]| Number::Complex(re, im), |n| [n.float(), n.imaginary()];
}

impl Data {
    /// True if there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Number> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// A tensor in host memory; cloning shares the elements.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    ty: TensorType,
    data: Arc<Data>,
}

impl HostTensor {
    /// Elements in row-major order under a shape.
    pub fn new(shape: &[usize], data: impl Into<Data>) -> Result<HostTensor> {
        let data = data.into();
        let ty = TensorType::new(data.dtype(), shape);
        if ty.numel() != data.len() {
            return Err(Error::shape("interp", format!("{} elements do not fill {ty}", data.len())));
        }
        Ok(HostTensor { ty, data: Arc::new(data) })
    }

    /// Elements of any width, rounded to the type's dtype.
    pub fn collect(ty: &TensorType, numbers: impl Iterator<Item = Number>) -> Result<HostTensor> {
        HostTensor::new(&ty.shape, Data::collect(ty.dtype, numbers)?)
    }

    /// Floats rounded to `dtype`.
    pub fn from_f64(dtype: DType, shape: &[usize], elements: &[f64]) -> Result<HostTensor> {
        let ty = TensorType::new(dtype, shape);
        HostTensor::collect(&ty, elements.iter().map(|&v| Number::Float(v)))
    }

    /// Integers wrapped to `dtype`.
    pub fn from_i64(dtype: DType, shape: &[usize], elements: &[i64]) -> Result<HostTensor> {
        let ty = TensorType::new(dtype, shape);
        HostTensor::collect(&ty, elements.iter().map(|&v| Number::Int(v.into())))
    }

    /// Complex numbers by their parts, rounded to `dtype`.
    pub fn from_complex(dtype: DType, shape: &[usize], elements: &[[f64; 2]]) -> Result<HostTensor> {
        let ty = TensorType::new(dtype, shape);
        HostTensor::collect(&ty, elements.iter().map(|&[re, im]| Number::Complex(re, im)))
    }

    /// Elements from their bytes, in row-major order and the machine's byte order.
    pub fn from_bytes(ty: &TensorType, bytes: &[u8]) -> Result<HostTensor> {
        HostTensor::new(&ty.shape, Data::from_bytes(ty.dtype, bytes))
    }

    /// The bytes of the elements in the machine's byte order.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.data.to_bytes()
    }

    /// The elements as real and imaginary parts.
    pub fn to_complex(&self) -> Vec<[f64; 2]> {
        self.data.iter().map(|n| [n.float(), n.imaginary()]).collect()
    }

    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    /// The elements in row-major order.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The elements as f64.
    pub fn to_f64(&self) -> Vec<f64> {
        self.data.iter().map(Number::float).collect()
    }

    /// The elements as i64.
    pub fn to_i64(&self) -> Vec<i64> {
        self.data.iter().map(|n| n.int() as i64).collect()
    }

    /// The same elements under a type of equal size and dtype.
    pub(crate) fn with_shape(&self, ty: &TensorType) -> HostTensor {
        HostTensor { ty: ty.clone(), data: self.data.clone() }
    }
}
