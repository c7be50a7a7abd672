//! NumPy and the buffer protocol, both ways.

use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut};

use lanthorn_ir::{DType, Layout};
use lanthorn_runtime::host::HostMemory;
use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::args::{Args, given};
use super::dlpack::{check_alignment, over, span_bytes};
use super::object::{this, wrap};
use super::py::{self, Fault, Gil, Object, PyResult, Ref};
use super::{convert, dtype};
use crate::autograd::history;
use crate::error::{Error, Result};
use crate::ops;
use crate::tensor::Tensor;
use crate::tensor::promote::scalar_type_name;

/// The format character of a dtype in the `struct` notation; `None` for those that Python does not know.
fn format_of(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::Bool => c"?",
        DType::U8 => c"B",
        DType::U16 => c"H",
        DType::U32 => c"I",
        DType::U64 => c"Q",
        DType::I8 => c"b",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::I64 => c"q",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::BF16 | DType::F8E4M3 | DType::F8E5M2 | DType::C64 | DType::C128 => return None,
    })
}

fn dtype_of(format: &str, size: usize) -> Option<DType> {
    let native = format.strip_prefix(['@', '=']).unwrap_or(format);
    let native =
        if cfg!(target_endian = "little") { native.strip_prefix('<').unwrap_or(native) } else { native };
    let found = match native {
        "?" => DType::Bool,
        "B" => DType::U8,
        "b" => DType::I8,
        "e" => DType::F16,
        "f" => DType::F32,
        "d" => DType::F64,
        // `l` is 4 or 8 bytes, by the platform.
        "H" | "I" | "L" | "Q" | "N" => match size {
            2 => DType::U16,
            4 => DType::U32,
            8 => DType::U64,
            _ => return None,
        },
        "h" | "i" | "l" | "q" | "n" => match size {
            2 => DType::I16,
            4 => DType::I32,
            8 => DType::I64,
            _ => return None,
        },
        _ => return None,
    };
    (found.size() == size).then_some(found)
}

/// A buffer of another object, released when dropped.
struct Borrowed(Box<ffi::Py_buffer>);

// SAFETY: released with the GIL; the memory is plain bytes.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: asks only whether there is an interpreter.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return;
        }
        let _gil = Gil::take();
        // SAFETY: filled by `PyObject_GetBuffer`, released once.
        unsafe { ffi::PyBuffer_Release(&mut *self.0) };
    }
}

impl Borrowed {
    /// The buffer of an object: writable if it can be.
    fn of(object: Ref<'_>, flags: i32) -> PyResult<Borrowed> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: a live object; the view is released by `drop`.
        unsafe {
            if ffi::PyObject_GetBuffer(object.as_ptr(), &mut *view, flags | ffi::PyBUF_WRITABLE) == 0 {
                return Ok(Borrowed(view));
            }
            ffi::PyErr_Clear();
            if ffi::PyObject_GetBuffer(object.as_ptr(), &mut *view, flags) == 0 {
                return Ok(Borrowed(view));
            }
        }
        Err(Fault::Set)
    }

    fn list(&self, pointer: *const isize) -> Vec<isize> {
        let count = self.0.ndim.max(0) as usize;
        if pointer.is_null() {
            return Vec::new();
        }
        // SAFETY: the arrays of a buffer have one entry for each axis.
        unsafe { std::slice::from_raw_parts(pointer, count) }.to_vec()
    }

    /// The tensor over this memory.
    fn tensor(self, what: &str) -> Result<Tensor> {
        let size = self.0.itemsize.max(0) as usize;
        // SAFETY: a format is a C string that lives as long as the buffer; absent it means bytes.
        let format = match NonNull::new(self.0.format) {
            Some(format) => unsafe { CStr::from_ptr(format.as_ptr()) }.to_string_lossy().into_owned(),
            None => "B".to_string(),
        };
        let Some(dtype) = dtype_of(&format, size) else {
            return Err(Error::ty(format!(
                "can't convert {what} of format '{format}'. The only supported types are: float64, float32, float16, \
                 int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool, in the machine's byte order."
            )));
        };
        let shape = self.list(self.0.shape).into_iter().map(|size| size as i64).collect::<Vec<_>>();
        let mut layout = Layout::contiguous(ops::sizes_of(&shape)?);
        let strides = self.list(self.0.strides);
        if !strides.is_empty() && layout.numel() > 0 {
            if strides.iter().any(|&stride| stride < 0) {
                return Err(Error::value(
                    "At least one of the strides in the given numpy array is negative, and tensors with negative \
                     strides are not currently supported. (You can probably work around this by making a copy of your \
                     array with array.copy().)",
                ));
            }
            let is_whole = |stride: &isize| *stride % size as isize == 0;
            if !(strides.iter().zip(&layout.shape)).all(|(stride, size)| *size == 1 || is_whole(stride)) {
                return Err(Error::value(
                    "given numpy array strides not a multiple of the element byte size. Copy the numpy array to \
                     reallocate the memory.",
                ));
            }
            layout.strides = strides.iter().map(|&stride| stride / size as isize).collect();
        }
        let bytes = span_bytes(&layout, dtype)?;
        let start = match NonNull::new(self.0.buf.cast::<u8>()) {
            Some(start) if bytes > 0 => start,
            _ => NonNull::dangling(),
        };
        if bytes > 0 {
            check_alignment(start, dtype)?;
        }
        let writable = self.0.readonly == 0;
        // SAFETY: the exporter keeps the memory until the buffer is released, which is when the owner is dropped.
        let memory = unsafe { HostMemory::from_raw(start, bytes, Box::new(self)) };
        over(memory, writable, dtype, layout)
    }
}

/// A tensor over the memory of an object with a strided buffer.
pub fn tensor_over(object: Ref<'_>) -> PyResult<Tensor> {
    let what = object.type_name();
    let buffer = match Borrowed::of(object, ffi::PyBUF_STRIDES | ffi::PyBUF_FORMAT) {
        Ok(buffer) => buffer,
        // Some types of NumPy have no buffer format at all.
        Err(_) if py::clear_if_kind(py::Kind::Of(crate::Exception::Value)) => {
            return Err(Error::ty(format!(
                "can't convert {what} of this dtype. The only supported types are: float64, float32, float16, int64, \
                 int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
            ))
            .into());
        }
        Err(fault) => return Err(fault),
    };
    Ok(buffer.tensor(&what)?)
}

/// `from_numpy(array)`: shares the array's memory; a read-only array gives a tensor that cannot be written.
pub fn from_numpy(_: Option<Ref<'_>>, args: &Args<'_>) -> PyResult<Object> {
    let [array] = args.bind(["ndarray"], 1)?;
    let array = array.ok_or_else(|| Error::ty("from_numpy(): an argument is missing"))?;
    let numpy = py::import(c"numpy")?;
    let kind = numpy.get().attr(c"ndarray")?;
    // SAFETY: live objects.
    match unsafe { ffi::PyObject_IsInstance(array.as_ptr(), kind.get().as_ptr()) } {
        1 => wrap(tensor_over(array)?),
        0 => Err(Error::ty(format!("expected np.ndarray (got {})", array.type_name())).into()),
        _ => Err(Fault::Set),
    }
}

/// `frombuffer(buffer, *, dtype, count=-1, offset=0)`: a vector over the bytes of an object.
pub fn frombuffer(_: Option<Ref<'_>>, args: &Args<'_>) -> PyResult<Object> {
    let [object, kind, count, offset, requires_grad] =
        args.bind(["buffer", "dtype", "count", "offset", "requires_grad"], 2)?;
    let (Some(object), Some(kind)) = (object, kind) else { return Ok(py::none()) };
    let dtype = dtype::expect(kind, "frombuffer", "dtype")?;
    let count = given(count).map(|c| convert::index(c, "frombuffer", "count")).transpose()?.unwrap_or(-1);
    let offset = given(offset).map(|o| convert::index(o, "frombuffer", "offset")).transpose()?.unwrap_or(0);
    if given(requires_grad).map(Ref::truth).transpose()?.unwrap_or(false) {
        return Err(Error::not_implemented(
            "frombuffer with requires_grad; call requires_grad_() on the result",
        )
        .into());
    }
    let buffer = Borrowed::of(object, ffi::PyBUF_SIMPLE)?;
    let (length, size) = (buffer.0.len as i64, dtype.size() as i64);
    if length == 0 || count == 0 {
        return Err(
            Error::value(format!("both buffer length ({length}) and count ({count}) must not be 0")).into()
        );
    }
    if offset < 0 || offset >= length {
        return Err(Error::value(format!(
            "offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        ))
        .into());
    }
    let rest = length - offset;
    let elements = if count < 0 {
        if rest % size != 0 {
            return Err(Error::value(format!(
                "buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
            ))
            .into());
        }
        rest / size
    } else {
        count
    };
    if elements.checked_mul(size).is_none_or(|bytes| bytes > rest) {
        return Err(Error::value(format!(
            "requested buffer length ({elements} * {size} bytes) after offset ({offset} bytes) must not be greater than \
             actual buffer length ({length} bytes)"
        ))
        .into());
    }
    let start = buffer.0.buf.cast::<u8>().wrapping_add(offset as usize);
    let start = NonNull::new(start).ok_or_else(|| Error::value("the buffer has no memory"))?;
    check_alignment(start, dtype)?;
    let writable = buffer.0.readonly == 0;
    // SAFETY: the range lies in the buffer, which is released when its owner is dropped.
    let memory = unsafe { HostMemory::from_raw(start, (elements * size) as usize, Box::new(buffer)) };
    wrap(over(memory, writable, dtype, Layout::contiguous([elements as usize]))?)
}

/// What an exported buffer points at.
struct Exported {
    _tensor: Tensor,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

unsafe extern "C" fn get_buffer(slf: *mut PyObject, view: *mut ffi::Py_buffer, flags: i32) -> i32 {
    py::guard_int(|| {
        // SAFETY: called with a live object and a view to be filled; on failure its `obj` must be null.
        let slf = unsafe {
            if view.is_null() {
                return Err(Error::buffer("there is no view to fill").into());
            }
            (*view).obj = null_mut();
            Ref::new(slf)
        };
        let tensor = this(slf)?;
        if history::requires_grad(&tensor) {
            return Err(
                Error::buffer("Can't export tensors that require gradient, use tensor.detach()").into()
            );
        }
        let concrete = tensor.concrete()?;
        let dtype = concrete.dtype();
        let format = format_of(dtype).ok_or_else(|| {
            Error::buffer(format!("Got unsupported ScalarType {}", scalar_type_name(dtype)))
        })?;
        let storage = concrete.storage();
        let readonly = !storage.is_writable();
        if readonly && flags & ffi::PyBUF_WRITABLE != 0 {
            return Err(Error::buffer("the tensor's memory is read-only").into());
        }
        let has_strides = flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES;
        let is_contiguous = tensor.layout().is_contiguous();
        let wants_order = [ffi::PyBUF_C_CONTIGUOUS, ffi::PyBUF_ANY_CONTIGUOUS];
        let wants_c = wants_order.iter().any(|order| flags & order == *order);
        if !is_contiguous && (!has_strides || wants_c) {
            return Err(Error::buffer("the tensor is not contiguous; the request cannot take strides").into());
        }
        if flags & ffi::PyBUF_F_CONTIGUOUS == ffi::PyBUF_F_CONTIGUOUS && tensor.rank() > 1 {
            return Err(Error::buffer("the tensor is not in Fortran order").into());
        }
        let size = dtype.size();
        let mut exported = Box::new(Exported {
            shape: tensor.shape().iter().map(|&size| size as isize).collect(),
            strides: tensor.layout().strides.iter().map(|&stride| stride * size as isize).collect(),
            _tensor: tensor.clone(),
        });
        let offset = tensor.layout().offset * size;
        let start =
            storage.host_address().map_or(null_mut(), |address| address.as_ptr().wrapping_add(offset));
        // SAFETY: the view is the caller's; what it points at lives until `release_buffer`.
        unsafe {
            (*view).buf = start.cast();
            (*view).len = (tensor.numel() * size) as isize;
            (*view).itemsize = size as isize;
            (*view).readonly = readonly.into();
            (*view).ndim = tensor.rank() as i32;
            (*view).format =
                if flags & ffi::PyBUF_FORMAT != 0 { format.as_ptr().cast_mut() } else { null_mut() };
            (*view).shape = if flags & ffi::PyBUF_ND != 0 { exported.shape.as_mut_ptr() } else { null_mut() };
            (*view).strides = if has_strides { exported.strides.as_mut_ptr() } else { null_mut() };
            (*view).suboffsets = null_mut();
            (*view).internal = Box::into_raw(exported).cast();
            (*view).obj = slf.map_or(null_mut(), |slf| slf.to_owned().into_ptr());
        }
        Ok(0)
    })
}

unsafe extern "C" fn release_buffer(_: *mut PyObject, view: *mut ffi::Py_buffer) {
    // SAFETY: called once for each view that was filled.
    unsafe {
        let internal = std::mem::replace(&mut (*view).internal, null_mut());
        if !internal.is_null() {
            drop(Box::from_raw(internal.cast::<Exported>()));
        }
    }
}

/// The slots of the buffer protocol.
pub fn slots() -> Vec<ffi::PyType_Slot> {
    vec![
        ffi::PyType_Slot { slot: ffi::Py_bf_getbuffer, pfunc: get_buffer as *mut c_void },
        ffi::PyType_Slot { slot: ffi::Py_bf_releasebuffer, pfunc: release_buffer as *mut c_void },
    ]
}

/// The array over a tensor's memory.
fn as_array(slf: Option<Ref<'_>>) -> PyResult<Object> {
    let tensor = this(slf)?;
    if history::requires_grad(&tensor) {
        return Err(Error::runtime(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        )
        .into());
    }
    if format_of(tensor.dtype()).is_none() {
        return Err(
            Error::ty(format!("Got unsupported ScalarType {}", scalar_type_name(tensor.dtype()))).into()
        );
    }
    tensor.concrete()?;
    let numpy = py::import(c"numpy")?;
    let slf = slf.ok_or_else(|| Error::ty("numpy(): no tensor"))?;
    // SAFETY: a live object.
    let view = unsafe { Object::owned(ffi::PyMemoryView_FromObject(slf.as_ptr()))? };
    numpy.get().attr(c"asarray")?.get().call(&[view.get()])
}

/// `Tensor.numpy()`.
pub fn numpy(slf: Option<Ref<'_>>, args: &Args<'_>) -> PyResult<Object> {
    let [force] = args.bind(["force"], 0)?;
    if given(force).map(Ref::truth).transpose()?.unwrap_or(false) {
        let detached = wrap(this(slf)?.detach())?;
        return as_array(Some(detached.get()));
    }
    as_array(slf)
}

/// `Tensor.__array__(dtype=None, copy=None)`.
pub fn array(slf: Option<Ref<'_>>, args: &Args<'_>) -> PyResult<Object> {
    let [kind, copied] = args.bind(["dtype", "copy"], 0)?;
    let array = as_array(slf)?;
    let is_copied = given(copied).map(Ref::truth).transpose()?;
    let result = match given(kind) {
        None => array,
        Some(kind) => {
            let astype = array.get().attr(c"astype")?;
            let copy = py::boolean(is_copied == Some(true))?;
            return astype.get().call_with(&[kind], &[("copy", copy.get())]);
        }
    };
    match is_copied {
        Some(true) => result.get().attr(c"copy")?.get().call(&[]),
        _ => Ok(result),
    }
}
