//! Finds, for each text, the other one that says nearly the same.
//!
//!     cargo run --release --package lanthorn --example embeddings -- FOLDER TEXT TEXT ...
//!
//! FOLDER is one of sentence-transformers; `benches/peers/models.sh` fetches a small one, all-MiniLM-L6-v2. Without texts
//! it takes a few of its own.

use lanthorn::llm::{Pretrained, embed::cosine_similarity};
use lanthorn::prelude::*;
use lanthorn::{CancelToken, ErrorKind};

const TEXTS: [&str; 6] = [
    "A man is eating food.",
    "The girl carries a baby.",
    "Someone has a meal.",
    "A monkey plays drums.",
    "A child is held by a young woman.",
    "An ape makes music.",
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        return Err(Error::new(ErrorKind::Io, "embeddings", "expected a folder, then texts"));
    };
    let mut texts: Vec<String> = arguments.collect();
    if texts.is_empty() {
        texts = TEXTS.map(str::to_owned).to_vec();
    }
    for (text, nearest) in texts.iter().zip(nearest(&folder, &texts)?) {
        match nearest {
            Some((other, cosine)) => println!("{cosine:.3}  {text}  ~  {}", texts[other]),
            None => println!("alone  {text}"),
        }
    }
    Ok(())
}

/// For each text the number of the other one whose vector is nearest, and the cosine between them.
fn nearest(folder: &str, texts: &[String]) -> Result<Vec<Option<(usize, f64)>>> {
    let embedder = Pretrained::open(folder)?.embedder(&Device::cpu())?;
    let vectors = embedder.embed(texts, &CancelToken::never())?;
    let of = |at: usize| {
        let others = vectors.iter().enumerate().filter(|(other, _)| *other != at);
        let cosines = others.map(|(other, vector)| (other, cosine_similarity(&vectors[at], vector)));
        cosines.max_by(|(_, a), (_, b)| a.total_cmp(b))
    };
    Ok((0..vectors.len()).map(of).collect())
}

#[test]
fn the_same_text_is_nearest() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../llm/fixtures/bert/small");
    let texts = ["one lamp in the dark", "a book", "one lamp in the dark"].map(str::to_owned);
    let found = nearest(folder, &texts).unwrap();
    let (other, cosine) = found[0].unwrap();
    assert_eq!(other, 2);
    assert!(cosine > 0.99999, "{cosine}");
    assert!(found[1].unwrap().1 < 0.99999);
    assert_eq!(nearest(folder, &texts[..1]).unwrap(), [None]);
}
