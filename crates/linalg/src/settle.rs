//! What a singular value decomposition leaves open, settled, so that every way to it gives the same vectors.

use crate::matrix::{Matrix, is_negative};
use crate::qr::complete_qr;

/// Vectors of singular values that are zero to rounding, any basis of their space, become the columns that complete the
/// others in Householder's QR. Then the sign of each pair is settled in `u`; where the value is zero, that of `vt` in
/// itself.
pub(crate) fn settle(u: Matrix, s: &[f64], vt: Matrix) -> (Matrix, Matrix) {
    let k = s.len();
    let floor = s.first().copied().unwrap_or(0.0) * f64::EPSILON * u.rows.max(vt.columns) as f64;
    let rank = s.iter().filter(|v| **v > floor).count();
    let (mut u, mut vt) = (u, vt);
    if rank < k {
        u = completed(u, rank);
        vt = completed(vt.transposed(), rank).transposed();
    }
    for j in 0..k {
        if is_negative((0..u.rows).map(|i| u.at(i, j))) {
            (0..u.rows).for_each(|i| u.data[i * k + j] = -u.data[i * k + j]);
            if j < rank {
                vt.row_mut(j).iter_mut().for_each(|v| *v = -*v);
            }
        }
        if j >= rank && is_negative(vt.row(j).iter().copied()) {
            vt.row_mut(j).iter_mut().for_each(|v| *v = -*v);
        }
    }
    (u, vt)
}

/// The first `rank` columns, and others that complete them.
fn completed(q: Matrix, rank: usize) -> Matrix {
    let first = (0..q.rows).flat_map(|i| &q.row(i)[..rank]).copied().collect();
    let (whole, _) = complete_qr(Matrix::new(q.rows, rank, first));
    let mut out = q;
    for i in 0..out.rows {
        let columns = rank..out.columns;
        out.row_mut(i)[columns.clone()].copy_from_slice(&whole.row(i)[columns]);
    }
    out
}
