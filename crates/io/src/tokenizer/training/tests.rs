use super::*;
use crate::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Bpe, Algorithm::WordPiece, Algorithm::Unigram, Algorithm::WordLevel];

/// Three pieces' worth of lines.
fn long() -> String {
    (0..12_000).map(|at: usize| format!("lamp{} lantern, {}\n", at * at % 7, at % 11)).collect()
}

#[test]
fn texts_whole_in_lines_and_in_files_give_the_same_vocabulary() {
    let text = long();
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    let (one, two) = text.split_at(text[..text.len() / 2].rfind('\n').unwrap() + 1);
    std::fs::write(&paths[0], one).unwrap();
    std::fs::write(&paths[1], two).unwrap();
    for algorithm in ALGORITHMS {
        let training = Training::new(algorithm, 300);
        let whole = Tokenizer::train([&text], &training).unwrap();
        let files = Tokenizer::train_files(&paths, &training).unwrap();
        assert_eq!(files.to_json(), whole.to_json(), "{algorithm:?}");
        if algorithm == Algorithm::Bpe {
            // A line end and what follows it can be one token.
            continue;
        }
        let lines = Tokenizer::train(text.lines(), &training).unwrap();
        assert_eq!(lines.to_json(), whole.to_json(), "{algorithm:?}");
    }
}

#[test]
fn the_unknown_token_comes_first_unless_it_has_a_place() {
    for algorithm in [Algorithm::WordPiece, Algorithm::Unigram, Algorithm::WordLevel] {
        let mut training = Training::new(algorithm, 60);
        training.special_tokens = vec!["<a>".to_owned(), "<b>".to_owned()];
        training.unknown_token = "<b>".to_owned();
        let given = Tokenizer::train(["one two"], &training).unwrap();
        assert_eq!([given.id("<a>"), given.id("<b>")], [Some(0), Some(1)], "{algorithm:?}");
        assert_eq!(given.encode("京").unwrap().last(), Some(&1), "{algorithm:?}");
        training.unknown_token = "<?>".to_owned();
        let added = Tokenizer::train(["one two"], &training).unwrap();
        assert_eq!([added.id("<?>"), added.id("<a>")], [Some(0), Some(1)], "{algorithm:?}");
        assert_eq!(added.encode("京<b>").unwrap().last(), Some(&2), "{algorithm:?}");
    }
}

#[test]
fn rare_words_and_pairs_are_left_out() {
    let texts = ["common common common rare"];
    for (algorithm, rare, common) in [
        (Algorithm::WordLevel, "rare", "common"),
        (Algorithm::WordPiece, "rare", "common"),
        // A word that occurs once makes no piece, but its characters are some.
        (Algorithm::Unigram, "r", "c"),
    ] {
        let mut training = Training::new(algorithm, 60);
        training.min_frequency = 1;
        assert!(Tokenizer::train(texts, &training).unwrap().id(rare).is_some(), "{algorithm:?}");
        training.min_frequency = 3;
        let tokenizer = Tokenizer::train(texts, &training).unwrap();
        assert_eq!(tokenizer.id(rare), None, "{algorithm:?}");
        assert!(tokenizer.id(common).is_some(), "{algorithm:?}");
    }
}

#[test]
fn a_vocabulary_without_room_is_refused_with_what_is_needed() {
    let refusal = |algorithm, vocab_size| {
        Tokenizer::train(["abc ab"], &Training::new(algorithm, vocab_size)).unwrap_err().to_string()
    };
    for (algorithm, vocab_size, expected) in [
        (Algorithm::WordLevel, 0, "at least 1 are needed for the special tokens"),
        (
            Algorithm::WordPiece,
            5,
            "at least 6 are needed: 5 characters at the beginning and within words and 1",
        ),
        (Algorithm::Unigram, 4, "at least 5 are needed: 4 characters and 1 special tokens"),
        (Algorithm::Bpe, 255, "at least 256 are needed: 256 bytes and 0 special tokens"),
    ] {
        let message = refusal(algorithm, vocab_size);
        assert!(message.contains(expected), "{algorithm:?}: {message}");
    }
    // As many as are needed do.
    for (algorithm, vocab_size) in [(Algorithm::WordPiece, 6), (Algorithm::Unigram, 5)] {
        let tokenizer = Tokenizer::train(["abc ab"], &Training::new(algorithm, vocab_size)).unwrap();
        assert_eq!(tokenizer.vocab_size(), vocab_size);
    }
}

#[test]
fn a_vocabulary_beyond_what_the_texts_give_takes_no_memory() {
    for algorithm in ALGORITHMS {
        let text = "a lamp and a lantern, and lamps";
        let found = Tokenizer::train([text], &Training::new(algorithm, u32::MAX as usize)).unwrap();
        let right = Tokenizer::train([text], &Training::new(algorithm, 50_000)).unwrap();
        assert_eq!(found.to_json(), right.to_json(), "{algorithm:?}");
    }
}

#[test]
fn texts_without_a_word_give_the_special_tokens_alone() {
    for algorithm in [Algorithm::WordPiece, Algorithm::Unigram, Algorithm::WordLevel] {
        for texts in [&[][..], &[""], &[" \n"]] {
            let tokenizer = Tokenizer::train(texts, &Training::new(algorithm, 9)).unwrap();
            assert!(tokenizer.vocab_size() <= 2, "{algorithm:?}");
            tokenizer.encode("anything at all").unwrap();
        }
    }
}

#[test]
fn progress_is_told_and_asked() {
    let text = long();
    for algorithm in ALGORITHMS {
        let told = Mutex::new(Vec::new());
        let report = |progress: Progress| {
            told.lock().unwrap().push(progress);
            ControlFlow::Continue(())
        };
        let training = Training { report: Some(&report), ..Training::new(algorithm, 300) };
        Tokenizer::train([&text], &training).unwrap();
        let told = told.lock().unwrap();
        assert!(told.len() > 4, "{told:?}");
        assert!(told.contains(&Progress::Reading { bytes: text.len() as u64 }), "{told:?}");
        assert!(matches!(told.last(), Some(Progress::Learning { words }) if *words > 10), "{told:?}");

        // Told after each line, and not after each text.
        let told = AtomicUsize::new(0);
        let report = |_: Progress| {
            told.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        for (every, expected) in [(1, 12_000..=12_002), (u64::MAX, 2..=2)] {
            let training =
                Training { report: Some(&report), report_every: every, ..Training::new(algorithm, 300) };
            Tokenizer::train(text.lines(), &training).unwrap();
            assert!(expected.contains(&told.swap(0, Ordering::Relaxed)), "{algorithm:?} every {every} bytes");
        }

        for stage in [0, 1] {
            let is_over = AtomicBool::new(false);
            let report = |progress: Progress| {
                assert!(!is_over.load(Ordering::Relaxed) || stage == 0, "told after it was over");
                let stop = stage == 0 || matches!(progress, Progress::Learning { .. });
                is_over.store(stop, Ordering::Relaxed);
                if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let training = Training { report: Some(&report), ..Training::new(algorithm, 300) };
            let error = Tokenizer::train([&text], &training).unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::Cancelled, "tokenizer: cancelled")
            );
        }
    }
}

#[test]
fn a_file_that_is_missing_or_no_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("book.txt");
    let training = Training::new(Algorithm::Bpe, 300);
    let refusal = || Tokenizer::train_files([&path], &training).unwrap_err().to_string();
    assert!(refusal().contains("book.txt: No such file"), "{}", refusal());
    std::fs::write(&path, b"caf\xE9").unwrap();
    assert!(refusal().contains("byte 3 (0xE9) is not UTF-8"), "{}", refusal());
}

/// As a word it would take minutes: the time is that of its length squared.
#[test]
fn a_word_without_end_is_learnt_from_in_parts() {
    let text = format!("{} {}", "a".repeat(300_000), "lamp lantern lamp ".repeat(3));
    for algorithm in ALGORITHMS {
        let tokenizer = Tokenizer::train([&text], &Training::new(algorithm, 290)).unwrap();
        let longest = (0..tokenizer.vocab_size() as u32)
            .filter_map(|id| tokenizer.token(id))
            .map(|token| token.len())
            .max();
        match algorithm {
            Algorithm::WordLevel => assert_eq!(longest, Some(300_000)),
            _ => assert!(
                longest.is_some_and(|longest| (4..=256).contains(&longest)),
                "{algorithm:?} {longest:?}"
            ),
        }
    }
}
