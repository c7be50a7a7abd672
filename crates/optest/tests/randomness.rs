//! Random ops against their distributions: chi-square and Kolmogorov-Smirnov tests with fixed seeds, so that they
//! cannot fail by chance. Bounds are those of a level of 10^-4, beyond which a seed would be a rare find.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::{DType, Lazy, Value, ops, transform};

fn key(seed: i64) -> HostTensor {
    HostTensor::from_i64(DType::U64, &[2], &[seed, 3]).unwrap()
}

/// The chi-square statistic of counts against probabilities.
fn chi_square(counts: &[f64], probabilities: &[f64]) -> f64 {
    let n: f64 = counts.iter().sum();
    counts.iter().zip(probabilities).map(|(c, p)| (c - n * p).powi(2) / (n * p)).sum()
}

/// How often each of `0..classes` occurs.
fn counts(draws: &[i64], classes: usize) -> Vec<f64> {
    let mut counts = vec![0.0; classes];
    for &draw in draws {
        counts[usize::try_from(draw).unwrap()] += 1.0;
    }
    counts
}

/// The Kolmogorov-Smirnov distance of a sample from a distribution, times the root of its size.
fn distance(mut sample: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let gap = |(i, x): (usize, &f64)| {
        let p = distribution(*x);
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    };
    sample.iter().enumerate().map(gap).fold(0.0, f64::max) * n.sqrt()
}

/// Beyond this the Kolmogorov distribution has probability 10^-4.
const FAR: f64 = 2.23;

#[test]
fn whole_numbers_are_even() {
    // 10^-4 quantiles of chi-square with 5, 9 and 15 degrees of freedom.
    for (low, high, bound) in [(0i64, 6i64, 25.7), (-5, 5, 33.7), (100, 116, 44.3)] {
        let draws = ops::randint(&Interp, &key(1), &[20_000], low, high, DType::I64, 0).unwrap();
        let draws: Vec<i64> = draws.to_i64().iter().map(|v| v - low).collect();
        let classes = (high - low) as usize;
        let found = chi_square(&counts(&draws, classes), &vec![1.0 / classes as f64; classes]);
        assert!(found < bound, "{low}..{high}: {found}");
    }
    // Ranges of more than 32 bits: the place within them is uniform.
    for (low, high) in [(0, 3 << 40), (i64::MIN, i64::MAX)] {
        let draws = ops::randint(&Interp, &key(2), &[4000], low, high, DType::I64, 0).unwrap();
        let span = high as f64 - low as f64;
        let unit = draws.to_i64().iter().map(|&v| (v as f64 - low as f64) / span).collect();
        let found = distance(unit, |x| x);
        assert!(found < FAR, "{low}..{high}: {found}");
    }
}

#[test]
fn values_follow_their_distributions() {
    for dtype in [DType::F32, DType::F64] {
        let n = 4000;
        let x = ops::exponential(&Interp, &key(3), &[n], 2.0, dtype, 0).unwrap().to_f64();
        assert!(x.iter().all(|&x| x > 0.0));
        assert!(distance(x, |x| 1.0 - (-2.0 * x).exp()) < FAR, "exponential in {dtype}");
        let x = ops::gumbel(&Interp, &key(4), &[n], dtype, 0).unwrap().to_f64();
        assert!(distance(x, |x| (-(-x).exp()).exp()) < FAR, "gumbel in {dtype}");
        let x = ops::uniform(&Interp, &key(5), &[n], -1.0, 3.0, dtype, 0).unwrap().to_f64();
        assert!(distance(x, |x| (x + 1.0) / 4.0) < FAR, "uniform in {dtype}");
        let x = ops::normal(&Interp, &key(6), &[n], 1.0, 2.0, dtype, 0).unwrap().to_f64();
        let phi = |x: f64| 0.5 * libm::erfc(-(x - 1.0) / 2.0 / std::f64::consts::SQRT_2);
        assert!(distance(x, phi) < FAR, "normal in {dtype}");
    }
}

#[test]
fn classes_come_with_their_probabilities() {
    let weights = [0.1, 0.4, 0.0, 0.2, 0.3];
    let tensor = HostTensor::from_f64(DType::F64, &[5], &weights).unwrap();
    let logits = ops::log(&Interp, &tensor).unwrap();
    let drawn = ops::categorical(&Interp, &key(7), &logits, Some(20_000), 0).unwrap().to_i64();
    let replaced = ops::multinomial(&Interp, &key(8), &tensor, 20_000, true, 0).unwrap().to_i64();
    let possible = [0, 1, 3, 4];
    for (name, draws) in [("categorical", drawn), ("multinomial", replaced)] {
        let counts = counts(&draws, 5);
        assert_eq!(counts[2], 0.0, "{name}");
        let found = chi_square(&possible.map(|i| counts[i]), &possible.map(|i| weights[i]));
        // 10^-4 of chi-square with 3 degrees of freedom.
        assert!(found < 21.1, "{name}: {found}");
    }
    // Without replacement the first class has the given probabilities, and the second those of the rest.
    let rows = ops::broadcast_to(&Interp, &tensor, &[20_000, 5]).unwrap();
    let pairs = ops::multinomial(&Interp, &key(9), &rows, 2, false, 0).unwrap().to_i64();
    let firsts: Vec<i64> = pairs.iter().copied().step_by(2).collect();
    let seconds: Vec<i64> = pairs.iter().copied().skip(1).step_by(2).collect();
    assert!(firsts.iter().zip(&seconds).all(|(a, b)| a != b));
    let second = |i: usize| -> f64 {
        possible.iter().filter(|&&j| j != i).map(|&j| weights[j] * weights[i] / (1.0 - weights[j])).sum()
    };
    assert!(chi_square(&possible.map(|i| counts(&firsts, 5)[i]), &possible.map(|i| weights[i])) < 21.1);
    assert!(chi_square(&possible.map(|i| counts(&seconds, 5)[i]), &possible.map(second)) < 21.1);
}

#[test]
fn permutations_are_permutations_and_all_alike() {
    let n = 1000;
    let mut found = ops::randperm(&Interp, &key(10), n, 0).unwrap().to_i64();
    found.sort_unstable();
    assert_eq!(found, (0..n as i64).collect::<Vec<_>>());
    // Each of the 24 orders of four.
    let mut orders = std::collections::BTreeMap::new();
    for seed in 0..4800 {
        *orders.entry(ops::randperm(&Interp, &key(seed), 4, 1).unwrap().to_i64()).or_insert(0.0) += 1.0;
    }
    assert_eq!(orders.len(), 24);
    let counts: Vec<f64> = orders.into_values().collect();
    // 10^-4 of chi-square with 23 degrees of freedom.
    assert!(chi_square(&counts, &[1.0 / 24.0; 24]) < 56.0, "{counts:?}");
}

#[test]
fn truth_values_follow_their_own_probabilities() {
    let p = HostTensor::from_f64(DType::F64, &[4, 1], &[0.0, 0.25, 0.9, 1.0]).unwrap();
    let p = ops::broadcast_to(&Interp, &p, &[4, 10_000]).unwrap();
    let drawn = ops::bernoulli_like(&Interp, &key(11), &p, 0).unwrap().to_i64();
    let means: Vec<f64> = drawn.chunks(10_000).map(|row| row.iter().sum::<i64>() as f64 / 1e4).collect();
    assert_eq!((means[0], means[3]), (0.0, 1.0));
    // Four standard deviations.
    assert!((means[1] - 0.25).abs() < 0.0174 && (means[2] - 0.9).abs() < 0.012, "{means:?}");
}

/// Mapped keys draw apart, as one by one; a key that is shared draws the same for all.
#[test]
fn keys_under_vmap() {
    let keys = HostTensor::from_i64(DType::U64, &[3, 2], &[7, 0, 7, 1, 8, 0]).unwrap();
    let draw = |key: &Value| ops::normal(&Lazy, key, &[2, 3], 0.0, 1.0, DType::F32, 4);
    let leaf = Value::leaf(keys.ty().clone()).unwrap();
    let mapped = transform::vmap(|v| Ok(vec![draw(&v[0])?]), std::slice::from_ref(&leaf), &[true]).unwrap();
    let found = lanthorn_interp::eval(&mapped, &[(leaf, keys.clone())]).unwrap()[0].to_f64();
    for row in 0..3 {
        let key = ops::select(&Interp, &keys, 0, row as isize).unwrap();
        let alone = ops::normal(&Interp, &key, &[2, 3], 0.0, 1.0, DType::F32, 4).unwrap().to_f64();
        assert_eq!(found[6 * row..6 * row + 6], alone);
    }
    assert_ne!(found[..6], found[6..12]);

    let (shared, rows) = (Value::leaf(key(7).ty().clone()).unwrap(), Value::leaf(keys.ty().clone()).unwrap());
    let mapped = transform::vmap(
        |v| Ok(vec![draw(&v[0])?, v[1].clone()]),
        &[shared.clone(), rows.clone()],
        &[false, true],
    );
    let found = lanthorn_interp::eval(&mapped.unwrap()[..1], &[(shared, key(7)), (rows, keys)]).unwrap();
    let found = found[0].to_f64();
    assert_eq!((&found[..6], &found[..6]), (&found[6..12], &found[12..]));
}

/// The same bits whatever the shape is: element `i` is word `i`.
#[test]
fn elements_are_numbered() {
    let long = ops::random_bits(&Interp, &key(12), &[30], DType::U32, 9).unwrap();
    let square = ops::random_bits(&Interp, &key(12), &[4, 5], DType::U32, 9).unwrap();
    assert_eq!(long.to_i64()[..20], square.to_i64());
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let text = |result: lanthorn_ir::Result<HostTensor>| result.unwrap_err().to_string();
    let draw = |low: i64, high: i64, dtype| ops::randint(&Interp, &key(0), &[1], low, high, dtype, 0);
    assert_eq!(text(draw(3, 3, DType::I64)), "randint: 3..3 is no range of i64 with an element");
    assert_eq!(text(draw(0, 257, DType::U8)), "randint: 0..257 is no range of u8 with an element");
    assert_eq!(text(draw(0, 2, DType::F32)), "randint: the dtype is f32, expected an integer dtype");
    let weights = HostTensor::from_f64(DType::F32, &[2], &[1.0, 2.0]).unwrap();
    assert_eq!(
        text(ops::multinomial(&Interp, &key(0), &weights, 3, false, 0)),
        "multinomial: 3 different samples of 2 classes; draw with replacement"
    );
    assert_eq!(
        text(ops::exponential(&Interp, &key(0), &[1], 0.0, DType::F32, 0)),
        "exponential: the rate is 0, expected a positive number"
    );
}
