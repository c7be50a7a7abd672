//! Trains a small network to read handwritten digits and tells how many it reads that it has not seen.
//!
//!     cargo run --release --package lanthorn --example digits

use lanthorn::prelude::*;

/// 1,797 times 64 pixels from 0 to 16 and a digit; see `examples/data/README.md`.
const DIGITS: &[u8] = include_bytes!("../../../examples/data/digits.bin");
const BATCH: usize = 32;
const EPOCHS: usize = 40;

fn main() -> Result<()> {
    let (right, count) = train()?;
    println!("reads {right} of {count} digits that it has not seen: {:.1} %", 100.0 * right / count);
    Ok(())
}

/// Trains on four of five digits; how many of the others the network reads, and how many they are.
fn train() -> Result<(f64, f64)> {
    let device = Device::cpu();
    device.manual_seed(1);
    let (images, labels) = digits(&device, |number| number % 5 != 0)?;
    let mut network = vec![
        (Tensor::randn(&device, &[64, 64], DType::F32)? * 0.15)?,
        Tensor::zeros(&device, &[64], DType::F32)?,
        (Tensor::randn(&device, &[10, 64], DType::F32)? * 0.15)?,
        Tensor::zeros(&device, &[10], DType::F32)?,
    ];

    // One step of gradient descent: the network, its images and their labels to the next network and the loss.
    // The next network takes the memory of the last one, unless its loss is no number.
    let step = compile(|a| {
        let (network, images, labels) = (&a[..4], &a[4], &a[5]);
        let loss = |w: &[Tensor]| read(w, images)?.cross_entropy(labels, Reduction::Mean, None);
        let (loss, grads) = value_and_grad(loss, network)?;
        let next = network.iter().zip(&grads).map(|(w, g)| w - g * 0.5);
        next.chain([Ok(loss)]).collect()
    })
    .donate(&[(0, 0), (1, 1), (2, 2), (3, 3)])
    .finite(&[4]);

    for epoch in 1..=EPOCHS {
        let mut total = 0.0;
        let batches = images.shape()[0] / BATCH;
        for batch in 0..batches {
            let start = (batch * BATCH) as isize;
            network.push(images.narrow(0, start, BATCH)?);
            network.push(labels.narrow(0, start, BATCH)?);
            network = step.call(&network)?;
            total += network.pop().map_or(Ok(f64::NAN), |loss| loss.item())?;
        }
        println!("epoch {epoch:2}  loss {:.4}", total / batches as f64);
    }

    let (images, labels) = digits(&device, |number| number % 5 == 0)?;
    let right = read(&network, &images)?.argmax(Some(-1), false)?.eq(&labels)?;
    Ok((right.cast(DType::F32)?.sum(&[], false)?.item()?, labels.numel() as f64))
}

/// The scores of ten digits for each image, by one hidden layer.
fn read(network: &[Tensor], images: &Tensor) -> Result<Tensor> {
    let hidden = images.linear(&network[0], Some(&network[1]))?.relu()?;
    hidden.linear(&network[2], Some(&network[3]))
}

/// Images `f32[n, 64]` from 0 to 1 and labels `i64[n]` of the digits that are chosen by number.
fn digits(device: &Device, chosen: impl Fn(usize) -> bool) -> Result<(Tensor, Tensor)> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for (_, digit) in DIGITS.chunks_exact(65).enumerate().filter(|(number, _)| chosen(*number)) {
        pixels.extend(digit[..64].iter().map(|&ink| f32::from(ink) / 16.0));
        labels.push(i64::from(digit[64]));
    }
    let count = labels.len();
    Ok((Tensor::from_vec(device, &[count, 64], pixels)?, Tensor::from_vec(device, &[count], labels)?))
}

#[test]
fn it_reads_most_digits_that_it_has_not_seen() {
    let (right, count) = train().unwrap();
    assert!(right / count > 0.95, "{right} of {count}");
}
