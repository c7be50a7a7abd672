//! The raw calls of captured functions.

use lanthorn_ir::{Error, Result};

use super::{Raw, put};
use crate::arena::Handle;
use crate::capture::{Call, Purpose};
use crate::engine::Engine;

use super::words::Words;

/// The order of the counters that `capture_stats` gives.
pub const CAPTURE_STATS: &[&str] = &["inputs", "outputs", "closures", "writes", "draws", "kernels", "calls"];

impl<E: Engine> Raw<E> {
    /// Starts to record a function. In scratch are the count and the handles of its inputs; those of their
    /// placeholders take their place. `purpose` 0 and 1 make a program, for `jit` and `compile`; 2 and 3 a graph, for
    /// `func`, which with 3 reads tensors from outside.
    pub fn capture_begin(&mut self, scratch: &mut [f64], purpose: f64) -> Result<f64> {
        let (name, purpose) = match purpose {
            0.0 => ("jit", Purpose::Program),
            1.0 => ("compile", Purpose::Program),
            2.0 => ("func", Purpose::Function { reads_outside: false }),
            3.0 => ("func", Purpose::Function { reads_outside: true }),
            other => return Err(Error::unsupported("capture", format!("there is no purpose {other}"))),
        };
        let inputs = Words::new(name, scratch).handles()?;
        let placeholders = self.session.begin_capture(name, purpose, &inputs)?;
        if placeholders.len() > scratch.len() {
            self.session.abort_capture()?;
            placeholders.into_iter().try_for_each(|handle| self.session.release(handle))?;
            return Err(Error::shape(name, "the placeholders do not fit scratch"));
        }
        put(name, scratch, placeholders.into_iter().map(Handle::to_f64))
    }

    /// Ends a recording, whose results' count and handles are in scratch; gives the captured function, or 0 if the
    /// function is to be recorded once more, see [`Session::end_capture`](crate::Session::end_capture). `is_final` 1
    /// says that it has been.
    pub fn capture_end(&mut self, scratch: &mut [f64], is_final: f64) -> Result<f64> {
        let captured = match Words::new("jit", scratch).handles() {
            Ok(outputs) => self.session.end_capture(&outputs, is_final == 1.0)?,
            Err(error) => {
                self.session.abort_capture()?;
                return Err(error);
            }
        };
        Ok(captured.map_or(0.0, Handle::to_f64))
    }

    /// Ends a recording whose function has failed.
    pub fn capture_abort(&mut self) -> Result<f64> {
        self.session.abort_capture()?;
        Ok(0.0)
    }

    /// Calls a captured function on the tensors whose count and handles are in scratch; gives the number of results,
    /// whose handles are then in scratch.
    pub fn call(&mut self, scratch: &mut [f64], captured: f64) -> Result<f64> {
        let captured = Handle::from_f64(captured)?;
        let inputs = Words::new("jit", scratch).short_handles()?;
        let outputs = self.session.call(captured, &inputs)?;
        self.put_outputs(scratch, outputs)
    }

    /// The first part of a call whose program runs elsewhere.
    pub fn begin_call(&mut self, scratch: &mut [f64], captured: f64) -> Result<Call<E>> {
        let inputs = Words::new("jit", scratch).handles()?;
        self.session.begin_call(Handle::from_f64(captured)?, &inputs)
    }

    /// The last part of a call: its results.
    pub fn finish_call(&mut self, call: Call<E>, results: Result<Vec<E::Concrete>>) -> Result<Vec<Handle>> {
        self.session.finish_call(call, results)
    }

    /// Puts the counters of a captured function into scratch in the order of [`CAPTURE_STATS`]; gives their number.
    pub fn capture_stats(&mut self, scratch: &mut [f64], captured: f64) -> Result<f64> {
        let stats = self.session.captured_stats(Handle::from_f64(captured)?)?;
        let counters = [
            stats.inputs,
            stats.outputs,
            stats.closures,
            stats.writes,
            stats.draws,
            stats.kernels,
            stats.calls,
        ];
        put("jit", scratch, counters.into_iter().map(|counter| counter as f64))
    }

    /// Gives up a captured function.
    pub fn capture_release(&mut self, captured: f64) -> Result<f64> {
        self.session.release_captured(Handle::from_f64(captured)?)?;
        Ok(0.0)
    }

    fn put_outputs(&mut self, scratch: &mut [f64], outputs: Vec<Handle>) -> Result<f64> {
        if outputs.len() > scratch.len() {
            let (count, room) = (outputs.len(), scratch.len());
            outputs.into_iter().try_for_each(|handle| self.session.release(handle))?;
            return Err(Error::shape("jit", format!("gives {count} results; there is room for {room}")));
        }
        put("jit", scratch, outputs.into_iter().map(Handle::to_f64))
    }
}
