//! The one suite of the ops.
//!
//! An op is tested by *cases*: a call through the op table with values that NumPy, SciPy or upstream torch computed
//! (`fixtures/<family>.py` writes `fixtures/<family>.json`). From every case follow all checks:
//!
//! | check | in |
//! |---|---|
//! | the reference backend gives the values from outside | [`values`] |
//! | first and second derivatives agree with finite differences, forward with reverse | [`derivatives`] |
//! | `vmap` agrees with a loop, also through gradients; a checkpoint changes nothing | [`transforms`] |
//! | a primitive's own loop in the reference agrees with its decomposition | [`prims`] |
//! | a device agrees with the reference: values, derivatives, primitives, layouts, sizes | `device`, by `op_suite!` |
//!
//! `LANTHORN_CASES=scan,cumsum` restricts a run to families and ops of these names. This crate is for tests: it
//! panics on files that are not as they should be, and nothing that is shipped depends on it.

pub mod cases;
pub mod derivatives;
#[cfg(feature = "devices")]
pub mod device;
pub mod fuzz;
#[cfg(feature = "devices")]
pub mod page;
pub mod prims;
pub mod report;
pub mod sequence;
pub mod tolerance;
pub mod transforms;
pub mod values;

pub use cases::Case;
pub use report::Checked;

/// An engine's error as a check's message.
pub(crate) fn text(error: lanthorn_ir::Error) -> String {
    error.to_string()
}
