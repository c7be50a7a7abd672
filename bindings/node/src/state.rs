//! What belongs to one environment: its session with the engine or its graphs, the scratch words, handles and jobs.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_runtime::{EagerTensor, register_backend};
use napi_sys as sys;

use crate::face::{Face, Session};
use crate::jobs::Jobs;
use crate::lifetimes::Lifetimes;
use crate::value::{Env, Scratch, Value};

/// One environment's state. Its address is what callbacks are given; Node gives it back when the environment ends.
pub struct State<F: Face> {
    pub scratch: Arc<Scratch>,
    inner: RefCell<Inner<F>>,
    /// Tells what outlives the state that it is gone.
    has_ended: Rc<Cell<bool>>,
}

/// What changes.
pub struct Inner<F: Face> {
    pub raw: F,
    pub lifetimes: Lifetimes,
    pub jobs: Jobs<F>,
    /// True once nobody in JavaScript can make a call any more.
    is_abandoned: bool,
}

impl<F: Face> Inner<F> {
    fn new() -> Inner<F> {
        let device = register_backend(Arc::new(CpuBackend));
        let (lifetimes, jobs) = (Lifetimes::default(), Jobs::default());
        Inner { raw: F::new(device), lifetimes, jobs, is_abandoned: false }
    }

    /// Lets go of everything once no promise waits for a job, for a state that nobody can call any more.
    fn abandon(&mut self, env: Env) {
        self.is_abandoned = true;
        self.close_if_abandoned(env);
    }

    /// Lets go of everything if nobody can call the state any more and no promise waits for a job.
    pub fn close_if_abandoned(&mut self, env: Env) {
        if self.is_abandoned && self.jobs.is_idle() {
            self.close(env);
        }
    }

    /// Stops all work and lets go of every tensor.
    pub fn close(&mut self, env: Env) {
        self.jobs.close(env);
        self.lifetimes.clear(env);
        let device = self.raw.device().clone();
        self.raw = F::new(device);
    }
}

impl State<Session> {
    /// A state with a session on this machine's processor, owned by the environment from now on.
    pub fn install(env: Env) -> Result<*mut State<Session>> {
        unsafe extern "C" fn release(_: sys::napi_env, state: *mut c_void, _: *mut c_void) {
            // SAFETY: the box that `install` has given away; no callback comes after this.
            drop(unsafe { Box::from_raw(state.cast::<State<Session>>()) });
        }
        let state = Box::into_raw(Box::new(State::new(Scratch::new())));
        // SAFETY: the state is Node's to release, once, at the environment's end.
        let status = unsafe {
            sys::napi_set_instance_data(env.raw(), state.cast(), Some(release), std::ptr::null_mut())
        };
        if status != sys::Status::napi_ok {
            // SAFETY: Node has not taken it.
            drop(unsafe { Box::from_raw(state) });
            return Err(Error::new(ErrorKind::Execute, "node", "Node keeps no data for the addon"));
        }
        Ok(state)
    }
}

impl<F: Face> Drop for State<F> {
    fn drop(&mut self) {
        self.has_ended.set(true);
    }
}

/// What an object holds of the state whose functions it has.
struct Owned<F: Face> {
    state: *mut State<F>,
    has_ended: Rc<Cell<bool>>,
}

impl<F: Face> State<F> {
    fn new(scratch: Arc<Scratch>) -> State<F> {
        State { scratch, inner: RefCell::new(Inner::new()), has_ended: Rc::default() }
    }

    /// Has everything of `state` go with `object`, which has its functions: once the object is collected, nobody calls
    /// them any more. The state itself stays, empty, until the environment ends.
    ///
    /// # Safety
    ///
    /// `state` is one that [`State::open`] gave in this callback.
    pub unsafe fn give_to(env: Env, object: Value, state: *mut State<F>) -> Result<()> {
        unsafe extern "C" fn collected<F: Face>(env: sys::napi_env, owned: *mut c_void, _: *mut c_void) {
            // SAFETY: the box that `give_to` has given away, once.
            let owned = unsafe { Box::from_raw(owned.cast::<Owned<F>>()) };
            if !owned.has_ended.get() {
                // SAFETY: the state is there, and this is its environment's thread.
                let (env, state) = unsafe { (Env::new(env), &*owned.state) };
                state.with(|inner| inner.abandon(env));
            }
        }
        // SAFETY: the caller's promise.
        let has_ended = unsafe { &*state }.has_ended.clone();
        let owned = Box::into_raw(Box::new(Owned { state, has_ended }));
        // SAFETY: the box is Node's to release, once, when the object is collected or the environment ends.
        let status = unsafe {
            let release = Some(collected::<F> as _);
            sys::napi_wrap(env.raw(), object, owned.cast(), release, ptr::null_mut(), ptr::null_mut())
        };
        if status != sys::Status::napi_ok {
            // SAFETY: Node has not taken it.
            drop(unsafe { Box::from_raw(owned) });
            return Err(Error::new(ErrorKind::Execute, "node", "Node keeps no data for a session"));
        }
        Ok(())
    }

    /// A state with a session or graphs of its own and this one's scratch words, until the environment ends: functions that
    /// were made for it may be kept for as long.
    pub fn open<G: Face>(&self, env: Env) -> Result<*mut State<G>> {
        unsafe extern "C" fn release<G: Face>(state: *mut c_void) {
            // SAFETY: the box that `open` has given away; the environment runs no callback any more.
            drop(unsafe { Box::from_raw(state.cast::<State<G>>()) });
        }
        let state = Box::into_raw(Box::new(State::<G>::new(self.scratch.clone())));
        // SAFETY: hooks run in reverse, so that those of the state's jobs come before this one.
        let status = unsafe { sys::napi_add_env_cleanup_hook(env.raw(), Some(release::<G>), state.cast()) };
        if status != sys::Status::napi_ok {
            // SAFETY: Node has not taken it.
            drop(unsafe { Box::from_raw(state) });
            return Err(Error::new(ErrorKind::Execute, "node", "Node takes no hook for a session"));
        }
        Ok(state)
    }

    /// Works on the state. `None` inside of such work, which nothing in this crate does.
    pub fn with<T>(&self, work: impl FnOnce(&mut Inner<F>) -> T) -> Option<T> {
        self.inner.try_borrow_mut().ok().map(|mut inner| work(&mut inner))
    }
}

/// The error of a panic: a fault of the engine, not of its caller.
pub fn fault(op: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    Error::new(ErrorKind::Execute, op, format!("the engine has a fault, please report it: {text}"))
}

/// The elements of a tensor in row-major order, as an `ArrayBuffer`.
pub fn elements(env: Env, tensor: &EagerTensor) -> Result<Value> {
    let whole = tensor.contiguous()?;
    let start = whole.layout().offset * whole.dtype().size();
    env.buffer(whole.ty().bytes(), |target| {
        let copied = whole.storage().read(|bytes| {
            bytes.get(start..start + target.len()).map(|bytes| target.copy_from_slice(bytes))
        })?;
        copied
            .ok_or_else(|| Error::new(ErrorKind::Transfer, "read", "the storage is smaller than its tensor"))
    })
}
