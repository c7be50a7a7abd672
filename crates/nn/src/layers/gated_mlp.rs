//! The feed-forward part of a transformer block, with a gate.

use lanthorn_ir::{Builder, Result, ops};

use super::Linear;
use crate::params::{ParamSpec, Params};

/// `x [.., width]` to `down(silu(gate(x)) * up(x))`: SwiGLU (Shazeer 2020).
#[derive(Clone, Debug)]
pub struct GatedMlp {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl GatedMlp {
    /// A feed-forward part of three maps.
    pub fn new(gate: Linear, up: Linear, down: Linear) -> GatedMlp {
        GatedMlp { gate, up, down }
    }

    /// The parameters.
    pub fn specs(&self) -> Vec<ParamSpec> {
        [self.gate.specs(), self.up.specs(), self.down.specs()].concat()
    }

    /// `[.., width]` to `[.., width]`.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let gate = ops::silu(b, &self.gate.forward(b, params, x)?)?;
        let hidden = ops::mul(b, &gate, &self.up.forward(b, params, x)?)?;
        self.down.forward(b, params, &hidden)
    }
}
