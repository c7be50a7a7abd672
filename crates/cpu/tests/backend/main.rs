//! The CPU backend, held against the reference: every op and primitive, compiled and eager.

mod fixtures;
mod harness;
mod isa;
mod prims;
mod products;
mod random;
mod reductions;
mod rules;
mod state;

#[allow(dead_code)]
#[path = "../../../interp/tests/rules/cases.rs"]
mod cases;
#[path = "../../../interp/tests/rules/numpy_cases.rs"]
mod numpy_cases;
#[allow(dead_code)]
#[path = "../../../interp/tests/rules/support.rs"]
mod support;
