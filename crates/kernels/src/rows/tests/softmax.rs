use super::*;
use crate::rows::{log_softmax, log_softmax_grad, softmax, softmax_grad};

for_each_dtype! {
    softmax_follows_its_formula => check_softmax;
    softmax_grad_follows_its_formula => check_softmax_grad;
    log_softmax_follows_its_formula => check_log_softmax;
    log_softmax_grad_follows_its_formula => check_log_softmax_grad;
    softmax_bears_extreme_logits => check_extremes;
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

fn softmax_of(row: &[f64]) -> Vec<f64> {
    let lse = log_sum_exp(row);
    row.iter().map(|x| (x - lse).exp()).collect()
}

fn check_softmax<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let x = Matrix::<E>::random(rows, width, gap, 8.0, seed);
        on_every_cpu(|cpu| {
            let mut y = Matrix::<E>::filled(rows, width, gap + 1, 0.0);
            softmax(cpu, x.view(), y.view_mut());
            for row in 0..rows {
                assert_close::<E>("softmax", &y.row(row), &softmax_of(&x.row(row)), 1.0);
            }
            let mut in_place = x.clone();
            let (input, output) = in_place.both();
            softmax(cpu, input, output);
            assert_eq!(in_place.bits(), y.bits(), "in place");
            y.bits()
        });
    });
}

fn check_log_softmax<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let x = Matrix::<E>::random(rows, width, gap, 8.0, seed);
        on_every_cpu(|cpu| {
            let mut y = Matrix::<E>::filled(rows, width, gap, 0.0);
            log_softmax(cpu, x.view(), y.view_mut());
            for row in 0..rows {
                let x = x.row(row);
                let lse = log_sum_exp(&x);
                let expected: Vec<f64> = x.iter().map(|x| x - lse).collect();
                assert_close::<E>("log_softmax", &y.row(row), &expected, 1.0);
            }
            let mut in_place = x.clone();
            let (input, output) = in_place.both();
            log_softmax(cpu, input, output);
            assert_eq!(in_place.bits(), y.bits(), "in place");
            y.bits()
        });
    });
}

fn check_softmax_grad<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let y = Matrix::<E>::random(rows, width, gap, 1.0, seed);
        let dy = Matrix::<E>::random(rows, width, gap + 1, 1.0, seed ^ 1);
        on_every_cpu(|cpu| {
            let mut dx = Matrix::<E>::filled(rows, width, gap, 0.0);
            softmax_grad(cpu, y.view(), dy.view(), dx.view_mut());
            for row in 0..rows {
                let (y, dy) = (y.row(row), dy.row(row));
                let sum: f64 = y.iter().zip(&dy).map(|(y, dy)| y * dy).sum();
                let expected: Vec<f64> = y.iter().zip(&dy).map(|(y, dy)| y * (dy - sum)).collect();
                assert_close::<E>("softmax_grad", &dx.row(row), &expected, 2.0);
            }
            let mut in_place = dy.clone();
            let (input, output) = in_place.both();
            softmax_grad(cpu, y.view(), input, output);
            assert_eq!(in_place.bits(), dx.bits(), "in place");
            dx.bits()
        });
    });
}

fn check_log_softmax_grad<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let y = Matrix::<E>::random(rows, width, gap, 3.0, seed);
        let dy = Matrix::<E>::random(rows, width, gap + 1, 1.0, seed ^ 1);
        on_every_cpu(|cpu| {
            let mut dx = Matrix::<E>::filled(rows, width, gap, 0.0);
            log_softmax_grad(cpu, y.view(), dy.view(), dx.view_mut());
            for row in 0..rows {
                let (y, dy) = (y.row(row), dy.row(row));
                let sum: f64 = dy.iter().sum();
                let expected: Vec<f64> = y.iter().zip(&dy).map(|(y, dy)| dy - y.exp() * sum).collect();
                assert_close::<E>("log_softmax_grad", &dx.row(row), &expected, 20.0);
            }
            let mut in_place = y.clone();
            let (input, output) = in_place.both();
            log_softmax_grad(cpu, input, dy.view(), output);
            assert_eq!(in_place.bits(), dx.bits(), "in place");
            dx.bits()
        });
    });
}

fn check_extremes<E: Stored>() {
    const WIDTH: usize = 37;
    let infinity = f64::INFINITY;
    let mut x = Matrix::<E>::random(6, WIDTH, 1, 1e4, 5);
    for at in (1..WIDTH).step_by(3) {
        x.row_mut(1)[at] = E::from_f64(-infinity);
    }
    x.row_mut(2).fill(E::from_f64(-infinity));
    x.row_mut(3)[WIDTH - 1] = E::from_f64(f64::NAN);
    x.row_mut(4)[3] = E::from_f64(f64::NAN);
    x.row_mut(5)[0] = E::from_f64(infinity);
    for cpu in every_cpu() {
        let mut y = Matrix::<E>::filled(6, WIDTH, 0, 0.0);
        softmax(cpu, x.view(), y.view_mut());
        for row in [0, 1] {
            assert_close::<E>("softmax", &y.row(row), &softmax_of(&x.row(row)), 1.0);
        }
        for row in 2..6 {
            // The element of a row with +inf that is not NaN is exp(-inf) / NaN.
            assert!(y.row(row).iter().all(|y| y.is_nan()), "row {row} on {cpu:?}: {:?}", y.row(row));
        }
        log_softmax(cpu, x.view(), y.view_mut());
        for row in [0, 1] {
            let (x, lse) = (x.row(row), log_sum_exp(&x.row(row)));
            let expected: Vec<f64> = x.iter().map(|x| x - lse).collect();
            assert_close::<E>("log_softmax", &y.row(row), &expected, 1.0);
        }
        for row in 2..6 {
            assert!(y.row(row).iter().all(|y| y.is_nan()), "row {row} on {cpu:?}: {:?}", y.row(row));
        }
    }
}
