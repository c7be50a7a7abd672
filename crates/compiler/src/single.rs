//! Kernels of one node: what eager execution runs.

use lanthorn_ir::expr::{KernelExpr, Step};
use lanthorn_ir::layout::numel;
use lanthorn_ir::prim::contract::accumulator;
use lanthorn_ir::prim::{Complex, Contract, Control, Movement, Reduce, Source, complex};
use lanthorn_ir::{DType, Dims, Error, Layout, Prim, Result, TensorType};
use smallvec::{SmallVec, smallvec};

use crate::kernel::{Fold, Kernel, KernelKind, Operand, Phase, Store, stored_by};
use crate::regions::emit;

/// The kernels, to be run in this order, that apply `prim` to strided operands. Buffer `i` is operand `i`
/// and buffer `inputs.len() + j` is output `j`, contiguous. Most primitives take one kernel; `pad` and
/// `concat` take one for each piece. Whether the backend has a kernel for the primitive is the caller's
/// question to [`Backend::support`](crate::backend::Backend::support).
pub fn single(prim: &Prim, inputs: &[(DType, Layout)]) -> Result<Vec<Kernel>> {
    let types: SmallVec<[TensorType; 4]> = inputs
        .iter()
        .map(|(dtype, layout)| TensorType { dtype: *dtype, shape: layout.shape.clone() })
        .collect();
    let types: SmallVec<[&TensorType; 4]> = types.iter().collect();
    let outputs = prim.infer(&types)?;
    if inputs.iter().any(|(dtype, _)| dtype.is_complex()) || matches!(prim, Prim::Complex(_)) {
        return real_form(prim, inputs, &outputs);
    }
    let operand = |at: usize| {
        let (dtype, layout) = &inputs[at];
        Operand { buffer: at as u32, dtype: *dtype, layout: layout.clone() }
    };
    let result = |at: usize| Operand {
        buffer: (inputs.len() + at) as u32,
        dtype: outputs[at].dtype,
        layout: Layout::contiguous(&outputs[at].shape),
    };
    let operands = || (0..inputs.len()).map(operand).collect::<Vec<_>>();
    let results = || (0..outputs.len()).map(result).collect::<Vec<_>>();
    let one = |kind| {
        let (inputs, outputs) = (operands(), results());
        vec![Kernel { kind, inputs, outputs, after: Vec::new(), ops: vec![prim.name()] }]
    };
    Ok(match prim {
        Prim::Source(Source::Leaf { .. }) => {
            return Err(Error::unsupported("leaf", "a leaf is not computed"));
        }
        Prim::Source(Source::Const { value, .. }) => vec![emit::constant(*value, result(0))],
        Prim::Movement(Movement::Concat { axis }) => concat(&operands(), result(0), *axis),
        Prim::Movement(Movement::Pad { low, interior, .. }) => pad(operand(0), result(0), low, interior),
        Prim::Movement(movement) => vec![movement_copy(movement, operand(0), result(0))],
        Prim::Control(Control::Barrier) => vec![emit::copy(operand(0), result(0))],
        Prim::Reduce(Reduce::Fold { op, axes }) => {
            let domain = inputs[0].1.shape.clone();
            let mut folded = vec![false; domain.len()];
            for &axis in axes {
                folded[axis] = true;
            }
            let mut body = Phase::default();
            let step = body.expr.push(Step::Load(0), inputs[0].0);
            let epilogue = stored(Step::Load(1), inputs[0].0, outputs[0].dtype);
            one(KernelKind::Reduce { domain, folded, body, folds: vec![Fold { op: *op, step }], epilogue })
        }
        Prim::Contract(Contract::MatMul { out }) => {
            one(KernelKind::MatMul { epilogue: stored(Step::Load(2), accumulator(inputs[0].0, *out), *out) })
        }
        prim if prim.is_pointwise() => {
            let mut expr = KernelExpr::default();
            let args: SmallVec<[u32; 8]> =
                (0..inputs.len()).map(|at| expr.push(Step::Load(at as u32), inputs[at].0)).collect();
            let steps = prim
                .body(&mut expr, &types, &args)
                .ok_or_else(|| Error::unsupported(prim.name(), "a pointwise primitive without a body"))?;
            let stores = (steps.into_iter().zip(&outputs).enumerate())
                .map(|(output, (step, ty))| Store {
                    step: stored_by(&expr, step, ty.dtype),
                    output: output as u32,
                })
                .collect();
            let domain = outputs[0].shape.clone();
            one(KernelKind::Map { domain, body: Phase { expr, stores } })
        }
        prim => one(KernelKind::Prim(prim.clone())),
    })
}

/// What moves complex elements, as the kernels of their pairs of parts, which have the same bytes.
fn real_form(prim: &Prim, inputs: &[(DType, Layout)], outputs: &[TensorType]) -> Result<Vec<Kernel>> {
    let refused = || Error::dtype(prim.name(), "no kernel takes complex operands");
    let parts: Vec<(DType, Layout)> = inputs.iter().map(|(dtype, layout)| pairs(*dtype, layout)).collect();
    match prim {
        Prim::Movement(movement) => {
            let rank = inputs.first().map_or(0, |(_, layout)| layout.rank());
            let movements = complex::real_movements(movement, rank);
            let [movement] = &movements[..] else { return Err(refused()) };
            single(&Prim::Movement(movement.clone()), &parts)
        }
        Prim::Control(Control::Barrier) => single(prim, &parts),
        Prim::Complex(_) => {
            let [(dtype, from)] = &parts[..] else { return Err(refused()) };
            let to = outputs.first().ok_or_else(refused)?;
            let (_, to) = pairs(to.dtype, &Layout::contiguous(&to.shape));
            Ok(vec![copy(*dtype, from.clone(), to)])
        }
        _ => Err(refused()),
    }
}

/// A layout of complex elements as one of their parts; any other as it is.
fn pairs(dtype: DType, layout: &Layout) -> (DType, Layout) {
    match (dtype.part(), Complex::AsReal.view(layout)) {
        (Some(part), Some(layout)) => (part, layout),
        _ => (dtype, layout.clone()),
    }
}

/// A kernel that copies buffer 0 as `from` shows it to buffer 1 as `to` shows it; both of one shape.
pub fn copy(dtype: DType, from: Layout, to: Layout) -> Kernel {
    let ((part, from), (_, to)) = (pairs(dtype, &from), pairs(dtype, &to));
    let dtype = part;
    emit::copy(Operand { buffer: 0, dtype, layout: from }, Operand { buffer: 1, dtype, layout: to })
}

fn stored(step: Step, from: DType, to: DType) -> Phase {
    let mut expr = KernelExpr::default();
    let step = expr.push(step, from);
    let step = expr.widen(step, to);
    Phase { expr, stores: vec![Store { step, output: 0 }] }
}

fn movement_copy(movement: &Movement, input: Operand, output: Operand) -> Kernel {
    if let Some(layout) = movement.view(&input.layout) {
        return emit::copy(Operand { layout, ..input }, output);
    }
    // A reshape that no view shows: the result, contiguous, under the operand's shape.
    let layout = Layout::contiguous(&input.layout.shape);
    emit::copy(input, Operand { layout, ..output })
}

/// Where operand after operand lies in a concatenation along `axis`.
pub(crate) fn concat_parts<'a>(
    whole: &'a [usize],
    axis: usize,
    parts: impl Iterator<Item = usize> + 'a,
) -> impl Iterator<Item = Layout> + 'a {
    let whole = Layout::contiguous(whole);
    parts.scan(0, move |start, size| {
        let mut starts: Dims = smallvec![0; whole.rank()];
        let mut stops = whole.shape.clone();
        starts[axis] = *start;
        *start += size;
        stops[axis] = *start;
        Some(whole.slice(&starts, &stops, &Dims::from_elem(1, whole.rank())))
    })
}

/// Where the operand of shape `inner` lies in a padded value of shape `whole`; `None` if it is empty.
pub(crate) fn pad_part(
    whole: &[usize],
    inner: &[usize],
    low: &[usize],
    interior: &[usize],
) -> Option<Layout> {
    if numel(inner) == 0 {
        return None;
    }
    let steps: Dims = interior.iter().map(|gap| gap + 1).collect();
    let stops: Dims = (0..whole.len()).map(|a| low[a] + (inner[a] - 1) * steps[a] + 1).collect();
    Some(Layout::contiguous(whole).slice(low, &stops, &steps))
}

fn concat(parts: &[Operand], whole: Operand, axis: usize) -> Vec<Kernel> {
    let shape = whole.layout.shape.clone();
    let sizes = parts.iter().map(|part| part.layout.shape[axis]);
    (parts.iter().zip(concat_parts(&shape, axis, sizes)))
        .filter(|(part, _)| part.layout.numel() > 0)
        .map(|(part, layout)| emit::copy(part.clone(), Operand { layout, ..whole.clone() }))
        .collect()
}

fn pad(input: Operand, whole: Operand, low: &[usize], interior: &[usize]) -> Vec<Kernel> {
    let mut kernels = vec![emit::zeros(whole.clone())];
    if let Some(layout) = pad_part(&whole.layout.shape, &input.layout.shape, low, interior) {
        kernels.push(emit::copy(input, Operand { layout, ..whole }));
        kernels[1].after.push(0);
    }
    kernels
}

#[cfg(test)]
mod tests {
    use lanthorn_ir::expr::{BinaryOp, Scalar};
    use lanthorn_ir::prim::{Elementwise, ReduceOp};
    use lanthorn_ir::{Lazy, Value, ops};

    use super::*;
    use crate::backend::{Backend, MemRef, Memory};
    use crate::testing::naive::{HostMemory, Naive};
    use crate::testing::{indexed, reference, sample};

    /// Runs the kernels of `prim` on turned and widened operands and holds the outputs against the reference.
    fn check(prim: Prim, shapes: &[&[usize]], kernels: usize) {
        let types: Vec<TensorType> = shapes.iter().map(|s| TensorType::new(DType::F32, s)).collect();
        let leaves: Vec<Value> = types.iter().map(|ty| Value::leaf(ty.clone()).unwrap()).collect();
        let root = crate::testing::apply(prim.clone(), &leaves.iter().collect::<Vec<_>>());
        let values: Vec<_> = types.iter().enumerate().map(|(seed, ty)| sample(ty, seed)).collect();
        let (expected, _) = reference::run(&indexed(&leaves, std::slice::from_ref(&root)), &values);

        let mut memories: Vec<HostMemory> = Vec::new();
        let mut inputs = Vec::new();
        for (ty, values) in types.iter().zip(&values) {
            // Axes reversed in memory, and one element skipped at the start.
            let axes: Vec<usize> = (0..ty.rank()).rev().collect();
            let turned: Dims = axes.iter().map(|&a| ty.shape[a]).collect();
            let mut layout = Layout::contiguous(&turned).permute(&axes);
            layout.offset = 1;
            let stored = Value::leaf(ty.clone()).unwrap();
            let moved = match ty.rank() {
                0 => stored.clone(),
                _ => ops::permute(&Lazy, &stored, &axes.iter().map(|&a| a as isize).collect::<Vec<_>>())
                    .unwrap(),
            };
            let (data, _) = reference::run(&indexed(&[stored], &[moved]), std::slice::from_ref(values));
            let shifted: Vec<_> = [values[0]].into_iter().chain(data[0].clone()).collect();
            memories.push(HostMemory::with(&TensorType::new(DType::F32, [shifted.len()]), &shifted));
            inputs.push((ty.dtype, layout));
        }
        memories.push(HostMemory::new(root.ty().bytes()));
        let found = single(&prim, &inputs).unwrap();
        assert_eq!(found.len(), kernels);
        let at = |operands: &[Operand]| -> Vec<MemRef<'_>> {
            let of = |operand: &Operand| &memories[operand.buffer as usize] as &dyn Memory;
            operands.iter().map(|operand| MemRef { memory: of(operand), offset: 0 }).collect()
        };
        for kernel in &found {
            let scratch = MemRef { memory: &memories[0], offset: 0 };
            let prepared = Naive::default().prepare(kernel).unwrap();
            prepared.run(&at(&kernel.inputs), &at(&kernel.outputs), scratch).unwrap();
        }
        assert_eq!(memories[inputs.len()].values(root.ty()), expected[0]);
    }

    #[test]
    fn every_kind_of_primitive_runs_on_strided_operands() {
        let dims = |sizes: &[usize]| Dims::from_slice(sizes);
        check(Prim::Elementwise(Elementwise::Binary(BinaryOp::Sub)), &[&[2, 3], &[2, 3]], 1);
        check(Prim::Reduce(Reduce::Fold { op: ReduceOp::Max, axes: dims(&[1]) }), &[&[2, 3, 2]], 1);
        check(Prim::Contract(Contract::MatMul { out: DType::F32 }), &[&[2, 3], &[3, 4]], 1);
        check(Prim::Movement(Movement::Reshape { shape: dims(&[6]) }), &[&[2, 3]], 1);
        check(Prim::Movement(Movement::Flip { axes: dims(&[0]) }), &[&[2, 3]], 1);
        check(Prim::Movement(Movement::Concat { axis: 1 }), &[&[2, 3], &[2, 1], &[2, 2]], 3);
        let pad = Movement::Pad { low: dims(&[1, 0]), high: dims(&[0, 2]), interior: dims(&[1, 0]) };
        check(Prim::Movement(pad), &[&[2, 3]], 2);
        check(Prim::Source(Source::Const { value: Scalar::float(2.5), dtype: DType::F32 }), &[], 1);
        check(Prim::Source(Source::Iota { len: 5, dtype: DType::F32 }), &[], 1);
    }

    #[test]
    fn operands_that_do_not_fit_are_refused() {
        let prim = Prim::Contract(Contract::MatMul { out: DType::F32 });
        let operand = (DType::F32, Layout::contiguous([2, 3]));
        assert!(single(&prim, &[operand.clone(), operand]).is_err());
    }
}
