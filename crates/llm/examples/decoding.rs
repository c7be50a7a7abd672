//! How long a model takes to read a prompt and to decode behind it, one sequence at a time and several together:
//! `cargo run --release -p lanthorn-llm --example decoding -- MODEL [TOKENS] [KV_DTYPE]`.

use std::time::Instant;

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::Result;
use lanthorn_llm::{Inference, InferenceOptions, KvDtype, Pretrained};
use lanthorn_runtime::{CancelToken, Device};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: decoding MODEL [TOKENS] [f32 | f16 | bf16 | int8]");
        return Ok(());
    };
    let length: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let kv_dtype = match arguments.next().as_deref() {
        Some("f16") => KvDtype::F16,
        Some("bf16") => KvDtype::Bf16,
        Some("int8") => KvDtype::Int8,
        _ => KvDtype::F32,
    };
    let device = Device::new(std::sync::Arc::new(CpuBackend));
    let model = Pretrained::open(&path)?;
    let (llama, params) = model.model(&device, model.config()?)?;
    let options = InferenceOptions { kv_dtype: Some(kv_dtype), ..InferenceOptions::new(8 * (length + 256)) };
    let mut inference = Inference::new(&device, llama, params, options)?;
    let never = CancelToken::never();
    let mut sequences = Vec::new();
    for begin in 0..8u32 {
        let prompt: Vec<u32> = (0..length as u32).map(|at| 1000 + begin + at * 37 % 40_000).collect();
        let start = Instant::now();
        sequences.push(inference.add(&prompt, &never)?.0);
        if begin < 2 {
            println!("{length} tokens read in {:.3} s", start.elapsed().as_secs_f64());
        }
    }
    for batch in [1, 2, 4, 8] {
        let mut times = Vec::new();
        for token in 0..40u32 {
            let step: Vec<_> =
                sequences.iter().take(batch).map(|&sequence| (sequence, 500 + token)).collect();
            let start = Instant::now();
            inference.step(&step, &never)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("a step of {batch}: median {:.2} ms, least {:.2} ms", times[times.len() / 2], times[0]);
    }
    println!("{:?}", inference.stats());
    Ok(())
}
