//! Concrete tensors: a strided view of a storage.

use std::borrow::Cow;
use std::fmt;

use lanthorn_compiler::backend::Readback;
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::float8::{F8E4M3, F8E5M2};
use lanthorn_ir::layout::check_size;
use lanthorn_ir::{DType, Error, Layout, Result, TensorType};

use super::Eager;
use crate::device::Device;
use crate::element::Element;
use crate::host::HostMemory;
use crate::storage::Storage;

/// Elements in memory: a storage and how to read it. Cloning shares the storage.
///
/// What the compiled and the eager path take and give. [`Tensor`](crate::tensor::Tensor) wraps it for users.
#[derive(Clone)]
pub struct EagerTensor {
    storage: Storage,
    layout: Layout,
    ty: TensorType,
}

impl EagerTensor {
    /// The view `layout` of a storage that holds elements of `dtype`.
    ///
    /// Errors: a view that leaves the storage.
    pub fn new(storage: Storage, dtype: DType, layout: Layout) -> Result<EagerTensor> {
        let ty = TensorType { dtype, shape: layout.shape.clone() };
        let fail = |message: String| Err(Error::shape("view", message));
        if layout.strides.len() != layout.shape.len() {
            return fail(format!("{} strides for {} axes", layout.strides.len(), layout.shape.len()));
        }
        check_size("view", &ty)?;
        let elements = storage.bytes() / dtype.size();
        if !fits(&layout, elements) {
            return fail(format!(
                "{ty} with strides {:?} from {} leaves a storage of {elements} elements",
                &layout.strides[..],
                layout.offset
            ));
        }
        Ok(EagerTensor { storage, layout, ty })
    }

    /// A view of which the caller knows that it lies inside the storage.
    pub(crate) fn of_parts(storage: Storage, dtype: DType, layout: Layout) -> EagerTensor {
        let ty = TensorType { dtype, shape: layout.shape.clone() };
        EagerTensor { storage, layout, ty }
    }

    /// A contiguous tensor in fresh memory, contents unspecified.
    pub fn empty(device: &Device, ty: &TensorType) -> Result<EagerTensor> {
        check_size("empty", ty)?;
        let storage = Storage::allocate(device, ty.bytes())?;
        Ok(EagerTensor::of_parts(storage, ty.dtype, Layout::contiguous(&ty.shape)))
    }

    /// A copy of elements in row-major order.
    ///
    /// Errors: a number of elements that is not the shape's.
    pub fn from_slice<T: Element>(device: &Device, shape: &[usize], elements: &[T]) -> Result<EagerTensor> {
        let ty = TensorType::new(T::DTYPE, shape);
        check_elements("from_slice", &ty, elements.len())?;
        EagerTensor::from_bytes(device, &ty, T::as_bytes(elements))
    }

    /// The elements of a vector in row-major order; on a device that works in host memory, without a copy.
    pub fn from_vec<T: Element>(device: &Device, shape: &[usize], elements: Vec<T>) -> Result<EagerTensor> {
        let ty = TensorType::new(T::DTYPE, shape);
        check_elements("from_vec", &ty, elements.len())?;
        // Small vectors are cheaper to copy than to keep, and the copy may be donated.
        if ty.bytes() < 1 << 16 || !device.is_host() {
            return EagerTensor::from_slice(device, shape, &elements);
        }
        let storage = Storage::external(device, HostMemory::from_vec(elements).shared(), true);
        Ok(EagerTensor::of_parts(storage, ty.dtype, Layout::contiguous(&ty.shape)))
    }

    /// A copy of the bytes of elements in row-major order, in the machine's byte order. Of `bool` every byte but 0 is
    /// true.
    pub fn from_bytes(device: &Device, ty: &TensorType, bytes: &[u8]) -> Result<EagerTensor> {
        check_bytes(ty, bytes.len())?;
        let storage = Storage::from_bytes(device, &valid_bytes(ty.dtype, bytes))?;
        Ok(EagerTensor::of_parts(storage, ty.dtype, Layout::contiguous(&ty.shape)))
    }

    /// A tensor of rank 0; a float rounds to `dtype`.
    ///
    /// Errors: for an integer dtype, a number that is not whole or out of its range.
    pub fn scalar(device: &Device, value: impl Into<Scalar>, dtype: DType) -> Result<EagerTensor> {
        let bytes = value.into().fit("scalar", dtype)?.to_bytes(dtype);
        EagerTensor::from_bytes(device, &TensorType::scalar(dtype), &bytes[..dtype.size()])
    }

    /// A graph value with these elements: an executable binds it, and no call passes it.
    pub fn leaf(&self) -> Result<lanthorn_ir::Value> {
        crate::slot::leaf(self.clone())
    }

    /// The storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// How the storage is read.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    /// The device whose memory this is.
    pub fn device(&self) -> &Device {
        self.storage.device()
    }

    /// Another view of the same storage, such as torch's `as_strided`.
    ///
    /// Errors: a view that leaves the storage.
    pub fn with_layout(&self, layout: Layout) -> Result<EagerTensor> {
        EagerTensor::new(self.storage.clone(), self.ty.dtype, layout)
    }

    /// The tensor itself if its elements lie in row-major order without gaps, else a copy in which they do.
    pub fn contiguous(&self) -> Result<EagerTensor> {
        if self.layout.is_contiguous() {
            return Ok(self.clone());
        }
        self.copy()
    }

    /// A contiguous copy in fresh memory.
    pub fn copy(&self) -> Result<EagerTensor> {
        let copy = EagerTensor::empty(self.device(), &self.ty)?;
        Eager::new(self.device()).copy_into(self, &copy)?;
        Ok(copy)
    }

    /// The bytes of all elements in row-major order, in the machine's byte order.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let whole = self.contiguous()?;
        let (start, length) = whole.range();
        whole.storage.read_range(start, length, <[u8]>::to_vec)
    }

    /// Starts to read all elements in row-major order, as they are now; the bytes are to be polled or waited for.
    pub fn start_read(&self) -> Result<Box<dyn Readback>> {
        let whole = self.contiguous()?;
        let (start, length) = whole.range();
        whole.storage.start_read(start, length)
    }

    /// Where the elements of a contiguous tensor begin in its storage, and how long they are, in bytes.
    fn range(&self) -> (usize, usize) {
        // No elements may lie anywhere.
        let length = self.ty.bytes();
        let start = if length == 0 { 0 } else { self.layout.offset * self.ty.dtype.size() };
        (start, length)
    }

    /// The elements in row-major order.
    ///
    /// Errors: a dtype that is not `T`'s.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.ty.dtype != T::DTYPE {
            let (found, asked) = (self.ty.dtype, T::DTYPE);
            return Err(Error::dtype("to_vec", format!("the tensor is {found}, not {asked}; cast it first")));
        }
        let whole = self.contiguous()?;
        let (start, length) = whole.range();
        whole.storage.read_range(start, length, T::from_bytes)
    }

    /// The elements as f64, whatever the real dtype. Integers beyond 2^53 round.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>> {
        macro_rules! wide {
            ($($dtype:ident $element:ty => $convert:expr;)*) => {
                match self.ty.dtype {
                    $(DType::$dtype => Ok(self.to_vec::<$element>()?.into_iter().map($convert).collect()),)*
                    other => Err(Error::dtype(
                        "to_f64_vec",
                        format!("the tensor is {other}, expected a real dtype; take real(), imag() or as_real() first"),
                    )),
                }
            };
        }
        wide! {
            Bool bool => |v| v as u8 as f64;
            U8 u8 => f64::from;
            U16 u16 => f64::from;
            U32 u32 => f64::from;
            U64 u64 => |v| v as f64;
            I8 i8 => f64::from;
            I16 i16 => f64::from;
            I32 i32 => f64::from;
            I64 i64 => |v| v as f64;
            F16 half::f16 => f64::from;
            BF16 half::bf16 => f64::from;
            F32 f32 => f64::from;
            F64 f64 => |v| v;
            F8E4M3 F8E4M3 => |v| f64::from(v.to_f32());
            F8E5M2 F8E5M2 => |v| f64::from(v.to_f32());
        }
    }

    /// The only element, as f64.
    ///
    /// Errors: a tensor of another number of elements than one.
    pub fn item(&self) -> Result<f64> {
        match self.ty.numel() {
            1 if self.ty.dtype.is_complex() => Err(Error::dtype(
                "item",
                format!("the tensor is {}, expected a real one; take `real` or `imag` first", self.ty),
            )),
            1 => Ok(self.to_f64_vec()?.first().copied().unwrap_or(f64::NAN)),
            n => Err(Error::shape("item", format!("the tensor has {n} elements, expected one"))),
        }
    }
}

/// True if the view stays within `elements` elements. Written so that no sum overflows.
fn fits(layout: &Layout, elements: usize) -> bool {
    if layout.numel() == 0 {
        return true;
    }
    let (mut low, mut high) = (layout.offset as i128, layout.offset as i128);
    for (&size, &stride) in layout.shape.iter().zip(&layout.strides) {
        let reach = (size as i128 - 1) * stride as i128;
        if reach < 0 { low += reach } else { high += reach }
    }
    low >= 0 && high < elements as i128
}

/// Truth values as kernels expect them: every byte but 0 is a 1.
fn valid_bytes(dtype: DType, bytes: &[u8]) -> Cow<'_, [u8]> {
    if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
        return bytes.iter().map(|&byte| u8::from(byte != 0)).collect();
    }
    Cow::Borrowed(bytes)
}

fn check_elements(op: &str, ty: &TensorType, count: usize) -> Result<()> {
    check_size(op, ty)?;
    if ty.numel() == count {
        return Ok(());
    }
    Err(Error::shape(op, format!("{ty} has {} elements, got {count}", ty.numel())))
}

fn check_bytes(ty: &TensorType, bytes: usize) -> Result<()> {
    check_size("from_bytes", ty)?;
    if ty.bytes() == bytes {
        return Ok(());
    }
    let expected = ty.bytes();
    Err(Error::shape("from_bytes", format!("{ty} takes {expected} bytes, got {bytes}")))
}

impl fmt::Debug for EagerTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.ty, self.device())
    }
}
