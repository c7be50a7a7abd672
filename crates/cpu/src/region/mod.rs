//! Fused regions: scalar expressions run over tiles that stay in the L1 cache.
//!
//! A region reads and writes memory once, however long its expression. Each tile of [`TILE`] elements
//! goes through three stages: operands are brought into slots (or used where they lie), each step of
//! the expression is a vector loop from slots to a slot, and results go out. All loads of a tile come
//! before all its stores, which is why an output may be the memory of an equally laid out input.
//!
//! | file | idea |
//! |---|---|
//! | `program` | a [`Phase`](lanthorn_compiler::kernel::Phase) with slots assigned |
//! | `steps`, `plain`, `fold` | the vector loops, the only code that is compiled for each instruction set |
//! | `access` | strided operands, run by run, with conversion to and from storage types |
//! | `map`, `reduce`, `epilogue` | the drivers: pointwise, folds, and the tail of a matrix product |

pub(crate) mod access;
pub(crate) mod epilogue;
mod fold;
pub(crate) mod map;
mod plain;
pub(crate) mod program;
pub(crate) mod reduce;
mod steps;

/// Elements of a tile: 2 KiB of f32, so that some twenty slots fit into a 48 KiB L1 cache.
pub(crate) const TILE: usize = 512;
/// Tiles of one task of the pool.
pub(crate) const TILES_PER_TASK: usize = 16;
/// Vectors may read and write whole groups of this many elements in slots.
pub(crate) const GROUP: usize = crate::simd::MAX_LANES;
