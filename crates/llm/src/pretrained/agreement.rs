//! A folder's tokenizer held against the files beside it: one of another model makes ids that fit and mean something
//! else, and what the model then computes looks like a result.
//!
//! | file | what must agree |
//! |---|---|
//! | `config.json` | `vocab_size`: no id beyond it, and not less than half of it |
//! | `tokenizer_config.json` | `tokenizer_class`, `added_tokens_decoder`, `do_lower_case` |
//! | `special_tokens_map.json` and the former, of encoders | the special tokens, which of them begin and end a text |
//! | `vocab.txt`, of encoders | each token's id |

use std::collections::BTreeMap;

use lanthorn_io::json::MOST_BYTES;
use lanthorn_io::tokenizer::{Policy, Tokenizer};
use lanthorn_ir::Result;
use serde::Deserialize;
use serde_json::Value;

use super::Folder;
use super::texts::{SETTINGS, TOKENIZER, Token};

const CONFIG: &str = "config.json";
const SPECIAL_TOKENS: &str = "special_tokens_map.json";
const VOCABULARY: &str = "vocab.txt";

/// What would be right instead of a tokenizer that does not agree.
const EXPECTED: &str = "the tokenizer that was published with the model would be right";

/// Classes of transformers whose tokenizers are of one kind, without `Tokenizer` or `TokenizerFast` at the end.
const CLASSES: [(&str, &[&str]); 3] = [
    (
        "WordPiece",
        &["Bert", "DistilBert", "Electra", "MPNet", "MobileBert", "LayoutLM", "ConvBert", "SqueezeBert"],
    ),
    ("Unigram", &["XLMRoberta", "Albert", "T5", "MBart", "Camembert", "XLNet"]),
    ("BPE", &["GPT2", "Roberta", "Bart", "Qwen2", "CLIP", "Longformer", "GPTNeoX", "CodeGen"]),
];

/// What is read of `config.json`.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Sizes {
    vocab_size: Option<usize>,
}

/// What is read of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
struct Settings {
    tokenizer_class: Option<String>,
    do_lower_case: Option<bool>,
    #[serde(default)]
    added_tokens_decoder: BTreeMap<String, Token>,
    #[serde(flatten)]
    special: Special,
}

/// The special tokens of an encoder, in `tokenizer_config.json` and `special_tokens_map.json`.
#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
struct Special {
    cls_token: Option<Token>,
    sep_token: Option<Token>,
    pad_token: Option<Token>,
    unk_token: Option<Token>,
    mask_token: Option<Token>,
}

impl Special {
    fn named(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("cls_token", &self.cls_token),
            ("sep_token", &self.sep_token),
            ("pad_token", &self.pad_token),
            ("unk_token", &self.unk_token),
            ("mask_token", &self.mask_token),
        ]
        .map(|(name, token)| (name, token.as_ref().map(Token::text)))
    }
}

/// Refuses a tokenizer, whose file's content is `json`, that the files beside it contradict.
pub(super) fn check(folder: &Folder, tokenizer: &Tokenizer, json: &Value) -> Result<()> {
    check_size(folder, tokenizer)?;
    let settings: Settings = folder.json(SETTINGS)?.unwrap_or_default();
    check_class(folder, &settings, json)?;
    check_ids(folder, &settings, tokenizer)?;
    check_letters(folder, &settings, json)
}

/// The same of an encoder: it has seen each text between two tokens, and words in pieces where nothing else is said.
pub(super) fn check_encoder(folder: &Folder, tokenizer: &Tokenizer) -> Result<()> {
    let settings: Settings = folder.json(SETTINGS)?.unwrap_or_default();
    let kind = kind_of(&folder.json(TOKENIZER)?.unwrap_or_default());
    if let (None, Some(kind)) = (&settings.tokenizer_class, kind.filter(|kind| kind != "WordPiece")) {
        let found = format!("it is of the kind {kind}, and {CONFIG} says that the model is a BERT");
        return Err(folder.refusal(TOKENIZER, format!("{found}; a WordPiece would be right")));
    }
    let map: Special = folder.json(SPECIAL_TOKENS)?.unwrap_or_default();
    let in_files = map.named().into_iter().zip(settings.special.named());
    let mut ends = [("cls_token", "[CLS]".to_owned()), ("sep_token", "[SEP]".to_owned())];
    for ((name, in_map), (_, in_settings)) in in_files {
        if let (Some(one), Some(other)) = (in_map, in_settings)
            && one != other
        {
            let found = format!("its `{name}` is `{one}`, and that of {SETTINGS} is `{other}`");
            return Err(folder.refusal(SPECIAL_TOKENS, format!("{found}; one token would be right")));
        }
        let file = if in_map.is_some() { SPECIAL_TOKENS } else { SETTINGS };
        let Some(token) = in_map.or(in_settings) else { continue };
        if tokenizer.id(token).is_none() {
            let found = format!("it has no token `{token}`, which is the `{name}` of {file}");
            return Err(folder.refusal(TOKENIZER, format!("{found}; {EXPECTED}")));
        }
        for (_, end) in ends.iter_mut().filter(|(end, _)| *end == name) {
            *end = token.to_owned();
        }
    }
    check_ends(folder, tokenizer, ends.map(|(_, token)| token))?;
    check_vocabulary(folder, tokenizer)
}

fn check_size(folder: &Folder, tokenizer: &Tokenizer) -> Result<()> {
    let config: Option<Sizes> = folder.json(CONFIG)?;
    let Some(known) = config.and_then(|config| config.vocab_size) else { return Ok(()) };
    let tokens = tokenizer.vocab_size();
    let found = match tokens {
        0 => "its vocabulary is empty".to_owned(),
        _ if tokens > known => format!("the tokenizer has {tokens} tokens"),
        _ if tokens < known / 2 => format!("the tokenizer has only {tokens} tokens"),
        _ => return Ok(()),
    };
    let path = folder.path_of(CONFIG);
    Err(folder.refusal(TOKENIZER, format!("{found}, and the `vocab_size` of {path} is {known}; {EXPECTED}")))
}

/// The kind of a tokenizer, where its file says it.
fn kind_of(json: &Value) -> Option<String> {
    Some(json["model"]["type"].as_str()?.to_owned())
}

fn check_class(folder: &Folder, settings: &Settings, json: &Value) -> Result<()> {
    let (Some(class), Some(kind)) = (&settings.tokenizer_class, kind_of(json)) else { return Ok(()) };
    let name = class.strip_suffix("Fast").unwrap_or(class);
    let name = name.strip_suffix("Tokenizer").unwrap_or(name);
    match CLASSES.iter().find(|(_, names)| names.contains(&name)) {
        Some((right, _)) if *right != kind => {
            let found = format!("it is of the kind {kind}, and {SETTINGS} says that it is a `{class}`");
            Err(folder.refusal(TOKENIZER, format!("{found}; a {right} would be right")))
        }
        _ => Ok(()),
    }
}

fn check_ids(folder: &Folder, settings: &Settings, tokenizer: &Tokenizer) -> Result<()> {
    for (id, token) in &settings.added_tokens_decoder {
        let (Ok(id), token) = (id.parse::<u32>(), token.text()) else { continue };
        let found = match (tokenizer.id(token), tokenizer.token(id)) {
            (Some(other), _) if other != id => format!("its token `{token}` has the id {other}"),
            (_, Some(other)) if other != token => format!("its token {id} is `{other}`"),
            // One that only the settings know is in no text.
            _ => continue,
        };
        let found = format!("{found}, and {SETTINGS} says that {id} is `{token}`");
        return Err(folder.refusal(TOKENIZER, format!("{found}; {EXPECTED}")));
    }
    Ok(())
}

/// Of BERT's normalizer; other rules for letters have no such setting.
fn check_letters(folder: &Folder, settings: &Settings, json: &Value) -> Result<()> {
    let normalizer = &json["normalizer"];
    let Some(makes_small) =
        normalizer["lowercase"].as_bool().filter(|_| normalizer["type"] == "BertNormalizer")
    else {
        return Ok(());
    };
    match settings.do_lower_case {
        Some(says) if says != makes_small => {
            let found = format!("its normalizer's `lowercase` is {makes_small}");
            let other = format!("the `do_lower_case` of {SETTINGS} is {says}");
            Err(folder.refusal(TOKENIZER, format!("{found}, and {other}; {EXPECTED}")))
        }
        _ => Ok(()),
    }
}

/// What the tokenizer puts around a text.
fn check_ends(folder: &Folder, tokenizer: &Tokenizer, ends: [String; 2]) -> Result<()> {
    let around = tokenizer.encoder(&Policy::default())?.encode("")?.ids;
    let right: Option<Vec<u32>> = ends.iter().map(|end| tokenizer.id(end)).collect();
    if right.is_some_and(|right| right == around) {
        return Ok(());
    }
    let around: Vec<String> =
        around.into_iter().map(|id| format!("`{}`", tokenizer.token(id).unwrap_or_default())).collect();
    let found = match around.is_empty() {
        true => "nothing".to_owned(),
        false => around.join(" and "),
    };
    let [begin, end] = ends;
    let expected =
        format!("`{begin}` and `{end}`, which the model has seen around each text, would be right");
    Err(folder.refusal(TOKENIZER, format!("it puts {found} around a text; {expected}")))
}

/// The vocabulary that older tokenizers read, one token a line.
fn check_vocabulary(folder: &Folder, tokenizer: &Tokenizer) -> Result<()> {
    let Some(text) = folder.text(VOCABULARY, MOST_BYTES)? else { return Ok(()) };
    for (id, token) in (0u32..).zip(text.lines()) {
        let found = match tokenizer.token(id) {
            Some(found) if found == token => continue,
            Some(found) => format!("its token {id} is `{found}`"),
            None if id as usize >= tokenizer.vocab_size() => format!("it has no token {id}"),
            // Of two lines with one token the later one counts.
            None => continue,
        };
        let found = format!("{found}, and {VOCABULARY} says that {id} is `{token}`");
        return Err(folder.refusal(TOKENIZER, format!("{found}; {EXPECTED}")));
    }
    Ok(())
}
