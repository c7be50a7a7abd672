//! Which parameters an optimiser moves how far.

use serde::{Deserialize, Serialize};

use crate::params::{ParamKind, ParamSpec};

/// Which parameters weight decay pulls towards 0, where no group says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Weights of linear maps and convolutions; not biases, norms and embeddings.
    #[default]
    Weights,
    /// Weights and embeddings.
    WeightsAndEmbeddings,
    /// Everything, as torch has it.
    All,
}

impl Decay {
    pub(super) fn applies_to(self, kind: ParamKind) -> bool {
        match self {
            Decay::Weights => kind == ParamKind::Weight,
            Decay::WeightsAndEmbeddings => matches!(kind, ParamKind::Weight | ParamKind::Embedding),
            Decay::All => true,
        }
    }
}

/// Which parameters a group holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// Those whose names begin so, such as `h.0.`.
    Prefix(String),
    /// Those of these names.
    Names(Vec<String>),
    Kind(ParamKind),
}

impl Select {
    pub(super) fn matches(&self, spec: &ParamSpec) -> bool {
        match self {
            Select::Prefix(prefix) => spec.name.starts_with(prefix.as_str()),
            Select::Names(names) => names.contains(&spec.name),
            Select::Kind(kind) => spec.kind == *kind,
        }
    }
}

/// What holds for some parameters alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub select: Select,
    /// Times the learning rate.
    pub lr: f64,
    /// In place of the optimiser's.
    pub weight_decay: Option<f64>,
    /// They stay as they are, and no gradient is computed.
    pub frozen: bool,
}

impl Group {
    /// A group that changes nothing yet.
    pub fn new(select: Select) -> Group {
        Group { select, lr: 1.0, weight_decay: None, frozen: false }
    }

    /// With that factor on the learning rate.
    pub fn lr(self, lr: f64) -> Group {
        Group { lr, ..self }
    }

    /// With a weight decay of its own.
    pub fn weight_decay(self, weight_decay: f64) -> Group {
        Group { weight_decay: Some(weight_decay), ..self }
    }

    /// Not moved at all.
    pub fn frozen(self) -> Group {
        Group { frozen: true, ..self }
    }

    pub(super) fn decay_named(&self) -> Option<(&'static str, f64)> {
        self.weight_decay.map(|decay| ("weight_decay", decay))
    }
}

/// What holds for one parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Times the learning rate.
    pub lr: f64,
    pub weight_decay: f64,
    pub frozen: bool,
}
