//! Where a function has no derivative, ours is the one that torch takes; `kinks.py` writes what that is.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::ops::table::{Attribute, call};
use lanthorn_ir::{DType, Lazy, Value, ops, transform};
use serde_json::Value as Json;

fn numbers(json: &Json, shape: &mut Vec<usize>, depth: usize, out: &mut Vec<f64>) {
    match json {
        Json::Array(items) => {
            if shape.len() == depth {
                shape.push(items.len());
            }
            items.iter().for_each(|item| numbers(item, shape, depth + 1, out));
        }
        Json::String(text) => out.push(text.parse().unwrap()),
        other => out.push(other.as_f64().unwrap()),
    }
}

fn tensor(json: &Json) -> HostTensor {
    let (mut shape, mut elements) = (Vec::new(), Vec::new());
    numbers(json, &mut shape, 0, &mut elements);
    HostTensor::from_f64(DType::F64, &shape, &elements).unwrap()
}

#[test]
fn derivatives_at_kinks_are_those_of_torch() {
    let rows: Vec<Json> = serde_json::from_str(include_str!("kinks.json")).unwrap();
    assert!(rows.len() > 40);
    let mut wrong = Vec::new();
    for row in &rows {
        let op = row["op"].as_str().unwrap();
        let operands: Vec<HostTensor> = row["tensors"].as_array().unwrap().iter().map(tensor).collect();
        let attributes: Vec<Attribute> = (row["attributes"].as_array().unwrap().iter())
            .map(|v| match v.as_str() {
                Some(text) => Attribute::Text(text.into()),
                None => Attribute::Float(v.as_f64().unwrap()),
            })
            .collect();
        let leaves: Vec<Value> = operands.iter().map(|t| Value::leaf(t.ty().clone()).unwrap()).collect();
        let tensors: Vec<Option<&Value>> = leaves.iter().map(Some).collect();
        let result = call(&Lazy, op, &tensors, &attributes).unwrap_or_else(|e| panic!("{e}"));
        let total = ops::sum(&Lazy, &result[0], &[], false).unwrap();
        let grads = transform::grad(&total, &leaves).unwrap();
        let bindings: Vec<_> = leaves.into_iter().zip(operands).collect();
        let found = eval(&grads, &bindings).unwrap();
        for (operand, (found, expected)) in found
            .iter()
            .zip(row["gradients"].as_array().unwrap())
            .enumerate()
            .filter(|(_, (_, e))| !e.is_null())
        {
            let (found, expected) = (found.to_f64(), tensor(expected).to_f64());
            // torch's 1e-12 in binary_cross_entropy is one of f32.
            let close = |(x, y): (&f64, &f64)| {
                x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-8 * (1.0 + y.abs())
            };
            if found.len() != expected.len() || !found.iter().zip(&expected).all(close) {
                wrong.push(format!("{op}, operand {operand}: {found:?}, torch has {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// torch takes the line's curvature at 0, whatever the slopes are.
#[test]
fn exponential_units_have_no_curvature_at_zero() {
    let units: [(&str, &[Attribute], f64); 4] = [
        ("elu", &[Attribute::Float(1.3)], 1.3),
        ("elu", &[], 1.0),
        ("selu", &[], 1.758_099_340_847_376_6),
        ("celu", &[Attribute::Float(0.7)], 1.0),
    ];
    for (op, attributes, slope) in units {
        let x = HostTensor::from_f64(DType::F64, &[3], &[0.0, -0.0, 1.0]).unwrap();
        let leaf = Value::leaf(x.ty().clone()).unwrap();
        let y = call(&Lazy, op, &[Some(&leaf)], attributes).unwrap();
        let sum = |v: &Value| ops::sum(&Lazy, v, &[], false).unwrap();
        let first = transform::grad(&sum(&y[0]), std::slice::from_ref(&leaf)).unwrap();
        let second = transform::grad(&sum(&first[0]), std::slice::from_ref(&leaf)).unwrap();
        let found = eval(&[first[0].clone(), second[0].clone()], &[(leaf, x)]).unwrap();
        assert!((found[0].to_f64()[0] - slope).abs() < 1e-12, "{op}: {:?}", found[0].to_f64());
        assert_eq!(found[1].to_f64(), [0.0; 3], "{op}");
    }
}
