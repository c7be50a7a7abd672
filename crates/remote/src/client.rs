//! The page's half: an engine that writes down what is to be done.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::{Error, ErrorKind, Result, TensorType};
use lanthorn_session::Engine;

use crate::message::{Bytes, Message};

/// How many programs the server keeps for a client.
const PROGRAMS: usize = 512;

/// An engine whose tensors are numbers and whose work is messages, to be sent with [`RemoteEngine::take_batch`].
#[derive(Clone, Default)]
pub struct RemoteEngine {
    outbox: Arc<Mutex<Outbox>>,
}

/// A tensor of the server's. The last handle to go lets it go there.
#[derive(Clone)]
pub struct RemoteTensor {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    outbox: Arc<Mutex<Outbox>>,
}

#[derive(Default)]
struct Outbox {
    batch: Vec<u8>,
    tensors: u64,
    requests: u32,
    programs: HashMap<Indexed, Program>,
    defined: u32,
    /// Counts runs; says which program was used last.
    clock: u64,
}

struct Program {
    number: u32,
    used: u64,
}

fn lock(outbox: &Mutex<Outbox>) -> MutexGuard<'_, Outbox> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RemoteEngine {
    /// An engine that has said nothing.
    pub fn new() -> RemoteEngine {
        RemoteEngine::default()
    }

    /// Takes the messages that have gathered, to be sent to the server as one batch.
    pub fn take_batch(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.outbox).batch)
    }

    /// How many bytes have gathered.
    pub fn batch_bytes(&self) -> usize {
        lock(&self.outbox).batch.len()
    }

    /// Asks for the elements of a tensor; gives the number that the reply will carry.
    pub fn request(&self, tensor: &RemoteTensor) -> Result<u32> {
        let mut outbox = lock(&self.outbox);
        outbox.requests = outbox.requests.wrapping_add(1);
        let request = outbox.requests;
        outbox.push(&Message::Read { request, id: tensor.inner.id })?;
        Ok(request)
    }

    fn tensor(&self, id: u64) -> RemoteTensor {
        RemoteTensor { inner: Arc::new(Inner { id, outbox: self.outbox.clone() }) }
    }
}

impl Engine for RemoteEngine {
    type Concrete = RemoteTensor;
    type Program = Arc<Indexed>;

    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<RemoteTensor> {
        let expected = ty.bytes();
        if bytes.len() != expected {
            let found = bytes.len();
            return Err(Error::shape("upload", format!("{ty} takes {expected} bytes, got {found}")));
        }
        let mut outbox = lock(&self.outbox);
        let id = outbox.next_tensor();
        outbox.push(&Message::Upload { id, ty: ty.clone(), bytes: Bytes(bytes) })?;
        drop(outbox);
        Ok(self.tensor(id))
    }

    fn run(
        &self,
        program: Indexed,
        arguments: Vec<RemoteTensor>,
        _cancel: &CancelToken,
    ) -> Result<Vec<RemoteTensor>> {
        let expected = program.inputs.len();
        if arguments.len() != expected {
            let found = arguments.len();
            return Err(Error::shape("run", format!("takes {expected} arguments, got {found}")));
        }
        let foreign = |argument: &RemoteTensor| !Arc::ptr_eq(&argument.inner.outbox, &self.outbox);
        if arguments.iter().any(foreign) {
            let message = "an argument belongs to another engine";
            return Err(Error::new(ErrorKind::ForeignHandle, "run", message));
        }
        let operands = arguments.iter().map(|argument| argument.inner.id).collect();
        let mut outbox = lock(&self.outbox);
        let results: Vec<u64> = program.roots.iter().map(|_| outbox.next_tensor()).collect();
        let program = outbox.program(program)?;
        outbox.push(&Message::Run { program, arguments: operands, results: results.clone() })?;
        // Handles lock the outbox as they drop, and what the run reads must not be let go before it.
        drop(outbox);
        drop(arguments);
        Ok(results.into_iter().map(|id| self.tensor(id)).collect())
    }

    fn compile(&self, program: Indexed) -> Result<Arc<Indexed>> {
        Ok(Arc::new(program))
    }

    fn call(
        &self,
        program: &Arc<Indexed>,
        arguments: &[RemoteTensor],
        cancel: &CancelToken,
    ) -> Result<Vec<RemoteTensor>> {
        self.run(Indexed::clone(program), arguments.to_vec(), cancel)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A message of one number can always be written.
        let _ = lock(&self.outbox).push(&Message::Drop { id: self.id });
    }
}

impl fmt::Debug for RemoteTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "remote tensor {}", self.inner.id)
    }
}

impl Outbox {
    fn push(&mut self, message: &Message<'_>) -> Result<()> {
        message.write(&mut self.batch)
    }

    fn next_tensor(&mut self) -> u64 {
        self.tensors += 1;
        self.tensors
    }

    /// The number of a program, which is sent if the server does not have it.
    fn program(&mut self, program: Indexed) -> Result<u32> {
        self.clock += 1;
        if let Some(known) = self.programs.get_mut(&program) {
            known.used = self.clock;
            return Ok(known.number);
        }
        let bytes = program.to_bytes()?;
        if self.programs.len() >= PROGRAMS {
            let oldest = self.programs.iter().min_by_key(|(_, program)| program.used);
            if let Some(key) = oldest.map(|(key, _)| key.clone())
                && let Some(Program { number, .. }) = self.programs.remove(&key)
            {
                self.push(&Message::Forget { program: number })?;
            }
        }
        self.defined = self.defined.wrapping_add(1);
        let number = self.defined;
        self.push(&Message::Define { program: number, bytes: Bytes(&bytes) })?;
        self.programs.insert(program, Program { number, used: self.clock });
        Ok(number)
    }
}
