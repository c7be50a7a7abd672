//! What this machine can do: the yardsticks that benchmarks hold kernels against.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::pool::pool;
use crate::simd::{Simd, SimdOp, dispatch};

/// How long one trial runs, and how many there are; the best is reported. Short and many, because
/// other work on the machine only ever makes a trial slower.
const TRIAL: Duration = Duration::from_millis(3);
const TRIALS: usize = 80;

/// Independent chains of multiply-adds: enough to cover their latency at two per cycle.
const CHAINS: usize = 12;
const STEPS: usize = 4096;

/// The peak rate of f32 multiply-adds in GFLOP/s with the detected instruction set, on `threads` threads.
pub fn fma_peak_gflops(threads: usize) -> f64 {
    let gflop = (STEPS * CHAINS * dispatch(Lanes) * 2) as f64 * 1e-9;
    best_rate(threads, || {
        black_box(dispatch(FmaChains(black_box(0.999))));
        gflop
    })
}

/// The rate of reading memory beyond the caches in GB/s, on `threads` threads.
pub fn read_bandwidth_gbps(threads: usize) -> f64 {
    // Servers have last-level caches of hundreds of megabytes.
    let length = (128 << 20) / threads.clamp(1, 128);
    let data: Vec<Vec<f32>> = (0..threads).map(|_| vec![1.0; length.max(16 << 20)]).collect();
    let mut best = 0.0f64;
    for _ in 0..TRIALS / 4 {
        let start = Instant::now();
        pool().run_on(threads, threads, &|task, _| {
            black_box(dispatch(Sum(&data[task])));
        });
        let bytes = data.iter().map(|part| part.len() * 4).sum::<usize>();
        best = best.max(bytes as f64 * 1e-9 / start.elapsed().as_secs_f64());
    }
    best
}

/// The best rate per second of several trials; `step` returns the units of work that it did.
fn best_rate(threads: usize, step: impl Fn() -> f64 + Sync) -> f64 {
    let rates = std::sync::Mutex::new(0.0);
    let mut best = 0.0f64;
    for _ in 0..TRIALS {
        let start = Instant::now();
        pool().run_on(threads, threads, &|_, _| {
            let start = Instant::now();
            let mut done = 0.0;
            while start.elapsed() < TRIAL {
                done += step();
            }
            *rates.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += done;
        });
        let seconds = start.elapsed().as_secs_f64();
        let mut done = rates.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        best = best.max(std::mem::take(&mut *done) / seconds);
    }
    best
}

struct Lanes;

impl SimdOp for Lanes {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self) -> usize {
        S::LANES
    }
}

struct FmaChains(f32);

impl SimdOp for FmaChains {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self) -> f32 {
        let factor = S::splat(self.0);
        let mut chains = [S::splat(1.0); CHAINS];
        for _ in 0..STEPS {
            for chain in &mut chains {
                *chain = S::mul_add(*chain, factor, factor);
            }
        }
        let mut sum = S::splat(0.0);
        for chain in chains {
            sum = S::add(sum, chain);
        }
        S::reduce_add(sum)
    }
}

struct Sum<'a>(&'a [f32]);

impl SimdOp for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self) -> f32 {
        const WIDE: usize = 8;
        let mut sums = [S::splat(0.0); WIDE];
        for chunk in self.0.chunks_exact(WIDE * S::LANES) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the chunk holds WIDE vectors.
                *sum = S::add(*sum, unsafe { S::load(chunk.as_ptr().add(i * S::LANES)) });
            }
        }
        let mut sum = S::splat(0.0);
        for part in sums {
            sum = S::add(sum, part);
        }
        S::reduce_add(sum)
    }
}
