//! What a state of the addon holds: a session of the class API, or pure graphs. Jobs, lifetimes and files serve both.

use lanthorn_ir::{Error, Result};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};
use lanthorn_session::{Call, Handle, Pending};

use crate::files::{Content, Task};
use crate::state::elements;
use crate::value::{Env, Value};

/// Sessions of the class API.
pub type Session = lanthorn_session::Raw<Device>;
/// Pure graphs.
pub type Graph = lanthorn_graph::Raw;

/// Raw calls of one kind, with the work that they start.
pub trait Face: Sized + 'static {
    /// Work that runs away from the event loop: nothing of JavaScript, nothing of the face.
    type Work: Send + 'static;
    /// What comes out of it.
    type Output: Send + 'static;

    fn new(device: Device) -> Self;
    fn device(&mut self) -> &Device;
    /// A result as a number; an error is kept.
    fn number(&mut self, result: Result<f64>) -> f64;
    /// The error that was kept last.
    fn error(&self) -> Option<&Error>;
    fn release(&mut self, handle: f64) -> Result<f64>;
    /// A handle to a concrete tensor.
    fn adopt(&mut self, tensor: EagerTensor) -> Result<Handle>;

    /// True if the work takes less than to hand it to the thread and back, some tens of microseconds.
    fn is_little(work: &Self::Work) -> bool;
    /// Runs on any thread.
    fn run(work: &mut Self::Work, device: &Device, cancel: &CancelToken) -> Result<Self::Output>;
    /// Takes what came out; gives what JavaScript sees. Runs no JavaScript.
    fn finish(
        &mut self,
        env: Env,
        work: Self::Work,
        output: Result<Self::Output>,
        cancel: &CancelToken,
    ) -> Result<Value>;
}

/// How many bytes and operations are little.
const LITTLE: u64 = 1 << 16;

/// A list of handles as JavaScript sees it.
fn list(env: Env, handles: &[Handle]) -> Result<Value> {
    let handles: Vec<Value> = handles.iter().map(|handle| env.number(handle.to_f64())).collect();
    env.list(&handles)
}

/// What a session's job is to do.
pub enum Work {
    /// A read or a commit.
    Commit(Box<Pending<EagerTensor>>, Wants),
    /// A call of a captured function.
    Call(Box<Call<Device>>),
}

/// What is wanted of the tensors of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    Nothing,
    Bytes,
}

impl Face for Session {
    type Work = Work;
    type Output = Vec<EagerTensor>;

    fn new(device: Device) -> Self {
        lanthorn_session::Raw::new(device)
    }

    fn device(&mut self) -> &Device {
        self.session().engine()
    }

    fn number(&mut self, result: Result<f64>) -> f64 {
        lanthorn_session::Raw::number(self, result)
    }

    fn error(&self) -> Option<&Error> {
        lanthorn_session::Raw::error(self)
    }

    fn release(&mut self, handle: f64) -> Result<f64> {
        lanthorn_session::Raw::release(self, handle)
    }

    fn adopt(&mut self, tensor: EagerTensor) -> Result<Handle> {
        self.session().from_concrete(&tensor.ty().clone(), tensor)
    }

    fn is_little(work: &Work) -> bool {
        let cost = match work {
            Work::Commit(commit, _) => commit.cost(),
            Work::Call(call) => call.cost(),
        };
        cost < LITTLE
    }

    fn run(work: &mut Work, device: &Device, cancel: &CancelToken) -> Result<Vec<EagerTensor>> {
        match work {
            Work::Commit(commit, _) => commit.run(device, cancel),
            Work::Call(call) => call.run(device, cancel),
        }
    }

    fn finish(
        &mut self,
        env: Env,
        work: Work,
        output: Result<Vec<EagerTensor>>,
        _: &CancelToken,
    ) -> Result<Value> {
        match work {
            Work::Commit(commit, wants) => {
                let tensors = self.finish_commit(*commit, output)?;
                let bytes: Vec<Value> = match wants {
                    Wants::Nothing => Vec::new(),
                    Wants::Bytes => {
                        tensors.iter().map(|tensor| elements(env, tensor)).collect::<Result<_>>()?
                    }
                };
                env.list(&bytes)
            }
            Work::Call(call) => list(env, &self.finish_call(*call, output)?),
        }
    }
}

/// What a graph's job is to do.
pub enum GraphWork {
    Job(lanthorn_graph::Job),
    /// A file; `None` once it has been touched.
    File(Option<Task>),
}

/// What came out of a graph's job.
pub enum GraphOutput {
    Job(lanthorn_graph::Output),
    File(Content),
}

impl Face for Graph {
    type Work = GraphWork;
    type Output = GraphOutput;

    fn new(device: Device) -> Self {
        lanthorn_graph::Raw::new(device)
    }

    fn device(&mut self) -> &Device {
        self.graph().device()
    }

    fn number(&mut self, result: Result<f64>) -> f64 {
        lanthorn_graph::Raw::number(self, result)
    }

    fn error(&self) -> Option<&Error> {
        lanthorn_graph::Raw::error(self)
    }

    fn release(&mut self, handle: f64) -> Result<f64> {
        lanthorn_graph::Raw::release(self, handle)
    }

    fn adopt(&mut self, tensor: EagerTensor) -> Result<Handle> {
        self.graph().adopt(tensor)
    }

    fn is_little(work: &GraphWork) -> bool {
        match work {
            GraphWork::Job(job) => job.cost() < LITTLE,
            GraphWork::File(_) => false,
        }
    }

    fn run(work: &mut GraphWork, _: &Device, cancel: &CancelToken) -> Result<GraphOutput> {
        match work {
            GraphWork::Job(job) => job.run(cancel).map(GraphOutput::Job),
            GraphWork::File(task) => match task.take() {
                Some(task) => task.run(cancel).map(GraphOutput::File),
                None => Err(cancelled()),
            },
        }
    }

    fn finish(
        &mut self,
        env: Env,
        work: GraphWork,
        output: Result<GraphOutput>,
        cancel: &CancelToken,
    ) -> Result<Value> {
        match (work, output) {
            (GraphWork::Job(job), Ok(GraphOutput::Job(output))) => {
                match self.graph().finish(job, Ok(output), cancel)? {
                    lanthorn_graph::Outcome::Handles(handles) => list(env, &handles),
                    lanthorn_graph::Outcome::Bytes(bytes) => env.owned_buffer(bytes),
                    lanthorn_graph::Outcome::Tokens(tokens) => {
                        let tokens: Vec<Value> =
                            tokens.into_iter().map(|token| env.number(f64::from(token))).collect();
                        env.list(&tokens)
                    }
                }
            }
            (GraphWork::Job(job), output) => {
                let error = output.err().unwrap_or_else(cancelled);
                self.graph().finish(job, Err(error), cancel)?;
                Err(cancelled())
            }
            // A file that has been written stays so; what has been read goes if nobody wants it any more.
            (GraphWork::File(_), Ok(GraphOutput::File(content)))
                if content.is_empty() || !cancel.is_cancelled() =>
            {
                content.into_value(env, self)
            }
            (GraphWork::File(_), output) => Err(output.err().unwrap_or_else(cancelled)),
        }
    }
}

fn cancelled() -> Error {
    Error::new(lanthorn_ir::ErrorKind::Cancelled, "job", "the work was cancelled by its caller")
}
