//! How a Lanthorn program will be run: passes from the graph to fused regions, memory plan and program.
//!
//! [`compile`](pipeline::compile) is one visible list of passes, each a function from one typed form to the next:
//!
//! | pass | from | to |
//! |---|---|---|
//! | `index` | graph values | [`Indexed`](indexed::Indexed) |
//! | `legalize` | `Indexed` | `Indexed` in which the backend supports every primitive |
//! | `simplify` | `Indexed` | `Indexed` |
//! | `regions` | `Indexed` | [`Fused`](kernel::Fused): kernels over buffers |
//! | `plan` | `Fused` | [`Plan`](plan::Plan): order, places, peak bytes |
//! | `lower` | `Plan` | the backend's [`Program`](backend::Program) |
//!
//! `LANTHORN_LOG=graph,regions,plan` prints the forms (`code` is the backend's to print),
//! `LANTHORN_LOG=verify` checks each after its pass, as builds with debug assertions always do.

pub mod backend;
pub mod builder;
pub mod cancel;
pub mod clock;
pub mod cost;
mod index;
pub mod indexed;
pub mod kernel;
pub mod legalize;
pub mod pipeline;
pub mod plan;
pub mod planner;
pub mod regions;
mod show;
pub mod simplify;
pub mod single;
pub mod slot;
pub mod verify;

#[cfg(test)]
mod testing;
