//! Cholesky, LU and substitution.

use crate::Failure;
use crate::matrix::{Matrix, axpy};
use faer::linalg::cholesky::llt::factor::LltError;
use faer::linalg::solvers::{Llt, PartialPivLu};
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_unit_lower_triangular_in_place,
    solve_unit_upper_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{Par, Side};

/// The lower triangular `l` with `a = l l^T`; of `a` the lower triangle is read.
pub fn cholesky(a: &Matrix) -> Result<Matrix, Failure> {
    // A minor with a number that is not finite is not positive definite; one before it may fail first.
    let finite = (0..a.rows).find(|&i| a.row(i)[..=i].iter().any(|v| !v.is_finite())).unwrap_or(a.rows);
    let l = match Llt::new(a.view().submatrix(0, 0, finite, finite), Side::Lower) {
        Ok(factors) => Matrix::of(factors.L()),
        Err(LltError::NonPositivePivot { index }) => {
            return Err(Failure::NotPositiveDefinite { order: index + 1 });
        }
    };
    if finite < a.rows {
        return Err(Failure::NotPositiveDefinite { order: finite + 1 });
    }
    Ok(l)
}

/// Overwrites `a` with its packed LU factorisation; row `i` was swapped with row `pivots[i] - 1`, in this order.
pub fn lu(a: &mut Matrix) -> Vec<i32> {
    if a.data.is_empty() || !a.is_finite() {
        return eliminated(a);
    }
    let factors = PartialPivLu::new(a.view());
    let (lower, upper) = (factors.L(), factors.U());
    let (rows, columns) = (a.rows, a.columns);
    let packed =
        (0..rows).flat_map(|i| (0..columns).map(move |j| if i > j { lower[(i, j)] } else { upper[(i, j)] }));
    let packed = Matrix::new(rows, columns, packed.collect());
    // `faer` divides by a pivot of 0, after which nothing is a number.
    if !packed.is_finite() {
        return eliminated(a);
    }
    *a = packed;
    transpositions(factors.P().arrays().0, rows.min(columns))
}

/// The swaps, one after another, that lead to an order of rows.
fn transpositions(order: &[usize], count: usize) -> Vec<i32> {
    // Which row stands at a place, and at which place a row stands.
    let mut rows: Vec<usize> = (0..order.len()).collect();
    let mut places = rows.clone();
    let swapped = order.iter().take(count).enumerate().map(|(i, &row)| {
        let place = places[row];
        rows.swap(i, place);
        places[rows[place]] = place;
        places[row] = i;
        place as i32 + 1
    });
    swapped.collect()
}

/// [`lu`] where a column may have no pivot: it is left as it is, as LAPACK does.
fn eliminated(a: &mut Matrix) -> Vec<i32> {
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
    // `faer` multiplies by reciprocals: what division by 0 makes infinite would be no number there.
    let regular = unit || (0..a.rows).all(|i| a.at(i, i) != 0.0);
    if !regular || !a.is_finite() || !x.is_finite() {
        return substituted(a, x, upper, unit);
    }
    let (a, x) = (a.view(), x.view_mut());
    match (upper, unit) {
        (false, false) => solve_lower_triangular_in_place(a, x, Par::Seq),
        (false, true) => solve_unit_lower_triangular_in_place(a, x, Par::Seq),
        (true, false) => solve_upper_triangular_in_place(a, x, Par::Seq),
        (true, true) => solve_unit_upper_triangular_in_place(a, x, Par::Seq),
    }
}

/// [`triangular_solve`] by its definition, row by row.
fn substituted(a: &Matrix, x: &mut Matrix, upper: bool, unit: bool) {
    let (n, columns) = (a.rows, x.columns);
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        let known = if upper { i + 1..n } else { 0..i };
        for j in 0..columns {
            let rest = x.at(i, j) - known.clone().map(|k| a.at(i, k) * x.at(k, j)).sum::<f64>();
            x.data[i * columns + j] = if unit { rest } else { rest / a.at(i, i) };
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
