use super::*;
use crate::rows::{
    layer_norm, layer_norm_grad, layer_norm_grad_scratch_bytes, rms_norm, rms_norm_grad,
    rms_norm_grad_scratch_bytes,
};

for_each_dtype! {
    layer_norm_follows_its_formula => check_layer_norm;
    layer_norm_grad_follows_its_formula => check_layer_norm_grad;
    rms_norm_follows_its_formula => check_rms_norm;
    rms_norm_grad_follows_its_formula => check_rms_norm_grad;
}

const EPS: f64 = 1e-3;

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// Mean and reciprocal standard deviation.
fn moments(x: &[f64]) -> (f64, f64) {
    let centre = mean(x.iter().copied());
    (centre, 1.0 / (mean(x.iter().map(|x| (x - centre).powi(2))) + EPS).sqrt())
}

fn zeros<W: Wide>(count: usize) -> Vec<W> {
    vec![W::ZERO; count]
}

fn to_f64<W: Wide>(values: &[W]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

fn check_layer_norm<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let x = Matrix::<E>::random(rows, width, gap, 3.0, seed);
        let weight = vector::<E>(&random_values(width, 1.0, seed ^ 1));
        let bias = vector::<E>(&random_values(width, 1.0, seed ^ 2));
        on_every_cpu(|cpu| {
            let mut y = Matrix::<E>::filled(rows, width, gap, 0.0);
            let (mut mean, mut rstd) = (zeros::<E::Wide>(rows), zeros::<E::Wide>(rows));
            layer_norm(cpu, x.view(), &weight, &bias, EPS, y.view_mut(), &mut mean, &mut rstd);
            for row in 0..if width == 0 { 0 } else { rows } {
                let x = x.row(row);
                let (centre, scale) = moments(&x);
                let expected: Vec<f64> = (x.iter().zip(&weight).zip(&bias))
                    .map(|((x, w), b)| (x - centre) * scale * w.to_f64() + b.to_f64())
                    .collect();
                // A narrow row may have a standard deviation near the root of eps, which magnifies.
                assert_close::<E>("layer_norm", &y.row(row), &expected, scale.max(1.0));
                assert!((mean[row].to_f64() - centre).abs() < 1e-5);
                assert!((rstd[row].to_f64() - scale).abs() < 1e-4 * scale);
            }
            let mut in_place = x.clone();
            let (input, output) = in_place.both();
            let (mut again, mut scales) = (zeros::<E::Wide>(rows), zeros::<E::Wide>(rows));
            layer_norm(cpu, input, &weight, &bias, EPS, output, &mut again, &mut scales);
            assert_eq!(in_place.bits(), y.bits(), "in place");
            (y.bits(), bits(&to_f64(&mean)), bits(&to_f64(&rstd)))
        });
    });
}

fn check_layer_norm_grad<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let x = Matrix::<E>::random(rows, width, gap, 3.0, seed);
        let dy = Matrix::<E>::random(rows, width, gap + 1, 1.0, seed ^ 3);
        let weight = vector::<E>(&random_values(width, 1.0, seed ^ 1));
        let narrow = |value: f64| E::Wide::from_f64(value);
        let statistics: Vec<_> = (0..rows).map(|row| moments(&x.row(row))).collect();
        let mean: Vec<_> = statistics.iter().map(|s| narrow(s.0)).collect();
        let rstd: Vec<_> = statistics.iter().map(|s| narrow(s.1)).collect();

        let (mut dx, mut dweight, mut dbias) = (vec![], vec![0.0; width], vec![0.0; width]);
        let mut largest_scale = 1.0f64;
        for (row, (mean, rstd)) in statistics.iter().enumerate() {
            let (x, dy) = (x.row(row), dy.row(row));
            let normal: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
            let g: Vec<f64> = dy.iter().zip(&weight).map(|(dy, w)| dy * w.to_f64()).collect();
            let g_mean = g.iter().sum::<f64>() / width as f64;
            let product = g.iter().zip(&normal).map(|(g, n)| g * n).sum::<f64>() / width as f64;
            dx.push(
                g.iter().zip(&normal).map(|(g, n)| rstd * (g - g_mean - n * product)).collect::<Vec<_>>(),
            );
            for at in 0..width {
                dweight[at] += dy[at] * normal[at];
                dbias[at] += dy[at];
            }
            largest_scale = largest_scale.max(*rstd);
        }
        on_every_cpu(|cpu| {
            let mut got = Matrix::<E>::filled(rows, width, gap, 0.0);
            let (mut dw, mut db) = (vec![E::from_f64(9.0); width], vec![E::from_f64(9.0); width]);
            let mut scratch = ScratchMemory::new(layer_norm_grad_scratch_bytes::<E>(rows, width));
            let (view, memory) = (got.view_mut(), scratch.get());
            layer_norm_grad(cpu, x.view(), &weight, &mean, &rstd, dy.view(), view, &mut dw, &mut db, memory);
            for row in 0..rows {
                let scale = rstd[row].to_f64().max(1.0) * 2.0;
                assert_close::<E>("dx", &got.row(row), &dx[row], scale);
            }
            let scale = 1.0 + (rows as f64).sqrt() / 4.0;
            assert_close::<E>("dweight", &widened(&dw), &dweight, scale * largest_scale);
            assert_close::<E>("dbias", &widened(&db), &dbias, scale);

            let mut in_place = dy.clone();
            let (input, output) = in_place.both();
            let (mut dw2, mut db2) = (dw.clone(), db.clone());
            let memory = scratch.get();
            layer_norm_grad(cpu, x.view(), &weight, &mean, &rstd, input, output, &mut dw2, &mut db2, memory);
            assert_eq!((in_place.bits(), &dw2, &db2), (got.bits(), &dw, &db), "in place");
            (got.bits(), bits(&widened(&dw)), bits(&widened(&db)))
        });
    });
}

/// The reciprocal root of the mean square.
fn root(x: &[f64]) -> f64 {
    1.0 / (mean(x.iter().map(|x| x * x)) + EPS).sqrt()
}

fn check_rms_norm<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let x = Matrix::<E>::random(rows, width, gap, 3.0, seed);
        let weight = vector::<E>(&random_values(width, 1.0, seed ^ 1));
        on_every_cpu(|cpu| {
            let mut y = Matrix::<E>::filled(rows, width, gap, 0.0);
            let mut rstd = zeros::<E::Wide>(rows);
            rms_norm(cpu, x.view(), &weight, EPS, y.view_mut(), &mut rstd);
            for (row, rstd) in rstd.iter().enumerate().filter(|_| width > 0) {
                let x = x.row(row);
                let scale = root(&x);
                let expected: Vec<f64> = x.iter().zip(&weight).map(|(x, w)| x * scale * w.to_f64()).collect();
                assert_close::<E>("rms_norm", &y.row(row), &expected, 1.0);
                assert!((rstd.to_f64() - scale).abs() < 1e-5 * scale);
            }
            let mut in_place = x.clone();
            let (input, output) = in_place.both();
            rms_norm(cpu, input, &weight, EPS, output, &mut zeros::<E::Wide>(rows));
            assert_eq!(in_place.bits(), y.bits(), "in place");
            (y.bits(), bits(&to_f64(&rstd)))
        });
    });
}

fn check_rms_norm_grad<E: Stored>() {
    over_shapes(|rows, width, gap, seed| {
        let x = Matrix::<E>::random(rows, width, gap, 3.0, seed);
        let dy = Matrix::<E>::random(rows, width, gap + 1, 1.0, seed ^ 3);
        let weight = vector::<E>(&random_values(width, 1.0, seed ^ 1));
        let scales: Vec<f64> = (0..rows).map(|row| root(&x.row(row))).collect();
        let rstd: Vec<_> = scales.iter().map(|scale| E::Wide::from_f64(*scale)).collect();

        let (mut dx, mut dweight) = (vec![], vec![0.0; width]);
        for (row, rstd) in scales.iter().enumerate() {
            let (x, dy) = (x.row(row), dy.row(row));
            let normal: Vec<f64> = x.iter().map(|x| x * rstd).collect();
            let g: Vec<f64> = dy.iter().zip(&weight).map(|(dy, w)| dy * w.to_f64()).collect();
            let product = g.iter().zip(&normal).map(|(g, n)| g * n).sum::<f64>() / width as f64;
            dx.push(g.iter().zip(&normal).map(|(g, n)| rstd * (g - n * product)).collect::<Vec<_>>());
            (0..width).for_each(|at| dweight[at] += dy[at] * normal[at]);
        }
        on_every_cpu(|cpu| {
            let mut got = Matrix::<E>::filled(rows, width, gap, 0.0);
            let mut dw = vec![E::from_f64(9.0); width];
            let mut scratch = ScratchMemory::new(rms_norm_grad_scratch_bytes::<E>(rows, width));
            let memory = scratch.get();
            rms_norm_grad(cpu, x.view(), &weight, &rstd, dy.view(), got.view_mut(), &mut dw, memory);
            for row in 0..rows {
                assert_close::<E>("dx", &got.row(row), &dx[row], scales[row].max(1.0) * 2.0);
            }
            assert_close::<E>("dweight", &widened(&dw), &dweight, 1.0 + (rows as f64).sqrt() / 4.0);

            let mut in_place = x.clone();
            let (input, output) = in_place.both();
            let mut dw2 = dw.clone();
            rms_norm_grad(cpu, input, &weight, &rstd, dy.view(), output, &mut dw2, scratch.get());
            assert_eq!((in_place.bits(), &dw2), (got.bits(), &dw), "in place");
            (got.bits(), bits(&widened(&dw)))
        });
    });
}

#[test]
fn a_nan_spoils_its_own_row_only() {
    for cpu in every_cpu() {
        let mut x = Matrix::<f32>::random(3, 33, 0, 1.0, 8);
        x.row_mut(1)[32] = f32::NAN;
        let (ones, zeros) = (vec![1.0; 33], vec![0.0; 33]);
        let mut y = Matrix::<f32>::filled(3, 33, 0, 0.0);
        layer_norm(cpu, x.view(), &ones, &zeros, EPS, y.view_mut(), &mut [0.0; 3], &mut [0.0; 3]);
        assert!(y.row(1).iter().all(|y| y.is_nan()));
        assert!([y.row(0), y.row(2)].iter().flatten().all(|y| y.is_finite()));
        rms_norm(cpu, x.view(), &ones, EPS, y.view_mut(), &mut [0.0; 3]);
        assert!(y.row(1).iter().all(|y| y.is_nan()));
        assert!([y.row(0), y.row(2)].iter().flatten().all(|y| y.is_finite()));
    }
}

#[test]
fn a_large_offset_does_not_cancel_the_variance() {
    for cpu in every_cpu() {
        let x: Vec<f32> = (0..64).map(|i| 1e4 + (i % 2) as f32).collect();
        let (mut y, mut rstd) = ([0.0; 64], [0.0]);
        let (rows, out) = (Rows::new(&x, 1, 64), RowsMut::new(&mut y, 1, 64));
        layer_norm(cpu, rows, &[1.0; 64], &[0.0; 64], 0.0, out, &mut [0.0], &mut rstd);
        assert!((rstd[0] - 2.0).abs() < 1e-5, "{rstd:?}");
    }
}
