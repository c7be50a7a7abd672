//! Handles, gradients and in-place writes over a graph that has not run.
//!
//! This is what a class API with PyTorch's ways needs, and what a browser's page can carry: it depends on the IR
//! and on the compiler's dense form of programs, never on storages. Where programs run is an [`Engine`]'s affair:
//! a device in this process, or a worker that is sent messages.
//!
//! | module | what it holds |
//! |---|---|
//! | [`engine`] | the [`Engine`] trait |
//! | [`arena`] | slots with generations, so that a stale handle is an error |
//! | `cell` | what a handle stands for: a cell, or a view of one |
//! | [`session`] | [`Session`]: making, describing and releasing tensors |
//! | `apply` | ops on handles; scalars that are arguments |
//! | `write` | in-place writes, through views into their base |
//! | `gradient` | `backward` and gradients |
//! | [`capture`] | functions that are recorded once and run again |
//! | [`commit`] | commit points: one program for all that was written and what is read |
//! | `salvage` | what is left of a commit that failed |
//! | `support` | whether an engine can run an op |
//! | [`raw`] | all of it as calls over numbers, for bindings |
//!
//! **Nothing runs until it is read.** A cell holds a graph value. A commit computes values, and what is computed
//! lets go of the graph that led to it, so step `n` and step `n + 1` of a loop build one structure.
//!
//! **A value that requires no gradients never leads to a variable**: where such a value is made from one that
//! does (under `no_grad`, by `detach`, as a gradient), a leaf stands in for the operand, so that no derivative
//! passes later.

mod apply;
pub mod arena;
pub mod capture;
mod cell;
pub mod commit;
mod counting;
pub mod engine;
mod gradient;
pub mod random;
pub mod raw;
mod salvage;
pub mod session;
mod support;
mod write;

pub use arena::Handle;
pub use capture::{Call, CapturedStats, Purpose};
pub use commit::Pending;
pub use engine::{Engine, EngineStats};
pub use raw::Raw;
pub use session::{Description, Session};
pub use support::Support;
