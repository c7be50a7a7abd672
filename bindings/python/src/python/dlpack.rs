//! DLPack: tensors exchanged with other libraries without a copy, in the legacy form and in version 1.
//!
//! Whoever imports a capsule renames it, so that it is taken once, and calls its deleter once. Ours may be called
//! from any thread and needs no interpreter.

use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut};

use lanthorn_ir::{DType, Layout};
use lanthorn_runtime::host::HostMemory;
use lanthorn_runtime::{EagerTensor, Storage};
use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::args::{Args, given};
use super::convert;
use super::object::{this, wrap};
use super::py::{self, Kind, Object, PyResult, Ref};
use crate::autograd::history;
use crate::error::{Error, Exception, Result};
use crate::ops;
use crate::tensor::Tensor;

const CPU: i32 = 1;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Legacy {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DLTensor,
}

/// What an exported tensor keeps alive.
struct Context {
    _tensor: Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

fn code_of(dtype: DType) -> Result<(u8, u8)> {
    let code = match dtype {
        DType::Bool => 6,
        DType::BF16 => 4,
        DType::C64 | DType::C128 => 5,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::F8E4M3 | DType::F8E5M2 => {
            return Err(Error::buffer(format!("{dtype} is not supported by dlpack")));
        }
    };
    Ok((code, (dtype.size() * 8) as u8))
}

fn dtype_of(code: u8, bits: u8, lanes: u16) -> Result<DType> {
    let found = match (code, bits) {
        (6, 8) => Some(DType::Bool),
        (4, 16) => Some(DType::BF16),
        (2, 16) => Some(DType::F16),
        (2, 32) => Some(DType::F32),
        (2, 64) => Some(DType::F64),
        (1, 8) => Some(DType::U8),
        (1, 16) => Some(DType::U16),
        (1, 32) => Some(DType::U32),
        (1, 64) => Some(DType::U64),
        (0, 8) => Some(DType::I8),
        (0, 16) => Some(DType::I16),
        (0, 32) => Some(DType::I32),
        (0, 64) => Some(DType::I64),
        _ => None,
    };
    found.filter(|_| lanes == 1).ok_or_else(|| {
        Error::runtime(format!("Unsupported dlpack dtype: code {code}, {bits} bits, {lanes} lanes"))
    })
}

fn describe(tensor: &Tensor, context: &mut Context) -> Result<DLTensor> {
    let concrete = tensor.concrete()?;
    let (code, bits) = code_of(concrete.dtype())?;
    let offset = concrete.layout().offset * concrete.dtype().size();
    let data = concrete.storage().host_address().map_or(null_mut(), |address| address.as_ptr());
    Ok(DLTensor {
        data: if tensor.numel() == 0 { null_mut() } else { data.wrapping_add(offset).cast() },
        device_type: CPU,
        device_id: 0,
        ndim: tensor.rank() as i32,
        code,
        bits,
        lanes: 1,
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    })
}

unsafe extern "C" fn delete_legacy(managed: *mut Legacy) {
    // SAFETY: called once, with a box that `export` has let go of.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

/// Frees what a capsule holds that nobody has taken.
unsafe extern "C" fn forget(capsule: *mut PyObject) {
    // SAFETY: called with a capsule of ours; its name says whether and what it still holds.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) != 0 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        } else if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// `Tensor.__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)`.
pub fn export(slf: Option<Ref<'_>>, args: &Args<'_>) -> PyResult<Object> {
    let [_stream, version, device, copied] = args.bind(["stream", "max_version", "dl_device", "copy"], 0)?;
    let mut tensor = this(slf)?;
    if history::requires_grad(&tensor) {
        return Err(Error::buffer("Can't export tensors that require gradient, use tensor.detach()").into());
    }
    if let Some(device) = given(device) {
        let device = convert::ints(device, "__dlpack__", "dl_device")?;
        if device != [i64::from(CPU), 0] {
            return Err(Error::buffer(format!("the tensor is on the CPU, not on device {device:?}")).into());
        }
    }
    let is_copied = given(copied).map(Ref::truth).transpose()?.unwrap_or(false);
    if is_copied {
        tensor = ops::copy::clone(&tensor)?;
    }
    let version = given(version).map(|v| convert::ints(v, "__dlpack__", "max_version")).transpose()?;
    let is_versioned = version.is_some_and(|version| version.first().is_some_and(|major| *major >= 1));
    let is_writable = tensor.concrete()?.storage().is_writable();
    if !is_writable && !is_versioned {
        return Err(Error::buffer("a read-only tensor needs max_version=(1, 0) or later").into());
    }
    let mut context = Box::new(Context {
        shape: tensor.shape().iter().map(|&size| size as i64).collect(),
        strides: tensor.layout().strides.iter().map(|&stride| stride as i64).collect(),
        _tensor: tensor.clone(),
    });
    let described = describe(&tensor, &mut context)?;
    let context = Box::into_raw(context).cast::<c_void>();
    // SAFETY: the boxes are given up to the capsule, whose destructor or taker frees them once.
    unsafe {
        let (pointer, name) = if is_versioned {
            let flags = if is_writable { 0 } else { READ_ONLY } | if is_copied { IS_COPIED } else { 0 };
            let deleter: unsafe extern "C" fn(*mut Versioned) = delete_versioned;
            let managed =
                Versioned { major: 1, minor: 0, context, deleter: Some(deleter), flags, tensor: described };
            (Box::into_raw(Box::new(managed)).cast::<c_void>(), VERSIONED)
        } else {
            let deleter: unsafe extern "C" fn(*mut Legacy) = delete_legacy;
            let managed = Legacy { tensor: described, context, deleter: Some(deleter) };
            (Box::into_raw(Box::new(managed)).cast::<c_void>(), LEGACY)
        };
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(forget));
        if capsule.is_null() {
            match is_versioned {
                true => delete_versioned(pointer.cast()),
                false => delete_legacy(pointer.cast()),
            }
        }
        Object::owned(capsule)
    }
}

/// `Tensor.__dlpack_device__()`.
pub fn device(slf: Option<Ref<'_>>, args: &Args<'_>) -> PyResult<Object> {
    args.bind::<0>([], 0)?;
    this(slf)?.concrete()?;
    py::tuple(vec![py::int(CPU.into())?, py::int(0)?])
}

/// Somebody else's tensor, given back when dropped.
enum Foreign {
    Legacy(*mut Legacy),
    Versioned(*mut Versioned),
}

// SAFETY: the protocol allows the deleter to be called from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above; nothing is read through a shared reference.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        // A producer may touch Python in its deleter. After the interpreter's end nothing can be given back.
        // SAFETY: asks only whether there is an interpreter.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return;
        }
        let _gil = py::Gil::take();
        // SAFETY: taken from a capsule that was renamed, hence given back here and once.
        unsafe {
            match *self {
                Foreign::Legacy(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
                Foreign::Versioned(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        }
    }
}

/// What a described tensor looks like here: where it begins, how many bytes it spans, dtype and layout.
///
/// # Safety
/// The description and its arrays are valid.
unsafe fn read(described: &DLTensor) -> Result<(NonNull<u8>, usize, DType, Layout)> {
    if described.device_type != CPU {
        return Err(Error::runtime(format!(
            "the dlpack device type {} is not the CPU",
            described.device_type
        )));
    }
    let dtype = dtype_of(described.code, described.bits, described.lanes)?;
    let rank = usize::try_from(described.ndim)
        .map_err(|_| Error::runtime(format!("a dlpack tensor of {} axes", described.ndim)))?;
    // SAFETY: the arrays have one entry for each axis; strides may be absent.
    let (shape, strides) = unsafe {
        let list = |pointer: *mut i64| {
            if pointer.is_null() { Vec::new() } else { std::slice::from_raw_parts(pointer, rank).to_vec() }
        };
        (list(described.shape), list(described.strides))
    };
    if shape.len() != rank && rank > 0 {
        return Err(Error::runtime("a dlpack tensor without a shape"));
    }
    let shape = ops::sizes_of(&shape)?;
    lanthorn_ir::layout::check_size("from_dlpack", &lanthorn_ir::TensorType::new(dtype, &shape))?;
    let mut layout = Layout::contiguous(&shape);
    if !strides.is_empty() {
        if strides.iter().any(|&stride| stride < 0) {
            return Err(Error::value(
                "At least one of the strides in the given dlpack tensor is negative, and tensors with negative \
                 strides are not currently supported; make a copy of it.",
            ));
        }
        layout.strides = strides.iter().map(|&stride| stride as isize).collect();
    }
    let start = described.data.cast::<u8>().wrapping_add(described.byte_offset as usize);
    let bytes = span_bytes(&layout, dtype)?;
    if bytes == 0 {
        return Ok((NonNull::dangling(), 0, dtype, layout));
    }
    let start = NonNull::new(start).ok_or_else(|| Error::runtime("a dlpack tensor without memory"))?;
    check_alignment(start, dtype)?;
    Ok((start, bytes, dtype, layout))
}

/// The bytes that a layout with its lowest element at 0 spans.
pub fn span_bytes(layout: &Layout, dtype: DType) -> Result<usize> {
    if layout.numel() == 0 {
        return Ok(0);
    }
    let last = layout.shape.iter().zip(&layout.strides).try_fold(0usize, |last, (&size, &stride)| {
        stride.unsigned_abs().checked_mul(size - 1).and_then(|reach| last.checked_add(reach))
    });
    let bytes = last.and_then(|last| last.checked_add(1)).and_then(|count| count.checked_mul(dtype.size()));
    bytes
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or_else(|| Error::runtime("the array does not fit the address space"))
}

/// Kernels read elements where they lie; those must lie at multiples of their size.
pub fn check_alignment(start: NonNull<u8>, dtype: DType) -> Result<()> {
    let size = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
    if (start.as_ptr() as usize).is_multiple_of(size) {
        return Ok(());
    }
    Err(Error::value(format!(
        "the memory is not aligned to the {size} bytes of an element; copy the array first"
    )))
}

/// `from_dlpack(x)`: a tensor over the memory of a capsule, or of an object that gives one.
pub fn import(_: Option<Ref<'_>>, args: &Args<'_>) -> PyResult<Object> {
    let [value] = args.bind(["x"], 1)?;
    let value = value.ok_or_else(|| Error::ty("from_dlpack(): an argument is missing"))?;
    // SAFETY: a live object.
    if unsafe { ffi::PyCapsule_CheckExact(value.as_ptr()) } != 0 {
        return wrap(take(value)?);
    }
    let Some(device) = value.attr_if_any(c"__dlpack_device__")? else {
        let found = value.type_name();
        return Err(Error::ty(format!("from_dlpack(): {found} has no __dlpack__ and is no capsule")).into());
    };
    let device = device.get().call(&[])?;
    let device = convert::ints(device.get(), "from_dlpack", "__dlpack_device__")?;
    if device.first() != Some(&i64::from(CPU)) {
        return Err(
            Error::runtime(format!("the tensor is on dlpack device {device:?}, not on the CPU")).into()
        );
    }
    let export = value.attr(c"__dlpack__")?;
    let version = convert::tuple_of([1, 0])?;
    let capsule = match export.get().call_with(&[], &[("max_version", version.get())]) {
        Ok(capsule) => capsule,
        // Producers from before version 1 do not know the argument.
        Err(_) if py::clear_if_kind(Kind::Of(Exception::Type)) => export.get().call(&[])?,
        Err(fault) => return Err(fault),
    };
    wrap(take(capsule.get())?)
}

/// Takes the tensor out of a capsule, which is renamed, and wraps its memory.
fn take(capsule: Ref<'_>) -> PyResult<Tensor> {
    let pointer = capsule.as_ptr();
    let is_named = |name: &CStr| {
        // SAFETY: a live object.
        unsafe { ffi::PyCapsule_IsValid(pointer, name.as_ptr()) != 0 }
    };
    let (foreign, writable, parts) = if is_named(VERSIONED) {
        // SAFETY: the name says what the pointer is.
        unsafe {
            let managed = ffi::PyCapsule_GetPointer(pointer, VERSIONED.as_ptr()).cast::<Versioned>();
            if (*managed).major != 1 {
                let (major, minor) = ((*managed).major, (*managed).minor);
                return Err(Error::buffer(format!("dlpack version {major}.{minor} is not version 1")).into());
            }
            let parts = read(&(*managed).tensor)?;
            ffi::PyCapsule_SetName(pointer, VERSIONED_USED.as_ptr());
            (Foreign::Versioned(managed), (*managed).flags & READ_ONLY == 0, parts)
        }
    } else if is_named(LEGACY) {
        // SAFETY: as above.
        unsafe {
            let managed = ffi::PyCapsule_GetPointer(pointer, LEGACY.as_ptr()).cast::<Legacy>();
            let parts = read(&(*managed).tensor)?;
            ffi::PyCapsule_SetName(pointer, LEGACY_USED.as_ptr());
            (Foreign::Legacy(managed), true, parts)
        }
    } else {
        return Err(Error::runtime(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you \
             might have already constructed a tensor from it once.",
        )
        .into());
    };
    let (start, bytes, dtype, layout) = parts;
    // SAFETY: the producer keeps the memory until its deleter is called, which is when the owner is dropped.
    let memory = unsafe { HostMemory::from_raw(start, bytes, Box::new(foreign)) };
    Ok(over(memory, writable, dtype, layout)?)
}

/// A tensor over somebody's memory.
pub fn over(memory: HostMemory, writable: bool, dtype: DType, layout: Layout) -> Result<Tensor> {
    let storage = Storage::external(crate::device(), memory.shared(), writable);
    Ok(ops::factory::of_parts(EagerTensor::new(storage, dtype, layout)?))
}
