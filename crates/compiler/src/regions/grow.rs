//! The walk that grows groups: linear in nodes, and acyclic by construction.
//!
//! Groups are numbered in the order in which they run. A node may join the last group among those of its
//! operands, for then all its other operands come earlier. A group of which nobody has read yet may
//! be moved later and united with the group that its reader is in.

use lanthorn_ir::expr::{KernelExpr, Step, StepId};
use lanthorn_ir::prim::{Movement, ReduceOp};
use lanthorn_ir::{Dims, Layout, Prim, TensorType};
use smallvec::SmallVec;

use super::group::{ACCUMULATORS, Fill, Group, Kind, MOST_OPERANDS, Part, Placed};
use super::outlook::Outlook;
use super::views::{Read, Role, Views, over};
use crate::backend::{Backend, BackendCaps};
use crate::indexed::{Indexed, ValueRef};
use crate::kernel::Fold;
use crate::single::{concat_parts, pad_part};

const NOWHERE: u32 = u32::MAX;

/// Where a value is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    /// Its group, through [`Grower::find`]; `NOWHERE` for leaves, constants and views.
    slot: u32,
    pub part: Part,
    pub step: StepId,
    /// Exists only in memory: no other node of the same group can read it.
    in_memory: bool,
}

/// A pointwise node on its way into a group.
struct Joining<'a> {
    node: u32,
    reads: &'a [Read],
    outputs: usize,
    /// How many steps it can add.
    steps: usize,
}

pub(super) struct Grower<'a> {
    pub indexed: &'a Indexed,
    pub views: Views,
    outlook: Outlook,
    backend: &'a dyn Backend,
    caps: BackendCaps,
    fuse: bool,
    pub groups: Vec<Group>,
    /// Union-find over groups.
    parent: Vec<u32>,
    next_order: u32,
    first_value: Vec<u32>,
    homes: Vec<Home>,
    /// Uses of a value that have not been met inside its group.
    remaining: Vec<u32>,
    /// True if a value has to be in a buffer of its own.
    stored: Vec<bool>,
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

    fn id(&self, value: ValueRef) -> usize {
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

    fn reads(&self, node: u32) -> SmallVec<[Read; 4]> {
        self.indexed.nodes[node as usize].inputs.iter().map(|&input| self.read(input)).collect()
    }

    fn new_group(&mut self, kind: Kind, domain: Dims) -> u32 {
        let slot = self.groups.len() as u32;
        self.groups.push(Group::new(self.next_order, kind, domain));
        self.parent.push(slot);
        self.next_order += 1;
        slot
    }

    fn settle(&mut self, node: u32, output: u32, home: Home) {
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
    fn consume(&mut self, value: ValueRef, slot: u32) {
        let id = self.id(value);
        self.remaining[id] = self.remaining[id].saturating_sub(1);
        if self.remaining[id] == 0 {
            let group = &mut self.groups[slot as usize];
            group.open = group.open.saturating_sub(1);
        }
    }

    /// `slot` reads the base from memory, and runs after what barriers name.
    fn depend(&mut self, slot: u32, read: &Read, in_memory: bool) {
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
    fn part_for(&self, slot: u32, reads: &[Read]) -> Option<Part> {
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

    fn pointwise(&mut self, node: u32) {
        let reads = self.reads(node);
        let domain = reads.first().map_or_else(Dims::new, |read| read.layout.shape.clone());
        let joining = Joining {
            node,
            reads: &reads,
            outputs: self.indexed.nodes[node as usize].types.len(),
            steps: self.body_steps(node),
        };
        let host = self.host(&joining, &domain);
        let (slot, part) = host.unwrap_or_else(|| (self.new_group(Kind::Map, domain), Part::Body));
        let (slot, part) = self.unite_operands((slot, part), &joining);
        self.add_pointwise(node, slot, part, &reads);
    }

    /// How many steps a pointwise node can add.
    fn body_steps(&self, node: u32) -> usize {
        let node = &self.indexed.nodes[node as usize];
        let operands = node.inputs.len();
        if matches!(node.prim, Prim::Elementwise(_) | Prim::Movement(_)) {
            return operands + 1;
        }
        let types: SmallVec<[&TensorType; 8]> = node.inputs.iter().map(|&v| self.indexed.ty(v)).collect();
        let mut expr = KernelExpr::default();
        let args: Vec<StepId> =
            types.iter().enumerate().map(|(i, ty)| expr.push(Step::Load(i as u32), ty.dtype)).collect();
        node.prim.body(&mut expr, &types, &args);
        expr.steps.len()
    }

    /// The last group among the operands', if the node can be part of it.
    fn host(&mut self, joining: &Joining<'_>, domain: &[usize]) -> Option<(u32, Part)> {
        if !self.fuse {
            return None;
        }
        let slots = joining.reads.iter().filter_map(|read| self.slot(read.base));
        let slot = slots.max_by_key(|&slot| self.groups[slot as usize].order)?;
        let part = self.part_for(slot, joining.reads)?;
        let group = &self.groups[slot as usize];
        let waits = self.waits_for(joining.reads).any(|slot| self.groups[slot as usize].order >= group.order);
        if waits || self.stays_apart(joining, slot) || !self.has_room(joining, slot, None) {
            return None;
        }
        if self.reads_fit(joining.reads, &[slot], &group.part_domain(part)) {
            return Some((slot, part));
        }
        let is_map = matches!(group.kind, Kind::Map);
        let refits = is_map && self.reads_fit(joining.reads, &[slot], domain);
        (refits && self.groups[slot as usize].iterate_over(domain)).then_some((slot, part))
    }

    /// The groups after which barriers want these reads.
    fn waits_for<'b>(&'b self, reads: &'b [Read]) -> impl Iterator<Item = u32> + 'b {
        reads.iter().flat_map(|read| &read.after).filter_map(|&after| self.slot(after))
    }

    /// Whether the node had better read what it needs of a group from memory.
    fn stays_apart(&self, joining: &Joining<'_>, slot: u32) -> bool {
        let bases = joining.reads.iter().map(|read| read.base);
        self.outlook.stays_apart(joining.node, bases.filter(|&base| self.slot(base) == Some(slot)))
    }

    /// Whether the limits allow a node in a group (united with another).
    fn has_room(&self, joining: &Joining<'_>, slot: u32, with: Option<u32>) -> bool {
        let (mut operands, mut steps) = (joining.outputs, joining.steps);
        for slot in [Some(slot), with].into_iter().flatten() {
            operands += self.groups[slot as usize].operands();
            steps += self.groups[slot as usize].steps();
        }
        for (at, read) in joining.reads.iter().enumerate() {
            let of = self.slot(read.base);
            if of != Some(slot) && (of.is_none() || of != with) {
                operands += self.views.constant(read.base).is_none() as usize;
                continue;
            }
            // Its last reader: it needs no store.
            let same = |other: &&Read| other.base == read.base;
            let first = !joining.reads[..at].iter().any(|other| same(&other));
            let here = joining.reads.iter().filter(same).count();
            if first && self.remaining[self.id(read.base)] as usize == here {
                operands = operands.saturating_sub(1);
            }
        }
        operands <= self.caps.region_operands && steps <= self.caps.region_steps
    }

    /// Whether the reads from outside `inside` are views over `domain`.
    fn reads_fit(&self, reads: &[Read], inside: &[u32], domain: &[usize]) -> bool {
        reads.iter().all(|read| {
            self.views.constant(read.base).is_some()
                || self.slot(read.base).is_some_and(|slot| inside.contains(&slot))
                || over(&read.layout, domain).is_some()
        })
    }

    /// Brings the groups of the other operands into the host where that is possible.
    fn unite_operands(&mut self, host: (u32, Part), joining: &Joining<'_>) -> (u32, Part) {
        let (mut slot, mut part) = host;
        if !self.fuse {
            return host;
        }
        for read in joining.reads {
            let Some(other) = self.slot(read.base).filter(|&other| other != slot) else { continue };
            let Some(other_part) = self.part_for(other, joining.reads) else { continue };
            let (a, b) = (&self.groups[slot as usize], &self.groups[other as usize]);
            let can_move = b.order < a.order && b.first_reader > a.order;
            let waits = self.waits_for(joining.reads).any(|slot| slot == other);
            let apart = self.stays_apart(joining, other);
            if !can_move || waits || apart || !self.has_room(joining, slot, Some(other)) {
                continue;
            }
            let (here, there) = ((slot, part, other), (other, other_part, slot));
            // The larger map takes the smaller; what is no map takes maps only.
            let attempts: &[(u32, Part, u32)] = match (&a.kind, &b.kind) {
                (Kind::Map, Kind::Map) if a.members.len() < b.members.len() => &[there, here],
                (Kind::Map, Kind::Map) => &[here, there],
                (_, Kind::Map) => &[here],
                (Kind::Map, _) => &[there],
                _ => &[],
            };
            for &(into, into_part, guest) in attempts {
                let target = self.groups[into as usize].part_domain(into_part);
                if self.reads_fit(joining.reads, &[slot, other], &target)
                    && self.unite(into, into_part, guest)
                {
                    (slot, part) = (into, into_part);
                    break;
                }
            }
        }
        (slot, part)
    }

    /// Moves the map `guest` into a part of `host`, if its operands fit there.
    fn unite(&mut self, host: u32, part: Part, guest: u32) -> bool {
        let domain = self.groups[guest as usize].domain.clone();
        let mut moved = std::mem::replace(&mut self.groups[guest as usize], Group::new(0, Kind::Map, domain));
        let members = moved.members.clone();
        let Some(steps) = self.groups[host as usize].absorb(&mut moved, part) else {
            self.groups[guest as usize] = moved;
            return false;
        };
        for value in members {
            let id = self.id(value);
            let home = &mut self.homes[id];
            *home = Home { slot: host, part, step: steps[home.step as usize], ..*home };
        }
        self.parent[guest as usize] = host;
        true
    }

    fn add_pointwise(&mut self, node: u32, slot: u32, part: Part, reads: &[Read]) {
        let mut args: SmallVec<[StepId; 4]> = SmallVec::new();
        for read in reads {
            let step = self.operand(slot, part, read);
            args.push(step);
        }
        let this = &self.indexed.nodes[node as usize];
        let types: SmallVec<[&TensorType; 8]> = this.inputs.iter().map(|&v| self.indexed.ty(v)).collect();
        let outputs = match self.views.roles[node as usize] {
            Role::Copy => args.to_vec(),
            _ => {
                let expr = self.groups[slot as usize].expr(part);
                this.prim.body(expr, &types, &args).unwrap_or_default()
            }
        };
        for (output, step) in outputs.into_iter().enumerate() {
            self.settle(node, output as u32, Home { slot, part, step, in_memory: false });
        }
    }

    /// The step that holds an operand's element in a part of `slot`.
    fn operand(&mut self, slot: u32, part: Part, read: &Read) -> StepId {
        if let Some((value, dtype)) = self.views.constant(read.base) {
            return self.groups[slot as usize].expr(part).constant(value, dtype);
        }
        if self.slot(read.base) == Some(slot) {
            self.depend(slot, read, false);
            self.consume(read.base, slot);
            return self.home(read.base).step;
        }
        self.depend(slot, read, true);
        let group = &mut self.groups[slot as usize];
        let target = group.part_domain(part);
        let layout = over(&read.layout, &target).unwrap_or_else(|| read.layout.clone());
        let input = group.input(read.base, layout, part);
        group.expr(part).push(Step::Load(input), self.indexed.ty(read.base).dtype)
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
        let dtype = self.indexed.ty(a.base).dtype;
        let slot = self.new_group(Kind::MatMul { a: a.clone(), b: b.clone() }, ty.shape.clone());
        self.depend(slot, &a, true);
        self.depend(slot, &b, true);
        let epilogue = &mut self.groups[slot as usize].epilogue;
        let accumulator = epilogue.push(Step::Load(ACCUMULATORS), dtype);
        let step = epilogue.cast(accumulator, ty.dtype);
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

    fn concat(&mut self, node: u32) {
        let this = &self.indexed.nodes[node as usize];
        let Prim::Movement(Movement::Concat { axis }) = this.prim else { return };
        let reads = self.reads(node);
        let sizes = reads.iter().map(|read| read.layout.shape[axis]);
        let layouts: Vec<Layout> = concat_parts(&this.types[0].shape, axis, sizes).collect();
        self.assemble(node, reads.into_iter().zip(layouts).collect(), Fill::None);
    }

    fn pad(&mut self, node: u32) {
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
