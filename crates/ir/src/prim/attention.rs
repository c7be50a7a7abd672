//! Scaled dot-product attention and its backward.
//!
//! Layout is `[batch, seq, heads, head_dim]`, so that projections need no copy on either side; the op
//! `scaled_dot_product_attention` takes `[batch, heads, seq, head_dim]` and passes views. Grouped heads:
//! query head `h` reads key head `h / (heads / kv_heads)`.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::grouped::{Grouped, Masks};
use super::{
    Applied, Batched, Optional, Prim, ReduceOp, Rules, Types, derived, expect_arity, expect_finite,
    expect_float, expect_same_dtype, expect_shape,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};
use crate::ops;

/// Where the queries stand among the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Position {
    /// Query `i` stands at key `i`.
    First,
    /// The last query stands at the last key: query `i` at key `i + tk - tq`.
    #[default]
    Last,
    /// Query `i` stands at key `past + i`, an operand; only the first `past + tq` keys are valid, and the rest of
    /// the cache is not read.
    Past,
}

/// What a mask operand holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mask {
    /// `bool`, true where the query sees the key.
    Visible,
    /// Numbers added to the scaled scores, of the queries' dtype or its wide type; -inf hides a key.
    Additive,
}

/// What one attention computes, apart from its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attend {
    /// Factor of `q k^T`.
    pub scale: F64,
    /// A query sees no key after its own position.
    pub causal: bool,
    pub position: Position,
    /// A query at position `p` sees keys from `p - left` on.
    pub left: Option<usize>,
    /// A query at position `p` sees keys up to `p + right`.
    pub right: Option<usize>,
    /// Scaled scores `x` become `cap * tanh(x / cap)` before any mask (Gemma Team 2024, section 2).
    pub softcap: Option<F64>,
    pub mask: Option<Mask>,
}

impl Attend {
    /// Attention to all keys.
    pub fn new(scale: f64) -> Self {
        Attend {
            scale: F64(scale),
            causal: false,
            position: Position::Last,
            left: None,
            right: None,
            softcap: None,
            mask: None,
        }
    }

    /// True if an operand says how many keys stand before the queries.
    pub fn has_past(&self) -> bool {
        self.position == Position::Past
    }

    /// How many operands follow those that carry heads.
    fn extras(&self) -> usize {
        usize::from(self.has_past()) + usize::from(self.mask.is_some())
    }
}

/// Attention without a score matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Attention {
    /// `(q [b, tq, h, d], k [b, tk, hk, d], v [b, tk, hk, dv], past: i64[]?, mask?)
    /// -> (o [b, tq, h, dv], lse [b, tq, h])` with `o = softmax(scale * q k^T) v`. `lse` is the log-sum-exp of the
    /// scores as they go into the softmax, in the wide type.
    ///
    /// `past` is an operand under [`Position::Past`]. The mask has rank 4 and broadcasts to `[b, h, tq, tk]`. A
    /// query that sees no key gives `o = 0`, `lse = -inf`.
    Forward(Attend),
    /// `(q, k, v, o, lse, do, past?, mask?) -> (dq, dk, dv, dmask?)`; `dmask` where `mask_grad`, of an additive
    /// mask.
    Grad { attend: Attend, mask_grad: bool },
}

impl Attention {
    /// What is computed, in either direction.
    pub fn attend(&self) -> &Attend {
        match self {
            Attention::Forward(attend) | Attention::Grad { attend, .. } => attend,
        }
    }

    /// The number of operands that carry heads.
    fn tensors(&self) -> usize {
        match self {
            Attention::Forward(_) => 3,
            Attention::Grad { .. } => 6,
        }
    }

    fn past<'a, V>(&self, inputs: &'a [V]) -> Option<&'a V> {
        self.attend().has_past().then(|| inputs.get(self.tensors())).flatten()
    }

    /// The place of the mask among the operands.
    fn mask_at(&self) -> Option<usize> {
        let attend = self.attend();
        attend.mask.map(|_| self.tensors() + usize::from(attend.has_past()))
    }

    fn mask<'a, V>(&self, inputs: &'a [V]) -> Option<&'a V> {
        self.mask_at().and_then(|at| inputs.get(at))
    }

    fn infer_extras(&self, inputs: &[&TensorType]) -> Result<()> {
        let name = self.name();
        let wide = inputs[0].dtype.wide();
        expect_finite(name, "the scale", self.attend().scale.0, wide)?;
        if let Some(cap) = self.attend().softcap {
            expect_finite(name, "the soft cap", cap.0, wide)?;
            // What rounds to 0 would divide by it.
            if wide.round(cap.0) <= 0.0 {
                let found = cap.0;
                return Err(Error::shape(
                    name,
                    format!("the soft cap is {found:?}, expected a positive number"),
                ));
            }
        }
        if let Some(ty) = self.past(inputs).filter(|ty| ty.rank() != 0 || !ty.dtype.is_int()) {
            return Err(Error::shape(name, format!("past is {ty}, expected an integer of rank 0")));
        }
        let (Some(kind), Some(mask)) = (self.attend().mask, self.mask(inputs)) else { return Ok(()) };
        let (q, k) = (inputs[0], inputs[1]);
        let is_kind = match kind {
            Mask::Visible => mask.dtype == DType::Bool,
            Mask::Additive => mask.dtype == q.dtype || mask.dtype == q.dtype.wide(),
        };
        if !is_kind {
            return Err(Error::dtype(
                name,
                format!("the mask is {}, expected bool or the dtype of q, {}; cast it", mask.dtype, q.dtype),
            ));
        }
        let full = [q.shape[0], q.shape[2], q.shape[1], k.shape[1]];
        let fits = mask.rank() == 4 && mask.shape.iter().zip(full).all(|(&m, full)| m == full || m == 1);
        if !fits {
            return Err(Error::shape(
                name,
                format!(
                    "the mask {} does not broadcast to [batch, heads, queries, keys], here {}",
                    ShowShape(&mask.shape),
                    ShowShape(&full)
                ),
            ));
        }
        Ok(())
    }
}

/// The probabilities of `(q, k, past?, mask?)`, `[b, h, tq, tk]` in the wide type, for what an op does between softmax
/// and values. A query that sees no key has zeros.
pub(crate) fn probabilities<B: Builder>(
    b: &B,
    attend: &Attend,
    q: &B::Value,
    k: &B::Value,
    past: Option<&B::Value>,
    mask: Option<&B::Value>,
) -> Result<B::Value> {
    let grouped = Grouped::of(b, q, k);
    let masks = Masks::new(b, &grouped, attend, past, mask)?;
    let (q, k) = (grouped.queries(q)?, grouped.keys(&masks.clear_unread(k)?)?);
    let (p, _) = grouped.probabilities(&masks, &grouped.scores(&q, &k, attend)?)?;
    grouped.by_head(&p)
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
        expect_arity(name, inputs, self.tensors() + self.attend().extras())?;
        let (q, k, v) = (inputs[0], inputs[1], inputs[2]);
        expect_float(name, "q", q)?;
        expect_same_dtype(name, q, "k", k)?;
        expect_same_dtype(name, q, "v", v)?;
        let fits = q.rank() == 4
            && k.rank() == 4
            && v.rank() == 4
            && k.shape[..3] == v.shape[..3]
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
        self.infer_extras(inputs)?;
        let mut out = q.clone();
        out.shape[3] = v.shape[3];
        let lse = TensorType::new(q.dtype.wide(), &q.shape[..3]);
        match self {
            Attention::Forward(_) => Ok(smallvec![out, lse]),
            Attention::Grad { mask_grad, .. } => {
                expect_shape(name, "o", inputs[3], &out.shape)?;
                expect_shape(name, "lse", inputs[4], &lse.shape)?;
                expect_shape(name, "the cotangent", inputs[5], &out.shape)?;
                expect_same_dtype(name, q, "o", inputs[3])?;
                expect_same_dtype(name, q, "the cotangent", inputs[5])?;
                let mut types: Types = smallvec![q.clone(), k.clone(), v.clone()];
                if *mask_grad {
                    let additive = self.attend().mask == Some(Mask::Additive);
                    match self.mask(inputs).filter(|_| additive) {
                        Some(mask) => types.push((*mask).clone()),
                        None => return Err(Error::unsupported(name, "only an additive mask has a gradient")),
                    }
                }
                Ok(types)
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
            (Attention::Forward(attend), [Some(t), None]) => {
                let mask_at =
                    self.mask_at().filter(|&at_| attend.mask == Some(Mask::Additive) && at.wants(at_));
                let mut operands = at.inputs[..3].to_vec();
                operands.extend([at.outputs[0].clone(), at.outputs[1].clone(), t.clone()]);
                operands.extend_from_slice(&at.inputs[3..]);
                let grad = Attention::Grad { attend, mask_grad: mask_at.is_some() };
                let mut grads = b.apply(Prim::Attention(grad), &operands)?.into_iter();
                let mut found = at.no_cotangents();
                for cotangent in found.iter_mut().take(3) {
                    *cotangent = grads.next();
                }
                if let Some(mask_at) = mask_at {
                    found[mask_at] = grads.next();
                }
                Ok(found)
            }
            // A cotangent of the log-sum-exp comes from second derivatives only.
            (Attention::Forward(_) | Attention::Grad { .. }, _) => {
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
        let tensors = self.tensors();
        if self.past(inputs).is_some_and(|past| past.mapped) {
            return derived::batch_decomposed(b, &Prim::Attention(*self), size, inputs);
        }
        let mut operands = Vec::with_capacity(inputs.len());
        let mut batch = 0;
        for input in &inputs[..tensors] {
            let whole = derived::mapped(b, size, input)?;
            batch = b.ty(&whole).shape[1];
            operands.push(derived::fold_axis(b, &whole)?);
        }
        operands.extend(self.past(inputs).map(|past| past.value.clone()));
        let mask_grad = matches!(self, Attention::Grad { mask_grad: true, .. });
        let mut shared_mask = false;
        if let Some(mask) = self.mask(inputs) {
            // A mask that all share stays one, unless each element wants its gradient.
            let per_element = &b.ty(&mask.value).shape[usize::from(mask.mapped)..];
            shared_mask = per_element[0] == 1 && batch != 1;
            if !mask.mapped && per_element[0] == 1 && !mask_grad {
                operands.push(mask.value.clone());
            } else {
                let mut full = Dims::from_slice(&[size, batch]);
                full.extend_from_slice(&per_element[1..]);
                let whole = ops::broadcast_to(b, &derived::mapped(b, size, mask)?, &full)?;
                operands.push(derived::fold_axis(b, &whole)?);
            }
        }
        let outputs = b.apply(Prim::Attention(*self), &operands)?;
        let outputs = outputs.iter().map(|output| derived::unfold_axis(b, output, size, batch));
        let mut outputs = outputs.collect::<Result<Vec<_>>>()?;
        if let (true, true, Some(dmask)) = (mask_grad, shared_mask, outputs.last_mut()) {
            *dmask = ops::fold(b, ReduceOp::Sum, dmask, &[1])?;
        }
        Ok(derived::with_axis(outputs))
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        let attend = self.attend();
        let grouped = Grouped::of(b, &inputs[0], &inputs[1]);
        let masks = Masks::new(b, &grouped, attend, self.past(inputs), self.mask(inputs))?;
        let k = grouped.keys(&masks.clear_unread(&inputs[1])?)?;
        let v = grouped.keys(&masks.clear_unread(&inputs[2])?)?;
        let q = grouped.queries(&inputs[0])?;
        let scores = grouped.scores(&q, &k, attend)?;
        Ok(Some(match self {
            Attention::Forward(_) => grouped.forward(&masks, &scores, &v)?,
            Attention::Grad { mask_grad, .. } => {
                let o = grouped.queries(&inputs[3])?;
                let lse = grouped.statistics(&inputs[4])?;
                let t = grouped.queries(&inputs[5])?;
                let wanted = self.mask(inputs).filter(|_| *mask_grad);
                grouped.backward(&masks, attend, wanted, &scores, [&q, &k, &v, &o, &lse, &t])?
            }
        }))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
