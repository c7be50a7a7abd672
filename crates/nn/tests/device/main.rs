//! Training on a device: compiled, eager, stopped and resumed.

mod agreement;
mod fit;
mod hostile;
mod trainer;

use lanthorn_cpu::CpuBackend;
use lanthorn_nn::{GptConfig, Optimizer, Schedule, TrainerConfig, WindowSampler};
use lanthorn_runtime::Device;

/// A device of its own, so that counters are a test's own.
fn device() -> Device {
    Device::new(std::sync::Arc::new(CpuBackend))
}

fn tiny(dropout: f64) -> GptConfig {
    GptConfig { vocab: 13, context: 8, layers: 2, width: 16, heads: 2, dropout, ..GptConfig::small(13) }
}

fn config() -> TrainerConfig {
    TrainerConfig {
        optimizer: Optimizer::language_model(),
        schedule: Schedule::Cosine { peak: 1e-2, floor: 1e-3, warmup: 2, total: 20 },
        seed: 11,
        ..TrainerConfig::default()
    }
}

/// Every token says which of two comes next.
fn tokens() -> Vec<u32> {
    (0..400u32).map(|i| i % 6 + 6 * (i * i / 3 % 2)).collect()
}

fn sampler() -> WindowSampler {
    WindowSampler::new(tokens(), 8, 5).unwrap()
}
