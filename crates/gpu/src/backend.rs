//! A GPU as a [`Backend`]: memory, transfer, single kernels and programs.

use std::sync::{Arc, Mutex};

use lanthorn_compiler::backend::{
    Backend, BackendCaps, MemRef, Memory, PreparedKernel, Program, Readback, Requirements, Support,
};
use lanthorn_compiler::kernel::Kernel;
use lanthorn_compiler::plan::Plan;
use lanthorn_compiler::single::copy;
use lanthorn_ir::{DType, Error, ErrorKind, Layout, Prim, Result, TensorType};

use crate::driver::{Driver, Limits};
use crate::kernel::{GpuKernel, Params};
use crate::launch::Pipelines;
use crate::memory::GpuMemory;
use crate::program::GpuProgram;
use crate::support;

/// Steps of one region: beyond, compiling its text takes longer than a second kernel.
const REGION_STEPS: usize = 128;

/// A GPU behind a driver.
pub struct GpuBackend {
    driver: Arc<dyn Driver>,
    pipelines: Arc<Pipelines>,
    params: Arc<Params>,
}

impl GpuBackend {
    /// A backend over a driver.
    pub fn new(driver: Arc<dyn Driver>) -> GpuBackend {
        let params = Arc::new(Params { driver: driver.clone(), buffer: Mutex::new(None) });
        GpuBackend { driver, pipelines: Arc::default(), params }
    }

    /// The GPU of this machine, or the device that a browser's script has opened.
    ///
    /// Errors: [`ErrorKind::Device`] if there is none.
    pub fn open() -> Result<GpuBackend> {
        #[cfg(not(target_arch = "wasm32"))]
        let driver = crate::driver::native::Native::open()?;
        #[cfg(target_arch = "wasm32")]
        let driver = crate::driver::browser::Browser::open()?;
        Ok(GpuBackend::new(Arc::new(driver)))
    }

    /// What it runs on, for messages.
    pub fn describe(&self) -> String {
        self.driver.describe()
    }

    /// What the device allows.
    pub fn limits(&self) -> Limits {
        self.driver.limits()
    }

    /// The text of every pipeline that has been made: kernels of one structure share one.
    pub fn texts(&self) -> Vec<String> {
        self.pipelines.texts()
    }

    /// Writes bytes that are not whole words, by way of a buffer of their own and a kernel.
    fn write_bytes(&self, to: MemRef<'_>, bytes: &[u8]) -> Result<()> {
        let mut words = bytes.to_vec();
        words.resize(bytes.len().next_multiple_of(4), 0);
        let staging = GpuMemory::new(&self.driver, words.len())?;
        self.driver.write(staging.buffer, 0, &words)?;
        let layout = Layout::contiguous([bytes.len()]);
        let kernel = copy(DType::U8, layout.clone(), layout);
        let from = MemRef { memory: &staging, offset: 0 };
        self.prepare(&kernel)?.run(&[from], &[to], from)
    }
}

/// A range must lie in its memory.
pub(crate) fn check_range(op: &str, place: &MemRef<'_>, bytes: usize) -> Result<()> {
    let whole = place.memory.bytes();
    if place.offset.checked_add(bytes).is_none_or(|end| end > whole) {
        let message = format!("{bytes} bytes at {} leave a memory of {whole}", place.offset);
        return Err(Error::new(ErrorKind::Transfer, op, message));
    }
    Ok(())
}

impl Backend for GpuBackend {
    fn name(&self) -> &'static str {
        "gpu"
    }

    /// No kernel adds floats by atomics.
    fn is_deterministic(&self) -> bool {
        true
    }

    fn caps(&self) -> BackendCaps {
        // Every operand may lie in a buffer of its own.
        BackendCaps {
            region_operands: self.driver.limits().storage_buffers as usize,
            region_steps: REGION_STEPS,
        }
    }

    fn support(&self, prim: &Prim, inputs: &[&TensorType]) -> Result<Support> {
        support::support(prim, inputs)
    }

    fn requirements(&self, _: &Kernel) -> Requirements {
        Requirements::default()
    }

    fn writes_views(&self, _: &Prim) -> bool {
        true
    }

    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>> {
        Ok(Arc::new(GpuMemory::new(&self.driver, bytes)?))
    }

    fn write(&self, to: MemRef<'_>, bytes: &[u8]) -> Result<()> {
        check_range("write", &to, bytes.len())?;
        let memory = GpuMemory::of(&to, &self.driver)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if to.offset.is_multiple_of(4) && bytes.len().is_multiple_of(4) {
            return self.driver.write(memory.buffer, to.offset as u64, bytes);
        }
        self.write_bytes(to, bytes)
    }

    fn read(&self, from: MemRef<'_>, bytes: usize) -> Result<Box<dyn Readback>> {
        check_range("read", &from, bytes)?;
        let memory = GpuMemory::of(&from, &self.driver)?;
        if bytes == 0 {
            return Ok(Box::new(lanthorn_compiler::backend::Arrived::new(Vec::new())));
        }
        let start = from.offset - from.offset % 4;
        let end = (from.offset + bytes).next_multiple_of(4);
        let inner = self.driver.read(memory.buffer, start as u64, end - start)?;
        Ok(Box::new(Cut { inner, skip: from.offset - start, bytes }))
    }

    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>> {
        Ok(Box::new(GpuProgram::new(&self.driver, &self.pipelines, plan)?))
    }

    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>> {
        let (driver, pipelines) = (self.driver.clone(), self.pipelines.clone());
        Ok(Arc::new(GpuKernel::new(driver, pipelines, self.params.clone(), kernel)?))
    }
}

/// A read of bytes that are not whole words.
struct Cut {
    inner: Box<dyn Readback>,
    skip: usize,
    bytes: usize,
}

impl Cut {
    fn cut(mut whole: Vec<u8>, skip: usize, bytes: usize) -> Vec<u8> {
        whole.drain(..skip.min(whole.len()));
        whole.truncate(bytes);
        whole
    }
}

impl Readback for Cut {
    fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.inner.poll()?.map(|whole| Cut::cut(whole, self.skip, self.bytes)))
    }

    fn wait(self: Box<Self>) -> Result<Vec<u8>> {
        Ok(Cut::cut(self.inner.wait()?, self.skip, self.bytes))
    }
}
