//! A training step of a small transformer, through decompositions and with kernels of its own.

use std::collections::{HashMap, HashSet};

use lanthorn_ir::graph::topological;
use lanthorn_ir::prim::Applied;
use lanthorn_ir::{DType, Lazy, Node, TensorType, Value, ops};

use super::naive::Naive;
use super::{check_indexed, indexed, leaf};
use crate::kernel::KernelKind;
use crate::pipeline::{Options, compile};

/// The cotangents of `wrt` for a scalar loss.
fn gradients(loss: &Value, wrt: &[Value]) -> Vec<Value> {
    let mut cotangents = HashMap::from([(loss.key(), ops::ones_like(&Lazy, loss).unwrap())]);
    let order = topological(std::slice::from_ref(loss), |_| false);
    let mut needed: HashSet<u64> = wrt.iter().map(|v| v.node().id()).collect();
    for node in &order {
        if node.inputs().iter().any(|v| needed.contains(&v.node().id())) {
            needed.insert(node.id());
        }
    }
    for node in order.iter().rev().filter(|node| needed.contains(&node.id()) && !node.inputs().is_empty()) {
        let outputs = Node::outputs(node);
        let found: Vec<Option<Value>> = outputs.iter().map(|o| cotangents.get(&o.key()).cloned()).collect();
        let wanted: Vec<bool> = node.inputs().iter().map(|v| needed.contains(&v.node().id())).collect();
        let at = Applied { inputs: node.inputs(), outputs: &outputs, wanted: &wanted };
        let inputs = node.prim().vjp(&Lazy, &at, &found).unwrap();
        for ((input, cotangent), _) in node.inputs().iter().zip(inputs).zip(&wanted).filter(|(_, w)| **w) {
            let Some(cotangent) = cotangent else { continue };
            let sum = match cotangents.get(&input.key()) {
                Some(other) => ops::add(&Lazy, other, &cotangent).unwrap(),
                None => cotangent,
            };
            cotangents.insert(input.key(), sum);
        }
    }
    wrt.iter().map(|v| cotangents[&v.key()].clone()).collect()
}

struct Step {
    arguments: Vec<Value>,
    results: Vec<Value>,
    options: Options,
}

const LAYERS: usize = 2;

/// Loss and squared norm of the gradients, then `[p', m', v']` of each parameter in its argument's memory.
fn training_step(dtype: DType) -> Step {
    let (batch, time, width, heads, classes) = (2, 4, 8, 2, 5);
    let sizes = [batch, time, heads, width / heads].map(|d| d as isize);
    let cast = |v: &Value| ops::cast(&Lazy, v, dtype).unwrap();
    let wide = |v: &Value| ops::cast(&Lazy, v, DType::F32).unwrap();
    let mut parameters: Vec<Value> = Vec::new();
    let mut parameter = |shape: &[usize]| {
        parameters.push(leaf(shape));
        parameters[parameters.len() - 1].clone()
    };
    let targets = Value::leaf(TensorType::new(DType::U8, [batch, time])).unwrap();
    let half = ops::full(&Lazy, &[batch, time], 4i64, DType::U8).unwrap();
    // The sampled targets reach 11.
    let labels = ops::div(&Lazy, &targets, &half).unwrap();
    let input = leaf(&[batch, time, width]);
    let mut x = input.clone();
    for _ in 0..LAYERS {
        let (weight, bias) = (parameter(&[width]), parameter(&[width]));
        let y = ops::layer_norm(&Lazy, &x, Some(&weight), Some(&bias), 1e-5).unwrap();
        let (weight, bias) = (parameter(&[3 * width, width]), parameter(&[3 * width]));
        let qkv = ops::linear(&Lazy, &cast(&y), &cast(&weight), Some(&cast(&bias))).unwrap();
        let parts = ops::chunk(&Lazy, &qkv, 3, 2).unwrap();
        let [q, k, v] = [0, 1, 2].map(|at| ops::reshape(&Lazy, &parts[at], &sizes).unwrap());
        let y = ops::attention(&Lazy, &q, &k, &v, true, None, None).unwrap();
        let y = ops::flatten(&Lazy, &y, 2, 3).unwrap();
        let (weight, bias) = (parameter(&[width, width]), parameter(&[width]));
        let y = ops::linear(&Lazy, &y, &cast(&weight), Some(&cast(&bias))).unwrap();
        x = ops::add(&Lazy, &x, &wide(&y)).unwrap();
        let weight = parameter(&[width]);
        let y = ops::rms_norm(&Lazy, &x, Some(&weight), 1e-5).unwrap();
        let (weight, bias) = (parameter(&[4 * width, width]), parameter(&[4 * width]));
        let y = ops::linear(&Lazy, &cast(&y), &cast(&weight), Some(&cast(&bias))).unwrap();
        let y = ops::gelu(&Lazy, &y, ops::GeluApproximate::Tanh).unwrap();
        let (weight, bias) = (parameter(&[width, 4 * width]), parameter(&[width]));
        let y = ops::linear(&Lazy, &y, &cast(&weight), Some(&cast(&bias))).unwrap();
        x = ops::add(&Lazy, &x, &wide(&y)).unwrap();
    }
    let head = parameter(&[classes, width]);
    let logits = ops::linear(&Lazy, &cast(&x), &cast(&head), None).unwrap();
    let loss =
        ops::cross_entropy(&Lazy, &logits, &labels, ops::Reduction::Mean, None, None, 0.0, -1).unwrap();

    let grads = gradients(&loss, &parameters);
    let squares = grads.iter().map(|g| ops::sum(&Lazy, &ops::square(&Lazy, g).unwrap(), &[], false).unwrap());
    let norm = squares.reduce(|sum, square| ops::add(&Lazy, &sum, &square).unwrap()).unwrap();
    let clip = ops::rsqrt(&Lazy, &ops::add_scalar(&Lazy, &norm, 1.0).unwrap()).unwrap();
    let controls = [leaf(&[]), leaf(&[]), leaf(&[])];
    let [lr, bias1, bias2] = controls.each_ref().map(|c| {
        // The sampled values may have any sign.
        ops::add_scalar(&Lazy, &ops::square(&Lazy, c).unwrap(), 0.5).unwrap()
    });
    let mut arguments = vec![input, targets];
    arguments.extend(controls);
    let mut results = vec![loss, norm];
    let mut donated = Vec::new();
    for (p, g) in parameters.iter().zip(&grads) {
        let (m, root) = (leaf(&p.ty().shape), leaf(&p.ty().shape));
        let v = ops::square(&Lazy, &root).unwrap();
        let g = ops::mul(&Lazy, g, &clip).unwrap();
        let updated = ops::adamw(&Lazy, p, &g, &m, &v, &lr, &bias1, &bias2, 0.9, 0.95, 1e-3, 0.1).unwrap();
        for (argument, result) in [p.clone(), m, root].into_iter().zip(updated) {
            donated.push((arguments.len() as u32, results.len() as u32));
            arguments.push(argument);
            results.push(result);
        }
    }
    Step { arguments, results, options: Options { donated, finite: vec![0, 1], ..Options::default() } }
}

#[test]
fn a_training_step_through_decompositions_equals_the_reference() {
    let step = training_step(DType::F32);
    check_indexed(&indexed(&step.arguments, &step.results), &step.options);
}

#[test]
fn a_training_step_takes_few_kernels_and_updates_in_place() {
    for dtype in [DType::F32, DType::BF16] {
        let step = training_step(dtype);
        let backend = Naive { capable: true, ..Naive::default() };
        let compiled = compile(&backend, indexed(&step.arguments, &step.results), &step.options).unwrap();
        let plan = &compiled.plan;
        let parameters = step.options.donated.len() / 3;
        let late = &plan.kernels[plan.commit..];
        // One map for each parameter, nothing copied; they write p, m and v.
        assert_eq!(late.len(), parameters, "{plan}");
        assert!(late.iter().all(|k| matches!(k.kind, KernelKind::Map { .. }) && k.outputs.len() == 3));
        let early = &plan.kernels[..plan.commit];
        let count = |wanted: &dyn Fn(&KernelKind) -> bool| early.iter().filter(|k| wanted(&k.kind)).count();
        // Four products a layer and the head, each with two gradients.
        assert_eq!(count(&|kind| matches!(kind, KernelKind::MatMul { .. })), 3 * (4 * LAYERS + 1), "{plan}");
        // Norms, attention and loss, forward and backward.
        assert_eq!(count(&|kind| matches!(kind, KernelKind::Prim(_))), 2 * (3 * LAYERS + 1), "{plan}");
        // In f32 every pointwise op but that on labels, a constant and three scalars has found a product or a
        // reduction; in bf16 parameters and what the norms return are cast.
        let maps = count(&|kind| matches!(kind, KernelKind::Map { .. }));
        assert!(dtype == DType::BF16 || maps == 5, "{maps} maps\n{plan}");
    }
}
