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
    let factors = Qr::new(a.divided(scale).view());
    let q = if inner == m { factors.compute_Q() } else { factors.compute_thin_Q() };
    let mut r = Matrix::of(factors.thin_R());
    // Below it nothing but zeros is left.
    r.data.resize(inner * n, 0.0);
    r.rows = inner;
    r.data.iter_mut().for_each(|v| *v *= scale);
    (Matrix::of(q.as_ref()), r)
}
