//! Devices as engines of sessions, in this process and behind messages.

use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::{Layout, Result, TensorType};
use lanthorn_session::{Engine, EngineStats};
use smallvec::SmallVec;

use crate::cancel::CancelToken;
use crate::device::Device;
use crate::eager::EagerTensor;
use crate::executable::{Executable, Options};

impl Engine for Device {
    type Concrete = EagerTensor;
    type Program = Executable;

    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<EagerTensor> {
        EagerTensor::from_bytes(self, ty, bytes)
    }

    fn run(
        &self,
        program: Indexed,
        arguments: Vec<EagerTensor>,
        cancel: &CancelToken,
    ) -> Result<Vec<EagerTensor>> {
        let arguments: Vec<&EagerTensor> = arguments.iter().collect();
        Executable::of_program(self, program)?.call(&arguments, cancel)
    }

    fn compile(&self, program: Indexed) -> Result<Executable> {
        Executable::of_program(self, program)
    }

    fn compile_donating(&self, program: Indexed, donated: &[(u32, u32)]) -> Result<Executable> {
        let options = Options { donated: donated.to_vec(), ..Options::default() };
        Executable::of_program_with(self, program, options)
    }

    fn call(
        &self,
        program: &Executable,
        arguments: &[EagerTensor],
        cancel: &CancelToken,
    ) -> Result<Vec<EagerTensor>> {
        let arguments: SmallVec<[&EagerTensor; 16]> = arguments.iter().collect();
        program.call(&arguments, cancel)
    }

    fn kernels(&self, program: &Executable) -> usize {
        program.kernels().len()
    }

    fn cost(&self, program: &Executable) -> u64 {
        let costs = program.kernels().iter().map(|kernel| kernel.flops.saturating_add(kernel.bytes()));
        costs.fold(0, u64::saturating_add)
    }

    fn part(&self, tensor: &EagerTensor, view: &Layout) -> Result<Option<EagerTensor>> {
        if !tensor.layout().is_contiguous() {
            return Ok(None);
        }
        let offset = tensor.layout().offset.saturating_add(view.offset);
        tensor.with_layout(Layout { offset, ..view.clone() })?.contiguous().map(Some)
    }

    fn read_now(&self, tensor: &EagerTensor) -> Result<Option<Vec<u8>>> {
        tensor.to_bytes().map(Some)
    }

    fn can_read_now(&self) -> bool {
        true
    }

    fn stats(&self) -> EngineStats {
        let stats = Device::stats(self);
        EngineStats {
            live_bytes: stats.live_bytes as u64,
            peak_bytes: stats.peak_bytes as u64,
            pooled_bytes: stats.pooled_bytes as u64,
            executables: stats.executables as u64,
            compiles: stats.compiles,
            calls: stats.calls,
            kernels: stats.kernels,
        }
    }
}

impl Device {
    /// Runs a program that came as [bytes](Indexed::to_bytes) from another process or thread.
    ///
    /// Errors: bytes that are no program; what [`Executable::call`] reports.
    pub fn run_bytes(
        &self,
        program: &[u8],
        arguments: &[&EagerTensor],
        cancel: &CancelToken,
    ) -> Result<Vec<EagerTensor>> {
        Executable::of_program(self, Indexed::from_bytes(program)?)?.call(arguments, cancel)
    }
}
