//! The tensor object: a handle to a tensor of the core.
//!
//! A tensor has one object at a time: the tensor holds a pointer to it that owns nothing, the object owns the handle.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::py::{self, Object, PyResult, Ref};
use super::{buffer, convert, methods, number, properties};
use crate::error::Error;
use crate::ops::factory;
use crate::tensor::Tensor;

/// The object's memory.
#[repr(C)]
struct PyTensor {
    base: PyObject,
    /// `None` (all zero) until it is set.
    tensor: ManuallyDrop<Option<Tensor>>,
    weak: *mut PyObject,
}

static TYPE: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());

fn tensor_type() -> *mut ffi::PyTypeObject {
    TYPE.load(Ordering::Acquire).cast()
}

/// The tensor of an object, if it is one.
pub fn of(object: Ref<'_>) -> Option<Tensor> {
    // SAFETY: a live object whose type is checked, so that its memory is that of `PyTensor`.
    unsafe {
        let kind = ffi::Py_TYPE(object.as_ptr());
        if kind != tensor_type() && ffi::PyType_IsSubtype(kind, tensor_type()) == 0 {
            return None;
        }
        (*object.as_ptr().cast::<PyTensor>()).tensor.as_ref().cloned()
    }
}

/// An argument that must be a tensor.
pub fn expect(value: Ref<'_>, function: &str, name: &str) -> PyResult<Tensor> {
    of(value).ok_or_else(|| {
        let found = value.type_name();
        Error::ty(format!("{function}(): argument '{name}' must be Tensor, not {found}")).into()
    })
}

/// The tensor on which a method is called.
pub fn this(slf: Option<Ref<'_>>) -> PyResult<Tensor> {
    slf.and_then(of).ok_or_else(|| Error::ty("a method of Tensor was called on another object").into())
}

/// The object of a tensor: the one there is, or a new one.
pub fn wrap(tensor: Tensor) -> PyResult<Object> {
    let object: *mut PyObject = tensor.object().load(Ordering::Acquire).cast();
    // SAFETY: the pointer is cleared by the object's deallocation, which needs the GIL that we hold. While the attributes
    // of a subclass's object are taken down it is still set, and the object has no references any more: code that runs then
    // must not get it back.
    if let Some(object) = unsafe { Ref::new(object).filter(|_| ffi::Py_REFCNT(object) > 0) } {
        return Ok(object.to_owned());
    }
    wrap_as(tensor, tensor_type())
}

/// As [`wrap`], of a subclass.
fn wrap_as(tensor: Tensor, kind: *mut ffi::PyTypeObject) -> PyResult<Object> {
    // SAFETY: a type with our memory layout; its allocator gives zeroed memory, which is a valid `None`.
    unsafe {
        let object = Object::owned(ffi::PyType_GenericAlloc(kind, 0))?;
        let pointer = object.get().as_ptr();
        tensor.object().store(pointer.cast(), Ordering::Release);
        std::ptr::write(&raw mut (*pointer.cast::<PyTensor>()).tensor, ManuallyDrop::new(Some(tensor)));
        Ok(object)
    }
}

unsafe extern "C" fn dealloc(slf: *mut PyObject) {
    // SAFETY: the last reference is gone; each part is taken down once.
    unsafe {
        let this = slf.cast::<PyTensor>();
        // First: callbacks of weak references may ask for the tensor's object, and this one is no more.
        if let Some(tensor) = (*this).tensor.as_ref() {
            // Only if the pointer is this object's.
            let _ =
                tensor.object().compare_exchange(slf.cast(), null_mut(), Ordering::AcqRel, Ordering::Acquire);
        }
        if !(*this).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(slf);
        }
        let tensor = (*this).tensor.take();
        let kind = ffi::Py_TYPE(slf);
        if let Some(free) = (*kind).tp_free {
            free(slf.cast());
        }
        ffi::Py_DECREF(kind.cast());
        // Last: it may run whatever an owner of memory does when it is given back.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(tensor)));
    }
}

unsafe extern "C" fn new(
    kind: *mut ffi::PyTypeObject,
    args: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a tuple and a dictionary or null.
        let (args, count) = unsafe {
            let count = if keywords.is_null() { 0 } else { ffi::PyDict_Size(keywords) };
            (Ref::new(args), count)
        };
        let items = args.map(Ref::items).unwrap_or_default();
        if items.len() > 1 || count > 0 {
            return Err(Error::ty("Tensor() takes at most one argument: data or another tensor").into());
        }
        let tensor = match items.first() {
            None => factory::empty(&[0], crate::ops::arithmetic::DEFAULT, false)?,
            Some(data) => match of(data.get()) {
                Some(tensor) => tensor.detach(),
                None => convert::tensor_of(data.get(), Some(crate::ops::arithmetic::DEFAULT))?,
            },
        };
        wrap_as(tensor, kind)
    })
}

unsafe extern "C" fn repr(slf: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object.
        let tensor = this(unsafe { Ref::new(slf) })?;
        py::text(&convert::repr(&tensor)?)
    })
}

unsafe extern "C" fn hash(slf: *mut PyObject) -> ffi::Py_hash_t {
    // Equality is of elements; as a key a tensor is itself. Objects are aligned, so the low bits say nothing.
    ((slf as usize) >> 4) as ffi::Py_hash_t
}

/// Makes the type.
pub fn register(module: Ref<'_>) -> PyResult<()> {
    static MADE: OnceLock<()> = OnceLock::new();
    if MADE.set(()).is_err() {
        return Err(Error::runtime("the module is initialised already").into());
    }
    let members = Box::leak(Box::new([
        ffi::PyMemberDef {
            name: c"__weaklistoffset__".as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: std::mem::offset_of!(PyTensor, weak) as isize,
            flags: ffi::Py_READONLY,
            doc: std::ptr::null(),
        },
        ffi::PyMemberDef::default(),
    ]));
    let slot = |slot: i32, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = vec![
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_hash, hash as *mut c_void),
        slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        slot(ffi::Py_tp_methods, methods::table().cast()),
        slot(ffi::Py_tp_getset, properties::properties().cast()),
    ];
    slots.extend(number::slots());
    slots.extend(buffer::slots());
    slots.push(slot(0, null_mut()));
    let slots = Box::leak(slots.into_boxed_slice());
    let mut spec = ffi::PyType_Spec {
        name: c"lanthorn._C.TensorBase".as_ptr(),
        basicsize: size_of::<PyTensor>() as i32,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec's parts live for ever.
    let kind = unsafe { Object::owned(ffi::PyType_FromSpec(&mut spec))? };
    // NumPy's operators leave the work to ours.
    let priority = py::int(1000)?;
    // SAFETY: live objects and a C string.
    let set = unsafe {
        let (kind, priority) = (kind.get().as_ptr(), priority.get().as_ptr());
        ffi::PyObject_SetAttrString(kind, c"__array_priority__".as_ptr(), priority)
    };
    if set != 0 {
        return Err(py::Fault::Set);
    }
    super::add(module, c"TensorBase", kind.get())?;
    super::add(module, c"Tensor", kind.get())?;
    TYPE.store(kind.into_ptr(), Ordering::Release);
    Ok(())
}
