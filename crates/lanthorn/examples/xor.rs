//! Learns exclusive or and prints losses: the program that every face of the engine runs, with the same numbers.
//!
//!     cargo run --release --package lanthorn --example xor -- [--device cpu]
//!
//! With `--features gpu` there is also `--device gpu`.
//!
//! `examples/xor/losses.txt` holds what it prints, and `examples/xor/reference.py` computes it with NumPy.

use lanthorn::prelude::*;

/// The steps whose losses are printed.
const SHOWN: [usize; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1500, 2000];
const RATE: f64 = 0.01;
const BETAS: [f64; 2] = [0.9, 0.999];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let device = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => Device::cpu(),
        (Some("--device"), Some(name)) => match name.as_str() {
            "cpu" => Device::cpu(),
            #[cfg(feature = "gpu")]
            "gpu" => Device::gpu()?,
            other => Device::get(other)?,
        },
        _ => return Err(Error::unsupported("xor", "takes --device and a name, such as cpu")),
    };
    for (step, loss) in train(&device)? {
        println!("{step} {loss:.8e}");
    }
    Ok(())
}

/// Trains; the losses of the steps in [`SHOWN`], each as it was before the step's update.
pub fn train(device: &Device) -> Result<Vec<(usize, f64)>> {
    let x = Tensor::from_slice(device, &[4, 2], &[0f32, 0., 0., 1., 1., 0., 1., 1.])?;
    let y = Tensor::from_slice(device, &[4, 1], &[0f32, 1., 1., 0.])?;
    device.manual_seed(7);
    let uniform = |shape: &[usize]| (Tensor::rand(device, shape, DType::F32)? * 2.0)? - 1.0;
    let zeros = |shape: &[usize]| Tensor::zeros(device, shape, DType::F32);
    // Parameters, then their first and second moments.
    let mut state = vec![uniform(&[2, 8])?, zeros(&[8])?, uniform(&[8, 1])?, zeros(&[1])?];
    for at in 0..8 {
        state.push(zeros(state[at % 4].shape())?);
    }

    // A step takes the state, the inputs, the targets and three controls of Adam; it gives the next state and the
    // loss.
    let step = compile(|a| {
        let (x, y, controls) = (&a[12], &a[13], [&a[14], &a[15], &a[16]]);
        let loss = |w: &[Tensor]| {
            let hidden = (x.matmul(&w[0])? + &w[1])?.tanh()?;
            ((hidden.matmul(&w[2])? + &w[3])? - y)?.square()?.mean(&[], false)
        };
        let (loss, grads) = value_and_grad(loss, &a[..4])?;
        let mut next = [Vec::new(), Vec::new(), Vec::new()];
        for (at, grad) in grads.iter().enumerate() {
            let updated = a[at].adamw(grad, [&a[4 + at], &a[8 + at]], controls, BETAS, 1e-8, 0.0)?;
            for (list, tensor) in next.iter_mut().zip(updated) {
                list.push(tensor);
            }
        }
        let mut results = next.concat();
        results.push(loss);
        Ok(results)
    });

    let mut losses = Vec::new();
    for number in 1..=2000 {
        let correction = |beta: f64| 1.0 - beta.powi(number);
        state.extend([x.clone(), y.clone()]);
        for control in [RATE, correction(BETAS[0]), correction(BETAS[1])] {
            state.push(Tensor::scalar(device, control, DType::F32)?);
        }
        state = step.call(&state)?;
        let loss = state.pop().map_or(Ok(f64::NAN), |loss| loss.item())?;
        if SHOWN.contains(&(number as usize)) {
            losses.push((number as usize, loss));
        }
    }
    Ok(losses)
}

#[test]
fn the_losses_are_those_of_the_reference() {
    let known = include_str!("../../../examples/xor/losses.txt");
    let known: Vec<Vec<f64>> =
        known.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect();
    let losses = train(&Device::cpu()).unwrap();
    assert_eq!(losses.len(), known.len());
    for ((step, loss), known) in losses.iter().zip(&known) {
        assert_eq!(*step as f64, known[0]);
        assert!((loss - known[1]).abs() < 1e-6, "step {step}: {loss}, expected {}", known[1]);
    }
}
