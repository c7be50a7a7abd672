//! Trains a small GPT on a text and lets it write on.
//!
//!     cargo run --release --package lanthorn --example gpt -- [TEXT] [STEPS]

use lanthorn::io::Tokenizer;
use lanthorn::io::tokenizer::SpecialTokens;
use lanthorn::llm::{GenerationOptions, Generator, Sampling};
use lanthorn::nn::models::gpt::Head;
use lanthorn::nn::optim::Optimizer;
use lanthorn::nn::{Gpt, GptConfig, Schedule, Trainer, TrainerConfig, WindowSampler};
use lanthorn::prelude::*;
use lanthorn::{CancelToken, ErrorKind};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next().unwrap_or("examples/data/pride_and_prejudice.txt".into());
    let steps = arguments.next().map_or(Ok(300), |steps| steps.parse());
    let steps =
        steps.map_err(|_| Error::new(ErrorKind::Io, "gpt", "expected a text and a number of steps"))?;
    let text = lanthorn::io::text::read(text)?;
    let (written, _) = train(&text, 1024, steps, |step, loss| {
        if step.is_multiple_of(20) {
            println!("step {step}: loss {loss:.3} nats a token");
        }
    })?;
    println!("{written}");
    Ok(())
}

/// What the model writes after its training, and the loss of its last step.
fn train(text: &str, vocab: usize, steps: u64, mut told: impl FnMut(u64, f64)) -> Result<(String, f64)> {
    let device = Device::cpu();
    let tokenizer = Tokenizer::train_bpe([text], vocab, &[])?;
    let config = GptConfig {
        vocab: tokenizer.vocab_size(),
        context: 64,
        layers: 2,
        width: 128,
        heads: 4,
        dropout: 0.1,
        head: Head::Tied,
        norm_eps: 1e-5,
    };
    let settings = TrainerConfig {
        optimizer: Optimizer::language_model(),
        schedule: Schedule::Cosine { peak: 3e-3, floor: 3e-4, warmup: steps / 10, total: steps },
        seed: 1,
        ..TrainerConfig::default()
    };
    let mut trainer = Trainer::new(&device, Gpt::new(config.clone())?, settings)?;
    let mut windows = WindowSampler::new(tokenizer.encode(text)?, config.context, 1)?;
    let never = CancelToken::never();
    let mut loss = f64::NAN;
    for step in 1..=steps {
        // Forward, backward and update are one program, compiled for the first batch.
        loss = trainer.step(&windows.next_batch(8)?, &never)?.loss;
        told(step, loss);
    }

    let generator = Generator::new(&device, Gpt::new(config)?, trainer.params().clone())?;
    let options = GenerationOptions {
        max_tokens: 60,
        sampling: Sampling { temperature: 0.8, seed: 1, ..Sampling::default() },
        stop: Vec::new(),
    };
    let prompt = tokenizer.encode("The ")?;
    let written = generator.generate(&prompt, options, &never)?.collect::<Result<Vec<u32>>>()?;
    let all: Vec<u32> = prompt.into_iter().chain(written).collect();
    Ok((tokenizer.decode(&all, SpecialTokens::Skip)?, loss))
}

#[test]
fn it_learns_a_short_text() {
    let text: String = (0..200).map(|i| format!("The {i}th line says {} things. ", i % 7)).collect();
    let mut first = f64::NAN;
    let (written, loss) = train(&text, 300, 20, |step, loss| {
        if step == 1 {
            first = loss;
        }
    })
    .unwrap();
    assert!(written.starts_with("The ") && written.len() > 10, "{written}");
    assert!(loss < first - 1.0, "{first} to {loss}");
}
