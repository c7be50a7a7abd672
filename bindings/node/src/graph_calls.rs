//! The raw calls of pure graphs as functions of JavaScript; `js/effect/src/raw.ts` describes them.

use lanthorn_ir::Result;
use napi_sys as sys;

use crate::call::{Call, Function, calls, set_functions};
use crate::face::{Graph, GraphWork};
use crate::files::{Form, Task};
use crate::state::{State, elements};
use crate::value::{Env, Value};

calls! {
    Graph;
    op(call, inner, scratch): 1 => inner.raw.op(scratch, call.number(0));
    create(call, inner, scratch): 2 => {
        let bytes = call.env.bytes(call.values[1])?;
        inner.raw.create(scratch, call.number(0), bytes)
    };
    random(call, inner, scratch): 4 => {
        inner.raw.random(scratch, call.number(0), call.number(1), call.number(2), call.number(3))
    };
    seed(call, inner, _scratch): 1 => inner.raw.seed(call.number(0));
    input(call, inner, scratch): 2 => inner.raw.input(scratch, call.number(0), call.number(1));
    scalar_input(call, inner, _scratch): 2 => inner.raw.scalar_input(call.number(0), call.number(1));
    positions(call, inner, _scratch): 1 => inner.raw.positions(call.number(0));
    describe(call, inner, scratch): 1 => inner.raw.describe(scratch, call.number(0));
    grad(call, inner, scratch): 1 => inner.raw.grad(scratch, call.number(0));
    vjp(call, inner, _scratch): 3 => inner.raw.vjp(call.number(0), call.number(1), call.number(2));
    jvp(call, inner, _scratch): 3 => inner.raw.jvp(call.number(0), call.number(1), call.number(2));
    vmap(call, inner, _scratch): 4 => {
        inner.raw.vmap(call.number(0), call.number(1), call.number(2), call.number(3))
    };
    checkpoint(call, inner, _scratch): 1 => inner.raw.checkpoint(call.number(0));
    compile(call, inner, scratch): 1 => inner.raw.compile(scratch, call.number(0));
    compile_decode(call, inner, scratch): 1 => {
        inner.raw.compile_decode(scratch, &call.env.to_json(call.values[0])?)
    };
    pool(call, inner, _scratch): 1 => inner.raw.pool(&call.env.to_json(call.values[0])?);
    sequence(call, inner, _scratch): 1 => inner.raw.sequence(call.number(0));
    prefill_match(call, inner, scratch): 1 => inner.raw.prefill_match(scratch, call.number(0));
    cursor(call, inner, _scratch): 1 => inner.raw.cursor(call.number(0));
    sample(call, inner, _scratch): 2 => {
        inner.raw.sample(call.number(0), &call.env.to_json(call.values[1])?)
    };
    clear(call, inner, _scratch): 1 => inner.raw.clear(call.number(0));
    stats(call, inner, scratch): 0 => {
        let _ = call;
        inner.raw.stats(scratch)
    };
}

/// About an executable, as JSON.
unsafe extern "C" fn executable(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: Node calls the function that `set_functions` has made.
    let call = unsafe { Call::<Graph, 1>::new(env, info) };
    call.value(|call, inner, _| Ok(call.env.text(&inner.raw.executable(call.number(0))?)))
}

/// Computes the roots in scratch.
unsafe extern "C" fn compute(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `executable`.
    let call = unsafe { Call::<Graph, 0>::new(env, info) };
    call.value(|call, inner, scratch| {
        let job = inner.raw.begin_compute(scratch)?;
        call.start(inner, scratch, GraphWork::Job(job))
    })
}

/// Calls an executable on the bindings and scalars in scratch.
unsafe extern "C" fn execute(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `executable`.
    let call = unsafe { Call::<Graph, 1>::new(env, info) };
    call.value(|call, inner, scratch| {
        let job = inner.raw.begin_execute(scratch, call.number(0), None)?;
        call.start(inner, scratch, GraphWork::Job(job))
    })
}

/// Calls a decode program on what is in scratch; gives a token for each sequence.
unsafe extern "C" fn execute_sampled(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `executable`.
    let call = unsafe { Call::<Graph, 2>::new(env, info) };
    call.value(|call, inner, scratch| {
        let sampling = call.env.to_json(call.values[1])?;
        let job = inner.raw.begin_execute(scratch, call.number(0), Some(&sampling))?;
        call.start(inner, scratch, GraphWork::Job(job))
    })
}

/// The elements of a concrete tensor as an `ArrayBuffer`.
unsafe extern "C" fn read(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `executable`.
    let call = unsafe { Call::<Graph, 1>::new(env, info) };
    call.value(|call, inner, scratch| {
        /// So many bytes are copied faster than they are handed to the thread.
        const FEW: usize = 1 << 20;
        let tensor = inner.raw.elements("read", call.number(0))?;
        if tensor.ty().bytes() <= FEW {
            return elements(call.env, &tensor);
        }
        let job = inner.raw.begin_read(call.number(0))?;
        call.start(inner, scratch, GraphWork::Job(job))
    })
}

/// Writes the tensors in scratch to a file: `(path, header)`; see [`Task::save`].
unsafe extern "C" fn save_safetensors(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `executable`.
    let call = unsafe { Call::<Graph, 2>::new(env, info) };
    call.value(|call, inner, scratch| {
        let path = call.env.to_text(call.values[0])?;
        let header = call.env.to_json(call.values[1])?;
        let tensors = inner.raw.all_elements("saveSafetensors", scratch)?;
        call.start(inner, scratch, GraphWork::File(Some(Task::save(path, &header, tensors)?)))
    })
}

/// Reads the tensors of a file; gives names and metadata as JSON, and handles.
unsafe extern "C" fn load_safetensors(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
    // SAFETY: see `executable`.
    let call = unsafe { Call::<Graph, 1>::new(env, info) };
    call.value(|call, inner, scratch| {
        let path = call.env.to_text(call.values[0])?;
        let device = inner.raw.graph().device().clone();
        call.start(
            inner,
            scratch,
            GraphWork::File(Some(Task::Load { form: Form::Safetensors, path, device })),
        )
    })
}

/// Sets the functions of pure graphs, and the name of their device, as properties of an object.
pub fn functions(env: Env, object: Value, state: *mut State<Graph>) -> Result<()> {
    let further: [(&std::ffi::CStr, Function); 7] = [
        (c"executable", executable),
        (c"compute", compute),
        (c"execute", execute),
        (c"execute_sampled", execute_sampled),
        (c"read", read),
        (c"save_safetensors", save_safetensors),
        (c"load_safetensors", load_safetensors),
    ];
    let all: Vec<(&std::ffi::CStr, Function)> = CALLS.iter().copied().chain(further).collect();
    set_functions(env, object, state, &all)?;
    env.set(object, c"device", env.text("cpu"))
}
