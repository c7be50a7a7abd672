//! Eigenvalues of symmetric matrices, and singular values.

use crate::Failure;
use crate::matrix::{Matrix, is_negative};
use crate::settle::settle;
use faer::Side;
use faer::linalg::solvers::{SelfAdjointEigen, Svd};

/// Ascending eigenvalues and eigenvectors in columns; of `a` the lower triangle is read.
pub fn eigh(a: &Matrix) -> Result<(Vec<f64>, Matrix), Failure> {
    let n = a.rows;
    let mut lower = Matrix::zeros(n, n);
    for i in 0..n {
        lower.row_mut(i)[..=i].copy_from_slice(&a.row(i)[..=i]);
    }
    if !lower.is_finite() {
        return Err(Failure::NotFinite);
    }
    if n == 0 {
        return Ok((Vec::new(), lower));
    }
    let scale = lower.scale();
    let eigen =
        SelfAdjointEigen::new(lower.divided(scale).view(), Side::Lower).map_err(|_| Failure::NotConverged)?;
    let mut vectors = Matrix::of(eigen.U());
    for j in 0..n {
        if is_negative((0..n).map(|i| vectors.at(i, j))) {
            (0..n).for_each(|i| vectors.data[i * n + j] = -vectors.data[i * n + j]);
        }
    }
    Ok((eigen.S().column_vector().iter().map(|v| v * scale).collect(), vectors))
}

/// `u [m, k]`, descending `s [k]` and `vt [k, n]` with `a = u diag(s) vt`, `k = min(m, n)`.
pub fn svd(a: &Matrix) -> Result<(Matrix, Vec<f64>, Matrix), Failure> {
    if !a.is_finite() {
        return Err(Failure::NotFinite);
    }
    let k = a.rows.min(a.columns);
    if k == 0 {
        return Ok((Matrix::zeros(a.rows, 0), Vec::new(), Matrix::zeros(0, a.columns)));
    }
    let scale = a.scale();
    let singular = Svd::new_thin(a.clone().divided(scale).view()).map_err(|_| Failure::NotConverged)?;
    let s: Vec<f64> = singular.S().column_vector().iter().map(|v| v * scale).collect();
    let (u, vt) = settle(Matrix::of(singular.U()), &s, Matrix::of(singular.V().transpose()));
    Ok((u, s, vt))
}
