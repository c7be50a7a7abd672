//! Model families: one file each, whose header names paper and configuration.

pub mod bert;
pub(crate) mod check;
pub mod gpt;
pub mod llama;
