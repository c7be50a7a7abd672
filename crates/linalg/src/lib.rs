//! Dense linear algebra on plain slices: one matrix at a time, row-major, in f64.
//!
//! The factorisations are `faer`'s, on one thread; what is here is the surface that callers keep: LAPACK's packing and
//! pivots, numbers of any size, empty matrices, and what fails as a [`Failure`], which the caller words. Nothing here
//! allocates more than a few matrices, knows tensors, threads or clocks, reads past what it is given, or hands `faer`
//! a number that is not finite to factorise.
//!
//! Signs that mathematics leaves open are settled: those of QR are LAPACK's, and in each eigenvector and left singular
//! vector the first component whose magnitude exceeds 7/8 of the largest is positive. Where a column of QR depends on
//! those before it to rounding, `r` goes on in the same row, as an echelon.

mod exponential;
mod factor;
mod matrix;
mod qr;
mod settle;
mod spectral;

pub use exponential::exponential;
pub use factor::{cholesky, full_rank, lu, permutation, singular_at, triangular_solve};
pub use matrix::Matrix;
pub use qr::{complete_qr, qr};
pub use spectral::{eigh, svd};

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
