//! Graphs evaluated node by node on lists of numbers: shares nothing with layouts, regions and plans.

use lanthorn_ir::expr::{KernelExpr, Step};
use lanthorn_ir::layout::numel;
use lanthorn_ir::prim::{Contract, Control, Index, Movement, Reduce, Source};
use lanthorn_ir::{Prim, TensorType};

use super::scalar::{Number, combine, evaluate, neutral};
use crate::indexed::{Indexed, IndexedNode};

pub type Tensor = Vec<Number>;

/// The results for these arguments, and the largest magnitude of any value on the way.
pub fn run(indexed: &Indexed, arguments: &[Tensor]) -> (Vec<Tensor>, f64) {
    let mut values: Vec<Vec<Tensor>> = Vec::new();
    for (at, node) in indexed.nodes.iter().enumerate() {
        let inputs: Vec<(&TensorType, &Tensor)> = (node.inputs.iter())
            .map(|&v| (indexed.ty(v), &values[v.node as usize][v.output as usize]))
            .collect();
        let outputs = match indexed.inputs.iter().position(|&input| input == at as u32) {
            Some(argument) => vec![arguments[argument].clone()],
            None => apply(node, &inputs),
        };
        values.push(outputs);
    }
    let magnitude = values.iter().flatten().flatten().map(|x| x.f().abs()).fold(0.0, f64::max);
    let results = indexed.roots.iter().map(|r| values[r.node as usize][r.output as usize].clone());
    (results.collect(), magnitude)
}

/// The coordinates of the `flat`-th element.
fn coordinates(shape: &[usize], mut flat: usize) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        at[axis] = flat % shape[axis];
        flat /= shape[axis];
    }
    at
}

fn flat(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |flat, (&size, &i)| flat * size + i)
}

fn apply(node: &IndexedNode, inputs: &[(&TensorType, &Tensor)]) -> Vec<Tensor> {
    let ty = &node.types[0];
    let out = &ty.shape[..];
    let each = |value: &dyn Fn(&[usize]) -> Number| -> Vec<Tensor> {
        vec![(0..numel(out)).map(|i| value(&coordinates(out, i)).narrow(ty.dtype)).collect()]
    };
    match &node.prim {
        prim if prim.is_pointwise() => {
            let types: Vec<&TensorType> = inputs.iter().map(|input| input.0).collect();
            let mut expr = KernelExpr::default();
            let args: Vec<u32> =
                (0..types.len()).map(|i| expr.push(Step::Load(i as u32), types[i].dtype)).collect();
            let steps = prim.body(&mut expr, &types, &args).unwrap();
            let mut outputs = vec![Vec::new(); steps.len()];
            for i in 0..numel(out) {
                let values = evaluate(&expr, |input| inputs[input as usize].1[i]);
                for (output, &step) in steps.iter().enumerate() {
                    outputs[output].push(values[step as usize].narrow(node.types[output].dtype));
                }
            }
            outputs
        }
        Prim::Source(Source::Const { value, dtype }) => each(&|_| Number::of(*value, *dtype)),
        Prim::Source(Source::Iota { .. }) => each(&|at| Number::I(at[0] as i64)),
        Prim::Control(Control::Barrier) => vec![inputs[0].1.clone()],
        Prim::Movement(movement) => moved(movement, inputs, &each, out),
        Prim::Reduce(Reduce::Fold { op, axes }) => {
            let (x, data) = inputs[0];
            let mut totals: Vec<Option<Number>> = vec![neutral(*op, ty.dtype); numel(out)];
            for (i, &value) in data.iter().enumerate() {
                let mut at = coordinates(&x.shape, i);
                axes.iter().for_each(|&axis| at[axis] = 0);
                let total = &mut totals[flat(out, &at)];
                *total = Some(total.map_or(value, |total| combine(*op, total, value)));
            }
            vec![totals.into_iter().map(|total| total.unwrap().narrow(ty.dtype)).collect()]
        }
        Prim::Contract(Contract::MatMul { .. }) => {
            let ((a, x), (b, y)) = (inputs[0], inputs[1]);
            let rank = out.len();
            each(&|at| {
                let sum = (0..a.shape[rank - 1]).map(|k| {
                    let (mut left, mut right) = (at.to_vec(), at.to_vec());
                    left[rank - 1] = k;
                    right[rank - 2] = k;
                    x[flat(&a.shape, &left)].f() * y[flat(&b.shape, &right)].f()
                });
                Number::F(sum.sum())
            })
        }
        Prim::Index(Index::Embedding) => {
            let ((table, data), (ids, rows)) = (inputs[0], inputs[1]);
            each(&|at| {
                let (width, at) = at.split_last().unwrap();
                data[rows[flat(&ids.shape, at)].i() as usize * table.shape[1] + width]
            })
        }
        other => unimplemented!("{other}"),
    }
}

/// Fills the result from the coordinates of each element.
type Each<'a> = dyn Fn(&dyn Fn(&[usize]) -> Number) -> Vec<Tensor> + 'a;

fn moved(
    movement: &Movement,
    inputs: &[(&TensorType, &Tensor)],
    each: &Each<'_>,
    out: &[usize],
) -> Vec<Tensor> {
    let (x, data) = inputs[0];
    let get = |at: &[usize]| data[flat(&x.shape, at)];
    match movement {
        Movement::Reshape { .. } => vec![data.clone()],
        Movement::Permute { axes } => each(&|at| {
            let mut from = vec![0; at.len()];
            axes.iter().zip(at).for_each(|(&axis, &i)| from[axis] = i);
            get(&from)
        }),
        Movement::Broadcast { .. } => each(&|at| {
            let tail = &at[at.len() - x.rank()..];
            get(&tail
                .iter()
                .zip(&x.shape)
                .map(|(&i, &size)| if size == 1 { 0 } else { i })
                .collect::<Vec<_>>())
        }),
        Movement::Slice { starts, steps, .. } => {
            each(&|at| get(&(0..at.len()).map(|a| starts[a] + at[a] * steps[a]).collect::<Vec<_>>()))
        }
        Movement::Flip { axes } => each(&|at| {
            let mut from = at.to_vec();
            axes.iter().for_each(|&axis| from[axis] = out[axis] - 1 - at[axis]);
            get(&from)
        }),
        Movement::Window(views) => each(&|at| {
            let (windows, places) = at.split_at(x.rank());
            let mut from = windows.to_vec();
            for (i, &axis) in views.axes.iter().enumerate() {
                from[axis] = windows[axis] * views.steps[i] + places[i] * views.dilations[i];
            }
            get(&from)
        }),
        Movement::Pad { low, interior, .. } => each(&|at| {
            let mut from = Vec::new();
            for a in 0..at.len() {
                let inside = at[a].checked_sub(low[a]).filter(|i| i % (interior[a] + 1) == 0);
                match inside.map(|i| i / (interior[a] + 1)).filter(|&i| i < x.shape[a]) {
                    Some(i) => from.push(i),
                    None => return Number::of(lanthorn_ir::expr::Scalar::Int(0), x.dtype),
                }
            }
            get(&from)
        }),
        Movement::Concat { axis } => each(&|at| {
            let mut at = at.to_vec();
            for (ty, data) in inputs {
                if at[*axis] < ty.shape[*axis] {
                    return data[flat(&ty.shape, &at)];
                }
                at[*axis] -= ty.shape[*axis];
            }
            unreachable!()
        }),
    }
}
