//! Memory that stays as it is over ten thousand steps: what the device counts, and what the system says of the process.

use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::DType;
use lanthorn_ir::ops::Reduction;
use lanthorn_nn::{Gpt, GptConfig, Optimizer, Schedule, Trainer, TrainerConfig, WindowSampler};
use lanthorn_runtime::{CancelToken, Device, Tensor, realise, value_and_grad};

const STEPS: usize = 10_000;
/// Caches are full, and what the allocator keeps for reuse has settled.
const SETTLED: usize = 2_000;
/// What the allocator may still spread out. A leak of 160 bytes for each step would be more.
const SLACK: usize = 1 << 20;

/// The resident set of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes of this process that are in memory, where the system says so.
fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Takes the steps; nothing may grow once all has settled.
fn stays_flat(device: &Device, mut step: impl FnMut(usize)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut settled = (device.stats(), resident_bytes());
    for at in 0..STEPS {
        step(at);
        if at == SETTLED {
            settled = (device.stats(), resident_bytes());
        }
        if at > SETTLED {
            let (now, then) = (device.stats(), settled.0);
            let seen = [now.live_bytes, now.pooled_bytes, now.executables];
            assert_eq!(seen, [then.live_bytes, then.pooled_bytes, then.executables], "step {at}");
        }
    }
    assert_eq!(cfg!(target_os = "linux"), settled.1.is_some(), "Linux says what is resident");
    if let (Some(then), Some(now)) = (settled.1, resident_bytes()) {
        assert!(now < then + SLACK, "{then} bytes were resident after {SETTLED} steps, {now} after {STEPS}");
    }
}

fn device() -> Device {
    Device::new(Arc::new(CpuBackend))
}

#[test]
fn ten_thousand_training_steps() {
    let device = device();
    let gpt = GptConfig { vocab: 7, context: 4, layers: 1, width: 8, heads: 2, ..GptConfig::small(7) };
    let config = TrainerConfig {
        optimizer: Optimizer::language_model(),
        schedule: Schedule::Cosine { peak: 1e-3, floor: 1e-4, warmup: 100, total: STEPS as u64 },
        seed: 3,
        ..TrainerConfig::default()
    };
    let mut trainer = Trainer::new(&device, Gpt::new(gpt).unwrap(), config).unwrap();
    let mut sampler = WindowSampler::new((0..60).map(|i| i % 7).collect(), 4, 5).unwrap();
    stays_flat(&device, |_| {
        trainer.step(&sampler.next_batch(2).unwrap(), &CancelToken::never()).unwrap();
    });
    assert_eq!((trainer.steps_done(), device.stats().compiles), (STEPS as u64, 1));
}

#[test]
fn ten_thousand_graphs_of_one_structure() {
    let device = device();
    let mut w = Tensor::from_slice(&device, &[2], &[0f32, 2.0]).unwrap();
    let x = Tensor::from_slice(&device, &[4, 2], &[1f32; 8]).unwrap();
    stays_flat(&device, |step| {
        let row = x.select(0, (step % 4) as isize).unwrap();
        let (loss, grads) = value_and_grad(|w| w[0].mse_loss(&row, Reduction::Sum), &[&w]).unwrap();
        w = w.sub(&grads[0].mul_scalar(0.1).unwrap()).unwrap();
        realise(&[&w, &loss]).unwrap();
    });
    assert_eq!(device.stats().executables, 1);
}

#[test]
fn ten_thousand_graphs_of_more_structures_than_are_kept() {
    let device = device();
    let capacity = 64;
    device.cache().set_capacity(capacity);
    stays_flat(&device, |step| {
        // Sizes of one class of the pool, which come around after the cache has forgotten them.
        let size = 1 + step % (2 * capacity);
        let x = Tensor::ones(&device, &[size, 3], DType::F32).unwrap();
        let sum = x.exp().unwrap().sum(&[0], false).unwrap();
        assert!(sum.to_vec::<f32>().unwrap()[2] > size as f32);
    });
    assert_eq!((device.stats().executables, device.stats().compiles), (capacity, STEPS as u64));
}
