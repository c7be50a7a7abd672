//! Scaled dot-product attention without a score matrix, and its backward, with the semantics of
//! `lanthorn_ir::prim::Attention`.
//!
//! Query heads that share a key head are one matrix of query rows. Blocks of [`TILE`] rows run over tiles of
//! [`TILE`] keys with a running maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022); the backward
//! recomputes the probabilities of a tile from the log-sum-exp. Scores are kept transposed, queries in the
//! lanes of vectors: maxima, sums and masks then need no work across lanes, and keys and values are read row by
//! row as they lie. A few query rows take a path of their own, which is bound by reading
//! the cache.
//!
//! Logits are in base 2: the factor `log2(e)` is folded into the scale of the queries.
//!
//! Work is cut by shape alone, every output element is summed by one task in a fixed order, and so results
//! do not depend on the number of threads.

mod backward;
mod decode;
mod forward;
mod masked;
#[cfg(test)]
mod masked_tests;
mod operands;
mod paged;
#[cfg(test)]
mod paged_tests;
mod product;
mod source;
#[cfg(test)]
mod tests;
mod tile;

pub use backward::{attention_grad, attention_grad_scratch_bytes};
pub use forward::{attention, attention_scratch_bytes};
pub use masked::Masked;
pub use operands::{AttentionOptions, Heads, HeadsMut};
pub use paged::{PagedOptions, Pool, Tables, paged_attention, paged_attention_scratch_bytes, paged_update};

/// Query rows of a block and keys of a tile.
const TILE: usize = 64;
