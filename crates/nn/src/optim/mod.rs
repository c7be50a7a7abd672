//! Optimisers. Pure: parameters, gradients, state and the step's numbers in, parameters and state out.
//!
//! An [`Optimizer`] is a [`Rule`] with what applies to every rule: weight decay, clipping, groups of parameters. Its
//! state is [`Slots`]: for each name that the rule keeps, one value for each parameter, zeros at the beginning.

mod clip;
mod group;
mod rule;

pub use clip::{Clip, global_norm};
pub use group::{Decay, Group, Select};
pub use rule::Rule;

use lanthorn_ir::{Builder, DType, Error, Result, ops};
use lanthorn_runtime::{Eager, EagerTensor};
use serde::{Deserialize, Serialize};

use crate::params::{ParamSpec, Params};
use group::Setting;

/// An optimiser's state: by name of what the rule keeps, a value for each parameter.
pub type Slots<V> = Params<Params<V>>;

/// What an update gives.
#[derive(Clone, Debug)]
pub struct Updated<V> {
    pub params: Params<V>,
    pub slots: Slots<V>,
}

/// A rule, and which parameters it moves how far.
///
/// ```
/// use lanthorn_nn::optim::{Clip, Group, Optimizer, Select};
///
/// let optimizer = Optimizer::adamw()
///     .weight_decay(0.1)
///     .clip(Clip::Norm(1.0))
///     .group(Group::new(Select::Prefix("embed.".into())).lr(0.1))
///     .group(Group::new(Select::Prefix("body.0.".into())).frozen());
/// optimizer.check()?;
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    pub rule: Rule,
    /// How strongly parameters are pulled towards 0: apart from the gradient in AdamW and Lion, as part of it in SGD
    /// and Adam.
    pub weight_decay: f64,
    /// Which ones.
    pub decay: Decay,
    /// What becomes of large gradients.
    pub clip: Option<Clip>,
    /// Exceptions: the first group that selects a parameter holds for it.
    pub groups: Vec<Group>,
}

impl Optimizer {
    /// The rule for every parameter alike, without weight decay and clipping.
    pub fn new(rule: Rule) -> Optimizer {
        Optimizer { rule, weight_decay: 0.0, decay: Decay::Weights, clip: None, groups: Vec::new() }
    }

    /// Plain gradient descent.
    pub fn sgd() -> Optimizer {
        Optimizer::new(Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false })
    }

    /// Gradient descent with that momentum.
    pub fn momentum(momentum: f64) -> Optimizer {
        Optimizer::new(Rule::Sgd { momentum, dampening: 0.0, nesterov: false })
    }

    /// Adam with betas of 0.9 and 0.999.
    pub fn adam() -> Optimizer {
        Optimizer::new(Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 })
    }

    /// AdamW with betas of 0.9 and 0.999 and a weight decay of 0.01.
    pub fn adamw() -> Optimizer {
        Optimizer::new(Rule::AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-8 }).weight_decay(0.01)
    }

    /// Lion with betas of 0.9 and 0.99. Its learning rate is three to ten times smaller than AdamW's, its weight decay
    /// as much larger.
    pub fn lion() -> Optimizer {
        Optimizer::new(Rule::Lion { beta1: 0.9, beta2: 0.99 })
    }

    /// AdamW as small language models are trained with it: betas of 0.9 and 0.99, a weight decay of 0.1 on weights
    /// alone, gradients of at most norm 1.
    pub fn language_model() -> Optimizer {
        Optimizer::new(Rule::AdamW { beta1: 0.9, beta2: 0.99, eps: 1e-8 })
            .weight_decay(0.1)
            .clip(Clip::Norm(1.0))
    }

    /// The same with another weight decay.
    pub fn weight_decay(self, weight_decay: f64) -> Optimizer {
        Optimizer { weight_decay, ..self }
    }

    /// The same with weight decay on other parameters.
    pub fn decay(self, decay: Decay) -> Optimizer {
        Optimizer { decay, ..self }
    }

    /// The same with clipped gradients.
    pub fn clip(self, clip: Clip) -> Optimizer {
        Optimizer { clip: Some(clip), ..self }
    }

    /// The same with one more group, which holds for what no group before it selects.
    pub fn group(mut self, group: Group) -> Optimizer {
        self.groups.push(group);
        self
    }

    /// Refuses settings that are no settings.
    ///
    /// Errors: betas, momentum or dampening outside `[0, 1)`, an `eps`, decay, factor or limit that is negative or not
    /// finite, Nesterov's momentum without momentum.
    pub fn check(&self) -> Result<()> {
        self.rule.check()?;
        let factors = self.groups.iter().flat_map(|group| [Some(("lr", group.lr)), group.decay_named()]);
        for (name, value) in std::iter::once(("weight_decay", self.weight_decay)).chain(factors.flatten()) {
            if !(0.0..f64::INFINITY).contains(&value) {
                return Err(refused(self.rule.name(), name, value, "a finite number of at least 0"));
            }
        }
        match self.clip {
            Some(Clip::Norm(limit) | Clip::Value(limit)) if !(limit > 0.0 && limit.is_finite()) => {
                Err(refused(self.rule.name(), "clip", limit, "a finite number above 0"))
            }
            _ => Ok(()),
        }
    }

    /// The numbers of step `step`, counted from 1, with a learning rate: what [`Optimizer::update`] takes as values of
    /// rank 0. The first is the learning rate.
    pub fn scalars(&self, step: u64, lr: f64) -> Vec<f64> {
        std::iter::once(lr).chain(self.rule.scalars(step)).collect()
    }

    /// True if the optimiser moves the parameter.
    pub fn moves(&self, spec: &ParamSpec) -> bool {
        !self.setting(spec).frozen
    }

    /// What holds for one parameter.
    fn setting(&self, spec: &ParamSpec) -> Setting {
        let group = self.groups.iter().find(|group| group.select.matches(spec));
        let decays = if self.decay.applies_to(spec.kind) { self.weight_decay } else { 0.0 };
        Setting {
            lr: group.map_or(1.0, |group| group.lr),
            weight_decay: group.and_then(|group| group.weight_decay).unwrap_or(decays),
            frozen: group.is_some_and(|group| group.frozen),
        }
    }

    /// Whether a step of that learning rate could leave numbers that are not finite in `dtype` although its gradients
    /// are finite and so is the sum of their squares, by which each is at most the root of the largest number. False
    /// proves that it cannot, but for parameters that are close to the largest number already.
    pub(crate) fn may_overflow(&self, lr: f64, dtype: DType) -> bool {
        let most = if dtype == DType::F64 { f64::MAX } else { f64::from(f32::MAX) };
        let lr = self.groups.iter().map(|group| group.lr).fold(1.0, f64::max) * lr;
        let decays = self.groups.iter().filter_map(|group| group.weight_decay);
        // Beyond 1 a decay makes parameters larger than they were, and so on in every step.
        let grows = lr * decays.fold(self.weight_decay, f64::max) > 1.0;
        // Room for the thousand that momentum and sums may add up.
        grows || lr * self.rule.gain() > most.sqrt() / 1e3
    }

    /// The gradients as they are used, and their norm before clipping.
    pub fn clipped<B: Builder>(
        &self,
        b: &B,
        grads: &Params<B::Value>,
    ) -> Result<(Params<B::Value>, B::Value)> {
        let norm = global_norm(b, grads)?;
        match self.clip {
            Some(clip) => Ok((clip.apply(b, grads, &norm)?, norm)),
            None => Ok((grads.clone(), norm)),
        }
    }

    /// One step: parameters and state afterwards. `specs` are those of the model, in the order of `params`; `scalars`
    /// are those of the step ([`Optimizer::scalars`]), of rank 0. A parameter without a gradient stays as it is, and
    /// so does one that is frozen.
    pub fn update<B: Builder>(
        &self,
        b: &B,
        specs: &[ParamSpec],
        params: &Params<B::Value>,
        grads: &Params<B::Value>,
        slots: &Slots<B::Value>,
        scalars: &[B::Value],
    ) -> Result<Updated<B::Value>> {
        let mut updated = Updated { params: params.clone(), slots: slots.clone() };
        for spec in specs.iter().filter(|spec| self.moves(spec)) {
            let Ok(grad) = grads.get(&spec.name) else { continue };
            let kept =
                slots.values().map(|slot| slot.get(&spec.name).cloned()).collect::<Result<Vec<_>>>()?;
            let results = self.update_one(b, spec, params.get(&spec.name)?, grad, &kept, scalars)?;
            let mut results = results.into_iter();
            let mut next =
                || results.next().ok_or_else(|| Error::unsupported(self.rule.name(), "gave too little"));
            updated.params.insert(spec.name.clone(), next()?);
            for slot in updated.slots.values_mut() {
                slot.insert(spec.name.clone(), next()?);
            }
        }
        Ok(updated)
    }

    /// The parameter and its slots afterwards.
    fn update_one<B: Builder>(
        &self,
        b: &B,
        spec: &ParamSpec,
        param: &B::Value,
        grad: &B::Value,
        slots: &[B::Value],
        scalars: &[B::Value],
    ) -> Result<Vec<B::Value>> {
        let setting = self.setting(spec);
        let [lr, further @ ..] = scalars else {
            return Err(Error::shape(self.rule.name(), "there is no learning rate"));
        };
        let lr = match setting.lr {
            1.0 => lr.clone(),
            factor => ops::mul_scalar(b, lr, factor)?,
        };
        self.rule.update(b, param, grad, slots, &lr, further, setting.weight_decay)
    }

    /// State of zeros for parameters of these specs, by `zeros`.
    pub fn slots<V>(
        &self,
        specs: &[ParamSpec],
        mut zeros: impl FnMut(&ParamSpec) -> Result<V>,
    ) -> Result<Slots<V>> {
        let mut slot = || {
            let named = |spec: &ParamSpec| Ok((spec.name.clone(), zeros(spec)?));
            specs.iter().map(named).collect::<Result<Params<V>>>()
        };
        self.rule.slots().iter().map(|&name| Ok((name.to_owned(), slot()?))).collect()
    }
}

/// The eager form, which writes where the values are.
impl Optimizer {
    /// One step in place: [`Optimizer::update`] of tensors whose memory stays.
    ///
    /// Errors: as the update's, and what running reports; parameters before the one that failed are updated then.
    pub fn update_in_place(
        &self,
        eager: &Eager,
        specs: &[ParamSpec],
        params: &Params<EagerTensor>,
        grads: &Params<EagerTensor>,
        slots: &Slots<EagerTensor>,
        scalars: &[EagerTensor],
    ) -> Result<()> {
        for spec in specs.iter().filter(|spec| self.moves(spec)) {
            let Ok(grad) = grads.get(&spec.name) else { continue };
            let kept =
                slots.values().map(|slot| slot.get(&spec.name).cloned()).collect::<Result<Vec<_>>>()?;
            let param = params.get(&spec.name)?;
            let results = self.update_one(eager, spec, param, grad, &kept, scalars)?;
            for (result, place) in results.iter().zip(std::iter::once(param).chain(&kept)) {
                eager.copy_into(result, place)?;
            }
        }
        Ok(())
    }
}

fn refused(op: &str, name: &str, value: f64, expected: &str) -> Error {
    Error::shape(op, format!("{name} is {value}, expected {expected}"))
}
