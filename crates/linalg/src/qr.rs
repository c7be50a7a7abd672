//! QR by reflections.

use crate::matrix::Matrix;
use faer::linalg::solvers::Qr;

/// `q [m, k]` and `r [k, n]` of `a [m, n]`, with `k = min(m, n)`; NaN throughout if an element is not finite.
pub fn qr(a: Matrix) -> (Matrix, Matrix) {
    let k = a.rows.min(a.columns);
    factored(a, k)
}

/// `q [m, m]` and `r [m, n]`; NaN throughout if an element is not finite.
pub fn complete_qr(a: Matrix) -> (Matrix, Matrix) {
    let m = a.rows;
    factored(a, m)
}

/// `q` of that many columns, and as many rows of `r`.
fn factored(a: Matrix, inner: usize) -> (Matrix, Matrix) {
    let (m, n) = (a.rows, a.columns);
    if !a.is_finite() {
        return (
            Matrix::new(m, inner, vec![f64::NAN; m * inner]),
            Matrix::new(inner, n, vec![f64::NAN; inner * n]),
        );
    }
    if m == 0 || n == 0 {
        let mut q = Matrix::zeros(m, inner);
        (0..inner).for_each(|i| q.data[i * inner + i] = 1.0);
        return (q, Matrix::zeros(inner, n));
    }
    let scale = a.scale();
    let mut a = a.divided(scale);
    // A negative zero would turn a reflection round.
    a.data.iter_mut().for_each(|v| *v += 0.0);
    let factors = Qr::new(a.view());
    if !is_of_full_rank(&Matrix::of(factors.thin_R())) {
        let (q, mut r) = reflected(a, inner);
        r.data.iter_mut().for_each(|v| *v *= scale);
        return (q, r);
    }
    let q = if inner == m { factors.compute_Q() } else { factors.compute_thin_Q() };
    let mut r = Matrix::of(factors.thin_R());
    // Below it nothing but zeros is left.
    r.data.resize(inner * n, 0.0);
    r.rows = inner;
    r.data.iter_mut().for_each(|v| *v *= scale);
    (Matrix::of(q.as_ref()), r)
}

/// False if a column might depend on those before it: there `faer` goes on in the same row, so that the triangle becomes a
/// staircase.
fn is_of_full_rank(r: &Matrix) -> bool {
    (0..r.rows.min(r.columns)).all(|j| {
        let norm = (0..=j).fold(0.0f64, |norm, i| norm.hypot(r.at(i, j)));
        r.at(j, j).abs() > 32.0 * r.rows as f64 * f64::EPSILON * norm
    })
}

/// One reflection a column, whatever is left in it (Golub and Van Loan, "Matrix Computations", section 5.2).
fn reflected(mut r: Matrix, inner: usize) -> (Matrix, Matrix) {
    let (m, n) = (r.rows, r.columns);
    let mut q = Matrix::identity(m);
    let mut v = vec![0.0; m];
    for step in 0..m.min(n) {
        let below = (step + 1..m).map(|i| r.at(i, step) * r.at(i, step)).sum::<f64>();
        if below == 0.0 {
            continue;
        }
        let head = r.at(step, step);
        let norm = (head * head + below).sqrt();
        (step..m).for_each(|i| v[i] = r.at(i, step));
        v[step] = if head < 0.0 { head - norm } else { head + norm };
        let factor = 2.0 / (v[step] * v[step] + below);
        for j in 0..n {
            let along = factor * (step..m).map(|i| v[i] * r.at(i, j)).sum::<f64>();
            (step..m).for_each(|i| r.data[i * n + j] -= along * v[i]);
        }
        for i in 0..m {
            let along = factor * (step..m).map(|j| q.at(i, j) * v[j]).sum::<f64>();
            (step..m).for_each(|j| q.row_mut(i)[j] -= along * v[j]);
        }
    }
    let mut thin = Matrix::zeros(m, inner);
    (0..m).for_each(|i| thin.row_mut(i).copy_from_slice(&q.row(i)[..inner]));
    let mut triangle = Matrix::zeros(inner, n);
    (0..inner).for_each(|i| {
        (i..n).for_each(|j| triangle.data[i * n + j] = r.at(i, j));
    });
    (thin, triangle)
}
