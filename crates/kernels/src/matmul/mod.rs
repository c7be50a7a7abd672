//! Matrix products: `C[M, N] = A[M, K] · B[K, N]`, batched, for strided f32, bf16 and f16 operands.
//!
//! Sums are f32. The result reaches the caller through an [`Epilogue`], block by block while a block
//! is in cache, so that a bias, an activation or a conversion costs no pass over memory; [`Store`]
//! is the plain one. The caller supplies scratch memory, whose exact size a [`MatmulPlan`] knows.
//!
//! Three ways, chosen by shape alone ([`plan`]):
//!
//! - *tiled*: A and B are packed into panels and multiplied by a register-blocked kernel ([`kernel`]), which tells the
//!   L2 meanwhile of what it reads next ([`kernel::Ahead`]). B is packed once for all, per task where a task is its
//!   only reader, or not at all where reading it in place is as good. A caller may pack a constant B once and for ever
//!   ([`PackedB`]); the engine's programs do not, so that weights are in memory once, and `matmul_bench` measures what it
//!   would save.
//!   The windows of a convolution are packed from the image itself ([`Windows`]).
//! - *skinny*: few rows, or one column. Bound by reading B, which is streamed once ([`skinny`]).
//! - nothing to do.
//!
//! Each element is one chain of multiply-adds in the order of k on the tiled way, and a fixed
//! tree on the skinny one. Neither depends on the number of threads, so results do not either.

mod element;
pub mod kernel;
pub mod pack;
mod packed;
mod plan;
mod skinny;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod tiled;
mod windows;

pub(crate) use element::with_element;
pub use element::{Element, Memory};
pub use packed::PackedB;
pub use plan::{MatmulPlan, MatmulShape, OperandLayout};
pub use store::Store;
pub use windows::{WindowAxis, Windows};

/// Receives finished blocks of the product.
pub trait Epilogue: Sync {
    /// Where the sums of the block at (row, col) may be kept while they grow, and how far its rows are apart:
    /// the output itself, if it is f32 with unit column stride and need not be read by anyone meanwhile.
    /// [`Epilogue::tile`] then gets this very memory. `None` asks for sums in scratch memory.
    fn target(&self, batch: usize, row: usize, col: usize) -> Option<(*mut f32, usize)> {
        let _ = (batch, row, col);
        None
    }

    /// Takes the sums of one block: element (i, j) of it is `acc[i · ld + j]` and belongs at (row + i, col + j)
    /// of the product of batch entry `batch` (row-major index over the batch axes).
    ///
    /// Called exactly once for every element, from several threads at once with distinct `worker`
    /// numbers below [`MatmulPlan::threads`]. The block may be overwritten.
    fn tile(
        &self,
        batch: usize,
        row: usize,
        col: usize,
        rows: usize,
        cols: usize,
        acc: *mut f32,
        ld: usize,
        worker: usize,
    );
}
