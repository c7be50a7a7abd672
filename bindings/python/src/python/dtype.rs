//! `dtype` objects: one for each element type, which compare by identity.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

use lanthorn_ir::DType;
use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::py::{self, Object, PyResult, Ref};
use crate::error::Error;
use crate::tensor::promote::scalar_type_name;

/// The object's memory.
#[repr(C)]
struct PyDType {
    base: PyObject,
    code: u8,
}

/// A pointer that is written once, at import, and whose object is never freed.
struct Forever(*mut PyObject);
// SAFETY: only used with the GIL.
unsafe impl Send for Forever {}
// SAFETY: as above.
unsafe impl Sync for Forever {}

static OBJECTS: OnceLock<Vec<Forever>> = OnceLock::new();
static TYPE: OnceLock<Forever> = OnceLock::new();

/// Upstream's names of a dtype, the first of which it prints.
pub fn names(dtype: DType) -> &'static [&'static str] {
    match dtype {
        DType::Bool => &["bool"],
        DType::U8 => &["uint8"],
        DType::U16 => &["uint16"],
        DType::U32 => &["uint32"],
        DType::U64 => &["uint64"],
        DType::I8 => &["int8"],
        DType::I16 => &["int16", "short"],
        DType::I32 => &["int32", "int"],
        DType::I64 => &["int64", "long"],
        DType::F16 => &["float16", "half"],
        DType::BF16 => &["bfloat16"],
        DType::F32 => &["float32", "float"],
        DType::F64 => &["float64", "double"],
        DType::F8E4M3 => &["float8_e4m3fn"],
        DType::F8E5M2 => &["float8_e5m2"],
        DType::C64 => &["complex64", "cfloat"],
        DType::C128 => &["complex128", "cdouble"],
    }
}

/// As upstream prints it.
pub fn show(dtype: DType) -> String {
    format!("torch.{}", names(dtype)[0])
}

/// The object of a dtype.
pub fn object(dtype: DType) -> PyResult<Object> {
    let missing = || Error::runtime("the module has not been initialised");
    let objects = OBJECTS.get().ok_or_else(missing)?;
    let place = DType::ALL.iter().position(|other| *other == dtype);
    let pointer = place.and_then(|at| objects.get(at)).ok_or_else(missing)?;
    // SAFETY: these objects live for ever.
    let object = unsafe { Ref::new(pointer.0) }.ok_or_else(missing)?;
    Ok(object.to_owned())
}

/// The dtype of an object, if it is one.
pub fn of(object: Ref<'_>) -> Option<DType> {
    let own = TYPE.get()?;
    // SAFETY: a live object; the type is compared, then the memory is that of `PyDType`.
    unsafe {
        if ffi::Py_TYPE(object.as_ptr()).cast::<PyObject>() != own.0 {
            return None;
        }
        let code = (*object.as_ptr().cast::<PyDType>()).code;
        DType::ALL.get(usize::from(code)).copied()
    }
}

/// An argument that must be a dtype.
pub fn expect(value: Ref<'_>, function: &str, name: &str) -> PyResult<DType> {
    of(value).ok_or_else(|| {
        let found = value.type_name();
        Error::ty(format!("{function}(): argument '{name}' must be torch.dtype, not {found}")).into()
    })
}

unsafe extern "C" fn repr(slf: *mut PyObject) -> *mut PyObject {
    // SAFETY: called with a live object of this type.
    py::guard(|| match unsafe { Ref::new(slf) }.and_then(of) {
        Some(dtype) => py::text(&show(dtype)),
        None => py::text("torch.dtype"),
    })
}

unsafe extern "C" fn get(slf: *mut PyObject, what: *mut c_void) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object of this type.
        let dtype = unsafe { Ref::new(slf) }.and_then(of).unwrap_or(DType::F32);
        match what as usize {
            0 => py::boolean(dtype.is_float()),
            1 => py::boolean(dtype.is_complex()),
            2 => {
                py::boolean(!matches!(dtype, DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64))
            }
            3 => py::int(dtype.size() as i64),
            _ => py::text(scalar_type_name(dtype)),
        }
    })
}

/// Makes the type and its objects, and names them in the module.
pub fn register(module: Ref<'_>) -> PyResult<()> {
    let getter = |name: &'static std::ffi::CStr, what: usize| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: None,
        doc: std::ptr::null(),
        closure: what as *mut c_void,
    };
    let getters = Box::leak(Box::new([
        getter(c"is_floating_point", 0),
        getter(c"is_complex", 1),
        getter(c"is_signed", 2),
        getter(c"itemsize", 3),
        getter(c"_scalar_type", 4),
        ffi::PyGetSetDef::default(),
    ]));
    let slots = Box::leak(Box::new([
        ffi::PyType_Slot { slot: ffi::Py_tp_repr, pfunc: repr as *mut c_void },
        ffi::PyType_Slot { slot: ffi::Py_tp_getset, pfunc: getters.as_mut_ptr().cast() },
        ffi::PyType_Slot { slot: 0, pfunc: null_mut() },
    ]));
    let mut spec = ffi::PyType_Spec {
        name: c"lanthorn._C.dtype".as_ptr(),
        basicsize: size_of::<PyDType>() as i32,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec's parts live for ever; objects are made by the type's own allocator.
    unsafe {
        let kind = Object::owned(ffi::PyType_FromSpec(&mut spec))?;
        super::add(module, c"dtype", kind.get())?;
        let mut objects = Vec::new();
        for (code, dtype) in DType::ALL.into_iter().enumerate() {
            let made = Object::owned(ffi::PyType_GenericAlloc(kind.get().as_ptr().cast(), 0))?;
            (*made.get().as_ptr().cast::<PyDType>()).code = code as u8;
            for name in names(dtype) {
                let name = std::ffi::CString::new(*name).map_err(|_| Error::runtime("a name with a zero"))?;
                super::add(module, &name, made.get())?;
            }
            objects.push(Forever(made.into_ptr()));
        }
        let _ = OBJECTS.set(objects);
        let _ = TYPE.set(Forever(kind.into_ptr()));
    }
    Ok(())
}
