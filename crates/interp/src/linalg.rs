//! Linear algebra by the plainest methods that are stable: one matrix at a time, in f64, row-major.

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::prim::Linalg;
use lanthorn_ir::prim::linalg::{Asker, Failed, failed};
use lanthorn_ir::{Prim, Result, TensorType};

use crate::Interp;
use crate::tensor::{HostTensor, Number};

/// A dense matrix.
#[derive(Clone, Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    data: Vec<f64>,
}

impl std::ops::Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.data[row * self.columns + column]
    }
}

impl std::ops::IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.data[row * self.columns + column]
    }
}

impl Matrix {
    fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Matrix {
        let data = (0..rows * columns).map(|at| f(at / columns, at % columns)).collect();
        Matrix { rows, columns, data }
    }

    fn identity(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |i, j| f64::from(u8::from(i == j)))
    }

    fn transposed(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |i, j| self[(j, i)])
    }

    fn times(&self, other: &Matrix) -> Matrix {
        Matrix::from_fn(self.rows, other.columns, |i, j| {
            (0..self.columns).map(|k| self[(i, k)] * other[(k, j)]).sum()
        })
    }

    fn column(&self, j: usize) -> Vec<f64> {
        (0..self.rows).map(|i| self[(i, j)]).collect()
    }

    /// Columns in another order.
    fn ordered(&self, order: &[usize]) -> Matrix {
        Matrix::from_fn(self.rows, order.len(), |i, j| self[(i, order[j])])
    }

    fn scale_column(&mut self, j: usize, by: f64) {
        for i in 0..self.rows {
            self[(i, j)] *= by;
        }
    }
}

/// The matrices of a batch.
fn matrices(x: &HostTensor) -> Vec<Matrix> {
    let rank = x.shape().len();
    let (rows, columns) = (x.shape()[rank - 2], x.shape()[rank - 1]);
    let count: usize = x.shape()[..rank - 2].iter().product();
    let data = x.to_f64();
    let size = rows * columns;
    let part = |i: usize| Matrix { rows, columns, data: data[i * size..(i + 1) * size].to_vec() };
    (0..count).map(part).collect()
}

/// Runs one primitive on operands that `infer` has accepted.
pub fn run(
    b: &Interp,
    linalg: Linalg,
    inputs: &[HostTensor],
    types: &[TensorType],
) -> Result<Outputs<HostTensor>> {
    let mut outputs: Vec<Vec<f64>> = vec![Vec::new(); types.len()];
    let mut push = |parts: &[&[f64]]| {
        for (output, part) in outputs.iter_mut().zip(parts) {
            output.extend_from_slice(part);
        }
    };
    match linalg {
        Linalg::Solve { .. }
        | Linalg::Det
        | Linalg::Cofactor
        | Linalg::SlogDet
        | Linalg::Pinv { .. }
        | Linalg::Completion => return Prim::Linalg(linalg).decompose_or_fail(b, inputs),
        Linalg::Permutation { rows, inverse } => {
            let count = inputs[0].shape().last().copied().unwrap_or(0);
            let pivots = inputs[0].to_i64();
            let matrices = types[0].numel().checked_div(rows).unwrap_or(0);
            for at in 0..matrices {
                let order = permutation(&pivots[at * count..(at + 1) * count], rows, at)?;
                push(&[&floats(&if inverse { inverted(&order) } else { order })]);
            }
        }
        Linalg::TriangularSolve { upper, unit, full_rank } => {
            for (at, (a, right)) in matrices(&inputs[0]).iter().zip(matrices(&inputs[1])).enumerate() {
                if full_rank {
                    expect_full_rank(a, upper, epsilon(&types[0]), at)?;
                }
                push(&[&triangular_solve(a, right, upper, unit).data]);
            }
        }
        _ => {
            for (at, a) in matrices(&inputs[0]).into_iter().enumerate() {
                match linalg {
                    Linalg::Cholesky => push(&[&cholesky(&a, at)?.data]),
                    Linalg::Lu { regular } => {
                        let (lu, pivots) = lu(a, regular, at)?;
                        push(&[&lu.data, &pivots]);
                    }
                    Linalg::Qr { complete } => {
                        let (q, r) = qr(a, complete);
                        push(&[&q.data, &r.data]);
                    }
                    Linalg::Eigh => {
                        let (values, vectors) = eigh(&a, at)?;
                        push(&[&values, &vectors.data]);
                    }
                    Linalg::Svd => {
                        let (u, s, vt) = svd(&a, at)?;
                        push(&[&u.data, &s, &vt.data]);
                    }
                    _ => push(&[&exponential(&a).data]),
                }
            }
        }
    }
    let tensors = types.iter().zip(outputs).map(|(ty, data)| {
        // A vector of pivots is whole numbers, everything else floats.
        let number = |v: f64| if ty.dtype.is_float() { Number::Float(v) } else { Number::Int(v as i128) };
        HostTensor::collect(ty, data.into_iter().map(number))
    });
    tensors.collect()
}

fn epsilon(ty: &TensorType) -> f64 {
    if ty.dtype == lanthorn_ir::DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

fn floats(order: &[usize]) -> Vec<f64> {
    order.iter().map(|&v| v as f64).collect()
}

/// Row by row: `l_ij = (a_ij - sum_k l_ik l_jk) / l_jj`.
fn cholesky(a: &Matrix, at: usize) -> Result<Matrix> {
    let n = a.rows;
    let mut l = Matrix::from_fn(n, n, |_, _| 0.0);
    for i in 0..n {
        for j in 0..=i {
            let rest = a[(i, j)] - (0..j).map(|k| l[(i, k)] * l[(j, k)]).sum::<f64>();
            if i > j {
                l[(i, j)] = rest / l[(j, j)];
            } else if rest > 0.0 && rest.is_finite() {
                l[(i, i)] = rest.sqrt();
            } else {
                return Err(failed(at, Failed::NotPositiveDefinite { order: i + 1 }));
            }
        }
    }
    Ok(l)
}

/// Gaussian elimination with the largest pivot of each column; pivots count from 1.
fn lu(mut a: Matrix, regular: Option<Asker>, at: usize) -> Result<(Matrix, Vec<f64>)> {
    let k = a.rows.min(a.columns);
    let mut pivots = Vec::with_capacity(k);
    for step in 0..k {
        let mut pivot = step;
        for i in step + 1..a.rows {
            if a[(i, step)].abs() > a[(pivot, step)].abs() {
                pivot = i;
            }
        }
        pivots.push((pivot + 1) as f64);
        for j in 0..a.columns {
            let other = a[(pivot, j)];
            a[(pivot, j)] = a[(step, j)];
            a[(step, j)] = other;
        }
        if a[(step, step)] == 0.0 {
            continue;
        }
        for i in step + 1..a.rows {
            a[(i, step)] /= a[(step, step)];
            for j in step + 1..a.columns {
                a[(i, j)] -= a[(i, step)] * a[(step, j)];
            }
        }
    }
    if let (Some(asker), Some(place)) = (regular, (0..k).find(|&i| a[(i, i)] == 0.0)) {
        return Err(failed(at, Failed::Singular { asker, place }));
    }
    Ok((a, pivots))
}

/// The order of rows to which the swaps lead.
fn permutation(pivots: &[i64], rows: usize, at: usize) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = (0..rows).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        let to = usize::try_from(pivot).ok().and_then(|p| p.checked_sub(1)).filter(|p| *p < rows);
        let to = to.ok_or_else(|| failed(at, Failed::PivotOutOfRange { pivot }))?;
        order.swap(i, to);
    }
    Ok(order)
}

fn inverted(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    for (i, &at) in order.iter().enumerate() {
        back[at] = i;
    }
    back
}

fn expect_full_rank(a: &Matrix, upper: bool, epsilon: f64, at: usize) -> Result<()> {
    let n = a.rows;
    let read = |i: usize, j: usize| i == j || (i < j) == upper;
    let elements = (0..n * n).filter(|&flat| read(flat / n, flat % n)).map(|flat| a.data[flat]);
    let largest = elements.clone().fold(0.0f64, |largest, v| largest.max(v.abs()));
    let squares = elements.map(|v| if largest == 0.0 { 0.0 } else { (v / largest) * (v / largest) });
    let norm = largest * squares.sum::<f64>().sqrt();
    match (0..n).find(|&i| a[(i, i)].abs() <= 4.0 * n as f64 * epsilon * norm) {
        None => Ok(()),
        Some(column) => Err(failed(at, Failed::RankDeficient { column })),
    }
}

/// Substitution, from the first row for a lower triangle and from the last for an upper one.
fn triangular_solve(a: &Matrix, mut x: Matrix, upper: bool, unit: bool) -> Matrix {
    let n = a.rows;
    for step in 0..n {
        let i = if upper { n - 1 - step } else { step };
        let known = if upper { i + 1..n } else { 0..i };
        for j in 0..x.columns {
            let rest = x[(i, j)] - known.clone().map(|k| a[(i, k)] * x[(k, j)]).sum::<f64>();
            x[(i, j)] = if unit { rest } else { rest / a[(i, i)] };
        }
    }
    x
}

/// Householder's reflections, each applied to all columns (Golub and Van Loan, "Matrix Computations", section 5.2), with
/// LAPACK's signs.
fn qr(mut a: Matrix, complete: bool) -> (Matrix, Matrix) {
    let (m, n) = (a.rows, a.columns);
    let k = m.min(n);
    let mut q = Matrix::identity(m);
    if a.data.iter().any(|v| !v.is_finite()) {
        let inner = if complete { m } else { k };
        return (Matrix::from_fn(m, inner, |_, _| f64::NAN), Matrix::from_fn(inner, n, |_, _| f64::NAN));
    }
    for step in 0..k {
        let below = (step + 1..m).map(|i| a[(i, step)] * a[(i, step)]).sum::<f64>();
        if below == 0.0 {
            continue;
        }
        let head = a[(step, step)];
        let norm = (head * head + below).sqrt();
        let target = if head < 0.0 { norm } else { -norm };
        let mut v = vec![0.0; m];
        v[step] = head - target;
        for i in step + 1..m {
            v[i] = a[(i, step)];
        }
        let square: f64 = v.iter().map(|v| v * v).sum();
        for j in 0..n {
            let along = 2.0 / square * (step..m).map(|i| v[i] * a[(i, j)]).sum::<f64>();
            for i in step..m {
                a[(i, j)] -= along * v[i];
            }
        }
        for i in 0..m {
            let along = 2.0 / square * (step..m).map(|j| q[(i, j)] * v[j]).sum::<f64>();
            for j in step..m {
                q[(i, j)] -= along * v[j];
            }
        }
    }
    let inner = if complete { m } else { k };
    let r = Matrix::from_fn(inner, n, |i, j| if i <= j { a[(i, j)] } else { 0.0 });
    (Matrix::from_fn(m, inner, |i, j| q[(i, j)]), r)
}

/// How many times Jacobi's methods go over all pairs; they converge quadratically, within some ten.
const SWEEPS: usize = 60;

fn expect_finite(op: &'static str, a: &Matrix, at: usize) -> Result<()> {
    if a.data.iter().all(|v| v.is_finite()) { Ok(()) } else { Err(failed(at, Failed::NotFinite { op })) }
}

/// The first component whose magnitude exceeds 7/8 of the largest decides a vector's sign.
fn is_negative(vector: &[f64]) -> bool {
    let largest = vector.iter().fold(0.0f64, |largest, v| largest.max(v.abs()));
    vector.iter().find(|v| v.abs() > 0.875 * largest).is_some_and(|v| *v < 0.0)
}

/// Jacobi's cyclic method on the lower triangle (Golub and Van Loan, section 8.5).
fn eigh(a: &Matrix, at: usize) -> Result<(Vec<f64>, Matrix)> {
    let n = a.rows;
    let mut a = Matrix::from_fn(n, n, |i, j| a[(i.max(j), i.min(j))]);
    expect_finite("eigh", &a, at)?;
    let mut vectors = Matrix::identity(n);
    for _ in 0..SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let beside = a[(p, q)];
                // Below this it is rounding of the diagonal.
                if beside.abs() <= f64::EPSILON * 1e-3 * (a[(p, p)] * a[(q, q)]).abs().sqrt() || beside == 0.0
                {
                    continue;
                }
                turned = true;
                let tau = (a[(q, q)] - a[(p, p)]) / (2.0 * beside);
                let t = tau.signum() / (tau.abs() + tau.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for i in 0..n {
                    let (x, y) = (a[(i, p)], a[(i, q)]);
                    (a[(i, p)], a[(i, q)]) = (c * x - s * y, s * x + c * y);
                }
                for j in 0..n {
                    let (x, y) = (a[(p, j)], a[(q, j)]);
                    (a[(p, j)], a[(q, j)]) = (c * x - s * y, s * x + c * y);
                }
                for i in 0..n {
                    let (x, y) = (vectors[(i, p)], vectors[(i, q)]);
                    (vectors[(i, p)], vectors[(i, q)]) = (c * x - s * y, s * x + c * y);
                }
                (a[(p, q)], a[(q, p)]) = (0.0, 0.0);
            }
        }
        if !turned {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[(i, i)].total_cmp(&a[(j, j)]));
    let mut vectors = vectors.ordered(&order);
    for j in 0..n {
        if is_negative(&vectors.column(j)) {
            vectors.scale_column(j, -1.0);
        }
    }
    Ok((order.iter().map(|&i| a[(i, i)]).collect(), vectors))
}

/// One-sided Jacobi (Hestenes 1958): rotations make the columns orthogonal; their lengths are the singular values.
fn svd(a: &Matrix, at: usize) -> Result<(Matrix, Vec<f64>, Matrix)> {
    expect_finite("svd", a, at)?;
    let (u, s, v) = if a.rows < a.columns {
        let (v, s, u) = tall_svd(a.transposed());
        (u, s, v)
    } else {
        tall_svd(a.clone())
    };
    let floor = s.first().copied().unwrap_or(0.0) * f64::EPSILON * a.rows.max(a.columns) as f64;
    let rank = s.iter().filter(|v| **v > floor).count();
    let (mut u, mut v) = (completed(&u, rank), completed(&v, rank));
    for j in 0..s.len() {
        // A pair turns together, unless its value is zero.
        if is_negative(&u.column(j)) {
            u.scale_column(j, -1.0);
            v.scale_column(j, if j < rank { -1.0 } else { 1.0 });
        }
        if j >= rank && is_negative(&v.column(j)) {
            v.scale_column(j, -1.0);
        }
    }
    Ok((u, s, v.transposed()))
}

/// The first `rank` columns, and others that complete them as Householder's QR does.
fn completed(q: &Matrix, rank: usize) -> Matrix {
    let (whole, _) = qr(Matrix::from_fn(q.rows, rank, |i, j| q[(i, j)]), true);
    Matrix::from_fn(q.rows, q.columns, |i, j| if j < rank { q[(i, j)] } else { whole[(i, j)] })
}

/// `u`, descending values and `v`; a column of `u` whose value is zero is not a unit vector yet.
fn tall_svd(mut a: Matrix) -> (Matrix, Vec<f64>, Matrix) {
    let n = a.columns;
    let mut v = Matrix::identity(n);
    let inner = |a: &Matrix, p: usize, q: usize| (0..a.rows).map(|i| a[(i, p)] * a[(i, q)]).sum::<f64>();
    for _ in 0..SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (alpha, beta, gamma) = (inner(&a, p, p), inner(&a, q, q), inner(&a, p, q));
                if gamma.abs() <= f64::EPSILON * (alpha * beta).sqrt() || gamma == 0.0 {
                    continue;
                }
                turned = true;
                let zeta = (beta - alpha) / (2.0 * gamma);
                let t = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for matrix in [&mut a, &mut v] {
                    for i in 0..matrix.rows {
                        let (x, y) = (matrix[(i, p)], matrix[(i, q)]);
                        (matrix[(i, p)], matrix[(i, q)]) = (c * x - s * y, s * x + c * y);
                    }
                }
            }
        }
        if !turned {
            break;
        }
    }
    let lengths: Vec<f64> = (0..n).map(|j| inner(&a, j, j).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| lengths[j].total_cmp(&lengths[i]));
    let (mut u, v) = (a.ordered(&order), v.ordered(&order));
    let s: Vec<f64> = order.iter().map(|&j| lengths[j]).collect();
    for (j, &length) in s.iter().enumerate().filter(|(_, length)| **length > 0.0) {
        (0..u.rows).for_each(|i| u[(i, j)] /= length);
    }
    (u, s, v)
}

/// The power series of a matrix scaled below 1/2, squared back (Moler and Van Loan 2003, method 3).
fn exponential(a: &Matrix) -> Matrix {
    let n = a.rows;
    let sums = (0..n).map(|i| (0..n).map(|j| a[(i, j)].abs()).sum::<f64>());
    let norm = sums.fold(0.0, f64::max);
    if !norm.is_finite() || a.data.iter().any(|v| v.is_nan()) {
        return Matrix::from_fn(n, n, |_, _| f64::NAN);
    }
    let mut squarings = 0;
    while norm * 0.5f64.powi(squarings) > 0.5 {
        squarings += 1;
    }
    let scaled = Matrix::from_fn(n, n, |i, j| a[(i, j)] * 0.5f64.powi(squarings));
    let (mut sum, mut term) = (Matrix::identity(n), Matrix::identity(n));
    for k in 1..=20 {
        term = term.times(&scaled);
        term.data.iter_mut().for_each(|v| *v /= f64::from(k));
        sum.data.iter_mut().zip(&term.data).for_each(|(sum, term)| *sum += term);
    }
    for _ in 0..squarings {
        sum = sum.times(&sum);
    }
    sum
}
