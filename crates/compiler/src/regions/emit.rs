//! Groups to kernels over buffers.

use lanthorn_ir::expr::{KernelExpr, Scalar, Step};
use lanthorn_ir::{Dims, Layout, TensorType};
use rustc_hash::FxHashMap;

use super::group::{ACCUMULATORS, Fill, Group, Kind, Part};
use super::grow::Grower;
use super::views::Read;
use crate::indexed::ValueRef;
use crate::kernel::{BufferId, Fused, Kernel, KernelKind, Operand, Phase, Store, stored_by};

pub(super) fn emit(mut grower: Grower<'_>) -> Fused {
    let roots: Vec<Read> = grower.indexed.roots.iter().map(|&root| grower.read(root)).collect();
    let claims = claim_roots(&mut grower, &roots);
    let mut emitter = Emitter {
        grower: &grower,
        fused: Fused::default(),
        buffers: FxHashMap::default(),
        writers: Vec::new(),
        last_kernel: vec![None; grower.groups.len()],
        fills: FxHashMap::default(),
    };
    for &leaf in &grower.indexed.inputs {
        let buffer = emitter.buffer(ValueRef { node: leaf, output: 0 });
        emitter.fused.inputs.push(buffer);
    }
    let mut order: Vec<u32> =
        (0..grower.groups.len() as u32).filter(|&slot| grower.find(slot) == slot).collect();
    order.sort_unstable_by_key(|&slot| grower.groups[slot as usize].order);
    for slot in order {
        emitter.group(slot);
    }
    for (at, read) in roots.iter().enumerate() {
        let ty = grower.indexed.ty(grower.indexed.roots[at]).clone();
        let buffer = if claims[at] {
            let buffer = emitter.buffer(read.base);
            emitter.fused.buffers[buffer as usize] = ty;
            buffer
        } else {
            emitter.root_copy(read, ty)
        };
        emitter.fused.outputs.push(buffer);
    }
    emitter.fused
}

/// Which roots are the buffers of computed values themselves: the others get copies.
fn claim_roots(grower: &mut Grower<'_>, roots: &[Read]) -> Vec<bool> {
    let mut claimed = std::collections::HashSet::new();
    let mut claims = Vec::with_capacity(roots.len());
    for read in roots {
        let elements = grower.indexed.ty(read.base).numel();
        let own = grower.slot(read.base).is_some() && read.keeps_order(elements) && claimed.insert(read.base);
        if grower.slot(read.base).is_some() {
            grower.store(read.base);
        }
        claims.push(own);
    }
    claims
}

struct Emitter<'a> {
    grower: &'a Grower<'a>,
    fused: Fused,
    buffers: FxHashMap<ValueRef, BufferId>,
    /// The kernels that write each buffer.
    writers: Vec<Vec<u32>>,
    /// The last kernel of each group.
    last_kernel: Vec<Option<u32>>,
    /// The kernel that fills a padded value with zeros.
    fills: FxHashMap<ValueRef, u32>,
}

impl Emitter<'_> {
    fn buffer(&mut self, value: ValueRef) -> BufferId {
        if let Some(&buffer) = self.buffers.get(&value) {
            return buffer;
        }
        let buffer = self.new_buffer(self.grower.indexed.ty(value).clone());
        self.buffers.insert(value, buffer);
        if let Some((scalar, dtype)) = self.grower.views.constant(value) {
            let output = Operand { buffer, dtype, layout: Layout::contiguous([]) };
            self.push(constant(scalar, output));
        }
        buffer
    }

    fn new_buffer(&mut self, ty: TensorType) -> BufferId {
        self.fused.buffers.push(ty);
        self.writers.push(Vec::new());
        self.fused.buffers.len() as BufferId - 1
    }

    fn operand(&mut self, value: ValueRef, layout: Layout) -> Operand {
        let dtype = self.grower.indexed.ty(value).dtype;
        Operand { buffer: self.buffer(value), dtype, layout }
    }

    fn push(&mut self, kernel: Kernel) -> u32 {
        let at = self.fused.kernels.len() as u32;
        for output in &kernel.outputs {
            let writers = &mut self.writers[output.buffer as usize];
            if writers.last() != Some(&at) {
                writers.push(at);
            }
        }
        self.fused.kernels.push(kernel);
        at
    }

    fn group(&mut self, slot: u32) {
        let group = &self.grower.groups[slot as usize];
        let mut after = Vec::new();
        for &value in &group.after {
            match self.buffers.get(&value) {
                Some(&buffer) if !self.writers[buffer as usize].is_empty() => {
                    after.extend(&self.writers[buffer as usize]);
                }
                _ => after.extend(self.grower.slot(value).and_then(|slot| self.last_kernel[slot as usize])),
            }
        }
        for placed in &group.placed {
            after.extend(self.fill_whole(placed.into));
        }
        after.sort_unstable();
        after.dedup();
        let kernel = match &group.kind {
            Kind::Map | Kind::Reduce | Kind::MatMul { .. } => self.region(group, after),
            Kind::Opaque { node, reads } => Some(self.opaque(*node, reads, group, after)),
            Kind::Assemble { value, copies, fill } => {
                self.assemble(*value, copies, fill, after);
                None
            }
        };
        if let Some(kernel) = kernel {
            self.push(kernel);
        }
        self.last_kernel[slot as usize] = self.fused.kernels.len().checked_sub(1).map(|last| last as u32);
    }

    fn region(&mut self, group: &Group, after: Vec<u32>) -> Option<Kernel> {
        let mut inputs = Vec::with_capacity(group.inputs.len() + 2);
        if let Kind::MatMul { a, b } = &group.kind {
            inputs.push(self.operand(a.base, a.layout.clone()));
            inputs.push(self.operand(b.base, b.layout.clone()));
        }
        let shift = inputs.len() as u32;
        for input in &group.inputs {
            inputs.push(self.operand(input.base, input.layout.clone()));
        }
        let accumulators = inputs.len() as u32;
        let renumbered = |expr: &KernelExpr| KernelExpr {
            steps: expr
                .steps
                .iter()
                .map(|step| match *step {
                    Step::Load(at) if at >= ACCUMULATORS => Step::Load(at - ACCUMULATORS + accumulators),
                    Step::Load(at) => Step::Load(at + shift),
                    other => other,
                })
                .collect(),
            dtypes: expr.dtypes.clone(),
        };
        let mut body = Phase { expr: renumbered(&group.body), stores: Vec::new() };
        let mut epilogue = Phase { expr: renumbered(&group.epilogue), stores: Vec::new() };
        let mut outputs = Vec::new();
        let stored = group.members.iter().filter(|&&value| self.grower.is_stored(value));
        let whole = stored.map(|&value| (value, value, None));
        let parts =
            group.placed.iter().map(|placed| (placed.value, placed.into, Some(placed.layout.clone())));
        let stores: Vec<_> = whole.chain(parts).collect();
        for (value, into, layout) in stores {
            let home = self.grower.home(value);
            let layout = layout.unwrap_or_else(|| Layout::contiguous(group.part_domain(home.part)));
            let phase = match home.part {
                Part::Body => &mut body,
                Part::Epilogue => &mut epilogue,
            };
            let dtype = self.grower.indexed.ty(into).dtype;
            let step = stored_by(&phase.expr, home.step, dtype);
            phase.stores.push(Store { step, output: outputs.len() as u32 });
            outputs.push(self.operand(into, layout));
        }
        if outputs.is_empty() {
            return None;
        }
        let domain = group.domain.clone();
        let kind = match &group.kind {
            Kind::Reduce => KernelKind::Reduce {
                domain,
                folded: group.folded.clone(),
                body,
                folds: group.folds.clone(),
                epilogue,
            },
            Kind::MatMul { .. } => KernelKind::MatMul { epilogue },
            _ => KernelKind::Map { domain, body },
        };
        Some(Kernel { kind, inputs, outputs, after, ops: self.names(group) })
    }

    /// The ops of a group, in the order of the graph.
    fn names(&self, group: &Group) -> Vec<&'static str> {
        let mut nodes: Vec<u32> = group.members.iter().map(|value| value.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.iter().map(|&node| self.grower.indexed.nodes[node as usize].prim.name()).collect()
    }

    fn opaque(&mut self, node: u32, reads: &[Read], group: &Group, after: Vec<u32>) -> Kernel {
        let inputs = reads.iter().map(|read| self.operand(read.base, read.layout.clone())).collect();
        let this = &self.grower.indexed.nodes[node as usize];
        let outputs = (0..this.types.len())
            .map(|output| {
                let value = ValueRef { node, output: output as u32 };
                match group.placed.iter().find(|placed| placed.value == value) {
                    Some(placed) => self.operand(placed.into, placed.layout.clone()),
                    None => self.operand(value, Layout::contiguous(&this.types[output].shape)),
                }
            })
            .collect();
        let ops = vec![this.prim.name()];
        Kernel { kind: KernelKind::Prim(this.prim.clone()), inputs, outputs, after, ops }
    }

    fn assemble(&mut self, value: ValueRef, copies: &[(Read, Layout)], fill: &Fill, after: Vec<u32>) {
        let mut after = after;
        after.extend(self.fill_whole(value));
        if let Fill::Strips(strips) = fill {
            for strip in strips {
                let strip = self.operand(value, strip.clone());
                self.push(zeros(strip));
            }
        }
        for (read, layout) in copies {
            let output = self.operand(value, layout.clone());
            let mut kernel = self.copy(read, output);
            kernel.after.clone_from(&after);
            self.push(kernel);
        }
        // A value of no elements still has a buffer.
        self.buffer(value);
    }

    /// The kernel that fills a padded value, if it is one that is filled before its part is written.
    fn fill_whole(&mut self, value: ValueRef) -> Option<u32> {
        if let Some(&fill) = self.fills.get(&value) {
            return Some(fill);
        }
        let slot = self.grower.slot(value)?;
        match &self.grower.groups[slot as usize].kind {
            Kind::Assemble { fill: Fill::Whole, .. } => {}
            _ => return None,
        }
        let layout = Layout::contiguous(&self.grower.indexed.ty(value).shape);
        let output = self.operand(value, layout);
        let fill = self.push(zeros(output));
        self.fills.insert(value, fill);
        Some(fill)
    }

    fn copy(&mut self, read: &Read, output: Operand) -> Kernel {
        match self.grower.views.constant(read.base) {
            Some((scalar, _)) => constant(scalar, output),
            None => copy(self.operand(read.base, read.layout.clone()), output),
        }
    }

    fn root_copy(&mut self, read: &Read, ty: TensorType) -> BufferId {
        let layout = Layout::contiguous(&ty.shape);
        let dtype = ty.dtype;
        let buffer = self.new_buffer(ty);
        let kernel = self.copy(read, Operand { buffer, dtype, layout });
        self.push(kernel);
        buffer
    }
}

/// A kernel that copies one view to another of the same shape.
pub(crate) fn copy(input: Operand, output: Operand) -> Kernel {
    let mut expr = KernelExpr::default();
    let step = expr.push(Step::Load(0), input.dtype);
    map("copy", expr, step, vec![input], output)
}

/// A kernel that fills a view with a constant.
pub(crate) fn constant(value: Scalar, output: Operand) -> Kernel {
    let mut expr = KernelExpr::default();
    let step = expr.constant(value, output.dtype);
    map("constant", expr, step, Vec::new(), output)
}

/// A kernel that fills a view with zeros.
pub(crate) fn zeros(output: Operand) -> Kernel {
    let zero = match output.dtype {
        lanthorn_ir::DType::Bool => Scalar::Bool(false),
        dtype if dtype.is_int() => Scalar::Int(0),
        _ => Scalar::float(0.0),
    };
    constant(zero, output)
}

fn map(name: &'static str, expr: KernelExpr, step: u32, inputs: Vec<Operand>, output: Operand) -> Kernel {
    let domain: Dims = output.layout.shape.clone();
    let body = Phase { expr, stores: vec![Store { step, output: 0 }] };
    let kind = KernelKind::Map { domain, body };
    Kernel { kind, inputs, outputs: vec![output], after: Vec::new(), ops: vec![name] }
}
