//! What factorisations promise, on matrices of many shapes, ranks and sizes of number.

use lanthorn_linalg::{
    Failure, Matrix, cholesky, complete_qr, eigh, exponential, full_rank, lu, permutation, qr, singular_at,
    svd, triangular_solve,
};

/// Numbers from a fixed sequence.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        Matrix::new(rows, columns, (0..rows * columns).map(|_| self.next()).collect())
    }

    /// Of that rank.
    fn product(&mut self, rows: usize, columns: usize, rank: usize) -> Matrix {
        let left = self.matrix(rows, rank);
        left.times(&self.matrix(rank, columns))
    }

    fn symmetric(&mut self, n: usize) -> Matrix {
        let x = self.matrix(n, n);
        let y = x.transposed();
        Matrix::new(n, n, x.data.iter().zip(&y.data).map(|(x, y)| x + y).collect())
    }
}

fn largest(x: &Matrix) -> f64 {
    x.data.iter().fold(0.0, |m, v| v.abs().max(m))
}

#[track_caller]
fn assert_close(what: &str, found: &Matrix, expected: &Matrix, scale: f64) {
    assert_eq!((found.rows, found.columns), (expected.rows, expected.columns), "{what}");
    let n = found.rows.max(found.columns).max(1) as f64;
    for (x, y) in found.data.iter().zip(&expected.data) {
        assert!(
            (x - y).abs() <= 8.0 * n * f64::EPSILON * scale.max(f64::MIN_POSITIVE),
            "{what}: {x} for {y}"
        );
    }
}

#[track_caller]
fn assert_orthonormal(what: &str, q: &Matrix) {
    assert_close(what, &q.transposed().times(q), &Matrix::identity(q.columns), 1.0);
}

fn diagonal(values: &[f64]) -> Matrix {
    let mut matrix = Matrix::zeros(values.len(), values.len());
    values.iter().enumerate().for_each(|(i, v)| matrix.data[i * values.len() + i] = *v);
    matrix
}

const SHAPES: [(usize, usize); 13] = [
    (0, 0),
    (0, 3),
    (3, 0),
    (1, 1),
    (1, 5),
    (5, 1),
    (2, 2),
    (3, 3),
    (7, 4),
    (4, 7),
    (20, 20),
    (33, 21),
    (21, 40),
];

/// Matrices that have broken such programs: of low rank, of huge and tiny numbers, of zeros, of ties.
fn trials(s: &mut Sequence, rows: usize, columns: usize) -> Vec<Matrix> {
    let scaled = |x: Matrix, by: f64| Matrix::new(x.rows, x.columns, x.data.iter().map(|v| v * by).collect());
    let graded: Vec<f64> = (0..rows * columns).map(|i| 10f64.powi(-((i % columns.max(1)) as i32))).collect();
    let random = s.matrix(rows, columns);
    vec![
        random.clone(),
        scaled(random.clone(), 1e150),
        scaled(random, 1e-160),
        s.product(rows, columns, 2.min(rows)),
        Matrix::zeros(rows, columns),
        Matrix::new(rows, columns, vec![1.0; rows * columns]),
        Matrix::new(rows, columns, graded),
        Matrix::new(
            rows,
            columns,
            (0..rows * columns).map(|i| f64::from(u8::from(i % (columns + 1) == 0))).collect(),
        ),
    ]
}

#[test]
fn singular_values_and_vectors_give_the_matrix_back() {
    let mut s = Sequence(1);
    for (rows, columns) in SHAPES {
        for (trial, a) in trials(&mut s, rows, columns).iter().enumerate() {
            let what = format!("svd of trial {trial}, {rows} x {columns}");
            let (u, values, vt) = svd(a).unwrap();
            assert_orthonormal(&what, &u);
            assert_orthonormal(&what, &vt.transposed());
            assert!(
                values.is_sorted_by(|x, y| x >= y) && values.iter().all(|v| *v >= 0.0),
                "{what}: {values:?}"
            );
            assert_close(&what, &u.times(&diagonal(&values)).times(&vt), a, largest(a));
        }
    }
}

#[test]
fn eigenvalues_and_vectors_give_the_matrix_back() {
    let mut s = Sequence(2);
    for n in [0, 1, 2, 3, 8, 25, 40] {
        let mut all: Vec<Matrix> = trials(&mut s, n, n).iter().map(|x| x.transposed().times(x)).collect();
        all.push(s.symmetric(n));
        all.push(Matrix::identity(n));
        for (trial, a) in all.iter().enumerate().filter(|(_, a)| a.data.iter().all(|v| v.is_finite())) {
            let what = format!("eigh of trial {trial}, {n} x {n}");
            let (values, vectors) = eigh(a).unwrap();
            assert_orthonormal(&what, &vectors);
            assert!(values.is_sorted(), "{what}: {values:?}");
            let back = vectors.times(&diagonal(&values)).times(&vectors.transposed());
            assert_close(&what, &back, a, largest(a));
        }
    }
}

#[test]
fn the_upper_triangle_is_not_read() {
    let crooked = Matrix::new(2, 2, vec![2.0, f64::NAN, 1.0, 2.0]);
    let (values, _) = eigh(&crooked).unwrap();
    assert!((values[0] - 1.0).abs() < 1e-15 && (values[1] - 3.0).abs() < 1e-15, "{values:?}");
    assert_eq!(cholesky(&crooked).unwrap().at(1, 0), 1.0 / 2f64.sqrt());
}

#[test]
fn reflections_give_an_orthonormal_factor_and_a_triangle() {
    let mut s = Sequence(3);
    for (rows, columns) in SHAPES {
        for (trial, a) in trials(&mut s, rows, columns).into_iter().enumerate() {
            let what = format!("qr of trial {trial}, {rows} x {columns}");
            for (q, r) in [qr(a.clone()), complete_qr(a.clone())] {
                assert_orthonormal(&what, &q);
                assert_close(&what, &q.times(&r), &a, largest(&a));
                assert!((0..r.rows).all(|i| (0..i.min(r.columns)).all(|j| r.at(i, j) == 0.0)), "{what}");
            }
        }
    }
}

#[test]
fn elimination_gives_the_rows_in_order() {
    let mut s = Sequence(4);
    for (rows, columns) in SHAPES {
        for (trial, a) in trials(&mut s, rows, columns).into_iter().enumerate() {
            let k = rows.min(columns);
            let mut packed = a.clone();
            let pivots = lu(&mut packed);
            let (mut lower, mut upper) = (Matrix::zeros(rows, k), Matrix::zeros(k, columns));
            for i in 0..rows {
                for j in 0..columns {
                    if i > j && j < k {
                        lower.data[i * k + j] = packed.at(i, j);
                        assert!(packed.at(i, j).abs() <= 1.0, "the pivot was not the largest");
                    } else if i < k {
                        upper.data[i * columns + j] = packed.at(i, j);
                    }
                }
            }
            (0..k).for_each(|i| lower.data[i * k + i] = 1.0);
            let mut order = vec![0; rows];
            permutation(&pivots, &mut order, false).unwrap();
            let ordered = order.iter().flat_map(|&i| a.row(i as usize)).copied().collect();
            let what = format!("lu of trial {trial}, {rows} x {columns}");
            assert_close(&what, &lower.times(&upper), &Matrix::new(rows, columns, ordered), largest(&a));
            let mut back = vec![0; rows];
            permutation(&pivots, &mut back, true).unwrap();
            assert!((0..rows).all(|i| order[back[i] as usize] as usize == i), "{what}");
        }
    }
    assert_eq!(singular_at(&Matrix::new(2, 2, vec![1.0, 2.0, 0.5, 0.0])), Some(1));
    assert_eq!(permutation(&[3], &mut [0, 0], false), Err(Failure::PivotOutOfRange { pivot: 3 }));
}

#[test]
fn roots_and_substitution_undo_products() {
    let mut s = Sequence(5);
    for n in [0, 1, 2, 9, 30] {
        let x = s.matrix(n, n);
        let mut a = x.times(&x.transposed());
        (0..n).for_each(|i| a.data[i * n + i] += 1.0);
        let l = cholesky(&a).unwrap();
        assert_close("cholesky", &l.times(&l.transposed()), &a, largest(&a));
        for columns in [0, 1, 3] {
            let right = s.matrix(n, columns);
            for (triangle, upper) in [(l.clone(), false), (l.transposed(), true)] {
                let mut solved = right.clone();
                triangular_solve(&triangle, &mut solved, upper, false);
                assert_close("substitution", &triangle.times(&solved), &right, largest(&l) * 4.0);
            }
        }
    }
}

#[test]
fn what_has_no_result_says_why() {
    let indefinite = Matrix::new(2, 2, vec![1.0, 2.0, 2.0, 1.0]);
    assert_eq!(cholesky(&indefinite), Err(Failure::NotPositiveDefinite { order: 2 }));
    let nan = Matrix::new(2, 2, vec![1.0, 0.0, f64::NAN, 1.0]);
    assert_eq!(cholesky(&nan), Err(Failure::NotPositiveDefinite { order: 2 }));
    assert_eq!(eigh(&nan).unwrap_err(), Failure::NotFinite);
    assert_eq!(svd(&nan).unwrap_err(), Failure::NotFinite);
    assert_eq!(full_rank(&diagonal(&[1.0, 1e-17]), true, f64::EPSILON), Err(1));
    assert_eq!(full_rank(&diagonal(&[1.0, 1e-3]), false, f64::EPSILON), Ok(()));
}

/// Against sums known in closed form: a rotation, a nilpotent matrix, and Moler and Van Loan's example.
#[test]
fn exponentials_are_those_of_closed_forms() {
    for angle in [0.1, 1.0, 20.0f64] {
        let turned = exponential(&Matrix::new(2, 2, vec![0.0, -angle, angle, 0.0]));
        let (s, c) = angle.sin_cos();
        let scale = angle.max(1.0) * 4.0;
        assert_close("a rotation", &turned, &Matrix::new(2, 2, vec![c, -s, s, c]), scale);
    }
    let nilpotent = exponential(&Matrix::new(2, 2, vec![0.0, 1e5, 0.0, 0.0]));
    assert_close("nilpotent", &nilpotent, &Matrix::new(2, 2, vec![1.0, 1e5, 0.0, 1.0]), 1e5);
    let example = exponential(&Matrix::new(2, 2, vec![-49.0, 24.0, -64.0, 31.0]));
    let expected = [-0.735759, 0.551819, -1.471518, 1.103638];
    assert!(example.data.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-6), "{example:?}");
    assert!(exponential(&Matrix::new(1, 1, vec![f64::INFINITY])).at(0, 0).is_nan());
}

/// Sizes below 70 on both axes: square, tall, wide, and thin enough that QR comes first.
fn sizes(s: &mut Sequence) -> Vec<(usize, usize)> {
    let mut size = |below: f64| (s.next().abs() * below) as usize;
    let mut all: Vec<(usize, usize)> = (0..40).map(|_| (size(70.0), size(70.0))).collect();
    all.extend((0..12).map(|_| (40 + size(30.0), size(9.0))));
    all.extend((0..12).map(|_| (size(9.0), 40 + size(30.0))));
    all.extend([1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 69].map(|n| (n, n)));
    all
}

#[track_caller]
fn assert_within_a_trillionth(what: &str, found: &Matrix, expected: &Matrix) {
    assert_eq!((found.rows, found.columns), (expected.rows, expected.columns), "{what}");
    let bound = 1e-12 * largest(expected);
    for (x, y) in found.data.iter().zip(&expected.data) {
        assert!((x - y).abs() <= bound, "{what}: {x} for {y}");
    }
}

#[track_caller]
fn assert_orthonormal_to_a_trillionth(what: &str, q: &Matrix) {
    let gram = q.transposed().times(q);
    if q.columns > 0 {
        assert_within_a_trillionth(what, &gram, &Matrix::identity(q.columns));
    }
}

/// Of full rank, of a low one, and with equal columns and columns of zeros among others.
fn ranks(s: &mut Sequence, rows: usize, columns: usize) -> Vec<(&'static str, Matrix)> {
    let full = s.matrix(rows, columns);
    let rank = rows.min(columns) / 2;
    let low = s.product(rows, columns, rank);
    let mut holed = full.clone();
    for row in holed.data.chunks_exact_mut(columns.max(1)) {
        for j in 0..columns {
            match j % 5 {
                1 => row[j] = 0.0,
                3 => row[j] = row[j - 1],
                _ => {}
            }
        }
    }
    vec![("full", full), ("low", low), ("holed", holed)]
}

#[test]
fn factors_of_random_sizes_and_ranks_give_the_matrix_back() {
    let mut s = Sequence(6);
    for (rows, columns) in sizes(&mut s) {
        let k = rows.min(columns);
        for (kind, a) in ranks(&mut s, rows, columns) {
            let what = format!("{kind}, {rows} x {columns}");
            let (u, values, vt) = svd(&a).unwrap();
            assert_orthonormal_to_a_trillionth(&what, &u);
            assert_orthonormal_to_a_trillionth(&what, &vt.transposed());
            assert!(
                values.is_sorted_by(|x, y| x >= y) && values.iter().all(|v| *v >= 0.0),
                "{what}: {values:?}"
            );
            assert_within_a_trillionth(&what, &u.times(&diagonal(&values)).times(&vt), &a);
            if kind == "low" {
                let first = values.first().copied().unwrap_or(0.0);
                assert!(values.iter().skip(k / 2).all(|v| *v <= 1e-12 * first), "{what}: {values:?}");
            }
            for ((q, r), inner) in [(qr(a.clone()), k), (complete_qr(a.clone()), rows)] {
                assert_eq!((q.columns, r.rows), (inner, inner), "{what}");
                assert_orthonormal_to_a_trillionth(&what, &q);
                assert_within_a_trillionth(&what, &q.times(&r), &a);
                assert!((0..r.rows).all(|i| (0..i.min(columns)).all(|j| r.at(i, j) == 0.0)), "{what}");
            }
            let mut packed = a.clone();
            let pivots = lu(&mut packed);
            let (mut lower, mut upper) = (Matrix::zeros(rows, k), Matrix::zeros(k, columns));
            for i in 0..rows {
                (0..k.min(i)).for_each(|j| lower.data[i * k + j] = packed.at(i, j));
                if i < k {
                    lower.data[i * k + i] = 1.0;
                    (i..columns).for_each(|j| upper.data[i * columns + j] = packed.at(i, j));
                }
            }
            let mut order = vec![0; rows];
            permutation(&pivots, &mut order, false).unwrap();
            let ordered = order.iter().flat_map(|&i| a.row(i as usize)).copied().collect();
            assert_within_a_trillionth(&what, &lower.times(&upper), &Matrix::new(rows, columns, ordered));
        }
    }
}

#[test]
fn eigenvalues_that_repeat_have_orthonormal_vectors() {
    let mut s = Sequence(7);
    for n in 0..70 {
        let (q, _) = qr(s.matrix(n, n));
        let steps = |each: usize| -> Vec<f64> { (0..n).map(|i| (i / each) as f64 - 3.0).collect() };
        for (each, expected) in [1, 4, n.max(1)].map(|each| (each, steps(each))) {
            let what = format!("{n} x {n}, each {each} times");
            let x = q.times(&diagonal(&expected)).times(&q.transposed());
            let y = x.transposed();
            let a = Matrix::new(n, n, x.data.iter().zip(&y.data).map(|(x, y)| (x + y) / 2.0).collect());
            let (values, vectors) = eigh(&a).unwrap();
            assert_orthonormal_to_a_trillionth(&what, &vectors);
            assert!(values.is_sorted(), "{what}: {values:?}");
            let scale = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
            assert!(
                values.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1e-12 * scale),
                "{what}: {values:?}"
            );
            let back = vectors.times(&diagonal(&values)).times(&vectors.transposed());
            assert!(back.data.iter().zip(&a.data).all(|(x, y)| (x - y).abs() <= 1e-12 * scale), "{what}");
        }
    }
}

/// The signs of LAPACK's reflections: a diagonal element of `r` has the other sign than the one that it replaces.
#[test]
fn signs_are_those_that_are_promised() {
    let (q, r) = qr(Matrix::new(2, 2, vec![3.0, 1.0, 4.0, 2.0]));
    assert_close("r", &r, &Matrix::new(2, 2, vec![-5.0, -2.2, 0.0, 0.4]), 8.0);
    assert_close("q", &q, &Matrix::new(2, 2, vec![-0.6, -0.8, -0.8, 0.6]), 8.0);
    // What has nothing below is not reflected.
    for values in [[2.0, -3.0], [-2.0, 3.0]] {
        let (q, r) = complete_qr(diagonal(&values));
        assert_eq!((q, r), (Matrix::identity(2), diagonal(&values)));
    }
    let mut s = Sequence(8);
    for (rows, columns) in [(5, 5), (30, 30), (65, 20), (20, 65)] {
        let a = s.matrix(rows, columns);
        let (u, _, _) = svd(&a).unwrap();
        let gram = a.transposed().times(&a);
        let (_, vectors) = eigh(&gram).unwrap();
        for x in [u, vectors] {
            for j in 0..x.columns {
                let column: Vec<f64> = (0..x.rows).map(|i| x.at(i, j)).collect();
                let most = column.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                let first = column.iter().find(|v| v.abs() > 0.875 * most);
                assert!(first.is_some_and(|v| *v > 0.0), "{rows} x {columns}, {j}");
            }
        }
    }
}

#[test]
fn the_first_minor_that_is_not_positive_definite_is_told() {
    let mut s = Sequence(9);
    for n in (1..70).step_by(3) {
        let x = s.matrix(n, n);
        let mut a = x.times(&x.transposed());
        (0..n).for_each(|i| a.data[i * n + i] += 1.0);
        let l = cholesky(&a).unwrap();
        assert_within_a_trillionth("cholesky", &l.times(&l.transposed()), &a);
        assert!((0..n).all(|i| (i + 1..n).all(|j| l.at(i, j) == 0.0)), "{n}");
        for order in 1..=n {
            for wrong in [-1.0, f64::NAN] {
                let mut broken = a.clone();
                broken.data[(order - 1) * n + order - 1] = wrong;
                // A later one is not told.
                broken.data[n * n - 1] = broken.data[n * n - 1].min(wrong);
                assert_eq!(cholesky(&broken), Err(Failure::NotPositiveDefinite { order }), "{n}");
            }
        }
    }
}

#[test]
fn substitution_reads_one_triangle() {
    let mut s = Sequence(10);
    for n in 0..70 {
        for (upper, unit) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut a = s.matrix(n, n);
            a.data.iter_mut().for_each(|v| *v /= n as f64);
            let mut triangle = Matrix::zeros(n, n);
            for i in 0..n {
                a.data[i * n + i] = if unit { f64::NAN } else { 2.0 + a.at(i, i) };
                for j in 0..n {
                    let read = if upper { j > i } else { j < i };
                    if read || (i == j && !unit) {
                        triangle.data[i * n + j] = a.at(i, j);
                    } else if i == j {
                        triangle.data[i * n + j] = 1.0;
                    } else {
                        a.data[i * n + j] = f64::NAN;
                    }
                }
            }
            for columns in [0, 1, 5, 40] {
                let right = s.matrix(n, columns);
                let mut solved = right.clone();
                triangular_solve(&a, &mut solved, upper, unit);
                let what = format!("{n} x {n}, {columns} columns, upper {upper}, unit {unit}");
                assert_within_a_trillionth(&what, &triangle.times(&solved), &right);
            }
        }
    }
}

/// Nothing panics, and what is not a number stays one.
#[test]
fn numbers_that_are_not_finite_come_through_or_are_refused() {
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for (rows, columns) in [(1, 1), (1, 4), (4, 1), (5, 5), (40, 20), (20, 40)] {
            let mut a = Sequence(11).matrix(rows, columns);
            a.data[rows * columns / 2] = wrong;
            assert_eq!(svd(&a).unwrap_err(), Failure::NotFinite);
            let (q, r) = qr(a.clone());
            assert!(q.data.iter().chain(&r.data).all(|v| v.is_nan()));
            let mut packed = a.clone();
            assert_eq!(lu(&mut packed).len(), rows.min(columns));
            assert!(packed.data.iter().any(|v| !v.is_finite()));
            if rows == columns {
                triangular_solve(&a, &mut Matrix::identity(rows), false, false);
                assert!(exponential(&a).data.iter().all(|v| v.is_nan()));
                let square = Matrix::new(rows, rows, vec![wrong; rows * rows]);
                assert_eq!(eigh(&square).unwrap_err(), Failure::NotFinite);
            }
        }
    }
    let mut x = Matrix::new(2, 1, vec![1.0, 1.0]);
    triangular_solve(&Matrix::zeros(2, 2), &mut x, false, false);
    assert!(x.data.iter().all(|v| !v.is_finite()));
}

/// The sign of a zero decides nothing.
#[test]
fn negative_zeros_are_zeros() {
    let column = |zero: f64| Matrix::new(4, 1, vec![zero, -1.5, zero, 0.25]);
    let (positive, negative) = (complete_qr(column(0.0)), complete_qr(column(-0.0)));
    assert_eq!(positive, negative);
    // LAPACK's reflection of (0, x): the first column turns to -x.
    assert!(positive.0.at(1, 0) > 0.0 && positive.1.at(0, 0) < 0.0);
}
