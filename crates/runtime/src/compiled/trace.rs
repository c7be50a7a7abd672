//! What happens while a function is being traced: random keys become arguments.

use std::cell::RefCell;

use lanthorn_ir::{DType, Result, TensorType, Value};

use crate::device::Device;

thread_local! {
    /// The keys that the functions being traced on this thread have asked for, innermost last.
    static TRACES: RefCell<Vec<Vec<(Value, Device)>>> = const { RefCell::new(Vec::new()) };
}

/// True while a function is being traced on this thread.
pub(crate) fn is_active() -> bool {
    TRACES.with_borrow(|traces| !traces.is_empty())
}

/// A placeholder for the key of a draw, if a function is being traced.
pub(crate) fn key(device: &Device) -> Result<Option<Value>> {
    if !is_active() {
        return Ok(None);
    }
    let placeholder = Value::leaf(TensorType::new(DType::U64, [2]))?;
    TRACES.with_borrow_mut(|traces| {
        if let Some(keys) = traces.last_mut() {
            keys.push((placeholder.clone(), device.clone()));
        }
    });
    Ok(Some(placeholder))
}

/// Runs a function and collects the placeholders that it asked for.
pub(crate) fn record<R>(f: impl FnOnce() -> Result<R>) -> Result<(R, Vec<(Value, Device)>)> {
    /// Ends the trace also when the function panics.
    struct Trace;
    impl Drop for Trace {
        fn drop(&mut self) {
            TRACES.with_borrow_mut(Vec::pop);
        }
    }
    TRACES.with_borrow_mut(|traces| traces.push(Vec::new()));
    let trace = Trace;
    let result = f()?;
    let keys = TRACES.with_borrow_mut(|traces| traces.last_mut().map(std::mem::take).unwrap_or_default());
    drop(trace);
    Ok((result, keys))
}
