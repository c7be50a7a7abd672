//! Random programs against the reference.

use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::expr::{BinaryOp, Scalar, UnaryOp};
use lanthorn_ir::layout::Dims;
use lanthorn_ir::prim::{Contract, Elementwise, Movement, Norm, Reduce, ReduceOp};
use lanthorn_ir::{Builder, DType, Lazy, Prim, TensorType, Value};
use proptest::prelude::*;

use crate::harness::{Sequence, build};

/// A program as a list of choices, each read as an op on earlier values.
#[derive(Clone, Debug)]
struct Recipe {
    dtype: DType,
    shapes: Vec<Vec<usize>>,
    ops: Vec<(u8, usize, usize, usize)>,
    roots: Vec<usize>,
    donate: bool,
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let size = prop_oneof![1 => Just(0usize), 4 => Just(1), 8 => 2..6usize, 2 => 14..40usize];
    let shape = prop::collection::vec(size, 0..4);
    (
        prop::sample::select(&crate::RANDOM_DTYPES[..]),
        prop::collection::vec(shape, 1..4),
        prop::collection::vec((0..18u8, any::<usize>(), any::<usize>(), any::<usize>()), 1..30),
        prop::collection::vec(any::<usize>(), 1..4),
        any::<bool>(),
    )
        .prop_map(|(dtype, shapes, ops, roots, donate)| Recipe { dtype, shapes, ops, roots, donate })
}

fn apply(prim: impl Into<Prim>, inputs: &[&Value]) -> Value {
    let inputs: Vec<Value> = inputs.iter().map(|&v| v.clone()).collect();
    Lazy.apply1(prim.into(), &inputs).unwrap()
}

fn elementwise(op: Elementwise, inputs: &[&Value]) -> Value {
    apply(Prim::Elementwise(op), inputs)
}

fn movement(movement: Movement, x: &Value) -> Value {
    apply(Prim::Movement(movement), &[x])
}

/// `y` under the dtype and shape of `x`, by its largest element if it does not broadcast.
fn like(y: &Value, x: &Value) -> Option<Value> {
    let mut y = y.clone();
    let shape = x.ty().shape.clone();
    if y.ty().dtype != x.ty().dtype {
        y = elementwise(Elementwise::Cast(x.ty().dtype), &[&y]);
    }
    if y.ty().numel() == numel(&shape) {
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
    let largest = apply(Prim::Reduce(Reduce::Fold { op: ReduceOp::Max, axes }), &[&y]);
    let largest = movement(Movement::Reshape { shape: Dims::new() }, &largest);
    Some(movement(Movement::Broadcast { shape }, &largest))
}

fn numel(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Keeps magnitudes from exploding.
fn small(x: &Value) -> Value {
    match x.ty().dtype.is_float() {
        true => elementwise(Elementwise::Unary(UnaryOp::Tanh), &[x]),
        false => x.clone(),
    }
}

fn op_of(op: u8, x: Value, y: Value, c: usize) -> Option<Value> {
    let shape = x.ty().shape.clone();
    let (rank, is_float) = (shape.len(), x.ty().dtype.is_float());
    let axis = if rank > 0 { c % rank } else { 0 };
    Some(match op {
        0 | 1 => {
            let floats = [UnaryOp::Tanh, UnaryOp::Sigmoid, UnaryOp::Sin, UnaryOp::Silu, UnaryOp::Gelu];
            let any = [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Relu];
            let op = if is_float && c.is_multiple_of(2) { floats[c / 2 % 5] } else { any[c / 2 % 3] };
            elementwise(Elementwise::Unary(op), &[&x])
        }
        2..=5 => {
            let op = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min][c % 5];
            let y = like(&y, &x)?;
            elementwise(Elementwise::Binary(op), &[&x, &if op == BinaryOp::Mul { small(&y) } else { y }])
        }
        6 => {
            let value = Scalar::Int([0, 1, -1, 2, 300][c % 5]);
            let scalar = Value::constant(value, x.ty().dtype).unwrap();
            let op = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Min][c / 6 % 3];
            elementwise(Elementwise::Binary(op), &[&x, &like(&scalar, &x)?])
        }
        7 => {
            let y = like(&y, &x)?;
            let op = if is_float { BinaryOp::Ge } else { BinaryOp::Lt };
            // Floats are compared with a number far from their rounding.
            let limit = if is_float {
                like(&Value::constant(0.1234567.into(), x.ty().dtype).unwrap(), &x)?
            } else {
                y.clone()
            };
            let condition = elementwise(Elementwise::Binary(op), &[&x, &limit]);
            // Continuous at the limit, so that rounding cannot choose another value.
            let (then, otherwise) = if is_float { (x.clone(), limit) } else { (y, x.clone()) };
            elementwise(Elementwise::Select, &[&condition, &then, &otherwise])
        }
        8 if rank > 0 => {
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
        10 if rank > 0 => movement(Movement::Flip { axes: [axis].into_iter().collect() }, &x),
        11 if rank > 0 && shape[axis] > 0 => {
            let (mut starts, mut steps) = (Dims::from_elem(0, rank), Dims::from_elem(1, rank));
            starts[axis] = c / 4 % shape[axis];
            steps[axis] = 1 + c / 16 % 2;
            movement(Movement::Slice { starts, stops: shape, steps }, &x)
        }
        12 if rank > 0 => {
            let zero = || Dims::from_elem(0, rank);
            let (mut low, mut high, mut interior) = (zero(), zero(), zero());
            low[axis] = c / 4 % 2;
            high[(axis + c / 8) % rank] = c / 16 % 3;
            interior[axis] = c / 64 % 2;
            movement(Movement::Pad { low, high, interior }, &x)
        }
        13 if rank > 0 => {
            let y = like(&y, &x)?;
            apply(Prim::Movement(Movement::Concat { axis }), &[&x, &y, &x])
        }
        14 | 15 if rank > 0 => {
            let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum][c % 4];
            let axes: Dims = (0..rank).filter(|axis| (c >> (axis + 3)) & 1 == 1).collect();
            if op != ReduceOp::Sum && axes.iter().any(|&a| shape[a] == 0) {
                return None;
            }
            apply(Prim::Reduce(Reduce::Fold { op, axes }), &[&x])
        }
        16 if rank >= 2 && is_float => {
            let mut axes: Dims = (0..rank).collect();
            axes.swap(rank - 1, rank - 2);
            let y = movement(Movement::Permute { axes }, &small(&like(&y, &x)?));
            apply(Prim::Contract(Contract::MatMul { out: x.ty().dtype }), &[&x, &y])
        }
        17 if rank >= 1 && is_float => apply(Prim::Norm(Norm::Softmax), &[&x]),
        _ => return None,
    })
}

fn program(recipe: &Recipe) -> (Vec<Value>, Vec<Value>) {
    let parameters: Vec<Value> = (recipe.shapes.iter())
        .filter(|shape| numel(shape) <= 3000)
        .map(|shape| Value::leaf(TensorType::new(recipe.dtype, shape)).unwrap())
        .collect();
    let mut values = parameters.clone();
    for &(op, a, b, c) in recipe.ops.iter().filter(|_| !parameters.is_empty()) {
        // Recent values more often than old ones, so that chains grow.
        let pick =
            |choice: usize| values[values.len() - 1 - (choice % values.len()).min(choice / 7 % 5)].clone();
        let (x, y) = (pick(a), pick(b));
        values.extend(op_of(op, x, y, c).filter(|value| value.ty().numel() <= 3000));
    }
    let count = values.len().max(1);
    let root = |&root: &usize| values.get(count - 1 - root % count).cloned();
    (parameters, recipe.roots.iter().filter_map(root).collect())
}

/// An error is relative to the largest value on the way, not to what a difference left of it.
fn magnitude(roots: &[Value], bindings: &[(Value, HostTensor)]) -> f64 {
    let nodes = lanthorn_ir::graph::topological(roots, |_| false);
    let values: Vec<Value> =
        nodes.iter().flat_map(lanthorn_ir::Node::outputs).filter(|v| !v.is_leaf()).collect();
    let tensors = eval(&values, bindings).unwrap();
    let elements = tensors.iter().flat_map(HostTensor::to_f64).filter(|x| x.is_finite());
    elements.fold(1.0, |largest: f64, x| largest.max(x.abs()))
}

/// More by `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(crate::RANDOM_PROGRAMS)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_equal_the_reference(recipe in recipes()) {
        let (parameters, roots) = program(&recipe);
        if parameters.is_empty() {
            return Ok(());
        }
        let mut s = Sequence::new(31);
        let arguments: Vec<HostTensor> =
            parameters.iter().map(|leaf| s.tensor(leaf.ty().dtype, &leaf.ty().shape)).collect();
        let bindings: Vec<_> = parameters.iter().cloned().zip(arguments.iter().cloned()).collect();
        let expected = eval(&roots, &bindings).unwrap();
        let precision = if recipe.dtype == DType::F64 { 1e-11 } else { 3e-5 };
        let within = precision * magnitude(&roots, &bindings);
        let mut donated = Vec::new();
        if recipe.donate {
            // Each argument to the first result of its type that is left.
            let mut left: Vec<u32> = (0..roots.len() as u32).collect();
            for (argument, parameter) in parameters.iter().enumerate() {
                if let Some(result) = left.iter().position(|&r| roots[r as usize].ty() == parameter.ty()) {
                    donated.push((argument as u32, left.remove(result)));
                }
            }
        }
        for optimize in [false, true] {
            let options = Options { optimize, donated: donated.clone(), ..Options::default() };
            let program = build(&parameters, &roots, &options).unwrap();
            let found = program.run(&arguments).unwrap();
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let close = match expected.ty().dtype.is_float() {
                    false => found == expected,
                    true => found.to_f64().iter().zip(expected.to_f64()).all(|(&a, b)| {
                        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= within
                    }),
                };
                prop_assert!(
                    close,
                    "result {} ({}), optimize {}:\n{:?}\nexpected\n{:?}\n{}",
                    at, found.ty(), optimize, found.to_f64(), expected.to_f64(), program.compiled.plan
                );
            }
        }
    }
}
