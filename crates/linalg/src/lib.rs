//! Dense linear algebra on plain slices: one matrix at a time, row-major, in f64.
//!
//! Every function takes whole matrices and writes whole results; what fails says so as a [`Failure`], which the caller
//! words. The inner loops run along rows, so that they are vectors to the compiler; nothing here allocates more than a
//! few matrices, knows tensors, threads or clocks, or reads past what it is given.
//!
//! Signs that mathematics leaves open are settled: those of QR are LAPACK's, and in each eigenvector and left singular
//! vector the first component whose magnitude exceeds 7/8 of the largest is positive.

mod eigen;
mod exponential;
mod factor;
mod matrix;
mod qr;
mod settle;
mod svd;

pub use eigen::eigh;
pub use exponential::exponential;
pub use factor::{cholesky, full_rank, lu, permutation, singular_at, triangular_solve};
pub use matrix::Matrix;
pub use qr::{complete_qr, qr};
pub use svd::svd;

/// Why a matrix has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The leading minor of this order is not positive definite.
    NotPositiveDefinite { order: usize },
    /// An element is infinite or NaN.
    NotFinite,
    /// The iteration did not end.
    NotConverged,
    /// A pivot that is no row.
    PivotOutOfRange { pivot: i32 },
}
