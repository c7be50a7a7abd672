//! The walk that grows groups: linear in nodes, and acyclic by construction.
//!
//! Groups are numbered in the order in which they run. A node may join the last group among those of its
//! operands, for then all its other operands come earlier. A group of which nobody has read yet may
//! be moved later and united with the group that its reader is in.

use lanthorn_ir::Dims;
use lanthorn_ir::expr::{Step, StepId};
use lanthorn_ir::prim::ReduceOp;
use lanthorn_ir::prim::contract::accumulator;
use smallvec::SmallVec;

use super::group::{ACCUMULATORS, Group, Kind, MOST_OPERANDS, Part};
use super::outlook::Outlook;
use super::views::{Read, Role, Views};
use crate::backend::{Backend, BackendCaps};
use crate::indexed::{Indexed, ValueRef};
use crate::kernel::Fold;

const NOWHERE: u32 = u32::MAX;

/// Where a value is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    /// Its group, through [`Grower::find`]; `NOWHERE` for leaves, constants and views.
    pub slot: u32,
    pub part: Part,
    pub step: StepId,
    /// Exists only in memory: no other node of the same group can read it.
    pub in_memory: bool,
}

pub(super) struct Grower<'a> {
    pub indexed: &'a Indexed,
    pub views: Views,
    pub outlook: Outlook,
    pub backend: &'a dyn Backend,
    pub caps: BackendCaps,
    pub fuse: bool,
    pub groups: Vec<Group>,
    /// Union-find over groups.
    pub parent: Vec<u32>,
    pub next_order: u32,
    pub first_value: Vec<u32>,
    pub homes: Vec<Home>,
    /// Uses of a value that have not been met inside its group.
    pub remaining: Vec<u32>,
    /// True if a value has to be in a buffer of its own.
    pub stored: Vec<bool>,
}

impl<'a> Grower<'a> {
    pub fn new(indexed: &'a Indexed, backend: &'a dyn Backend, fuse: bool) -> Grower<'a> {
        let mut first_value = Vec::with_capacity(indexed.nodes.len());
        let mut values = 0u32;
        for node in &indexed.nodes {
            first_value.push(values);
            values += node.types.len() as u32;
        }
        let caps = backend.caps();
        let caps = BackendCaps { region_operands: caps.region_operands.min(MOST_OPERANDS), ..caps };
        let home = Home { slot: NOWHERE, part: Part::Body, step: 0, in_memory: true };
        let views = Views::new(indexed);
        let mut grower = Grower {
            outlook: Outlook::new(indexed, &views),
            views,
            indexed,
            backend,
            caps,
            fuse,
            groups: Vec::new(),
            parent: Vec::new(),
            next_order: 0,
            first_value,
            homes: vec![home; values as usize],
            remaining: vec![0; values as usize],
            stored: vec![false; values as usize],
        };
        grower.count_uses();
        grower
    }

    /// Puts every node into a group.
    pub fn grow(&mut self) {
        for node in 0..self.indexed.nodes.len() as u32 {
            match self.views.roles[node as usize].clone() {
                Role::Leaf | Role::Const(..) | Role::View => {}
                Role::Pointwise | Role::Copy => self.pointwise(node),
                Role::Fold(op, axes) => self.fold(node, op, &axes),
                Role::MatMul => self.matmul(node),
                Role::Opaque => self.opaque(node),
                Role::Concat => self.concat(node),
                Role::Pad => self.pad(node),
            }
        }
    }

    pub fn find(&self, slot: u32) -> u32 {
        let mut slot = slot;
        while self.parent[slot as usize] != slot {
            slot = self.parent[slot as usize];
        }
        slot
    }

    /// The group that computes a value.
    pub fn slot(&self, value: ValueRef) -> Option<u32> {
        let slot = self.homes[self.id(value)].slot;
        (slot != NOWHERE).then(|| self.find(slot))
    }

    pub fn home(&self, value: ValueRef) -> Home {
        self.homes[self.id(value)]
    }

    pub fn is_stored(&self, value: ValueRef) -> bool {
        self.stored[self.id(value)]
    }

    /// Wants a value in a buffer of its own.
    pub fn store(&mut self, value: ValueRef) {
        let id = self.id(value);
        self.stored[id] = true;
    }

    pub fn read(&self, value: ValueRef) -> Read {
        self.views.read(self.indexed, value)
    }

    pub fn id(&self, value: ValueRef) -> usize {
        (self.first_value[value.node as usize] + value.output) as usize
    }

    fn count_uses(&mut self) {
        for (at, node) in self.indexed.nodes.iter().enumerate() {
            if matches!(self.views.roles[at], Role::View) {
                continue;
            }
            for &input in &node.inputs {
                let id = self.id(self.read(input).base);
                self.remaining[id] += 1;
            }
        }
        for &root in &self.indexed.roots {
            let id = self.id(self.read(root).base);
            self.remaining[id] += 1;
        }
    }

    pub fn reads(&self, node: u32) -> SmallVec<[Read; 4]> {
        self.indexed.nodes[node as usize].inputs.iter().map(|&input| self.read(input)).collect()
    }

    pub fn new_group(&mut self, kind: Kind, domain: Dims) -> u32 {
        let slot = self.groups.len() as u32;
        self.groups.push(Group::new(self.next_order, kind, domain));
        self.parent.push(slot);
        self.next_order += 1;
        slot
    }

    pub fn settle(&mut self, node: u32, output: u32, home: Home) {
        let value = ValueRef { node, output };
        let id = self.id(value);
        self.homes[id] = home;
        let group = &mut self.groups[home.slot as usize];
        group.members.push(value);
        if self.remaining[id] > 0 {
            group.open += 1;
        }
    }

    /// A value of `slot` has been read inside it.
    pub fn consume(&mut self, value: ValueRef, slot: u32) {
        let id = self.id(value);
        self.remaining[id] = self.remaining[id].saturating_sub(1);
        if self.remaining[id] == 0 {
            let group = &mut self.groups[slot as usize];
            group.open = group.open.saturating_sub(1);
        }
    }

    /// `slot` reads the base from memory, and runs after what barriers name.
    pub fn depend(&mut self, slot: u32, read: &Read, in_memory: bool) {
        let order = self.groups[slot as usize].order;
        if in_memory {
            self.store(read.base);
            if let Some(writer) = self.slot(read.base) {
                let writer = &mut self.groups[writer as usize];
                writer.first_reader = writer.first_reader.min(order);
            }
        }
        for &after in &read.after {
            let Some(earlier) = self.slot(after) else { continue };
            let earlier = &mut self.groups[earlier as usize];
            earlier.first_reader = earlier.first_reader.min(order);
            let list = &mut self.groups[slot as usize].after;
            if !list.contains(&after) {
                list.push(after);
            }
        }
    }

    /// The part of `slot` in which a node with these reads can be: all that it reads of the group must be
    /// there, in the group's order of elements.
    pub fn part_for(&self, slot: u32, reads: &[Read]) -> Option<Part> {
        let mut part = None;
        for read in reads {
            if self.slot(read.base) != Some(slot) {
                continue;
            }
            let home = self.home(read.base);
            if home.in_memory || !read.keeps_order(self.indexed.ty(read.base).numel()) {
                return None;
            }
            if part.is_some_and(|part| part != home.part) {
                return None;
            }
            part = Some(home.part);
        }
        part
    }

    fn fold(&mut self, node: u32, op: ReduceOp, axes: &[usize]) {
        let Some(read) = self.reads(node).into_iter().next() else { return };
        let shape = read.layout.shape.clone();
        let mut folded = vec![false; shape.len()];
        for &axis in axes {
            folded[axis] = true;
        }
        let slot = self.fold_host(&read, &shape, &folded).unwrap_or_else(|| {
            let slot = self.new_group(Kind::Reduce, shape);
            self.groups[slot as usize].folded = folded;
            slot
        });
        let step = self.operand(slot, Part::Body, &read);
        let group = &mut self.groups[slot as usize];
        let fold = Fold { op, step };
        let at = group.folds.iter().position(|each| *each == fold).unwrap_or_else(|| {
            group.folds.push(fold);
            group.folds.len() - 1
        });
        let dtype = group.body.dtype(step);
        let step = group.epilogue.push(Step::Load(ACCUMULATORS + at as u32), dtype);
        self.settle(node, 0, Home { slot, part: Part::Epilogue, step, in_memory: false });
    }

    /// The group of the folded value, made a reduction, if the fold can be part of it.
    fn fold_host(&mut self, read: &Read, shape: &[usize], folded: &[bool]) -> Option<u32> {
        if !self.fuse || !read.after.is_empty() {
            return None;
        }
        let slot = self.slot(read.base)?;
        if self.part_for(slot, std::slice::from_ref(read))? != Part::Body {
            return None;
        }
        let group = &mut self.groups[slot as usize];
        if group.operands() + 1 > self.caps.region_operands || group.steps() + 1 > self.caps.region_steps {
            return None;
        }
        if matches!(group.kind, Kind::Reduce) {
            return (group.domain[..] == *shape && group.folded == folded).then_some(slot);
        }
        if !matches!(group.kind, Kind::Map) || !group.iterate_over(shape) {
            return None;
        }
        group.kind = Kind::Reduce;
        group.folded = folded.to_vec();
        Some(slot)
    }

    fn matmul(&mut self, node: u32) {
        let mut reads = self.reads(node);
        let (Some(b), Some(a)) = (reads.pop(), reads.pop()) else { return };
        let ty = &self.indexed.nodes[node as usize].types[0];
        let dtype = accumulator(self.indexed.ty(a.base).dtype, ty.dtype);
        let slot = self.new_group(Kind::MatMul { a: a.clone(), b: b.clone() }, ty.shape.clone());
        self.depend(slot, &a, true);
        self.depend(slot, &b, true);
        let epilogue = &mut self.groups[slot as usize].epilogue;
        let accumulator = epilogue.push(Step::Load(ACCUMULATORS), dtype);
        let step = epilogue.widen(accumulator, ty.dtype);
        self.settle(node, 0, Home { slot, part: Part::Epilogue, step, in_memory: false });
    }

    fn opaque(&mut self, node: u32) {
        let reads = self.reads(node);
        let slot = self.new_group(Kind::Opaque { node, reads: reads.to_vec() }, Dims::new());
        for read in &reads {
            self.depend(slot, read, true);
        }
        for output in 0..self.indexed.nodes[node as usize].types.len() as u32 {
            self.settle(node, output, Home { slot, part: Part::Body, step: 0, in_memory: true });
            self.store(ValueRef { node, output });
        }
    }
}
