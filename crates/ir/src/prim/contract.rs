//! Contractions: the batched matrix product.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_number, expect_same_dtype,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};
use crate::ops;

/// Sums of products.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Contract {
    /// `[batch.., m, k] x [batch.., k, n] -> [batch.., m, n]`, equal batch axes. Floats accumulate in the wide type
    /// and round once to `out`, a float; integers are exact and wrap to `out`, an integer.
    MatMul { out: DType },
}

/// What the sums of a matrix product are held in, as its epilogue sees them: the wide type of float operands, the
/// result's own dtype for integers, which wrap to it anyhow.
pub const fn accumulator(operands: DType, out: DType) -> DType {
    if operands.is_float() { operands.wide() } else { out }
}

impl Rules for Contract {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let Contract::MatMul { out } = self;
        expect_arity("matmul", inputs, 2)?;
        let (a, b) = (inputs[0], inputs[1]);
        expect_number("matmul", "the first operand", a)?;
        expect_same_dtype("matmul", a, "the second operand", b)?;
        if a.dtype.is_float() != out.is_float() || !out.is_number() {
            return Err(Error::dtype("matmul", format!("a product of {} cannot be {out}", a.dtype)));
        }
        let rank = a.rank();
        let fits = rank >= 2
            && b.rank() == rank
            && a.shape[..rank - 2] == b.shape[..rank - 2]
            && a.shape[rank - 1] == b.shape[rank - 2];
        if !fits {
            return Err(Error::shape(
                "matmul",
                format!(
                    "shapes {} and {} do not multiply; expected [.., m, k] and [.., k, n]",
                    ShowShape(&a.shape),
                    ShowShape(&b.shape)
                ),
            ));
        }
        let mut shape = a.shape.clone();
        shape[rank - 1] = b.shape[rank - 1];
        Ok(smallvec![TensorType { dtype: *out, shape }])
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        let (x, y) = (&at.inputs[0], &at.inputs[1]);
        let out = b.ty(x).dtype;
        if !out.is_float() {
            return Ok(at.no_cotangents());
        }
        let t = ops::cast(b, t, out)?;
        let product = |x: &B::Value, y: &B::Value| -> Result<Option<B::Value>> {
            b.apply1(Prim::Contract(Contract::MatMul { out }), &[x.clone(), y.clone()]).map(Some)
        };
        let dx = if at.wants(0) { product(&t, &ops::transpose(b, y, -1, -2)?)? } else { None };
        let dy = if at.wants(1) { product(&ops::transpose(b, x, -1, -2)?, &t)? } else { None };
        Ok(vec![dx, dy])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let product = |x: &B::Value, y: &B::Value| {
            b.apply1(Prim::Contract(self.clone()), &[x.clone(), y.clone()]).map(Some)
        };
        let left = tangents[0].as_ref().map_or(Ok(None), |t| product(t, &at.inputs[1]))?;
        let right = tangents[1].as_ref().map_or(Ok(None), |t| product(&at.inputs[0], t))?;
        Ok(vec![derived::add_optional(b, left, right)?])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let prim = Prim::Contract(self.clone());
        let (x, y) = (&inputs[0], &inputs[1]);
        if x.mapped && !y.mapped && b.ty(&y.value).rank() == 2 {
            // One matrix on the right: the new axis folds into the rows.
            let rows = b.ty(&x.value).shape[1];
            let folded = derived::fold_axis(b, &x.value)?;
            let product = b.apply1(prim, &[folded, y.value.clone()])?;
            return Ok(derived::with_axis([derived::unfold_axis(b, &product, size, rows)?]));
        }
        let operands = derived::all_mapped(b, size, inputs)?;
        Ok(derived::with_axis(b.apply(prim, &operands)?))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
