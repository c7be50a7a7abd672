//! Runs of `train` that end in other ways than they should: nothing that was trained is lost.

use super::*;

fn steps_of(checkpoint: &Path) -> u64 {
    let listing = succeeded(&lanthorn(&["inspect", &show(checkpoint)]));
    let trainer = listing.lines().find(|line| line.starts_with("trainer: ")).unwrap();
    let at = trainer.rfind("\"step\":").unwrap();
    let digits = trainer[at + 7..].chars().take_while(char::is_ascii_digit).collect::<String>();
    digits.parse().unwrap()
}

#[test]
fn an_update_that_is_not_finite_is_no_step() {
    let place = Place::new();
    let train = |more: &[&str]| place.train("out", &[TINY, &["--steps", "1"], more].concat());
    failed(&train(&["--lr", "1e60"]), &["a learning rate is 1e60, which is infinite in f32"]);
    failed(&train(&["--lr", "3e38", "--weight-decay", "1e9"]), &["step 1: the update is not finite"]);
    // Neither is there a run nor a folder.
    assert!(!place.path("out").exists());
}

#[test]
fn a_first_step_that_fails_does_not_replace_a_run() {
    let place = Place::new();
    let checkpoint = place.trained("out", "3");
    let before = fs::read(&checkpoint).unwrap();
    let wrong = ["--overwrite", "--steps", "9", "--lr", "3e38", "--weight-decay", "1e9"];
    let wrong = [TINY, &wrong[..]].concat();
    failed(&place.train("out", &wrong), &["not finite"]);
    assert!(fs::read(&checkpoint).unwrap() == before);
    assert!(
        fs::read_dir(place.path("out")).unwrap().all(|entry| entry.unwrap().file_name() != ".lanthorn.lock")
    );
}

#[test]
fn a_run_without_a_folder_cannot_go_on_and_leaves_none() {
    let place = Place::new();
    failed(&place.train("none", &["--resume"]), &["there is no run to go on with", "does not exist"]);
    assert!(!place.path("none").exists());
}

/// The other end of the pipe has gone after one line.
#[cfg(unix)]
#[test]
fn a_run_whose_output_nobody_reads_is_saved() {
    use std::io::{BufRead, BufReader};
    let place = Place::new();
    let mut child = command()
        .args(["train", &place.text(), "--out", &show(&place.path("out"))])
        .args([TINY, &["--steps", "100000"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("step ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0);
    }
    drop(out);
    let output = child.wait_with_output().unwrap();
    failed(&output, &["standard output cannot be written any more", "--resume goes on from there"]);
    let steps = steps_of(&place.path("out/checkpoint.safetensors"));
    assert!(steps >= 8 && steps.is_multiple_of(4), "{steps}");
    succeeded(&place.train("out", &["--resume", "--stop-after", "1"]));
}

#[cfg(unix)]
#[test]
fn a_folder_has_one_run_and_further_signals_do_not_keep_it_from_being_saved() {
    let place = Place::new();
    let (out, text) = (show(&place.path("out")), place.text());
    let arguments = [&["train", &text, "--out", &out], TINY, &["--steps", "1000000"]].concat();
    let child = command().args(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..600 {
        if place.path("out/checkpoint.safetensors").exists() {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    for more in [&["--overwrite"][..], &["--resume"]] {
        let settings = if more == ["--resume"] { &[][..] } else { TINY };
        failed(
            &place.train("out", &[settings, more].concat()),
            &["another run of lanthorn train writes to it"],
        );
    }
    for _ in 0..3 {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{:?}", texts(&output));
    let told = texts(&output).0;
    let steps = steps_of(&place.path("out/checkpoint.safetensors"));
    assert!(told.contains(&format!("stopped after step {steps};")), "{told}");
    succeeded(&place.train("out", &["--resume", "--stop-after", "1"]));
}

/// A batch that is no batch is refused where it is given, and where a checkpoint says it.
#[test]
fn batches_of_any_size_are_an_error_and_no_abort() {
    let place = Place::new();
    let settings = |batch: &'static str| [&TINY[..10], &["--steps", "1", "--batch", batch]].concat();
    for batch in ["18446744073709551615", "100000000000000000"] {
        failed(&place.train("out", &settings(batch)), &[batch, "do not fit the memory", "--batch"]);
    }
    let many = [&settings("2")[..], &["--accumulate", "1000000000000000"]].concat();
    failed(&place.train("out", &many), &["1000000000000000 batches", "--accumulate"]);
    assert!(!place.path("out").exists());
    let checkpoint = place.trained("run", "4");
    for batch in ["1000000000000000", "0"] {
        // The document is text within a header whose length stays.
        let bytes = fs::read(&checkpoint).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let run =
            header["__metadata__"]["document/run"].as_str().unwrap().replacen("2,", &format!("{batch},"), 1);
        header["__metadata__"]["document/run"] = run.replacen("[4,", "[6,", 1).into();
        let mut header = header.to_string();
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        fs::create_dir_all(place.path("hostile")).unwrap();
        let changed =
            [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat();
        fs::write(place.path("hostile/checkpoint.safetensors"), changed).unwrap();
        failed(&place.train("hostile", &["--resume"]), &[batch]);
    }
}
