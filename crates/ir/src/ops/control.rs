//! Control over derivatives; nothing here computes.

use crate::builder::Builder;
use crate::error::Result;
use crate::prim::{Control, Prim};

/// `x`, through which no derivative flows: to every transform it is a constant, as behind torch's `detach`.
pub fn stop_gradient<B: Builder>(b: &B, x: &B::Value) -> Result<B::Value> {
    b.apply1(Prim::Control(Control::StopGradient), std::slice::from_ref(x))
}
