//! The engine as an addon of Node.
//!
//! | module | what it holds |
//! |---|---|
//! | `value` | numbers, buffers, texts and the scratch words, by Node-API's plain functions |
//! | `state` | what belongs to one environment: the main thread or a worker |
//! | `face` | what a state is for: a session of the class API, or pure graphs |
//! | `call` | one call from JavaScript, and the calls that both have |
//! | `session_calls` | the raw calls of `docs/faces.md` |
//! | `graph_calls` | the raw calls of `js/effect/src/raw.ts` |
//! | `lifetimes` | handles go with the objects that held them |
//! | `jobs` | reads and commits away from the event loop |
//! | `files` | files of tensors, also away from the event loop |
//! | `profile` | what the device does between two moments |
//! | `tokenizers` | tokenizers and chat templates, on threads of their own |
//!
//! It converts and hands over, and holds no shapes, no gradients and no kernels; those are in `lanthorn-session`,
//! `lanthorn-graph` and below. Nothing here may panic into Node or run JavaScript while the session is in use.

mod call;
mod face;
mod files;
mod graph_calls;
mod jobs;
mod lifetimes;
mod profile;
mod session_calls;
mod state;
mod tokenizers;
mod value;

use std::panic::catch_unwind;
use std::sync::OnceLock;

use napi_sys as sys;

use crate::state::State;
use crate::value::{Env, Value};

/// The version of Node-API that the addon is written for: that of Node 16 and later.
const NODE_API_VERSION: i32 = 8;

/// Says which version of Node-API the addon is written for.
#[unsafe(no_mangle)]
pub extern "C" fn node_api_module_get_api_version_v1() -> i32 {
    NODE_API_VERSION
}

/// Fills the exports for one environment. Node calls it when the addon is loaded there.
///
/// # Safety
///
/// `env` and `exports` are what Node passes to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napi_register_module_v1(env: sys::napi_env, exports: Value) -> Value {
    /// The process that exports Node-API's functions. They are looked up once for all environments.
    static NODE: OnceLock<bool> = OnceLock::new();
    // SAFETY: sets the table of functions before any is called; later calls wait for the first.
    let is_known = *NODE.get_or_init(|| catch_unwind(|| std::mem::forget(unsafe { sys::setup() })).is_ok());
    if !is_known {
        return exports;
    }
    // SAFETY: Node's environment during this call.
    let env = unsafe { Env::new(env) };
    let installed = State::install(env).and_then(|state| session_calls::exports(env, exports, state));
    if let Err(error) = installed.and_then(|()| tokenizers::exports(env, exports)) {
        env.throw(&error.to_string());
    }
    exports
}
