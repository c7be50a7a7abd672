//! Derivatives through complex numbers: torch's gradients, finite differences of first and second order, forward
//! against reverse, and what is refused.

use lanthorn_interp::{HostTensor, Interp, eval};
use lanthorn_ir::ops::table::call;
use lanthorn_ir::{Builder, DType, Lazy, Result, TensorType, Value, ops, transform};
use serde_json::Value as Json;

const GRADIENTS: &str = include_str!("complex_gradients.json");

fn numbers(json: &Json) -> Vec<[f64; 2]> {
    let part = |pair: &Json, at: usize| pair[at].as_f64().unwrap();
    json.as_array().unwrap().iter().map(|pair| [part(pair, 0), part(pair, 1)]).collect()
}

fn leaf(dtype: DType, shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(dtype, shape)).unwrap()
}

/// `sum(real(y) p + imag(y) q)`, of real `y` without the second term.
fn loss<B: Builder>(b: &B, y: &B::Value, p: &B::Value, q: &B::Value) -> Result<B::Value> {
    let weighted = ops::mul(b, &ops::real(b, y)?, p)?;
    let weighted = match b.ty(y).dtype.is_complex() {
        true => ops::add(b, &weighted, &ops::mul(b, &ops::imag(b, y)?, q)?)?,
        false => weighted,
    };
    ops::sum(b, &weighted, &[], false)
}

#[test]
fn gradients_are_those_of_torch() {
    let cases: Vec<Json> = serde_json::from_str(GRADIENTS).unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let name = case["op"].as_str().unwrap();
        let operands: Vec<Vec<[f64; 2]>> = case["operands"].as_array().unwrap().iter().map(numbers).collect();
        let leaves: Vec<Value> = operands.iter().map(|z| leaf(DType::C128, &[z.len()])).collect();
        let given: Vec<Option<&Value>> = leaves.iter().map(Some).collect();
        let y = call(&Lazy, name, &given, &[]).unwrap().remove(0);
        let weights = |key: &str| -> Value {
            let values: Vec<f64> =
                case[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            let values: Vec<Value> =
                values.iter().map(|&v| ops::scalar(&Lazy, v, DType::F64).unwrap()).collect();
            ops::reshape(
                &Lazy,
                &ops::stack(&Lazy, &values, 0).unwrap(),
                &y.ty().shape.iter().map(|&n| n as isize).collect::<Vec<_>>(),
            )
            .unwrap()
        };
        let loss = loss(&Lazy, &y, &weights("p"), &weights("q")).unwrap();
        let grads = transform::grad(&loss, &leaves).unwrap();
        let bindings: Vec<(Value, HostTensor)> = (leaves.iter().zip(&operands))
            .map(|(leaf, z)| (leaf.clone(), HostTensor::from_complex(DType::C128, &[z.len()], z).unwrap()))
            .collect();
        let found = eval(&grads, &bindings).unwrap();
        for (found, expected) in found.iter().zip(case["gradients"].as_array().unwrap()) {
            for (a, b) in found.to_complex().concat().iter().zip(numbers(expected).concat()) {
                assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "{name}: {a} and {b}");
            }
        }
    }
}

type Function = fn(&Lazy, &Value, &Value) -> Result<Value>;

/// Smooth where they are tried.
const FUNCTIONS: &[(&str, Function)] = &[
    ("mul", |b, z, w| ops::mul(b, z, w)),
    ("div", |b, z, w| ops::div(b, z, w)),
    ("pow", |b, z, w| ops::pow(b, z, w)),
    ("exp", |b, z, _| ops::exp(b, z)),
    ("log", |b, z, _| ops::log(b, z)),
    ("sqrt", |b, z, _| ops::sqrt(b, z)),
    ("tanh", |b, z, _| ops::tanh(b, z)),
    ("sin", |b, z, w| ops::sin(b, &ops::mul(b, z, w)?)),
    ("abs", |b, z, w| ops::abs(b, &ops::sub(b, z, w)?)),
    ("angle", |b, z, _| ops::angle(b, z)),
    ("prod", |b, z, _| ops::prod(b, z, &[], false)),
    ("matmul", |b, z, w| ops::matmul(b, &ops::unsqueeze(b, z, 0)?, &ops::unsqueeze(b, w, 1)?)),
    ("where", |b, z, w| {
        let right = ops::gt_scalar(b, &ops::real(b, z)?, 0.0)?;
        ops::where_(b, &right, &ops::square(b, z)?, w)
    }),
];

/// A loss of four real vectors, the parts of `z` and `w`.
fn loss_of(f: Function, parts: &[Value]) -> Value {
    let z = ops::complex(&Lazy, &parts[0], &parts[1]).unwrap();
    let w = ops::complex(&Lazy, &parts[2], &parts[3]).unwrap();
    let y = f(&Lazy, &z, &w).unwrap();
    let (p, q) =
        (ops::scalar(&Lazy, 0.7, DType::F64).unwrap(), ops::scalar(&Lazy, -1.3, DType::F64).unwrap());
    loss(&Lazy, &y, &p, &q).unwrap()
}

/// Points in all quadrants; on the axes too, where formulas turn on a sign.
fn points() -> Vec<Vec<f64>> {
    vec![
        vec![0.8, -0.6, -1.1, 0.9, -0.7],
        vec![0.5, 1.2, -0.4, -0.9, 0.3],
        vec![1.3, 0.4, -0.8, 0.6, -1.2],
        vec![-0.3, 0.9, 0.7, -1.1, 0.2],
    ]
}

#[test]
fn derivatives_agree_with_finite_differences() {
    for (name, f) in FUNCTIONS {
        let parts: Vec<Value> = (0..4).map(|_| leaf(DType::F64, &[5])).collect();
        let loss = loss_of(*f, &parts);
        let grads = transform::grad(&loss, &parts).unwrap();
        // The gradient's weighted sum is a loss for the second order.
        let total = grads.iter().enumerate().map(|(i, g)| {
            let weighted = ops::mul_scalar(&Lazy, g, 0.3 + 0.5 * i as f64).unwrap();
            ops::sum(&Lazy, &weighted, &[], false).unwrap()
        });
        let second = total.reduce(|a, b| ops::add(&Lazy, &a, &b).unwrap()).unwrap();
        let seconds = transform::grad(&second, &parts).unwrap();
        let at = |values: &[Vec<f64>], root: &Value| -> f64 {
            let tensor = |v: &Vec<f64>| HostTensor::from_f64(DType::F64, &[5], v).unwrap();
            let bindings: Vec<_> = parts.iter().cloned().zip(values.iter().map(tensor)).collect();
            eval(std::slice::from_ref(root), &bindings).unwrap()[0].to_f64()[0]
        };
        let tensor = |v: &Vec<f64>| HostTensor::from_f64(DType::F64, &[5], v).unwrap();
        let bindings: Vec<_> = parts.iter().cloned().zip(points().iter().map(tensor)).collect();
        for (order, (root, grads)) in [(&loss, &grads), (&second, &seconds)].into_iter().enumerate() {
            let found = eval(grads, &bindings).unwrap();
            for part in 0..4 {
                for i in 0..5 {
                    let step = |h: f64| {
                        let mut moved = points();
                        moved[part][i] += h;
                        at(&moved, root)
                    };
                    let h = 1e-5;
                    let difference =
                        (8.0 * (step(h) - step(-h)) - (step(2.0 * h) - step(-2.0 * h))) / (12.0 * h);
                    let exact = found[part].to_f64()[i];
                    let close = (exact - difference).abs() < 1e-6 * (1.0 + difference.abs());
                    assert!(close, "{name}, order {}, part {part}, {i}: {exact} and {difference}", order + 1);
                }
            }
        }
    }
}

#[test]
fn the_gradient_of_a_complex_leaf_is_that_of_its_parts() {
    let z = leaf(DType::C128, &[3]);
    let values = [[0.5, -1.0], [-2.0, 0.25], [1.5, 3.0]];
    let square = ops::square(&Lazy, &ops::abs(&Lazy, &z).unwrap()).unwrap();
    let loss = ops::sum(&Lazy, &square, &[], false).unwrap();
    let grads = transform::grad(&loss, std::slice::from_ref(&z)).unwrap();
    let bound = HostTensor::from_complex(DType::C128, &[3], &values).unwrap();
    let found = eval(&grads, &[(z, bound)]).unwrap();
    // Of |z|^2 it is 2 z.
    for (found, z) in found[0].to_complex().iter().zip(values) {
        assert!((found[0] - 2.0 * z[0]).abs() < 1e-12 && (found[1] - 2.0 * z[1]).abs() < 1e-12, "{found:?}");
    }
}

#[test]
fn derivatives_on_axes_and_branch_cuts_are_right() {
    // d sqrt(z) / dz = 1 / (2 sqrt(z)): at -4 on the upper side of the cut -i/4, at 2i and 4 without a cut.
    let z = leaf(DType::C128, &[3]);
    let root = ops::sqrt(&Lazy, &z).unwrap();
    let real = ops::sum(&Lazy, &ops::real(&Lazy, &root).unwrap(), &[], false).unwrap();
    let grads = transform::grad(&real, std::slice::from_ref(&z)).unwrap();
    let bound = HostTensor::from_complex(DType::C128, &[3], &[[-4.0, 0.0], [0.0, 2.0], [4.0, 0.0]]).unwrap();
    let found = eval(&grads, &[(z, bound)]).unwrap()[0].to_complex();
    // The gradient is the conjugate of f'.
    for (found, expected) in found.iter().zip([[0.0, 0.25], [0.25, 0.25], [0.25, 0.0]]) {
        assert!(
            (found[0] - expected[0]).abs() < 1e-12 && (found[1] - expected[1]).abs() < 1e-12,
            "{found:?}"
        );
    }
}

#[test]
fn complex_values_map_and_go_forward() {
    let z = leaf(DType::C128, &[2, 3]);
    let t = leaf(DType::C128, &[2, 3]);
    let f = |z: &Value| ops::div(&Lazy, &ops::exp(&Lazy, z)?, &ops::add_scalar(&Lazy, z, 2.0)?);
    let y = f(&z).unwrap();
    let jvp =
        transform::jvp(std::slice::from_ref(&y), std::slice::from_ref(&z), std::slice::from_ref(&t)).unwrap();
    let forward = jvp[0].clone().unwrap();
    let values = [[0.3, 0.1], [-0.5, 1.0], [1.2, -0.4], [0.0, 0.7], [-1.0, -0.2], [0.6, 0.6]];
    let tangents = [[1.0, 0.0], [0.0, 1.0], [0.5, -0.5], [1.0, 1.0], [-1.0, 0.3], [0.2, 0.9]];
    let bind = |values: &[[f64; 2]]| HostTensor::from_complex(DType::C128, &[2, 3], values).unwrap();
    let found =
        eval(&[forward], &[(z.clone(), bind(&values)), (t, bind(&tangents))]).unwrap()[0].to_complex();
    let h = 1e-6;
    let moved = |by: f64| -> Vec<[f64; 2]> {
        let shifted = values.iter().zip(tangents).map(|(z, t)| [z[0] + by * t[0], z[1] + by * t[1]]);
        eval(std::slice::from_ref(&y), &[(z.clone(), bind(&shifted.collect::<Vec<_>>()))]).unwrap()[0]
            .to_complex()
    };
    for ((found, high), low) in found.iter().zip(moved(h)).zip(moved(-h)) {
        for part in 0..2 {
            let difference = (high[part] - low[part]) / (2.0 * h);
            assert!((found[part] - difference).abs() < 1e-7, "{found:?} and {difference}");
        }
    }
}

#[test]
fn what_complex_numbers_lack_is_refused_by_name() {
    let (z, x) = (leaf(DType::C64, &[2]), leaf(DType::F32, &[2]));
    let says = |found: Result<Value>, op: &str, text: &str| {
        let error = found.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{op}: ")) && error.contains(text), "{error}");
    };
    says(ops::lt(&Lazy, &z, &z), "lt", "c64");
    says(ops::max(&Lazy, &z, &[], false), "max", "c64");
    says(ops::relu(&Lazy, &z), "relu", "c64");
    says(ops::softmax(&Lazy, &z, -1), "softmax", "c64");
    says(ops::add(&Lazy, &z, &x), "add", "cast");
    says(ops::cast(&Lazy, &z, DType::F32), "cast", "real()");
    says(ops::imag(&Lazy, &x), "imag", "f32");
    says(ops::as_real(&Lazy, &x), "as_real", "f32");
    says(ops::as_complex(&Lazy, &leaf(DType::F32, &[3])), "as_complex", "size 2");
    says(ops::as_complex(&Lazy, &leaf(DType::F16, &[2])), "as_complex", "f16");
    says(ops::complex(&Lazy, &x, &leaf(DType::F64, &[2])), "complex", "f64");
    assert_eq!(
        Interp.ty(&HostTensor::from_complex(DType::C64, &[1], &[[1.0, 2.0]]).unwrap()).dtype,
        DType::C64
    );
}
