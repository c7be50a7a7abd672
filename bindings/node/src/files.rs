//! Files of tensors, read and written on the caller's thread or, for the asynchronous forms, on one of Node's.
//!
//! A task holds paths, names and concrete tensors, nothing of JavaScript and nothing of the session.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use indexmap::IndexMap;
use lanthorn_io::{Tensors, safetensors};
use lanthorn_ir::{Error, ErrorKind, Result, TensorType};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};
use napi_sys as sys;

use crate::face::{Face, Session};
use crate::state::{State, fault};
use crate::value::{Env, Value};

/// What is to be done with a file.
pub enum Task {
    Save { path: String, names: Vec<String>, metadata: IndexMap<String, String>, tensors: Vec<EagerTensor> },
    Load { path: String, device: Device },
}

/// What a file holds; nothing after a file was written.
#[derive(Default)]
pub struct Content {
    names: Vec<String>,
    metadata: IndexMap<String, String>,
    tensors: Vec<EagerTensor>,
}

impl Task {
    /// A task that writes tensors under their names, which are JSON as the metadata are: `[[name..], {key: text}]`.
    ///
    /// Errors: other JSON; another number of tensors than of names.
    pub fn save(path: String, header: &str, tensors: Vec<EagerTensor>) -> Result<Task> {
        let (names, metadata): (Vec<String>, IndexMap<String, String>) = serde_json::from_str(header)
            .map_err(|error| Error::new(ErrorKind::Format, "saveSafetensors", error.to_string()))?;
        if names.len() != tensors.len() {
            let message = format!("{} names for {} tensors", names.len(), tensors.len());
            return Err(Error::shape("saveSafetensors", message));
        }
        Ok(Task::Save { path, names, metadata, tensors })
    }

    /// Does it, unless it is cancelled; waits for the disk.
    pub fn run(self, cancel: &CancelToken) -> Result<Content> {
        match self {
            Task::Save { path, names, metadata, tensors } => {
                let tensors = tensors.iter().map(owned).collect::<Result<Vec<_>>>()?;
                let named = names.iter().map(String::as_str).zip(tensors.iter().map(|tensor| tensor.view()));
                safetensors::save_unless(path, named, &metadata, &|| cancel.is_cancelled())?;
                Ok(Content::default())
            }
            Task::Load { path, device } => {
                let file = Tensors::open(path)?;
                let mut content = Content { metadata: file.metadata().clone(), ..Content::default() };
                for (name, view) in &file {
                    if cancel.is_cancelled() {
                        return Err(Error::new(
                            ErrorKind::Cancelled,
                            "loadSafetensors",
                            "cancelled by its caller",
                        ));
                    }
                    let ty = TensorType::new(view.dtype, view.shape);
                    content.tensors.push(EagerTensor::from_bytes(&device, &ty, view.bytes)?);
                    content.names.push(name.to_owned());
                }
                Ok(content)
            }
        }
    }
}

/// The elements of a tensor in row-major order, with its type.
fn owned(tensor: &EagerTensor) -> Result<safetensors::OwnedTensor> {
    let whole = tensor.contiguous()?;
    let start = whole.layout().offset * whole.dtype().size();
    let range = start..start + whole.ty().bytes();
    let bytes = whole.storage().read(|bytes| bytes.get(range).map(<[u8]>::to_vec))?;
    let bytes = bytes.ok_or_else(|| {
        Error::new(ErrorKind::Transfer, "saveSafetensors", "the storage is smaller than its tensor")
    })?;
    Ok(safetensors::OwnedTensor { dtype: whole.dtype(), shape: whole.ty().shape.to_vec(), bytes })
}

impl Content {
    /// True of what a file was written with, which holds nothing.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// As JavaScript gets it: the names and the metadata as JSON, and the handles of the tensors.
    pub fn into_value<F: Face>(self, env: Env, face: &mut F) -> Result<Value> {
        let Content { names, metadata, tensors } = self;
        let header = serde_json::to_string(&(names, metadata))
            .map_err(|error| Error::new(ErrorKind::Format, "loadSafetensors", error.to_string()))?;
        let handles = tensors
            .into_iter()
            .map(|tensor| Ok(env.number(face.adopt(tensor)?.to_f64())))
            .collect::<Result<Vec<_>>>()?;
        env.list(&[env.text(&header), env.list(&handles)?])
    }
}

/// A task on its way to a thread of Node's, or back.
struct Work {
    task: Option<Task>,
    outcome: Result<Content>,
    promise: sys::napi_deferred,
    work: sys::napi_async_work,
    state: *mut State<Session>,
}

/// Starts a task; gives the promise of what it gives. `state` is the environment's.
pub fn start(env: Env, state: *mut State<Session>, task: Task) -> Result<Value> {
    let (mut promise, mut value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: writes the promise and what settles it.
    if unsafe { sys::napi_create_promise(env.raw(), &mut promise, &mut value) } != sys::Status::napi_ok {
        return Err(Error::new(ErrorKind::Execute, "node", "Node makes no promise"));
    }
    let outcome = Ok(Content::default());
    let work =
        Box::into_raw(Box::new(Work { task: Some(task), outcome, promise, work: ptr::null_mut(), state }));
    // SAFETY: the box is Node's until `complete` has run; both functions are given its address.
    let status = unsafe {
        let place = &raw mut (*work).work;
        let name = env.text("lanthorn file");
        match sys::napi_create_async_work(
            env.raw(),
            ptr::null_mut(),
            name,
            Some(execute),
            Some(complete),
            work.cast(),
            place,
        ) {
            sys::Status::napi_ok => sys::napi_queue_async_work(env.raw(), *place),
            failed => failed,
        }
    };
    if status == sys::Status::napi_ok {
        return Ok(value);
    }
    // SAFETY: Node has not taken the box.
    drop(unsafe { Box::from_raw(work) });
    Err(Error::new(ErrorKind::Execute, "node", "Node takes no work for its threads"))
}

/// On a thread of Node's.
unsafe extern "C" fn execute(_: sys::napi_env, work: *mut c_void) {
    // SAFETY: the box of `start`; `complete` comes after this.
    let work = unsafe { &mut *work.cast::<Work>() };
    if let Some(task) = work.task.take() {
        let ran = catch_unwind(AssertUnwindSafe(|| task.run(&CancelToken::never())));
        work.outcome = ran.unwrap_or_else(|panic| Err(fault("file", &*panic)));
    }
}

/// On the environment's thread.
unsafe extern "C" fn complete(env: sys::napi_env, status: sys::napi_status, work: *mut c_void) {
    // SAFETY: the box of `start`, given back here, once.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    // SAFETY: the environment's callback, and its state, which lives as long.
    let (env, state) = unsafe { (Env::new(env), &*work.state) };
    // SAFETY: made by `start`; it has run.
    unsafe { sys::napi_delete_async_work(env.raw(), work.work) };
    let outcome = match status {
        sys::Status::napi_ok => work.outcome,
        _ => Err(Error::new(ErrorKind::Closed, "file", "the environment ends; no file is touched any more")),
    };
    let value = outcome.and_then(|content| {
        let value = state.with(|inner| content.into_value(env, &mut inner.raw));
        value.unwrap_or_else(|| Err(Error::new(ErrorKind::Execute, "file", "the session is in use")))
    });
    match value {
        // SAFETY: the promise is settled once, by a value of this callback.
        Ok(value) => unsafe { sys::napi_resolve_deferred(env.raw(), work.promise, value) },
        Err(error) => {
            let text = env.text(&error.to_lines());
            // SAFETY: see above.
            unsafe { sys::napi_reject_deferred(env.raw(), work.promise, text) }
        }
    };
}
