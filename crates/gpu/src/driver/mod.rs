//! What a GPU is to this crate: buffers, pipelines, submissions and reads, all by number.
//!
//! Numbers instead of objects, so that everything above is `Send` and `Sync` also where the objects of the platform
//! belong to one thread (a browser), and so that the other side may be another language. A driver holds no shapes
//! and no kernels: WGSL text comes in, bytes go in and out.

use lanthorn_compiler::backend::Readback;
use lanthorn_ir::Result;

#[cfg(target_arch = "wasm32")]
pub mod browser;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;

/// A buffer of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A compute pipeline of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PipelineId(pub u32);

/// What a device allows. Everything else is as WebGPU promises of every device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Storage buffers of one pipeline; WebGPU promises 8.
    pub storage_buffers: u32,
    /// Bytes of one storage binding, and so of everything that kernels touch.
    pub binding_bytes: u64,
    /// Bytes of one buffer.
    pub buffer_bytes: u64,
    /// Workgroups along one axis of a dispatch.
    pub workgroups: u32,
    /// Whether the host may wait for the device; false in a browser.
    pub can_wait: bool,
}

/// What a pipeline does with a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    Read,
    ReadWrite,
}

/// A range of a buffer, in bytes: where it begins is a multiple of [`UNIFORM_ALIGNMENT`], its length of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    pub buffer: BufferId,
    pub offset: u32,
    pub bytes: u32,
}

/// The alignment of what is bound: WebGPU's default for uniform and storage buffers.
pub const UNIFORM_ALIGNMENT: usize = 256;

/// Runs a pipeline once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    pub pipeline: PipelineId,
    /// Binding 0: the parameters. Then the storage buffers, in the order of the pipeline.
    pub bindings: Vec<Range>,
    /// Workgroups along x and y.
    pub workgroups: [u32; 2],
}

/// A GPU. Writes, submissions and reads take effect in the order of the calls.
pub trait Driver: Send + Sync + 'static {
    /// What it is, for messages: an adapter's name.
    fn describe(&self) -> String;

    /// What it allows.
    fn limits(&self) -> Limits;

    /// A buffer of `bytes` (a multiple of 4) to bind, to write and to read.
    fn create_buffer(&self, bytes: u64) -> Result<BufferId>;

    /// Gives a buffer back. What has been submitted still runs.
    fn destroy_buffer(&self, buffer: BufferId);

    /// Copies bytes of the host; offset and length are multiples of 4.
    fn write(&self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes a pipeline of the entry point `main`. Binding 0 of group 0 is a uniform buffer, the storage buffers
    /// follow.
    ///
    /// Errors: text that the platform refuses; where that is only known later, the next read reports it.
    fn create_pipeline(&self, text: &str, storage: &[Access]) -> Result<PipelineId>;

    /// Runs pipelines one after the other, each seeing what those before it wrote.
    fn submit(&self, dispatches: &[Dispatch]) -> Result<()>;

    /// Starts to copy bytes to the host; offset and length are multiples of 4.
    fn read(&self, buffer: BufferId, offset: u64, bytes: usize) -> Result<Box<dyn Readback>>;
}
