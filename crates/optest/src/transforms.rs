//! `vmap` against a loop, gradients through it in both orders, and checkpoints against none.

use lanthorn_interp::{HostTensor, Number, eval};
use lanthorn_ir::{DType, Lazy, Result, TensorType, Value, ops, transform};

use crate::derivatives::weighted_sum;
use crate::report::{Checked, close, equal};
use crate::{Case, text};

/// How many elements the mapped axis has.
const SIZE: usize = 3;
/// How far a batched kernel may be from the single ones: sums may run in another order.
const ORDER: f64 = 1e-11;

/// The operand, and others like it: floats scaled as a whole, so that what is positive (a number, a matrix) stays
/// so; integers and truth values turned around, a key moved on, a single integer counted down. What the op does not
/// take is the operand once more.
fn variants(case: &Case, operands: &[HostTensor], which: usize) -> Result<Vec<HostTensor>> {
    let tensor = &operands[which];
    let numbers: Vec<Number> = tensor.data().iter().collect();
    let dtype = tensor.ty().dtype;
    let variant = |turn: usize| -> Result<HostTensor> {
        let mut numbers = numbers.clone();
        match &mut numbers[..] {
            _ if dtype.is_float() => {
                let scale = [1.0, 0.9375, 0.875][turn % 3];
                numbers.iter_mut().for_each(|x| *x = Number::Float(x.float() * scale));
            }
            [_, draw] if dtype == DType::U64 => *draw = Number::Int(draw.int() + turn as i128),
            [one] if dtype.is_int() => *one = Number::Int(one.int() - turn as i128),
            [] => {}
            several => {
                let by = turn % several.len();
                several.rotate_left(by);
            }
        }
        HostTensor::collect(tensor.ty(), numbers.into_iter())
    };
    let mut found = vec![tensor.clone()];
    for turn in 1..SIZE {
        let candidate = variant(turn)?;
        let mut operands = operands.to_vec();
        operands[which] = candidate.clone();
        // It must do alone what the op does: give results of the same types.
        let taken = case.reference(&operands).is_ok_and(|results| {
            results.iter().map(HostTensor::ty).eq(case.expected.iter().map(HostTensor::ty))
        });
        found.push(if taken { candidate } else { tensor.clone() });
    }
    Ok(found)
}

fn stacked(tensors: &[HostTensor]) -> Result<HostTensor> {
    let mut shape = vec![tensors.len()];
    shape.extend_from_slice(tensors[0].shape());
    let elements = tensors.iter().flat_map(|t| t.data().iter());
    HostTensor::collect(&TensorType::new(tensors[0].ty().dtype, &shape), elements)
}

fn element(tensor: &HostTensor, turn: usize) -> Result<HostTensor> {
    let ty = TensorType::new(tensor.ty().dtype, &tensor.shape()[1..]);
    let n = ty.numel();
    HostTensor::collect(&ty, (turn * n..(turn + 1) * n).map(|i| tensor.data().get(i)))
}

/// The operands of each turn, and those of the mapped call.
struct Mapped {
    columns: Vec<Vec<HostTensor>>,
    selection: Vec<bool>,
    leaves: Vec<Value>,
    bindings: Vec<(Value, HostTensor)>,
}

impl Mapped {
    fn new(case: &Case, selection: &[bool]) -> Result<Mapped> {
        let operands = case.operands();
        let mut columns = Vec::new();
        let mut arguments = Vec::new();
        for (i, operand) in operands.iter().enumerate() {
            let column =
                if selection[i] { variants(case, &operands, i)? } else { vec![operand.clone(); SIZE] };
            arguments.push(if selection[i] { stacked(&column)? } else { operand.clone() });
            columns.push(column);
        }
        // Each variant is taken alone; together they may not be (ids beyond a shorter axis). Then all are the same.
        let turn = |columns: &[Vec<HostTensor>], turn: usize| -> Vec<HostTensor> {
            columns.iter().map(|column| column[turn].clone()).collect()
        };
        if (0..SIZE).any(|t| case.reference(&turn(&columns, t)).is_err()) {
            columns = operands.iter().map(|operand| vec![operand.clone(); SIZE]).collect();
            for (i, column) in columns.iter().enumerate().filter(|(i, _)| selection[*i]) {
                arguments[i] = stacked(column)?;
            }
        }
        let leaves = arguments.iter().map(|t| Value::leaf(t.ty().clone())).collect::<Result<Vec<Value>>>()?;
        let bindings = leaves.iter().cloned().zip(arguments).collect();
        Ok(Mapped { columns, selection: selection.to_vec(), leaves, bindings })
    }

    fn turn(&self, turn: usize) -> Vec<HostTensor> {
        self.columns.iter().map(|column| column[turn].clone()).collect()
    }
}

/// All operands mapped, then each one alone.
pub fn check_vmap(case: &Case) -> Checked {
    let n = case.operands().len();
    let mut selections = vec![vec![true; n]];
    if n > 1 {
        selections.extend((0..n).map(|only| (0..n).map(|i| i == only).collect()));
    }
    for selection in selections.iter().filter(|_| n > 0) {
        check_mapped(case, selection).map_err(|e| format!("with {selection:?} mapped: {e}"))?;
    }
    Ok(())
}

fn check_mapped(case: &Case, selection: &[bool]) -> Checked {
    let mapped = Mapped::new(case, selection).map_err(text)?;
    let roots = transform::vmap(|v| case.call(&Lazy, v), &mapped.leaves, &mapped.selection).map_err(text)?;
    let found = eval(&roots, &mapped.bindings).map_err(text)?;
    for turn in 0..SIZE {
        let expected = case.reference(&mapped.turn(turn)).map_err(text)?;
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let found = element(found, turn).map_err(text)?;
            equal(&format!("result {at} of turn {turn}"), &found, expected, ORDER.max(case.tolerance))?;
        }
    }
    Ok(())
}

/// The gradient of the mapped op, and the mapped gradient, against gradients one by one.
pub fn check_gradients_under_vmap(case: &Case) -> Checked {
    let n = case.operands().len();
    let mapped = Mapped::new(case, &vec![true; n]).map_err(text)?;
    let is_wanted = |value: &&Value| value.ty().dtype == DType::F64;
    let objective = |v: &[Value], bindings: &mut Vec<(Value, HostTensor)>| -> Result<Value> {
        weighted_sum(&case.call(&Lazy, v)?, 31, bindings)
    };

    // One by one, with the weights that the mapped gradient has in every turn.
    let mut expected: Vec<Vec<HostTensor>> = Vec::new();
    for turn in 0..SIZE {
        let operands = mapped.turn(turn);
        let leaves =
            operands.iter().map(|t| Value::leaf(t.ty().clone())).collect::<Result<Vec<_>>>().map_err(text)?;
        let mut bindings: Vec<_> = leaves.iter().cloned().zip(operands).collect();
        let value = objective(&leaves, &mut bindings).map_err(text)?;
        let wrt: Vec<Value> = leaves.iter().filter(is_wanted).cloned().collect();
        let grads = transform::grad(&value, &wrt).map_err(text)?;
        expected.push(eval(&grads, &bindings).map_err(text)?);
    }

    let mut bindings = mapped.bindings.clone();
    let inner = |v: &[Value]| {
        let value = objective(v, &mut bindings)?;
        transform::grad(&value, &v.iter().filter(is_wanted).cloned().collect::<Vec<_>>())
    };
    let per_turn = transform::vmap(inner, &mapped.leaves, &mapped.selection).map_err(text)?;
    hold("vmap of grad", &per_turn, &bindings, &expected)?;

    let mut bindings = mapped.bindings.clone();
    let losses = |v: &[Value]| Ok(vec![objective(v, &mut bindings)?]);
    let losses = transform::vmap(losses, &mapped.leaves, &mapped.selection).map_err(text)?;
    let total = ops::sum(&Lazy, &losses[0], &[], false).map_err(text)?;
    let wrt: Vec<Value> = mapped.leaves.iter().filter(is_wanted).cloned().collect();
    let grads = transform::grad(&total, &wrt).map_err(text)?;
    hold("grad of vmap", &grads, &bindings, &expected)
}

fn hold(
    what: &str,
    roots: &[Value],
    bindings: &[(Value, HostTensor)],
    expected: &[Vec<HostTensor>],
) -> Checked {
    let found = eval(roots, bindings).map_err(|e| format!("{what}: {e}"))?;
    for (at, found) in found.iter().enumerate() {
        for (turn, expected) in expected.iter().enumerate() {
            let found = element(found, turn).map_err(text)?;
            equal(&format!("{what}, operand {at}, turn {turn}"), &found, &expected[at], 1e-9)?;
        }
    }
    Ok(())
}

/// Values and gradients through a checkpoint equal those without.
pub fn check_checkpoint(case: &Case) -> Checked {
    let operands = case.operands();
    let leaves =
        operands.iter().map(|t| Value::leaf(t.ty().clone())).collect::<Result<Vec<_>>>().map_err(text)?;
    let bindings: Vec<_> = leaves.iter().cloned().zip(operands).collect();
    let run = |outputs: Result<Vec<Value>>| -> std::result::Result<Vec<HostTensor>, String> {
        let mut roots = outputs.map_err(text)?;
        let mut bindings = bindings.clone();
        let wrt: Vec<Value> = leaves.iter().filter(|v| v.ty().dtype.is_float()).cloned().collect();
        if case.orders > 0 && !wrt.is_empty() {
            let value = weighted_sum(&roots, 31, &mut bindings).map_err(text)?;
            roots.extend(transform::grad(&value, &wrt).map_err(text)?);
        }
        eval(&roots, &bindings).map_err(text)
    };
    let plain = run(case.call(&Lazy, &leaves))?;
    let again = run(transform::checkpoint(|v| case.call(&Lazy, v), &leaves))?;
    for (at, (found, expected)) in again.iter().zip(&plain).enumerate() {
        if found.ty() != expected.ty() {
            return Err(format!("result {at} is {}, expected {}", found.ty(), expected.ty()));
        }
        close(&format!("result or gradient {at}"), &found.to_f64(), &expected.to_f64(), 1e-12)?;
    }
    Ok(())
}
