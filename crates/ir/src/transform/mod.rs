//! Transforms: gradient, forward derivative, vectorisation, checkpointing.
//!
//! On the lazy graph, [`vjp`], [`grad`], [`jvp`], [`jacrev`], [`jacfwd`], [`hessian`], [`vmap`] and [`checkpoint`] take
//! values and give values.
//! For any other builder, [`Tape`] records what is applied and goes back over it by the same rules. Nothing
//! here recurses: a graph may be as deep as memory allows.

mod checkpoint;
mod forward;
mod gradient;
mod jacobian;
pub(crate) mod record;
mod tape;

pub use checkpoint::checkpoint;
pub use forward::{jvp, vmap, vmap_axes, vmap_graph, vmap_graph_by};
pub use gradient::{grad, vjp};
pub use jacobian::{hessian, jacfwd, jacrev};
pub use tape::{Tape, Tracked};
