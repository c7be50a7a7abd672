//! Sums of padded values that do not touch each other: the backward of slices of one value.
//!
//! `pad(a) + pad(b)` with neighbouring `a` and `b` is `pad(concat(a, b))`. Not exact in one respect:
//! `-0.0 + 0.0` is `0.0`, while the concatenation keeps `-0.0`.

use lanthorn_ir::prim::{Elementwise, Movement};
use lanthorn_ir::{Dims, Prim, expr::BinaryOp};

use super::{Rewriter, Rule};
use crate::indexed::{IndexedNode, ValueRef};

pub(super) const RULES: &[Rule] =
    &[Rule { name: "sum_of_pads", rewrite: sum_of_pads }, Rule { name: "pad_of_pad", rewrite: pad_of_pad }];

fn add(node: &Prim, inputs: &[ValueRef]) -> Option<(ValueRef, ValueRef)> {
    match (node, inputs) {
        (Prim::Elementwise(Elementwise::Binary(BinaryOp::Add)), &[x, y]) => Some((x, y)),
        _ => None,
    }
}

/// `pad(a) + pad(b)`, and `(x + pad(a)) + pad(b)` in any order of operands.
fn sum_of_pads(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (x, y) = add(&node.prim, &node.inputs)?;
    if let Some(whole) = joined(r, x, y) {
        return Some(whole);
    }
    for (sum, pad) in [(x, y), (y, x)] {
        let (prim, inputs) = r.def(sum);
        let Some((a, b)) = add(prim, inputs) else { continue };
        for (kept, other) in [(a, b), (b, a)] {
            if let Some(whole) = joined(r, other, pad) {
                return r.apply(node.prim.clone(), &[kept, whole]);
            }
        }
    }
    None
}

/// Zeros before and after a value.
struct Padded {
    value: ValueRef,
    low: Dims,
    high: Dims,
}

fn padded(r: &Rewriter, value: ValueRef) -> Option<Padded> {
    match r.movement(value)? {
        (Movement::Pad { low, high, interior }, &[value]) if interior.iter().all(|&gap| gap == 0) => {
            Some(Padded { value, low: low.clone(), high: high.clone() })
        }
        _ => None,
    }
}

/// The sum of two padded values that lie next to each other.
fn joined(r: &mut Rewriter, x: ValueRef, y: ValueRef) -> Option<ValueRef> {
    let (x, y) = (padded(r, x)?, padded(r, y)?);
    let mut differing = (0..x.low.len()).filter(|&a| x.low[a] != y.low[a] || x.high[a] != y.high[a]);
    let (axis, None) = (differing.next()?, differing.next()) else { return None };
    let (first, second) = if x.low[axis] < y.low[axis] { (x, y) } else { (y, x) };
    if first.low[axis] + r.ty(first.value).shape[axis] != second.low[axis] {
        return None;
    }
    let whole = r.apply(Prim::Movement(Movement::Concat { axis }), &[first.value, second.value])?;
    let interior = Dims::from_elem(0, first.low.len());
    r.move_by(Movement::Pad { low: first.low, high: second.high, interior }, whole)
}

/// Zeros around zeros around a value.
fn pad_of_pad(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Prim::Movement(Movement::Pad { low, high, interior }), &[x]) = (&node.prim, &node.inputs[..]) else {
        return None;
    };
    if interior.iter().any(|&gap| gap != 0) {
        return None;
    }
    let inner = padded(r, x)?;
    let sum = |a: &Dims, b: &Dims| a.iter().zip(b).map(|(a, b)| a + b).collect::<Dims>();
    let around =
        Movement::Pad { low: sum(low, &inner.low), high: sum(high, &inner.high), interior: interior.clone() };
    r.move_by(around, inner.value)
}
