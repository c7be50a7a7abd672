//! The matrix itself, and products.

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
        let mut out = Matrix::zeros(self.rows, other.columns);
        for i in 0..self.rows {
            for k in 0..self.columns {
                let by = self.at(i, k);
                axpy(out.row_mut(i), by, other.row(k));
            }
        }
        out
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

/// The sum of products, in eight chains so that it is a vector loop.
#[inline]
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut chains = [0.0; 8];
    let (xs, ys) = (x.chunks_exact(8), y.chunks_exact(8));
    let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in xs.zip(ys) {
        for lane in 0..8 {
            chains[lane] += x[lane] * y[lane];
        }
    }
    chains.iter().sum::<f64>() + rest
}

/// Rotates two rows: `(x, y) -> (c x + s y, c y - s x)`.
#[inline]
pub(crate) fn rotate(x: &mut [f64], y: &mut [f64], c: f64, s: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (c * *x + s * *y, c * *y - s * *x);
    }
}

/// True if the component that decides a vector's sign is negative.
pub(crate) fn is_negative(vector: impl Iterator<Item = f64> + Clone) -> bool {
    let largest = vector.clone().fold(0.0f64, |largest, v| largest.max(v.abs()));
    vector.into_iter().find(|v| v.abs() > 0.875 * largest).is_some_and(|v| v < 0.0)
}
