//! Transforms of graphs: gradient, forward derivative, vectorisation, checkpointing.

pub(crate) mod record;
