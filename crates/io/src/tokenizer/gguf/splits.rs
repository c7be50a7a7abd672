//! How a text is split into words before tokens are merged: what `tokenizer.ggml.pre` of a GGUF file names.
//!
//! The regular expressions are data, not code: each belongs to the vocabulary that was trained with it. They are those of
//! the models' own `tokenizer.json`, as llama.cpp lists them (`llm_tokenizer_bpe` of `src/llama-vocab.cpp`), which for a
//! part uses others that its own engine can run. Several are applied one after the other, each to the pieces that the
//! one before has left; what matches is a piece, and so is what lies between.

use tokenizers::Result;
use tokenizers::SplitDelimiterBehavior::Isolated;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

/// A way to split, and what else its name implies.
pub(in crate::tokenizer) struct Splits {
    /// The values of `tokenizer.ggml.pre` that mean it.
    names: &'static [&'static str],
    patterns: &'static [&'static str],
    /// Whether a word that is a token is taken whole, without a merge that leads to it.
    pub takes_whole_words: bool,
    /// Whether a text begins with the begin token where the file does not say.
    pub adds_begin: bool,
}

/// Radford et al. 2019: `encoder.py` of GPT-2.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Llama 3, from tiktoken's `cl100k_base`: numbers in groups of three.
const LLAMA_3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Qwen 2: the same with single digits.
const QWEN_2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Qwen 3.5: the same with marks as parts of words.
const QWEN_3_5: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Mistral's Tekken: a word ends where a capital follows a small letter.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|",
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// tiktoken's `o200k_base`.
const GPT_4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// DeepSeek Coder's rule for words, which stands among others.
const DEEPSEEK_CODER: &str = r"\s?\p{L}+";

/// DeepSeek 3's, behind rules for numbers and for Chinese and Japanese.
const DEEPSEEK_V3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"##,
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const ALL: [Splits; 11] = [
    Splits {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
        takes_whole_words: false,
        adds_begin: false,
    },
    Splits {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
        ],
        patterns: &[GPT_2],
        takes_whole_words: false,
        adds_begin: false,
    },
    Splits {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        patterns: &[r"\p{N}", GPT_2],
        takes_whole_words: false,
        adds_begin: false,
    },
    Splits {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        patterns: &[LLAMA_3],
        takes_whole_words: true,
        adds_begin: true,
    },
    Splits {
        names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"],
        patterns: &[LLAMA_3],
        takes_whole_words: false,
        adds_begin: false,
    },
    Splits {
        names: &["qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
        patterns: &[QWEN_2],
        takes_whole_words: false,
        adds_begin: false,
    },
    Splits { names: &["qwen35"], patterns: &[QWEN_3_5], takes_whole_words: false, adds_begin: false },
    Splits { names: &["tekken"], patterns: &[TEKKEN], takes_whole_words: true, adds_begin: true },
    Splits {
        names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"],
        patterns: &[GPT_4O],
        takes_whole_words: false,
        adds_begin: false,
    },
    Splits {
        names: &["deepseek-coder"],
        patterns: &[r"[\r\n]", DEEPSEEK_CODER, r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
        takes_whole_words: false,
        adds_begin: false,
    },
    Splits {
        names: &["deepseek-v3", "hunyuan-dense"],
        patterns: &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3],
        takes_whole_words: false,
        adds_begin: false,
    },
];

impl Splits {
    /// The way of that name.
    pub fn named(name: &str) -> Option<&'static Splits> {
        ALL.iter().find(|splits| splits.names.contains(&name))
    }

    /// Whether a regular expression parts words at blanks and line ends, or numbers, marks and signs alone; `None` for one
    /// that is not among these.
    pub fn parts_words(pattern: &str) -> Option<bool> {
        const WORDS: [&str; 8] =
            [GPT_2, LLAMA_3, QWEN_2, QWEN_3_5, TEKKEN, GPT_4O, DEEPSEEK_V3, DEEPSEEK_CODER];
        if WORDS.contains(&pattern) {
            return Some(true);
        }
        ALL.iter().any(|splits| splits.patterns.contains(&pattern)).then_some(false)
    }

    /// The regular expressions of each way, under one of its names.
    #[cfg(test)]
    pub fn patterns() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
        ALL.iter().map(|splits| (splits.names[0], splits.patterns))
    }

    /// One name of each way, for a message.
    pub fn known() -> String {
        ALL.map(|splits| splits.names[0]).join(", ")
    }

    /// Splits, and turns bytes into the characters that stand for them.
    pub fn pre_tokenizer(&self) -> Result<PreTokenizerWrapper> {
        // The library has GPT-2's expression built in; the texts that it splits may be cut where lines end.
        if self.patterns == [GPT_2] {
            return Ok(ByteLevel::new(false, true, true).into());
        }
        let mut steps = Vec::with_capacity(self.patterns.len() + 1);
        for pattern in self.patterns {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            steps.push(PreTokenizerWrapper::from(Split::new(pattern, Isolated, false)?));
        }
        steps.push(ByteLevel::new(false, true, false).into());
        Ok(Sequence::new(steps).into())
    }
}
