//! One call from JavaScript, and the calls that sessions and graphs share.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_runtime::CancelToken;
use napi_sys as sys;

use crate::face::Face;
use crate::state::{Inner, State, fault};
use crate::value::{Env, Value};

/// A function of JavaScript.
pub type Function = unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> Value;

/// One call: its arguments, the environment's state and the scratch words.
pub struct Call<'a, F: Face, const N: usize> {
    pub env: Env,
    pub state: &'a State<F>,
    address: *mut State<F>,
    pub values: [Value; N],
}

impl<F: Face, const N: usize> Call<'_, F, N> {
    /// # Safety
    ///
    /// In a callback of a function made by [`set_functions`] for a state of this face, with what Node passes to it.
    pub unsafe fn new(env: sys::napi_env, info: sys::napi_callback_info) -> Self {
        // SAFETY: the callback's environment.
        let env = unsafe { Env::new(env) };
        let (values, data) = env.arguments(info);
        let address = data.cast::<State<F>>();
        // SAFETY: functions are made with the environment's state, which outlives them.
        Call { env, state: unsafe { &*address }, address, values }
    }

    pub fn number(&self, at: usize) -> f64 {
        self.values.get(at).map_or(f64::NAN, |&value| self.env.to_f64(value))
    }

    /// Runs `work`. An error is kept for `error`, and its number is the result.
    pub fn run(self, work: impl FnOnce(&Self, &mut Inner<F>, &mut [f64]) -> Result<f64>) -> Value {
        // SAFETY: on the environment's thread, and `work` runs no JavaScript and gets no second reference.
        let scratch = unsafe { self.state.scratch.words() };
        let number = self.state.with(|inner| {
            let result = catch_unwind(AssertUnwindSafe(|| work(&self, inner, scratch)));
            let result = result.unwrap_or_else(|panic| Err(fault("call", &*panic)));
            inner.raw.number(result)
        });
        self.env.number(number.unwrap_or(-1.0))
    }

    /// Runs `work`, whose result is a value. An error is kept for `error`, and its number is the result.
    pub fn value(self, work: impl FnOnce(&Self, &mut Inner<F>, &mut [f64]) -> Result<Value>) -> Value {
        // SAFETY: see `run`.
        let scratch = unsafe { self.state.scratch.words() };
        let value = self.state.with(|inner| {
            let result = catch_unwind(AssertUnwindSafe(|| work(&self, inner, scratch)));
            let result = result.unwrap_or_else(|panic| Err(fault("call", &*panic)));
            result.unwrap_or_else(|error| self.env.number(inner.raw.number(Err(error))))
        });
        value.unwrap_or_else(|| self.env.number(-1.0))
    }

    /// Starts work, or does it now if it is little: gives a promise, with the job's number in scratch, or the result.
    pub fn start(&self, inner: &mut Inner<F>, scratch: &mut [f64], mut work: F::Work) -> Result<Value> {
        if F::is_little(&work) {
            let cancel = CancelToken::never();
            let output = F::run(&mut work, &inner.raw.device().clone(), &cancel);
            return inner.raw.finish(self.env, work, output, &cancel);
        }
        let device = inner.raw.device().clone();
        let (number, promise) = inner.jobs.start(self.env, self.address, &device, work)?;
        if let Some(first) = scratch.first_mut() {
            *first = f64::from(number);
        }
        Ok(promise)
    }

    /// The state's address, for work that comes back to it.
    pub fn address(&self) -> *mut State<F> {
        self.address
    }
}

/// Functions of the kind `name(numbers)`, each with the call that it makes.
macro_rules! calls {
    ($face:ty; $($(#[$docs:meta])* $name:ident($call:ident, $inner:ident, $scratch:ident): $arguments:literal => $body:expr;)*) => {
        $(
            $(#[$docs])*
            unsafe extern "C" fn $name(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
                // SAFETY: Node calls the function that `set_functions` has made.
                let call = unsafe { $crate::call::Call::<$face, $arguments>::new(env, info) };
                call.run(|$call, $inner, $scratch| $body)
            }
        )*

        const CALLS: &[(&std::ffi::CStr, $crate::call::Function)] = &[
            $((
                // SAFETY: ends with the one zero that is added here; a name holds none.
                unsafe { std::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
                $name,
            )),*
        ];
    };
}
pub(crate) use calls;

/// Why the last call failed: kind, op and message on a line each.
unsafe extern "C" fn error<F: Face>(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<F, 0>::new(env, info) };
    let text = call.state.with(|inner| inner.raw.error().map(Error::to_lines));
    let nothing = || Error::new(ErrorKind::Execute, "call", "there is no error").to_lines();
    call.env.text(&text.flatten().unwrap_or_else(nothing))
}

/// Gives up a handle.
unsafe extern "C" fn release<F: Face>(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `error`.
    let call = unsafe { Call::<F, 1>::new(env, info) };
    call.run(|call, inner, _| inner.raw.release(call.number(0)))
}

/// Stops all work and lets go of everything.
unsafe extern "C" fn close<F: Face>(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `error`.
    let call = unsafe { Call::<F, 0>::new(env, info) };
    call.run(|call, inner, _| {
        inner.close(call.env);
        Ok(0.0)
    })
}

/// Asks a job to stop.
unsafe extern "C" fn cancel<F: Face>(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `error`.
    let call = unsafe { Call::<F, 1>::new(env, info) };
    call.run(|call, inner, _| {
        inner.jobs.cancel(call.number(0));
        Ok(0.0)
    })
}

/// Watches the objects of an array, whose handles are the first words of scratch, and sweeps if it is time.
unsafe extern "C" fn track<F: Face>(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `error`.
    let call = unsafe { Call::<F, 1>::new(env, info) };
    call.run(|call, inner, scratch| {
        let handles = call.env.length(call.values[0])?;
        let handles = scratch.get(..handles).ok_or_else(|| {
            Error::shape("track", format!("got {handles} objects, expected at most {}", scratch.len()))
        })?;
        inner.lifetimes.watch(call.env, call.values[0], handles);
        let live = inner.live();
        inner.lifetimes.report(call.env, live);
        if inner.lifetimes.is_due(call.env, live) {
            inner.sweep(call.env);
        }
        Ok(0.0)
    })
}

/// Releases the handles of collected objects; gives how many those were.
unsafe extern "C" fn sweep<F: Face>(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `error`.
    let call = unsafe { Call::<F, 0>::new(env, info) };
    call.run(|call, inner, _| Ok(inner.sweep(call.env) as f64))
}

/// Sets functions, those of every face among them, as properties of an object.
pub fn set_functions<F: Face>(
    env: Env,
    object: Value,
    state: *mut State<F>,
    functions: &[(&CStr, Function)],
) -> Result<()> {
    let shared: [(&CStr, Function); 6] = [
        (c"error", error::<F>),
        (c"release", release::<F>),
        (c"close", close::<F>),
        (c"cancel", cancel::<F>),
        (c"track", track::<F>),
        (c"sweep", sweep::<F>),
    ];
    for &(name, function) in functions.iter().chain(&shared) {
        env.set(object, name, env.function(name, Some(function), state.cast())?)?;
    }
    Ok(())
}

impl<F: Face> Inner<F> {
    /// Bytes that the engine holds.
    fn live(&mut self) -> u64 {
        self.raw.device().pool().usage().live as u64
    }

    /// Releases the handles of collected objects; gives how many those were.
    fn sweep(&mut self, env: Env) -> usize {
        let Inner { raw, lifetimes, .. } = self;
        let count = lifetimes.sweep(env, |handle| {
            // A handle that was released by hand is stale; its object may still be watched.
            let _ = raw.release(handle);
        });
        let live = self.live();
        self.lifetimes.settle(live);
        self.lifetimes.report(env, live);
        count
    }
}
