//! The worker's half: carries messages out on an engine that has storages.

use std::collections::{HashMap, VecDeque};

use lanthorn_compiler::backend::Readback;
use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_session::Engine;

use crate::message::Message;

/// Starts to read a tensor's elements in row-major order.
pub type StartRead<T> = fn(&T) -> Result<Box<dyn Readback>>;

/// The tensors and programs of one client.
pub struct Server<E: Engine> {
    engine: E,
    start_read: StartRead<E::Concrete>,
    tensors: HashMap<u64, Result<E::Concrete>>,
    programs: HashMap<u32, Result<Indexed>>,
    /// Reads whose bytes have not arrived, in the order in which they were asked for.
    pending: VecDeque<(u32, Box<dyn Readback>)>,
    replies: VecDeque<Reply>,
}

/// The answer to a read.
#[derive(Debug)]
pub struct Reply {
    /// The number of the request.
    pub request: u32,
    /// The elements in row-major order, or what went wrong on the way to them.
    pub result: Result<Vec<u8>>,
}

impl<E: Engine> Server<E> {
    /// A server for a client that has said nothing.
    pub fn new(engine: E, start_read: StartRead<E::Concrete>) -> Server<E> {
        Server {
            engine,
            start_read,
            tensors: HashMap::new(),
            programs: HashMap::new(),
            pending: VecDeque::new(),
            replies: VecDeque::new(),
        }
    }

    /// Carries out the messages of a batch. What goes wrong while one is carried out is kept for the reads that
    /// depend on it.
    ///
    /// Errors: bytes that are no message, a number that is unknown or taken. The client is at fault and cannot be
    /// served further; what came before that message has been done.
    pub fn handle(&mut self, mut batch: &[u8]) -> Result<()> {
        while !batch.is_empty() {
            let (message, rest) = Message::read(batch)?;
            self.carry_out(message)?;
            batch = rest;
        }
        Ok(())
    }

    /// The next answer, in the order of the requests as far as bytes have arrived.
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.poll();
        self.replies.pop_front()
    }

    /// How many reads have not been answered, replies that wait to be taken not counted.
    pub fn pending_reads(&self) -> usize {
        self.pending.len()
    }

    /// How many tensors the client holds.
    pub fn tensors(&self) -> usize {
        self.tensors.len()
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    fn carry_out(&mut self, message: Message<'_>) -> Result<()> {
        match message {
            Message::Upload { id, ty, bytes } => {
                let tensor = self.engine.upload(&ty, bytes.0);
                self.insert(id, tensor)
            }
            Message::Define { program, bytes } => {
                match self.programs.insert(program, Indexed::from_bytes(bytes.0)) {
                    None => Ok(()),
                    Some(_) => Err(fault(format!("program {program} is defined twice"))),
                }
            }
            Message::Run { program, arguments, results } => self.run(program, &arguments, &results),
            Message::Drop { id } => self.tensors.remove(&id).map(drop).ok_or_else(|| unknown(id)),
            Message::Forget { program } => match self.programs.remove(&program) {
                Some(_) => Ok(()),
                None => Err(fault(format!("program {program} is not known"))),
            },
            Message::Read { request, id } => {
                let tensor = self.tensors.get(&id).ok_or_else(|| unknown(id))?;
                match tensor.clone().and_then(|tensor| (self.start_read)(&tensor)) {
                    Ok(ticket) => self.pending.push_back((request, ticket)),
                    Err(error) => self.replies.push_back(Reply { request, result: Err(error) }),
                }
                Ok(())
            }
        }
    }

    fn run(&mut self, program: u32, arguments: &[u64], results: &[u64]) -> Result<()> {
        let operands: Vec<Result<E::Concrete>> = arguments
            .iter()
            .map(|id| self.tensors.get(id).cloned().ok_or_else(|| unknown(*id)))
            .collect::<Result<_>>()?;
        let program = self.programs.get(&program);
        let program = program.ok_or_else(|| fault(format!("program {} is not known", results.len())))?;
        let found = match program {
            Err(error) => Err(error.clone()),
            // The first failure among the arguments is that of the results.
            Ok(program) => operands.into_iter().collect::<Result<Vec<_>>>().and_then(|operands| {
                let found = self.engine.run(program.clone(), operands, &CancelToken::never())?;
                match found.len() == results.len() {
                    true => Ok(found),
                    false => {
                        let (expected, found) = (results.len(), found.len());
                        let message =
                            format!("the program gives {found} results, the message names {expected}");
                        Err(Error::new(ErrorKind::Execute, "run", message))
                    }
                }
            }),
        };
        match found {
            Ok(tensors) => {
                results.iter().zip(tensors).try_for_each(|(&id, tensor)| self.insert(id, Ok(tensor)))
            }
            Err(error) => results.iter().try_for_each(|&id| self.insert(id, Err(error.clone()))),
        }
    }

    fn insert(&mut self, id: u64, tensor: Result<E::Concrete>) -> Result<()> {
        match self.tensors.insert(id, tensor) {
            None => Ok(()),
            Some(_) => Err(fault(format!("tensor {id} is made twice"))),
        }
    }

    /// Moves what has arrived to the replies. Bytes of one device arrive in order.
    fn poll(&mut self) {
        while let Some((request, ticket)) = self.pending.front_mut() {
            let result = match ticket.poll() {
                Ok(None) => return,
                Ok(Some(bytes)) => Ok(bytes),
                Err(error) => Err(error),
            };
            self.replies.push_back(Reply { request: *request, result });
            self.pending.pop_front();
        }
    }
}

fn fault(message: String) -> Error {
    Error::new(ErrorKind::Format, "message", message)
}

fn unknown(id: u64) -> Error {
    Error::new(ErrorKind::InvalidHandle, "message", format!("tensor {id} is not known"))
}
