//! Texts to ids alone, many at a time, and lists of ids to one table.

use super::cuts::{Cuts, PIECE};
use super::policy::{Side, Template};
use super::words::{self, Stop};
use super::{Encoder, library};
use crate::{Error, Result};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use tokenizers::{OffsetType, PostProcessor, PostProcessorWrapper};

/// More ids than fit into memory are no table.
const MOST_IDS: usize = 1 << 31;

impl Encoder {
    /// The ids of texts, by all threads: what [`Encoder::encode`] gives for each text, without what is known of the tokens,
    /// so that long texts take little memory. Nothing is filled up; [`Table`] does that.
    ///
    /// `is_cancelled` is asked from any thread before each text, and within long ones.
    ///
    /// # Errors
    ///
    /// As [`Encoder::encode`]; `cancelled`.
    ///
    /// ```
    /// use lanthorn_io::tokenizer::{Algorithm, Fill, Policy, Table, Tokenizer, Training};
    /// let tokenizer = Tokenizer::train(["one two three"], &Training::new(Algorithm::WordLevel, 9)).unwrap();
    /// let encoder = tokenizer.encoder(&Policy::default()).unwrap();
    /// let rows = encoder.encode_ids(&["three two", "one"], &|| false).unwrap();
    /// let table = Table::new(&rows, Fill::Longest { id: 0 }).unwrap();
    /// assert_eq!((table.ids, table.columns), (vec![2, 3, 1, 0], 2));
    /// ```
    pub fn encode_ids<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Vec<u32>>> {
        match texts {
            // A text alone does not wait for threads that may have other work.
            [text] => Ok(vec![self.ids_of(text.as_ref(), is_cancelled)?]),
            _ => texts.par_iter().map(|text| self.ids_of(text.as_ref(), is_cancelled)).collect(),
        }
    }

    /// The ids of one text, cut and with what is put around it.
    pub(super) fn ids_of(&self, text: &str, stop: Stop<'_>) -> Result<Vec<u32>> {
        let mut ids = of_words(&self.bare, self.cuts, text, stop)?;
        if let Some(truncation) = &self.policy().truncation {
            let most = truncation.max_length.saturating_sub(self.around(1));
            let (kept, _) = truncation.lengths(ids.len(), None, most)?;
            match truncation.side {
                Side::Right => ids.truncate(kept),
                Side::Left => drop(ids.drain(..ids.len() - kept)),
            }
        }
        match &self.processor {
            Some(processor) => put_around(processor, ids, self.policy().template),
            None => Ok(ids),
        }
    }
}

/// The ids of a text alone, read in pieces where it may be cut.
pub(super) fn of_words(
    tokenizer: &tokenizers::Tokenizer,
    cuts: Cuts,
    text: &str,
    stop: Stop<'_>,
) -> Result<Vec<u32>> {
    let read = |text: &str| -> Result<Vec<u32>> {
        let encoding = words::encode(tokenizer, text, OffsetType::None, stop)?;
        Ok(encoding.get_ids().to_vec())
    };
    if text.len() <= PIECE {
        return read(text);
    }
    let pieces: Vec<&str> = cuts.pieces(text).collect();
    let encoded: Vec<Vec<u32>> = pieces.par_iter().map(|piece| read(piece)).collect::<Result<_>>()?;
    Ok(encoded.concat())
}

/// Ids with what is put around them, which depends on nothing but them.
pub(super) fn put_around(
    processor: &PostProcessorWrapper,
    ids: Vec<u32>,
    template: Template,
) -> Result<Vec<u32>> {
    let tokens = ids.len();
    let encoding = tokenizers::Encoding::new(
        ids,
        vec![0; tokens],
        vec![String::new(); tokens],
        vec![None; tokens],
        vec![(0, 0); tokens],
        vec![0; tokens],
        vec![1; tokens],
        Vec::new(),
        Default::default(),
    );
    let processed = library::call(|| processor.process(encoding, None, template == Template::Apply));
    Ok(processed.map_err(words::unreadable)?.get_ids().to_vec())
}

/// To what length the rows of a [`Table`] are filled up, at the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Rows are equally long as they are.
    Nothing,
    /// The longest row's.
    Longest {
        /// What they are filled with. It need not be in the vocabulary: a loss may leave such places out.
        id: u32,
    },
    /// So many ids.
    Length {
        /// How many.
        length: usize,
        /// What they are filled with.
        id: u32,
    },
}

/// Lists of ids as rows of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// One row after the other: `[rows, columns]`.
    pub ids: Vec<u32>,
    /// How many rows there are.
    pub rows: usize,
    /// How long each is.
    pub columns: usize,
}

impl Table {
    /// The table of these rows.
    ///
    /// # Errors
    ///
    /// `format`: there are no rows; they differ in length and are not to be filled up; one is longer than what they are to
    /// be filled up to; the table would have more than 2^31 ids.
    pub fn new(rows: &[Vec<u32>], fill: Fill) -> Result<Table> {
        let refuse = |found: String, expected: &str| Err(Error::format("batch", found, expected));
        let Some(longest) = rows.iter().map(Vec::len).max() else {
            return refuse("it has no texts".to_owned(), "at least one would be right");
        };
        let (columns, id) = match fill {
            Fill::Nothing => (longest, 0),
            Fill::Longest { id } => (longest, id),
            Fill::Length { length, id } => (length, id),
        };
        let unfit = rows.iter().enumerate().find(|(_, row)| match fill {
            Fill::Nothing => row.len() != columns,
            _ => row.len() > columns,
        });
        match (unfit, fill) {
            (Some((at, row)), Fill::Nothing) => {
                let found = format!("text {at} has {} tokens and another {columns}", row.len());
                return refuse(found, "padding makes them equally long");
            }
            (Some((at, row)), _) => {
                let found =
                    format!("text {at} has {} tokens, and texts are to be filled up to {columns}", row.len());
                return refuse(found, "truncation to that length makes it fit");
            }
            (None, _) => {}
        }
        if columns.checked_mul(rows.len()).is_none_or(|ids| ids > MOST_IDS) {
            let found = format!("{} texts are to be filled up to {columns} tokens", rows.len());
            return refuse(found, "2^31 ids in all are possible");
        }
        let mut ids = Vec::with_capacity(rows.len() * columns);
        for row in rows {
            ids.extend_from_slice(row);
            ids.resize(ids.len() + columns - row.len(), id);
        }
        Ok(Table { ids, rows: rows.len(), columns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::tokenizer::{Algorithm, InText, Policy, SpecialTokens, Tokenizer, Training, Truncation};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const BERT: &str = include_str!("../../fixtures/tokenizers/tokenizer.json");

    fn encoder(policy: Policy) -> Encoder {
        Tokenizer::from_json("tokenizer.json", BERT).unwrap().encoder(&policy).unwrap()
    }

    #[test]
    fn ids_are_those_of_whole_encodings() {
        let texts = ["The brave men, living and dead", "", "nation", "naïve [SEP] Füße 東京 🏮!"];
        for side in [Side::Left, Side::Right] {
            for max_length in [3, 5, 300] {
                let truncation = Some(Truncation { side, ..Truncation::new(max_length) });
                let applied = encoder(Policy { truncation, ..Policy::default() });
                for encoder in [applied.with_template(Template::Leave).unwrap(), applied] {
                    let whole = encoder.encode_batch(texts).unwrap();
                    let whole: Vec<Vec<u32>> = whole.into_iter().map(|encoding| encoding.ids).collect();
                    assert_eq!(encoder.encode_ids(&texts, &|| false).unwrap(), whole, "{encoder:?}");
                }
            }
        }
        let least =
            Policy { truncation: Some(Truncation::new(1)), template: Template::Leave, ..Policy::default() };
        assert!(encoder(least).with_template(Template::Apply).is_err(), "no room for the template");
    }

    #[test]
    fn a_long_text_is_encoded_in_pieces_as_by_the_tokenizer() {
        let text = "the lamp, the lanterns\n".repeat(20_000);
        let tokenizer = Tokenizer::train_bpe([&*text], 300, &["<|end|>"]).unwrap();
        let encoder = tokenizer.encoder(&Policy::default()).unwrap();
        assert_ne!(encoder.cuts, Cuts::Nowhere);
        let expected = tokenizer.inner.encode_fast(&*text, false).unwrap();
        assert!(encoder.encode_ids(&[&text], &|| false).unwrap()[0] == expected.get_ids());

        let asked = AtomicUsize::new(0);
        let cancelled = encoder.encode_ids(&[&text], &|| asked.fetch_add(1, Ordering::Relaxed) > 2);
        assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(asked.into_inner() > 2);
    }

    #[test]
    fn no_model_finds_a_special_token_in_ordinary_text() {
        let ordinary = Policy { in_text: InText::Ordinary, ..Policy::default() };
        for algorithm in [Algorithm::Bpe, Algorithm::WordPiece, Algorithm::Unigram, Algorithm::WordLevel] {
            let mut training = Training::new(algorithm, 300);
            // A word, so that no splitting at punctuation takes it apart, and what no splitting takes apart.
            training.special_tokens = ["stop", "<end>", "§"].map(str::to_owned).into();
            let tokenizer =
                Tokenizer::train(["to be or not to be, that is the question <e>"], &training).unwrap();
            let special: Vec<u32> =
                training.special_tokens.iter().map(|name| tokenizer.id(name).unwrap()).collect();
            for text in ["stop", "to stop be", "to <end> be", "<end>", "§", "be§"] {
                if algorithm == Algorithm::Bpe && text.contains('§') {
                    continue; // stands for a byte of its own encoding
                }
                let found =
                    tokenizer.encoder(&Policy::default()).unwrap().encode_ids(&[text], &|| false).unwrap();
                assert!(found[0].iter().any(|id| special.contains(id)), "{algorithm:?} {text}: {found:?}");
                let encoder = tokenizer.encoder(&ordinary).unwrap();
                let found = encoder.encode_ids(&[text], &|| false).unwrap();
                assert!(!found[0].iter().any(|id| special.contains(id)), "{algorithm:?} {text}: {found:?}");
                if algorithm == Algorithm::Bpe {
                    assert_eq!(tokenizer.decode(&found[0], SpecialTokens::Skip).unwrap(), text);
                }
            }
            // All others are found as ever.
            let [same, ids] = [&Policy::default(), &ordinary].map(|policy| {
                tokenizer.encoder(policy).unwrap().encode_ids(&["to be, the question"], &|| false)
            });
            assert_eq!(same.unwrap(), ids.unwrap(), "{algorithm:?}");
        }
    }

    #[test]
    fn a_model_that_takes_words_whole_takes_no_special_token() {
        let json = r#"{"version": "1.0", "added_tokens": [{"id": 2, "content": "stop", "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false, "special": true}], "model": {"type": "BPE",
            "ignore_merges": true, "unk_token": "?", "vocab": {"?": 0, "s": 1, "stop": 2}, "merges": []}}"#;
        let tokenizer = Tokenizer::from_json("small", json).unwrap();
        let ids = |in_text| {
            let encoder = tokenizer.encoder(&Policy { in_text, ..Policy::default() }).unwrap();
            encoder.encode_ids(&["stop"], &|| false).unwrap().concat()
        };
        assert_eq!(ids(InText::Special), [2]);
        assert_eq!(ids(InText::Ordinary), [1, 0, 0, 0]);

        // One that a merge gives stays: the file says so.
        let merged = json
            .replace(r#""stop": 2}, "merges": []"#, r#""stop": 2, "sto": 3, "p": 4}, "merges": ["sto p"]"#);
        let tokenizer = Tokenizer::from_json("small", &merged).unwrap();
        let ordinary = Policy { in_text: InText::Ordinary, ..Policy::default() };
        assert_eq!(tokenizer.encoder(&ordinary).unwrap().encode_ids(&["stop"], &|| false).unwrap(), [[2]]);
    }

    #[test]
    fn a_table_is_filled_up_or_refused() {
        let rows = [vec![1, 2, 3], vec![], vec![4]];
        let table = |fill| Table::new(&rows, fill);
        let long = table(Fill::Longest { id: u32::MAX }).unwrap();
        assert_eq!(long.ids, [1, 2, 3, u32::MAX, u32::MAX, u32::MAX, 4, u32::MAX, u32::MAX]);
        let longer = table(Fill::Length { length: 4, id: 9 }).unwrap();
        assert_eq!((longer.rows, longer.columns, &longer.ids[..4]), (3, 4, &[1, 2, 3, 9][..]));
        let equal = Table::new(&rows[1..2], Fill::Nothing).unwrap();
        assert_eq!((equal.rows, equal.columns, equal.ids), (1, 0, vec![]));

        let refusal = |table: Result<Table>| table.unwrap_err().to_string();
        assert!(refusal(table(Fill::Nothing)).contains("text 1 has 0 tokens and another 3"));
        assert!(refusal(table(Fill::Length { length: 2, id: 0 })).contains("text 0 has 3 tokens"));
        assert!(refusal(table(Fill::Length { length: usize::MAX, id: 0 })).contains("2^31 ids"));
        assert!(refusal(Table::new(&[], Fill::Nothing)).contains("no texts"));
    }
}
