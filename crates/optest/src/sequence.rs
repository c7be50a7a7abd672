//! Numbers from a fixed sequence.

use lanthorn_interp::HostTensor;
use lanthorn_ir::{DType, Result};

/// Pseudorandom numbers; one seed gives one sequence on every machine.
pub struct Sequence(u64);

impl Sequence {
    /// Seeds are mixed first: else one would begin a few draws behind another.
    pub fn new(seed: u64) -> Sequence {
        Sequence(mixed(seed))
    }

    /// 64 bits, by SplitMix64 (Steele, Lea and Flood 2014).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    /// Uniform in `low..high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.bits() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..limit`; 0 if there is nothing to choose from.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// f64 elements in `low..high`.
    pub fn tensor(&mut self, shape: &[usize], low: f64, high: f64) -> Result<HostTensor> {
        let n = lanthorn_ir::layout::numel(shape);
        let elements: Vec<f64> = (0..n).map(|_| self.uniform(low, high)).collect();
        HostTensor::from_f64(DType::F64, shape, &elements)
    }
}

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
