//! The matrix itself, products, and how `faer` sees it.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// A dense row-major matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub data: Vec<f64>,
}

impl Matrix {
    /// A matrix from its elements, row by row.
    ///
    /// Panics if their number is not `rows * columns`.
    pub fn new(rows: usize, columns: usize, data: Vec<f64>) -> Matrix {
        assert_eq!(data.len(), rows * columns, "the elements do not fill {rows} x {columns}");
        Matrix { rows, columns, data }
    }

    pub fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, data: vec![0.0; rows * columns] }
    }

    pub fn identity(n: usize) -> Matrix {
        let mut identity = Matrix::zeros(n, n);
        (0..n).for_each(|i| identity.data[i * n + i] = 1.0);
        identity
    }

    #[inline]
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.data[row * self.columns + column]
    }

    #[inline]
    pub fn row(&self, row: usize) -> &[f64] {
        &self.data[row * self.columns..(row + 1) * self.columns]
    }

    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.data[row * self.columns..(row + 1) * self.columns]
    }

    /// Two different rows at once.
    pub(crate) fn rows_mut(&mut self, first: usize, second: usize) -> (&mut [f64], &mut [f64]) {
        let width = self.columns;
        let (low, high) = (first.min(second), first.max(second));
        let (head, tail) = self.data.split_at_mut(high * width);
        let (low, high) = (&mut head[low * width..(low + 1) * width], &mut tail[..width]);
        if first < second { (low, high) } else { (high, low) }
    }

    pub fn transposed(&self) -> Matrix {
        let mut out = Matrix::zeros(self.columns, self.rows);
        for (i, row) in self.data.chunks_exact(self.columns.max(1)).enumerate() {
            row.iter().enumerate().for_each(|(j, &v)| out.data[j * self.rows + i] = v);
        }
        out
    }

    pub fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows, "the columns of one are the rows of the other");
        let mut out = Matrix::zeros(self.rows, other.columns);
        matmul(out.view_mut(), Accum::Replace, self.view(), other.view(), 1.0, Par::Seq);
        out
    }

    pub(crate) fn of(view: MatRef<'_, f64>) -> Matrix {
        let (rows, columns) = view.shape();
        let elements = (0..rows).flat_map(|i| (0..columns).map(move |j| view[(i, j)]));
        Matrix { rows, columns, data: elements.collect() }
    }

    pub(crate) fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.data, self.rows, self.columns)
    }

    pub(crate) fn view_mut(&mut self) -> MatMut<'_, f64> {
        MatMut::from_row_major_slice_mut(&mut self.data, self.rows, self.columns)
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.data.iter().all(|v| v.is_finite())
    }

    /// A power of two by which elements are divided so that the largest is near 1: exact, and squares stay in range.
    pub(crate) fn scale(&self) -> f64 {
        let largest = self.data.iter().fold(0.0f64, |largest, v| largest.max(v.abs()));
        if largest == 0.0 || !largest.is_finite() {
            return 1.0;
        }
        // The exponent alone of a normal number; a subnormal one counts as the smallest of those.
        f64::from_bits(largest.max(f64::MIN_POSITIVE).to_bits() & 0x7ff0_0000_0000_0000)
    }

    pub(crate) fn divided(mut self, by: f64) -> Matrix {
        if by != 1.0 {
            self.data.iter_mut().for_each(|v| *v /= by);
        }
        self
    }
}

/// `y += by * x`.
#[inline]
pub(crate) fn axpy(y: &mut [f64], by: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += by * x;
    }
}

/// True if the component that decides a vector's sign is negative.
pub(crate) fn is_negative(vector: impl Iterator<Item = f64> + Clone) -> bool {
    let largest = vector.clone().fold(0.0f64, |largest, v| largest.max(v.abs()));
    vector.into_iter().find(|v| v.abs() > 0.875 * largest).is_some_and(|v| v < 0.0)
}
