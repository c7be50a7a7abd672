//! Random programs against the reference.

use lanthorn_ir::expr::{BinaryOp, Scalar, UnaryOp};
use lanthorn_ir::prim::{Contract, Control, Elementwise, Movement, Reduce, ReduceOp};
use lanthorn_ir::{DType, Dims, Prim, TensorType, Value};
use proptest::prelude::*;

use super::{apply, check_indexed, indexed};
use crate::pipeline::Options;

/// A program as a list of choices, each read as an op on earlier values.
#[derive(Clone, Debug)]
struct Recipe {
    shapes: Vec<(Vec<usize>, bool)>,
    ops: Vec<(u8, usize, usize, usize)>,
    roots: Vec<usize>,
    donate: bool,
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let shape = prop::collection::vec(prop_oneof![1 => Just(0usize), 3 => Just(1), 8 => 2..4usize], 0..4);
    (
        prop::collection::vec((shape, prop::bool::weighted(0.2)), 1..4),
        prop::collection::vec((0..20u8, any::<usize>(), any::<usize>(), any::<usize>()), 1..40),
        prop::collection::vec(any::<usize>(), 1..4),
        any::<bool>(),
    )
        .prop_map(|(shapes, ops, roots, donate)| Recipe { shapes, ops, roots, donate })
}

fn build(recipe: &Recipe) -> (Vec<Value>, Vec<Value>) {
    let parameters: Vec<Value> = (recipe.shapes.iter())
        .map(|(shape, half)| {
            Value::leaf(TensorType::new(if *half { DType::F16 } else { DType::F32 }, shape)).unwrap()
        })
        .collect();
    let mut values = parameters.clone();
    for &(op, a, b, c) in &recipe.ops {
        // Recent values more often than old ones, so that chains grow.
        let pick =
            |choice: usize| values[values.len() - 1 - (choice % values.len()).min(choice / 7 % 5)].clone();
        let (x, y) = (pick(a), pick(b));
        values.extend(op_of(op, x, y, c).filter(|value| value.ty().numel() <= 400));
    }
    let roots =
        recipe.roots.iter().map(|&root| values[values.len() - 1 - root % values.len()].clone()).collect();
    (parameters, roots)
}

fn movement(movement: Movement, x: &Value) -> Value {
    apply(Prim::Movement(movement), &[x])
}

/// `y` under the dtype and shape of `x`, by a scalar of it if it does not broadcast.
fn like(y: &Value, x: &Value) -> Option<Value> {
    let mut y = y.clone();
    if y.ty().dtype != x.ty().dtype {
        y = apply(Prim::Elementwise(Elementwise::Cast(x.ty().dtype)), &[&y]);
    }
    if y.ty().shape == x.ty().shape {
        return Some(y);
    }
    let shape = x.ty().shape.clone();
    if y.ty().numel() == x.ty().numel() {
        return Some(movement(Movement::Reshape { shape }, &y));
    }
    let fits = y.ty().rank() <= shape.len()
        && y.ty().shape.iter().rev().zip(shape.iter().rev()).all(|(&a, &b)| a == b || a == 1);
    if fits {
        return Some(movement(Movement::Broadcast { shape }, &y));
    }
    if y.ty().numel() == 0 {
        return None;
    }
    let axes: Dims = (0..y.ty().rank()).collect();
    let sum = apply(Prim::Reduce(Reduce::Fold { op: ReduceOp::Max, axes }), &[&y]);
    let sum = movement(Movement::Reshape { shape: Dims::new() }, &sum);
    Some(movement(Movement::Broadcast { shape }, &sum))
}

fn op_of(op: u8, x: Value, y: Value, c: usize) -> Option<Value> {
    let shape = x.ty().shape.clone();
    let rank = shape.len();
    let axis = if rank > 0 { c % rank } else { 0 };
    let elementwise = |op: Elementwise, inputs: &[&Value]| apply(Prim::Elementwise(op), inputs);
    Some(match op {
        0 => elementwise(Elementwise::Unary([UnaryOp::Tanh, UnaryOp::Neg, UnaryOp::Relu][c % 3]), &[&x]),
        1 => elementwise(Elementwise::Unary([UnaryOp::Sigmoid, UnaryOp::Abs, UnaryOp::Sin][c % 3]), &[&x]),
        2..=5 => {
            let op = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Max][c % 4];
            let mut y = like(&y, &x)?;
            if op == BinaryOp::Mul {
                // Keeps magnitudes from exploding.
                y = elementwise(Elementwise::Unary(UnaryOp::Tanh), &[&y]);
            }
            elementwise(Elementwise::Binary(op), &[&x, &y])
        }
        6 => {
            let value = [0.0, 1.0, -1.0, 2.0, 0.5, -0.0][c % 6];
            let scalar = Value::constant(Scalar::float(value), x.ty().dtype).unwrap();
            let ops = [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Sub, BinaryOp::Div, BinaryOp::Pow];
            let x = elementwise(Elementwise::Unary(UnaryOp::Abs), &[&x]);
            let op = ops[c / 6 % if value > 0.0 { 5 } else { 3 }];
            elementwise(Elementwise::Binary(op), &[&x, &like(&scalar, &x)?])
        }
        // A comparison of rounded values may turn out either way.
        7 if [&x, &y].iter().all(|v| v.ty().dtype == DType::F32) => {
            let y = like(&y, &x)?;
            let condition = elementwise(Elementwise::Binary(BinaryOp::Lt), &[&x, &y]);
            elementwise(Elementwise::Select, &[&condition, &y, &x])
        }
        8 => {
            let mut axes: Dims = (0..rank).collect();
            axes.rotate_left(axis);
            movement(Movement::Permute { axes }, &x)
        }
        9 if rank > 1 => {
            let mut to: Dims = shape.clone();
            let last = to.pop()?;
            let before = to.pop()?;
            to.push(last * before);
            movement(Movement::Reshape { shape: to }, &x)
        }
        10 => movement(Movement::Reshape { shape: [&[1], &shape[..]].concat().into() }, &x),
        11 if rank > 0 => movement(Movement::Flip { axes: [axis].into_iter().collect() }, &x),
        12 if rank > 0 && shape[axis] > 0 => {
            let mut starts = Dims::from_elem(0, rank);
            let mut steps = Dims::from_elem(1, rank);
            starts[axis] = c / 4 % shape[axis];
            steps[axis] = 1 + c / 16 % 2;
            movement(Movement::Slice { starts, stops: shape, steps }, &x)
        }
        13 if rank > 0 => {
            let (mut low, mut high, mut interior) =
                (Dims::from_elem(0, rank), Dims::from_elem(0, rank), Dims::from_elem(0, rank));
            low[axis] = c / 4 % 2;
            high[(axis + c / 8) % rank] = c / 16 % 3;
            interior[axis] = c / 64 % 2;
            movement(Movement::Pad { low, high, interior }, &x)
        }
        14 if rank > 0 => {
            let y = like(&y, &x)?;
            apply(Prim::Movement(Movement::Concat { axis }), &[&x, &y, &x])
        }
        15 | 16 if rank > 0 => {
            let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum][c % 4];
            let axes: Dims = (0..rank).filter(|axis| (c >> (axis + 3)) & 1 == 1).collect();
            if op != ReduceOp::Sum && axes.iter().any(|&a| shape[a] == 0) {
                return None;
            }
            apply(Prim::Reduce(Reduce::Fold { op, axes }), &[&x])
        }
        17 if rank >= 2 => {
            let mut axes: Dims = (0..rank).collect();
            axes.swap(rank - 1, rank - 2);
            let y = elementwise(Elementwise::Unary(UnaryOp::Tanh), &[&like(&y, &x)?]);
            let y = movement(Movement::Permute { axes }, &y);
            apply(Prim::Contract(Contract::MatMul { out: x.ty().dtype }), &[&x, &y])
        }
        18 => apply(Prim::Control(Control::Barrier), &[&x, &y]),
        19 => {
            let to = if x.ty().dtype == DType::F32 { DType::F16 } else { DType::F32 };
            elementwise(Elementwise::Cast(to), &[&x])
        }
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_equal_the_reference(recipe in recipes()) {
        let (parameters, roots) = build(&recipe);
        let indexed = indexed(&parameters, &roots);
        let mut options = Options::default();
        if recipe.donate {
            // Each argument to the first result of its type that is left.
            let mut left: Vec<u32> = (0..roots.len() as u32).collect();
            for (argument, parameter) in parameters.iter().enumerate() {
                let result = left.iter().position(|&r| roots[r as usize].ty() == parameter.ty());
                if let Some(result) = result {
                    options.donated.push((argument as u32, left.remove(result)));
                }
            }
        }
        check_indexed(&indexed, &options);
    }
}
