//! What is done with tokenizers: on any thread, without anything of JavaScript.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_io::chat::{ChatTemplate, Reply};
use lanthorn_io::tokenizer::{
    Algorithm, Encoder, Fill, InText, Policy, Progress, SpecialTokens, Table, Template, Tokenizer, Training,
    Truncation,
};
use lanthorn_ir::{Error, ErrorKind, Result};

/// A tokenizer with what encodes by its configuration. JavaScript's objects and running work share it.
pub struct Held {
    pub tokenizer: Tokenizer,
    /// With the tokens of the template around each text, and without.
    applied: Encoder,
    bare: Encoder,
}

impl Held {
    fn new(tokenizer: Tokenizer, config: &Config) -> Result<Arc<Held>> {
        let policy = Policy {
            in_text: config.in_text,
            truncation: config.max_length.map(Truncation::new),
            ..Policy::default()
        };
        let applied = tokenizer.encoder(&policy)?;
        let bare = applied.with_template(Template::Leave)?;
        Ok(Arc::new(Held { tokenizer, applied, bare }))
    }

    /// About how many bytes it takes: the file's text, and vocabularies out of it.
    pub fn bytes(&self) -> i64 {
        const TIMES: usize = 12;
        (self.tokenizer.to_json().len() * TIMES) as i64
    }
}

/// How a tokenizer encodes.
pub struct Config {
    pub in_text: InText,
    /// The most tokens of a text.
    pub max_length: Option<usize>,
}

impl Config {
    /// `[whether special tokens in a text are recognised, the most tokens of a text or null]`.
    pub fn from_json(json: &str) -> Result<Config> {
        let (are_special, max_length): (bool, Option<usize>) =
            serde_json::from_str(json).map_err(|error| not_json("config", &error))?;
        let in_text = if are_special { InText::Special } else { InText::Ordinary };
        Ok(Config { in_text, max_length })
    }
}

/// A training: what is learnt from what.
pub struct Lesson {
    algorithm: Algorithm,
    vocab_size: usize,
    min_frequency: u64,
    special_tokens: Vec<String>,
    sources: Sources,
    /// After how many bytes its progress is reported; 0 for never.
    every: u64,
}

pub enum Sources {
    Texts(Vec<String>),
    Files(Vec<String>),
}

impl Lesson {
    /// `[model, vocabulary size, least frequency, special tokens, bytes between reports]`.
    pub fn from_json(json: &str, sources: Sources) -> Result<Lesson> {
        let (model, vocab_size, min_frequency, special_tokens, every): (String, _, _, _, _) =
            serde_json::from_str(json).map_err(|error| not_json("train", &error))?;
        let models = [Algorithm::Bpe, Algorithm::WordPiece, Algorithm::Unigram, Algorithm::WordLevel];
        let Some(algorithm) = models.into_iter().find(|algorithm| algorithm.name() == model) else {
            let names = models.map(Algorithm::name).join(", ");
            let message = format!("there is no model `{model}`; {names} would be right");
            return Err(Error::new(ErrorKind::Format, "train", message));
        };
        Ok(Lesson { algorithm, vocab_size, min_frequency, special_tokens, sources, every })
    }

    fn run(&self, job: &Job<'_>) -> Result<Tokenizer> {
        let total = self.bytes()?;
        let told = Mutex::new(0);
        let tell = |bytes: u64, every: u64| {
            // Under the lock, so that reports go out in order.
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if self.every > 0 && bytes > *told && bytes - *told >= every {
                *told = bytes;
                (job.report)(bytes, total);
            }
        };
        let report = |progress: Progress| {
            match progress {
                Progress::Reading { bytes } => tell(bytes.min(total), self.every),
                // All is read, whatever marks at the beginning of files were not counted.
                Progress::Learning { .. } => tell(total, 0),
            }
            if job.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut training = Training::new(self.algorithm, self.vocab_size);
        training.min_frequency = self.min_frequency;
        training.special_tokens.clone_from(&self.special_tokens);
        training.report = Some(&report);
        if self.every > 0 {
            training.report_every = training.report_every.min(self.every);
        }
        Ok(match &self.sources {
            Sources::Texts(texts) => Tokenizer::train(texts, &training)?,
            Sources::Files(paths) => Tokenizer::train_files(paths, &training)?,
        })
    }

    /// Bytes of all sources. A file that is not there is found before any is read.
    fn bytes(&self) -> Result<u64> {
        match &self.sources {
            Sources::Texts(texts) => Ok(texts.iter().map(|text| text.len() as u64).sum()),
            Sources::Files(paths) => paths.iter().map(|path| length(Path::new(path))).sum(),
        }
    }
}

fn length(path: &Path) -> Result<u64> {
    let described = std::fs::metadata(path);
    Ok(described.map_err(|cause| lanthorn_io::Error::io("read", path, cause))?.len())
}

/// What is to be done.
pub enum Task {
    Load {
        path: String,
        config: Config,
    },
    Parse {
        json: String,
        config: Config,
    },
    Train {
        lesson: Lesson,
        config: Config,
    },
    /// `fill` is `None` if the ids follow one another as one list.
    Encode {
        held: Arc<Held>,
        texts: Vec<String>,
        template: Template,
        fill: Option<Fill>,
    },
    Decode {
        held: Arc<Held>,
        ids: Vec<u32>,
        lengths: Vec<u32>,
        special_tokens: SpecialTokens,
    },
    Chat {
        template: String,
        messages: String,
        variables: String,
        reply: Reply,
    },
    Save {
        held: Arc<Held>,
        path: String,
    },
}

/// What came out.
pub enum Answer {
    Tokenizer(Arc<Held>),
    Ids(Table),
    Texts(Vec<String>),
    Text(String),
    Nothing,
}

/// What a task that runs may ask and tell.
pub struct Job<'a> {
    pub cancelled: &'a AtomicBool,
    /// Told of bytes that were read, and of all.
    pub report: &'a (dyn Fn(u64, u64) + Sync),
}

impl Job<'_> {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(Error::new(ErrorKind::Cancelled, "tokenizer", "cancelled")),
            false => Ok(()),
        }
    }
}

impl Task {
    /// True if it takes less than to hand it to a thread and back, some tens of microseconds.
    pub fn is_little(&self) -> bool {
        const BYTES: usize = 512;
        match self {
            // One text alone is encoded without other threads.
            Task::Encode { texts, .. } => matches!(&texts[..], [text] if text.len() <= BYTES),
            Task::Decode { ids, lengths, .. } => 4 * ids.len() <= BYTES && lengths.len() <= BYTES,
            _ => false,
        }
    }

    /// True for what may take minutes, so that it must keep nothing else waiting.
    pub fn is_long(&self) -> bool {
        matches!(self, Task::Train { .. })
    }

    pub fn run(self, job: &Job<'_>) -> Result<Answer> {
        job.check()?;
        match self {
            Task::Load { path, config } => Held::new(Tokenizer::load(path)?, &config).map(Answer::Tokenizer),
            Task::Parse { json, config } => {
                Held::new(Tokenizer::from_json("tokenizer.json", &json)?, &config).map(Answer::Tokenizer)
            }
            Task::Train { lesson, config } => {
                let tokenizer = lesson.run(job)?;
                job.check()?;
                Held::new(tokenizer, &config).map(Answer::Tokenizer)
            }
            Task::Encode { held, texts, template, fill } => {
                let encoder = match template {
                    Template::Apply => &held.applied,
                    Template::Leave => &held.bare,
                };
                let rows = encoder.encode_ids(&texts, &|| job.is_cancelled())?;
                let Some(fill) = fill else {
                    let ids = rows.concat();
                    return Ok(Answer::Ids(Table { rows: 1, columns: ids.len(), ids }));
                };
                Ok(Answer::Ids(Table::new(&rows, fill)?))
            }
            Task::Decode { held, ids, lengths, special_tokens } => {
                let mut rest = &ids[..];
                let mut texts = Vec::with_capacity(lengths.len());
                for length in lengths {
                    job.check()?;
                    let Some((own, after)) = rest.split_at_checked(length as usize) else {
                        return Err(Error::shape("decode", "the lengths are more than the ids"));
                    };
                    rest = after;
                    texts.push(held.tokenizer.decode(own, special_tokens)?);
                }
                Ok(Answer::Texts(texts))
            }
            Task::Chat { template, messages, variables, reply } => {
                let template = ChatTemplate::new("template", template)?.with_json(&variables)?;
                Ok(Answer::Text(template.render_json(&messages, reply)?))
            }
            Task::Save { held, path } => {
                held.tokenizer.save(path)?;
                Ok(Answer::Nothing)
            }
        }
    }
}

/// What the package writes as JSON is not what is expected here.
fn not_json(op: &str, error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Format, op, error.to_string())
}
