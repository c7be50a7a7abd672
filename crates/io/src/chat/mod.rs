//! Chat templates: how a model wants a conversation written as one text.
//!
//! A template is Jinja, as Hugging Face's `apply_chat_template` runs it: blocks take the line end after them and the blanks
//! before them away, `break` and `continue` exist, and so do `raise_exception`, `strftime_now` and a `tojson` like Python's
//! (`transformers`, `utils/chat_template_utils.py`). The work is `minijinja`'s. Strings, lists and dictionaries have the
//! methods of Python that templates use.
//!
//! A template comes from a stranger, with the model. It can read what it is given and nothing else; the steps that it
//! takes, its own length and the text that it gives are limited. The memory of what it computes on the way is not: a
//! template that sets out to can ask for a few hundred megabytes in one step.

mod json;

use crate::error::shorten;
use crate::gguf::Metadata;
use crate::tokenizer::Roles;
use crate::{Error, Result};
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, ErrorKind, Output, State, Value, context};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The metadata of a GGUF file that is a template.
const KEY: &str = "tokenizer.chat_template";

/// The longest template, in bytes; those of known models have up to some 30 kB.
const LONGEST_TEMPLATE: usize = 128 << 10;

/// Steps that a template may take: some hundred for a message, and some templates look at all of them for each.
const FUEL: u64 = 2_000_000;

/// How deep macros may call each other.
const DEEPEST: usize = 64;

/// The stack on which the engine runs, in bytes; it takes memory where it is used. The engine follows the nesting of
/// expressions and of values, and a template can nest as deep as it has bytes, and values as deep as it has steps: a level
/// of either takes some 400 bytes of the stack and at least one byte, or four steps.
const STACK: usize = 256 << 20;

/// The longest text, in bytes. A model that reads a million tokens reads some 4 MB.
const LONGEST_TEXT: usize = 64 << 20;

/// How a template is known to the engine.
const NAME: &str = "chat";

/// One message of a conversation, for templates that ask for no more than this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// Whether the text ends with what begins the assistant's reply: `add_generation_prompt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The model is to go on as the assistant.
    Begun,
    /// The text ends with the last message.
    NotBegun,
}

/// A chat template, compiled.
///
/// ```
/// use lanthorn_io::chat::{ChatTemplate, Message, Reply};
/// let template = ChatTemplate::new(
///     "example",
///     "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content | trim }}{{ end }}\n{% endfor %}\
///      {% if add_generation_prompt %}<|assistant|>\n{% endif %}",
/// )
/// .unwrap()
/// .with("end", "</s>");
///
/// let text = template.render(&[Message::new("user", " Hello? ")], Reply::Begun).unwrap();
/// assert_eq!(text, "<|user|>\nHello?</s>\n<|assistant|>\n");
/// ```
#[derive(Clone)]
pub struct ChatTemplate {
    subject: String,
    source: String,
    environment: Environment<'static>,
    variables: BTreeMap<String, Value>,
}

impl ChatTemplate {
    /// A template; `subject` names it in errors.
    ///
    /// # Errors
    ///
    /// `format`: it is no Jinja, or longer than 128 KiB. `io`: there is no thread for it.
    pub fn new(subject: impl Into<String>, source: impl Into<String>) -> Result<ChatTemplate> {
        let (subject, source) = (subject.into(), source.into());
        if source.len() > LONGEST_TEMPLATE {
            return Err(Error::format(
                subject,
                format!("the chat template has {} bytes", source.len()),
                format!("at most {LONGEST_TEMPLATE} are read"),
            ));
        }
        let text = without_generation_tags(&source);
        let compiled = on_a_deep_stack(&subject, || {
            let mut environment = environment();
            environment.add_template_owned(NAME, text)?;
            Ok(environment)
        })?;
        let environment = compiled.map_err(|error: minijinja::Error| {
            let found = format!("the chat template is no Jinja: {}", describe(&error));
            Error::format(&*subject, found, "the template of a model would be right")
        })?;
        // Templates ask whether these are none, not whether they are defined.
        let variables = ["tools", "documents"].map(|name| (name.to_owned(), Value::from(()))).into();
        Ok(ChatTemplate { subject, source, environment, variables })
    }

    /// The template of a GGUF file, which knows the texts of the file's special tokens (`bos_token`, `eos_token` ...);
    /// `None` where the file has none.
    ///
    /// # Errors
    ///
    /// `format`: as [`ChatTemplate::new`] and [`Roles::from_gguf`].
    pub fn from_gguf(metadata: &Metadata) -> Result<Option<ChatTemplate>> {
        let Some(source) = metadata.get::<&str>(KEY)? else { return Ok(None) };
        let mut template = ChatTemplate::new(metadata.subject(), source)?;
        let roles = Roles::from_gguf(metadata)?;
        let tokens: &[String] = metadata.require("tokenizer.ggml.tokens")?;
        for (name, id) in [
            ("bos_token", roles.begin),
            ("eos_token", roles.end),
            ("unk_token", roles.unknown),
            ("pad_token", roles.padding),
        ] {
            if let Some(token) = id.and_then(|id| tokens.get(id as usize)) {
                template = template.with(name, token);
            }
        }
        Ok(Some(template))
    }

    /// The template with a variable that it may ask for: `tools`, `documents`, `enable_thinking`, `date_string` ...
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Serialize) -> ChatTemplate {
        self.variables.insert(name.into(), Value::from_serialize(value));
        self
    }

    /// The template with the variables of a JSON object, whose keys are their names.
    ///
    /// # Errors
    ///
    /// `format`: it is no object.
    pub fn with_json(mut self, variables: &str) -> Result<ChatTemplate> {
        let variables = from_json("variables", variables, ValueKind::Map)?;
        for name in variables.try_iter().into_iter().flatten() {
            let value = variables.get_item(&name).unwrap_or_default();
            self.variables.insert(name.to_string(), value);
        }
        Ok(self)
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation. Special tokens are part of it: encode it with
    /// [`Tokenizer::encode`](crate::Tokenizer::encode), which recognises them, and add none. A message that holds the text
    /// of a special token is not told from the template's own.
    ///
    /// A message is a [`Message`], or anything else with the fields that the template asks for. Objects keep the order of
    /// their keys.
    ///
    /// # Errors
    ///
    /// `format`: the template refuses the messages, in its own words, asks for what is not there, takes more than
    /// 2,000,000 steps, or gives more than 64 MiB. `io`: there is no thread for it.
    pub fn render(&self, messages: &[impl Serialize], reply: Reply) -> Result<String> {
        self.render_value(Value::from_serialize(messages), reply)
    }

    /// As [`ChatTemplate::render`], of messages that are a JSON list.
    ///
    /// # Errors
    ///
    /// As [`ChatTemplate::render`]; `format`: it is no such list.
    pub fn render_json(&self, messages: &str, reply: Reply) -> Result<String> {
        self.render_value(from_json("messages", messages, ValueKind::Seq)?, reply)
    }

    fn render_value(&self, messages: Value, reply: Reply) -> Result<String> {
        let own = context! { messages, add_generation_prompt => reply == Reply::Begun };
        let all = context! { ..own, ..Value::from_serialize(&self.variables) };
        let rendered = on_a_deep_stack(&self.subject, || {
            let mut text = Limited(Vec::new());
            self.environment.get_template(NAME)?.render_captured_to(all, &mut text)?;
            Ok(text.0)
        })?;
        match rendered {
            Ok(text) => String::from_utf8(text).map_err(|_| self.refuse("gives no UTF-8".to_owned())),
            Err(error) => Err(self.explain(&error)),
        }
    }

    fn refuse(&self, found: String) -> Error {
        Error::format(
            &self.subject,
            format!("the chat template {found}"),
            "messages as the template wants them would be right",
        )
    }

    /// Why rendering has failed: in the template's words, if it has any.
    fn explain(&self, error: &minijinja::Error) -> Error {
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(current) = cause {
            if let Some(Raised(message)) = current.downcast_ref() {
                return self.refuse(format!("refuses the messages: {}", shorten(message)));
            }
            if current.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == TOO_LONG) {
                return self.refuse(format!("gives more than {LONGEST_TEXT} bytes"));
            }
            cause = current.source();
        }
        match error.kind() {
            ErrorKind::OutOfFuel => self.refuse(format!("takes more than {FUEL} steps")),
            _ => self.refuse(format!("fails: {}", describe(error))),
        }
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("subject", &self.subject)
            .field("source", &shorten(&self.source))
            .finish_non_exhaustive()
    }
}

/// A value of that kind out of JSON; objects keep the order of their keys.
fn from_json(subject: &str, json: &str, kind: ValueKind) -> Result<Value> {
    let expected =
        format!("a JSON {} would be right", if kind == ValueKind::Seq { "list" } else { "object" });
    match serde_json::from_str::<Value>(json) {
        Ok(value) if value.kind() == kind => Ok(value),
        Ok(value) => Err(Error::format(subject, format!("they are a {}", value.kind()), expected)),
        Err(error) => {
            let found = format!("they are not JSON: {}", shorten(&error.to_string()));
            Err(Error::format(subject, found, expected))
        }
    }
}

/// Runs `work` on a thread of its own with a stack of [`STACK`] bytes.
fn on_a_deep_stack<T: Send>(subject: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let started = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = started.map_err(|source| Error::io("run the chat template of", subject, source))?;
        thread.join().map_err(|_| {
            Error::format(
                subject,
                "the chat template makes the engine fail",
                "another template would be right",
            )
        })
    })
}

/// The engine, set up as the templates expect it.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(write_like_python);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(DEEPEST);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment
}

/// Values that Python spells in another way.
fn write_like_python(
    out: &mut Output<'_>,
    state: &State<'_, '_>,
    value: &Value,
) -> Result<(), minijinja::Error> {
    let spelled = match value.kind() {
        ValueKind::None => "None",
        ValueKind::Bool if value.is_true() => "True",
        ValueKind::Bool => "False",
        _ => return minijinja::escape_formatter(out, state, value),
    };
    out.write_str(spelled).map_err(minijinja::Error::from)
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None)`, as Python's `json.dumps`.
fn to_json(value: &Value, options: Kwargs) -> Result<String, minijinja::Error> {
    let separators: Option<(String, String)> = match options.get::<Option<Value>>("separators")? {
        None => None,
        Some(pair) => Some((pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string())),
    };
    let style = json::Style {
        indent: options.get("indent")?,
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        separators,
    };
    options.assert_all_used()?;
    json::to_string(value, style)
        .map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// What a template says when it does not want the messages.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    let error = minijinja::Error::new(ErrorKind::InvalidOperation, "the template raises an exception");
    Err(error.with_source(Raised(message)))
}

/// The time at this place, as the template wants it written.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    jiff::fmt::strtime::format(format, &jiff::Zoned::now())
        .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// `{% generation %}` marks what the assistant has said, for training. Its end is a block's end; so is that of `if`.
fn without_generation_tags(source: &str) -> String {
    let mut replaced = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        let inner = tag.trim_start_matches(['-', '+']);
        let mark = &tag[..tag.len() - inner.len()];
        let word = inner.trim_start();
        replaced.push_str(before);
        replaced.push_str(mark);
        rest = inner;
        for (name, instead) in [("generation", " if true"), ("endgeneration", " endif")] {
            if let Some(after) = word.strip_prefix(name)
                && after.trim_start().trim_start_matches(['-', '+']).starts_with("%}")
            {
                replaced.push_str(instead);
                rest = after;
            }
        }
    }
    replaced.push_str(rest);
    replaced
}

/// An engine's error with the line of the template, without its kind where it says more.
fn describe(error: &minijinja::Error) -> String {
    let what = match error.detail() {
        Some(detail) => shorten(detail),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

/// The kind of error by which [`Limited`] says that it is full.
const TOO_LONG: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// A text that does not grow beyond [`LONGEST_TEXT`].
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > LONGEST_TEXT - self.0.len() {
            return Err(TOO_LONG.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
