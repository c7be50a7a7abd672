//! What a Lanthorn program means: dtypes, layouts, primitives with all their rules, the graph and its
//! transforms.
//!
//! One sentence to remember: a small set of primitives, each with all its rules in one place, and
//! everything else is composition. This crate never sees a storage, a thread or a clock.

pub mod builder;
pub mod dtype;
pub mod expr;
pub mod float8;
pub mod graph;
pub mod layout;
pub mod ops;
pub mod philox;
pub mod prim;
pub mod transform;

pub use lanthorn_error as error;

pub use builder::{Builder, Lazy};
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use graph::{Node, Value};
pub use layout::{Dims, Layout, TensorType};
pub use prim::Prim;
