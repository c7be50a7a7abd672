//! How one parameter moves.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::refused;

/// A rule of updates, of a parameter `p`, its gradient `g` and what the rule keeps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// [`ops::sgd`], with a velocity where there is momentum. Of the first gradient it takes all, of later ones
    /// `1 - dampening` (torch `SGD`).
    Sgd { momentum: f64, dampening: f64, nesterov: bool },
    /// [`ops::adam`], with weight decay as part of the gradient (torch `Adam`).
    Adam { beta1: f64, beta2: f64, eps: f64 },
    /// [`ops::adamw`], with decoupled weight decay (torch `AdamW`).
    #[serde(rename = "adamw")]
    AdamW { beta1: f64, beta2: f64, eps: f64 },
    /// [`ops::lion`].
    Lion { beta1: f64, beta2: f64 },
}

impl Rule {
    /// The rule's name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Rule::Sgd { .. } => "sgd",
            Rule::Adam { .. } => "adam",
            Rule::AdamW { .. } => "adamw",
            Rule::Lion { .. } => "lion",
        }
    }

    /// The names of what the rule keeps for each parameter.
    pub fn slots(&self) -> &'static [&'static str] {
        match self {
            Rule::Sgd { momentum: 0.0, .. } => &[],
            Rule::Sgd { .. } => &["velocity"],
            Rule::Adam { .. } | Rule::AdamW { .. } => &["m", "v"],
            Rule::Lion { .. } => &["m"],
        }
    }

    /// How many times as large as the largest gradient so far the direction may be along which a step goes.
    pub(super) fn gain(&self) -> f64 {
        match *self {
            // The sum of all powers of the momentum, and in Nesterov's form once more.
            Rule::Sgd { momentum, .. } => 2.0 / (1.0 - momentum),
            // Where squares of gradients vanish, `eps` alone divides.
            Rule::Adam { eps, .. } | Rule::AdamW { eps, .. } => 1.0 / eps,
            // A sign.
            Rule::Lion { .. } => 1.0,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let shares = match *self {
            Rule::Sgd { momentum, dampening, .. } => [("momentum", momentum), ("dampening", dampening)],
            Rule::Adam { beta1, beta2, .. }
            | Rule::AdamW { beta1, beta2, .. }
            | Rule::Lion { beta1, beta2 } => [("beta1", beta1), ("beta2", beta2)],
        };
        if let Some((name, share)) = shares.into_iter().find(|(_, share)| !(0.0..1.0).contains(share)) {
            return Err(refused(self.name(), name, share, "0 to below 1"));
        }
        match *self {
            Rule::Adam { eps, .. } | Rule::AdamW { eps, .. } if !(0.0..f64::INFINITY).contains(&eps) => {
                Err(refused(self.name(), "eps", eps, "a finite number of at least 0"))
            }
            Rule::Sgd { momentum, dampening, nesterov: true } if momentum == 0.0 || dampening != 0.0 => {
                Err(Error::shape("sgd", "Nesterov's form takes a momentum above 0 and no dampening"))
            }
            _ => Ok(()),
        }
    }

    /// What the rule needs to know of step `step`, counted from 1.
    pub(super) fn scalars(&self, step: u64) -> Vec<f64> {
        match *self {
            Rule::Adam { beta1, beta2, .. } | Rule::AdamW { beta1, beta2, .. } => {
                // `1 - beta^t`.
                [beta1, beta2].map(|beta| 1.0 - libm::pow(beta, step as f64)).to_vec()
            }
            Rule::Sgd { dampening, .. } if dampening != 0.0 => {
                vec![if step <= 1 { 1.0 } else { 1.0 - dampening }]
            }
            Rule::Sgd { .. } | Rule::Lion { .. } => Vec::new(),
        }
    }

    /// The parameter and its slots afterwards. `lr` and `scalars` are of rank 0.
    pub(super) fn update<B: Builder>(
        &self,
        b: &B,
        p: &B::Value,
        g: &B::Value,
        slots: &[B::Value],
        lr: &B::Value,
        scalars: &[B::Value],
        weight_decay: f64,
    ) -> Result<Vec<B::Value>> {
        match (*self, slots, scalars) {
            (Rule::Sgd { momentum, nesterov, .. }, slots, scalars) => {
                ops::sgd(b, p, g, lr, slots.first(), scalars.first(), momentum, nesterov, weight_decay)
            }
            (Rule::Adam { beta1, beta2, eps }, [m, v], [bias1, bias2]) => {
                ops::adam(b, p, g, m, v, lr, bias1, bias2, beta1, beta2, eps, weight_decay)
            }
            (Rule::AdamW { beta1, beta2, eps }, [m, v], [bias1, bias2]) => {
                ops::adamw(b, p, g, m, v, lr, bias1, bias2, beta1, beta2, eps, weight_decay)
            }
            (Rule::Lion { beta1, beta2 }, [m], _) => ops::lion(b, p, g, m, lr, beta1, beta2, weight_decay),
            (_, slots, scalars) => {
                let message = format!("got {} slots and {} numbers of the step", slots.len(), scalars.len());
                Err(Error::shape(self.name(), message))
            }
        }
    }
}
