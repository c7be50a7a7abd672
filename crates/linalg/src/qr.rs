//! Householder reflections and QR (Golub and Van Loan, "Matrix Computations", sections 5.1 and 5.2).

use crate::matrix::{Matrix, axpy};

/// A reflection `1 - tau v v^T` with `v[0] = 1`, which takes a vector to `head` times the first axis.
pub(crate) struct Reflection {
    pub v: Vec<f64>,
    pub tau: f64,
    pub head: f64,
}

impl Reflection {
    /// As LAPACK's larfg: the head changes its sign, and stays as it is if there is nothing below.
    pub fn of(x: impl Iterator<Item = f64>) -> Reflection {
        let mut v: Vec<f64> = x.collect();
        let largest = v.iter().skip(1).fold(0.0f64, |largest, v| largest.max(v.abs()));
        let Some(&head) = v.first() else { return Reflection { v, tau: 0.0, head: 0.0 } };
        let scale = largest.max(head.abs());
        if largest == 0.0 && v.iter().all(|v| !v.is_nan()) {
            v.iter_mut().for_each(|v| *v = 0.0);
            v[0] = 1.0;
            return Reflection { v, tau: 0.0, head };
        }
        // In units of the largest, so that squares neither vanish nor overflow; NaN goes through.
        v.iter_mut().for_each(|v| *v /= scale);
        let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        let target = if v[0] < 0.0 { norm } else { -norm };
        let pivot = v[0] - target;
        v[0] = 1.0;
        v[1..].iter_mut().for_each(|v| *v /= pivot);
        Reflection { tau: -pivot / target, v, head: target * scale }
    }

    /// Applies it from the left to rows `row..` and columns `column..`.
    pub fn apply_left(&self, a: &mut Matrix, row: usize, column: usize) {
        if self.tau == 0.0 {
            return;
        }
        let mut along = vec![0.0; a.columns - column];
        for (i, &v) in self.v.iter().enumerate() {
            axpy(&mut along, v, &a.row(row + i)[column..]);
        }
        for (i, &v) in self.v.iter().enumerate() {
            axpy(&mut a.row_mut(row + i)[column..], -self.tau * v, &along);
        }
    }

    /// Applies it from the right to rows `row..` and columns `column..`.
    pub fn apply_right(&self, a: &mut Matrix, row: usize, column: usize) {
        if self.tau == 0.0 {
            return;
        }
        for i in row..a.rows {
            let part = &mut a.row_mut(i)[column..column + self.v.len()];
            let along = crate::matrix::dot(part, &self.v);
            axpy(part, -self.tau * along, &self.v);
        }
    }
}

/// The product of reflections, of which the `i`-th works on rows `first + i..`, on the first `columns` axes of `m`.
pub(crate) fn product(reflections: &[Reflection], m: usize, columns: usize, first: usize) -> Matrix {
    let mut q = Matrix::zeros(m, columns);
    (0..m.min(columns)).for_each(|i| q.data[i * columns + i] = 1.0);
    for (i, reflection) in reflections.iter().enumerate().rev() {
        let row = first + i;
        // Columns before it are still those of the identity, which it does not touch.
        reflection.apply_left(&mut q, row, row.min(columns));
    }
    q
}

fn reflected(mut a: Matrix) -> (Vec<Reflection>, Matrix) {
    let k = a.rows.min(a.columns);
    let mut reflections = Vec::with_capacity(k);
    for step in 0..k {
        let reflection = Reflection::of((step..a.rows).map(|i| a.at(i, step)));
        reflection.apply_left(&mut a, step, step + 1);
        a.data[step * a.columns + step] = reflection.head;
        (step + 1..a.rows).for_each(|i| a.data[i * a.columns + step] = 0.0);
        reflections.push(reflection);
    }
    (reflections, a)
}

/// `q [m, k]` and `r [k, n]` of `a [m, n]`, with `k = min(m, n)`.
pub fn qr(a: Matrix) -> (Matrix, Matrix) {
    let (m, n) = (a.rows, a.columns);
    let k = m.min(n);
    let (reflections, mut r) = reflected(a);
    r.data.truncate(k * n);
    r.rows = k;
    (product(&reflections, m, k, 0), r)
}

/// `q [m, m]` and `r [m, n]`.
pub fn complete_qr(a: Matrix) -> (Matrix, Matrix) {
    let m = a.rows;
    let (reflections, r) = reflected(a);
    (product(&reflections, m, m, 0), r)
}
