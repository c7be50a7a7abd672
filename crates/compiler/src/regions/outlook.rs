//! What a walk in topological order cannot see: who will read a value.
//!
//! Without it `1 - y * y`, which only the backward reads, would be computed with `y` in the forward and be
//! kept beside it until then. A node that goes on into a later kernel, and whose operand lies in memory
//! anyway, had better be computed there.

use super::views::{Role, Views};
use crate::indexed::{Indexed, ValueRef};

pub(super) struct Outlook {
    /// For each node: everything that reads it is pointwise, element by element, and goes on into a kernel that
    /// starts later.
    goes_on: Vec<bool>,
    /// For each node: some reader needs it in memory, or it is a result.
    in_memory: Vec<bool>,
}

impl Outlook {
    pub fn new(indexed: &Indexed, views: &Views) -> Outlook {
        let nodes = indexed.nodes.len();
        // The last node that a value depends on and that starts a kernel.
        let mut starts = vec![0u32; nodes];
        let reads = |at: usize| {
            let is_view = matches!(views.roles[at], Role::View);
            let inputs = if is_view { &[][..] } else { &indexed.nodes[at].inputs[..] };
            inputs.iter().map(|&input| views.read(indexed, input))
        };
        for at in 0..nodes {
            starts[at] = match views.roles[at] {
                Role::Pointwise | Role::Copy => {
                    let before = |v: &ValueRef| starts[v.node as usize];
                    reads(at)
                        .flat_map(|read| std::iter::once(read.base).chain(read.after))
                        .map(|v| before(&v))
                        .max()
                        .unwrap_or(0)
                }
                Role::Leaf | Role::Const(..) | Role::View => 0,
                _ => at as u32,
            };
        }
        let mut outlook = Outlook { goes_on: vec![true; nodes], in_memory: vec![false; nodes] };
        let mut is_read = vec![false; nodes];
        for &root in &indexed.roots {
            let base = views.read(indexed, root).base.node as usize;
            outlook.goes_on[base] = false;
            outlook.in_memory[base] = true;
        }
        for at in (0..nodes).rev() {
            outlook.goes_on[at] &= is_read[at];
            let is_pointwise = matches!(views.roles[at], Role::Pointwise | Role::Copy);
            let folds = matches!(views.roles[at], Role::Fold(..));
            for read in reads(at) {
                let base = read.base.node as usize;
                is_read[base] = true;
                let elementwise = read.keeps_order(indexed.ty(read.base).numel());
                let later = starts[at] > starts[base] || outlook.goes_on[at];
                // A fold takes in a map, but what is in an epilogue it reads from memory.
                let starter = &views.roles[starts[base] as usize];
                let reduced = folds && matches!(starter, Role::Fold(..) | Role::MatMul);
                outlook.goes_on[base] &= elementwise && (is_pointwise && later || reduced);
                outlook.in_memory[base] |= !(elementwise && (is_pointwise || folds));
            }
        }
        outlook
    }

    /// Whether all that reads the node goes on into a later kernel.
    pub fn goes_on(&self, node: u32) -> bool {
        self.goes_on[node as usize]
    }

    /// Whether the value will be in memory whatever else is decided.
    pub fn is_in_memory(&self, value: ValueRef) -> bool {
        self.in_memory[value.node as usize]
    }
}
