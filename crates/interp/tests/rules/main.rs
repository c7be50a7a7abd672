//! The rules of every primitive and op, held against the reference backend.

mod batch;
mod cases;
mod derivatives;
mod errors;
mod formulas;
mod nesting;
mod sequences;
mod shapes;
mod support;
mod tape;
