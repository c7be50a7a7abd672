//! AdamW, and clipping of gradients by their global norm. Pure: values in, values out.

use lanthorn_ir::expr::F64;
use lanthorn_ir::prim::State;
use lanthorn_ir::{Builder, DType, Error, Prim, Result, ops};
use lanthorn_runtime::{Eager, EagerTensor};
use serde::{Deserialize, Serialize};

use crate::params::{ParamKind, ParamSpec, Params};

/// Which parameters weight decay pulls towards 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Weights of linear maps; not biases, norms and embeddings.
    #[default]
    Weights,
    /// Weights and embeddings.
    WeightsAndEmbeddings,
    /// Everything.
    All,
}

impl Decay {
    fn applies_to(self, kind: ParamKind) -> bool {
        match self {
            Decay::Weights => kind == ParamKind::Weight,
            Decay::WeightsAndEmbeddings => matches!(kind, ParamKind::Weight | ParamKind::Embedding),
            Decay::All => true,
        }
    }
}

/// The settings of [`AdamW`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamWConfig {
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub decay: Decay,
    /// Gradients whose joint norm exceeds this are scaled down to it; `None`: never.
    pub clip_norm: Option<f64>,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        AdamWConfig {
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
            weight_decay: 0.1,
            decay: Decay::Weights,
            clip_norm: Some(1.0),
        }
    }
}

/// Running means of the gradients and of their squares, one each a parameter; zeros at the beginning.
#[derive(Clone, Debug)]
pub struct Moments<V> {
    pub m: Params<V>,
    pub v: Params<V>,
}

/// What an update gives.
#[derive(Clone, Debug)]
pub struct Updated<V> {
    pub params: Params<V>,
    pub moments: Moments<V>,
}

/// What changes from step to step, of rank 0 and of the parameters' dtype.
#[derive(Clone, Debug)]
pub struct StepScalars<V> {
    pub lr: V,
    /// `1 - beta1^t` for step `t`, counted from 1.
    pub bias1: V,
    /// `1 - beta2^t`.
    pub bias2: V,
}

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    config: AdamWConfig,
}

impl AdamW {
    /// An optimiser with these settings.
    ///
    /// Errors: betas outside `[0, 1)`, an `eps`, decay or norm that is negative or not finite.
    pub fn new(config: AdamWConfig) -> Result<AdamW> {
        let fail = |name: &str, value: f64, expected: &str| {
            Err(Error::shape("adamw", format!("{name} is {value}, expected {expected}")))
        };
        for (name, beta) in [("beta1", config.beta1), ("beta2", config.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return fail(name, beta, "0 to below 1");
            }
        }
        for (name, value) in [("eps", config.eps), ("weight_decay", config.weight_decay)] {
            if !(0.0..f64::INFINITY).contains(&value) {
                return fail(name, value, "at least 0");
            }
        }
        match config.clip_norm {
            Some(norm) if !(norm > 0.0 && norm.is_finite()) => fail("clip_norm", norm, "above 0"),
            _ => Ok(AdamW { config }),
        }
    }

    /// The settings.
    pub fn config(&self) -> &AdamWConfig {
        &self.config
    }

    /// `1 - beta1^t` and `1 - beta2^t` for step `t`, counted from 1.
    pub fn bias_corrections(&self, t: u64) -> (f64, f64) {
        let correction = |beta: f64| 1.0 - libm::pow(beta, t as f64);
        (correction(self.config.beta1), correction(self.config.beta2))
    }

    fn weight_decay(&self, spec: &ParamSpec) -> f64 {
        if self.config.decay.applies_to(spec.kind) { self.config.weight_decay } else { 0.0 }
    }

    /// The gradients as they are used, and their norm before clipping.
    pub fn clipped<B: Builder>(
        &self,
        b: &B,
        grads: &Params<B::Value>,
    ) -> Result<(Params<B::Value>, B::Value)> {
        let norm = global_norm(b, grads)?;
        match self.config.clip_norm {
            Some(limit) => Ok((scaled_to_norm(b, grads, &norm, limit)?, norm)),
            None => Ok((grads.clone(), norm)),
        }
    }

    /// One step: parameters and moments afterwards. `specs` are those of the model, in the order of `params`.
    pub fn update<B: Builder>(
        &self,
        b: &B,
        specs: &[ParamSpec],
        params: &Params<B::Value>,
        grads: &Params<B::Value>,
        moments: &Moments<B::Value>,
        scalars: &StepScalars<B::Value>,
    ) -> Result<Updated<B::Value>> {
        let config = &self.config;
        let mut updated = Params::new();
        let mut after = Moments { m: Params::new(), v: Params::new() };
        for spec in specs {
            let name = &spec.name;
            let decay = self.weight_decay(spec);
            let (p, g) = (params.get(name)?, grads.get(name)?);
            let (m, v) = (moments.m.get(name)?, moments.v.get(name)?);
            let StepScalars { lr, bias1, bias2 } = scalars;
            let (beta1, beta2, eps) = (config.beta1, config.beta2, config.eps);
            let results = ops::adamw(b, p, g, m, v, lr, bias1, bias2, beta1, beta2, eps, decay)?;
            let [p, m, v] = <[B::Value; 3]>::try_from(results)
                .map_err(|_| Error::unsupported("adamw", "expected three results"))?;
            updated.insert(name.clone(), p);
            after.m.insert(name.clone(), m);
            after.v.insert(name.clone(), v);
        }
        Ok(Updated { params: updated, moments: after })
    }
}

/// The eager form, which writes where the values are.
impl AdamW {
    /// One step in place: [`AdamW::update`] of tensors whose memory stays.
    ///
    /// Errors: as the update's, and what running reports; parameters before the one that failed are updated then.
    pub fn update_in_place(
        &self,
        eager: &Eager,
        specs: &[ParamSpec],
        params: &Params<EagerTensor>,
        grads: &Params<EagerTensor>,
        moments: &Moments<EagerTensor>,
        scalars: &StepScalars<EagerTensor>,
    ) -> Result<()> {
        for spec in specs {
            let name = &spec.name;
            let (p, m, v) = (params.get(name)?, moments.m.get(name)?, moments.v.get(name)?);
            let mut operands = vec![p.clone(), grads.get(name)?.clone(), m.clone(), v.clone()];
            for scalar in [&scalars.lr, &scalars.bias1, &scalars.bias2] {
                operands.push(ops::broadcast_to(eager, scalar, p.shape())?);
            }
            eager.apply_into(self.prim(spec), &operands, &[p, m, v])?;
        }
        Ok(())
    }

    fn prim(&self, spec: &ParamSpec) -> Prim {
        let AdamWConfig { beta1, beta2, eps, .. } = self.config;
        Prim::State(State::AdamW {
            beta1: F64(beta1),
            beta2: F64(beta2),
            eps: F64(eps),
            weight_decay: F64(self.weight_decay(spec)),
        })
    }
}

/// The Euclidean norm of all gradients laid end to end, of rank 0, in the wide dtype.
///
/// Errors: there are no gradients.
pub fn global_norm<B: Builder>(b: &B, grads: &Params<B::Value>) -> Result<B::Value> {
    let mut total: Option<B::Value> = None;
    for grad in grads.values() {
        let wide = ops::cast(b, grad, b.ty(grad).dtype.wide())?;
        let sum = ops::sum(b, &ops::square(b, &wide)?, &[], false)?;
        total = Some(match total {
            Some(total) => ops::add(b, &total, &sum)?,
            None => sum,
        });
    }
    let total = total.ok_or_else(|| Error::shape("global_norm", "there are no gradients"))?;
    ops::sqrt(b, &total)
}

/// Gradients times `min(1, limit / norm)` (Pascanu, Mikolov and Bengio 2013).
fn scaled_to_norm<B: Builder>(
    b: &B,
    grads: &Params<B::Value>,
    norm: &B::Value,
    limit: f64,
) -> Result<Params<B::Value>> {
    // A norm below the limit divides by the limit: a factor of exactly 1, also for gradients of 0.
    let divisor = ops::maximum_scalar(b, norm, limit)?;
    let factor = ops::div(b, &ops::full_like(b, norm, limit)?, &divisor)?;
    grads.try_map(|_, grad| {
        let dtype: DType = b.ty(grad).dtype;
        ops::mul(b, grad, &ops::cast(b, &factor, dtype)?)
    })
}
