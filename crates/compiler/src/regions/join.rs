//! How a pointwise node finds its group.

use lanthorn_ir::expr::{KernelExpr, Step, StepId};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{Dims, Prim, TensorType};
use smallvec::SmallVec;

use super::group::{Group, Kind, Part};
use super::grow::{Grower, Home};
use super::views::{Read, Role, over};
use crate::indexed::ValueRef;

/// A pointwise node on its way into a group.
struct Joining<'a> {
    node: u32,
    reads: &'a [Read],
    outputs: usize,
    /// How many steps it can add.
    steps: usize,
}

impl Grower<'_> {
    pub(super) fn pointwise(&mut self, node: u32) {
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

    /// Whether the node had better read what it needs of a group from memory: it is read later only, and
    /// keeping its operands takes less than keeping it.
    fn stays_apart(&self, joining: &Joining<'_>, slot: u32) -> bool {
        if !self.outlook.goes_on(joining.node) {
            return false;
        }
        let kept = |base: ValueRef| self.outlook.is_in_memory(base) || self.is_stored(base);
        let bases = joining.reads.iter().map(|read| read.base);
        let more: usize = bases
            .filter(|&base| self.slot(base) == Some(slot) && !kept(base))
            .map(|base| self.indexed.ty(base).bytes())
            .sum();
        let types = &self.indexed.nodes[joining.node as usize].types;
        more < types.iter().map(TensorType::bytes).sum()
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
    pub(super) fn operand(&mut self, slot: u32, part: Part, read: &Read) -> StepId {
        if let Some((value, dtype)) = self.views.constant(read.base) {
            return self.groups[slot as usize].expr(part).constant(value, dtype);
        }
        if self.slot(read.base) == Some(slot) {
            self.depend(slot, read, false);
            self.consume(read.base, slot);
            return self.home(read.base).step;
        }
        let narrow = self.before_widening(read);
        let read = narrow.as_ref().unwrap_or(read);
        self.depend(slot, read, true);
        let group = &mut self.groups[slot as usize];
        let target = group.part_domain(part);
        let layout = over(&read.layout, &target).unwrap_or_else(|| read.layout.clone());
        let input = group.input(read.base, layout, part);
        group.expr(part).push(Step::Load(input), self.indexed.ty(read.base).dtype)
    }

    /// What a cast to the wide type widens, if that is in memory: a load widens for nothing, so the wide form
    /// need not be stored for others to read.
    fn before_widening(&self, read: &Read) -> Option<Read> {
        let node = &self.indexed.nodes[read.base.node as usize];
        let Prim::Elementwise(Elementwise::Cast(to)) = node.prim else { return None };
        let inner = self.read(*node.inputs.first()?);
        let ty = self.indexed.ty(inner.base);
        let kept = self.slot(inner.base).is_none()
            || self.outlook.is_in_memory(inner.base)
            || self.is_stored(inner.base);
        let same = inner.keeps_order(ty.numel()) && ty.numel() == self.indexed.ty(read.base).numel();
        let free = ty.dtype.wide() == to
            && self.views.constant(inner.base).is_none()
            && !self.outlook.is_in_memory(read.base);
        let untied = inner.after.is_empty();
        (kept && same && free && untied).then(|| Read { base: inner.base, ..read.clone() })
    }
}
