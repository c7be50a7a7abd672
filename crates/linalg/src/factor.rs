//! Cholesky, LU and substitution.

use crate::Failure;
use crate::matrix::{Matrix, axpy, dot};

/// The lower triangular `l` with `a = l l^T`; of `a` the lower triangle is read.
pub fn cholesky(a: &Matrix) -> Result<Matrix, Failure> {
    let n = a.rows;
    let mut l = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..i {
            let rest = a.at(i, j) - dot(&l.row(i)[..j], &l.row(j)[..j]);
            l.data[i * n + j] = rest / l.at(j, j);
        }
        let rest = a.at(i, i) - dot(&l.row(i)[..i], &l.row(i)[..i]);
        if rest.is_nan() || rest <= 0.0 {
            return Err(Failure::NotPositiveDefinite { order: i + 1 });
        }
        l.data[i * n + i] = rest.sqrt();
    }
    Ok(l)
}

/// Overwrites `a` with its packed LU factorisation; row `i` was swapped with row `pivots[i] - 1`, in this order.
pub fn lu(a: &mut Matrix) -> Vec<i32> {
    let k = a.rows.min(a.columns);
    let mut pivots = Vec::with_capacity(k);
    for step in 0..k {
        let mut pivot = step;
        for i in step + 1..a.rows {
            if a.at(i, step).abs() > a.at(pivot, step).abs() {
                pivot = i;
            }
        }
        pivots.push(pivot as i32 + 1);
        if pivot != step {
            let (x, y) = a.rows_mut(step, pivot);
            x.swap_with_slice(y);
        }
        let head = a.at(step, step);
        if head == 0.0 {
            continue;
        }
        for i in step + 1..a.rows {
            let (upper, row) = a.rows_mut(step, i);
            row[step] /= head;
            let by = -row[step];
            axpy(&mut row[step + 1..], by, &upper[step + 1..]);
        }
    }
    pivots
}

/// The first zero on the diagonal of a packed factorisation.
pub fn singular_at(lu: &Matrix) -> Option<usize> {
    (0..lu.rows.min(lu.columns)).find(|&i| lu.at(i, i) == 0.0)
}

/// The order of rows to which pivots lead, or the one that leads back.
pub fn permutation(pivots: &[i32], order: &mut [i32], inverse: bool) -> Result<(), Failure> {
    let rows = order.len();
    let mut forward: Vec<usize> = (0..rows).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        let place = usize::try_from(pivot).ok().and_then(|p| p.checked_sub(1)).filter(|p| *p < rows);
        match place {
            Some(place) if i < rows => forward.swap(i, place),
            _ => return Err(Failure::PivotOutOfRange { pivot }),
        }
    }
    for (i, &from) in forward.iter().enumerate() {
        if inverse {
            order[from] = i as i32;
        } else {
            order[i] = from as i32;
        }
    }
    Ok(())
}

/// Overwrites `x` with `a^-1 x` for a triangular `a`, of which only that triangle is read.
pub fn triangular_solve(a: &Matrix, x: &mut Matrix, upper: bool, unit: bool) {
    let n = a.rows;
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        let known = if upper { i + 1..n } else { 0..i };
        if x.columns == 1 {
            let rest = x.data[i] - dot(&a.row(i)[known.clone()], &x.data[known]);
            x.data[i] = if unit { rest } else { rest / a.at(i, i) };
            continue;
        }
        for k in known {
            let by = -a.at(i, k);
            let (row, solved) = x.rows_mut(i, k);
            axpy(row, by, solved);
        }
        if !unit {
            let head = a.at(i, i);
            x.row_mut(i).iter_mut().for_each(|v| *v /= head);
        }
    }
}

/// The first column of an upper triangular matrix (or row of a lower one) that depends on those before it: a diagonal
/// element up to `4 n epsilon` of the Frobenius norm of the triangle, which is what rounding leaves of zero.
pub fn full_rank(a: &Matrix, upper: bool, epsilon: f64) -> Result<(), usize> {
    let n = a.rows;
    let triangle = |i: usize| if upper { &a.row(i)[i..] } else { &a.row(i)[..=i] };
    // Of scaled elements, so that squares stay in range.
    let largest = (0..n).flat_map(triangle).fold(0.0f64, |largest, v| largest.max(v.abs()));
    let scaled = |v: f64| if largest == 0.0 { 0.0 } else { v / largest };
    let norm = largest * (0..n).flat_map(triangle).map(|v| scaled(*v) * scaled(*v)).sum::<f64>().sqrt();
    match (0..n).find(|&i| a.at(i, i).abs() <= 4.0 * n as f64 * epsilon * norm) {
        Some(i) => Err(i),
        None => Ok(()),
    }
}
