//! The rules of every primitive and op, held against the reference backend.

mod batch;
mod cases;
mod derivatives;
mod errors;
mod formulas;
mod linear_algebra;
mod nesting;
mod sequences;
mod shapes;
mod support;
mod tape;
