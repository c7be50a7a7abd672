//! A kernel under construction: its phases, its operands, and what may still happen to it.

use lanthorn_ir::expr::{KernelExpr, Step, StepId};
use lanthorn_ir::{Dims, Layout, layout::numel};
use smallvec::SmallVec;

use super::views::{Read, over};
use crate::indexed::ValueRef;
use crate::kernel::Fold;

/// `Load`s from here on read accumulators; `emit` renumbers them behind the inputs.
pub(super) const ACCUMULATORS: u32 = 1 << 24;

/// A limit on operands for backends without one, so that looking for an operand stays cheap.
pub(super) const MOST_OPERANDS: usize = 256;

/// Which part of a kernel computes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Before the reduction; the whole of a map.
    Body,
    /// After the reduction or product.
    Epilogue,
}

/// What a group will be emitted as.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Map,
    Reduce,
    MatMul {
        a: Read,
        b: Read,
    },
    /// The node's own primitive.
    Opaque {
        node: u32,
        reads: Vec<Read>,
    },
    /// Copies into parts of one buffer (`concat`, `pad`); those that are stored directly are left out.
    Assemble {
        value: ValueRef,
        copies: Vec<(Read, Layout)>,
        fill: Fill,
    },
}

/// How the space around a padded value gets its zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    None,
    /// These views of the buffer, which the copy does not touch.
    Strips(Vec<Layout>),
    /// All of it, before the copy.
    Whole,
}

/// An operand from another group or from outside.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input {
    pub base: ValueRef,
    /// Of the shape of the part that reads it.
    pub layout: Layout,
    pub part: Part,
}

/// A value that is stored into a part of another value's buffer.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub value: ValueRef,
    pub into: ValueRef,
    pub layout: Layout,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Groups run in this order; a group reads only from groups of a smaller one.
    pub order: u32,
    pub kind: Kind,
    pub domain: Dims,
    /// The folded axes of a reduction.
    pub folded: Vec<bool>,
    pub body: KernelExpr,
    pub epilogue: KernelExpr,
    pub folds: Vec<Fold>,
    pub inputs: Vec<Input>,
    /// The values that the group computes.
    pub members: Vec<ValueRef>,
    pub placed: Vec<Placed>,
    pub after: SmallVec<[ValueRef; 1]>,
    /// The smallest order of a group that reads from this one; this group must stay below it.
    pub first_reader: u32,
    /// Members that somebody outside may still read: an upper bound of the stores.
    pub open: usize,
}

impl Group {
    pub fn new(order: u32, kind: Kind, domain: Dims) -> Group {
        Group {
            order,
            kind,
            domain,
            folded: Vec::new(),
            body: KernelExpr::default(),
            epilogue: KernelExpr::default(),
            folds: Vec::new(),
            inputs: Vec::new(),
            members: Vec::new(),
            placed: Vec::new(),
            after: SmallVec::new(),
            first_reader: u32::MAX,
            open: 0,
        }
    }

    /// The iteration space of a part.
    pub fn part_domain(&self, part: Part) -> Dims {
        match (&self.kind, part) {
            (Kind::Reduce, Part::Epilogue) => (self.domain.iter().zip(&self.folded))
                .map(|(&d, &folded)| if folded { 1 } else { d })
                .collect(),
            _ => self.domain.clone(),
        }
    }

    pub fn expr(&mut self, part: Part) -> &mut KernelExpr {
        match part {
            Part::Body => &mut self.body,
            Part::Epilogue => &mut self.epilogue,
        }
    }

    pub fn steps(&self) -> usize {
        self.body.steps.len() + self.epilogue.steps.len()
    }

    /// Operands so far: an upper bound.
    pub fn operands(&self) -> usize {
        let product = if matches!(self.kind, Kind::MatMul { .. }) { 2 } else { 0 };
        product + self.inputs.len() + self.open + self.placed.len()
    }

    pub fn find_input(&self, base: ValueRef, layout: &Layout, part: Part) -> Option<usize> {
        self.inputs.iter().position(|i| i.base == base && i.part == part && i.layout == *layout)
    }

    /// The number of an input, added if it is new.
    pub fn input(&mut self, base: ValueRef, layout: Layout, part: Part) -> u32 {
        match self.find_input(base, &layout, part) {
            Some(at) => at as u32,
            None => {
                self.inputs.push(Input { base, layout, part });
                self.inputs.len() as u32 - 1
            }
        }
    }

    /// The layouts of this map's operands over another domain of as many elements, if all are views.
    pub fn over(&self, domain: &[usize]) -> Option<(Vec<Layout>, Vec<Layout>)> {
        if numel(domain) != numel(&self.domain) {
            return None;
        }
        let inputs = self.inputs.iter().map(|input| over(&input.layout, domain)).collect::<Option<_>>()?;
        let placed = self.placed.iter().map(|placed| over(&placed.layout, domain)).collect::<Option<_>>()?;
        Some((inputs, placed))
    }

    /// Iterates this map over another domain, if its operands allow it.
    pub fn iterate_over(&mut self, domain: &[usize]) -> bool {
        if self.domain[..] == *domain {
            return true;
        }
        let Some((inputs, placed)) = self.over(domain) else { return false };
        for (input, layout) in self.inputs.iter_mut().zip(inputs) {
            input.layout = layout;
        }
        for (each, layout) in self.placed.iter_mut().zip(placed) {
            each.layout = layout;
        }
        self.domain = domain.into();
        true
    }

    /// Takes the operands and steps of the map `guest` into `part`, whose domain has as many elements.
    /// Returns the new ids of the guest's steps; `None`, with nothing changed, if an operand does not fit.
    pub fn absorb(&mut self, guest: &mut Group, part: Part) -> Option<Vec<StepId>> {
        let (layouts, placed) = guest.over(&self.part_domain(part))?;
        let inputs: Vec<u32> = (guest.inputs.iter().zip(layouts))
            .map(|(input, layout)| self.input(input.base, layout, part))
            .collect();
        let expr = self.expr(part);
        let mut steps: Vec<StepId> = Vec::with_capacity(guest.body.steps.len());
        for (step, &dtype) in guest.body.steps.iter().zip(&guest.body.dtypes) {
            let step = match *step {
                Step::Load(input) => Step::Load(inputs[input as usize]),
                other => other.map_reads(|read| steps[read as usize]),
            };
            steps.push(expr.push(step, dtype));
        }
        for (each, layout) in guest.placed.drain(..).zip(placed) {
            self.placed.push(Placed { layout, ..each });
        }
        for after in guest.after.drain(..) {
            if !self.after.contains(&after) {
                self.after.push(after);
            }
        }
        self.members.append(&mut guest.members);
        self.order = self.order.max(guest.order);
        self.first_reader = self.first_reader.min(guest.first_reader);
        self.open += guest.open;
        Some(steps)
    }
}
