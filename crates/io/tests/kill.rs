//! A process that is killed while it saves a checkpoint leaves the old one or the new one.
#![cfg(unix)]

use lanthorn_io::{Checkpoint, OwnedTensor};
use serde_json::json;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Where the child saves; also what tells it that it is the child.
const PATH: &str = "LANTHORN_TEST_SAVE_TO";

const KILLS: usize = 200;

/// A checkpoint whose every part says which one it is.
fn generation(number: u64) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    for name in ["model", "progress", "sampler"] {
        checkpoint.documents.insert(name.to_owned(), json!({ "generation": number }));
    }
    for (at, name) in ["params/weight", "params/bias", "optim/first", "optim/second"].into_iter().enumerate()
    {
        let elements = vec![number as f32; 10_000 * (at + 1)];
        checkpoint.tensors.insert(name.to_owned(), OwnedTensor::from_f32(vec![elements.len()], &elements));
    }
    checkpoint
}

/// The number of the one checkpoint that the file holds from end to end.
fn whole(path: &Path) -> u64 {
    let found = Checkpoint::load(path).unwrap();
    let number = found.document("model").unwrap()["generation"].as_u64().unwrap();
    assert!(found == generation(number), "parts of several checkpoints");
    number
}

/// Not a test of its own: what the children of the test below do.
#[test]
#[ignore = "runs until it is killed"]
fn save_for_ever() {
    let Some(path) = std::env::var_os(PATH) else { return };
    // Numbers go on where the killed process stopped.
    for number in whole(Path::new(&path)) + 1.. {
        generation(number).save(&path).unwrap();
        println!("saved {number}");
    }
}

/// A child that has saved once.
fn child(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "save_for_ever", "--ignored", "--nocapture"])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("saved") {}
    // The pipe is read on, so that the child never waits for it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn a_killed_process_leaves_the_old_checkpoint_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    generation(0).save(&path).unwrap();
    let (mut last, mut amidst) = (0, 0);
    let mut random = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    for kill in 0..KILLS {
        let mut child = child(&path);
        // Knuth's linear congruence; the upper bits are the random ones.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let wait = Duration::from_micros((random >> 33) % 8_000);
        let begin = Instant::now();
        while begin.elapsed() < wait {
            std::thread::sleep(Duration::from_micros(100));
        }
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let number = whole(&path);
        assert!(number > last, "kill {kill}: generation {number} after {last}");
        last = number;
        let names: Vec<OsString> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.len() <= 2, "abandoned files pile up: {names:?}");
        amidst += usize::from(names.len() == 2);
    }
    // Otherwise the kills have hit nothing.
    assert!(amidst > KILLS / 20, "only {amidst} of {KILLS} were amidst a save");
    generation(last + 1).save(&path).unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "the next save removes what is abandoned"
    );
}
