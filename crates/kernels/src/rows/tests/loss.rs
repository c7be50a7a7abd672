use lanthorn_error::ErrorKind;

use super::*;
use crate::rows::{Indices, cross_entropy, cross_entropy_grad};

for_each_dtype! {
    cross_entropy_follows_its_formula => check_cross_entropy;
}

fn to_f64<W: Wide>(values: &[W]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

fn check_cross_entropy<E: Stored>() {
    over_shapes(|rows, classes, gap, seed| {
        let ignored = if classes == 0 || seed % 2 == 0 { Some(-100) } else { None };
        let logits = Matrix::<E>::random(rows, classes, gap, 10.0, seed);
        let targets: Vec<i64> = (0..rows)
            .map(|row| match ignored {
                Some(ignored) if classes == 0 || row % 5 == 2 => ignored,
                _ => (seed as usize % 97 * 31 + row * 7) as i64 % classes as i64,
            })
            .collect();
        let dloss: Vec<E::Wide> =
            random_values(rows, 1.0, seed ^ 9).iter().map(|x| E::Wide::from_f64(*x)).collect();
        on_every_cpu(|cpu| {
            let nan = E::Wide::from_f64(f64::NAN);
            let (mut loss, mut lse) = (vec![nan; rows], vec![nan; rows]);
            let ids = Indices::I64(&targets);
            cross_entropy(cpu, logits.view(), ids, ignored, &mut loss, &mut lse).unwrap();
            let mut dlogits = Matrix::<E>::filled(rows, classes, gap, 5.0);
            let out = dlogits.view_mut();
            cross_entropy_grad(cpu, logits.view(), ids, ignored, &lse, &dloss, out).unwrap();

            for row in 0..rows {
                let x = logits.row(row);
                let log_sum = x.iter().map(|x| x.exp()).sum::<f64>().ln();
                // Statistics are in the wide type, whatever the storage.
                let tolerance = if E::RELATIVE < 1e-10 { 1e-12 } else { 2e-5 };
                let close = |got: E::Wide, expected: f64| {
                    got.to_f64() == expected || (got.to_f64() - expected).abs() <= tolerance
                };
                assert!(close(lse[row], log_sum), "lse {:?}, expected {log_sum}", lse[row]);
                let target = Some(targets[row]).filter(|target| Some(*target) != ignored);
                let expected = target.map_or(0.0, |target| log_sum - x[target as usize]);
                assert!(close(loss[row], expected), "loss {:?}, expected {expected}", loss[row]);
                let scale = dloss[row].to_f64();
                let expected: Vec<f64> = (x.iter().enumerate())
                    .map(|(at, x)| match target {
                        Some(target) => ((x - log_sum).exp() - f64::from(at as i64 == target)) * scale,
                        None => 0.0,
                    })
                    .collect();
                assert_close::<E>("dlogits", &dlogits.row(row), &expected, 1.0);
            }

            let mut in_place = logits.clone();
            let (input, output) = in_place.both();
            cross_entropy_grad(cpu, input, ids, ignored, &lse, &dloss, output).unwrap();
            assert_eq!(in_place.bits(), dlogits.bits(), "in place");
            (dlogits.bits(), bits(&to_f64(&loss)), bits(&to_f64(&lse)))
        });
    });
}

#[test]
fn every_integer_dtype_serves_as_target() {
    let logits = [1.0f32, 2.0, 0.5, 0.0, -1.0, 3.0];
    let of = |targets: Indices<'_>| {
        let (mut loss, mut lse) = ([0.0; 2], [0.0; 2]);
        cross_entropy(Cpu::host(), Rows::new(&logits, 2, 3), targets, None, &mut loss, &mut lse).unwrap();
        loss
    };
    let expected = of(Indices::I64(&[2, 1]));
    assert_eq!(of(Indices::I32(&[2, 1])), expected);
    assert_eq!(of(Indices::I16(&[2, 1])), expected);
    assert_eq!(of(Indices::I8(&[2, 1])), expected);
    assert_eq!(of(Indices::U64(&[2, 1])), expected);
    assert_eq!(of(Indices::U32(&[2, 1])), expected);
    assert_eq!(of(Indices::U16(&[2, 1])), expected);
    assert_eq!(of(Indices::U8(&[2, 1])), expected);
}

#[test]
fn a_target_out_of_range_is_an_error_and_nothing_is_written() {
    let logits = [0.0f32; 12];
    for (bad, ignore) in [(4, None), (-1, None), (-100, None), (-1, Some(-100)), (i64::MIN, Some(0))] {
        let targets = [0, 3, bad];
        let (mut loss, mut lse) = ([7.0; 3], [7.0; 3]);
        let view = Rows::new(&logits, 3, 4);
        let ids = Indices::I64(&targets);
        let error = cross_entropy(Cpu::host(), view, ids, ignore, &mut loss, &mut lse).unwrap_err();
        assert_eq!((error.kind, error.op.as_str()), (ErrorKind::Execute, "cross_entropy"));
        let text = error.to_string();
        assert!(text.contains(&format!("target {bad} at position 2")) && text.contains("0..4"), "{text}");
        assert_eq!((loss, lse), ([7.0; 3], [7.0; 3]));
        let mut dlogits = [7.0; 12];
        let out = RowsMut::new(&mut dlogits, 3, 4);
        let error =
            cross_entropy_grad(Cpu::host(), view, ids, ignore, &[0.0; 3], &[1.0; 3], out).unwrap_err();
        assert_eq!(error.op, "cross_entropy_grad");
        assert_eq!(dlogits, [7.0; 12]);
    }
    // The largest unsigned id must not wrap into the range.
    let ids = Indices::U64(&[0, 0, u64::MAX]);
    let result =
        cross_entropy(Cpu::host(), Rows::new(&logits, 3, 4), ids, None, &mut [0.0; 3], &mut [0.0; 3]);
    assert!(result.unwrap_err().message.contains(&u64::MAX.to_string()));
}

#[test]
fn extreme_logits_keep_their_log_sum_exp() {
    let (infinity, nan) = (f32::INFINITY, f32::NAN);
    for cpu in every_cpu() {
        let logits = [
            [1e4, -1e4, 0.0, 1.0],
            [-infinity, 2.0, -infinity, 2.0],
            [-infinity; 4],
            [infinity, 0.0, 0.0, 0.0],
            [0.0, nan, 1.0, 2.0],
        ];
        let (mut loss, mut lse) = ([0.0; 5], [0.0; 5]);
        let targets = [1, 0, 0, 0, 0];
        let view = Rows::new(logits.as_flattened(), 5, 4);
        cross_entropy(cpu, view, Indices::I32(&targets), None, &mut loss, &mut lse).unwrap();
        assert_eq!(lse[..2], [1e4, 2.0 + 2f32.ln()]);
        assert_eq!(loss[..2], [2e4, infinity]);
        assert_eq!(lse[2..4], [-infinity, infinity]);
        assert!(loss[2].is_nan() && loss[3].is_nan());
        assert!(lse[4].is_nan() && loss[4].is_nan());
    }
}
