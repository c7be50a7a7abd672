//! Puts every primitive into terms that the backend runs: what it has no kernel for is decomposed.

use std::cell::Cell;
use std::sync::Arc;

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::expr::{KernelExpr, Step};
use lanthorn_ir::prim::complex::{real_form, real_movements};
use lanthorn_ir::prim::{Control, Elementwise, Movement, Source};
use lanthorn_ir::{Builder, Error, Prim, Result, TensorType};
use smallvec::SmallVec;

use crate::backend::{Backend, Support};
use crate::builder::{IndexedBuilder, IndexedValue};
use crate::indexed::Indexed;

/// Decompositions within decompositions; more means that two of them name each other.
const MAX_DEPTH: usize = 64;

/// The same program in primitives that `backend` supports. Checkpoints give way to their bodies; barriers
/// stay, for they order kernels.
pub fn legalize(backend: &dyn Backend, indexed: &Indexed) -> Result<Indexed> {
    let b = Legalizer { backend, table: IndexedBuilder::default(), depth: Cell::new(0) };
    let mut values: Vec<Outputs<IndexedValue>> = Vec::with_capacity(indexed.nodes.len());
    let mut leaves = vec![None; indexed.nodes.len()];
    for node in &indexed.nodes {
        let inputs: SmallVec<[IndexedValue; 4]> =
            node.inputs.iter().map(|v| values[v.node as usize][v.output as usize].clone()).collect();
        let outputs = b.apply(node.prim.clone(), &inputs)?;
        if let (Prim::Source(Source::Leaf { .. }), Some(leaf)) = (&node.prim, outputs.first()) {
            leaves[values.len()] = Some(leaf.at.node);
        }
        values.push(outputs);
    }
    let inputs = indexed.inputs.iter().filter_map(|&node| leaves[node as usize]).collect();
    let roots = indexed.roots.iter().map(|r| values[r.node as usize][r.output as usize].at).collect();
    Ok(b.table.finish(inputs, roots))
}

struct Legalizer<'a> {
    backend: &'a dyn Backend,
    table: IndexedBuilder,
    depth: Cell<usize>,
}

impl Builder for Legalizer<'_> {
    type Value = IndexedValue;

    fn apply(&self, prim: Prim, inputs: &[IndexedValue]) -> Result<Outputs<IndexedValue>> {
        if let Prim::Control(Control::Checkpoint { body }) = &prim {
            return self.deeper(&prim, || Ok(body.inline(self, inputs)?.into()));
        }
        // All that they say is said to derivatives.
        if matches!(prim, Prim::Control(Control::StopGradient | Control::Written)) {
            return Ok(inputs.iter().take(1).cloned().collect());
        }
        let is_complex = match &prim {
            Prim::Complex(_) => true,
            Prim::Source(Source::Leaf { ty }) => ty.dtype.is_complex(),
            _ => inputs.iter().any(|value| value.ty.dtype.is_complex()),
        };
        if is_complex {
            return self.real_form(prim, inputs);
        }
        // Moving data needs no kernel of the primitive's own.
        if matches!(prim, Prim::Source(Source::Leaf { .. } | Source::Const { .. }))
            || matches!(prim, Prim::Movement(_) | Prim::Control(Control::Barrier))
        {
            return self.table.apply(prim, inputs);
        }
        let types: SmallVec<[&TensorType; 4]> = inputs.iter().map(|value| &*value.ty).collect();
        prim.infer(&types)?;
        if prim.is_pointwise() {
            self.backend.support(&prim, &types)?;
            let outputs = prim.infer(&types)?.len();
            let too_wide = inputs.len() + outputs > self.backend.caps().region_operands;
            if too_wide && !matches!(prim, Prim::Elementwise(_)) {
                return self.expand(&prim, inputs);
            }
            return self.table.apply(prim, inputs);
        }
        match self.backend.support(&prim, &types)? {
            Support::Kernel => self.table.apply(prim, inputs),
            Support::Decompose => self.deeper(&prim, || prim.decompose_or_fail(self, inputs)),
        }
    }

    fn ty<'a>(&self, value: &'a IndexedValue) -> &'a TensorType {
        &value.ty
    }
}

impl Legalizer<'_> {
    fn deeper<T>(&self, prim: &Prim, then: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.depth.get() >= MAX_DEPTH {
            return Err(Error::unsupported(prim.name(), "its decomposition does not end"));
        }
        self.depth.set(self.depth.get() + 1);
        let result = then();
        self.depth.set(self.depth.get() - 1);
        result
    }

    /// What is done to complex values, done to their real forms, which have the same bytes: to the passes that follow,
    /// an argument or result of c64 is one of f32. Values keep their complex types while the program is translated.
    fn real_form(&self, prim: Prim, inputs: &[IndexedValue]) -> Result<Outputs<IndexedValue>> {
        let types: SmallVec<[&TensorType; 4]> = inputs.iter().map(|value| &*value.ty).collect();
        let logical = prim.infer(&types)?;
        let real: SmallVec<[IndexedValue; 4]> = inputs
            .iter()
            .map(|value| IndexedValue { at: value.at, ty: Arc::new(real_form(&value.ty)) })
            .collect();
        let rank = types.first().map_or(0, |ty| ty.rank());
        let outputs = match &prim {
            Prim::Complex(_) => Outputs::from_iter(real),
            Prim::Source(Source::Leaf { ty }) => {
                self.table.apply(Prim::Source(Source::Leaf { ty: real_form(ty) }), &[])?
            }
            Prim::Movement(movement) => {
                let mut values: Outputs<IndexedValue> = Outputs::from_iter(real);
                for movement in real_movements(movement, rank) {
                    values = self.table.apply(Prim::Movement(movement), &values)?;
                }
                values
            }
            Prim::Control(Control::Barrier) => self.table.apply(prim, &real)?,
            other => return Err(Error::dtype(other.name(), "a complex operand has no real form here")),
        };
        let typed = outputs.into_iter().zip(logical);
        Ok(typed.map(|(value, ty)| IndexedValue { at: value.at, ty: Arc::new(ty) }).collect())
    }

    /// A pointwise primitive with more operands than a region may have, step by step of its body.
    fn expand(&self, prim: &Prim, inputs: &[IndexedValue]) -> Result<Outputs<IndexedValue>> {
        let types: SmallVec<[&TensorType; 4]> = inputs.iter().map(|value| &*value.ty).collect();
        let mut expr = KernelExpr::default();
        let args: Vec<u32> =
            (types.iter().enumerate()).map(|(at, ty)| expr.push(Step::Load(at as u32), ty.dtype)).collect();
        let outputs = prim
            .body(&mut expr, &types, &args)
            .ok_or_else(|| Error::unsupported(prim.name(), "a pointwise primitive without a body"))?;
        let mut values: Vec<IndexedValue> = Vec::with_capacity(expr.steps.len());
        for (at, step) in expr.steps.iter().enumerate() {
            let dtype = expr.dtypes[at];
            let of = |step: u32| values[step as usize].clone();
            values.push(match *step {
                Step::Load(input) => self.cast(inputs[input as usize].clone(), dtype)?,
                Step::Const(value) => {
                    let scalar = self.apply1(Prim::Source(Source::Const { value, dtype }), &[])?;
                    let shape = types[0].shape.clone();
                    self.apply1(Prim::Movement(Movement::Broadcast { shape }), &[scalar])?
                }
                Step::Unary(op, a) => self.apply1(Prim::Elementwise(Elementwise::Unary(op)), &[of(a)])?,
                Step::Binary(op, a, b) => {
                    self.apply1(Prim::Elementwise(Elementwise::Binary(op)), &[of(a), of(b)])?
                }
                Step::Select(c, a, b) => {
                    self.apply1(Prim::Elementwise(Elementwise::Select), &[of(c), of(a), of(b)])?
                }
                Step::Cast(a) => self.cast(of(a), dtype)?,
                Step::Round(a, to) => self.cast(self.cast(of(a), to)?, dtype)?,
            });
        }
        let wanted = prim.infer(&types)?;
        (outputs.iter().zip(&wanted))
            .map(|(&step, ty)| self.cast(values[step as usize].clone(), ty.dtype))
            .collect()
    }

    fn cast(&self, value: IndexedValue, dtype: lanthorn_ir::DType) -> Result<IndexedValue> {
        if value.ty.dtype == dtype {
            return Ok(value);
        }
        self.apply1(Prim::Elementwise(Elementwise::Cast(dtype)), &[value])
    }
}
