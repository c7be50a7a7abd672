//! Rules and ops of the IR, applied to the compiler's own tables.

use std::cell::RefCell;
use std::sync::Arc;

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::{Builder, Prim, Result, TensorType};
use smallvec::SmallVec;

use crate::indexed::{Indexed, IndexedNode, ValueRef};

/// A value of an [`Indexed`] under construction, with its type.
#[derive(Clone, Debug)]
pub struct IndexedValue {
    pub at: ValueRef,
    pub ty: Arc<TensorType>,
}

/// Appends nodes to a table as they are; a pass that looks at them first wraps it.
#[derive(Default)]
pub struct IndexedBuilder {
    pub nodes: RefCell<Vec<IndexedNode>>,
}

impl IndexedBuilder {
    /// The value at `at`, which must have been appended.
    pub fn value(&self, at: ValueRef) -> IndexedValue {
        let nodes = self.nodes.borrow();
        IndexedValue { at, ty: Arc::new(nodes[at.node as usize].types[at.output as usize].clone()) }
    }

    /// The finished table.
    pub fn finish(self, inputs: Vec<u32>, roots: Vec<ValueRef>) -> Indexed {
        Indexed { nodes: self.nodes.into_inner(), inputs, roots }
    }
}

impl Builder for IndexedBuilder {
    type Value = IndexedValue;

    fn apply(&self, prim: Prim, inputs: &[IndexedValue]) -> Result<Outputs<IndexedValue>> {
        let types = {
            let inputs: SmallVec<[&TensorType; 4]> = inputs.iter().map(|value| &*value.ty).collect();
            prim.infer(&inputs)?
        };
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.len() as u32;
        let outputs = types
            .iter()
            .enumerate()
            .map(|(output, ty)| IndexedValue {
                at: ValueRef { node, output: output as u32 },
                ty: Arc::new(ty.clone()),
            })
            .collect();
        nodes.push(IndexedNode { prim, inputs: inputs.iter().map(|value| value.at).collect(), types });
        Ok(outputs)
    }

    fn ty<'a>(&self, value: &'a IndexedValue) -> &'a TensorType {
        &value.ty
    }
}
