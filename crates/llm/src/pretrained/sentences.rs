//! Models that embed sentences, in a folder as sentence-transformers keeps them.
//!
//! | file | what is read of it |
//! |---|---|
//! | `config.json`, safetensors | a BERT, by itself or with a head; see [`Bert`] for the names |
//! | `tokenizer.json` | the tokenizer, without its own truncation and padding |
//! | `modules.json` | the parts: transformer, pooling, normalisation; a mean without normalisation where it is missing |
//! | `1_Pooling/config.json` | how the tokens' vectors become one |
//! | `sentence_bert_config.json` | the most tokens of a text, whether letters become small |

use std::path::{Component, Path};

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::{Bert, BertConfig, Model};
use lanthorn_runtime::{Device, EagerTensor};
use serde::Deserialize;

use super::{Folder, Pretrained, Texts, agreement, base};
use crate::embed::{Embedder, EmbedderConfig, Letters, Pooling, Scale};

const CONFIG: &str = "config.json";
const MODULES: &str = "modules.json";
const SETTINGS: &str = "sentence_bert_config.json";

impl Pretrained {
    /// The model as one that embeds texts, with the files' weights on a device.
    ///
    /// Errors: another family than BERT, or a part that this engine does not compute; a weight that is missing, of
    /// another shape, or unknown to the family; a tokenizer that is wrong; memory.
    pub fn embedder(&self, device: &Device) -> Result<Embedder> {
        let Pretrained::Folder(folder) = self else {
            let message = "it is a GGUF file; a folder of sentence-transformers is what embeds texts";
            return Err(Error::new(ErrorKind::Format, self.subject(), message));
        };
        let named = |error| Error { op: folder.subject().to_owned(), ..error };
        let bert = Bert::new(folder.bert_config()?).map_err(|error| self.about(error))?;
        // Before the weights, which take longer.
        let config = folder.embedder_config(bert.config())?;
        let Texts { tokenizer, .. } = Texts::from_folder(folder)?;
        agreement::check_encoder(folder, &tokenizer)?;
        let specs = bert.specs();
        let is_known = |name: &str| match folder.parameter(base::BERT, name) {
            None => true,
            Some(name) => is_settled(&name) || specs.iter().any(|spec| spec.name == name),
        };
        if let Some(name) = folder.names().find(|name| !is_known(name)) {
            return Err(self.unknown(name, "BERT"));
        }
        let params = specs
            .iter()
            .map(|spec| {
                let name = folder.stored(base::BERT, &spec.name);
                let view = folder.get(&name)?;
                self.check_shape(&name, view.shape, spec)?;
                let tensor = EagerTensor::from_vec(device, view.shape, super::unpacked(&name, &view)?)?;
                Ok((spec.name.clone(), tensor))
            })
            .collect::<Result<_>>()?;
        let embedder =
            Embedder::new(device, bert, params, &tokenizer, config).map_err(|error| match error.kind {
                ErrorKind::Shape | ErrorKind::Format => named(error),
                _ => error,
            })?;
        Ok(embedder.named(folder.subject()))
    }
}

impl Folder {
    /// The configuration of a BERT in `config.json`.
    ///
    /// Errors: it is missing or lacks a size, is of another family, or asks for what this engine does not compute.
    fn bert_config(&self) -> Result<BertConfig> {
        let refuse = |message: String| self.refusal(CONFIG, message);
        let family = self.family()?;
        if family != "bert" {
            let hint = match &*family {
                "llama" => ", and `lanthorn run` and `lanthorn chat` let a `llama` write",
                _ => "",
            };
            return Err(refuse(format!(
                "it is a model of the family `{family}`; `bert` is what embeds texts{hint}"
            )));
        }
        let file: ConfigFile = self.required(CONFIG)?;
        for (key, found, known) in [
            ("hidden_act", &file.hidden_act, "gelu"),
            ("position_embedding_type", &file.position_embedding_type, "absolute"),
        ] {
            if found.as_ref().is_some_and(|found| found != known) {
                let found = found.as_deref().unwrap_or_default();
                return Err(refuse(format!("`{key}` is `{found}`; `{known}` is what runs")));
            }
        }
        if file.is_decoder {
            return Err(refuse("`is_decoder` is true; an encoder is what embeds texts".into()));
        }
        Ok(BertConfig {
            vocab: file.vocab_size,
            context: file.max_position_embeddings,
            types: file.type_vocab_size,
            layers: file.num_hidden_layers,
            width: file.hidden_size,
            inner: file.intermediate_size,
            heads: file.num_attention_heads,
            dropout: file.hidden_dropout_prob,
            norm_eps: file.layer_norm_eps,
        })
    }

    /// How sentence-transformers would embed texts by this folder.
    fn embedder_config(&self, bert: &BertConfig) -> Result<EmbedderConfig> {
        let settings: SettingsFile = self.json(SETTINGS)?.unwrap_or_default();
        let mut config = EmbedderConfig {
            pooling: Pooling::Mean,
            scale: Scale::Raw,
            letters: if settings.do_lower_case { Letters::Small } else { Letters::AsWritten },
            max_tokens: settings.max_seq_length.unwrap_or(bert.context),
        };
        let modules: Vec<Module> = self.json(MODULES)?.unwrap_or_default();
        for module in modules {
            // Newer versions have moved the classes: `sentence_transformers.models.Pooling` and others.
            match module.class.rsplit('.').next().unwrap_or_default() {
                "Transformer" if module.path.is_empty() => {}
                "Pooling" => config.pooling = self.pooling(&module.path)?,
                "Normalize" => config.scale = Scale::Unit,
                _ => {
                    return Err(self.refusal(
                        MODULES,
                        format!(
                            "it has a part `{}` in {:?}; a transformer in the folder itself, Pooling and \
                             Normalize are what runs",
                            module.class, module.path
                        ),
                    ));
                }
            }
        }
        Ok(config)
    }

    fn pooling(&self, path: &str) -> Result<Pooling> {
        if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(
                self.refusal(MODULES, format!("it names the folder {path:?}; one within would be right"))
            );
        }
        let name = format!("{path}/config.json");
        let Some(file) = self.json::<PoolingFile>(&name)? else {
            return Err(self.refusal(&name, "there is no such file, and modules.json asks for it"));
        };
        let chosen: Vec<&str> = match &file.pooling_mode {
            Some(mode) => vec![mode],
            None => [
                (file.pooling_mode_cls_token, "cls"),
                (file.pooling_mode_mean_tokens, "mean"),
                (file.pooling_mode_max_tokens, "max"),
                (file.pooling_mode_mean_sqrt_len_tokens, "mean_sqrt_len_tokens"),
                (file.pooling_mode_weightedmean_tokens, "weightedmean"),
                (file.pooling_mode_lasttoken, "lasttoken"),
            ]
            .into_iter()
            .filter_map(|(is_set, mode)| is_set.then_some(mode))
            .collect(),
        };
        match chosen[..] {
            ["mean"] => Ok(Pooling::Mean),
            ["cls"] => Ok(Pooling::First),
            ["max"] => Ok(Pooling::Max),
            _ => Err(self.refusal(
                &name,
                format!("it pools by {chosen:?}; one of `mean`, `cls` and `max` is what runs"),
            )),
        }
    }
}

/// True for tensors that are no parameters of the encoder: the numbers from 0 on that older checkpoints carry, and the
/// pooler, which sentence-transformers does not use.
fn is_settled(name: &str) -> bool {
    name == "embeddings.position_ids" || name.starts_with("pooler.dense.")
}

/// `config.json` of `BertModel`, with the class's own defaults (`configuration_bert.py`).
#[derive(Deserialize)]
struct ConfigFile {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: Option<String>,
    #[serde(default)]
    hidden_dropout_prob: f64,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    #[serde(default = "norm_eps")]
    layer_norm_eps: f64,
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

fn norm_eps() -> f64 {
    1e-12
}

#[derive(Deserialize)]
struct Module {
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    class: String,
}

/// One of several, or `pooling_mode` since version 5 of sentence-transformers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolingFile {
    pooling_mode: Option<String>,
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SettingsFile {
    max_seq_length: Option<usize>,
    do_lower_case: bool,
}
