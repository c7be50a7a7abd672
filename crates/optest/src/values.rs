//! The reference backend against values from outside.

use crate::report::{Checked, all_equal};
use crate::{Case, text};

/// Eagerly, and as a graph where the op has one.
pub fn check(case: &Case) -> Checked {
    let operands = case.operands();
    let found = case.reference(&operands).map_err(text)?;
    all_equal(&found, &case.expected, case.tolerance)?;
    if case.is_eager_only() {
        return Ok(());
    }
    let (leaves, roots) = case.graph(&operands).map_err(|e| format!("in a graph: {e}"))?;
    let bindings: Vec<_> = leaves.into_iter().zip(operands).collect();
    let lazy = lanthorn_interp::eval(&roots, &bindings).map_err(|e| format!("in a graph: {e}"))?;
    all_equal(&lazy, &found, 0.0).map_err(|e| format!("in a graph: {e}"))
}
