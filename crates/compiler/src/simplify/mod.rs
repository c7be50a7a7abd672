//! Algebra on the indexed form: one forward pass per round over all nodes, in which each node is looked up
//! among its equals and otherwise offered to a table of local rules. A rule sees operands that are
//! already simple, so a pass is linear; a few rounds reach the fixpoint.
//!
//! A rule must be exact for NaN, infinities and signed zeros, with one stated exception (`pads`).

mod algebra;
mod constants;
mod movement;
mod pads;
mod products;

use std::hash::{Hash, Hasher};

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::prim::{Movement, Source};
use lanthorn_ir::{DType, Prim, TensorType};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::indexed::{Indexed, IndexedNode, ValueRef};

/// Rounds at most; a round that changes nothing ends it earlier.
const MAX_ROUNDS: usize = 4;

/// A local rule: what a single-output node is equal to, if the rule applies.
pub(crate) struct Rule {
    pub name: &'static str,
    pub rewrite: fn(&mut Rewriter, &IndexedNode) -> Option<ValueRef>,
}

/// Every rule, tried in this order.
fn rules() -> impl Iterator<Item = &'static Rule> {
    (algebra::RULES.iter()).chain(constants::RULES).chain(movement::RULES).chain(pads::RULES)
}

/// The same program, simplified, and how often each rule fired.
pub fn simplify(indexed: Indexed) -> (Indexed, Vec<(&'static str, usize)>) {
    let mut fired = FxHashMap::default();
    let mut current = indexed.prune();
    for _ in 0..MAX_ROUNDS {
        let (next, changes) = round(&current, &mut fired);
        let next = next.prune();
        // What no rule has touched is as it was; a rule may fire and give what was there.
        if changes == 0 || next == current {
            break;
        }
        current = next;
    }
    let mut fired: Vec<_> = fired.into_iter().collect();
    fired.sort_unstable();
    (current, fired)
}

/// One pass, and how many rules have fired.
fn round(indexed: &Indexed, fired: &mut FxHashMap<&'static str, usize>) -> (Indexed, usize) {
    let mut rewriter = Rewriter { nodes: Vec::with_capacity(indexed.nodes.len()), ..Rewriter::default() };
    rewriter.equals.reserve(indexed.nodes.len());
    let mut values: Vec<SmallVec<[ValueRef; 1]>> = Vec::with_capacity(indexed.nodes.len());
    let renamed =
        |values: &[SmallVec<[ValueRef; 1]>], v: &ValueRef| values[v.node as usize][v.output as usize];
    let mut inputs = vec![0; indexed.inputs.len()];
    let argument: FxHashMap<u32, usize> = indexed.inputs.iter().enumerate().map(|(at, &n)| (n, at)).collect();
    let turned = products::only_read_transposed(indexed);
    for (at, node) in indexed.nodes.iter().enumerate() {
        let operands: SmallVec<[ValueRef; 3]> = node.inputs.iter().map(|v| renamed(&values, v)).collect();
        let product = match node.inputs[..] {
            [input] if turned[input.node as usize] => {
                products::transposed(&mut rewriter, &node.prim, operands[0])
            }
            _ => None,
        };
        let outputs = match product {
            Some(product) => {
                *rewriter.fired.entry("transposed_product").or_default() += 1;
                SmallVec::from_elem(product, 1)
            }
            None => rewriter.add(IndexedNode { inputs: operands, ..node.clone() }),
        };
        if let Some(&argument) = argument.get(&(at as u32)) {
            inputs[argument] = outputs[0].node;
        }
        values.push(outputs);
    }
    let mut changes = 0;
    for (name, count) in rewriter.fired.drain() {
        changes += count;
        *fired.entry(name).or_default() += count;
    }
    let roots = indexed.roots.iter().map(|root| renamed(&values, root)).collect();
    (Indexed { nodes: rewriter.nodes, inputs, roots }, changes)
}

/// The table under construction; rules read and extend it.
#[derive(Default)]
pub(crate) struct Rewriter {
    nodes: Vec<IndexedNode>,
    /// Nodes by the hash of primitive and operands.
    equals: FxHashMap<u64, SmallVec<[u32; 1]>>,
    fired: FxHashMap<&'static str, usize>,
}

impl Rewriter {
    /// The node that computes `value`.
    pub fn node(&self, value: ValueRef) -> &IndexedNode {
        &self.nodes[value.node as usize]
    }

    /// The primitive and operands of a value.
    pub fn def(&self, value: ValueRef) -> (&Prim, &[ValueRef]) {
        let node = self.node(value);
        (&node.prim, &node.inputs)
    }

    /// The movement that makes `value`, and what it moves.
    pub fn movement(&self, value: ValueRef) -> Option<(&Movement, &[ValueRef])> {
        match self.def(value) {
            (Prim::Movement(movement), inputs) => Some((movement, inputs)),
            _ => None,
        }
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueRef) -> &TensorType {
        &self.node(value).types[value.output as usize]
    }

    /// The scalar that every element of `value` equals, if that is structure: as its dtype holds it, for a constant may
    /// have more digits.
    pub fn splat(&self, value: ValueRef) -> Option<Scalar> {
        let source = match self.def(value) {
            (Prim::Movement(Movement::Broadcast { .. }), [inner]) => *inner,
            _ => value,
        };
        match self.def(source).0 {
            Prim::Source(Source::Const { value, dtype }) if dtype.is_float() => {
                Some(Scalar::float(dtype.round(value.as_f64())))
            }
            Prim::Source(Source::Const { value, .. }) => Some(*value),
            _ => None,
        }
    }

    /// A constant of this shape.
    pub fn constant(&mut self, value: Scalar, dtype: DType, shape: &[usize]) -> Option<ValueRef> {
        let scalar = self.apply(Prim::Source(Source::Const { value, dtype }), &[])?;
        self.move_by(Movement::Broadcast { shape: shape.into() }, scalar)
    }

    /// A movement of one operand.
    pub fn move_by(&mut self, movement: Movement, operand: ValueRef) -> Option<ValueRef> {
        self.apply(Prim::Movement(movement), &[operand])
    }

    /// The first output of a primitive, simplified; `None` if the operands do not fit it.
    pub fn apply(&mut self, prim: Prim, operands: &[ValueRef]) -> Option<ValueRef> {
        let types = {
            let types: SmallVec<[&TensorType; 4]> = operands.iter().map(|&v| self.ty(v)).collect();
            prim.infer(&types).ok()?
        };
        self.add(IndexedNode { prim, inputs: operands.into(), types }).first().copied()
    }

    /// The outputs of a node that equals `node`.
    fn add(&mut self, node: IndexedNode) -> SmallVec<[ValueRef; 1]> {
        if !matches!(node.prim, Prim::Source(Source::Leaf { .. })) && node.types.len() == 1 {
            for rule in rules() {
                if let Some(value) = (rule.rewrite)(self, &node) {
                    debug_assert_eq!(self.ty(value), &node.types[0], "{} changes the type", rule.name);
                    *self.fired.entry(rule.name).or_default() += 1;
                    return SmallVec::from_elem(value, 1);
                }
            }
        }
        let at = self.find_or_push(node);
        (0..self.nodes[at as usize].types.len() as u32).map(|output| ValueRef { node: at, output }).collect()
    }

    /// Common subexpressions: equal primitives of equal operands are one node. Random nodes are equal only
    /// with equal stream and key, and what a barrier holds back has the barrier among its operands.
    fn find_or_push(&mut self, node: IndexedNode) -> u32 {
        let fresh = self.nodes.len() as u32;
        if !matches!(node.prim, Prim::Source(Source::Leaf { .. })) {
            let mut hasher = FxHasher::default();
            (&node.prim, &node.inputs).hash(&mut hasher);
            let equals = self.equals.entry(hasher.finish()).or_default();
            for &at in equals.iter() {
                let other = &self.nodes[at as usize];
                if other.prim == node.prim && other.inputs == node.inputs {
                    *self.fired.entry("common_subexpression").or_default() += 1;
                    return at;
                }
            }
            equals.push(fresh);
        }
        self.nodes.push(node);
        fresh
    }
}

#[cfg(test)]
mod tests;
