//! Llama in a GGUF file.
//!
//! | ours | in the file |
//! |---|---|
//! | `model.embed_tokens.weight` | `token_embd.weight` |
//! | `model.layers.N.self_attn.q_proj.weight`, `k`, `v`, `o` | `blk.N.attn_q.weight`, `k`, `v`, `attn_output` |
//! | `model.layers.N.mlp.gate_proj.weight`, `up`, `down` | `blk.N.ffn_gate.weight`, `up`, `down` |
//! | `model.layers.N.input_layernorm.weight` | `blk.N.attn_norm.weight` |
//! | `model.layers.N.post_attention_layernorm.weight` | `blk.N.ffn_norm.weight` |
//! | `model.norm.weight` | `output_norm.weight` |
//! | `lm_head.weight` | `output.weight`; tied where it is missing |
//!
//! For this family llama.cpp turns elements `2 i` and `2 i + 1` of a head, and its converter therefore reorders the
//! rows of the maps to queries and keys (`conversion/llama.py`, `permute`). They are put back here ([`in_halves`]).
//!
//! The file does not say how a rotation is scaled; it has the factors by which frequencies are divided
//! (`rope_freqs.weight`), and [`scaling`](super::scaling) finds the settings that give them.

use std::collections::BTreeMap;

use lanthorn_io::gguf::{Gguf, Metadata};
use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_nn::LlamaConfig;
use lanthorn_nn::layers::Rotation;
use lanthorn_nn::models::gpt::Head;

use super::scaling;

/// The factors that divide the frequencies of the pairs of a head.
const FACTORS: &str = "rope_freqs.weight";

/// The table of tokens, `[vocab, width]`.
const TOKENS: &str = "token_embd.weight";

/// One of the maps to the inner width, `[inner, width]`.
const INNER: &str = "blk.0.ffn_gate.weight";

/// The configuration that the file gives.
pub fn config(file: &Gguf) -> Result<LlamaConfig> {
    let metadata = file.metadata();
    let refuse = |message: String| Err(Error::new(ErrorKind::Format, file.subject(), message));
    let architecture: &str = metadata.require("general.architecture")?;
    if architecture != "llama" {
        return refuse(format!("it is a model of the family `{architecture}`; `llama` is what runs"));
    }
    if let Some(experts) = optional(metadata, "expert_count")?.filter(|&experts| experts > 0) {
        return refuse(format!("it has {experts} experts; a llama without experts is what runs"));
    }
    if let Some(kind) = metadata.get::<&str>("llama.rope.scaling.type")?.filter(|&kind| kind != "none") {
        return refuse(format!(
            "its rotation is scaled by the method `{kind}`; none and that of Llama 3.1 are what runs"
        ));
    }
    let (width, heads) = (size(file, "embedding_length")?, size(file, "attention.head_count")?);
    let kv_heads = optional(metadata, "attention.head_count_kv")?.unwrap_or(heads);
    let head_dim = match optional(metadata, "attention.key_length")? {
        Some(head_dim) => head_dim,
        None if width % heads == 0 => width / heads,
        None => {
            return refuse(format!(
                "the metadata `llama.attention.head_count` is {heads} and `llama.embedding_length` {width}; \
                 a divisor of it would be right"
            ));
        }
    };
    if kv_heads == 0 || heads % kv_heads != 0 {
        return refuse(format!(
            "the metadata `llama.attention.head_count_kv` is {kv_heads} and `llama.attention.head_count` {heads}; \
             a divisor of it would be right"
        ));
    }
    for key in ["attention.value_length", "rope.dimension_count"] {
        if let Some(other) = optional(metadata, key)?.filter(|&other| other != head_dim) {
            return refuse(format!(
                "the metadata `llama.{key}` is {other}; {head_dim}, a head, is what runs"
            ));
        }
    }
    check_lengths(file)?;
    let theta = metadata.get::<f32>("llama.rope.freq_base")?.map_or(10_000.0, f64::from);
    let names = || file.iter().map(|(name, _)| name);
    let scaling = match names().any(|name| name == FACTORS) {
        true => scaling::of_factors(file.subject(), &super::unpacked(FACTORS, &file.get(FACTORS)?)?, theta)?,
        false => None,
    };
    Ok(LlamaConfig {
        vocab: file.get(TOKENS)?.shape.first().copied().unwrap_or(0),
        context: size(file, "context_length")?,
        layers: size(file, "block_count")?,
        width,
        inner: size(file, "feed_forward_length")?,
        heads,
        kv_heads,
        head_dim,
        rotation: Rotation { theta, scaling },
        head: if names().any(|name| name == "output.weight") { Head::Untied } else { Head::Tied },
        norm_eps: metadata.require::<f32>("llama.attention.layer_norm_rms_epsilon")?.into(),
        packed: BTreeMap::new(),
    })
}

/// A size that must be there.
fn size(file: &Gguf, key: &str) -> Result<usize> {
    match file.metadata().require::<usize>(&format!("llama.{key}"))? {
        0 => {
            let message = format!("the metadata `llama.{key}` is 0; at least 1 would be right");
            Err(Error::new(ErrorKind::Format, file.subject(), message))
        }
        size => Ok(size),
    }
}

/// Holds what the metadata counts against the tensors: by the metadata a text becomes ids, by the tensors ids become
/// numbers.
fn check_lengths(file: &Gguf) -> Result<()> {
    let metadata = file.metadata();
    let refuse = |key: &str, says: String, tensors: String| {
        let message = format!("the metadata `{key}` {says}, and {tensors}; the same number would be right");
        Err(Error::new(ErrorKind::Format, file.subject(), message))
    };
    let entries = metadata.get::<&[String]>("tokenizer.ggml.tokens")?.map(<[String]>::len);
    let stated = |key: &str| optional(metadata, key);
    let counted = [
        ("tokenizer.ggml.tokens", entries, TOKENS, 0, "rows"),
        ("llama.vocab_size", stated("vocab_size")?, TOKENS, 0, "rows"),
        ("llama.embedding_length", stated("embedding_length")?, TOKENS, 1, "columns"),
        ("llama.feed_forward_length", stated("feed_forward_length")?, INNER, 0, "rows"),
    ];
    for (key, says, tensor, axis, unit) in counted {
        let view = file.iter().find_map(|(name, view)| (name == tensor).then_some(view));
        let found = view.and_then(|view| view.shape.get(axis).copied());
        let (Some(says), Some(found)) = (says, found.filter(|&found| says != Some(found))) else { continue };
        let says =
            if key.ends_with(".tokens") { format!("has {says} entries") } else { format!("is {says}") };
        return refuse(key, says, format!("the tensor `{tensor}` has {found} {unit}"));
    }
    let block = |name: &str| name.strip_prefix("blk.")?.split('.').next()?.parse::<usize>().ok();
    let blocks =
        file.iter().filter_map(|(name, _)| block(name)).max().map_or(0, |last| last.saturating_add(1));
    match stated("block_count")? {
        Some(says) if says != blocks => {
            refuse("llama.block_count", format!("is {says}"), format!("there are tensors of {blocks} blocks"))
        }
        _ => Ok(()),
    }
}

fn optional(metadata: &Metadata, key: &str) -> Result<Option<usize>> {
    Ok(metadata.get::<usize>(&format!("llama.{key}"))?)
}

/// The file's name of a parameter.
pub fn name_of(name: &str) -> String {
    let parts = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("post_attention_layernorm", "ffn_norm"),
        ("input_layernorm", "attn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    parts.into_iter().fold(name.to_owned(), |name, (ours, theirs)| name.replace(ours, theirs))
}

/// True for a tensor that is no parameter and that [`config`] has taken into account.
pub fn is_settled(name: &str) -> bool {
    name == FACTORS
}

/// The elements, or bytes, of a parameter of `rows` rows as ours: in the maps to queries and keys, row `2 i + half` of a
/// head becomes row `half * head_dim / 2 + i`.
///
/// Errors: memory.
pub fn in_halves<T: Copy>(name: &str, head_dim: usize, rows: usize, elements: &[T]) -> Result<Vec<T>> {
    let mut halves = super::room(name, elements.len())?;
    if rows == 0 || !(name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight")) {
        halves.extend_from_slice(elements);
        return Ok(halves);
    }
    let (pairs, width) = (head_dim / 2, elements.len() / rows);
    for head in elements.chunks_exact(head_dim * width) {
        for row in (0..2).flat_map(|half| (0..pairs).map(move |pair| 2 * pair + half)) {
            halves.extend_from_slice(&head[row * width..][..width]);
        }
    }
    Ok(halves)
}
