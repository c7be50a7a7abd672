//! The tape: what ran, and how gradients flow back.
//!
//! A node is one differentiable op that has run; its edges lead to the nodes of its operands. Nodes are `Send + Sync`,
//! are dropped without recursion, and save tensors with their versions. The engine visits nodes from the newest to
//! the oldest. Derivatives are written as dispatched ops ([`crate::ops`]), so under `create_graph` a backward pass
//! records a tape of its own.

pub mod engine;
pub mod grad_mode;
pub mod history;
pub mod hook;
pub mod node;
pub mod saved;
#[cfg(test)]
mod tests;

pub use engine::{Backward, backward, grad};
pub use history::{accumulator, check_in_place, gradient_edge, rebase_history, record, requires_grad};
