//! What sessions compose values of and nobody calls by name: these are no rows of the table.

use super::pointwise::{apply_binary, where_};
use crate::builder::Builder;
use crate::error::Result;
use crate::expr::BinaryOp;
use crate::prim::{Control, Prim};

/// [`clamp`](super::clamp) with bounds that are values, of the dtype of `x` and not NaN.
pub fn clamp_between<B: Builder>(
    b: &B,
    x: &B::Value,
    low: Option<&B::Value>,
    high: Option<&B::Value>,
) -> Result<B::Value> {
    let mut y = x.clone();
    for (bound, beyond) in [(low, BinaryOp::Lt), (high, BinaryOp::Gt)] {
        if let Some(bound) = bound {
            y = where_(b, &apply_binary(b, beyond, &y, bound)?, bound, &y)?;
        }
    }
    Ok(y)
}

/// `x`, through which derivatives flow as if it were `history`: what is left where `x` was written over `history` while no
/// derivatives were kept, as behind torch's `no_grad`.
///
/// Errors: values of two types.
pub fn written<B: Builder>(b: &B, x: &B::Value, history: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Control(Control::Written), &[x.clone(), history.clone()])
}
