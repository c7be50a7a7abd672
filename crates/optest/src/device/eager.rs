//! The eager path: each primitive at once, on views, one kernel at a time.

use lanthorn_compiler::backend::{MemRef, Support};
use lanthorn_compiler::single::single;
use lanthorn_interp::Interp;
use lanthorn_ir::builder::Outputs;
use lanthorn_ir::{Builder, Layout, Prim, Result, TensorType};

use super::memory::{garbage, read};
use super::{Device, Strided};

/// A builder that runs kernels of a device.
#[derive(Clone, Copy)]
pub struct Eager(pub Device);

impl Builder for Eager {
    type Value = Strided;

    fn apply(&self, prim: Prim, inputs: &[Strided]) -> Result<Outputs<Strided>> {
        let types: Vec<&TensorType> = inputs.iter().map(|input| &input.ty).collect();
        let outputs = prim.infer(&types)?;
        if let Prim::Movement(movement) = &prim
            && let Some(layout) = inputs.first().and_then(|input| movement.view(&input.layout))
        {
            let view = Strided { layout, ty: outputs[0].clone(), ..inputs[0].clone() };
            return Ok([view].into_iter().collect());
        }
        if self.0.backend.support(&prim, &types)? == Support::Decompose {
            return prim.decompose_or_fail(self, inputs);
        }
        self.run_kernels(&prim, inputs, &outputs)
    }

    fn ty<'a>(&self, value: &'a Strided) -> &'a TensorType {
        &value.ty
    }

    fn count(&self, op: &str, value: &Strided) -> Result<usize> {
        Interp.count(op, &self.0.fetch(value))
    }
}

impl Eager {
    fn run_kernels(
        &self,
        prim: &Prim,
        inputs: &[Strided],
        outputs: &[TensorType],
    ) -> Result<Outputs<Strided>> {
        let backend = self.0.backend;
        let operands: Vec<_> = inputs.iter().map(|input| (input.ty.dtype, input.layout.clone())).collect();
        let results: Vec<Strided> = outputs
            .iter()
            .map(|ty| Strided {
                memory: garbage(backend, ty.bytes()),
                layout: Layout::contiguous(&ty.shape),
                ty: ty.clone(),
                bytes: ty.bytes(),
            })
            .collect();
        let all: Vec<&Strided> = inputs.iter().chain(&results).collect();
        for kernel in single(prim, &operands)? {
            let place = |buffer: u32| MemRef { memory: &*all[buffer as usize].memory, offset: 0 };
            let prepared = backend.prepare(&kernel)?;
            let bytes = prepared.scratch();
            assert_eq!(bytes, backend.requirements(&kernel).scratch, "scratch of {}", prim.name());
            let scratch = garbage(backend, bytes);
            prepared.run(
                &kernel.inputs.iter().map(|o| place(o.buffer)).collect::<Vec<_>>(),
                &kernel.outputs.iter().map(|o| place(o.buffer)).collect::<Vec<_>>(),
                MemRef { memory: &*scratch, offset: 0 },
            )?;
            read(backend, &*scratch, bytes);
        }
        Ok(results.into_iter().collect())
    }
}
