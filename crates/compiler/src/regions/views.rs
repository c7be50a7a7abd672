//! Which values lie in memory of their own, and how the others are read from them.

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::prim::{Contract, Control, Movement, Reduce, ReduceOp, Source};
use lanthorn_ir::{DType, Dims, Layout, Prim};
use smallvec::SmallVec;

use crate::indexed::{Indexed, ValueRef};

/// What part a node plays in fusion.
#[derive(Clone, Debug)]
pub(super) enum Role {
    Leaf,
    /// A structural scalar: part of the expressions that read it.
    Const(Scalar, DType),
    /// A view or a barrier: no data of its own.
    View,
    Pointwise,
    /// Elements in another order that no view can show: copied.
    Copy,
    Fold(ReduceOp, Dims),
    MatMul,
    Pad,
    Concat,
    /// A primitive with a kernel of its own.
    Opaque,
}

/// A value as a view of the value that holds its elements.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub base: ValueRef,
    pub layout: Layout,
    /// Values that barriers want computed before this one is read.
    pub after: SmallVec<[ValueRef; 1]>,
}

impl Read {
    /// True if the elements are all those of the base, in its order.
    pub fn keeps_order(&self, base_elements: usize) -> bool {
        self.layout.numel() == base_elements && self.layout.offset == 0 && self.layout.is_contiguous()
    }
}

/// The same elements in row-major order over another shape, if that is a view. Strides of axes of size 1,
/// which say nothing, are made equal for equal views.
pub(super) fn over(layout: &Layout, shape: &[usize]) -> Option<Layout> {
    let mut view = layout.reshape(shape)?;
    if view.is_contiguous() {
        return Some(Layout { offset: view.offset, ..Layout::contiguous(shape) });
    }
    for (stride, &size) in view.strides.iter_mut().zip(shape) {
        if size == 1 {
            *stride = 0;
        }
    }
    Some(view)
}

/// The roles of all nodes, and the resolved reads of those that are views.
pub(super) struct Views {
    pub roles: Vec<Role>,
    reads: Vec<Option<Box<Read>>>,
}

impl Views {
    pub fn new(indexed: &Indexed) -> Views {
        let mut views = Views {
            roles: Vec::with_capacity(indexed.nodes.len()),
            reads: Vec::with_capacity(indexed.nodes.len()),
        };
        for node in &indexed.nodes {
            let (role, read) = match &node.prim {
                Prim::Source(Source::Leaf { .. }) => (Role::Leaf, None),
                Prim::Source(Source::Const { value, dtype }) => (Role::Const(*value, *dtype), None),
                Prim::Movement(Movement::Pad { .. }) => (Role::Pad, None),
                Prim::Movement(Movement::Concat { .. }) => (Role::Concat, None),
                Prim::Movement(movement) => {
                    let mut read = views.read(indexed, node.inputs[0]);
                    match movement.view(&read.layout) {
                        Some(layout) => {
                            read.layout = layout;
                            (Role::View, Some(Box::new(read)))
                        }
                        None => (Role::Copy, None),
                    }
                }
                Prim::Control(Control::Barrier) => {
                    let mut read = views.read(indexed, node.inputs[0]);
                    let after = views.read(indexed, node.inputs[1]).base;
                    if !read.after.contains(&after) {
                        read.after.push(after);
                    }
                    (Role::View, Some(Box::new(read)))
                }
                Prim::Reduce(Reduce::Fold { op, axes }) => (Role::Fold(*op, axes.clone()), None),
                Prim::Contract(Contract::MatMul { .. }) => (Role::MatMul, None),
                prim if prim.is_pointwise() => (Role::Pointwise, None),
                _ => (Role::Opaque, None),
            };
            views.roles.push(role);
            views.reads.push(read);
        }
        views
    }

    /// How `value` is read.
    pub fn read(&self, indexed: &Indexed, value: ValueRef) -> Read {
        match &self.reads[value.node as usize] {
            Some(read) => (**read).clone(),
            None => Read {
                base: value,
                layout: Layout::contiguous(&indexed.ty(value).shape),
                after: SmallVec::new(),
            },
        }
    }

    /// The scalar that every element of the base equals, if that is structure.
    pub fn constant(&self, base: ValueRef) -> Option<(Scalar, DType)> {
        match self.roles[base.node as usize] {
            Role::Const(value, dtype) => Some((value, dtype)),
            _ => None,
        }
    }
}
