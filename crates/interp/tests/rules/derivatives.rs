//! Derivatives against finite differences in f64, forward against reverse, checkpoints against none.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::graph::topological;
use lanthorn_ir::{DType, Lazy, Result, Value, ops, transform};

use crate::cases::{self, Case};
use crate::support::{Sequence, assert_close, leaf_of};

const STEP: f64 = 1e-5;

/// A scalar function of the float inputs: what finite differences and gradients are compared on.
struct Objective {
    inputs: Vec<Value>,
    bindings: Vec<(Value, HostTensor)>,
    floats: Vec<usize>,
    value: Value,
}

impl Objective {
    /// The outputs of a case weighted by fixed numbers, so that every output counts.
    fn of(case: &Case) -> Result<Objective> {
        let inputs: Vec<Value> = case.inputs.iter().map(leaf_of).collect();
        let outputs = (case.f)(&inputs)?;
        let mut bindings: Vec<_> = inputs.iter().cloned().zip(case.inputs.iter().cloned()).collect();
        let value = weighted_sum(&outputs, 31, &mut bindings)?;
        let floats = (0..inputs.len()).filter(|&i| inputs[i].ty().dtype.is_float()).collect();
        Ok(Objective { inputs, bindings, floats, value })
    }

    fn wrt(&self) -> Vec<Value> {
        self.floats.iter().map(|&i| self.inputs[i].clone()).collect()
    }

    /// The same with the weighted gradient as its value.
    fn derivative(mut self) -> Result<Objective> {
        let grads = transform::grad(&self.value, &self.wrt())?;
        self.value = weighted_sum(&grads, 77, &mut self.bindings)?;
        Ok(self)
    }

    fn check(&self, name: &str, tolerance: f64) -> Result<()> {
        let grads = transform::grad(&self.value, &self.wrt())?;
        let found = eval(&grads, &self.bindings)?;
        for (&input, found) in self.floats.iter().zip(&found) {
            let base = self.bindings[input].1.to_f64();
            let mut expected = Vec::new();
            for element in 0..base.len() {
                let at = |step: f64| -> Result<f64> {
                    let mut moved = base.clone();
                    moved[element] += step;
                    let mut bindings = self.bindings.clone();
                    bindings[input].1 =
                        HostTensor::from_f64(DType::F64, self.inputs[input].ty().shape.as_ref(), &moved)?;
                    Ok(eval(std::slice::from_ref(&self.value), &bindings)?[0].to_f64()[0])
                };
                expected.push((at(STEP)? - at(-STEP)?) / (2.0 * STEP));
            }
            assert_close(&format!("{name}, input {input}"), &found.to_f64(), &expected, tolerance);
        }
        Ok(())
    }
}

fn weighted_sum(outputs: &[Value], seed: u64, bindings: &mut Vec<(Value, HostTensor)>) -> Result<Value> {
    let mut s = Sequence::new(seed);
    let mut total = ops::scalar(&Lazy, 0.0, DType::F64)?;
    for output in outputs.iter().filter(|output| output.ty().dtype.is_float()) {
        let weights = s.tensor(&output.ty().shape, 0.5, 1.5);
        let leaf = leaf_of(&weights);
        bindings.push((leaf.clone(), weights));
        let term = ops::sum(&Lazy, &ops::mul(&Lazy, output, &leaf)?, &[], false)?;
        total = ops::add(&Lazy, &total, &term)?;
    }
    Ok(total)
}

#[test]
fn gradients_agree_with_finite_differences() {
    for case in cases::all() {
        let objective = Objective::of(&case).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        objective.check(&case.name, 1e-7).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    }
}

#[test]
fn second_derivatives_agree_with_finite_differences() {
    for case in cases::all().into_iter().filter(|case| case.orders >= 2) {
        let checked = Objective::of(&case)
            .and_then(Objective::derivative)
            .and_then(|objective| objective.check(&format!("second derivative of {}", case.name), 1e-6));
        checked.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    }
}

/// `<ct, J t> = <J^T ct, t>`.
#[test]
fn forward_and_reverse_derivatives_are_transposes() {
    for case in cases::all() {
        let run = || -> Result<(f64, f64)> {
            let inputs: Vec<Value> = case.inputs.iter().map(leaf_of).collect();
            let outputs = (case.f)(&inputs)?;
            let mut bindings: Vec<_> = inputs.iter().cloned().zip(case.inputs.iter().cloned()).collect();
            let mut s = Sequence::new(5);
            let mut fresh = |like: &Value| {
                let tensor = s.tensor(&like.ty().shape, -1.0, 1.0);
                let leaf = leaf_of(&tensor);
                bindings.push((leaf.clone(), tensor));
                leaf
            };
            let is_float = |value: &&Value| value.ty().dtype.is_float();
            let inputs: Vec<Value> = inputs.iter().filter(is_float).cloned().collect();
            let outputs: Vec<Value> = outputs.iter().filter(is_float).cloned().collect();
            let tangents: Vec<Value> = inputs.iter().map(&mut fresh).collect();
            let cotangents: Vec<Value> = outputs.iter().map(&mut fresh).collect();
            let forward = transform::jvp(&outputs, &inputs, &tangents)?;
            let reverse = transform::vjp(&outputs, &cotangents, &inputs)?;
            let inner = |xs: &[Value], ys: &[Option<Value>]| -> Result<f64> {
                let mut total = 0.0;
                for (x, y) in xs.iter().zip(ys) {
                    if let Some(y) = y {
                        assert_eq!(x.ty(), y.ty(), "{}", case.name);
                        let values = eval(&[x.clone(), y.clone()], &bindings)?;
                        let products = values[0].to_f64().into_iter().zip(values[1].to_f64());
                        total += products.map(|(a, b)| a * b).sum::<f64>();
                    }
                }
                Ok(total)
            };
            Ok((inner(&cotangents, &forward)?, inner(&tangents, &reverse)?))
        };
        let (forward, reverse) = run().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_close(&case.name, &[forward], &[reverse], 1e-10);
    }
}

/// A checkpoint computes again: its backward holds a second copy of the body, behind barriers.
#[test]
fn a_checkpoint_recomputes_behind_a_barrier() {
    let x = crate::support::leaf(DType::F32, &[4]);
    let f = |x: &[Value]| Ok(vec![ops::exp(&Lazy, &ops::sin(&Lazy, &x[0])?)?]);
    let y = transform::checkpoint(f, std::slice::from_ref(&x)).unwrap();
    let loss = ops::sum(&Lazy, &y[0], &[], false).unwrap();
    let grads = transform::grad(&loss, std::slice::from_ref(&x)).unwrap();
    let order = topological(&grads, |_| false);
    let count = |name: &str| order.iter().filter(|node| node.prim().name() == name).count();
    assert_eq!((count("barrier"), count("sin"), count("checkpoint")), (1, 1, 0));
}

/// Gradients of what is not wanted are not built.
#[test]
fn the_reverse_pass_builds_only_what_is_wanted() {
    let (x, w) = (crate::support::leaf(DType::F32, &[2, 3]), crate::support::leaf(DType::F32, &[4, 3]));
    let y = ops::linear(&Lazy, &x, &w, None).unwrap();
    let loss = ops::sum(&Lazy, &y, &[], false).unwrap();
    let grads = transform::grad(&loss, std::slice::from_ref(&w)).unwrap();
    let order = topological(&grads, |_| false);
    assert_eq!(order.iter().filter(|node| node.prim().name() == "matmul").count(), 1);
    assert!(!order.iter().any(|node| node.prim().name() == "add"));
}
