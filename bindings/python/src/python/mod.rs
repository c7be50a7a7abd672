//! The extension module `lanthorn._C`, for CPython.
//!
//! Functions of the C API are called directly: argument parsing, objects and errors are ours, so that a small op costs
//! little more than its kernel. No panic and no Rust error crosses to the interpreter; memory that Python sees is kept
//! alive by what Python holds.

mod args;
mod autograd;
mod buffer;
mod convert;
mod dlpack;
mod dtype;
mod functions;
mod gil;
mod methods;
mod number;
mod object;
mod properties;
mod py;

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use py::{Kind, PyResult, Ref};

/// Sets an attribute of a module.
pub(crate) fn add(module: Ref<'_>, name: &CStr, value: Ref<'_>) -> PyResult<()> {
    // SAFETY: live objects and a C string; the module takes a reference of its own.
    match unsafe { ffi::PyModule_AddObjectRef(module.as_ptr(), name.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        _ => Err(py::Fault::Set),
    }
}

unsafe extern "C" fn execute(module: *mut PyObject) -> i32 {
    py::guard_int(|| {
        // SAFETY: the interpreter calls this with its module.
        let is_main = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) == 0 };
        if !is_main {
            // Types and storages are those of the process.
            return Err(py::raise(
                Kind::Import,
                "lanthorn._C cannot be imported in a subinterpreter; use the main interpreter or a process",
            ));
        }
        // SAFETY: as above.
        let Some(module) = (unsafe { Ref::new(module) }) else { return Err(py::Fault::Set) };
        dtype::register(module)?;
        object::register(module)?;
        autograd::register(module)?;
        Ok(0)
    })
}

/// What the module consists of; made once and never freed.
struct Definition(*mut ffi::PyModuleDef);
// SAFETY: only used with the GIL.
unsafe impl Send for Definition {}
// SAFETY: as above.
unsafe impl Sync for Definition {}

static DEFINITION: OnceLock<Definition> = OnceLock::new();

fn define() -> Definition {
    let mut methods = functions::functions();
    methods.extend(autograd::functions());
    methods.push(args::end());
    let slots = Box::leak(Box::new([
        ffi::PyModuleDef_Slot { slot: ffi::Py_mod_exec, value: execute as *mut c_void },
        ffi::PyModuleDef_Slot { slot: 0, value: null_mut() },
    ]));
    let definition = ffi::PyModuleDef {
        m_base: ffi::PyModuleDef_HEAD_INIT,
        m_name: c"_C".as_ptr(),
        m_doc: c"Tensors, views and the autograd tape of the Lanthorn engine.".as_ptr(),
        m_size: 0,
        m_methods: Box::leak(methods.into_boxed_slice()).as_mut_ptr(),
        m_slots: slots.as_mut_ptr(),
        m_traverse: None,
        m_clear: None,
        m_free: None,
    };
    Definition(Box::leak(Box::new(definition)))
}

/// The interpreter's way in.
///
/// # Safety
/// Called by the interpreter on import, with the GIL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PyInit__C() -> *mut PyObject {
    // SAFETY: the definition lives for ever.
    unsafe { ffi::PyModuleDef_Init(DEFINITION.get_or_init(define).0) }
}
