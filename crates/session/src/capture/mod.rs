//! Captured functions: a graph that was recorded once and runs again on other tensors.
//!
//! | module | what it holds |
//! |---|---|
//! | `record` | [`Session::begin_capture`] to [`Session::end_capture`]: what a function reads, writes and gives |
//! | `call` | running it again as one compiled program |
//! | `programs` | the compiled program, and the one that writes over what it read |
//! | `inline` | applying it again as a graph, through which derivatives pass |
//!
//! While a function is recorded, its inputs are placeholders. A tensor from outside that it touches gets a
//! placeholder too, for as long as the recording lasts: so its value is read at each call, what is written to it is
//! known at the end, and nothing outside has changed when the recording is over. Keys of random draws are
//! placeholders that each call fills anew. Everything else (numbers, tensors that the function made of data) is part
//! of the program.

mod call;
mod inline;
mod programs;
mod record;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lanthorn_ir::{Error, ErrorKind, Result, TensorType};

use crate::arena::Handle;
use crate::cell::CellId;
use crate::engine::Engine;
use crate::session::Session;

pub use call::Call;
use programs::Programs;
pub(crate) use record::Recording;

/// What a captured function may do, and how it runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// One compiled program for each call; tensors from outside may be read and written.
    Program,
    /// A graph that each call adds to the caller's, so that derivatives pass; it writes nothing from outside.
    Function {
        /// Whether it may read tensors that are no arguments.
        reads_outside: bool,
    },
}

/// A tensor that is there before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The argument of that number.
    Input(usize),
    /// A tensor from outside.
    Cell(CellId),
}

/// Where a parameter of the program comes from at each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Value(Place),
    /// The gradient of the tensor.
    Gradient(Place),
    /// The key of the next random draw.
    Key,
}

/// What a call changes besides giving results.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// The root of that number is written over a tensor or a gradient.
    Write { target: Source, root: usize },
    /// A tensor gets a gradient, or loses its own.
    Gradient { owner: Place, value: NewGradient },
}

#[derive(Clone, Copy, Debug)]
enum NewGradient {
    None,
    Root(usize),
    Cell(CellId),
}

/// What an argument must be.
#[derive(Clone, Debug)]
struct Input {
    ty: TensorType,
    requires_grad: bool,
}

/// A captured function.
pub(crate) struct Captured<E: Engine> {
    /// What its errors call it.
    name: &'static str,
    inputs: Vec<Input>,
    sources: Vec<Source>,
    /// For each result the root that it is; several may be one.
    outputs: Vec<usize>,
    roots: Vec<TensorType>,
    effects: Vec<Effect>,
    /// Whether a gradient was there when the function looked.
    gradients: Vec<(Place, bool)>,
    /// The tensors from outside, which it keeps.
    pinned: Vec<CellId>,
    body: Body<E>,
    calls: AtomicU64,
}

enum Body<E: Engine> {
    Program { programs: Programs<E>, bound: Vec<E::Concrete>, kernels: usize, cost: u64 },
    Graph(inline::Graph),
}

/// The counters of a captured function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapturedStats {
    /// Arguments of a call.
    pub inputs: u64,
    /// Results of a call.
    pub outputs: u64,
    /// Tensors from outside that it reads or writes.
    pub closures: u64,
    /// Tensors and gradients that it writes.
    pub writes: u64,
    /// Random draws of a call.
    pub draws: u64,
    /// Kernels of a call; 0 for a graph.
    pub kernels: u64,
    /// Calls so far.
    pub calls: u64,
}

impl<E: Engine> Captured<E> {
    fn error(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Compile, self.name, message)
    }

    fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

impl<E: Engine> Session<E> {
    /// The counters of a captured function.
    ///
    /// Errors: one that has been released.
    pub fn captured_stats(&self, captured: Handle) -> Result<CapturedStats> {
        let captured = self.captured(captured)?;
        let draws = captured.sources.iter().filter(|source| **source == Source::Key).count();
        Ok(CapturedStats {
            inputs: captured.inputs.len() as u64,
            outputs: captured.outputs.len() as u64,
            closures: captured.pinned.len() as u64,
            writes: captured.effects.len() as u64,
            draws: draws as u64,
            kernels: match &captured.body {
                Body::Program { kernels, .. } => *kernels as u64,
                Body::Graph(_) => 0,
            },
            calls: captured.calls.load(Ordering::Relaxed),
        })
    }

    /// Gives up a captured function, and the tensors from outside that only it kept.
    ///
    /// Errors: one that has been released before.
    pub fn release_captured(&mut self, captured: Handle) -> Result<()> {
        let captured = self.captures.remove(captured).map_err(|_| released())?;
        captured.pinned.iter().try_for_each(|&cell| self.drop_reference(cell))
    }

    fn captured(&self, captured: Handle) -> Result<&Arc<Captured<E>>> {
        self.captures.get(captured).map_err(|_| released())
    }
}

fn released() -> Error {
    Error::new(ErrorKind::InvalidHandle, "jit", "the captured function has been disposed; capture it again")
}
