//! Eager execution into tensors that exist: in-place updates and `out` arguments.

use std::sync::Arc;

use lanthorn_compiler::backend::MemRef;
use lanthorn_ir::prim::Control;
use lanthorn_ir::{Error, Prim, Result, TensorType};
use smallvec::SmallVec;

use super::ready::{Ready, start};
use super::{Eager, EagerTensor};
use crate::non_finite;
use crate::storage::{Access, Storage};

impl Eager {
    /// Applies a primitive and writes its results over `outputs`, which have its output types and may be views
    /// of any layout, also of the inputs' own storages: every input is read as it was before the call.
    ///
    /// Errors: what the primitive reports; an output of another type, in read-only memory or with several
    /// elements in one place.
    pub fn apply_into(&self, prim: Prim, inputs: &[EagerTensor], outputs: &[&EagerTensor]) -> Result<()> {
        let inputs: SmallVec<[&EagerTensor; 4]> = inputs.iter().collect();
        self.apply_ref_into(prim, &inputs, outputs)
    }

    /// As [`Eager::apply_into`], of operands that stay where they are.
    pub fn apply_ref_into(
        &self,
        prim: Prim,
        inputs: &[&EagerTensor],
        outputs: &[&EagerTensor],
    ) -> Result<()> {
        if self.device.traces_non_finite() && super::computes(&prim) {
            let operands = non_finite::extents(inputs)?;
            self.apply_quietly_into(prim.clone(), inputs, outputs)?;
            return match non_finite::at_fault(&prim, operands, outputs)? {
                Some(found) => Err(found.into_error()),
                None => Ok(()),
            };
        }
        self.apply_quietly_into(prim, inputs, outputs)
    }

    fn apply_quietly_into(
        &self,
        prim: Prim,
        inputs: &[&EagerTensor],
        outputs: &[&EagerTensor],
    ) -> Result<()> {
        let name = prim.name();
        self.check_devices(name, inputs)?;
        for output in outputs {
            self.device.expect(name, output.device())?;
            check_target(name, output)?;
        }
        if outputs.iter().enumerate().any(|(at, output)| outputs[..at].iter().any(|o| overlap(o, output))) {
            return Err(Error::unsupported(name, "two outputs share memory"));
        }
        let targets: SmallVec<[Option<&EagerTensor>; 3]> = outputs.iter().copied().map(Some).collect();
        if matches!(prim, Prim::Movement(_) | Prim::Control(_)) {
            let operands: SmallVec<[&TensorType; 4]> = inputs.iter().map(|input| input.ty()).collect();
            super::check_targets(name, &prim.infer(&operands)?, &targets)?;
            if let ([output], Some(view)) = (outputs, super::as_view(&prim, inputs)) {
                return self.copy_into(&view, output);
            }
        }
        if !matches!(prim, Prim::Control(Control::Checkpoint { .. }))
            && let Some(ready) = self.ready(&prim, inputs, &targets)?
        {
            return self.kernels_into(&prim, inputs, ready, targets);
        }
        let results = self.apply_ref(prim, inputs)?;
        results.iter().zip(outputs).try_for_each(|(result, output)| self.copy_into(result, output))
    }

    fn kernels_into(
        &self,
        prim: &Prim,
        inputs: &[&EagerTensor],
        ready: Arc<Ready>,
        outputs: SmallVec<[Option<&EagerTensor>; 3]>,
    ) -> Result<()> {
        let mut direct = outputs.clone();
        for (at, target) in direct.iter_mut().enumerate() {
            let is_safe = |output: &EagerTensor| ready.direct[at] && may_share(&ready, inputs, output, at);
            *target = target.filter(|output| is_safe(output));
        }
        if direct.iter().all(Option::is_some) {
            return self.run_into(&ready, inputs, &direct);
        }
        // Where a kernel cannot write the output itself it writes a tensor of its own, to be copied.
        let Some(ready) = self.ready(prim, inputs, &direct)? else { return Ok(()) };
        let apart: SmallVec<[Option<EagerTensor>; 3]> = (direct.iter().zip(&ready.types))
            .map(|(direct, ty)| match direct {
                Some(_) => Ok(None),
                None => EagerTensor::empty(&self.device, ty).map(Some),
            })
            .collect::<Result<_>>()?;
        let targets: SmallVec<[Option<&EagerTensor>; 3]> =
            direct.iter().zip(&apart).map(|(direct, apart)| direct.or(apart.as_ref())).collect();
        self.run_into(&ready, inputs, &targets)?;
        for (output, apart) in outputs.iter().zip(&apart) {
            if let (Some(output), Some(result)) = (output, apart) {
                self.copy_into(result, output)?;
            }
        }
        Ok(())
    }

    /// Runs ready kernels into tensors that they can write.
    fn run_into(
        &self,
        ready: &Ready,
        inputs: &[&EagerTensor],
        targets: &[Option<&EagerTensor>],
    ) -> Result<()> {
        let targets = || targets.iter().flatten().copied();
        let reads: SmallVec<[&Storage; 4]> = inputs.iter().map(|input| input.storage()).collect();
        let writes: SmallVec<[&Storage; 3]> = targets().map(EagerTensor::storage).collect();
        {
            let access = Access::lock(&reads, &writes)?;
            let mut places: SmallVec<[MemRef<'_>; 8]> = SmallVec::new();
            for tensor in inputs.iter().copied().chain(targets()) {
                places.push(MemRef { memory: access.memory(tensor.storage())?, offset: start(tensor) });
            }
            self.recorded(ready.prim(), inputs, || {
                (ready.kernels.iter()).try_for_each(|one| {
                    self.run(&*one.kernel, &one.inputs, &one.outputs, |buffer| places[buffer as usize])
                })
            })?;
        }
        writes.iter().for_each(|storage| storage.bump_version());
        Ok(())
    }
}

/// True if output `at` of the kernels may lie in the memory that it does, given what they read from it.
fn may_share(ready: &Ready, inputs: &[&EagerTensor], output: &EagerTensor, at: usize) -> bool {
    let touching: SmallVec<[usize; 4]> =
        (0..inputs.len()).filter(|&input| overlap(inputs[input], output)).collect();
    if touching.is_empty() {
        return true;
    }
    let is_same = |&input: &usize| {
        let input = inputs[input];
        input.layout() == output.layout() && input.dtype() == output.dtype()
    };
    if !touching.iter().all(is_same) {
        return false;
    }
    let output = (inputs.len() + at) as u32;
    ready.is_map || matches!(touching[..], [one] if ready.in_place.contains(&(one as u32, output)))
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
    if output.layout().may_overlap_itself() {
        return Err(Error::unsupported(op, "several elements of the output lie in one place; copy it first"));
    }
    Ok(())
}
