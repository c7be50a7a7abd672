//! Scaled dot-product attention and its backward.
//!
//! Layout is `[batch, seq, heads, head_dim]`, so that projections need no copy on either side; the op
//! `scaled_dot_product_attention` takes `[batch, heads, seq, head_dim]` and passes views. Grouped heads:
//! query head `h` reads key head `h / (heads / kv_heads)`.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::grouped::{Grouped, Masks};
use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_float, expect_same_dtype,
    expect_shape,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};

/// Attention without a score matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Attention {
    /// `(q [b, tq, h, d], k [b, tk, hk, d], v [b, tk, hk, d], past: i64[]?) -> (o [b, tq, h, d], lse [b, tq, h])`
    /// with `o = softmax(scale * q k^T) v`. `lse` is the log-sum-exp of the scaled scores, in the wide type.
    ///
    /// With `past`, only the first `past + tq` keys are valid (the rest of the cache is not read) and query
    /// `i` stands at position `past + i`. With `causal`, query at position `p` sees keys `0..=p`; without
    /// `past` the last query stands at the last key: `p = i + tk - tq`. A query that sees no key gives
    /// `o = 0`, `lse = -inf`.
    Forward { causal: bool, scale: F64, past: bool },
    /// `(q, k, v, o, lse, do, past: i64[]?) -> (dq, dk, dv)`.
    Grad { causal: bool, scale: F64, past: bool },
}

impl Rules for Attention {
    fn name(&self) -> &'static str {
        match self {
            Attention::Forward { .. } => "attention",
            Attention::Grad { .. } => "attention_grad",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        let (tensors, past) = match self {
            Attention::Forward { past, .. } => (3, *past),
            Attention::Grad { past, .. } => (6, *past),
        };
        expect_arity(name, inputs, tensors + past as usize)?;
        let (q, k, v) = (inputs[0], inputs[1], inputs[2]);
        expect_float(name, "q", q)?;
        expect_same_dtype(name, q, "k", k)?;
        expect_same_dtype(name, q, "v", v)?;
        let fits = q.rank() == 4
            && k.rank() == 4
            && k.shape == v.shape
            && q.shape[0] == k.shape[0]
            && q.shape[3] == k.shape[3]
            && (k.shape[2] == q.shape[2] || (k.shape[2] > 0 && q.shape[2] % k.shape[2] == 0));
        if !fits {
            return Err(Error::shape(
                name,
                format!(
                    "q {}, k {}, v {} do not fit; expected [batch, seq, heads, head_dim] with key heads dividing query heads",
                    ShowShape(&q.shape),
                    ShowShape(&k.shape),
                    ShowShape(&v.shape)
                ),
            ));
        }
        if past {
            let ty = inputs[tensors];
            if ty.rank() != 0 || !ty.dtype.is_int() {
                return Err(Error::shape(name, format!("past is {ty}, expected an integer of rank 0")));
            }
        }
        let lse = TensorType::new(q.dtype.wide(), &q.shape[..3]);
        match self {
            Attention::Forward { .. } => Ok(smallvec![q.clone(), lse]),
            Attention::Grad { .. } => {
                expect_shape(name, "o", inputs[3], &q.shape)?;
                expect_shape(name, "lse", inputs[4], &lse.shape)?;
                expect_shape(name, "the cotangent", inputs[5], &q.shape)?;
                Ok(smallvec![q.clone(), k.clone(), v.clone()])
            }
        }
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let prim = Prim::Attention(*self);
        match (*self, cotangents) {
            (Attention::Forward { causal, scale, past }, [Some(t), None]) => {
                let tensors = &at.inputs[..3];
                let mut operands = tensors.to_vec();
                operands.extend([at.outputs[0].clone(), at.outputs[1].clone(), t.clone()]);
                operands.extend_from_slice(&at.inputs[3..]);
                let grads = b.apply(Prim::Attention(Attention::Grad { causal, scale, past }), &operands)?;
                let mut found: Optional<B::Value> = grads.into_iter().map(Some).collect();
                found.resize(at.inputs.len(), None);
                Ok(found)
            }
            // A cotangent of the log-sum-exp comes from second derivatives only.
            (Attention::Forward { .. } | Attention::Grad { .. }, _) => {
                derived::vjp_through(b, &derived::decomposition(b, &prim, at.inputs)?, at, cotangents)
            }
        }
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let graph = derived::decomposition(b, &Prim::Attention(*self), at.inputs)?;
        derived::jvp_through(b, &graph, at.inputs, tangents)
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let prim = Prim::Attention(*self);
        let (tensors, past) = match self {
            Attention::Forward { past, .. } => (3, *past),
            Attention::Grad { past, .. } => (6, *past),
        };
        if past && inputs[tensors].mapped {
            return derived::batch_decomposed(b, &prim, size, inputs);
        }
        let mut operands = Vec::with_capacity(inputs.len());
        let mut batch = 0;
        for input in &inputs[..tensors] {
            let whole = derived::mapped(b, size, input)?;
            batch = b.ty(&whole).shape[1];
            operands.push(derived::fold_axis(b, &whole)?);
        }
        operands.extend(inputs[tensors..].iter().map(|input| input.value.clone()));
        let outputs = b.apply(prim, &operands)?;
        let outputs = outputs.iter().map(|output| derived::unfold_axis(b, output, size, batch));
        Ok(derived::with_axis(outputs.collect::<Result<Vec<_>>>()?))
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let (causal, scale, past) = match *self {
            Attention::Forward { causal, scale, past } => (causal, scale.0, past.then(|| &inputs[3])),
            Attention::Grad { causal, scale, past } => (causal, scale.0, past.then(|| &inputs[6])),
        };
        let grouped = Grouped::of(b, &inputs[0], &inputs[1]);
        let masks = Masks::new(b, &grouped, causal, past)?;
        let k = grouped.keys(&masks.clear_unread(&inputs[1])?)?;
        let v = grouped.keys(&masks.clear_unread(&inputs[2])?)?;
        let q = grouped.queries(&inputs[0])?;
        let scores = grouped.scores(&q, &k, scale)?;
        Ok(Some(match self {
            Attention::Forward { .. } => grouped.forward(&masks, &scores, &v)?,
            Attention::Grad { .. } => {
                let o = grouped.queries(&inputs[3])?;
                let lse = grouped.statistics(&inputs[4])?;
                let t = grouped.queries(&inputs[5])?;
                grouped.backward(&masks, scale, &scores, [&q, &k, &v, &o, &lse, &t])?
            }
        }))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
