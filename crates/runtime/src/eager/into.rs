//! Eager execution into tensors that exist: in-place updates and `out` arguments.

use lanthorn_compiler::backend::{MemRef, Memory};
use lanthorn_compiler::kernel::{Kernel, KernelKind, Operand};
use lanthorn_compiler::single::single;
use lanthorn_ir::prim::{Control, Types};
use lanthorn_ir::{Builder, DType, Error, Layout, Prim, Result, TensorType};
use smallvec::SmallVec;

use super::{Eager, EagerTensor};
use crate::storage::{Access, Storage};

impl Eager {
    /// Applies a primitive and writes its results over `outputs`, which have its output types and may be views
    /// of any layout, also of the inputs' own storages: every input is read as it was before the call.
    ///
    /// Errors: what the primitive reports; an output of another type, in read-only memory or with several
    /// elements in one place.
    pub fn apply_into(&self, prim: Prim, inputs: &[EagerTensor], outputs: &[&EagerTensor]) -> Result<()> {
        let name = prim.name();
        let operands: SmallVec<[&TensorType; 4]> = inputs.iter().map(EagerTensor::ty).collect();
        let types = prim.infer(&operands)?;
        self.check_devices(name, inputs)?;
        if types.len() != outputs.len() {
            let (n, m) = (types.len(), outputs.len());
            return Err(Error::shape(name, format!("gives {n} results, got {m} tensors to write to")));
        }
        for (output, ty) in outputs.iter().zip(&types) {
            self.device.expect(name, output.device())?;
            check_target(name, output)?;
            if output.ty() != ty {
                return Err(Error::shape(name, format!("the result is {ty}, the output {}", output.ty())));
            }
        }
        if outputs.iter().enumerate().any(|(at, output)| outputs[..at].iter().any(|o| overlap(o, output))) {
            return Err(Error::unsupported(name, "two outputs share memory"));
        }
        if let ([output], Some(view)) = (outputs, super::as_view(&prim, inputs)) {
            return self.copy_into(&view, output);
        }
        let is_nested = matches!(prim, Prim::Control(Control::Checkpoint { .. }));
        if !is_nested && self.has_kernel(&prim, &operands, types.len())? {
            return self.kernels_into(&prim, inputs, &types, outputs);
        }
        let results = self.apply(prim, inputs)?;
        results.iter().zip(outputs).try_for_each(|(result, output)| self.copy_into(result, output))
    }

    fn kernels_into(
        &self,
        prim: &Prim,
        inputs: &[EagerTensor],
        types: &Types,
        outputs: &[&EagerTensor],
    ) -> Result<()> {
        let operands: SmallVec<[(DType, Layout); 4]> =
            inputs.iter().map(|input| (input.dtype(), input.layout().clone())).collect();
        let mut kernels = single(prim, &operands)?;
        // Where a kernel cannot write the output itself it writes a tensor of its own, to be copied.
        let mut apart: SmallVec<[Option<EagerTensor>; 3]> = SmallVec::new();
        for (at, output) in outputs.iter().enumerate() {
            let buffer = (inputs.len() + at) as u32;
            let direct = kernels.iter_mut().all(|kernel| self.retarget(kernel, buffer, output));
            let is_safe = direct && self.may_share(&kernels, inputs, outputs, at);
            apart.push(if is_safe { None } else { Some(EagerTensor::empty(&self.device, &types[at])?) });
        }
        if apart.iter().any(Option::is_some) {
            // Layouts of the others may have been adapted halfway: begin anew.
            kernels = single(prim, &operands)?;
            for (at, output) in outputs.iter().enumerate().filter(|(at, _)| apart[*at].is_none()) {
                let buffer = (inputs.len() + at) as u32;
                kernels.iter_mut().for_each(|kernel| {
                    self.retarget(kernel, buffer, output);
                });
            }
        }
        let targets: SmallVec<[&EagerTensor; 3]> =
            outputs.iter().zip(&apart).map(|(output, apart)| apart.as_ref().unwrap_or(output)).collect();
        let reads: SmallVec<[&Storage; 8]> = inputs.iter().map(EagerTensor::storage).collect();
        let writes: SmallVec<[&Storage; 3]> = targets.iter().map(|target| target.storage()).collect();
        {
            let access = Access::lock(&reads, &writes)?;
            let mut memories: SmallVec<[&dyn Memory; 8]> = SmallVec::new();
            for storage in reads.iter().chain(&writes) {
                memories.push(access.memory(storage)?);
            }
            for kernel in &kernels {
                self.run(kernel, |buffer| MemRef { memory: memories[buffer as usize], offset: 0 })?;
            }
        }
        writes.iter().for_each(|storage| storage.bump_version());
        for (output, apart) in outputs.iter().zip(&apart) {
            if let Some(result) = apart {
                self.copy_into(result, output)?;
            }
        }
        Ok(())
    }

    /// Lets a kernel that writes `buffer` as a contiguous whole, or a part of it, write `output` instead;
    /// false if it cannot.
    fn retarget(&self, kernel: &mut Kernel, buffer: u32, output: &EagerTensor) -> bool {
        let needs_contiguous = match &kernel.kind {
            KernelKind::Prim(prim) => !self.device.backend().writes_views(prim),
            _ => false,
        };
        let (target, whole) = (output.layout(), Layout::contiguous(output.shape()));
        kernel.outputs.iter_mut().filter(|operand| operand.buffer == buffer).all(|operand| {
            if needs_contiguous && !target.is_contiguous() {
                return false;
            }
            if operand.layout == whole {
                operand.layout = target.clone();
            } else if target.is_contiguous() {
                operand.layout.offset += target.offset;
            } else {
                return false;
            }
            true
        })
    }

    /// True if output `at` of the kernels may lie in the memory that it does, given what they read from it.
    fn may_share(
        &self,
        kernels: &[Kernel],
        inputs: &[EagerTensor],
        outputs: &[&EagerTensor],
        at: usize,
    ) -> bool {
        let output = outputs[at];
        let touching: SmallVec<[usize; 4]> =
            (0..inputs.len()).filter(|&input| overlap(&inputs[input], output)).collect();
        let (&[input], [kernel]) = (&touching[..], kernels) else { return touching.is_empty() };
        if inputs[input].layout() != output.layout() {
            return false;
        }
        let place = |operands: &[Operand], buffer: usize| {
            operands.iter().position(|operand| operand.buffer as usize == buffer).map(|at| at as u32)
        };
        let pair = place(&kernel.inputs, input).zip(place(&kernel.outputs, inputs.len() + at));
        pair.is_some_and(|pair| self.device.backend().requirements(kernel).in_place.contains(&pair))
    }
}

/// True if the two may have an element in common. Exact for extents, not for interleaved strides.
pub(super) fn overlap(a: &EagerTensor, b: &EagerTensor) -> bool {
    if !a.storage().is_same(b.storage()) {
        return false;
    }
    let bytes = |tensor: &EagerTensor| {
        let size = tensor.dtype().size();
        tensor.layout().extent().map(|(low, high)| (low * size, (high + 1) * size))
    };
    match (bytes(a), bytes(b)) {
        (Some((a_low, a_high)), Some((b_low, b_high))) => a_low < b_high && b_low < a_high,
        _ => false,
    }
}

/// Refuses to write to a tensor of which several elements lie in one place.
pub(super) fn check_target(op: &str, output: &EagerTensor) -> Result<()> {
    let layout = output.layout();
    let repeated = layout.shape.iter().zip(&layout.strides).any(|(&size, &stride)| size > 1 && stride == 0);
    if repeated && layout.numel() > 0 {
        return Err(Error::unsupported(op, "several elements of the output lie in one place; copy it first"));
    }
    Ok(())
}
