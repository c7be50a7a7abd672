//! The little of CPython's object model that the face needs, made safe.
//!
//! A [`Ref`] is a live object seen by a thread that holds the GIL; it cannot leave the thread. Who has a `Ref` or an
//! [`Object`] may call Python, hence the functions here are safe. [`without_gil`] takes closures that are `Send`, which
//! neither of the two is.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

pub use super::gil::{Caught, Gil, Keep, run, without_gil};
use crate::error::{Error, Exception};

/// A failure: an exception that is set in the interpreter, or an error that is yet to become one.
pub enum Fault {
    /// The interpreter's error indicator is set.
    Set,
    /// Not raised yet.
    Error(Error),
}

/// The result of what may raise.
pub type PyResult<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

impl From<lanthorn_ir::Error> for Fault {
    fn from(error: lanthorn_ir::Error) -> Fault {
        Fault::Error(error.into())
    }
}

/// A borrowed object.
#[derive(Clone, Copy)]
pub struct Ref<'a>(pub(super) NonNull<PyObject>, pub(super) PhantomData<(&'a PyObject, *mut ())>);

/// An owned object.
pub struct Object(pub(super) NonNull<PyObject>, PhantomData<*mut ()>);

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and the thread that has an `Object` holds the GIL.
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) };
    }
}

impl Object {
    /// Takes over a new reference; null means that an exception is set.
    ///
    /// # Safety
    /// The pointer is a reference that the caller owns, or null; the GIL is held.
    pub unsafe fn owned(pointer: *mut PyObject) -> PyResult<Object> {
        NonNull::new(pointer).map(|pointer| Object(pointer, PhantomData)).ok_or(Fault::Set)
    }

    /// The object, borrowed.
    pub fn get(&self) -> Ref<'_> {
        Ref(self.0, PhantomData)
    }

    /// Hands the reference to the interpreter.
    pub fn into_ptr(self) -> *mut PyObject {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }
}

impl<'a> Ref<'a> {
    /// # Safety
    /// The pointer is an object that lives for `'a`; the GIL is held meanwhile.
    pub unsafe fn new(pointer: *mut PyObject) -> Option<Ref<'a>> {
        NonNull::new(pointer).map(|pointer| Ref(pointer, PhantomData))
    }

    /// The pointer.
    pub fn as_ptr(self) -> *mut PyObject {
        self.0.as_ptr()
    }

    /// A reference of our own.
    pub fn to_owned(self) -> Object {
        // SAFETY: a live object.
        unsafe { ffi::Py_INCREF(self.as_ptr()) };
        Object(self.0, PhantomData)
    }

    /// True for `None`.
    pub fn is_none(self) -> bool {
        // SAFETY: a constant of the interpreter.
        self.as_ptr() == unsafe { ffi::Py_None() }
    }

    /// The name of its type.
    pub fn type_name(self) -> String {
        // SAFETY: every object has a type, whose name lives as long.
        let name = unsafe { CStr::from_ptr((*ffi::Py_TYPE(self.as_ptr())).tp_name) }.to_string_lossy();
        name.rsplit('.').next().unwrap_or_default().to_string()
    }

    /// True for `True` and `False`.
    pub fn is_bool(self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyBool_Check(self.as_ptr()) != 0 }
    }

    /// True for integers, `bool` included.
    pub fn is_int(self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyLong_Check(self.as_ptr()) != 0 }
    }

    /// True for floats.
    pub fn is_float(self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyFloat_Check(self.as_ptr()) != 0 }
    }

    /// True for lists and tuples.
    pub fn is_list(self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyList_Check(self.as_ptr()) != 0 || ffi::PyTuple_Check(self.as_ptr()) != 0 }
    }

    /// True for tuples.
    pub fn is_tuple(self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyTuple_Check(self.as_ptr()) != 0 }
    }

    /// True if it counts as an integer (`__index__`).
    pub fn is_index(self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyIndex_Check(self.as_ptr()) != 0 }
    }

    /// An attribute; an exception if there is none.
    pub fn attr(self, name: &CStr) -> PyResult<Object> {
        // SAFETY: a live object and a C string.
        unsafe { Object::owned(ffi::PyObject_GetAttrString(self.as_ptr(), name.as_ptr())) }
    }

    /// An attribute, if there is one.
    pub fn attr_if_any(self, name: &CStr) -> PyResult<Option<Object>> {
        match self.attr(name) {
            Ok(value) => Ok(Some(value)),
            Err(_) if clear_if(exception_type(Kind::Attribute)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Calls it.
    pub fn call(self, arguments: &[Ref<'_>]) -> PyResult<Object> {
        let pointers: Vec<*mut PyObject> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        // SAFETY: live objects; the vector outlives the call.
        unsafe {
            Object::owned(ffi::PyObject_Vectorcall(
                self.as_ptr(),
                pointers.as_ptr(),
                pointers.len(),
                null_mut(),
            ))
        }
    }

    /// Calls it with keyword arguments.
    pub fn call_with(self, arguments: &[Ref<'_>], keywords: &[(&str, Ref<'_>)]) -> PyResult<Object> {
        let names: Vec<Object> = keywords.iter().map(|(name, _)| text(name)).collect::<PyResult<_>>()?;
        let names = tuple(names)?;
        let all = arguments.iter().chain(keywords.iter().map(|(_, value)| value));
        let pointers: Vec<*mut PyObject> = all.map(|argument| argument.as_ptr()).collect();
        // SAFETY: live objects; the names are a tuple of strings, as many as the last values.
        unsafe {
            let (arguments, names) = (arguments.len(), names.get().as_ptr());
            Object::owned(ffi::PyObject_Vectorcall(self.as_ptr(), pointers.as_ptr(), arguments, names))
        }
    }

    /// The items of a list or tuple, each with a reference of its own: the list may change meanwhile.
    pub fn items(self) -> Vec<Object> {
        let at = |index: isize| {
            // SAFETY: a list or tuple, and an index within it; both give borrowed references.
            unsafe {
                let item = if ffi::PyList_Check(self.as_ptr()) != 0 {
                    ffi::PyList_GetItem(self.as_ptr(), index)
                } else {
                    ffi::PyTuple_GetItem(self.as_ptr(), index)
                };
                Ref::new(item).map(Ref::to_owned)
            }
        };
        (0..self.len()).filter_map(at).collect()
    }

    /// The length of a list or tuple.
    pub fn len(self) -> isize {
        // SAFETY: a live object; checked to be one of the two.
        unsafe {
            if ffi::PyList_Check(self.as_ptr()) != 0 {
                ffi::PyList_Size(self.as_ptr())
            } else if ffi::PyTuple_Check(self.as_ptr()) != 0 {
                ffi::PyTuple_Size(self.as_ptr())
            } else {
                0
            }
        }
    }

    /// A string's text.
    pub fn str(self) -> PyResult<String> {
        let mut length = 0;
        // SAFETY: a live object; null comes with an exception.
        unsafe {
            let start = ffi::PyUnicode_AsUTF8AndSize(self.as_ptr(), &mut length);
            if start.is_null() {
                return Err(Fault::Set);
            }
            let bytes = std::slice::from_raw_parts(start.cast::<u8>(), length as usize);
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    /// An integer that fits 64 bits, by `__index__`.
    pub fn int(self) -> PyResult<i64> {
        let mut overflow = 0;
        // SAFETY: a live object; `PyNumber_Index` gives a new reference or raises.
        unsafe {
            let whole = Object::owned(ffi::PyNumber_Index(self.as_ptr()))?;
            let value = ffi::PyLong_AsLongLongAndOverflow(whole.get().as_ptr(), &mut overflow);
            if overflow != 0 {
                return Err(Error::runtime("Overflow when unpacking long").into());
            }
            if value == -1 && !ffi::PyErr_Occurred().is_null() {
                return Err(Fault::Set);
            }
            Ok(value)
        }
    }

    /// A float, by `__float__`.
    pub fn float(self) -> PyResult<f64> {
        // SAFETY: a live object.
        unsafe {
            let value = ffi::PyFloat_AsDouble(self.as_ptr());
            if value == -1.0 && !ffi::PyErr_Occurred().is_null() {
                return Err(Fault::Set);
            }
            Ok(value)
        }
    }

    /// Its truth.
    pub fn truth(self) -> PyResult<bool> {
        // SAFETY: a live object.
        match unsafe { ffi::PyObject_IsTrue(self.as_ptr()) } {
            -1 => Err(Fault::Set),
            value => Ok(value == 1),
        }
    }
}

/// Which built-in exception.
#[derive(Clone, Copy)]
pub enum Kind {
    Of(Exception),
    Attribute,
    Import,
}

fn exception_type(kind: Kind) -> *mut PyObject {
    // SAFETY: constants of the interpreter.
    unsafe {
        match kind {
            Kind::Of(Exception::Runtime) => ffi::PyExc_RuntimeError,
            Kind::Of(Exception::Type) => ffi::PyExc_TypeError,
            Kind::Of(Exception::Index) => ffi::PyExc_IndexError,
            Kind::Of(Exception::Value) => ffi::PyExc_ValueError,
            Kind::Of(Exception::NotImplemented) => ffi::PyExc_NotImplementedError,
            Kind::Of(Exception::Buffer) => ffi::PyExc_BufferError,
            Kind::Of(Exception::Overflow) => ffi::PyExc_OverflowError,
            Kind::Attribute => ffi::PyExc_AttributeError,
            Kind::Import => ffi::PyExc_ImportError,
        }
    }
}

/// Clears the exception that is set if it is of that type; true if it was.
fn clear_if(kind: *mut PyObject) -> bool {
    // SAFETY: the GIL is held; an exception is set.
    unsafe {
        let is_it = ffi::PyErr_ExceptionMatches(kind) != 0;
        if is_it {
            ffi::PyErr_Clear();
        }
        is_it
    }
}

/// Clears the exception that is set if it is of that kind; true if it was.
pub fn clear_if_kind(kind: Kind) -> bool {
    clear_if(exception_type(kind))
}

/// Raises an exception of that kind.
pub fn raise(kind: Kind, message: &str) -> Fault {
    // SAFETY: the GIL is held, as by all who can call this from the interpreter.
    unsafe {
        match text(message) {
            Ok(message) => ffi::PyErr_SetObject(exception_type(kind), message.get().as_ptr()),
            Err(_) => return Fault::Set,
        }
    }
    Fault::Set
}

impl Fault {
    /// Sets the interpreter's error indicator.
    pub fn set(self) {
        let Fault::Error(error) = self else { return };
        if let Some(raised) = error.raised.as_ref().and_then(|raised| raised.take())
            && let Ok(caught) = raised.downcast::<Caught>()
        {
            return caught.restore();
        }
        raise(Kind::Of(error.exception), &error.message);
    }
}

/// Runs the body of a function that the interpreter called: errors and panics become exceptions.
pub fn guard(body: impl FnOnce() -> PyResult<Object>) -> *mut PyObject {
    match caught(body) {
        Some(object) => object.into_ptr(),
        None => null_mut(),
    }
}

/// As [`guard`], for functions that return a number: -1 for an exception.
pub fn guard_int(body: impl FnOnce() -> PyResult<i32>) -> i32 {
    caught(body).unwrap_or(-1)
}

fn caught<R>(body: impl FnOnce() -> PyResult<R>) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(fault)) => {
            fault.set();
            None
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            raise(Kind::Of(Exception::Runtime), &format!("a fault of the engine, please report it: {text}"));
            None
        }
    }
}

/// A string.
pub fn text(value: &str) -> PyResult<Object> {
    // SAFETY: the bytes are UTF-8.
    unsafe {
        Object::owned(ffi::PyUnicode_FromStringAndSize(value.as_ptr().cast::<c_char>(), value.len() as isize))
    }
}

/// `None`.
pub fn none() -> Object {
    // SAFETY: a constant of the interpreter, never null.
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        Object(NonNull::new_unchecked(ffi::Py_None()), PhantomData)
    }
}

/// `NotImplemented`: the interpreter asks the other operand.
pub fn not_implemented() -> Object {
    // SAFETY: a constant of the interpreter, never null.
    unsafe {
        ffi::Py_INCREF(ffi::Py_NotImplemented());
        Object(NonNull::new_unchecked(ffi::Py_NotImplemented()), PhantomData)
    }
}

/// `True` or `False`.
pub fn boolean(value: bool) -> PyResult<Object> {
    // SAFETY: gives a new reference.
    unsafe { Object::owned(ffi::PyBool_FromLong(value.into())) }
}

/// An integer.
pub fn int(value: i64) -> PyResult<Object> {
    // SAFETY: gives a new reference.
    unsafe { Object::owned(ffi::PyLong_FromLongLong(value)) }
}

/// An unsigned integer.
pub fn unsigned(value: u64) -> PyResult<Object> {
    // SAFETY: gives a new reference.
    unsafe { Object::owned(ffi::PyLong_FromUnsignedLongLong(value)) }
}

/// A float.
pub fn float(value: f64) -> PyResult<Object> {
    // SAFETY: gives a new reference.
    unsafe { Object::owned(ffi::PyFloat_FromDouble(value)) }
}

/// A tuple.
pub fn tuple(items: Vec<Object>) -> PyResult<Object> {
    // SAFETY: a fresh tuple of that length, each place of which is set once; it takes the references over.
    unsafe {
        let tuple = Object::owned(ffi::PyTuple_New(items.len() as isize))?;
        for (at, item) in items.into_iter().enumerate() {
            ffi::PyTuple_SET_ITEM(tuple.get().as_ptr(), at as isize, item.into_ptr());
        }
        Ok(tuple)
    }
}

/// A list.
pub fn list(items: Vec<Object>) -> PyResult<Object> {
    // SAFETY: a fresh list of that length, each place of which is set once; it takes the references over.
    unsafe {
        let list = Object::owned(ffi::PyList_New(items.len() as isize))?;
        for (at, item) in items.into_iter().enumerate() {
            ffi::PyList_SET_ITEM(list.get().as_ptr(), at as isize, item.into_ptr());
        }
        Ok(list)
    }
}

/// An imported module.
pub fn import(name: &CStr) -> PyResult<Object> {
    // SAFETY: a C string.
    unsafe { Object::owned(ffi::PyImport_ImportModule(name.as_ptr())) }
}
