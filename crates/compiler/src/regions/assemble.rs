//! Values that are put together in their buffer: concatenations and padded values.

use lanthorn_ir::prim::Movement;
use lanthorn_ir::{Dims, Layout, Prim};

use super::group::{Fill, Kind, Part, Placed};
use super::grow::{Grower, Home};
use super::views::{Read, over};
use crate::indexed::ValueRef;
use crate::single::{concat_parts, pad_part};

impl Grower<'_> {
    pub(super) fn concat(&mut self, node: u32) {
        let this = &self.indexed.nodes[node as usize];
        let Prim::Movement(Movement::Concat { axis }) = this.prim else { return };
        let reads = self.reads(node);
        let sizes = reads.iter().map(|read| read.layout.shape[axis]);
        let layouts: Vec<Layout> = concat_parts(&this.types[0].shape, axis, sizes).collect();
        self.assemble(node, reads.into_iter().zip(layouts).collect(), Fill::None);
    }

    pub(super) fn pad(&mut self, node: u32) {
        let this = &self.indexed.nodes[node as usize];
        let Prim::Movement(Movement::Pad { low, interior, .. }) = &this.prim else { return };
        let Some(read) = self.reads(node).into_iter().next() else { return };
        let (whole, inner) = (&this.types[0].shape, read.layout.shape.clone());
        let Some(part) = pad_part(whole, &inner, low, interior) else {
            return self.assemble(node, Vec::new(), Fill::Whole);
        };
        let mut padded = (0..whole.len()).filter(|&a| whole[a] != inner[a]);
        let fill = match (padded.next(), padded.next()) {
            (None, _) => Fill::None,
            (Some(axis), None) if interior[axis] == 0 => {
                let sizes = [low[axis], inner[axis], whole[axis] - low[axis] - inner[axis]];
                let strips = concat_parts(whole, axis, sizes.into_iter()).step_by(2);
                Fill::Strips(strips.filter(|strip| strip.numel() > 0).collect())
            }
            _ => Fill::Whole,
        };
        self.assemble(node, vec![(read, part)], fill);
    }

    /// A value that is put together in its buffer. A part that a group computes is stored there directly.
    fn assemble(&mut self, node: u32, parts: Vec<(Read, Layout)>, fill: Fill) {
        let value = ValueRef { node, output: 0 };
        let mut copies = Vec::new();
        for (read, layout) in parts {
            if layout.numel() > 0 && !self.place(&read, value, &layout) {
                copies.push((read, layout));
            }
        }
        let slot = self.new_group(Kind::Assemble { value, copies: copies.clone(), fill }, Dims::new());
        for (read, _) in &copies {
            self.depend(slot, read, true);
        }
        self.settle(node, 0, Home { slot, part: Part::Body, step: 0, in_memory: true });
        self.store(value);
    }

    fn place(&mut self, read: &Read, into: ValueRef, layout: &Layout) -> bool {
        if !self.fuse || !read.after.is_empty() {
            return false;
        }
        let Some(slot) = self.slot(read.base) else { return false };
        if let Kind::Opaque { node, .. } = self.groups[slot as usize].kind {
            return self.place_output(node, slot, read, into, layout);
        }
        let Some(part) = self.part_for(slot, std::slice::from_ref(read)) else { return false };
        let group = &mut self.groups[slot as usize];
        let Some(layout) = over(layout, &group.part_domain(part)) else { return false };
        if group.operands() + 1 > self.caps.region_operands {
            return false;
        }
        group.placed.push(Placed { value: read.base, into, layout });
        // Readers of the assembled value rely on this group's place in the order.
        group.first_reader = 0;
        self.consume(read.base, slot);
        true
    }

    /// Lets a primitive write its output straight into a part, if nobody else reads it.
    fn place_output(&mut self, node: u32, slot: u32, read: &Read, into: ValueRef, layout: &Layout) -> bool {
        let ty = self.indexed.ty(read.base);
        let sole = self.remaining[self.id(read.base)] == 1 && read.keeps_order(ty.numel());
        let views = self.backend.writes_views(&self.indexed.nodes[node as usize].prim);
        let Some(layout) = over(layout, &ty.shape).filter(|_| sole && views) else { return false };
        self.groups[slot as usize].placed.push(Placed { value: read.base, into, layout });
        let id = self.id(read.base);
        self.stored[id] = false;
        self.consume(read.base, slot);
        true
    }
}
