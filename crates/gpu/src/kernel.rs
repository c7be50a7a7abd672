//! Single kernels: the eager path.

use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::backend::{MemRef, PreparedKernel};
use lanthorn_compiler::kernel::Kernel;
use lanthorn_ir::{Error, ErrorKind, Result};

use crate::backend::check_range;
use crate::driver::{BufferId, Driver};
use crate::launch::{Launch, Pipelines, slots};
use crate::wgsl::{Slot, shader};

/// The parameters of kernels that run one at a time. The queue keeps writes and dispatches in order, so one place
/// serves them all, as long as each write is followed by its own dispatch: the lock is held meanwhile.
pub(crate) struct Params {
    pub driver: Arc<dyn Driver>,
    pub buffer: Mutex<Option<(BufferId, usize)>>,
}

impl Drop for Params {
    fn drop(&mut self) {
        let buffer = self.buffer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((buffer, _)) = buffer.take() {
            self.driver.destroy_buffer(buffer);
        }
    }
}

/// A kernel that runs by itself. Its text depends on which operands share memory, which only a run tells.
pub(crate) struct GpuKernel {
    driver: Arc<dyn Driver>,
    pipelines: Arc<Pipelines>,
    params: Arc<Params>,
    kernel: Kernel,
    /// The launches that runs have asked for; few, since operands rarely share memory in many ways.
    launches: Mutex<Vec<Known>>,
}

/// Which operands share memory, and the launch for that; none where there is nothing to do.
type Known = (Vec<Slot>, Option<Arc<Launch>>);

impl GpuKernel {
    /// Errors: what has no shader.
    pub fn new(
        driver: Arc<dyn Driver>,
        pipelines: Arc<Pipelines>,
        params: Arc<Params>,
        kernel: &Kernel,
    ) -> Result<GpuKernel> {
        let apart: Vec<Slot> = (0..(kernel.inputs.len() + kernel.outputs.len()) as Slot).collect();
        shader(kernel, &apart)?;
        Ok(GpuKernel { driver, pipelines, params, kernel: kernel.clone(), launches: Mutex::default() })
    }

    /// Every operand must lie in its memory.
    fn check_extents(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>]) -> Result<()> {
        let kernel = &self.kernel;
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

    fn launch(&self, slots: &[Slot]) -> Result<Option<Arc<Launch>>> {
        let mut launches = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, launch)) = launches.iter().find(|(known, _)| known == slots) {
            return Ok(launch.clone());
        }
        let launch = Launch::new(&*self.driver, &self.pipelines, &self.kernel, slots)?.map(Arc::new);
        launches.push((slots.to_vec(), launch.clone()));
        Ok(launch)
    }
}

impl PreparedKernel for GpuKernel {
    fn scratch(&self) -> usize {
        0
    }

    fn run(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>], _: MemRef<'_>) -> Result<()> {
        self.check_extents(inputs, outputs)?;
        let places = [inputs, outputs].concat();
        let (slots, ranges) = slots(&places, &self.driver)?;
        let Some(launch) = self.launch(&slots)? else { return Ok(()) };
        let mut bytes = vec![0; launch.params_bytes()];
        launch.write_params(&mut bytes, |operand| places.get(operand).map_or(0, |place| place.offset))?;
        let mut params = self.params.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = match *params {
            Some((buffer, size)) if size >= bytes.len() => buffer,
            old => {
                let buffer = self.driver.create_buffer(bytes.len() as u64)?;
                if let Some((old, _)) = old {
                    self.driver.destroy_buffer(old);
                }
                *params = Some((buffer, bytes.len()));
                buffer
            }
        };
        let dispatch = launch.dispatch(buffer, 0, |slot| {
            let range = ranges.get(slot as usize).copied();
            range.ok_or_else(|| Error::new(ErrorKind::Execute, "gpu", "an operand has no memory"))
        })?;
        self.driver.write(buffer, 0, &bytes)?;
        self.driver.submit(&[dispatch])
    }
}
