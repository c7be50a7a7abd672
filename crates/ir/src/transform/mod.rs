//! Transforms of graphs: gradient, forward derivative, vectorisation, checkpointing.
