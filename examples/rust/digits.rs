//! Trains a small convolutional network to read handwritten digits and tells how many it reads that it has not seen.
//!
//!     cargo run --release --package lanthorn --example digits

use lanthorn::CancelToken;
use lanthorn::nn::optim::Optimizer;
use lanthorn::nn::sampler::Batches;
use lanthorn::nn::sequential::*;
use lanthorn::nn::trainer::{Callback, Every, Fit, Flow};
use lanthorn::nn::{Dataset, Evaluation, HostTensor, Metric, Model, Schedule, Trainer, TrainerConfig, stack};
use lanthorn::prelude::*;

/// 1,797 times 64 pixels from 0 to 16 and a digit; see `examples/data/README.md`.
const DIGITS: &[u8] = include_bytes!("../data/digits.bin");
const BATCH: usize = 32;
const EPOCHS: u64 = 8;

fn main() -> Result<()> {
    let accuracy = train(EPOCHS)?;
    println!("reads {:.1} % of the digits that it has not seen", 100.0 * accuracy);
    Ok(())
}

/// Trains on four of five digits; the share of the others that the network reads.
fn train(epochs: u64) -> Result<f64> {
    let model = Sequential::new(stack![
        conv2d(1, 16, 3).same().without_bias(),
        batch_norm(16),
        Activation::Relu,
        max_pool2d(2),
        conv2d(16, 32, 3).same().without_bias(),
        batch_norm(32),
        Activation::Relu,
        max_pool2d(2),
        Flatten,
        dropout(0.2),
        linear(32 * 2 * 2, 10),
    ])?;
    let digits = digits(|number| number % 5 != 0)?;
    let steps = epochs * digits.len().div_ceil(BATCH) as u64;
    let config = TrainerConfig {
        optimizer: Optimizer::adamw(),
        schedule: Schedule::Cosine { peak: 5e-3, floor: 1e-4, warmup: 20, total: steps },
        seed: 1,
        ..TrainerConfig::default()
    };
    let mut trainer = Trainer::new(&Device::cpu(), model, config)?;
    let mut batches = Batches::shuffled(digits, BATCH, 1)?;
    let held_out = self::digits(|number| number % 5 == 0)?.batches(120)?;
    let fit =
        Fit { evaluate: Some(Every::Epochs(1)), metrics: vec![Metric::Accuracy], ..Fit::epochs(epochs) };
    let history = trainer.fit(&mut batches, &held_out, &fit, &mut Curve, &CancelToken::never())?;
    let last = history.evaluations.last().and_then(|found| found.metric(Metric::Accuracy));
    Ok(last.unwrap_or_default())
}

/// Draws the held-out loss as it falls.
struct Curve;

impl<M: Model> Callback<M> for Curve {
    fn on_evaluation(&mut self, _: &Trainer<M>, found: &Evaluation) -> Result<Flow> {
        let bar = "#".repeat((found.loss * 40.0).clamp(1.0, 60.0) as usize);
        let accuracy = 100.0 * found.metric(Metric::Accuracy).unwrap_or_default();
        println!("step {:4}  loss {:.4}  accuracy {accuracy:5.1} %  {bar}", found.step, found.loss);
        Ok(Flow::Continue)
    }
}

/// Images `f32[n, 1, 8, 8]` from 0 to 1 and labels `i64[n]` of the digits that are chosen by number.
fn digits(chosen: impl Fn(usize) -> bool) -> Result<Dataset> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for (_, digit) in DIGITS.chunks_exact(65).enumerate().filter(|(number, _)| chosen(*number)) {
        pixels.extend(digit[..64].iter().map(|&ink| f32::from(ink) / 16.0));
        labels.push(i64::from(digit[64]));
    }
    let count = labels.len();
    let images = HostTensor::from_f32(&[count, 1, 8, 8], pixels)?;
    Dataset::new(images, HostTensor::from_i64(&[count], labels)?)
}

#[test]
fn it_reads_most_digits_that_it_has_not_seen() {
    let accuracy = train(3).unwrap();
    assert!(accuracy > 0.95, "{accuracy}");
}
