//! Tokenizers and chat templates for JavaScript: what the object `tokenizers` of the addon does.
//!
//! They have nothing to do with a session. Work is done by threads of their own ([`pool`]), so that it goes on beside
//! computing and beside other such work; what is less than the way to a thread and back is done at once.
//!
//! A function gives its result, or the promise of it, or throws a text: kind, op and message on a line each; a promise is
//! rejected with such a text. The first argument of what takes long is a number that `job` has given, by which `cancel`
//! stops it; the promise is settled when nothing of the work runs any more.

mod desk;
mod pool;
mod work;

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lanthorn_io::chat::Reply;
use lanthorn_io::tokenizer::{Fill, SpecialTokens, Template};
use lanthorn_ir::{Error, ErrorKind, Result};
use napi_sys as sys;

use crate::state::fault;
use crate::value::{Env, Value};
use desk::Desk;
use work::{Answer, Config, Held, Job, Lesson, Sources, Task};

/// Tells objects that hold a tokenizer from all others: a number made up once.
static TAG: sys::napi_type_tag =
    sys::napi_type_tag { lower: 0x8d1c_7a05_4be2_9f63, upper: 0x41f7_30c2_d96a_e815 };

/// One call: its arguments and the environment's desk.
struct Call<const N: usize> {
    env: Env,
    desk: *mut Desk,
    values: [Value; N],
}

impl<const N: usize> Call<N> {
    fn number(&self, at: usize) -> f64 {
        self.values.get(at).map_or(f64::NAN, |&value| self.env.to_f64(value))
    }

    /// A whole number from 0.
    fn count(&self, at: usize) -> Result<u32> {
        let number = self.number(at);
        let count = number as u32;
        match f64::from(count) == number {
            true => Ok(count),
            false => Err(wrong(format!("the number {number} is given, expected a whole one below 2^32"))),
        }
    }

    /// The text of an argument, which `name` names in errors.
    fn text(&self, at: usize, name: &str) -> Result<String> {
        let value = self.values.get(at).copied().unwrap_or(ptr::null_mut());
        self.env.to_text(value).map_err(|_| self.unfit(name, value, "a text"))
    }

    /// The same of one that holds JSON.
    fn json(&self, at: usize, name: &str) -> Result<String> {
        self.text(at, name).map(lanthorn_io::json::with_whole_characters)
    }

    fn unfit(&self, name: &str, value: Value, expected: &str) -> Error {
        wrong(format!("{name} is {}, expected {expected}", self.env.kind(value)))
    }

    /// The texts of an array, which `name` names in errors.
    fn texts(&self, at: usize, name: &str) -> Result<Vec<String>> {
        let list = self.values.get(at).copied().unwrap_or(ptr::null_mut());
        let length = self.env.length(list).map_err(|_| self.unfit(name, list, "a list of texts"))?;
        let text = |at: usize| {
            // A scope for each, or all of them would live until the call returns.
            self.env.scope(|| {
                let mut value = ptr::null_mut();
                // SAFETY: an array of this callback; writes one value.
                unsafe { sys::napi_get_element(self.env.raw(), list, at as u32, &mut value) };
                self.env.to_text(value).map_err(|_| self.unfit(&format!("{name}[{at}]"), value, "a text"))
            })
        };
        (0..length).map(text).collect()
    }

    /// A value of that type; `None` for any other.
    fn value(&self, at: usize, wanted: sys::napi_valuetype) -> Option<Value> {
        let value = self.values.get(at).copied()?;
        let mut found = sys::ValueType::napi_undefined;
        // SAFETY: a value of this callback; writes one number.
        unsafe { sys::napi_typeof(self.env.raw(), value, &mut found) };
        (found == wanted).then_some(value)
    }

    /// The numbers whose bytes are those of a `Uint8Array`.
    fn words(&self, at: usize) -> Result<Vec<u32>> {
        let bytes = self.env.bytes(self.values.get(at).copied().unwrap_or(ptr::null_mut()))?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|word| u32::from_ne_bytes(*word)).collect())
    }

    fn held(&self, at: usize) -> Result<Arc<Held>> {
        let (mut is_held, mut address) = (false, ptr::null_mut());
        if let Some(object) = self.value(at, sys::ValueType::napi_object) {
            // SAFETY: an object of this callback; what has the tag was wrapped by `hold`.
            unsafe {
                sys::napi_check_object_type_tag(self.env.raw(), object, &TAG, &mut is_held);
                if is_held {
                    sys::napi_unwrap(self.env.raw(), object, &mut address);
                }
            }
        }
        match address.is_null() {
            true => Err(Error::new(ErrorKind::InvalidHandle, "tokenizer", "the object is no tokenizer")),
            // SAFETY: the box of `hold`, which lives as long as the object.
            false => Ok(unsafe { &*address.cast::<Arc<Held>>() }.clone()),
        }
    }

    /// Does a task now if it is little, else as a job; gives what it gives, or the promise of it.
    fn task(&self, task: Task, report: Option<Value>) -> Result<Value> {
        let job = self.count(0)?;
        if task.is_little() {
            let job = Job { cancelled: &AtomicBool::new(false), report: &|_, _| {} };
            return value_of(self.env, task.run(&job)?);
        }
        // SAFETY: the desk of this environment, whose callback this is.
        unsafe { desk::start(self.desk, self.env, job, task, report) }
    }

    fn desk(&self) -> &Desk {
        // SAFETY: the desk lives as long as the environment.
        unsafe { &*self.desk }
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Format, "tokenizer", message)
}

/// An answer as JavaScript gets it.
fn value_of(env: Env, answer: Answer) -> Result<Value> {
    match answer {
        Answer::Tokenizer(held) => hold(env, held),
        Answer::Ids(table) => {
            let ids = env.buffer(size_of_val(&table.ids[..]), |target| {
                for (word, id) in target.as_chunks_mut::<4>().0.iter_mut().zip(&table.ids) {
                    *word = id.to_ne_bytes();
                }
                Ok(())
            })?;
            env.list(&[ids, env.number(table.rows as f64), env.number(table.columns as f64)])
        }
        Answer::Texts(texts) => {
            let texts: Vec<Value> = texts.iter().map(|text| env.text(text)).collect();
            env.list(&texts)
        }
        Answer::Text(text) => Ok(env.text(&text)),
        Answer::Nothing => {
            let mut nothing = ptr::null_mut();
            // SAFETY: writes one value.
            unsafe { sys::napi_get_undefined(env.raw(), &mut nothing) };
            Ok(nothing)
        }
    }
}

/// An object that holds a tokenizer until it is collected.
fn hold(env: Env, held: Arc<Held>) -> Result<Value> {
    unsafe extern "C" fn release(env: sys::napi_env, held: *mut c_void, _: *mut c_void) {
        // SAFETY: the box that `hold` has given away, once.
        let held = unsafe { Box::from_raw(held.cast::<Arc<Held>>()) };
        let mut adjusted = 0;
        // SAFETY: writes one number.
        unsafe { sys::napi_adjust_external_memory(env, -held.bytes(), &mut adjusted) };
    }
    let object = env.object()?;
    let bytes = held.bytes();
    let held = Box::into_raw(Box::new(held));
    // SAFETY: the box is Node's to release, once, when the object is collected or the environment ends.
    let status = unsafe {
        sys::napi_wrap(env.raw(), object, held.cast(), Some(release), ptr::null_mut(), ptr::null_mut())
    };
    if status != sys::Status::napi_ok {
        // SAFETY: Node has not taken it.
        drop(unsafe { Box::from_raw(held) });
        return Err(Error::new(ErrorKind::Execute, "node", "Node holds no tokenizer"));
    }
    let mut adjusted = 0;
    // SAFETY: an object of this callback; writes one number.
    unsafe {
        sys::napi_type_tag_object(env.raw(), object, &TAG);
        sys::napi_adjust_external_memory(env.raw(), bytes, &mut adjusted);
    }
    Ok(object)
}

type Function = unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> Value;

/// Functions of the object, each with what it does.
macro_rules! functions {
    ($($(#[$docs:meta])* $name:ident($call:ident): $arguments:literal => $body:expr;)*) => {
        $(
            $(#[$docs])*
            unsafe extern "C" fn $name(env: sys::napi_env, info: sys::napi_callback_info) -> Value {
                // SAFETY: the callback's environment.
                let env = unsafe { Env::new(env) };
                let (values, data) = env.arguments::<$arguments>(info);
                let $call = Call { env, desk: data.cast(), values };
                let run = || -> Result<Value> { $body };
                let result = catch_unwind(AssertUnwindSafe(run));
                result.unwrap_or_else(|panic| Err(fault("tokenizer", &*panic))).unwrap_or_else(|error| {
                    // SAFETY: a value of this callback.
                    unsafe { sys::napi_throw(env.raw(), env.text(&error.to_lines())) };
                    ptr::null_mut()
                })
            }
        )*

        const FUNCTIONS: &[(&CStr, Function)] = &[
            $((
                // SAFETY: ends with the one zero that is added here; a name holds none.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
                $name,
            )),*
        ];
    };
}

functions! {
    /// The number of a job to come.
    job(call): 0 => Ok(call.env.number(f64::from(call.desk().number()?)));
    /// Asks a job to stop.
    cancel(call): 1 => {
        call.desk().cancel(call.count(0)?)?;
        Ok(ptr::null_mut())
    };
    /// `(job, path, config)`: the tokenizer of a file.
    load(call): 3 => {
        let config = Config::from_json(&call.json(2, "config")?)?;
        call.task(Task::Load { path: call.text(1, "path")?, config }, None)
    };
    /// `(job, json, config)`: the tokenizer of a file's text.
    parse(call): 3 => {
        let config = Config::from_json(&call.json(2, "config")?)?;
        call.task(Task::Parse { json: call.text(1, "json")?, config }, None)
    };
    /// `(job, lesson, texts or paths, 1 for paths, config, report)`: a new tokenizer.
    train(call): 6 => {
        let sources = call.texts(2, "source")?;
        let sources = if call.number(3) == 1.0 { Sources::Files(sources) } else { Sources::Texts(sources) };
        let lesson = Lesson::from_json(&call.json(1, "trainConfig")?, sources)?;
        let config = Config::from_json(&call.json(4, "config")?)?;
        call.task(Task::Train { lesson, config }, call.value(5, sys::ValueType::napi_function))
    };
    /// `(job, tokenizer, texts, 1 for the template, fill, length, id)`: the ids' buffer, rows and columns. The fill is 0
    /// for one list, 1 for rows as they are, 2 for the longest row's length, 3 for the given length.
    encode(call): 7 => {
        let template = if call.number(3) == 1.0 { Template::Apply } else { Template::Leave };
        let fill = match call.number(4) {
            1.0 => Some(Fill::Nothing),
            2.0 => Some(Fill::Longest { id: call.count(6)? }),
            3.0 => Some(Fill::Length { length: call.count(5)? as usize, id: call.count(6)? }),
            _ => None,
        };
        call.task(Task::Encode { held: call.held(1)?, texts: call.texts(2, "texts")?, template, fill }, None)
    };
    /// `(job, tokenizer, bytes of the ids, bytes of the lengths, 1 to skip special tokens)`: a text for each length.
    decode(call): 5 => {
        let special_tokens = if call.number(4) == 1.0 { SpecialTokens::Skip } else { SpecialTokens::Keep };
        let (ids, lengths) = (call.words(2)?, call.words(3)?);
        call.task(Task::Decode { held: call.held(1)?, ids, lengths, special_tokens }, None)
    };
    /// `(job, template, messages, variables, 1 to begin the reply)`: the text of a conversation.
    chat(call): 5 => {
        let reply = if call.number(4) == 1.0 { Reply::Begun } else { Reply::NotBegun };
        let (messages, variables) = (call.json(2, "messages")?, call.json(3, "variables")?);
        let template = call.text(1, "template")?;
        call.task(Task::Chat { template, messages, variables, reply }, None)
    };
    /// `(job, tokenizer, path)`: writes its file.
    save(call): 3 => call.task(Task::Save { held: call.held(1)?, path: call.text(2, "path")? }, None);
    /// The largest id and one.
    vocab_size(call): 1 => Ok(call.env.number(call.held(0)?.tokenizer.vocab_size() as f64));
    /// `(tokenizer, token)`: its id, or -1.
    id(call): 2 => {
        let id = call.held(0)?.tokenizer.id(&call.text(1, "token")?);
        Ok(call.env.number(id.map_or(-1.0, f64::from)))
    };
    /// `(tokenizer, id)`: its token, or nothing.
    token(call): 2 => {
        let token = call.held(0)?.tokenizer.token(call.count(1)?);
        Ok(token.map_or(ptr::null_mut(), |token| call.env.text(&token)))
    };
}

/// Sets the object as a property of the addon's exports.
pub fn exports(env: Env, exports: Value) -> Result<()> {
    let desk = Desk::install(env)?;
    let object = env.object()?;
    for &(name, function) in FUNCTIONS {
        env.set(object, name, env.function(name, Some(function), desk.cast())?)?;
    }
    env.set(exports, c"tokenizers", object)
}
