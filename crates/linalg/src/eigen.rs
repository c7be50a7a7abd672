//! Eigenvalues of symmetric matrices: to tridiagonal form by reflections, then QL steps with implicit shifts (Golub and
//! Van Loan, sections 8.3.1 and 8.3.3; the step as in EISPACK's tql2).

use crate::Failure;
use crate::matrix::{Matrix, axpy, dot, is_negative, rotate};
use crate::qr::{Reflection, product};

/// QL steps for one eigenvalue; two or three are usual.
const STEPS: usize = 80;

/// Ascending eigenvalues and eigenvectors in columns; of `a` the lower triangle is read.
pub fn eigh(a: &Matrix) -> Result<(Vec<f64>, Matrix), Failure> {
    let n = a.rows;
    let mut symmetric = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            symmetric.data[i * n + j] = a.at(i, j);
            symmetric.data[j * n + i] = a.at(i, j);
        }
    }
    if !symmetric.is_finite() {
        return Err(Failure::NotFinite);
    }
    let scale = symmetric.scale();
    let (mut diagonal, mut beside, q) = tridiagonal(symmetric.divided(scale));
    // Vectors in rows, so that rotations run along memory.
    let mut vectors = q.transposed();
    implicit_ql(&mut diagonal, &mut beside, &mut vectors)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| diagonal[i].total_cmp(&diagonal[j]));
    let mut columns = Matrix::zeros(n, n);
    for (to, &from) in order.iter().enumerate() {
        let vector = vectors.row(from);
        let sign = if is_negative(vector.iter().copied()) { -1.0 } else { 1.0 };
        vector.iter().enumerate().for_each(|(i, v)| columns.data[i * n + to] = sign * v);
    }
    Ok((order.iter().map(|&i| diagonal[i] * scale).collect(), columns))
}

/// The diagonal, what stands beside it (one element fewer, then a 0) and `q` with `a = q t q^T`.
fn tridiagonal(mut a: Matrix) -> (Vec<f64>, Vec<f64>, Matrix) {
    let n = a.rows;
    let mut beside = vec![0.0; n];
    let mut reflections = Vec::new();
    for k in 0..n.saturating_sub(1) {
        let reflection = Reflection::of((k + 1..n).map(|i| a.at(i, k)));
        beside[k] = reflection.head;
        let (v, tau) = (&reflection.v, reflection.tau);
        if tau != 0.0 {
            // a - v w^T - w v^T on the block below, with w = tau a v - (tau^2 v^T a v / 2) v.
            let mut w: Vec<f64> = (k + 1..n).map(|i| tau * dot(&a.row(i)[k + 1..], v)).collect();
            let share = -0.5 * tau * dot(&w, v);
            axpy(&mut w, share, v);
            for i in k + 1..n {
                let (vi, wi) = (v[i - k - 1], w[i - k - 1]);
                let row = &mut a.row_mut(i)[k + 1..];
                axpy(row, -vi, &w);
                axpy(row, -wi, v);
            }
        }
        reflections.push(reflection);
    }
    let diagonal = (0..n).map(|i| a.at(i, i)).collect();
    (diagonal, beside, product(&reflections, n, n, 1))
}

fn implicit_ql(d: &mut [f64], e: &mut [f64], vectors: &mut Matrix) -> Result<(), Failure> {
    let n = d.len();
    for l in 0..n {
        let mut steps = 0;
        loop {
            let m = (l..n - 1).find(|&m| e[m].abs() <= f64::EPSILON * (d[m].abs() + d[m + 1].abs()));
            let m = m.unwrap_or(n - 1);
            if m == l {
                break;
            }
            steps += 1;
            if steps > STEPS {
                return Err(Failure::NotConverged);
            }
            let mut g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let mut r = g.hypot(1.0);
            g = d[m] - d[l] + e[l] / (g + r.copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut split = false;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    split = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                let (low, high) = vectors.rows_mut(i, i + 1);
                rotate(high, low, c, s);
            }
            if !split {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
    Ok(())
}
