//! The GIL: held, given up for work, and taken again by whoever drops or calls an object from elsewhere.

use std::any::Any;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::py::{Object, Ref};
use crate::error::Error;

/// An exception taken out of the interpreter, to be raised again in another place or thread.
pub struct Caught {
    kind: Keep,
    value: Option<Keep>,
    traceback: Option<Keep>,
}

impl Caught {
    /// Takes the exception that is set.
    pub fn take() -> Option<Caught> {
        let (mut kind, mut value, mut traceback) = (null_mut(), null_mut(), null_mut());
        // SAFETY: the GIL is held; the three references become ours.
        unsafe {
            ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback);
            let keep = |pointer: *mut PyObject| NonNull::new(pointer).map(Keep);
            Some(Caught { kind: keep(kind)?, value: keep(value), traceback: keep(traceback) })
        }
    }

    /// As an error of the core. With none set, says so.
    pub fn into_error(caught: Option<Caught>) -> Error {
        match caught {
            Some(caught) => Error::raised(Box::new(caught) as Box<dyn Any + Send>),
            None => Error::runtime("a hook failed without an exception"),
        }
    }

    /// Raises it again.
    pub(super) fn restore(self) {
        let pointer = |keep: Option<Keep>| keep.map_or(null_mut(), Keep::into_ptr);
        // SAFETY: the GIL is held; the references are handed over.
        unsafe { ffi::PyErr_Restore(self.kind.into_ptr(), pointer(self.value), pointer(self.traceback)) };
    }
}

/// A reference that may be held and dropped by any thread.
pub struct Keep(NonNull<PyObject>);

// SAFETY: the count is only touched with the GIL, which `drop` takes.
unsafe impl Send for Keep {}
// SAFETY: as above; the object is only used with the GIL.
unsafe impl Sync for Keep {}

impl Keep {
    /// Keeps an object.
    pub fn new(object: Object) -> Keep {
        let pointer = object.0;
        std::mem::forget(object);
        Keep(pointer)
    }

    /// The object, for one who holds the GIL.
    pub fn get<'a>(&'a self, _gil: &'a Gil) -> Ref<'a> {
        Ref(self.0, PhantomData)
    }

    fn into_ptr(self) -> *mut PyObject {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        // SAFETY: asks only whether there is an interpreter. After its end the object is gone anyway.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return;
        }
        let _gil = Gil::take();
        // SAFETY: the reference is ours and the GIL is held.
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) };
    }
}

/// The GIL, held until dropped. A thread may take it again while it holds it.
pub struct Gil(ffi::PyGILState_STATE, PhantomData<*mut ()>);

impl Gil {
    /// Waits for the GIL.
    pub fn take() -> Gil {
        // SAFETY: the interpreter runs; pairs with the release in `drop`.
        Gil(unsafe { ffi::PyGILState_Ensure() }, PhantomData)
    }
}

impl Drop for Gil {
    fn drop(&mut self) {
        // SAFETY: pairs with the `Ensure` of this thread.
        unsafe { ffi::PyGILState_Release(self.0) };
    }
}

/// Runs `work` while other Python threads may run.
pub fn without_gil<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    struct Saved(*mut ffi::PyThreadState);
    impl Drop for Saved {
        fn drop(&mut self) {
            // SAFETY: the state that this thread gave up.
            unsafe { ffi::PyEval_RestoreThread(self.0) };
        }
    }
    // SAFETY: this thread holds the GIL: it was called from the interpreter.
    let _saved = Saved(unsafe { ffi::PyEval_SaveThread() });
    work()
}

/// Work from which on other threads may run meanwhile: below, giving the GIL up costs more than the work.
pub const LARGE: usize = 1 << 14;

/// Runs `compute`, which handles so many elements, and lets other threads run if that is much.
pub fn run<R: Send>(elements: usize, compute: impl FnOnce() -> R + Send) -> R {
    if elements > LARGE { without_gil(compute) } else { compute() }
}
