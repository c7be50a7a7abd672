//! A GPU as a [`Backend`]: memory, transfer, single kernels and programs.

use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::backend::{
    Backend, BackendCaps, MemRef, Memory, Program, Readback, Requirements, Support,
};
use lanthorn_compiler::kernel::Kernel;
use lanthorn_compiler::plan::Plan;
use lanthorn_compiler::single::copy;
use lanthorn_ir::{DType, Error, ErrorKind, Layout, Prim, Result, TensorType};

use crate::driver::{BufferId, Driver, Limits};
use crate::launch::{Launch, Pipelines, slots};
use crate::memory::GpuMemory;
use crate::program::GpuProgram;
use crate::support;

/// Steps of one region: beyond, compiling its text takes longer than a second kernel.
const REGION_STEPS: usize = 128;

/// A GPU behind a driver.
pub struct GpuBackend {
    driver: Arc<dyn Driver>,
    pipelines: Arc<Pipelines>,
    /// The parameters of kernels that run one at a time. The queue keeps writes and dispatches in order, so one
    /// place serves them all, as long as each write is followed by its own dispatch.
    params: Mutex<Option<(BufferId, usize)>>,
}

impl GpuBackend {
    /// A backend over a driver.
    pub fn new(driver: Arc<dyn Driver>) -> GpuBackend {
        GpuBackend { driver, pipelines: Arc::default(), params: Mutex::new(None) }
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
        self.run_kernel(&kernel, &[from], &[to], from)
    }
}

impl Drop for GpuBackend {
    fn drop(&mut self) {
        let params = self.params.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((buffer, _)) = params.take() {
            self.driver.destroy_buffer(buffer);
        }
    }
}

fn check_range(op: &str, place: &MemRef<'_>, bytes: usize) -> Result<()> {
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

    fn run_kernel(
        &self,
        kernel: &Kernel,
        inputs: &[MemRef<'_>],
        outputs: &[MemRef<'_>],
        _: MemRef<'_>,
    ) -> Result<()> {
        check_extents(kernel, inputs, outputs)?;
        let places = [inputs, outputs].concat();
        let (slots, ranges) = slots(&places, &self.driver)?;
        let Some(launch) = Launch::new(&*self.driver, &self.pipelines, kernel, &slots)? else {
            return Ok(());
        };
        let mut bytes = vec![0; launch.params_bytes()];
        launch.write_params(&mut bytes, |operand| places.get(operand).map_or(0, |place| place.offset))?;
        let mut params = self.params.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = match *params {
            Some((buffer, size)) if size >= bytes.len() => buffer,
            old => {
                if let Some((buffer, _)) = old {
                    self.driver.destroy_buffer(buffer);
                }
                let buffer = self.driver.create_buffer(bytes.len() as u64)?;
                *params = Some((buffer, bytes.len()));
                buffer
            }
        };
        let dispatch = launch.dispatch(buffer, 0, |slot| {
            ranges
                .get(slot as usize)
                .copied()
                .ok_or_else(|| Error::new(ErrorKind::Execute, "gpu", "a lost operand"))
        })?;
        self.driver.write(buffer, 0, &bytes)?;
        self.driver.submit(&[dispatch])
    }
}

/// Every operand must lie in its memory.
fn check_extents(kernel: &Kernel, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>]) -> Result<()> {
    if inputs.len() != kernel.inputs.len() || outputs.len() != kernel.outputs.len() {
        return Err(Error::new(ErrorKind::Execute, "gpu", "operands and memories differ in number"));
    }
    let operands = kernel.inputs.iter().zip(inputs).chain(kernel.outputs.iter().zip(outputs));
    for (operand, place) in operands {
        let Some((_, last)) = operand.layout.extent() else { continue };
        check_range("gpu", place, (last + 1) * operand.dtype.size())?;
    }
    Ok(())
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
