//! The four models, each with the splitting that belongs to it.

use super::words::Words;
use super::{Algorithm, Training};
use crate::error::shorten;
use crate::{Error, Result};
use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::bert::BertNormalizer;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::unicode::{NFKC, Nmt};
use tokenizers::normalizers::utils::Sequence;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::Metaspace;
use tokenizers::pre_tokenizers::whitespace::Whitespace;
use tokenizers::{AddedToken, decoders};

/// What a token within a word begins with, in WordPiece.
const WITHIN_WORD: &str = "##";

type Counted = [(String, u64)];

/// A tokenizer with everything but a vocabulary.
pub(super) fn untrained(algorithm: Algorithm) -> Result<tokenizers::Tokenizer, tokenizers::Error> {
    // The model stands for the vocabulary to come.
    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    match algorithm {
        Algorithm::Bpe => {
            // Offsets in the text are not used, so there is nothing to post-process.
            let level = ByteLevel::new(false, true, true);
            tokenizer.with_pre_tokenizer(Some(level)).with_decoder(Some(level));
        }
        Algorithm::WordPiece => {
            tokenizer
                .with_normalizer(Some(BertNormalizer::default()))?
                .with_pre_tokenizer(Some(BertPreTokenizer))
                .with_decoder(Some(decoders::wordpiece::WordPiece::default()));
        }
        Algorithm::Unigram => {
            let blanks = Replace::new(ReplacePattern::Regex(" {2,}".to_owned()), " ")?;
            let normalizer = Sequence::new(vec![Nmt.into(), NFKC.into(), blanks.into()]);
            tokenizer
                .with_normalizer(Some(normalizer))?
                .with_pre_tokenizer(Some(Metaspace::default()))
                .with_decoder(Some(Metaspace::default()));
        }
        Algorithm::WordLevel => {
            tokenizer.with_pre_tokenizer(Some(Whitespace));
        }
    }
    Ok(tokenizer)
}

/// The vocabulary that the words give. `special_tokens` come first.
pub(super) fn model(
    training: &Training<'_>,
    special_tokens: &[String],
    words: Words,
) -> Result<ModelWrapper> {
    let words = words.sorted();
    let learnt = match training.algorithm {
        Algorithm::Bpe => {
            let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
            alphabet.sort_unstable();
            let first = special_tokens.iter().cloned().chain(alphabet.into_iter().map(String::from));
            merges(training, first.collect(), None, &words).map(ModelWrapper::BPE)
        }
        Algorithm::WordPiece => word_piece(training, special_tokens, &words)?,
        Algorithm::Unigram => unigram(training, special_tokens, words)?,
        Algorithm::WordLevel => word_level(training, special_tokens, words),
    };
    learnt.map_err(|error| {
        let found = shorten(&error.to_string());
        Error::format("tokenizer", found, "the texts could not be trained on")
    })
}

/// Merges the most frequent pairs. `first` are the tokens with the first ids, in their order.
fn merges(
    training: &Training<'_>,
    first: Vec<String>,
    within_word: Option<&str>,
    words: &Counted,
) -> Result<BPE, tokenizers::Error> {
    // Each merge shortens a word, and a character has a token at the beginning of a word and one within. The library takes
    // memory for as many tokens as it is asked for.
    let letters: usize = words.iter().map(|(word, _)| word.chars().count()).sum();
    let most = first.len().saturating_add(letters.saturating_mul(3));
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(training.vocab_size.min(most))
        .min_frequency(training.min_frequency)
        .special_tokens(first.into_iter().map(|token| AddedToken::from(token, true)).collect());
    if let Some(prefix) = within_word {
        trainer = trainer.continuing_subword_prefix(prefix.to_owned());
    }
    let mut bpe = BPE::default();
    let counts = words.iter().map(|(word, count)| (word.as_str().into(), *count)).collect();
    trainer.build().do_train(&counts, &mut bpe)?;
    Ok(bpe)
}

/// The library gives the `##` tokens of single characters ids in the order of a hash map, and by ids it breaks ties
/// between pairs. So they are given to it in an order.
fn word_piece(
    training: &Training<'_>,
    special_tokens: &[String],
    words: &Counted,
) -> Result<Result<ModelWrapper, tokenizers::Error>> {
    let characters: BTreeSet<char> = words.iter().flat_map(|(word, _)| word.chars()).collect();
    let within: BTreeSet<char> = words.iter().flat_map(|(word, _)| word.chars().skip(1)).collect();
    let alphabet = characters.len() + within.len();
    training.check_size(alphabet, "characters at the beginning and within words", special_tokens.len())?;
    let characters = characters.into_iter().map(String::from);
    let within = within.into_iter().map(|character| format!("{WITHIN_WORD}{character}"));
    let first = special_tokens.iter().cloned().chain(characters).chain(within).collect();
    Ok(merges(training, first, Some(WITHIN_WORD), words).map(|bpe| {
        let mut model = WordPiece::from_bpe(&bpe);
        model.unk_token = training.unknown_token.clone();
        ModelWrapper::WordPiece(model)
    }))
}

/// The most frequent words; of equal ones those whose characters come first.
fn word_level(
    training: &Training<'_>,
    special_tokens: &[String],
    mut words: Vec<(String, u64)>,
) -> Result<ModelWrapper, tokenizers::Error> {
    words.retain(|(word, count)| *count >= training.min_frequency && !special_tokens.contains(word));
    words.sort_by(|(word, count), (other, times)| times.cmp(count).then_with(|| word.cmp(other)));
    let tokens = special_tokens.iter().cloned().chain(words.into_iter().map(|(word, _)| word));
    let vocabulary = (0..).zip(tokens.take(training.vocab_size)).map(|(id, token)| (token, id)).collect();
    let model = WordLevel::builder().vocab(vocabulary).unk_token(training.unknown_token.clone()).build()?;
    Ok(ModelWrapper::WordLevel(model))
}

fn unigram(
    training: &Training<'_>,
    special_tokens: &[String],
    mut words: Vec<(String, u64)>,
) -> Result<Result<ModelWrapper, tokenizers::Error>> {
    words.retain(|(_, count)| *count >= training.min_frequency);
    let characters: HashSet<char> = words.iter().flat_map(|(word, _)| word.chars()).collect();
    training.check_size(characters.len(), "characters", special_tokens.len())?;
    let pieces = match words.is_empty() {
        true => Vec::new(),
        false => learn_pieces(training, special_tokens, words)?,
    };
    let pieces = in_order(pieces, training.vocab_size - special_tokens.len());
    let unknown = special_tokens.iter().position(|token| *token == training.unknown_token);
    let special = special_tokens.iter().map(|token| (token.clone(), 0.0));
    Ok(Unigram::from(special.chain(pieces).collect(), unknown, false).map(ModelWrapper::Unigram))
}

/// Pieces and the logarithms of their probabilities, the special tokens left out. On one thread: sums that are cut
/// otherwise round otherwise, and a piece more or less would follow from it.
fn learn_pieces(
    training: &Training<'_>,
    special_tokens: &[String],
    words: Vec<(String, u64)>,
) -> Result<Vec<(String, f64)>> {
    /// Pieces with which the library begins at most, besides characters.
    const SEED: usize = 1_000_000;
    let expected = "the texts could not be trained on";
    // With more than there are at the beginning nothing is given up. The library takes memory for as many as it is asked for.
    let letters: usize = words.iter().map(|(word, _)| word.chars().count()).sum();
    let most = special_tokens.len().saturating_add(letters).saturating_add(SEED);
    let trainer = UnigramTrainer::builder()
        .show_progress(false)
        .seed_size(SEED)
        .vocab_size(training.vocab_size.min(most) as u32)
        .special_tokens(special_tokens.iter().map(|token| AddedToken::from(token.as_str(), true)).collect())
        .unk_token(Some(training.unknown_token.clone()))
        .build()
        .map_err(|error| Error::format("tokenizer", error.to_string(), expected))?;
    // Both fit: see `Words::sorted`.
    let words = words.into_iter().map(|(word, count)| (word, count as u32)).collect();
    let mut model = Unigram::default();
    let learn = || trainer.do_train(words, &mut model).map(|_| ());
    // The library unwraps and asserts where a vocabulary degenerates.
    let learnt = catch_unwind(AssertUnwindSafe(|| on_one_thread(learn)));
    match learnt {
        Ok(Ok(())) => Ok(model.iter().skip(special_tokens.len()).cloned().collect()),
        Ok(Err(error)) => Err(Error::format("tokenizer", shorten(&error.to_string()), expected)),
        Err(_) => Err(Error::format("tokenizer", "the vocabulary degenerated", expected)),
    }
}

fn on_one_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(work),
        // Where there are no threads there is one.
        Err(_) => work(),
    }
}

/// At most `most` pieces, most probable first. Pieces of equal probability come in the order of their characters. The
/// characters that training had dropped were put back with the least probability and a little more each, in the order
/// of a hash set; they take those in the order of their own.
fn in_order(mut pieces: Vec<(String, f64)>, most: usize) -> Vec<(String, f64)> {
    const STEP: f64 = 0.0001;
    let is_character = |piece: &str| piece.chars().nth(1).is_none();
    let least = pieces.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
    // As the library sums them up.
    let mut put_back = vec![least];
    let mut penalty = 0.0;
    for _ in 1..pieces.len() {
        penalty += STEP;
        put_back.push(least + penalty);
    }
    let mut dropped: Vec<usize> = (0..pieces.len())
        .filter(|at| {
            let (piece, score) = &pieces[*at];
            is_character(piece) && put_back.binary_search_by(|known| known.total_cmp(score)).is_ok()
        })
        .collect();
    let mut scores: Vec<f64> = dropped.iter().map(|at| pieces[*at].1).collect();
    scores.sort_by(f64::total_cmp);
    dropped.sort_by(|one, other| pieces[*one].0.cmp(&pieces[*other].0));
    for (at, score) in dropped.into_iter().zip(scores) {
        pieces[at].1 = score;
    }

    pieces.sort_by(|(piece, score), (other, than)| than.total_cmp(score).then_with(|| piece.cmp(other)));
    // The library counts past the size where the characters alone reach it.
    let mut surplus = pieces.len().saturating_sub(most);
    let mut at = pieces.len();
    while surplus > 0 && at > 0 {
        at -= 1;
        if !is_character(&pieces[at].0) {
            pieces.remove(at);
            surplus -= 1;
        }
    }
    pieces
}
