//! Normalisation over groups of channels.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::{Layer, Pass};
use crate::models::check::layer_sizes;
use crate::params::{Init, ParamKind, ParamSpec};

/// The settings of [`GroupNorm`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupNormConfig {
    pub channels: usize,
    /// As many as there are channels: instance normalisation (Ulyanov et al. 2016).
    pub groups: usize,
    /// Added to the variance.
    pub eps: f64,
}

/// Mean 0 and variance 1 of each group of channels of each `x [n, channels, ..]`, times a gain plus a shift (Wu and He
/// 2018).
///
/// Parameters: `NAME.weight [channels]`, `NAME.bias [channels]`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    weight: String,
    bias: String,
    config: GroupNormConfig,
}

impl GroupNorm {
    /// A normalisation.
    ///
    /// Errors: channels beyond 32 bits; groups that do not divide the channels.
    pub fn new(name: &str, config: GroupNormConfig) -> Result<GroupNorm> {
        let GroupNormConfig { channels, groups, .. } = config;
        layer_sizes("group_norm", name, &[("channels", channels)])?;
        if groups == 0 || !channels.is_multiple_of(groups) {
            let message = format!("{name}: {groups} groups do not divide {channels} channels");
            return Err(Error::shape("group_norm", message));
        }
        Ok(GroupNorm { weight: format!("{name}.weight"), bias: format!("{name}.bias"), config })
    }
}

impl Layer for GroupNorm {
    fn specs(&self) -> Vec<ParamSpec> {
        let shape = &[self.config.channels];
        vec![
            ParamSpec::new(&self.weight, shape, Init::Ones, ParamKind::Norm),
            ParamSpec::new(&self.bias, shape, Init::Zeros, ParamKind::Norm),
        ]
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let params = pass.params();
        let (weight, bias) = (params.get(&self.weight)?, params.get(&self.bias)?);
        ops::group_norm(b, x, self.config.groups, Some(weight), Some(bias), self.config.eps)
    }
}
