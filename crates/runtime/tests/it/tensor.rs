//! Lazy tensors: commits, structure, gradients, printing.

use lanthorn_ir::ops::Reduction;
use lanthorn_ir::{DType, ErrorKind, TensorType};
use lanthorn_runtime::{Device, Tensor, differentiable_grad, grad, realise, value_and_grad};
use serde_json::Value as Json;

use super::device;

fn tensor(device: &Device, elements: &[f32]) -> Tensor {
    Tensor::from_slice(device, &[elements.len()], elements).unwrap()
}

#[test]
fn nothing_runs_until_a_tensor_is_read() {
    let device = device();
    let x = tensor(&device, &[1.0, 2.0]);
    let y = ((&x + &x).unwrap() * 3.0).unwrap();
    assert_eq!(device.stats().kernels, 0);
    assert_eq!(y.to_vec::<f32>().unwrap(), [6.0, 12.0]);
    let calls = device.stats().calls;
    assert_eq!(y.to_vec::<f32>().unwrap(), [6.0, 12.0]);
    assert_eq!(device.stats().calls, calls);
}

#[test]
fn one_commit_is_one_program() {
    let device = device();
    let x = tensor(&device, &[1.0, 4.0]);
    let (a, b) = (x.sqrt().unwrap(), x.exp().unwrap());
    realise(&[&a, &b, &x, &a]).unwrap();
    assert_eq!(device.stats().calls, 1);
    assert_eq!(a.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(device.stats().calls, 1);
}

#[test]
fn ten_thousand_rebuilt_steps_run_one_executable_in_flat_memory() {
    let device = device();
    let mut w = tensor(&device, &[0.0, 2.0]);
    let x = Tensor::from_slice(&device, &[4, 2], &[1f32; 8]).unwrap();
    let mut live = 0;
    for step in 0..10_000usize {
        // A moving slice and a decaying rate are arguments, not structure.
        let row = x.select(0, (step % 4) as isize).unwrap();
        let rate = 0.1 / (1.0 + step as f64);
        let (loss, grads) = value_and_grad(|w| w[0].mse_loss(&row, Reduction::Sum), &[&w]).unwrap();
        w = w.sub(&grads[0].mul_scalar(rate).unwrap()).unwrap();
        realise(&[&w, &loss]).unwrap();
        if step == 10 {
            live = device.stats().live_bytes;
        }
        assert!(step < 10 || device.stats().live_bytes == live);
    }
    assert_eq!(device.stats().executables, 1);
    assert!(w.to_vec::<f32>().unwrap().iter().all(|v| (v - 1.0).abs() < 0.2));
}

#[test]
fn reading_a_loss_first_does_not_lose_its_gradient() {
    let device = device();
    let w = tensor(&device, &[3.0]).requires_grad().unwrap();
    let hidden = w.square().unwrap();
    assert_eq!(hidden.item().unwrap(), 9.0);
    let loss = hidden.mul(&w).unwrap().sum(&[], false).unwrap();
    assert_eq!(loss.item().unwrap(), 27.0);
    assert_eq!(grad(&loss, &[&w]).unwrap()[0].item().unwrap(), 27.0);
}

#[test]
fn no_gradient_passes_a_detached_tensor() {
    let device = device();
    let w = tensor(&device, &[3.0]).requires_grad().unwrap();
    let constant = w.square().unwrap().detach().unwrap();
    assert!(!constant.is_tracked());
    let loss = constant.mul(&w).unwrap().sum(&[], false).unwrap();
    assert_eq!(device.stats().calls, 0);
    let g = grad(&loss, &[&w]).unwrap().remove(0);
    assert_eq!(g.item().unwrap(), 9.0);
    assert_eq!(device.stats().calls, 1);
    assert_eq!(loss.item().unwrap(), 27.0);
}

#[test]
fn gradients_are_constants_unless_asked_otherwise() {
    let device = device();
    let w = tensor(&device, &[3.0]).requires_grad().unwrap();
    let cube = w.square().unwrap().mul(&w).unwrap().sum(&[], false).unwrap();
    let first = grad(&cube, &[&w]).unwrap().remove(0);
    assert!(grad(&first, &[&w]).is_err());
    let first = differentiable_grad(&cube, &[&w]).unwrap().remove(0);
    assert_eq!(grad(&first, &[&w]).unwrap()[0].item().unwrap(), 18.0);
    // The same by nesting functions.
    let (value, second) = value_and_grad(
        |w| {
            let (_, first) = value_and_grad(|w| w[0].square()?.mul(&w[0])?.sum(&[], false), w)?;
            first[0].sum(&[], false)
        },
        &[&tensor(&device, &[3.0])],
    )
    .unwrap();
    assert_eq!((value.item().unwrap(), second[0].item().unwrap()), (27.0, 18.0));
}

#[test]
fn gradients_of_what_nobody_declared_are_refused() {
    let device = device();
    let w = tensor(&device, &[3.0]);
    let loss = w.square().unwrap().sum(&[], false).unwrap();
    assert!(grad(&loss, &[&w]).unwrap_err().to_string().contains("requires_grad"));
    let v = w.requires_grad().unwrap();
    assert!(grad(&loss, &[&v]).is_err());
    let loss = v.square().unwrap().sum(&[], false).unwrap();
    assert!(grad(&loss, &[&v, &w]).is_err());
    let unused = tensor(&device, &[1.0, 1.0]).requires_grad().unwrap();
    assert_eq!(grad(&loss, &[&unused]).unwrap()[0].to_vec::<f32>().unwrap(), [0.0, 0.0]);
}

#[test]
fn a_long_chain_of_pending_updates_needs_no_deep_stack() {
    let device = device();
    let mut w = tensor(&device, &[1.0]);
    for _ in 0..300 {
        let (_, grads) = value_and_grad(|w| w[0].square()?.sum(&[], false), &[&w]).unwrap();
        w = w.sub(&grads[0].mul_scalar(0.01).unwrap()).unwrap();
    }
    let expected = 0.98f64.powi(300);
    assert!((w.item().unwrap() - expected).abs() < 1e-5);
    // Without gradients there is no bound on the chain.
    let mut x = tensor(&device, &[1.0]);
    for _ in 0..2_000 {
        x = x.neg().unwrap();
    }
    assert_eq!(x.item().unwrap(), 1.0);
}

#[test]
fn random_tensors_differ_and_repeat_by_seed() {
    let device = device();
    device.manual_seed(7);
    let x = Tensor::randn(&device, &[1000], DType::F32).unwrap();
    let y = Tensor::randn(&device, &[1000], DType::F32).unwrap();
    let first = x.to_vec::<f32>().unwrap();
    assert_eq!(first, x.to_vec::<f32>().unwrap());
    assert_ne!(first, y.to_vec::<f32>().unwrap());
    let mean = first.iter().sum::<f32>() / 1000.0;
    assert!(mean.abs() < 0.1, "{mean}");
    device.manual_seed(7);
    assert_eq!(first, Tensor::randn(&device, &[1000], DType::F32).unwrap().to_vec::<f32>().unwrap());
    assert_eq!(device.stats().executables, 1);
    let kept = x.dropout(0.5).unwrap().to_vec::<f32>().unwrap().iter().filter(|v| **v != 0.0).count();
    assert!((400..600).contains(&kept), "{kept}");
}

#[test]
fn errors_name_the_op_and_what_would_be_right() {
    let device = device();
    let (x, y) = (tensor(&device, &[1.0, 2.0]), tensor(&device, &[1.0, 2.0, 3.0]));
    let error = (&x + &y).unwrap_err();
    assert!(error.to_string().starts_with("add: shapes [2] and [3] do not broadcast"), "{error}");
    let ids = Tensor::from_slice(&device, &[1], &[1i32]).unwrap();
    let error = ids.add_scalar(2.5).unwrap_err();
    assert!(error.to_string().starts_with("add_scalar: the scalar 2.5 is not a whole number"), "{error}");
    assert_eq!(x.to_vec::<f64>().unwrap_err().kind, ErrorKind::Dtype);
    assert_eq!(x.item().unwrap_err().kind, ErrorKind::Shape);
    let elsewhere = tensor(&super::device(), &[1.0, 2.0]);
    assert_eq!((&x + &elsewhere).unwrap_err().kind, ErrorKind::Device);
    assert_eq!((&x + &elsewhere.to_device(&device).unwrap()).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn tensors_print_as_in_pytorch() {
    let device = device();
    let show = |x: &Tensor| {
        let text = x.to_string();
        let named = format!(", device={}", x.device().name());
        assert_eq!(text.contains(&named), x.device().name() != "cpu", "{text}");
        text.replace(&named, "")
    };
    let rows: Vec<Json> = serde_json::from_str(include_str!("printed.json")).unwrap();
    assert!(rows.len() > 80);
    for row in &rows {
        let dtype = DType::from_name(row["dtype"].as_str().unwrap()).unwrap();
        let shape: Vec<usize> = serde_json::from_value(row["shape"].clone()).unwrap();
        let count = shape.iter().product();
        let elements: Vec<f64> = match &row["elements"] {
            Json::Array(items) => items.iter().flat_map(parts).collect(),
            _ => (0..count).map(|at| at as f64).collect(),
        };
        let flat = match dtype.is_complex() {
            true => {
                let part = if dtype == DType::C64 { DType::F32 } else { DType::F64 };
                let pairs = Tensor::from_slice(&device, &[elements.len() / 2, 2], &elements).unwrap();
                pairs.cast(part).unwrap().as_complex().unwrap()
            }
            false => {
                let whole = Tensor::from_slice(&device, &[elements.len()], &elements).unwrap();
                whole.cast(dtype).unwrap()
            }
        };
        let flat = if flat.numel() == 1 { flat.broadcast_to(&[count]).unwrap() } else { flat };
        assert_eq!(show(&flat.reshape(&shape.iter().map(|&n| n as isize).collect::<Vec<_>>()).unwrap()), row["text"].as_str().unwrap());
    }
    let small = tensor(&device, &[0.5, -1.0, 1e6]).cast(DType::F8E4M3).unwrap();
    assert_eq!(show(&small), "tensor([  0.5000,  -1.0000, 448.0000], dtype=f8e4m3)");
    let vast = Tensor::zeros(&device, &[1 << 60], DType::F32).unwrap();
    assert_eq!(show(&vast), "tensor([0., 0., 0.,  ..., 0., 0., 0.])");
}

/// The numbers of an element of `printed.json`.
fn parts(element: &Json) -> Vec<f64> {
    match element {
        Json::Array(items) => items.iter().flat_map(parts).collect(),
        Json::Bool(value) => vec![f64::from(u8::from(*value))],
        Json::String(text) => vec![text.parse().unwrap()],
        other => vec![other.as_f64().unwrap()],
    }
}

/// Without `size`, what a result's shape depends on is read when the op is called; derivatives pass.
#[test]
fn shapes_that_depend_on_values_are_counted() {
    let device = device();
    let x = tensor(&device, &[3.0, 0.0, 1.0, 3.0]);
    let twice = x.mul_scalar(2.0).unwrap();
    assert_eq!(twice.nonzero(None, -1).unwrap().to_vec::<i64>().unwrap(), [0, 2, 3]);
    assert_eq!(x.argwhere(None).unwrap().shape(), [3, 1]);
    let parts = x.unique(None, None, 0.0).unwrap();
    assert_eq!(parts[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 3.0]);
    assert_eq!(parts[2].to_vec::<i64>().unwrap(), [1, 1, 2]);
    assert_eq!(x.unique_consecutive(None, None, 0.0).unwrap()[0].shape(), [4]);
    let ids = x.cast(DType::I64).unwrap();
    assert_eq!(ids.bincount(None, None).unwrap().to_vec::<i64>().unwrap(), [1, 1, 0, 2]);
    assert_eq!(x.repeat_counts(&ids, 0, None).unwrap().shape(), [7]);
    let negative = Tensor::from_slice(&device, &[4], &[1i64, -2, 3, 0]).unwrap();
    let error = x.repeat_counts(&negative, 0, None).unwrap_err();
    assert!(error.op == "repeat_counts" && error.message.contains("-2"), "{error}");

    let v = x.requires_grad().unwrap();
    let chosen = v.masked_select(&v.gt_scalar(0.5).unwrap(), None, 0.0).unwrap();
    let loss = chosen.square().unwrap().sum(&[], false).unwrap();
    assert_eq!(loss.item().unwrap(), 19.0);
    assert_eq!(grad(&loss, &[&v]).unwrap()[0].to_vec::<f32>().unwrap(), [6.0, 0.0, 2.0, 6.0]);

    let error = Tensor::call("take", &[Some(&x), Some(&negative.sub_scalar(5i64).unwrap())], &[]).unwrap();
    let error = error[0].to_vec::<f32>().unwrap_err();
    assert!(error.message.contains("-7"), "{error}");
}

/// Whatever the dtype and the shape, there is a text.
#[test]
fn printing_never_panics() {
    let device = device();
    let shapes: [&[usize]; 9] =
        [&[], &[0], &[1], &[7], &[2, 0, 3], &[3, 4], &[1001], &[7, 150], &[1, 1, 1, 2, 1, 500, 2]];
    for dtype in DType::ALL {
        for shape in shapes {
            let x = Tensor::ones(&device, shape, dtype).unwrap();
            let text = x.to_string();
            assert!(text.starts_with("tensor(") && text.ends_with(')'), "{dtype} {shape:?}: {text}");
            assert!(!text.contains("expected") && text.len() < 4000, "{dtype} {shape:?}: {text}");
        }
    }
    let deep = Tensor::ones(&device, &[1; 70], DType::F32).unwrap().to_string();
    assert!(deep.contains("70 axes"), "{deep}");
}

#[test]
fn truth_values_of_other_bytes_are_true() {
    let device = device();
    let mask = Tensor::from_bytes(&device, &TensorType::new(DType::Bool, [4]), &[0, 1, 2, 255]).unwrap();
    assert_eq!(mask.to_bytes().unwrap(), [0, 1, 1, 1]);
    assert_eq!(mask.sum(&[], false).unwrap().item().unwrap(), 3.0);
}

/// Rounding 24 random bits to a half type would give 1 now and then.
#[test]
fn random_numbers_of_half_types_stay_below_their_end() {
    let device = device();
    for (dtype, parts) in [(DType::F16, 2048.0), (DType::BF16, 256.0)] {
        let x = Tensor::rand(&device, &[60_000], dtype).unwrap();
        let values = x.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
        assert!(values.iter().all(|x| (0.0..1.0).contains(x) && (x * parts).fract() == 0.0), "{dtype}");
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5 + 0.5 / parts).abs() < 0.01, "{dtype}: {mean}");
        let wide = Tensor::uniform(&device, &[20_000], 3.0, 5.0, dtype, 0).unwrap();
        let wide = wide.cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
        assert!(wide.iter().all(|x| (3.0..5.0).contains(x)), "{dtype}");
    }
}

#[test]
fn complex_tensors_are_computed_with() {
    let device = device();
    let z = Tensor::from_slice(&device, &[2], &[[1f32, 2.0], [3.0, -4.0]]).unwrap();
    let product = (&z * &z.conj().unwrap()).unwrap();
    assert_eq!(product.to_vec::<[f32; 2]>().unwrap(), [[5.0, 0.0], [25.0, 0.0]]);
    assert_eq!(z.abs().unwrap().to_vec::<f32>().unwrap()[1], 5.0);
    let pairs = z.as_real().unwrap();
    assert_eq!((pairs.shape(), pairs.dtype()), (&[2usize, 2][..], DType::F32));
    assert_eq!(pairs.as_complex().unwrap().to_vec::<[f32; 2]>().unwrap(), z.to_vec::<[f32; 2]>().unwrap());
    let turned = Tensor::from_slice(&device, &[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap().transpose(0, 1).unwrap();
    // The parts do not lie side by side: a copy.
    assert_eq!(turned.as_complex().unwrap().to_vec::<[f32; 2]>().unwrap(), [[1.0, 3.0], [2.0, 4.0]]);
    let w = z.requires_grad().unwrap();
    let loss = w.abs().unwrap().square().unwrap().sum(&[], false).unwrap();
    let grads = grad(&loss, &[&w]).unwrap();
    assert_eq!(grads[0].to_vec::<[f32; 2]>().unwrap(), [[2.0, 4.0], [6.0, -8.0]]);
}

#[test]
fn joins_and_optional_operands_are_methods_too() {
    let device = device();
    let x = Tensor::from_slice(&device, &[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    let parts = x.chunk(2, 0).unwrap();
    assert_eq!(parts[1].to_vec::<f32>().unwrap(), [3.0, 4.0]);
    assert_eq!(Tensor::stack(&parts, 0).unwrap().shape(), [2, 1, 2]);
    assert_eq!(Tensor::concat(&[&x, &x], 1).unwrap().shape(), [2, 4]);
    let y = x.linear(&x, None).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [5.0, 11.0, 11.0, 25.0]);
    let normed = x.layer_norm(None, Some(&tensor(&device, &[1.0, 1.0])), 0.0).unwrap();
    assert_eq!(normed.to_vec::<f32>().unwrap(), [0.0, 2.0, 0.0, 2.0]);
}

#[test]
fn threads_share_tensors() {
    let device = device();
    let x = tensor(&device, &[1.0, 2.0]);
    let y = x.exp().unwrap().log().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let sum = y.add(&x).unwrap().sum(&[], false).unwrap().item().unwrap();
                assert!((sum - 6.0).abs() < 1e-5);
            });
        }
    });
}

#[test]
fn nonsense_arguments_are_refused_by_the_op_that_got_them() {
    let device = device();
    let x = tensor(&device, &[1.0, 2.0, 3.0]);
    let image = x.reshape(&[1, 1, 3]).unwrap();
    let ids = Tensor::from_slice(&device, &[3], &[1i64, 2, 3]).unwrap();
    let scaled = |scale: f64| {
        image.interpolate(&[], Some(scale), lanthorn_ir::ops::Interpolation::Nearest, false).unwrap_err()
    };
    let complex = Tensor::from_slice(&device, &[1], &[[1f32, 2.0]]).unwrap();
    let errors = [
        ("uniform", Tensor::uniform(&device, &[2], 0.0, 1.0, DType::I64, 0).unwrap_err(), "i64"),
        ("uniform", Tensor::uniform(&device, &[2], 1.0, 0.0, DType::F32, 0).unwrap_err(), "1..0"),
        ("uniform", Tensor::uniform(&device, &[2], f64::NAN, 0.0, DType::F32, 0).unwrap_err(), "NaN"),
        ("uniform", Tensor::uniform(&device, &[2], 0.0, f64::INFINITY, DType::F32, 0).unwrap_err(), "inf"),
        ("normal", Tensor::normal(&device, &[2], 0.0, 1.0, DType::Bool, 0).unwrap_err(), "bool"),
        ("normal", Tensor::normal(&device, &[2], 0.0, -1.0, DType::F32, 0).unwrap_err(), "-1"),
        ("bernoulli", Tensor::bernoulli(&device, &[2], 1.5, 0).unwrap_err(), "1.5"),
        ("mvlgamma", x.mvlgamma(1 << 40).unwrap_err(), "10000"),
        ("interpolate", scaled(-1.0), "the scale is -1,"),
        ("interpolate", scaled(f64::NAN), "the scale is NaN,"),
        ("interpolate", scaled(1e300), "cannot be made"),
        ("from_slice", Tensor::from_slice(&device, &[2], &[1f32]).unwrap_err(), "got 1"),
        ("zeros", Tensor::zeros(&device, &[usize::MAX, 2], DType::F32).unwrap_err(), ""),
        ("full", Tensor::full(&device, &[2], 0.5, DType::I64).unwrap_err(), "0.5"),
        ("item", complex.item().unwrap_err(), "real"),
        ("requires_grad", ids.requires_grad().unwrap_err(), "i64"),
    ];
    for (op, error, wanted) in errors {
        assert!(error.op == op && error.message.contains(wanted), "{op}: {error}");
        assert!(!error.message.contains("Some("), "{op}: {error}");
    }
}
