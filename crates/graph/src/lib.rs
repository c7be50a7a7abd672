//! Pure lazy graphs by handle: what an API of immutable tensors needs.
//!
//! A handle stands for a node of a graph, for elements, for an executable, or for a pool or a sequence of a paged cache.
//! What a tensor or an executable is never changes. Nothing runs until
//! roots are computed: their leaves are collected, the program of that structure is taken from the device's cache, and
//! it runs as a [`Job`], on any thread.
//!
//! | module | what it holds |
//! |---|---|
//! | [`graph`] | [`Graph`]: handles, leaves, draws |
//! | `leaf` | what a leaf without elements stands for: an input, a scalar, the key of a draw, positions |
//! | `apply` | ops of the table on handles |
//! | `transform` | gradients, forward derivatives, vectorisation, checkpoints |
//! | `trace` | roots as a program with a list of what it takes |
//! | [`executable`] | programs that are called with bindings and scalars |
//! | [`decode`] | programs over a paged cache, pools, sequences |
//! | `fold` | constant weights: what follows from elements alone is computed once |
//! | `report` | what is known of an executable, as JSON |
//! | [`job`] | computations, calls and reads, which run anywhere and end here |
//! | [`raw`] | all of it as calls over numbers, for bindings |
//!
//! **Draws are leaves.** The key of a random node is an argument of the program: each execution binds a new one, so
//! that a program draws anew and all of its roots see one draw.

mod apply;
pub mod decode;
pub mod executable;
mod fold;
pub mod graph;
pub mod job;
mod leaf;
pub mod raw;
mod report;
mod trace;
mod transform;

pub use executable::Executable;
pub use graph::{Graph, Stats};
pub use job::{Job, Outcome, Output};
pub use lanthorn_session::Handle;
pub use leaf::Leaf;
pub use raw::Raw;
