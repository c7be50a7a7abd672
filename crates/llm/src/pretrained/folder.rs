//! Llama in a folder of Hugging Face: `config.json` and safetensors, in one file or in shards with an index.
//!
//! Names, shapes and the order of elements are ours.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use lanthorn_io::gguf::{Encoding, View};
use lanthorn_io::{Tensors, json, text};
use lanthorn_ir::{DType, Error, ErrorKind, Result};
use lanthorn_nn::LlamaConfig;
use lanthorn_nn::layers::{Rotation, RotationScaling};
use lanthorn_nn::models::gpt::Head;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

pub(super) const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A folder whose files of weights are open.
pub struct Folder {
    path: PathBuf,
    subject: String,
    shards: Vec<Tensors>,
    /// The place of each tensor's shard.
    places: BTreeMap<String, usize>,
}

/// What every `config.json` says.
#[derive(Deserialize)]
struct Family {
    model_type: String,
}

/// Which file holds which tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Folder {
    /// Opens the files of weights.
    ///
    /// Errors: there are none, one is damaged, or the index names a tensor that its file does not have.
    pub fn open(path: &Path) -> Result<Folder> {
        let subject = path.display().to_string();
        let mut folder =
            Folder { path: path.to_owned(), subject, shards: Vec::new(), places: BTreeMap::new() };
        let Some(Index { weight_map }) = folder.json(INDEX)? else {
            if !folder.has(WEIGHTS) {
                return Err(folder.no_model());
            }
            let tensors = Tensors::open(path.join(WEIGHTS))?;
            folder.places = tensors.iter().map(|(name, _)| (name.to_owned(), 0)).collect();
            folder.shards.push(tensors);
            return Ok(folder);
        };
        let mut opened = BTreeMap::new();
        for (name, file) in weight_map {
            let place = match opened.get(&file) {
                Some(place) => *place,
                None => {
                    if Path::new(&file).file_name().is_none_or(|own| *own != *file) {
                        let message = format!("it names the file {file:?}; one beside it would be right");
                        return Err(folder.refusal(INDEX, message));
                    }
                    folder.shards.push(Tensors::open(path.join(&file))?);
                    opened.insert(file, folder.shards.len() - 1);
                    folder.shards.len() - 1
                }
            };
            if let Some(shard) = folder.shards.get(place) {
                shard.get(&name)?;
            }
            folder.places.insert(name, place);
        }
        Ok(folder)
    }

    /// The name under which errors speak of the folder.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The name under which errors speak of a file of the folder.
    pub fn path_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// The name under which errors speak of the file that has a tensor; the folder's, where none has it.
    pub fn file_of(&self, tensor: &str) -> &str {
        let shard = self.places.get(tensor).and_then(|&place| self.shards.get(place));
        shard.map_or(&self.subject, Tensors::subject)
    }

    /// True where there is something of that name, be it a link that leads nowhere.
    fn has(&self, name: &str) -> bool {
        self.path.join(name).symlink_metadata().is_ok()
    }

    /// Why a folder without weights is no model, by what else is in it.
    fn no_model(&self) -> Error {
        let names = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        let with_end = |end: &str| names.iter().find(|name| name.ends_with(end));
        let message = if self.has("checkpoint.safetensors") {
            "it is a run of `lanthorn train`; `lanthorn generate --checkpoint` with its checkpoint.safetensors lets it write"
                .to_owned()
        } else if let Some(file) = with_end(".gguf") {
            format!("it has no {WEIGHTS}; its file {file} is a model by itself and would be right")
        } else if let Some(file) = with_end(".bin").or_else(|| with_end(".pt")) {
            format!(
                "it has no {WEIGHTS}, and {file} is of PyTorch; the model's weights as safetensors would be right"
            )
        } else if self.has(CONFIG) {
            format!(
                "it has a {CONFIG} and no {WEIGHTS}; the folder of a model with its weights would be right"
            )
        } else {
            format!(
                "it is no folder of a model; one with {CONFIG}, {WEIGHTS} and tokenizer.json would be right"
            )
        };
        Error::new(ErrorKind::Format, &self.subject, message)
    }

    /// The names of the tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// A tensor of floats.
    ///
    /// Errors: there is none of that name, or it holds no floats.
    pub fn get(&self, name: &str) -> Result<View<'_>> {
        let Some(shard) = self.places.get(name).and_then(|&place| self.shards.get(place)) else {
            let message = format!("it has no tensor `{name}`, which the model in {CONFIG} needs");
            return Err(Error::new(ErrorKind::Format, &self.subject, message));
        };
        let view = shard.get(name)?;
        let encoding = match view.dtype {
            DType::F32 => Encoding::F32,
            DType::F16 => Encoding::F16,
            DType::BF16 => Encoding::BF16,
            DType::F64 => Encoding::F64,
            other => {
                let message = format!("tensor `{name}` is {other}; f32, f16, bf16 or f64 would be right");
                return Err(Error::new(ErrorKind::Format, shard.subject(), message));
            }
        };
        Ok(View { encoding, shape: view.shape, bytes: view.bytes })
    }

    /// The text of a file of the folder, of which at most so many bytes are read; `None` where there is none.
    pub fn text(&self, name: &str, most: u64) -> Result<Option<String>> {
        if !self.has(name) {
            return Ok(None);
        }
        Ok(Some(text::read_at_most(self.path.join(name), most)?))
    }

    /// A file of JSON, `None` where there is none.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name, json::MOST_BYTES)? else { return Ok(None) };
        Ok(Some(json::read(&self.path_of(name), &text, "what transformers writes would be right")?))
    }

    /// A file of JSON without which there is no model.
    pub(super) fn required<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let none = || self.refusal(name, "there is no such file; the folder of a model would be right");
        self.json(name)?.ok_or_else(none)
    }

    /// The family of the model by `config.json`, before a size of it is read: each family has sizes of its own.
    pub(super) fn family(&self) -> Result<String> {
        let Family { model_type } = self.required(CONFIG)?;
        Ok(model_type)
    }

    /// An error about a file of the folder.
    pub fn refusal(&self, name: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Format, self.path_of(name), message)
    }

    /// The configuration in `config.json`.
    ///
    /// Errors: it is missing or lacks a size, is of another family, or asks for what this engine does not compute.
    pub fn config(&self) -> Result<LlamaConfig> {
        let refuse = |message: String| self.refusal(CONFIG, message);
        let family = self.family()?;
        if family != "llama" {
            let hint = match &*family {
                "bert" => ", and `lanthorn embed` makes vectors by a `bert`",
                _ => "",
            };
            return Err(refuse(format!(
                "it is a model of the family `{family}`; `llama` is what runs{hint}"
            )));
        }
        let file: ConfigFile = self.required(CONFIG)?;
        if file.hidden_act != "silu" {
            return Err(refuse(format!("`hidden_act` is `{}`; `silu` is what runs", file.hidden_act)));
        }
        for (key, is_set) in [("attention_bias", file.attention_bias), ("mlp_bias", file.mlp_bias)] {
            if is_set {
                return Err(refuse(format!("`{key}` is true; a llama without biases is what runs")));
            }
        }
        if file.quantization_config.is_some() {
            return Err(refuse(
                "its weights are packed; those of floats, or a GGUF file, are what runs".into(),
            ));
        }
        let (width, heads) = (file.hidden_size, file.num_attention_heads);
        if file.head_dim.is_none() && width.checked_rem(heads).is_some_and(|rest| rest > 0) {
            return Err(refuse(format!(
                "`num_attention_heads` is {heads} and `hidden_size` {width}; a divisor of it would be right"
            )));
        }
        Ok(LlamaConfig {
            vocab: file.vocab_size,
            context: file.max_position_embeddings,
            layers: file.num_hidden_layers,
            width,
            inner: file.intermediate_size,
            heads,
            kv_heads: file.num_key_value_heads.unwrap_or(heads),
            head_dim: file.head_dim.unwrap_or(width.checked_div(heads).unwrap_or(0)),
            rotation: file.rotation().map_err(refuse)?,
            head: if file.tie_word_embeddings { Head::Tied } else { Head::Untied },
            norm_eps: file.rms_norm_eps,
            packed: BTreeMap::new(),
        })
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("path", &self.path)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

/// True for tensors of older checkpoints that are no parameters: the frequencies of the rotation, which are computed,
/// and the head of a tied model, which is the token table.
pub fn is_settled(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq") || name == "lm_head.weight"
}

/// `config.json` of `LlamaForCausalLM`, with the class's own defaults (`configuration_llama.py`).
#[derive(Deserialize)]
struct ConfigFile {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    #[serde(default = "silu")]
    hidden_act: String,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    /// Before version 5 of transformers, beside `rope_scaling`.
    rope_theta: Option<f64>,
    #[serde(default, deserialize_with = "object")]
    rope_scaling: Option<RotationFile>,
    /// From version 5 on.
    #[serde(default, deserialize_with = "object")]
    rope_parameters: Option<RotationFile>,
    quantization_config: Option<serde::de::IgnoredAny>,
}

fn silu() -> String {
    "silu".into()
}

/// An object within a document, or null.
fn object<'de, D: Deserializer<'de>>(reader: D) -> std::result::Result<Option<RotationFile>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(reader)?;
    let read = |value| RotationFile::deserialize(json::Document(value)).map_err(serde::de::Error::custom);
    value.map(read).transpose()
}

#[derive(Deserialize)]
struct RotationFile {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
}

impl ConfigFile {
    fn rotation(&self) -> std::result::Result<Rotation, String> {
        let given = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        let theta = given.and_then(|given| given.rope_theta).or(self.rope_theta).unwrap_or(10_000.0);
        let kind = given.and_then(|given| given.rope_type.as_deref()).unwrap_or("default");
        let scaling = match (kind, given) {
            ("default", _) | (_, None) => None,
            ("llama3", Some(given)) => {
                let missing = |key| format!("its rotation is scaled as in Llama 3.1 and `{key}` is missing");
                Some(RotationScaling {
                    factor: given.factor.ok_or_else(|| missing("factor"))?,
                    low: given.low_freq_factor.ok_or_else(|| missing("low_freq_factor"))?,
                    high: given.high_freq_factor.ok_or_else(|| missing("high_freq_factor"))?,
                    context: given
                        .original_max_position_embeddings
                        .ok_or_else(|| missing("original_max_position_embeddings"))?,
                })
            }
            (other, _) => {
                return Err(format!(
                    "its rotation is scaled by the method `{other}`; `default` and `llama3` are what runs"
                ));
            }
        };
        Ok(Rotation { theta, scaling })
    }
}
