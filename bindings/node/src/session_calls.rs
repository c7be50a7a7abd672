//! The raw calls of sessions as functions of JavaScript: numbers in, a number out, negative for an error.

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::Schedule;
use lanthorn_runtime::CancelToken;
use lanthorn_session::raw;
use napi_sys as sys;

use crate::call::{Call, Function, calls, set_functions};
use crate::face::{Graph, Session, Wants, Work};
use crate::files::{self, Form, Task};
use crate::graph_calls;
use crate::state::{Inner, State, elements};
use crate::value::{Env, Value};

calls! {
    Session;
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
    // Gives idle memory back to the system; how many bytes that were.
    trim(call, inner, _scratch): 0 => {
        let _ = call;
        Ok(inner.raw.session().engine().trim() as f64)
    };
    forget_programs(call, inner, _scratch): 0 => {
        let _ = call;
        inner.raw.session().engine().cache().clear();
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
}

/// The elements of a tensor as an `ArrayBuffer`.
unsafe extern "C" fn read(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 1>::new(env, info) };
    call.value(|call, inner, _| {
        let (_, tensor) = inner.raw.read(call.number(0))?;
        elements(call.env, &tensor)
    })
}

/// Calls a captured function on the tensors in scratch away from the event loop; as `later`, with handles as the result.
unsafe extern "C" fn capture_later(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 1>::new(env, info) };
    call.value(|call, inner, scratch| {
        let begun = inner.raw.begin_call(scratch, call.number(0))?;
        call.start(inner, scratch, Work::Call(Box::new(begun)))
    })
}

/// Computes the tensors in scratch away from the event loop; gives a promise, and in scratch the job's number. What is
/// little is done now, and its result given without a promise.
unsafe extern "C" fn later(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 1>::new(env, info) };
    call.value(|call, inner, scratch| {
        let wants = if call.number(0) == 1.0 { Wants::Bytes } else { Wants::Nothing };
        let commit = inner.raw.begin_commit(scratch)?;
        call.start(inner, scratch, Work::Commit(commit.into(), wants))
    })
}

/// The calls of a new session of this environment, without what all of its sessions share.
unsafe extern "C" fn open(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 0>::new(env, info) };
    let opened = call.state.open::<Session>(call.env);
    call.value(|call, _, _| {
        let (session, state) = (call.env.object()?, opened?);
        functions(call.env, session, state)?;
        // SAFETY: opened above.
        unsafe { State::give_to(call.env, session, state)? };
        Ok(session)
    })
}

/// The calls of new pure graphs of this environment: those of `js/effect/src/raw.ts`.
unsafe extern "C" fn graph(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 0>::new(env, info) };
    let opened = call.state.open::<Graph>(call.env);
    call.value(|call, _, _| {
        let (object, state) = (call.env.object()?, opened?);
        graph_calls::functions(call.env, object, state)?;
        // SAFETY: opened above.
        unsafe { State::give_to(call.env, object, state)? };
        call.env.set(object, c"scratch", call.env.shared_numbers(&call.state.scratch)?)?;
        Ok(object)
    })
}

/// Writes the tensors in scratch to a file: `(path, header, 1 for a promise)`; see [`Task::save`].
unsafe extern "C" fn save_safetensors(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 3>::new(env, info) };
    call.value(|call, inner, scratch| {
        let path = call.env.to_text(call.values[0])?;
        let header = call.env.to_json(call.values[1])?;
        let mut commit = inner.raw.begin_commit(scratch)?;
        let results = inner.raw.run(&mut commit, &CancelToken::new());
        let tensors = inner.raw.finish_commit(commit, results)?;
        file(call, inner, Task::save(path, &header, tensors)?, call.number(2))
    })
}

/// Reads the tensors of a file: `(format, path, 1 for a promise)`, the format being the place in [`Form::of`]; gives names,
/// metadata and encodings as JSON, and handles.
unsafe extern "C" fn load_file(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 3>::new(env, info) };
    call.value(|call, inner, _| {
        let form = Form::of(call.number(0))?;
        let path = call.env.to_text(call.values[1])?;
        let device = inner.raw.session().engine().clone();
        file(call, inner, Task::Load { form, path, device }, call.number(2))
    })
}

fn file<const N: usize>(
    call: &Call<'_, Session, N>,
    inner: &mut Inner<Session>,
    task: Task,
    later: f64,
) -> Result<Value> {
    if later == 1.0 {
        return files::start(call.env, call.address(), task);
    }
    task.run(&CancelToken::never())?.into_value(call.env, &mut inner.raw)
}

/// Starts or ends a recording of what the device does; see [`profile::profile`](crate::profile::profile).
unsafe extern "C" fn profile(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 1>::new(env, info) };
    call.value(|call, inner, _| {
        crate::profile::profile(call.env, inner.raw.session().engine(), call.number(0))
    })
}

/// The learning rate of a schedule, which is JSON, at a step: `(schedule, step)`.
unsafe extern "C" fn schedule(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Session, 2>::new(env, info) };
    call.value(|call, _, _| {
        let text = call.env.to_json(call.values[0])?;
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

/// Sets the functions of a session as properties of an object.
fn functions(env: Env, object: Value, state: *mut State<Session>) -> Result<()> {
    let further: [(&std::ffi::CStr, Function); 9] = [
        (c"read", read),
        (c"later", later),
        (c"capture_later", capture_later),
        (c"open", open),
        (c"graph", graph),
        (c"save_safetensors", save_safetensors),
        (c"load_file", load_file),
        (c"schedule", schedule),
        (c"profile", profile),
    ];
    let all: Vec<(&std::ffi::CStr, Function)> = CALLS.iter().copied().chain(further).collect();
    set_functions(env, object, state, &all)
}

/// Puts the functions, the scratch array, and names of counters and devices into the addon's exports.
pub fn exports(env: Env, exports: Value, state: *mut State<Session>) -> Result<()> {
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
