//! Control over derivatives; nothing here computes.

use crate::builder::Builder;
use crate::error::Result;
use crate::prim::{Control, Prim};

/// `x`, through which no derivative flows: to every transform it is a constant, as behind torch's `detach`.
pub fn stop_gradient<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Control(Control::StopGradient), std::slice::from_ref(x))
}

/// `x`, through which derivatives flow as if it were `history`: what is left where `x` was written over `history` while no
/// derivatives were kept, as behind torch's `no_grad`.
///
/// Errors: values of two types.
pub fn written<B: Builder>(b: &B, x: &B::Value, history: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Control(Control::Written), &[x.clone(), history.clone()])
}
