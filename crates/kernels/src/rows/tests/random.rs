use super::*;
use crate::rows::normal;

fn key(seed: u64, draw: u64, stream: u64) -> RandomKey {
    RandomKey { seed, draw, stream }
}

/// Philox 4x32-10 once more, written from the paper one block at a time.
fn reference_words(key: RandomKey, element: usize) -> [u32; 4] {
    let seed = key.seed.wrapping_add(key.stream.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (mut k0, mut k1) = (seed as u32, (seed >> 32) as u32);
    let block = (element / 4) as u64;
    let mut c = [block as u32, (block >> 32) as u32, key.draw as u32, (key.draw >> 32) as u32];
    for _ in 0..10 {
        let (low, high) = (u64::from(c[0]) * 0xD251_1F53, u64::from(c[2]) * 0xCD9E_8D57);
        c = [(high >> 32) as u32 ^ c[1] ^ k0, high as u32, (low >> 32) as u32 ^ c[3] ^ k1, low as u32];
        (k0, k1) = (k0.wrapping_add(0x9E37_79B9), k1.wrapping_add(0xBB67_AE85));
    }
    c
}

const KEYS: [(u64, u64, u64); 4] =
    [(0, 0, 0), (1234, 5, 1), (u64::MAX, u64::MAX, 7), (1 << 40, 1 << 33, u64::MAX)];

#[test]
fn uniform_gives_the_documented_bits_on_every_instruction_set() {
    for (seed, draw, stream) in KEYS {
        for len in [0, 1, 3, 4, 63, 64, 65, 8192, 20_001] {
            let key = key(seed, draw, stream);
            let words = |at: usize| reference_words(key, at)[at % 4];
            let expected: Vec<f32> = (0..len).map(|at| (words(at) >> 8) as f32 / 16_777_216.0).collect();
            for values in on_every_cpu(|cpu| {
                let mut values = vec![-1.0; len];
                uniform(cpu, key, &mut values);
                values
            }) {
                assert_eq!(values, expected);
            }
        }
    }
}

#[test]
fn normal_is_box_muller_of_the_documented_words() {
    for (seed, draw, stream) in KEYS {
        for len in [0, 1, 2, 3, 63, 65, 20_001] {
            let key = key(seed, draw, stream);
            let exact = |at: usize| {
                let words = reference_words(key, at);
                let u = |word: u32| f64::from(word >> 8) / 16_777_216.0;
                let (u0, u1) = (u(words[at % 4 / 2 * 2]), u(words[at % 4 / 2 * 2 + 1]));
                let (sin, cos) = (std::f64::consts::TAU * u1).sin_cos();
                (-2.0 * (1.0 - u0).ln()).sqrt() * if at.is_multiple_of(2) { cos } else { sin }
            };
            for values in on_every_cpu(|cpu| {
                let mut values = vec![-100.0; len];
                normal(cpu, key, &mut values);
                values
            }) {
                for (at, value) in values.iter().enumerate() {
                    let (got, exact) = (f64::from(*value), exact(at));
                    // 8 ulp; at a zero of sine or cosine the exact formula itself is off by 2e-16.
                    assert!(
                        (got - exact).abs() <= 5e-7 * exact.abs() + 1e-14,
                        "{got} at {at}, exact {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn moments_are_those_of_the_distributions() {
    const COUNT: usize = 1 << 20;
    let mut values = vec![0.0f32; COUNT];
    let moment = |values: &[f32], power: i32, centre: f64| {
        values.iter().map(|x| (f64::from(*x) - centre).powi(power)).sum::<f64>() / COUNT as f64
    };
    uniform(Cpu::host(), key(3, 1, 4), &mut values);
    assert!(values.iter().all(|u| (0.0..1.0).contains(u)));
    assert!((moment(&values, 1, 0.0) - 0.5).abs() < 2e-3);
    assert!((moment(&values, 2, 0.5) - 1.0 / 12.0).abs() < 1e-3);
    normal(Cpu::host(), key(3, 1, 4), &mut values);
    assert!(values.iter().all(|x| x.is_finite()));
    assert!(moment(&values, 1, 0.0).abs() < 5e-3);
    assert!((moment(&values, 2, 0.0) - 1.0).abs() < 1e-2);
    assert!(moment(&values, 3, 0.0).abs() < 2e-2);
    assert!((moment(&values, 4, 0.0) - 3.0).abs() < 5e-2);
}
