//! From kernels to dispatches: pipelines by text, parameters, and what is bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::backend::MemRef;
use lanthorn_compiler::kernel::Kernel;
use lanthorn_ir::{Error, ErrorKind, Result};

use crate::driver::{Access, BufferId, Dispatch, Driver, PipelineId, Range, UNIFORM_ALIGNMENT};
use crate::memory::GpuMemory;
use crate::wgsl::{Base, Binding, Shader, Slot, shader};

/// The pipelines of a device by their text.
#[derive(Default)]
pub(crate) struct Pipelines {
    known: Mutex<HashMap<Box<str>, PipelineId>>,
}

impl Pipelines {
    fn get(&self, driver: &dyn Driver, shader: &Shader) -> Result<PipelineId> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&pipeline) = known.get(shader.text.as_str()) {
            return Ok(pipeline);
        }
        let storage: Vec<Access> = shader.bindings.iter().map(|binding| binding.access).collect();
        let pipeline = driver.create_pipeline(&shader.text, &storage)?;
        known.insert(shader.text.as_str().into(), pipeline);
        Ok(pipeline)
    }

    /// What there is.
    pub fn texts(&self) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.keys().map(|text| text.to_string()).collect()
    }
}

/// A kernel whose pipeline exists; what is left is where its operands lie.
pub(crate) struct Launch {
    pipeline: PipelineId,
    pub params: Vec<u32>,
    bases: Vec<Base>,
    bindings: Vec<Binding>,
    workgroups: [u32; 2],
}

impl Launch {
    /// The launch of a kernel whose operands (inputs, then outputs) lie in the memories `slots`; `None` if it has
    /// nothing to do.
    pub fn new(
        driver: &dyn Driver,
        pipelines: &Pipelines,
        kernel: &Kernel,
        slots: &[Slot],
    ) -> Result<Option<Launch>> {
        let shader = shader(kernel, slots)?;
        if shader.workgroups == 0 {
            return Ok(None);
        }
        let limits = driver.limits();
        if shader.bindings.len() > limits.storage_buffers as usize {
            let (found, most) = (shader.bindings.len(), limits.storage_buffers);
            let message = format!("a kernel touches {found} buffers, the device binds {most}");
            return Err(Error::unsupported("gpu", message));
        }
        let most = limits.workgroups as usize;
        let x = shader.workgroups.min(most);
        let y = shader.workgroups.div_ceil(x);
        if y > most {
            let message = format!("a kernel of {} workgroups exceeds {most} by {most}", shader.workgroups);
            return Err(Error::unsupported("gpu", message));
        }
        let pipeline = pipelines.get(driver, &shader)?;
        Ok(Some(Launch {
            pipeline,
            params: shader.params,
            bases: shader.bases,
            bindings: shader.bindings,
            workgroups: [x as u32, y as u32],
        }))
    }

    /// Bytes of the parameters in a buffer that holds those of several launches.
    pub fn params_bytes(&self) -> usize {
        (self.params.len() * 4).next_multiple_of(UNIFORM_ALIGNMENT)
    }

    /// Writes the parameters, with every operand's place added, to the beginning of `to`.
    pub fn write_params(&self, to: &mut [u8], place: impl Fn(usize) -> usize) -> Result<()> {
        let mut words = self.params.clone();
        for base in &self.bases {
            let bytes = place(base.operand);
            let element = base.element as usize;
            let at = u32::try_from(bytes / element).ok().filter(|_| bytes.is_multiple_of(element));
            let at = at.ok_or_else(|| {
                let message = format!("an operand begins at byte {bytes}, which is no place of its elements");
                Error::new(ErrorKind::Execute, "gpu", message)
            })?;
            words[base.word] = words[base.word].wrapping_add(at);
        }
        for (to, word) in to.chunks_exact_mut(4).zip(&words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    /// The dispatch, with parameters at `offset` of a buffer and the memories of the slots.
    pub fn dispatch(
        &self,
        params: BufferId,
        offset: usize,
        memory: impl Fn(Slot) -> Result<Range>,
    ) -> Result<Dispatch> {
        let bytes = (self.params.len() * 4) as u32;
        let mut bindings = vec![Range { buffer: params, offset: offset as u32, bytes }];
        for binding in &self.bindings {
            bindings.push(memory(binding.slot)?);
        }
        // What one kernel writes it may see only through one binding.
        for (at, binding) in self.bindings.iter().enumerate() {
            let buffer = bindings[at + 1].buffer;
            let shared = bindings[1..].iter().filter(|range| range.buffer == buffer).count() > 1;
            if binding.access == Access::ReadWrite && shared {
                return Err(Error::new(
                    ErrorKind::Execute,
                    "gpu",
                    "an operand that a kernel writes is passed as another operand too; copy it first",
                ));
            }
        }
        Ok(Dispatch { pipeline: self.pipeline, bindings, workgroups: self.workgroups })
    }
}

/// The whole of a memory, as it is bound.
pub(crate) fn whole(memory: &GpuMemory) -> Range {
    use lanthorn_compiler::backend::Memory;
    Range { buffer: memory.buffer, offset: 0, bytes: memory.bytes() as u32 }
}

/// The memories of a kernel's operands, numbered by buffer.
pub(crate) fn slots(places: &[MemRef<'_>], driver: &Arc<dyn Driver>) -> Result<(Vec<Slot>, Vec<Range>)> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut slots = Vec::with_capacity(places.len());
    for place in places {
        let range = whole(GpuMemory::of(place, driver)?);
        let at = ranges.iter().position(|known| known.buffer == range.buffer).unwrap_or_else(|| {
            ranges.push(range);
            ranges.len() - 1
        });
        slots.push(at as Slot);
    }
    Ok((slots, ranges))
}
