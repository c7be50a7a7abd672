//! What comes with a model for texts: its tokenizer, its chat template, the tokens that begin and end.

use lanthorn_io::chat::{ChatTemplate, Message, Reply};
use lanthorn_io::gguf::Metadata;
use lanthorn_io::json::MOST_BYTES;
use lanthorn_io::tokenizer::{self, Roles, Tokenizer};
use lanthorn_ir::Result;
use serde::Deserialize;
use serde_json::Value;

use super::{Folder, agreement};

pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const SETTINGS: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";

/// A tokenizer with what the model expects around texts.
#[derive(Clone)]
pub struct Texts {
    pub tokenizer: Tokenizer,
    /// How a conversation is written; base models have none.
    pub template: Option<ChatTemplate>,
    /// The token that the model expects before a text that no template has written.
    pub begin: Option<u32>,
    /// Tokens after which a reply is over, in ascending order.
    pub ends: Vec<u32>,
}

impl Texts {
    /// The ids of a text, behind the token that begins one where the model expects it.
    ///
    /// Errors: the text cannot be encoded.
    pub fn raw(&self, text: &str) -> Result<Vec<u32>> {
        let ids = self.tokenizer.encode(text)?;
        Ok(self
            .begin
            .into_iter()
            .filter(|begin| ids.first() != Some(begin))
            .chain(ids.iter().copied())
            .collect())
    }

    /// The ids of a conversation that the model is to go on with as the assistant; [`Texts::raw`] of the last message
    /// where there is no template.
    ///
    /// Errors: the template refuses the messages.
    pub fn chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        match &self.template {
            Some(template) => Ok(self.tokenizer.encode(&template.render(messages, Reply::Begun)?)?),
            None => self.raw(messages.last().map_or("", |message| &message.content)),
        }
    }

    pub(super) fn from_gguf(metadata: &Metadata) -> Result<Texts> {
        let roles = Roles::from_gguf(metadata)?;
        Ok(Texts {
            tokenizer: Tokenizer::from_gguf(metadata)?,
            template: ChatTemplate::from_gguf(metadata)?,
            begin: roles.begin.filter(|_| roles.add_begin),
            ends: roles.ends,
        })
    }

    pub(super) fn from_folder(folder: &Folder) -> Result<Texts> {
        let Some(json) = folder.text(TOKENIZER, tokenizer::MOST_BYTES)? else {
            return Err(folder.refusal(TOKENIZER, "there is no such file, and no other tokenizer is read"));
        };
        let tokenizer = Tokenizer::from_json(&format!("{}/{TOKENIZER}", folder.subject()), &json)?;
        let json: Value = serde_json::from_str(&json).unwrap_or_default();
        agreement::check(folder, &tokenizer, &json)?;
        let settings: Settings = folder.json(SETTINGS)?.unwrap_or_default();
        let text_of = |token: &Option<Token>| token.as_ref().map(|token| token.text().to_owned());

        let template = match folder.text(TEMPLATE, MOST_BYTES)? {
            Some(source) => Some((TEMPLATE, source)),
            None => settings.chat_template.as_ref().and_then(Template::source).map(|text| (SETTINGS, text)),
        };
        let template = template
            .map(|(file, source)| ChatTemplate::new(format!("{}/{file}", folder.subject()), source))
            .transpose()?
            .map(|template| {
                let tokens = [
                    ("bos_token", &settings.bos_token),
                    ("eos_token", &settings.eos_token),
                    ("unk_token", &settings.unk_token),
                    ("pad_token", &settings.pad_token),
                ];
                tokens.into_iter().fold(template, |template, (name, token)| match text_of(token) {
                    Some(text) => template.with(name, text),
                    None => template,
                })
            });

        let begin = match (settings.add_bos_token, text_of(&settings.bos_token)) {
            (Some(true), Some(text)) => Some(text),
            (Some(false), _) => None,
            _ => begin_of(&json),
        };
        let mut ends: Vec<u32> =
            text_of(&settings.eos_token).and_then(|text| tokenizer.id(&text)).into_iter().collect();
        for file in ["generation_config.json", "config.json"] {
            let found: Option<Ends> = folder.json(file)?;
            ends.extend(found.and_then(|found| found.eos_token_id).map(Ids::into_vec).unwrap_or_default());
        }
        ends.sort_unstable();
        ends.dedup();
        let begin = begin.and_then(|text| tokenizer.id(&text));
        Ok(Texts { tokenizer, template, begin, ends })
    }
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Texts").field("begin", &self.begin).field("ends", &self.ends).finish_non_exhaustive()
    }
}

/// The special token that the tokenizer itself puts before a text: the first piece of its template for one text.
fn begin_of(tokenizer: &Value) -> Option<String> {
    let processor = &tokenizer["post_processor"];
    let all = processor["processors"].as_array().map_or(std::slice::from_ref(processor), Vec::as_slice);
    let template = all.iter().find(|processor| processor["type"] == "TemplateProcessing")?;
    Some(template["single"][0]["SpecialToken"]["id"].as_str()?.to_owned())
}

/// What is read of `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct Settings {
    bos_token: Option<Token>,
    eos_token: Option<Token>,
    unk_token: Option<Token>,
    pad_token: Option<Token>,
    add_bos_token: Option<bool>,
    chat_template: Option<Template>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a token must be a string, or an object with its `content`")]
pub(super) enum Token {
    Text(String),
    Described { content: String },
}

impl Token {
    pub(super) fn text(&self) -> &str {
        match self {
            Token::Text(text) | Token::Described { content: text } => text,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`chat_template` must be a string, or a list of named ones")]
enum Template {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl Template {
    fn source(&self) -> Option<String> {
        match self {
            Template::One(source) => Some(source.clone()),
            Template::Named(all) => {
                all.iter().find(|one| one.name == "default").map(|one| one.template.clone())
            }
        }
    }
}

/// What is read of the files that say where a text ends.
#[derive(Deserialize)]
struct Ends {
    eos_token_id: Option<Ids>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`eos_token_id` must be an id or a list of ids")]
enum Ids {
    One(u32),
    Many(Vec<u32>),
}

impl Ids {
    fn into_vec(self) -> Vec<u32> {
        match self {
            Ids::One(id) => vec![id],
            Ids::Many(ids) => ids,
        }
    }
}
