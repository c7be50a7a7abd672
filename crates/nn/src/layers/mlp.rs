//! The feed-forward part of a transformer block.

use lanthorn_ir::ops::GeluApproximate;
use lanthorn_ir::{Builder, Result, ops};

use super::Linear;
use crate::params::{ParamSpec, Params};

/// `x [.., width]` to `project(gelu(expand(x)))`, with the tanh form of GELU (Hendrycks and Gimpel 2016).
#[derive(Clone, Debug)]
pub struct Mlp {
    expand: Linear,
    project: Linear,
}

impl Mlp {
    /// A feed-forward part of two maps.
    pub fn new(expand: Linear, project: Linear) -> Mlp {
        Mlp { expand, project }
    }

    /// The parameters.
    pub fn specs(&self) -> Vec<ParamSpec> {
        [self.expand.specs(), self.project.specs()].concat()
    }

    /// `[.., width]` to `[.., width]`.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let hidden = self.expand.forward(b, params, x)?;
        let active = ops::gelu(b, &hidden, GeluApproximate::Tanh)?;
        self.project.forward(b, params, &active)
    }
}
