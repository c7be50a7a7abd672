//! The names that a base model's tensors have in files: a model with a head, such as `BertForMaskedLM`, writes those of its
//! base behind a prefix (`bert.`), the base by itself without. Transformers reads either as the other
//! (`base_model_prefix` of `modeling_utils.py`), and so does a [`Folder`].

use super::Folder;

/// Which names the parameters of a model have here.
#[derive(Clone, Copy)]
pub(super) enum Base {
    /// A base model's own: tensors without the prefix, where others have it, are of heads that it does not use.
    Alone(&'static str),
    /// Those of a model with a head: the base's stand behind the prefix.
    Within(&'static str),
}

/// BERT without a head.
pub(super) const BERT: Base = Base::Alone("bert.");

/// Llama with the head that predicts a token.
pub(super) const LLAMA: Base = Base::Within("model.");

/// What the parameters of a normalisation are called here and in the first BERTs, which were written in TensorFlow.
const NORMALISATION: [(&str, &str); 2] =
    [(".LayerNorm.weight", ".LayerNorm.gamma"), (".LayerNorm.bias", ".LayerNorm.beta")];

impl Base {
    const fn prefix(self) -> &'static str {
        match self {
            Base::Alone(prefix) | Base::Within(prefix) => prefix,
        }
    }
}

impl Folder {
    /// The name in the files of a parameter.
    pub(super) fn stored(&self, base: Base, parameter: &str) -> String {
        let (prefix, is_behind) = (base.prefix(), self.is_behind(base));
        let name = match base {
            Base::Alone(_) if is_behind => format!("{prefix}{parameter}"),
            Base::Within(_) if !is_behind => {
                let bare =
                    parameter.strip_prefix(prefix).filter(|bare| self.names().any(|name| name == *bare));
                bare.unwrap_or(parameter).to_owned()
            }
            _ => parameter.to_owned(),
        };
        let older = renamed(&name, NORMALISATION);
        match older.filter(|older| self.names().any(|name| name == older)) {
            Some(older) => older,
            None => name,
        }
    }

    /// The parameter that a tensor of the files is, or would be; `None` for one of a head that the model does not use.
    pub(super) fn parameter(&self, base: Base, stored: &str) -> Option<String> {
        let (prefix, is_behind) = (base.prefix(), self.is_behind(base));
        let name = match base {
            Base::Alone(_) if is_behind => stored.strip_prefix(prefix)?.to_owned(),
            Base::Within(_) if !is_behind && !stored.starts_with("lm_head.") => format!("{prefix}{stored}"),
            _ => stored.to_owned(),
        };
        let newer = renamed(&name, NORMALISATION.map(|(newer, older)| (older, newer)));
        Some(newer.unwrap_or(name))
    }

    /// Whether the base's tensors stand behind the prefix.
    fn is_behind(&self, base: Base) -> bool {
        self.names().any(|name| name.starts_with(base.prefix()))
    }
}

/// A name with the other of two endings.
fn renamed(name: &str, endings: [(&str, &str); 2]) -> Option<String> {
    endings.iter().find_map(|(from, to)| Some(format!("{}{to}", name.strip_suffix(from)?)))
}
