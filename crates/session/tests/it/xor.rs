//! The program that every face runs, through raw calls, held against the committed losses.

use lanthorn_ir::DType;
use lanthorn_ir::ops::table::id_of;
use lanthorn_runtime::Device;
use lanthorn_session::Raw;
use lanthorn_session::raw::{SCRATCH, STATS};

use super::support::device;

const F32: f64 = DType::F32.code() as f64;

struct Calls {
    raw: Raw<Device>,
    scratch: Vec<f64>,
}

impl Calls {
    fn put(&mut self, numbers: &[f64]) {
        self.scratch[..numbers.len()].copy_from_slice(numbers);
    }

    fn create(&mut self, shape: &[f64], elements: &[f32], flags: f64) -> f64 {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_ne_bytes()).collect();
        self.put(&[&[shape.len() as f64], shape].concat());
        self.raw.create(&mut self.scratch, F32, flags, &bytes).unwrap()
    }

    fn op(&mut self, name: &str, tensors: &[f64], attributes: &[f64]) -> f64 {
        self.put(&[&[tensors.len() as f64], tensors, attributes].concat());
        self.raw.op(&mut self.scratch, id_of(name).unwrap() as f64).unwrap()
    }

    fn item(&mut self, tensor: f64) -> f64 {
        self.raw.read(tensor).unwrap().1.item().unwrap()
    }
}

#[test]
fn the_losses_are_those_of_the_reference() {
    let known: Vec<(i32, f64)> = include_str!("../../../../examples/xor/losses.txt")
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(step, loss)| (step.parse().unwrap(), loss.parse().unwrap()))
        .collect();
    assert_eq!(known.len(), 12);
    let mut calls = Calls { raw: Raw::new(device()), scratch: vec![0.0; SCRATCH] };
    let x = calls.create(&[4., 2.], &[0., 0., 0., 1., 1., 0., 1., 1.], 0.);
    let y = calls.create(&[4., 1.], &[0., 1., 1., 0.], 0.);
    calls.raw.seed(7.).unwrap();
    calls.put(&[2., 2., 8.]);
    let w1 = calls.raw.random(&mut calls.scratch, 0., F32, -1., 1.).unwrap();
    calls.put(&[2., 8., 1.]);
    let w2 = calls.raw.random(&mut calls.scratch, 0., F32, -1., 1.).unwrap();
    let (b1, b2) = (calls.create(&[8.], &[0.; 8], 0.), calls.create(&[1.], &[0.], 0.));
    let parameters = [w1, b1, w2, b2];
    for parameter in parameters {
        calls.raw.requires_grad(parameter, 1.).unwrap();
    }
    let moments: Vec<[f64; 2]> =
        parameters.iter().map(|&p| [0, 1].map(|_| calls.op("zeros_like", &[p], &[]))).collect();

    let mut shown = known.iter().peekable();
    for step in 1..=2000 {
        let hidden = calls.op("matmul", &[x, w1], &[]);
        let shifted = calls.op("add", &[hidden, b1], &[]);
        let active = calls.op("tanh", &[shifted], &[]);
        let output = calls.op("matmul", &[active, w2], &[]);
        let output2 = calls.op("add", &[output, b2], &[]);
        let loss = calls.op("mse_loss", &[output2, y], &[6., 0.]);
        calls.raw.backward(loss, 0.).unwrap();
        assert_eq!(calls.raw.no_grad(1.).unwrap(), 1.);
        let correction = |beta: f64| (1. - beta.powi(step)) as f32;
        let controls =
            [0.01, correction(0.9), correction(0.999)].map(|control| calls.create(&[], &[control], 0.));
        for (&parameter, moment) in parameters.iter().zip(&moments) {
            let grad = calls.raw.grad(parameter).unwrap();
            let tensors = [&[parameter, grad, moment[0], moment[1]][..], &controls].concat();
            let attributes = [1., 0.9, 1., 0.999, 1., 1e-8, 1., 0.];
            assert_eq!(calls.op("adamw", &tensors, &attributes), 3.);
            let updated = [calls.scratch[0], calls.scratch[1], calls.scratch[2]];
            for (target, source) in [parameter, moment[0], moment[1]].into_iter().zip(updated) {
                calls.raw.copy(target, source).unwrap();
                calls.raw.release(source).unwrap();
            }
            calls.raw.release(grad).unwrap();
            calls.raw.set_grad(parameter, 0.).unwrap();
        }
        assert_eq!(calls.raw.no_grad(-1.).unwrap(), 0.);
        if let Some((_, expected)) = shown.next_if(|(at, _)| *at == step) {
            let found = calls.item(loss);
            assert!((found - expected).abs() < 1e-6, "step {step}: {found}, expected {expected}");
        }
        for handle in [hidden, shifted, active, output, output2, loss].into_iter().chain(controls) {
            calls.raw.release(handle).unwrap();
        }
    }
    assert!(shown.next().is_none());
    let count = calls.raw.stats(&mut calls.scratch).unwrap() as usize;
    assert_eq!(count, STATS.len());
    let stat = |name: &str| calls.scratch[STATS.iter().position(|stat| *stat == name).unwrap()];
    assert_eq!((stat("handles"), stat("cells")), (14., 14.));
    // With and without the loss among the results, and the first steps.
    assert!(stat("executables") <= 6., "{}", stat("executables"));
}
