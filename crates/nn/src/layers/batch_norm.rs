//! Batch normalisation, which keeps running statistics as state.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::{Layer, Pass};
use crate::models::check::layer_sizes;
use crate::params::{Init, ParamKind, ParamSpec};

/// The settings of [`BatchNorm`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchNormConfig {
    pub channels: usize,
    /// Added to the variance.
    pub eps: f64,
    /// The share of a batch in the running statistics.
    pub momentum: f64,
    /// Whether there are a gain and a shift.
    pub affine: bool,
}

impl BatchNormConfig {
    /// With gain and shift, an `eps` of `1e-5` and a momentum of 0.1, as in torch.
    pub fn new(channels: usize) -> BatchNormConfig {
        BatchNormConfig { channels, eps: 1e-5, momentum: 0.1, affine: true }
    }
}

/// Mean 0 and variance 1 of each channel of `x [n, channels, ..]`, times a gain plus a shift (Ioffe and Szegedy 2015).
///
/// Training takes mean and biased variance of the batch, and moves the running mean and the running unbiased variance
/// by `momentum`; evaluation takes the running ones. Statistics are computed and kept in the dtype of the state, also
/// where `x` is of a half type.
///
/// Parameters: `NAME.weight [channels]`, `NAME.bias [channels]`. State: `NAME.running_mean`, `NAME.running_var`.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    name: String,
    config: BatchNormConfig,
}

impl BatchNorm {
    /// A batch norm.
    ///
    /// Errors: an `eps` that is not above 0, a momentum outside 0 to 1.
    pub fn new(name: &str, config: BatchNormConfig) -> Result<BatchNorm> {
        let fail = |message: String| Err(Error::shape("batch_norm", format!("{name}: {message}")));
        layer_sizes("batch_norm", name, &[("channels", config.channels)])?;
        if !(config.eps > 0.0 && config.eps.is_finite()) {
            return fail(format!("eps is {}, expected a finite number above 0", config.eps));
        }
        if !(0.0..=1.0).contains(&config.momentum) {
            return fail(format!("the momentum is {}, expected 0 to 1", config.momentum));
        }
        Ok(BatchNorm { name: name.to_owned(), config })
    }

    fn spec(&self, what: &str, init: Init) -> ParamSpec {
        ParamSpec::new(self.named(what), &[self.config.channels], init, ParamKind::Norm)
    }

    fn named(&self, what: &str) -> String {
        format!("{}.{what}", self.name)
    }
}

impl Layer for BatchNorm {
    fn specs(&self) -> Vec<ParamSpec> {
        if !self.config.affine {
            return Vec::new();
        }
        vec![self.spec("weight", Init::Ones), self.spec("bias", Init::Zeros)]
    }

    fn state_specs(&self) -> Vec<ParamSpec> {
        vec![self.spec("running_mean", Init::Zeros), self.spec("running_var", Init::Ones)]
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let BatchNormConfig { eps, momentum, .. } = self.config;
        let names = ["running_mean", "running_var"].map(|what| self.named(what));
        let [mean, var] = [pass.state(&names[0])?.clone(), pass.state(&names[1])?.clone()];
        let (dtype, wide) = (b.ty(x).dtype, b.ty(&mean).dtype);
        let affine = |what| match self.config.affine {
            true => ops::cast(b, pass.params().get(&self.named(what))?, wide).map(Some),
            false => Ok(None),
        };
        let (weight, bias) = (affine("weight")?, affine("bias")?);
        let training = pass.mode().is_train();
        let x = ops::cast(b, x, wide)?;
        let results =
            ops::batch_norm(b, &x, weight.as_ref(), bias.as_ref(), &mean, &var, training, momentum, eps)?;
        let Ok([y, mean, var]) = <[B::Value; 3]>::try_from(results) else {
            return Err(Error::unsupported("batch_norm", "expected three results"));
        };
        if training {
            for (name, value) in names.iter().zip([mean, var]) {
                pass.set_state(name, ops::stop_gradient(b, &value)?);
            }
        }
        ops::cast(b, &y, dtype)
    }
}
