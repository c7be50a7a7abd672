//! Derivatives against finite differences in f64, and forward against reverse mode.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::{DType, Lazy, Result, Value, ops, transform};

use crate::report::{Checked, close};
use crate::sequence::Sequence;
use crate::{Case, text};

/// Central differences are off by its square and by the rounding of values over it.
const STEP: f64 = 1e-5;
/// Elements of one operand that are moved one by one; of a larger one, these many spread over it, and all at once.
const MOVED: usize = 24;

/// How far finite differences may be from the first and the second derivative.
pub const FIRST: f64 = 1e-7;
pub const SECOND: f64 = 1e-6;

/// A scalar function of the f64 operands: what finite differences and gradients are compared on.
pub struct Objective {
    inputs: Vec<Value>,
    bindings: Vec<(Value, HostTensor)>,
    /// The operands in which derivatives are taken.
    floats: Vec<usize>,
    value: Value,
}

impl Objective {
    /// The results of a case weighted by fixed numbers, so that every element counts.
    pub fn of(case: &Case) -> Result<Objective> {
        let operands = case.operands();
        let (inputs, outputs) = case.graph(&operands)?;
        let mut bindings: Vec<_> = inputs.iter().cloned().zip(operands).collect();
        let value = weighted_sum(&outputs, 31, &mut bindings)?;
        let floats = (0..inputs.len()).filter(|&i| inputs[i].ty().dtype == DType::F64).collect();
        Ok(Objective { inputs, bindings, floats, value })
    }

    fn wrt(&self) -> Vec<Value> {
        self.floats.iter().map(|&i| self.inputs[i].clone()).collect()
    }

    /// The weighted gradient as the function.
    pub fn derivative(mut self) -> Result<Objective> {
        let grads = transform::grad(&self.value, &self.wrt())?;
        self.value = weighted_sum(&grads, 77, &mut self.bindings)?;
        Ok(self)
    }

    /// Holds the gradient against finite differences.
    pub fn check(&self, tolerance: f64) -> Checked {
        let grads = transform::grad(&self.value, &self.wrt()).map_err(text)?;
        let found = eval(&grads, &self.bindings).map_err(text)?;
        for (&input, found) in self.floats.iter().zip(&found) {
            let found = found.to_f64();
            let n = found.len();
            let count = n.min(MOVED);
            let places: Vec<usize> = (0..count).map(|i| i * n / count).collect();
            let mut directions: Vec<Vec<f64>> = (places.iter())
                .map(|&place| (0..n).map(|i| if i == place { 1.0 } else { 0.0 }).collect())
                .collect();
            if n > MOVED {
                let mut s = Sequence::new(3);
                directions.push((0..n).map(|_| s.uniform(-1.0, 1.0) / (n as f64).sqrt()).collect());
            }
            for (at, direction) in directions.iter().enumerate() {
                let slope: f64 =
                    found.iter().zip(direction).filter(|(_, d)| **d != 0.0).map(|(g, d)| g * d).sum();
                let moved = |step: f64| self.moved(input, direction, step).map_err(text);
                let expected = (moved(STEP)? - moved(-STEP)?) / (2.0 * STEP);
                let place = places.get(at).map_or("one direction".to_string(), |p| format!("element {p}"));
                close(&format!("derivative in operand {input}, {place}"), &[slope], &[expected], tolerance)?;
            }
        }
        Ok(())
    }

    /// The function's value after a step of one operand.
    fn moved(&self, input: usize, direction: &[f64], step: f64) -> Result<f64> {
        let mut bindings = self.bindings.clone();
        let base = bindings[input].1.to_f64();
        let moved: Vec<f64> = base.iter().zip(direction).map(|(x, d)| x + step * d).collect();
        bindings[input].1 = HostTensor::from_f64(DType::F64, &self.inputs[input].ty().shape, &moved)?;
        Ok(eval(std::slice::from_ref(&self.value), &bindings)?[0].to_f64()[0])
    }
}

/// Float outputs weighted by fresh leaves, which are bound, and summed in f64.
pub fn weighted_sum(outputs: &[Value], seed: u64, bindings: &mut Vec<(Value, HostTensor)>) -> Result<Value> {
    let mut s = Sequence::new(seed);
    let mut total = ops::scalar(&Lazy, 0.0, DType::F64)?;
    for output in outputs.iter().filter(|output| output.ty().dtype.is_float()) {
        let weights = s.tensor(&output.ty().shape, 0.5, 1.5)?;
        let leaf = Value::leaf(weights.ty().clone())?;
        bindings.push((leaf.clone(), weights));
        let wide = ops::cast(&Lazy, output, DType::F64)?;
        let term = ops::sum(&Lazy, &ops::mul(&Lazy, &wide, &leaf)?, &[], false)?;
        total = ops::add(&Lazy, &total, &term)?;
    }
    Ok(total)
}

/// Gradients against finite differences, where the case promises one derivative or more.
pub fn check_first(case: &Case) -> Checked {
    Objective::of(case).map_err(text)?.check(FIRST.max(case.tolerance))
}

/// Second derivatives against finite differences, where the case promises two.
pub fn check_second(case: &Case) -> Checked {
    Objective::of(case).and_then(Objective::derivative).map_err(text)?.check(SECOND.max(case.tolerance))
}

/// `<ct, J t> = <J^T ct, t>` for the op; where it has two derivatives, for its gradient too.
pub fn check_transposes(case: &Case) -> Checked {
    let operands = case.operands();
    let (leaves, outputs) = case.graph(&operands).map_err(text)?;
    let bindings: Vec<_> = leaves.iter().cloned().zip(operands).collect();
    let is_float = |value: &&Value| value.ty().dtype.is_float();
    let inputs: Vec<Value> = leaves.iter().filter(is_float).cloned().collect();
    let outputs: Vec<Value> = outputs.iter().filter(is_float).cloned().collect();
    transposes(&outputs, &inputs, &bindings)?;
    if case.orders >= 2 {
        let objective = Objective::of(case).map_err(text)?;
        let wrt = objective.wrt();
        let grads = transform::grad(&objective.value, &wrt).map_err(text)?;
        transposes(&grads, &wrt, &objective.bindings).map_err(|e| format!("of the gradient: {e}"))?;
    }
    Ok(())
}

fn transposes(outputs: &[Value], inputs: &[Value], bindings: &[(Value, HostTensor)]) -> Checked {
    let mut bindings = bindings.to_vec();
    let mut s = Sequence::new(5);
    let mut fresh = |like: &Value| -> Result<Value> {
        let tensor = s.tensor(&like.ty().shape, -1.0, 1.0)?;
        let leaf = Value::leaf(like.ty().clone())?;
        let numbers = tensor.data().iter();
        bindings.push((leaf.clone(), HostTensor::collect(like.ty(), numbers)?));
        Ok(leaf)
    };
    let tangents = inputs.iter().map(&mut fresh).collect::<Result<Vec<_>>>().map_err(text)?;
    let cotangents = outputs.iter().map(&mut fresh).collect::<Result<Vec<_>>>().map_err(text)?;
    let forward = transform::jvp(outputs, inputs, &tangents).map_err(text)?;
    let reverse = transform::vjp(outputs, &cotangents, inputs).map_err(text)?;
    let inner = |xs: &[Value], ys: &[Option<Value>]| -> std::result::Result<f64, String> {
        let mut total = 0.0;
        for (x, y) in xs.iter().zip(ys) {
            let Some(y) = y else { continue };
            if x.ty() != y.ty() {
                return Err(format!("a derivative is {}, expected {}", y.ty(), x.ty()));
            }
            let values = eval(&[x.clone(), y.clone()], &bindings).map_err(text)?;
            let products = values[0].to_f64().into_iter().zip(values[1].to_f64());
            total += products.map(|(a, b)| a * b).sum::<f64>();
        }
        Ok(total)
    };
    let (forward, reverse) = (inner(&cotangents, &forward)?, inner(&tangents, &reverse)?);
    // Operands in narrow types round on the way.
    let narrow = inputs.iter().chain(outputs).any(|value| value.ty().dtype != DType::F64);
    close("forward against reverse", &[forward], &[reverse], if narrow { 1e-2 } else { 1e-9 })
}
