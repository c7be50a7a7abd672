//! Files of tensors, read and written on the caller's thread or, for the asynchronous forms, on one of Node's.
//!
//! A task holds paths, names and concrete tensors, nothing of JavaScript and nothing of the session.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use indexmap::IndexMap;
use lanthorn_io::archive::{Archive, Format};
use lanthorn_io::gguf::{self, Encoding};
use lanthorn_io::{Gguf, Tensors, safetensors, torch};
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Element};
use napi_sys as sys;

use crate::face::{Face, Session};
use crate::state::{State, fault};
use crate::value::{Env, Value};

/// What is to be done with a file.
pub enum Task {
    Save { path: String, names: Vec<String>, metadata: IndexMap<String, String>, tensors: Vec<EagerTensor> },
    Load { form: Form, path: String, device: Device },
}

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Safetensors,
    Gguf,
    Torch,
    Zip,
    Tar,
}

impl Form {
    /// The format of that number, which comes from outside.
    pub fn of(number: f64) -> Result<Form> {
        const ALL: [Form; 5] = [Form::Safetensors, Form::Gguf, Form::Torch, Form::Zip, Form::Tar];
        let found = ALL.into_iter().enumerate().find(|(at, _)| *at as f64 == number);
        found.map(|(_, form)| form).ok_or_else(|| {
            Error::unsupported(
                "loadFile",
                format!("there is no format {number}; they are 0 to {}", ALL.len() - 1),
            )
        })
    }
}

/// What a file holds; nothing after a file was written.
#[derive(Default)]
pub struct Content {
    names: Vec<String>,
    metadata: IndexMap<String, serde_json::Value>,
    /// How a file holds those of its tensors that are packed there.
    packed: IndexMap<String, &'static str>,
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
            Task::Load { form, path, device } => {
                let mut content = Content::default();
                let mut add = |name: &str, ty: TensorType, bytes: &[u8]| {
                    if cancel.is_cancelled() {
                        return Err(Error::new(ErrorKind::Cancelled, "load", "cancelled by its caller"));
                    }
                    content.tensors.push(EagerTensor::from_bytes(&device, &ty, bytes)?);
                    content.names.push(name.to_owned());
                    Ok(())
                };
                match form {
                    Form::Safetensors => {
                        let file = Tensors::open(path)?;
                        for (name, view) in &file {
                            add(name, TensorType::new(view.dtype, view.shape), view.bytes)?;
                        }
                        content.metadata = texts(file.metadata());
                    }
                    Form::Gguf => {
                        let file = Gguf::open(path)?;
                        for (name, view) in file.iter() {
                            match dtype_of(view.encoding) {
                                Some(dtype) => add(name, TensorType::new(dtype, view.shape), view.bytes)?,
                                None => {
                                    let ty = TensorType::new(DType::F32, view.shape);
                                    add(name, ty, f32::as_bytes(&view.to_f32()))?;
                                }
                            }
                        }
                        let packed = file.iter().filter(|(_, view)| view.encoding.is_packed());
                        content.packed =
                            packed.map(|(name, view)| (name.to_owned(), view.encoding.name())).collect();
                        let values = file.metadata().values().iter();
                        content.metadata = values.map(|(key, value)| (key.clone(), json_of(value))).collect();
                    }
                    Form::Torch => {
                        let file = torch::open(path)?;
                        for (name, tensor) in &file.tensors {
                            add(name, TensorType::new(tensor.dtype, &tensor.shape[..]), &tensor.bytes)?;
                        }
                        content.metadata = texts(&file.metadata);
                    }
                    Form::Zip | Form::Tar => {
                        let format = if form == Form::Zip { Format::Zip } else { Format::Tar };
                        let file = Archive::open(path, format)?;
                        for (name, bytes) in file.iter() {
                            add(name, TensorType::new(DType::U8, [bytes.len()]), bytes)?;
                        }
                    }
                }
                Ok(content)
            }
        }
    }
}

fn texts(metadata: &IndexMap<String, String>) -> IndexMap<String, serde_json::Value> {
    metadata.iter().map(|(key, text)| (key.clone(), text.as_str().into())).collect()
}

/// The dtype of elements that are not packed.
fn dtype_of(encoding: Encoding) -> Option<DType> {
    match encoding {
        Encoding::F32 => Some(DType::F32),
        Encoding::F16 => Some(DType::F16),
        Encoding::BF16 => Some(DType::BF16),
        Encoding::F64 => Some(DType::F64),
        Encoding::I8 => Some(DType::I8),
        Encoding::I16 => Some(DType::I16),
        Encoding::I32 => Some(DType::I32),
        Encoding::I64 => Some(DType::I64),
        _ => None,
    }
}

/// A value of GGUF's metadata; what a number of JSON does not hold exactly is text.
fn json_of(value: &gguf::Value) -> serde_json::Value {
    fn list<T: Copy>(values: &[T], of: impl Fn(T) -> serde_json::Value) -> serde_json::Value {
        values.iter().map(|&value| of(value)).collect()
    }
    fn float(number: f64) -> serde_json::Value {
        if number.is_finite() { number.into() } else { number.to_string().into() }
    }
    fn unsigned(number: u64) -> serde_json::Value {
        if number < 1 << 53 { number.into() } else { number.to_string().into() }
    }
    fn signed(number: i64) -> serde_json::Value {
        if number.unsigned_abs() < 1 << 53 { number.into() } else { number.to_string().into() }
    }
    use gguf::{Array, Value};
    match value {
        Value::U8(number) => (*number).into(),
        Value::I8(number) => (*number).into(),
        Value::U16(number) => (*number).into(),
        Value::I16(number) => (*number).into(),
        Value::U32(number) => (*number).into(),
        Value::I32(number) => (*number).into(),
        Value::F32(number) => float((*number).into()),
        Value::Bool(truth) => (*truth).into(),
        Value::String(text) => text.as_str().into(),
        Value::U64(number) => unsigned(*number),
        Value::I64(number) => signed(*number),
        Value::F64(number) => float(*number),
        Value::Array(array) => match array {
            Array::U8(values) => list(values, Into::into),
            Array::I8(values) => list(values, Into::into),
            Array::U16(values) => list(values, Into::into),
            Array::I16(values) => list(values, Into::into),
            Array::U32(values) => list(values, Into::into),
            Array::I32(values) => list(values, Into::into),
            Array::F32(values) => list(values, |number| float(number.into())),
            Array::Bool(values) => list(values, Into::into),
            Array::String(values) => {
                values.iter().map(|text| serde_json::Value::from(text.as_str())).collect()
            }
            Array::U64(values) => list(values, unsigned),
            Array::I64(values) => list(values, signed),
            Array::F64(values) => list(values, float),
        },
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

    /// As JavaScript gets it: the names, the metadata and the encodings of packed tensors as JSON, and the handles of the
    /// tensors.
    pub fn into_value<F: Face>(self, env: Env, face: &mut F) -> Result<Value> {
        let Content { names, metadata, packed, tensors } = self;
        let header = serde_json::to_string(&(names, metadata, packed))
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
