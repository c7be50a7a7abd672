//! Movements of movements.

use lanthorn_ir::prim::Movement;
use lanthorn_ir::{Dims, Prim};
use smallvec::SmallVec;

use super::{Rewriter, Rule};
use crate::indexed::{IndexedNode, ValueRef};

/// Concatenations are not flattened beyond this many parts, which bounds the work for a long chain of them.
const MOST_PARTS: usize = 1024;

pub(super) const RULES: &[Rule] = &[
    Rule { name: "identity_movement", rewrite: identity },
    Rule { name: "reshape", rewrite: reshape },
    Rule { name: "permute", rewrite: permute },
    Rule { name: "broadcast", rewrite: broadcast },
    Rule { name: "flip", rewrite: flip },
    Rule { name: "slice_of_slice", rewrite: slice_of_slice },
    Rule { name: "slice_of_concat", rewrite: slice_of_concat },
    Rule { name: "concat", rewrite: concat },
];

fn movement(node: &IndexedNode) -> Option<(&Movement, ValueRef)> {
    match &node.prim {
        Prim::Movement(movement) => Some((movement, *node.inputs.first()?)),
        _ => None,
    }
}

/// A movement that leaves everything where it is.
fn identity(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (movement, x) = movement(node)?;
    if node.inputs.len() != 1 || node.types[0] != *r.ty(x) {
        return None;
    }
    let shape = &r.ty(x).shape;
    let stays = match movement {
        Movement::Permute { axes } => axes.iter().enumerate().all(|(i, &axis)| i == axis),
        Movement::Flip { axes } => axes.iter().all(|&axis| shape[axis] <= 1),
        // Of a shape that stays only the whole is a slice, unless nothing is there.
        _ => true,
    };
    stays.then_some(x)
}

/// A reshape of a reshape.
fn reshape(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Movement::Reshape { shape }, x) = movement(node)? else { return None };
    let (Movement::Reshape { .. }, &[source]) = r.movement(x)? else { return None };
    r.move_by(Movement::Reshape { shape: shape.clone() }, source)
}

/// A permutation of a permutation, and one that moves only axes of size 1 (a reshape).
fn permute(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Movement::Permute { axes }, x) = movement(node)? else { return None };
    let shape = &r.ty(x).shape;
    let long = || axes.iter().filter(|&&axis| shape[axis] != 1);
    if long().zip(long().skip(1)).all(|(a, b)| a < b) {
        return r.move_by(Movement::Reshape { shape: node.types[0].shape.clone() }, x);
    }
    let (Movement::Permute { axes: inner }, &[source]) = r.movement(x)? else { return None };
    let axes: Dims = axes.iter().map(|&axis| inner[axis]).collect();
    r.move_by(Movement::Permute { axes }, source)
}

/// A broadcast of a broadcast, or of a reshape that only adds leading axes or has a single element.
fn broadcast(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Movement::Broadcast { shape }, x) = movement(node)? else { return None };
    let again = Movement::Broadcast { shape: shape.clone() };
    if r.ty(x).numel() == 1 && r.ty(x).rank() > 0 {
        let scalar = r.move_by(Movement::Reshape { shape: Dims::new() }, x)?;
        return r.move_by(again, scalar);
    }
    let (movement, &[source]) = r.movement(x)? else { return None };
    let same = match movement {
        Movement::Broadcast { .. } => true,
        Movement::Reshape { shape: to } => {
            let from = &r.ty(source).shape;
            to.len() > from.len() && to.ends_with(from) && to[..to.len() - from.len()].iter().all(|&d| d == 1)
        }
        _ => false,
    };
    if same { r.move_by(again, source) } else { None }
}

/// A flip of a flip.
fn flip(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Movement::Flip { axes }, x) = movement(node)? else { return None };
    let (Movement::Flip { axes: inner }, &[source]) = r.movement(x)? else { return None };
    let twice = |axis: &usize| inner.iter().chain(axes).filter(|&other| other == axis).count() % 2 == 1;
    let axes: Dims = (0..node.types[0].rank()).filter(twice).collect();
    r.move_by(Movement::Flip { axes }, source)
}

/// A slice of a slice.
fn slice_of_slice(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Movement::Slice { starts, steps, .. }, x) = movement(node)? else { return None };
    let (Movement::Slice { starts: first, steps: stride, .. }, &[source]) = r.movement(x)? else {
        return None;
    };
    let shape = &node.types[0].shape;
    if shape.contains(&0) {
        return None;
    }
    let rank = shape.len();
    let starts: Dims = (0..rank).map(|a| first[a] + starts[a] * stride[a]).collect();
    let steps: Dims = (0..rank).map(|a| steps[a] * stride[a]).collect();
    let stops: Dims = (0..rank).map(|a| starts[a] + (shape[a] - 1) * steps[a] + 1).collect();
    r.move_by(Movement::Slice { starts, stops, steps }, source)
}

/// A slice that lies within one part of a concatenation.
fn slice_of_concat(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let (Movement::Slice { starts, stops, steps }, x) = movement(node)? else { return None };
    let (Movement::Concat { axis }, parts) = r.movement(x)? else { return None };
    let axis = *axis;
    let mut begin = 0;
    for &part in parts {
        let end = begin + r.ty(part).shape[axis];
        if begin <= starts[axis] && stops[axis] <= end && starts[axis] < stops[axis] {
            let (mut starts, mut stops) = (starts.clone(), stops.clone());
            starts[axis] -= begin;
            stops[axis] -= begin;
            return r.move_by(Movement::Slice { starts, stops, steps: steps.clone() }, part);
        }
        begin = end;
    }
    None
}

/// A concatenation of one part, of nothing, of concatenations, or of neighbouring slices of one value.
fn concat(r: &mut Rewriter, node: &IndexedNode) -> Option<ValueRef> {
    let Prim::Movement(Movement::Concat { axis }) = &node.prim else { return None };
    let axis = *axis;
    let mut parts: SmallVec<[ValueRef; 4]> = SmallVec::new();
    for &part in &node.inputs {
        if r.ty(part).shape[axis] == 0 && node.inputs.len() > 1 {
            continue;
        }
        let inner: SmallVec<[ValueRef; 4]> = match r.movement(part) {
            Some((Movement::Concat { axis: inner }, inner_parts))
                if *inner == axis && parts.len() + inner_parts.len() < MOST_PARTS =>
            {
                inner_parts.into()
            }
            _ => SmallVec::from_slice(&[part]),
        };
        for part in inner {
            match parts.last().and_then(|&last| joined(r, last, part, axis)) {
                Some(whole) => *parts.last_mut()? = whole,
                None => parts.push(part),
            }
        }
    }
    match parts[..] {
        [] => node.inputs.first().copied(),
        [part] => Some(part),
        _ if parts[..] == node.inputs[..] => None,
        _ => r.apply(node.prim.clone(), &parts),
    }
}

/// The slice that two slices of one value make together along `axis`.
fn joined(r: &mut Rewriter, left: ValueRef, right: ValueRef, axis: usize) -> Option<ValueRef> {
    let (Movement::Slice { starts, stops, steps }, &[source]) = r.movement(left)? else { return None };
    let (Movement::Slice { starts: next, stops: end, steps: stride }, &[other]) = r.movement(right)? else {
        return None;
    };
    let aligned = (0..starts.len()).all(|a| a == axis || (starts[a] == next[a] && stops[a] == end[a]));
    let meets = steps[axis] == 1 && stops[axis] == next[axis];
    if source != other || steps != stride || !aligned || !meets {
        return None;
    }
    let whole = Movement::Slice { starts: starts.clone(), stops: end.clone(), steps: steps.clone() };
    r.move_by(whole, source)
}
