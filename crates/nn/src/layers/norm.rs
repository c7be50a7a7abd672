//! Normalisations over the last axis.

use lanthorn_ir::{Builder, Result, ops};

use crate::params::{Init, ParamKind, ParamSpec, Params};

/// Mean 0 and variance 1 over the last axis, times a gain plus a shift (Ba, Kiros and Hinton 2016).
///
/// Parameters: `NAME.weight [width]`, `NAME.bias [width]`.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: String,
    bias: String,
    width: usize,
    eps: f64,
}

impl LayerNorm {
    /// A normalisation; `eps` is added to the variance.
    pub fn new(name: &str, width: usize, eps: f64) -> LayerNorm {
        LayerNorm { weight: format!("{name}.weight"), bias: format!("{name}.bias"), width, eps }
    }

    /// The parameters.
    pub fn specs(&self) -> Vec<ParamSpec> {
        vec![
            ParamSpec::new(&self.weight, &[self.width], Init::Ones, ParamKind::Norm),
            ParamSpec::new(&self.bias, &[self.width], Init::Zeros, ParamKind::Norm),
        ]
    }

    /// `x [.., width]` normalised.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        ops::layer_norm(b, x, Some(params.get(&self.weight)?), Some(params.get(&self.bias)?), self.eps)
    }
}

/// Root mean square 1 over the last axis, times a gain (Zhang and Sennrich 2019).
///
/// Parameter: `NAME.weight [width]`.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: String,
    width: usize,
    eps: f64,
}

impl RmsNorm {
    /// A normalisation; `eps` is added to the mean square.
    pub fn new(name: &str, width: usize, eps: f64) -> RmsNorm {
        RmsNorm { weight: format!("{name}.weight"), width, eps }
    }

    /// The parameter.
    pub fn specs(&self) -> Vec<ParamSpec> {
        vec![ParamSpec::new(&self.weight, &[self.width], Init::Ones, ParamKind::Norm)]
    }

    /// `x [.., width]` normalised.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        ops::rms_norm(b, x, Some(params.get(&self.weight)?), self.eps)
    }
}
