//! The raw calls as functions of JavaScript: numbers in, a number out, negative for an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::Schedule;
use lanthorn_runtime::CancelToken;
use lanthorn_session::raw;
use napi_sys as sys;

use crate::files::{self, Task};
use crate::jobs::Work;
use crate::state::{Inner, State, elements, fault, text_of};
use crate::value::{Env, Value};

/// One call: its arguments, the environment's state and the scratch words.
struct Call<'a, const N: usize> {
    env: Env,
    state: &'a State,
    address: *mut State,
    values: [Value; N],
}

impl<'a, const N: usize> Call<'a, N> {
    /// # Safety
    ///
    /// In a callback of a function made by [`exports`], with what Node passes to it.
    unsafe fn new(env: sys::napi_env, info: sys::napi_callback_info) -> Call<'a, N> {
        // SAFETY: the callback's environment.
        let env = unsafe { Env::new(env) };
        let (values, data) = env.arguments(info);
        let address = data.cast::<State>();
        // SAFETY: functions are made with the environment's state, which outlives them.
        Call { env, state: unsafe { &*address }, address, values }
    }

    fn number(&self, at: usize) -> f64 {
        self.values.get(at).map_or(f64::NAN, |&value| self.env.to_f64(value))
    }

    /// Runs `work`. An error is kept for `error`, and its number is the result.
    fn run(self, work: impl FnOnce(&Self, &mut Inner, &mut [f64]) -> Result<f64>) -> Value {
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
    fn value(self, work: impl FnOnce(&Self, &mut Inner, &mut [f64]) -> Result<Value>) -> Value {
        // SAFETY: see `run`.
        let scratch = unsafe { self.state.scratch.words() };
        let value = self.state.with(|inner| {
            let result = catch_unwind(AssertUnwindSafe(|| work(&self, inner, scratch)));
            let result = result.unwrap_or_else(|panic| Err(fault("call", &*panic)));
            result.unwrap_or_else(|error| self.env.number(inner.raw.number(Err(error))))
        });
        value.unwrap_or_else(|| self.env.number(-1.0))
    }
}

/// Functions of the kind `name(numbers)`, each with the call that it makes.
macro_rules! calls {
    ($($(#[$docs:meta])* $name:ident($call:ident, $inner:ident, $scratch:ident): $arguments:literal => $body:expr;)*) => {
        $(
            $(#[$docs])*
            unsafe extern "C" fn $name(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
                // SAFETY: Node calls the function that `exports` has made.
                let call = unsafe { Call::<$arguments>::new(env, info) };
                call.run(|$call, $inner, $scratch| $body)
            }
        )*

        const CALLS: &[(&std::ffi::CStr, unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> Value)] = &[
            $((
                // SAFETY: ends with the one zero that is added here; a name holds none.
                unsafe { std::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
                $name,
            )),*
        ];
    };
}

calls! {
    op(call, inner, scratch): 1 => inner.raw.op(scratch, call.number(0));
    assign(call, inner, scratch): 2 => inner.raw.assign(scratch, call.number(0), call.number(1));
    copy(call, inner, _scratch): 2 => inner.raw.copy(call.number(0), call.number(1));
    create(call, inner, scratch): 3 => {
        let bytes = call.env.bytes(call.values[2])?;
        inner.raw.create(scratch, call.number(0), call.number(1), bytes)
    };
    random(call, inner, scratch): 4 => {
        inner.raw.random(scratch, call.number(0), call.number(1), call.number(2), call.number(3))
    };
    backward(call, inner, _scratch): 2 => inner.raw.backward(call.number(0), call.number(1));
    gradients(call, inner, scratch): 2 => inner.raw.gradients(scratch, call.number(0), call.number(1));
    grad(call, inner, _scratch): 1 => inner.raw.grad(call.number(0));
    set_grad(call, inner, _scratch): 2 => inner.raw.set_grad(call.number(0), call.number(1));
    requires_grad(call, inner, _scratch): 2 => inner.raw.requires_grad(call.number(0), call.number(1));
    detach(call, inner, _scratch): 1 => inner.raw.detach(call.number(0));
    no_grad(call, inner, _scratch): 1 => inner.raw.no_grad(call.number(0));
    describe(call, inner, scratch): 1 => inner.raw.describe(scratch, call.number(0));
    seed(call, inner, _scratch): 1 => inner.raw.seed(call.number(0));
    release(call, inner, _scratch): 1 => inner.raw.release(call.number(0));
    stats(call, inner, scratch): 0 => {
        let _ = call;
        inner.raw.stats(scratch)
    };
    // 0 stands for no limit.
    memory_limit(call, inner, _scratch): 0 => {
        let _ = call;
        Ok(inner.raw.session().engine().memory_limit().unwrap_or(0) as f64)
    };
    set_memory_limit(call, inner, _scratch): 1 => {
        let bytes = call.number(0) as usize;
        inner.raw.session().engine().set_memory_limit((bytes > 0).then_some(bytes));
        Ok(0.0)
    };
    commit(call, inner, scratch): 0 => {
        let _ = call;
        inner.raw.commit(scratch)
    };
    capture_begin(call, inner, scratch): 1 => inner.raw.capture_begin(scratch, call.number(0));
    capture_end(call, inner, scratch): 1 => inner.raw.capture_end(scratch, call.number(0));
    capture_abort(call, inner, _scratch): 0 => {
        let _ = call;
        inner.raw.capture_abort()
    };
    capture_call(call, inner, scratch): 1 => inner.raw.call(scratch, call.number(0));
    capture_stats(call, inner, scratch): 1 => inner.raw.capture_stats(scratch, call.number(0));
    capture_release(call, inner, _scratch): 1 => inner.raw.capture_release(call.number(0));
    can_run(call, inner, scratch): 2 => inner.raw.can_run(scratch, call.number(0), call.number(1));
    close(call, inner, _scratch): 0 => {
        inner.close(call.env);
        Ok(0.0)
    };
    cancel(call, inner, _scratch): 1 => {
        inner.jobs.cancel(call.number(0));
        Ok(0.0)
    };
    // Watches the objects of an array, whose handles are the first words of scratch, and sweeps if it is time.
    track(call, inner, scratch): 1 => {
        let handles = call.env.length(call.values[0])?;
        let handles = scratch.get(..handles).ok_or_else(|| {
            Error::shape("track", format!("got {handles} objects, expected at most {}", scratch.len()))
        })?;
        inner.lifetimes.watch(call.env, call.values[0], handles);
        let live = inner.live();
        inner.lifetimes.report(call.env, live);
        if inner.lifetimes.is_due(live) {
            inner.sweep(call.env);
        }
        Ok(0.0)
    };
    sweep(call, inner, _scratch): 0 => Ok(inner.sweep(call.env) as f64);
}

impl Inner {
    /// Bytes that the engine holds.
    fn live(&mut self) -> u64 {
        self.raw.session().engine().pool().usage().live as u64
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

/// The elements of a tensor as an `ArrayBuffer`.
unsafe extern "C" fn read(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<1>::new(env, info) };
    call.value(|call, inner, _| {
        let (_, tensor) = inner.raw.read(call.number(0))?;
        elements(call.env, &tensor)
    })
}

/// Starts work, or does it now if it is little: gives a promise, with the job's number in scratch, or the result.
fn start(
    call: &Call<'_, 1>,
    inner: &mut Inner,
    scratch: &mut [f64],
    mut work: Work,
    bytes: bool,
) -> Result<Value> {
    let device = inner.raw.session().engine().clone();
    if work.is_little() {
        let results = work.run(&device, &CancelToken::never());
        return work.finish(&mut inner.raw, results)?.value(call.env, bytes);
    }
    let (number, promise) = inner.jobs.start(call.env, call.address, &device, work, bytes)?;
    if let Some(first) = scratch.first_mut() {
        *first = f64::from(number);
    }
    Ok(promise)
}

/// Calls a captured function on the tensors in scratch away from the event loop; as `later`, with handles as the result.
unsafe extern "C" fn capture_later(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<1>::new(env, info) };
    call.value(|call, inner, scratch| {
        let begun = inner.raw.begin_call(scratch, call.number(0))?;
        start(call, inner, scratch, Work::Call(Box::new(begun)), false)
    })
}

/// Computes the tensors in scratch away from the event loop; gives a promise, and in scratch the job's number. What is
/// little is done now, and its result given without a promise.
unsafe extern "C" fn later(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<1>::new(env, info) };
    call.value(|call, inner, scratch| {
        let bytes = call.number(0) == 1.0;
        let commit = inner.raw.begin_commit(scratch)?;
        start(call, inner, scratch, Work::Commit(commit), bytes)
    })
}

/// The calls of a new session of this environment, without what all of its sessions share.
unsafe extern "C" fn open(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<0>::new(env, info) };
    let opened = call.state.open(call.env);
    call.value(|call, _, _| {
        let session = call.env.object()?;
        functions(call.env, session, opened?)?;
        Ok(session)
    })
}

/// Writes the tensors in scratch to a file: `(path, header, 1 for a promise)`; see [`Task::save`].
unsafe extern "C" fn save_safetensors(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<3>::new(env, info) };
    call.value(|call, inner, scratch| {
        let path = call.env.to_text(call.values[0])?;
        let header = call.env.to_text(call.values[1])?;
        let mut commit = inner.raw.begin_commit(scratch)?;
        let results = inner.raw.run(&mut commit, &CancelToken::new());
        let tensors = inner.raw.finish_commit(commit, results)?;
        file(call, inner, Task::save(path, &header, tensors)?, call.number(2))
    })
}

/// Reads the tensors of a file: `(path, 1 for a promise)`; gives names and metadata as JSON, and handles.
unsafe extern "C" fn load_safetensors(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<2>::new(env, info) };
    call.value(|call, inner, _| {
        let path = call.env.to_text(call.values[0])?;
        let device = inner.raw.session().engine().clone();
        file(call, inner, Task::Load { path, device }, call.number(1))
    })
}

fn file<const N: usize>(call: &Call<'_, N>, inner: &mut Inner, task: Task, later: f64) -> Result<Value> {
    if later == 1.0 {
        return files::start(call.env, call.address, task);
    }
    task.run()?.into_value(call.env, inner)
}

/// Starts or ends a recording of what the device does; see [`profile::profile`](crate::profile::profile).
unsafe extern "C" fn profile(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<1>::new(env, info) };
    call.value(|call, inner, _| {
        crate::profile::profile(call.env, inner.raw.session().engine(), call.number(0))
    })
}

/// The learning rate of a schedule, which is JSON, at a step: `(schedule, step)`.
unsafe extern "C" fn schedule(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<2>::new(env, info) };
    call.value(|call, _, _| {
        let text = call.env.to_text(call.values[0])?;
        let schedule: Schedule = serde_json::from_str(&text)
            .map_err(|error| Error::new(ErrorKind::Format, "schedule", error.to_string()))?;
        schedule.check()?;
        let step = call.number(1);
        if step as u64 as f64 != step {
            return Err(Error::shape("schedule", format!("the step is {step}, expected a whole number")));
        }
        Ok(call.env.number(schedule.at(step as u64)))
    })
}

/// Why the last call failed: kind, op and message on a line each.
unsafe extern "C" fn error(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `exports` has made.
    let call = unsafe { Call::<0>::new(env, info) };
    let text = call.state.with(|inner| inner.raw.error().map(text_of));
    let nothing = || text_of(&Error::new(ErrorKind::Execute, "call", "there is no error"));
    call.env.text(&text.flatten().unwrap_or_else(nothing))
}

/// Sets the functions of a session as properties of an object.
fn functions(env: Env, object: Value, state: *mut State) -> Result<()> {
    type Function = unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> Value;
    let further: [(&std::ffi::CStr, Function); 9] = [
        (c"read", read),
        (c"later", later),
        (c"capture_later", capture_later),
        (c"open", open),
        (c"error", error),
        (c"save_safetensors", save_safetensors),
        (c"load_safetensors", load_safetensors),
        (c"schedule", schedule),
        (c"profile", profile),
    ];
    for (name, function) in CALLS.iter().copied().chain(further) {
        env.set(object, name, env.function(name, Some(function), state.cast())?)?;
    }
    Ok(())
}

/// Puts the functions, the scratch array, and names of counters and devices into the addon's exports.
pub fn exports(env: Env, exports: Value, state: *mut State) -> Result<()> {
    functions(env, exports, state)?;
    // SAFETY: the state was made for this environment just now.
    let scratch = env.shared_numbers(unsafe { &(*state).scratch })?;
    env.set(exports, c"scratch", scratch)?;
    let names: Vec<Value> = raw::STATS.iter().map(|name| env.text(name)).collect();
    env.set(exports, c"counters", env.list(&names)?)?;
    let names: Vec<Value> = raw::CAPTURE_STATS.iter().map(|name| env.text(name)).collect();
    env.set(exports, c"capture_counters", env.list(&names)?)?;
    env.set(exports, c"devices", env.list(&[env.text("cpu")])?)?;
    // A package's raw calls and its addon's belong together, whatever the op table says.
    env.set(exports, c"version", env.text(env!("CARGO_PKG_VERSION")))?;
    env.set(exports, c"fingerprint", env.number(f64::from(raw::fingerprint())))
}
