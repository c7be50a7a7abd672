//! Values of JavaScript, by Node-API's plain functions: a raw call takes some 50 ns, of which most is Node's own.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use lanthorn_ir::{Error, ErrorKind, Result};
use napi_sys as sys;

/// A value of JavaScript, alive until the callback returns.
pub type Value = sys::napi_value;

/// An environment (the main thread's or a worker's) during a callback on its thread.
#[derive(Clone, Copy)]
pub struct Env {
    raw: sys::napi_env,
}

/// An error if Node refuses a call, as it does when an environment ends or memory runs out.
fn check(status: sys::napi_status, call: &str) -> Result<()> {
    if status == sys::Status::napi_ok {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Execute, "node", format!("{call} failed with status {status}")))
}

impl Env {
    /// # Safety
    ///
    /// `raw` is the environment of the callback that runs, and the result is not used after it.
    pub unsafe fn new(raw: sys::napi_env) -> Env {
        Env { raw }
    }

    /// Node's own pointer, for calls that only one place makes.
    pub fn raw(self) -> sys::napi_env {
        self.raw
    }

    /// The first `N` arguments of a callback and the data of its function. What is not given is `undefined`.
    pub fn arguments<const N: usize>(self, info: sys::napi_callback_info) -> ([Value; N], *mut c_void) {
        let mut values = [ptr::null_mut(); N];
        let (mut count, mut data) = (N, ptr::null_mut());
        // SAFETY: `values` has room for `count` values; `info` is the running callback's.
        unsafe {
            sys::napi_get_cb_info(self.raw, info, &mut count, values.as_mut_ptr(), ptr::null_mut(), &mut data)
        };
        (values, data)
    }

    /// A number; NaN for any other value, which no call of the engine accepts.
    pub fn to_f64(self, value: Value) -> f64 {
        let mut number = f64::NAN;
        // SAFETY: `value` is of this callback; on failure nothing is written.
        unsafe { sys::napi_get_value_double(self.raw, value, &mut number) };
        number
    }

    /// A number as a value. Null (`undefined` to the caller) if Node refuses.
    pub fn number(self, number: f64) -> Value {
        let mut value = ptr::null_mut();
        // SAFETY: writes one value.
        unsafe { sys::napi_create_double(self.raw, number, &mut value) };
        value
    }

    /// A text as a value.
    pub fn text(self, text: &str) -> Value {
        let mut value = ptr::null_mut();
        // SAFETY: `text` is valid UTF-8 of that length; Node copies it.
        unsafe {
            sys::napi_create_string_utf8(self.raw, text.as_ptr().cast(), text.len() as isize, &mut value)
        };
        value
    }

    /// What sort of value one is, in words.
    pub fn kind(self, value: Value) -> &'static str {
        let mut kind = sys::ValueType::napi_undefined;
        // SAFETY: a value of this callback, or none, which is refused; writes one number.
        unsafe { sys::napi_typeof(self.raw, value, &mut kind) };
        match kind {
            sys::ValueType::napi_null => "null",
            sys::ValueType::napi_boolean => "true or false",
            sys::ValueType::napi_number => "a number",
            sys::ValueType::napi_string => "a text",
            sys::ValueType::napi_symbol => "a symbol",
            sys::ValueType::napi_object => "an object",
            sys::ValueType::napi_function => "a function",
            sys::ValueType::napi_bigint => "a bigint",
            _ => "undefined",
        }
    }

    /// A text that holds JSON, in which half a character is U+FFFD as in any other text.
    ///
    /// Errors: any other value.
    pub fn to_json(self, value: Value) -> Result<String> {
        self.to_text(value).map(lanthorn_io::json::with_whole_characters)
    }

    /// The text of a string. Half a character in it becomes U+FFFD.
    ///
    /// Errors: any other value.
    pub fn to_text(self, value: Value) -> Result<String> {
        let mut length = 0;
        // SAFETY: `value` is of this callback; without a buffer only the length is written.
        let status =
            unsafe { sys::napi_get_value_string_utf8(self.raw, value, ptr::null_mut(), 0, &mut length) };
        if status == sys::Status::napi_string_expected || status == sys::Status::napi_invalid_arg {
            let message = format!("an argument is {}, expected a text", self.kind(value));
            return Err(Error::new(ErrorKind::Format, "node", message));
        }
        check(status, "napi_get_value_string_utf8")?;
        let mut bytes = vec![0_u8; length + 1];
        // SAFETY: the buffer has room for the text and the zero that Node puts after it.
        let status = unsafe {
            sys::napi_get_value_string_utf8(
                self.raw,
                value,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                &mut length,
            )
        };
        check(status, "napi_get_value_string_utf8")?;
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::Format, "node", "a text is no UTF-8"))
    }

    /// The bytes of a `Uint8Array`, for as long as JavaScript does not run.
    ///
    /// Errors: any other value.
    pub fn bytes<'a>(self, value: Value) -> Result<&'a [u8]> {
        let (mut is_typed, mut kind, mut length, mut data) = (false, -1, 0, ptr::null_mut());
        // SAFETY: `value` is of this callback; each call writes to the places given, and the second is made only for
        // a typed array.
        unsafe {
            sys::napi_is_typedarray(self.raw, value, &mut is_typed);
            if is_typed {
                sys::napi_get_typedarray_info(
                    self.raw,
                    value,
                    &mut kind,
                    &mut length,
                    &mut data,
                    ptr::null_mut(),
                    ptr::null_mut(),
                );
            }
        }
        if !is_typed || kind != sys::TypedarrayType::uint8_array {
            return Err(Error::dtype("create", "the elements are no Uint8Array of their bytes"));
        }
        if length == 0 || data.is_null() {
            return Ok(&[]);
        }
        // SAFETY: Node says that the array has `length` bytes there. The caller reads them before JavaScript, which
        // could detach the buffer, runs again.
        Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) })
    }

    /// A new `ArrayBuffer` of `length` bytes, filled by `fill`.
    pub fn buffer(self, length: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Value> {
        let (mut data, mut value) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes the buffer's address and a value.
        let status = unsafe { sys::napi_create_arraybuffer(self.raw, length, &mut data, &mut value) };
        if status != sys::Status::napi_ok {
            self.clear_exception();
            let message = format!("there is no memory for a buffer of {length} bytes");
            return Err(Error::new(ErrorKind::OutOfMemory, "read", message));
        }
        let bytes: &mut [u8] = match data.is_null() {
            true => &mut [],
            // SAFETY: a new buffer of `length` zero bytes that nobody else has seen.
            false => unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), length) },
        };
        fill(bytes)?;
        Ok(value)
    }

    /// A new `ArrayBuffer` over bytes that are given to it.
    pub fn owned_buffer(self, bytes: Vec<u8>) -> Result<Value> {
        unsafe extern "C" fn release(_: sys::napi_env, _: *mut c_void, hint: *mut c_void) {
            // SAFETY: the box that `owned_buffer` has given away, once.
            drop(unsafe { Box::from_raw(hint.cast::<Vec<u8>>()) });
        }
        if bytes.is_empty() {
            return self.buffer(0, |_| Ok(()));
        }
        let length = bytes.len();
        let bytes = Box::into_raw(Box::new(bytes));
        let mut buffer = ptr::null_mut();
        // SAFETY: the vector lives, and keeps its memory, until `release` has run, which Node calls once, on failure
        // not at all.
        let status = unsafe {
            let data = (*bytes).as_mut_ptr().cast();
            sys::napi_create_external_arraybuffer(
                self.raw,
                data,
                length,
                Some(release),
                bytes.cast(),
                &mut buffer,
            )
        };
        if status == sys::Status::napi_ok {
            return Ok(buffer);
        }
        // SAFETY: Node has not taken it.
        let bytes = unsafe { Box::from_raw(bytes) };
        self.clear_exception();
        // An embedder may allow no memory of others.
        self.buffer(length, |target| {
            target.copy_from_slice(&bytes);
            Ok(())
        })
    }

    /// A `Float64Array` over memory that outlives the array however it is passed on; one for each environment.
    pub fn shared_numbers(self, memory: &Arc<Scratch>) -> Result<Value> {
        let (mut known, kept) = (ptr::null_mut(), memory.array.get());
        if !kept.is_null() {
            // SAFETY: the reference was made below, in this environment, and is kept until that ends.
            let status = unsafe { sys::napi_get_reference_value(self.raw, kept, &mut known) };
            return check(status, "napi_get_reference_value").map(|()| known);
        }
        let array = self.new_numbers(memory)?;
        let mut reference = ptr::null_mut();
        // SAFETY: a value of this callback.
        let status = unsafe { sys::napi_create_reference(self.raw, array, 1, &mut reference) };
        check(status, "napi_create_reference")?;
        memory.array.set(reference);
        Ok(array)
    }

    fn new_numbers(self, memory: &Arc<Scratch>) -> Result<Value> {
        unsafe extern "C" fn release(_: sys::napi_env, _: *mut c_void, hint: *mut c_void) {
            // SAFETY: the reference that `new_numbers` has given away, once.
            drop(unsafe { Arc::from_raw(hint.cast::<Scratch>().cast_const()) });
        }
        let (mut buffer, mut array) = (ptr::null_mut(), ptr::null_mut());
        let hint = Arc::into_raw(memory.clone()).cast_mut().cast::<c_void>();
        // SAFETY: the memory lives until `release` has run, which Node calls once, on failure not at all.
        let status = unsafe {
            sys::napi_create_external_arraybuffer(
                self.raw,
                memory.as_ptr().cast(),
                Scratch::WORDS * size_of::<f64>(),
                Some(release),
                hint,
                &mut buffer,
            )
        };
        check(status, "napi_create_external_arraybuffer")?;
        // SAFETY: the buffer has so many aligned words.
        let status = unsafe {
            sys::napi_create_typedarray(
                self.raw,
                sys::TypedarrayType::float64_array,
                Scratch::WORDS,
                buffer,
                0,
                &mut array,
            )
        };
        check(status, "napi_create_typedarray").map(|()| array)
    }

    /// The number of elements of an array.
    ///
    /// Errors: any other value.
    pub fn length(self, value: Value) -> Result<usize> {
        let mut length = 0;
        // SAFETY: `value` is of this callback; on failure nothing is written.
        let status = unsafe { sys::napi_get_array_length(self.raw, value, &mut length) };
        check(status, "napi_get_array_length").map(|()| length as usize)
    }

    /// An array of values.
    pub fn list(self, values: &[Value]) -> Result<Value> {
        let mut list = ptr::null_mut();
        // SAFETY: writes one value.
        check(
            unsafe { sys::napi_create_array_with_length(self.raw, values.len(), &mut list) },
            "napi_create_array",
        )?;
        for (at, &value) in values.iter().enumerate() {
            // SAFETY: both values are of this callback.
            check(unsafe { sys::napi_set_element(self.raw, list, at as u32, value) }, "napi_set_element")?;
        }
        Ok(list)
    }

    /// An object without properties.
    pub fn object(self) -> Result<Value> {
        let mut value = ptr::null_mut();
        // SAFETY: writes one value.
        check(unsafe { sys::napi_create_object(self.raw, &mut value) }, "napi_create_object").map(|()| value)
    }

    /// Sets a property of an object.
    pub fn set(self, object: Value, name: &CStr, value: Value) -> Result<()> {
        // SAFETY: both values are of this callback, and the name ends with a zero.
        check(
            unsafe { sys::napi_set_named_property(self.raw, object, name.as_ptr(), value) },
            "napi_set_named_property",
        )
    }

    /// A function; its callback finds `data`.
    pub fn function(self, name: &CStr, callback: sys::napi_callback, data: *mut c_void) -> Result<Value> {
        let mut value = ptr::null_mut();
        // SAFETY: the name ends with a zero; writes one value.
        let status = unsafe {
            sys::napi_create_function(
                self.raw,
                name.as_ptr(),
                name.count_bytes() as isize,
                callback,
                data,
                &mut value,
            )
        };
        check(status, "napi_create_function").map(|()| value)
    }

    /// Throws an error that is no answer of the engine's, such as one while the addon loads.
    pub fn throw(self, message: &str) {
        let message = self.text(message);
        let mut error = ptr::null_mut();
        // SAFETY: values of this callback; without a code.
        unsafe {
            sys::napi_create_error(self.raw, ptr::null_mut(), message, &mut error);
            sys::napi_throw(self.raw, error);
        }
    }

    /// Forgets an exception that a failed call has left: the error goes to the caller in its own way.
    fn clear_exception(self) {
        let mut exception = ptr::null_mut();
        // SAFETY: writes one value, if there is an exception.
        unsafe { sys::napi_get_and_clear_last_exception(self.raw, &mut exception) };
    }

    /// Runs `body` in a scope that lets go of the values it has made.
    pub fn scope<T>(self, body: impl FnOnce() -> T) -> T {
        let mut scope = ptr::null_mut();
        // SAFETY: opened and closed in the same callback, in order.
        unsafe { sys::napi_open_handle_scope(self.raw, &mut scope) };
        let result = body();
        // SAFETY: see above.
        unsafe { sys::napi_close_handle_scope(self.raw, scope) };
        result
    }
}

/// The words in which arguments pass between JavaScript and the engine; both see the same memory.
pub struct Scratch {
    words: Box<[std::cell::UnsafeCell<f64>]>,
    /// JavaScript's array over them, once there is one.
    array: std::cell::Cell<sys::napi_ref>,
}

// SAFETY: the words are read and written only on the thread of the environment that owns them. Other threads may hold
// the memory, not look at it: Node lets no buffer of an addon pass to another thread.
unsafe impl Send for Scratch {}
// SAFETY: see above.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// How many words there are.
    pub const WORDS: usize = 4096;

    pub fn new() -> Arc<Scratch> {
        let words = (0..Scratch::WORDS).map(|_| 0.0.into()).collect();
        Arc::new(Scratch { words, array: ptr::null_mut::<sys::napi_ref__>().into() })
    }

    fn as_ptr(&self) -> *mut f64 {
        self.words.as_ptr().cast_mut().cast()
    }

    /// The words.
    ///
    /// # Safety
    ///
    /// On the environment's thread, inside a callback that holds no other reference to the words.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn words(&self) -> &mut [f64] {
        // SAFETY: the memory is valid for so many words; the caller says that it is the only one to look.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), Scratch::WORDS) }
    }
}
