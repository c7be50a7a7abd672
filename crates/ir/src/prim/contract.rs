//! Contractions: the batched matrix product.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity, expect_float, expect_same_dtype};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};

/// Sums of products.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Contract {
    /// `[batch.., m, k] x [batch.., k, n] -> [batch.., m, n]`, equal batch axes, accumulated in the wide
    /// type and rounded once to `out`.
    MatMul { out: DType },
}

impl Rules for Contract {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let Contract::MatMul { out } = self;
        expect_arity("matmul", inputs, 2)?;
        let (a, b) = (inputs[0], inputs[1]);
        expect_float("matmul", "the first operand", a)?;
        expect_same_dtype("matmul", a, "the second operand", b)?;
        if !out.is_float() {
            return Err(Error::dtype("matmul", format!("the result cannot be {out}")));
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
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn jvp<B: Builder>(
        &self,
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn batch<B: Builder>(&self, _: &B, _: usize, _: &[Batched<B::Value>]) -> Result<Vec<Batched<B::Value>>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
