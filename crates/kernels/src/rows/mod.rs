//! Kernels over rows: softmax, normalisations, cross-entropy, embedding, slice updates, the places of extremes and random values.
//!
//! A row kernel takes operands as [`Rows`]: rows that are contiguous along the last axis, some stride
//! apart. It is written once over [`Element`] (f32, f64, bf16, f16) and computes in the wide type, rounding
//! only what it stores. Whoever has other layouts copies first.
//!
//! Work is cut by shape alone into tasks for the pool, and sums across rows are taken over
//! chunks of fixed size, so results do not depend on the number of threads. Kernels allocate nothing: one
//! that needs scratch has a function that says how much, exactly.
//!
//! Shapes are the caller's business (`infer` has checked them); a kernel that is handed operands that
//! do not fit panics before it touches memory. What only the values can show, such as a target out of range, is an
//! error of kind [`Execute`](lanthorn_error::ErrorKind::Execute), found before anything is written.

mod arg;
mod cross_entropy;
pub(crate) mod element;
mod embedding;
mod indices;
mod layer_norm;
pub(crate) mod operands;
mod partials;
pub(crate) mod pass;
mod philox;
mod rms_norm;
mod softmax;
#[cfg(test)]
pub(crate) mod tests;
mod update_slice;
pub(crate) mod wide;

pub use arg::arg_extreme;
pub use cross_entropy::{cross_entropy, cross_entropy_grad};
pub use element::Element;
pub use embedding::{embedding, embedding_grad, embedding_grad_scratch_bytes};
pub use indices::Indices;
pub use layer_norm::{layer_norm, layer_norm_grad, layer_norm_grad_scratch_bytes};
pub use operands::{Cpu, Rows, RowsMut, Scratch};
pub use philox::{RandomKey, long_words, normal, uniform, words};
pub use rms_norm::{rms_norm, rms_norm_grad, rms_norm_grad_scratch_bytes};
pub use softmax::{log_softmax, log_softmax_grad, softmax, softmax_grad};
pub use update_slice::{Strided, StridedMut, update_slice};
pub use wide::Wide;
