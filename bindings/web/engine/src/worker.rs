//! The state of the engine's thread.

use std::sync::Arc;

use lanthorn_cpu::CpuBackend;
use lanthorn_gpu::GpuBackend;
use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_remote::Server;
use lanthorn_runtime::{Device, EagerTensor};
use lanthorn_web_shell::{Inbox, error_text};

/// An answer as the loader reads it: on wasm32 four little-endian `u32`.
#[repr(C)]
pub struct Answer {
    /// The number of the request.
    pub request: u32,
    /// 1 if the bytes are an error's text.
    pub failed: u32,
    /// Where the bytes are.
    pub address: *const u8,
    /// How many they are.
    pub bytes: usize,
}

/// The engine with what is on its way in and out.
#[derive(Default)]
pub struct Worker {
    server: Option<Server<Device>>,
    inbox: Inbox,
    answer: Outgoing,
    error: Outgoing,
}

/// An answer with the bytes to which it points.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    answer: Answer,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer { request: 0, failed: 0, address: std::ptr::null(), bytes: 0 }
    }
}

impl Outgoing {
    fn set(&mut self, request: u32, result: Result<Vec<u8>>) -> &Answer {
        let failed = u32::from(result.is_err());
        self.bytes = result.unwrap_or_else(|error| error_text(&error));
        self.answer = Answer { request, failed, address: self.bytes.as_ptr(), bytes: self.bytes.len() };
        &self.answer
    }
}

fn device_of(number: u32) -> Result<Device> {
    match number {
        0 => Ok(Device::new(Arc::new(CpuBackend))),
        1 => Ok(Device::new(Arc::new(GpuBackend::open()?))),
        other => Err(Error::new(ErrorKind::Device, "start", format!("there is no device number {other}"))),
    }
}

impl Worker {
    /// See [`crate::lanthorn_start`].
    pub fn start(&mut self, device: u32) -> i32 {
        let started =
            device_of(device).map(|device| self.server = Some(Server::new(device, EagerTensor::start_read)));
        self.settle(started)
    }

    /// See [`crate::lanthorn_inbox`].
    pub fn reserve(&mut self, bytes: usize) -> Option<*mut u8> {
        self.inbox.reserve(bytes)
    }

    /// See [`crate::lanthorn_handle`].
    pub fn handle(&mut self) -> i32 {
        let batch = self.inbox.take();
        let handled = match &mut self.server {
            Some(server) => server.handle(&batch),
            None => Err(Error::new(ErrorKind::Closed, "handle", "the engine has not been started")),
        };
        self.inbox.give_back(batch);
        self.settle(handled)
    }

    /// The next answer to a read.
    pub fn next_answer(&mut self) -> Option<&Answer> {
        let reply = self.server.as_mut()?.next_reply()?;
        Some(self.answer.set(reply.request, reply.result))
    }

    /// How many reads wait for their bytes.
    pub fn pending_reads(&self) -> usize {
        self.server.as_ref().map_or(0, Server::pending_reads)
    }

    /// How many tensors the page holds.
    pub fn tensors(&self) -> usize {
        self.server.as_ref().map_or(0, Server::tensors)
    }

    /// The last error.
    pub fn error(&self) -> &Answer {
        &self.error.answer
    }

    fn settle(&mut self, result: Result<()>) -> i32 {
        match result {
            Ok(()) => 0,
            Err(error) => {
                self.error.set(0, Err(error));
                -1
            }
        }
    }
}
