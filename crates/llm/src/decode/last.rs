//! The row of the last token alone, taken before whatever treats every token alike, such as the map to the logits.

use std::sync::Arc;

use lanthorn_ir::prim::{Contract, Control, Movement, Norm, Quantized, Reduce};
use lanthorn_ir::transform::vmap_graph;
use lanthorn_ir::{Builder, Error, Lazy, Node, Prim, Result, TensorType, Value, ops};
use lanthorn_nn::last_rows;

use super::rows::Analysis;

/// A root, and where its last row is taken.
pub(super) struct LastRow {
    /// The value whose last row is taken.
    pub cut: Value,
    /// What leads from there to the root, in order, with the operand that has the tokens.
    chain: Vec<(Arc<Node>, usize)>,
}

impl LastRow {
    /// Goes up from `root` as long as that is easy.
    pub fn of(analysis: &Analysis, root: &Value) -> LastRow {
        let (mut cut, mut chain) = (root.clone(), Vec::new());
        while let Some(at) = shrinks(analysis, &cut) {
            let node = cut.node().clone();
            cut = node.inputs()[at].clone();
            chain.push((node, at));
        }
        chain.reverse();
        LastRow { cut, chain }
    }

    /// The root's row from `whole`, which is the cut of a batch of sequences; the row is `last[s]` of sequence `s`. The
    /// axis of the tokens is of size 1.
    pub fn take(&self, analysis: &Analysis, whole: &Value, last: &Value, batch: usize) -> Result<Value> {
        let lost = || Error::unsupported("decode", "a result has no axis of its own for the tokens");
        let axis = analysis.own_axis(&self.cut).ok_or_else(lost)?;
        let row = one_row(whole, axis + 1, last)?;
        let mut ty = self.cut.ty().clone();
        ty.shape[axis] = 1;
        let element = Value::leaf(ty)?;
        let mut value = element.clone();
        for (node, at) in &self.chain {
            let axis = analysis.own_axis(&node.inputs()[*at]).ok_or_else(lost)?;
            let mut inputs = Vec::with_capacity(node.inputs().len());
            for (place, input) in node.inputs().iter().enumerate() {
                inputs.push(match place == *at {
                    true => value.clone(),
                    false => of_one_row(node.prim(), input, axis)?,
                });
            }
            let output = Node::outputs(node).into_iter().next().ok_or_else(lost)?;
            let to = analysis.own_axis(&output).ok_or_else(lost)?;
            let outputs = Lazy.apply(for_one_row(node.prim(), axis, to), &inputs)?;
            value = outputs.into_iter().next().ok_or_else(lost)?;
        }
        let mut rows = vmap_graph(&[value], &[(element, row)], batch)?;
        rows.pop().ok_or_else(lost)
    }
}

/// The operand of `value`'s node with the tokens, where the node can be applied to a row of it alone.
fn shrinks(analysis: &Analysis, value: &Value) -> Option<usize> {
    let node = value.node();
    let of_tokens = |at: &usize| analysis.is_of_tokens(&node.inputs()[*at]);
    let mut operands = (0..node.inputs().len()).filter(of_tokens);
    let (at, None) = (operands.next()?, operands.next()) else { return None };
    let axis = analysis.own_axis(&node.inputs()[at])?;
    analysis.own_axis(value)?;
    let rank = node.inputs()[at].ty().rank();
    let is_easy = match node.prim() {
        Prim::Elementwise(_)
        | Prim::Norm(Norm::Softmax | Norm::LogSoftmax | Norm::LayerNorm { .. } | Norm::RmsNorm { .. })
        | Prim::Quantized(Quantized::Linear(_) | Quantized::Dequantize(_))
        | Prim::Control(Control::StopGradient)
        | Prim::Reduce(Reduce::Fold { .. })
        | Prim::Movement(
            Movement::Reshape { .. }
            | Movement::Permute { .. }
            | Movement::Broadcast { .. }
            | Movement::Slice { .. },
        ) => true,
        Prim::Contract(Contract::MatMul { .. }) => at == 0 && axis + 2 == rank,
        _ => false,
    };
    (is_easy && value.index() == 0).then_some(at)
}

/// The primitive where `axis` of its operand and `to` of its result are of size 1.
fn for_one_row(prim: &Prim, axis: usize, to: usize) -> Prim {
    let mut prim = prim.clone();
    match &mut prim {
        Prim::Movement(Movement::Reshape { shape } | Movement::Broadcast { shape }) => shape[to] = 1,
        Prim::Movement(Movement::Slice { stops, .. }) => stops[axis] = 1,
        _ => {}
    }
    prim
}

/// An operand without tokens for the row alone: it is equal along the axis.
fn of_one_row(prim: &Prim, operand: &Value, axis: usize) -> Result<Value> {
    if !matches!(prim, Prim::Elementwise(_)) || operand.ty().shape[axis] == 1 {
        return Ok(operand.clone());
    }
    ops::narrow(&Lazy, operand, axis as isize, 0, 1)
}

/// Index `last[s]` on `axis` of `x [batch, ..]` for each sequence `s`, where `axis` is then of size 1.
fn one_row(x: &Value, axis: usize, last: &Value) -> Result<Value> {
    let b = &Lazy;
    let front = ops::move_axis(b, x, axis as isize, 1)?;
    let mut shape = front.ty().shape.clone();
    let width = shape[2..].iter().product();
    let rows = shaped(&front, &[shape[0], shape[1], width])?;
    let taken = last_rows(b, &rows, last)?;
    shape[1] = 1;
    ops::move_axis(b, &shaped(&taken, &shape)?, 1, axis as isize)
}

/// `x [batch, ..]` of roots of type `root`, without the axis `without` of size 1 and without the leading one of the one
/// sequence for which the root was traced.
pub(super) fn of_sequences(
    x: &Value,
    root: &TensorType,
    rows: Option<usize>,
    without: bool,
) -> Result<Value> {
    let mut shape = x.ty().shape.clone();
    if let (Some(axis), true) = (rows, without) {
        shape.remove(axis + 1);
    }
    let is_sequence = root.shape.first() == Some(&1) && rows != Some(0);
    if is_sequence && shape.len() > 1 {
        shape.remove(1);
    }
    shaped(x, &shape)
}

fn shaped(x: &Value, shape: &[usize]) -> Result<Value> {
    let shape: Vec<isize> = shape.iter().map(|&size| size as isize).collect();
    ops::reshape(&Lazy, x, &shape)
}
