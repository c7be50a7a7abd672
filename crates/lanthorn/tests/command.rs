//! The `lanthorn` command as a user meets it: runs that stop and go on, and input that is wrong.
#![cfg(feature = "command")]

#[path = "command/outputs.rs"]
mod outputs;
#[path = "command/runs.rs"]
mod runs;
#[path = "command/settings.rs"]
mod settings;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const TINY: &[&str] = &[
    "--layers",
    "1",
    "--width",
    "32",
    "--heads",
    "2",
    "--context",
    "16",
    "--vocab",
    "300",
    "--batch",
    "2",
    "--every",
    "4",
];

/// A folder for one test, with a text to train on.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        let text: String =
            (0..400).map(|i| format!("The {}th line says {} things. ", i, i * 7 % 31)).collect();
        fs::write(place.path("text.txt"), text).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self) -> String {
        self.path("text.txt").display().to_string()
    }

    fn train(&self, out: &str, more: &[&str]) -> Output {
        let mut arguments = vec!["train".to_string(), self.text()];
        arguments.extend(["--out".to_string(), self.path(out).display().to_string()]);
        arguments.extend(more.iter().map(ToString::to_string));
        lanthorn(&arguments)
    }

    fn trained(&self, out: &str, steps: &str) -> PathBuf {
        succeeded(&self.train(out, &[TINY, &["--steps", steps]].concat()));
        self.path(out).join("checkpoint.safetensors")
    }
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lanthorn"))
}

fn lanthorn<S: AsRef<str>>(arguments: &[S]) -> Output {
    command().args(arguments.iter().map(AsRef::as_ref)).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    let (out, err) = texts(output);
    assert!(output.status.success(), "{:?}\n{out}\n{err}", output.status);
    out
}

/// Fails with exit code 1, one sentence that holds `words`, and no panic.
fn failed(output: &Output, words: &[&str]) {
    let (out, err) = texts(output);
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    // The report is wrapped to the terminal's width.
    let flat = err.split_whitespace().filter(|part| *part != "│").collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(flat.contains(word), "{word:?} is not in {flat}");
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_run_that_stops_and_resumes_ends_as_one_that_never_stopped() {
    let place = Place::new();
    let whole = place.trained("whole", "10");
    let steps = [TINY, &["--steps", "10", "--stop-after", "3"]].concat();
    assert!(succeeded(&place.train("parts", &steps)).contains("stopped after step 3"));
    assert!(
        succeeded(&place.train("parts", &["--resume", "--stop-after", "4"])).contains("after step 3 of 10")
    );
    succeeded(&place.train("parts", &["--resume"]));
    let parts = place.path("parts").join("checkpoint.safetensors");
    assert!(fs::read(whole).unwrap() == fs::read(parts).unwrap(), "the checkpoints differ");
    assert!(fs::read_to_string(place.path("parts/loss.svg")).unwrap().contains("held out"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_checkpoint_that_resumes_to_the_same_run() {
    let place = Place::new();
    let out = place.path("out");
    let arguments = [TINY, &["--steps", "100000"]].concat();
    let child = command()
        .args(["train", &place.text(), "--out", &show(&out)])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let checkpoint = out.join("checkpoint.safetensors");
    for _ in 0..600 {
        if checkpoint.exists() {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    assert!(checkpoint.exists(), "no checkpoint after a minute");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(texts(&output).0.contains("--resume goes on"), "{:?}", texts(&output));
    let output = place.train("out", &["--resume", "--stop-after", "2"]);
    assert!(succeeded(&output).contains("resuming after step"));
}

#[test]
fn a_run_in_the_folder_is_not_overwritten_unasked() {
    let place = Place::new();
    let checkpoint = place.trained("out", "2");
    let before = fs::read(&checkpoint).unwrap();
    failed(&place.train("out", TINY), &["exists already", "--resume", "--overwrite"]);
    assert!(fs::read(&checkpoint).unwrap() == before);
    succeeded(&place.train("out", &[TINY, &["--steps", "1", "--overwrite"]].concat()));
    assert!(fs::read(&checkpoint).unwrap() != before);
}

#[test]
fn files_of_others_and_the_text_itself_are_not_overwritten() {
    let place = Place::new();
    for name in ["tokenizer.json", "loss.svg"] {
        fs::create_dir_all(place.path("other")).unwrap();
        fs::write(place.path("other").join(name), "somebody's").unwrap();
        failed(&place.train("other", TINY), &[name, "exists already"]);
        assert_eq!(fs::read_to_string(place.path("other").join(name)).unwrap(), "somebody's");
        fs::remove_dir_all(place.path("other")).unwrap();
    }
    fs::create_dir(place.path("own")).unwrap();
    let text = place.path("own/tokenizer.json");
    fs::copy(place.path("text.txt"), &text).unwrap();
    let before = fs::read(&text).unwrap();
    let own =
        lanthorn(&["train", &show(&text), "--out", &show(&place.path("own")), "--overwrite", "--steps", "1"]);
    failed(&own, &["is where the run writes"]);
    assert!(fs::read(&text).unwrap() == before);
    // What is no trace is not replaced by one.
    let not_a_trace = show(&text);
    let traced = [TINY, &["--steps", "1", "--trace", &not_a_trace]].concat();
    failed(&place.train("traced", &traced), &["tokenizer.json", "is no trace"]);
    assert!(fs::read(&text).unwrap() == before);
    let trace = show(&place.path("trace.json"));
    for _ in 0..2 {
        let traced = [TINY, &["--steps", "1", "--overwrite", "--trace", &trace]].concat();
        succeeded(&place.train("traced", &traced));
    }
}

#[test]
fn a_run_that_fails_before_its_first_step_leaves_the_one_in_the_folder_usable() {
    let place = Place::new();
    let checkpoint = show(&place.trained("out", "2"));
    for wrong in
        [&["--heads", "3", "--width", "32"][..], &["--width", "1000000000", "--heads", "1", "--context", "8"]]
    {
        // Another vocabulary makes another tokenizer.
        let settings = [&["--overwrite", "--vocab", "290"], wrong].concat();
        failed(&place.train("out", &settings), &[]);
        succeeded(&lanthorn(&["generate", "--checkpoint", &checkpoint, "--tokens", "3"]));
    }
}

#[test]
fn texts_that_cannot_be_trained_on_are_refused_by_name() {
    let place = Place::new();
    let refused = |bytes: &[u8], words: &[&str]| {
        fs::write(place.path("text.txt"), bytes).unwrap();
        failed(&place.train("out", TINY), &[&["text.txt"], words].concat());
    };
    refused(b"", &["empty"]);
    refused(b"abc\xff\xfedef", &["UTF-8", "3"]);
    refused(b"too short", &["too short", "--context"]);
    fs::remove_file(place.path("text.txt")).unwrap();
    failed(&place.train("out", TINY), &["text.txt"]);
    fs::create_dir(place.path("text.txt")).unwrap();
    failed(&place.train("out", TINY), &["text.txt"]);
    assert!(!place.path("out/checkpoint.safetensors").exists());
}

#[test]
fn checkpoints_that_are_none_are_refused_by_name() {
    let place = Place::new();
    let checkpoint = place.trained("out", "2");
    let good = fs::read(&checkpoint).unwrap();
    let refused = |bytes: &[u8], words: &[&str]| {
        fs::write(&checkpoint, bytes).unwrap();
        for output in [
            lanthorn(&["generate", "--checkpoint", &show(&checkpoint)]),
            lanthorn(&["inspect", &show(&checkpoint)]),
            place.train("out", &["--resume"]),
        ] {
            // Another program's tensors can be inspected, only not run.
            if words == ["not a checkpoint of Lanthorn"] && output.status.success() {
                continue;
            }
            failed(&output, &[&["checkpoint.safetensors"], words].concat());
        }
        assert!(fs::read(&checkpoint).unwrap() == bytes, "a file that could not be read was changed");
    };
    refused(&good[..good.len() / 2], &[]);
    refused(&good[..5], &[]);
    refused(b"", &[]);
    refused(&[&u64::MAX.to_le_bytes()[..], b"{}"].concat(), &[]);
    refused(&[&2u64.to_le_bytes()[..], b"{}"].concat(), &["not a checkpoint of Lanthorn"]);
    fs::write(&checkpoint, &good).unwrap();
    succeeded(&lanthorn(&["inspect", &show(&checkpoint), "--statistics"]));
}

#[test]
fn tokenizers_that_are_none_or_another_are_refused_by_name() {
    let place = Place::new();
    let checkpoint = place.trained("out", "2");
    let tokenizer = place.path("out/tokenizer.json");
    for wrong in [&b"{}"[..], b"", b"[1, 2", b"{\"version\": \"1.0\"}", &[0xff; 16]] {
        fs::write(&tokenizer, wrong).unwrap();
        let named = ["generate", "--checkpoint", &show(&checkpoint), "--tokenizer", &show(&tokenizer)];
        failed(&lanthorn(&named), &["tokenizer.json"]);
        // The checkpoint has its own.
        succeeded(&lanthorn(&["generate", "--checkpoint", &show(&checkpoint), "--tokens", "2"]));
        failed(&lanthorn(&["tokenize", "--tokenizer", &show(&tokenizer), "x"]), &["tokenizer.json"]);
    }
    let other = Place::new();
    fs::write(other.path("text.txt"), "Quite another text, of other words. ".repeat(40)).unwrap();
    other.trained("out", "1");
    fs::copy(other.path("out/tokenizer.json"), &tokenizer).unwrap();
    let named = ["generate", "--checkpoint", &show(&checkpoint), "--tokenizer", &show(&tokenizer)];
    failed(&lanthorn(&named), &["is not the tokenizer"]);
}

#[test]
fn output_that_cannot_be_written_is_reported() {
    let place = Place::new();
    fs::write(place.path("file"), "in the way").unwrap();
    failed(&place.train("file", TINY), &["file"]);
    assert_eq!(fs::read_to_string(place.path("file")).unwrap(), "in the way");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_and_what_was_there_stays() {
    let place = Place::new();
    fs::create_dir(place.path("out")).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.path("out/tokenizer.json")).unwrap();
    let settings = [TINY, &["--steps", "1", "--overwrite"]].concat();
    failed(&place.train("out", &settings), &["tokenizer.json", "space"]);
    // The checkpoint was written before, and has the tokenizer.
    let checkpoint = show(&place.path("out/checkpoint.safetensors"));
    succeeded(&lanthorn(&["generate", "--checkpoint", &checkpoint, "--tokens", "2"]));
    let tokenizer = Place::new();
    tokenizer.trained("out", "1");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let path = show(&tokenizer.path("out/tokenizer.json"));
    let output =
        command().args(["tokenize", "--tokenizer", &path, "some words"]).stdout(full).output().unwrap();
    failed(&output, &["standard output"]);
}

#[test]
fn a_loss_that_is_no_number_ends_the_run_and_keeps_the_last_good_state() {
    let place = Place::new();
    let output = place.train("out", &[TINY, &["--steps", "50", "--lr", "1e30"]].concat());
    failed(&output, &["step", "finite"]);
    let checkpoint = show(&place.path("out/checkpoint.safetensors"));
    let listing = succeeded(&lanthorn(&["inspect", &checkpoint, "--statistics"]));
    assert!(!listing.contains("NaN"), "{listing}");
}

#[test]
fn under_trace_nan_the_failure_names_the_op() {
    let place = Place::new();
    let output = place.train("out", &[TINY, &["--steps", "50", "--lr", "1e30", "--trace-nan"]].concat());
    failed(&output, &["step", "gave", "operand 0: f32"]);
}

/// The complete events of a trace as `(category, thread, start, end)`, in microseconds.
fn events(trace: &Path) -> Vec<(String, u64, f64, f64)> {
    let text = fs::read_to_string(trace).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let number = |event: &serde_json::Value, name: &str| event[name].as_f64().unwrap();
    events
        .map(|event| {
            let (start, duration) = (number(event, "ts"), number(event, "dur"));
            assert!(start >= 0.0 && duration >= 0.0 && event["pid"] == 1, "{event}");
            if event["cat"] == "kernel" {
                assert!(event["args"]["flops"].is_u64() && event["args"]["GB/s"].is_f64(), "{event}");
                assert!(event["args"]["bytes_written"].as_u64().unwrap() > 0, "{event}");
            }
            let thread = event["tid"].as_u64().unwrap();
            (event["cat"].as_str().unwrap().to_string(), thread, start, start + duration)
        })
        .collect()
}

#[test]
fn a_trace_holds_runs_with_their_kernels_and_compilations() {
    /// Times are written to the nanosecond.
    const ROUNDING: f64 = 1e-3;
    let place = Place::new();
    let trace = show(&place.path("trace.json"));
    let out = succeeded(&place.train("out", &[TINY, &["--steps", "3", "--trace", &trace]].concat()));
    assert!(out.contains("GFLOP/s") && out.contains("matmul") && out.contains("trace.json"), "{out}");
    let checkpoint = show(&place.path("out/checkpoint.safetensors"));
    let written = show(&place.path("written.json"));
    succeeded(&lanthorn(&["generate", "--checkpoint", &checkpoint, "--tokens", "5", "--trace", &written]));
    for (trace, runs) in [(trace, 3), (written, 5)] {
        let events = events(Path::new(&trace));
        let of = |category: &str| events.iter().filter(move |event| event.0 == category).collect::<Vec<_>>();
        assert!(of("run").len() >= runs && !of("compile").is_empty() && !of("pass").is_empty());
        let mut within = 0;
        for run in of("run") {
            let is_inside = |kernel: &&&(String, u64, f64, f64)| {
                kernel.1 == run.1 && kernel.2 >= run.2 - ROUNDING && kernel.3 <= run.3 + ROUNDING
            };
            let kernels = of("kernel");
            let kernels: Vec<_> = kernels.iter().filter(is_inside).collect();
            let total: f64 = kernels.iter().map(|kernel| kernel.3 - kernel.2).sum();
            assert!(!kernels.is_empty() && total <= run.3 - run.2 + ROUNDING, "{total} of {run:?}");
            within += kernels.len();
        }
        // What is left ran eagerly, between programs.
        assert!(within > of("kernel").len() / 2, "{within} of {}", of("kernel").len());
    }
    failed(
        &place.train("other", &[TINY, &["--steps", "1", "--trace", "/no/such/trace.json"]].concat()),
        &["trace"],
    );
}

#[test]
fn generation_repeats_by_seed_and_counts_known_words() {
    let place = Place::new();
    let checkpoint = show(&place.trained("out", "8"));
    let write = |more: &[&str]| {
        let first = ["generate", "--checkpoint", &checkpoint, "--prompt", "The 3", "--tokens", "40"];
        // The last lines tell the speed.
        let out = succeeded(&lanthorn(&[&first[..], more].concat()));
        out.split("\n\n40 tokens").next().unwrap().to_string()
    };
    assert_eq!(write(&["--seed", "3"]), write(&["--seed", "3"]));
    assert_ne!(write(&["--seed", "3"]), write(&["--seed", "4"]));
    assert_eq!(write(&["--temperature", "0", "--seed", "1"]), write(&["--temperature", "0", "--seed", "2"]));
    let first = ["generate", "--checkpoint", &checkpoint, "--text", &place.text()];
    assert!(succeeded(&lanthorn(&first)).contains("words occur in the text"));
    failed(&lanthorn(&["generate", "--checkpoint", &checkpoint, "--prompt", ""]), &["prompt", "empty"]);
    let generate = |more: &[&str]| lanthorn(&[&["generate", "--checkpoint", &checkpoint], more].concat());
    failed(
        &generate(&["--temperature", "-1"]),
        &["--temperature is -1; a finite number of at least 0 would be"],
    );
    let long = place.text();
    failed(&generate(&["--prompt", &long.repeat(9)]), &["the prompt has", "context of", "holds 16"]);
    // What is opened for the command may be a pipe.
    let book = piped(&["generate", "--checkpoint", &checkpoint, "--text", "-"], b"the line says things");
    assert!(succeeded(&book).contains("words occur in the text"));
}

/// Runs the command with bytes piped into it.
fn piped(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails before it reads leaves the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// A small model in a folder of Hugging Face.
fn pretrained() -> String {
    show(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../llm/fixtures/llama/tied"))
}

#[test]
fn a_pretrained_model_answers_by_its_template_or_writes_on() {
    let model = pretrained();
    let run = |more: &[&str]| {
        let arguments = [&["run", &model, "-p", "Hi", "--max-tokens", "12"], more].concat();
        succeeded(&lanthorn(&arguments))
    };
    let answer = run(&["--seed", "3"]);
    assert_eq!(answer, run(&["--seed", "3"]));
    assert!(answer.len() > 1, "{answer:?}");
    let greedy = run(&["--temperature", "0"]);
    for other in
        [run(&["--temperature", "0", "--raw"]), run(&["--temperature", "0", "--system", "Be brief."])]
    {
        assert_ne!(greedy, other);
    }
}

#[test]
fn a_conversation_goes_on_from_what_was_said_and_begins_anew() {
    let model = pretrained();
    let chat = |input: &str, more: &[&str]| {
        let arguments = [&["chat", &model, "--temperature", "0", "--max-tokens", "8"], more].concat();
        let mut child =
            command().args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        succeeded(&child.wait_with_output().unwrap())
    };
    let first = chat("Hi\n", &[]);
    assert!(!first.trim().is_empty());
    // A second message is answered in the light of the first; after /reset it is a first one.
    let twice = chat("Hi\n\nHi\n", &[]);
    assert!(twice.starts_with(&first) && twice.len() > first.len() && twice != first.repeat(2), "{twice:?}");
    assert_eq!(chat("Hi\n/reset\nHi\n/exit\nHi\n", &[]), first.repeat(2));
    assert_ne!(chat("Hi\n", &["--system", "Be brief."]), first);
}

#[test]
fn models_that_cannot_run_are_refused_by_name() {
    let place = Place::new();
    let model = pretrained();
    let run = |arguments: &[&str]| lanthorn(&[&["run"], arguments].concat());
    failed(&run(&["no-such.gguf", "-p", "x"]), &["no-such.gguf", "No such file"]);
    failed(&run(&[&place.text(), "-p", "x"]), &["text.txt", "GGUF"]);
    failed(&run(&[&show(place.folder.path()), "-p", "x"]), &["it is no folder of a model"]);
    failed(&run(&[&model, "-p", "", "--raw"]), &["the prompt is empty"]);
    failed(
        &run(&[&embedder(), "-p", "x"]),
        &["config.json", "family `bert`", "`lanthorn embed` makes vectors"],
    );
    for (option, value, words) in [
        ("--temperature", "-1", "--temperature is -1; a finite number of at least 0 would be right"),
        ("--temperature", "inf", "--temperature is inf; a finite number of at least 0 would be right"),
        ("--top-k", "0", "--top-k is 0; at least 1 would be right"),
        ("--top-p", "2", "--top-p is 2; above 0 and at most 1 would be right"),
        ("--min-p", "-0.5", "--min-p is -0.5; 0 to 1 would be right"),
        ("--repetition-penalty", "0", "--repetition-penalty is 0; a finite number above 0 would be right"),
    ] {
        failed(&run(&[&model, "-p", "x", option, value]), &[words]);
    }
}

/// Arguments that are none: exit code 2, and the option with what would be right.
#[test]
fn options_that_are_no_numbers_are_told_by_their_names() {
    let model = pretrained();
    let refused = |arguments: &[&str], words: &str| {
        let output = lanthorn(arguments);
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(words) && !err.contains("tip:"), "{words:?} is not in {err}");
    };
    for (option, value, words) in [
        ("--context", "0", "'0' for '--context <N>': a whole number of at least 1 would be right"),
        ("--context", "-1", "'-1' for '--context <N>': a whole number of at least 1"),
        ("--top-k", "-1", "'-1' for '--top-k <TOP_K>': a whole number of at least 0"),
        ("--max-tokens", "1e3", "'1e3' for '--max-tokens <N>': a whole number of at least 0"),
        ("--seed", "-1", "'-1' for '--seed <SEED>': a whole number of at least 0"),
        ("--temperature", "hot", "'hot' for '--temperature <TEMPERATURE>': a number would be right"),
    ] {
        refused(&["run", &model, "-p", "x", option, value], words);
    }
    for (option, value, words) in [
        ("--batch", "0", "'0' for '--batch <BATCH>': a whole number of at least 1"),
        ("--dropout", "1", "'1' for '--dropout <DROPOUT>': a number from 0 to below 1"),
        ("--lr", "-1", "'-1' for '--lr <LR>': a finite number of at least 0"),
        ("--weight-decay", "inf", "'inf' for '--weight-decay <WEIGHT_DECAY>': a finite number of at least 0"),
        ("--steps", "0", "'0' for '--steps <STEPS>': a whole number of at least 1"),
    ] {
        refused(&["train", "book.txt", option, value], words);
    }
    // A prompt or a text may be a number.
    succeeded(&lanthorn(&["run", &model, "-p", "-1", "--max-tokens", "1"]));
    succeeded(&lanthorn(&["embed", &embedder(), "-1"]));
}

#[test]
fn what_the_system_refuses_is_told_once() {
    let place = Place::new();
    let missing = show(&place.path("missing.txt"));
    for output in [
        lanthorn(&["run", &missing, "-p", "x"]),
        lanthorn(&["tokenize", "--tokenizer", &missing, "x"]),
        lanthorn(&["train", &missing]),
    ] {
        failed(&output, &["missing.txt"]);
        let (_, err) = texts(&output);
        assert_eq!((err.matches("No such file").count(), err.contains("os error")), (1, false), "{err}");
    }
    fs::write(place.path("file"), "in the way").unwrap();
    failed(&place.train("file", TINY), &["--out", "file: it is a file; a folder would be right"]);
    failed(&place.train("file/within", TINY), &["cannot make the folder", "file/within: Not a directory"]);
}

/// Whoever opens a pipe that nobody writes to waits for ever.
#[cfg(unix)]
#[test]
fn pipes_and_devices_in_the_place_of_files_are_refused_by_name() {
    let place = Place::new();
    let pipe = show(&place.path("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let model = place.path("model");
    fs::create_dir(&model).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        for other in fs::read_dir(pretrained()).unwrap() {
            let other = other.unwrap();
            let _ = fs::remove_file(model.join(other.file_name()));
            fs::copy(other.path(), model.join(other.file_name())).unwrap();
        }
        fs::remove_file(model.join(name)).unwrap();
        std::os::unix::fs::symlink(&pipe, model.join(name)).unwrap();
        failed(&lanthorn(&["run", &show(&model), "-p", "x"]), &[name, "it is a device or a pipe"]);
    }
    let none = [
        lanthorn(&["run", &pipe, "-p", "x"]),
        lanthorn(&["inspect", &pipe]),
        lanthorn(&["generate", "--checkpoint", &pipe]),
        lanthorn(&["generate", "--text", &pipe]),
        lanthorn(&["train", &pipe, "--out", &show(&place.path("out"))]),
        lanthorn(&["embed", &embedder(), "--file", &pipe]),
        lanthorn(&["tokenize", "--tokenizer", &pipe, "x"]),
        lanthorn(&["tokenize", "--tokenizer", &format!("{}/tokenizer.json", pretrained()), "--file", &pipe]),
    ];
    for output in none {
        failed(&output, &["pipe", "it is a device or a pipe; a regular file would be right"]);
    }
    let tokenizer = format!("{}/tokenizer.json", pretrained());
    for file in ["-", "/dev/stdin"] {
        let output = piped(&["tokenize", "--tokenizer", &tokenizer, "--count", "--file", file], b"some text");
        assert!(succeeded(&output).ends_with("9 bytes\n"), "{file}");
    }
}

#[test]
fn a_prompt_beyond_the_context_is_refused() {
    let model = pretrained();
    let long = "many words ".repeat(40);
    let run = |more: &[&str]| lanthorn(&[&["run", &model, "--max-tokens", "1", "-p", &long], more].concat());
    failed(&run(&[]), &["the prompt has", "tokens, and the context holds 96", "the model's own context"]);
    failed(&run(&["--context", "20"]), &["and the context holds 20", "--context N gives more room"]);
    let chat = piped(&["chat", &model, "--max-tokens", "1"], format!("Hi\n{long}\n").as_bytes());
    failed(&chat, &["the prompt has", "and the context holds 96"]);
}

#[test]
fn a_message_that_is_no_text_is_told_by_its_line() {
    let output = piped(&["chat", &pretrained(), "--max-tokens", "1"], b"Hi\n\ncaf\xE9\n");
    failed(&output, &["line 3 of standard input: byte 3 (0xE9) is not UTF-8; a UTF-8 text would be right"]);
}

/// A copy of the small model that never ends a text.
#[cfg(unix)]
fn endless(place: &Place) -> String {
    let folder = place.path("endless");
    fs::create_dir(&folder).unwrap();
    for (name, from, to) in [
        ("config.json", "\"eos_token_id\": 257", "\"eos_token_id\": null"),
        ("tokenizer_config.json", "\"eos_token\": \"</s>\"", "\"eos_token\": null"),
        ("tokenizer.json", "", ""),
    ] {
        let text = fs::read_to_string(Path::new(&pretrained()).join(name)).unwrap();
        assert!(text.contains(from), "{name}");
        fs::write(folder.join(name), text.replacen(from, to, 1)).unwrap();
    }
    let weights = "model.safetensors";
    fs::copy(Path::new(&pretrained()).join(weights), folder.join(weights)).unwrap();
    show(&folder)
}

/// Sends a signal once the command has written a byte, then more input, and gives its exit code.
#[cfg(unix)]
fn signalled(arguments: &[&str], input: &[u8], signal: &str, then: &[u8]) -> Option<i32> {
    use std::io::Read;
    let mut child = command()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Held open, so that a conversation waits for more.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input).unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1]).unwrap();
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let _ = stdin.write_all(then);
    // A pipe that is full would keep the command.
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    as_shells_tell(child.wait().unwrap())
}

/// 128 and the number of the signal, also of a program that a signal ended before it listened.
#[cfg(unix)]
fn as_shells_tell(status: std::process::ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    status.code().or(status.signal().map(|signal| 128 + signal))
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_an_answer_and_a_request_to_terminate_the_program() {
    let place = Place::new();
    let model = endless(&place);
    let write = |first: &[&str], input: &[u8], signal: &str, then: &[u8]| {
        let long = ["--max-tokens", "100000000", "--temperature", "9"];
        signalled(&[&[first[0], &model], &first[1..], &long].concat(), input, signal, then)
    };
    assert_eq!(write(&["run", "-p", "Hi", "--raw"], b"", "-INT", b""), Some(130));
    assert_eq!(write(&["run", "-p", "Hi", "--raw"], b"", "-TERM", b""), Some(143));
    assert_eq!(write(&["chat"], b"Hi\n", "-TERM", b""), Some(143));
    assert_eq!(write(&["chat"], b"Hi\n", "-INT", b"/exit\n"), Some(0));
}

/// Where no work is under way, and where texts are made into vectors.
#[cfg(unix)]
#[test]
fn signals_end_every_command_with_the_same_exit_codes() {
    let place = Place::new();
    let lines = place.path("lines.txt");
    fs::write(&lines, "the lamp and a lantern\n".repeat(2_000_000)).unwrap();
    let tokenizer = format!("{}/tokenizer.json", pretrained());
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        for arguments in [
            &["embed", &embedder(), "--file", &show(&lines)][..],
            &["tokenize", "--tokenizer", &tokenizer],
            &["chat", &pretrained()],
        ] {
            let mut child =
                command().args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let _held_open = child.stdin.take();
            // Long enough to listen, and far shorter than the work or the wait for input that never comes.
            sleep(Duration::from_millis(1500));
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
            assert!(sent.success());
            assert_eq!(as_shells_tell(child.wait().unwrap()), Some(code), "{arguments:?}");
        }
    }
}

/// A small model that embeds texts, in a folder of sentence-transformers.
fn embedder() -> String {
    show(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../llm/fixtures/bert/small"))
}

#[test]
fn texts_become_vectors_and_a_table_of_how_alike_they_are() {
    let place = Place::new();
    let model = embedder();
    let embed = |more: &[&str]| succeeded(&lanthorn(&[&["embed", &model], more].concat()));
    let texts = ["the lamp", "a lantern", "the lamp"];
    let vectors = embed(&texts);
    let vectors: Vec<Vec<f64>> =
        vectors.lines().map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect()).collect();
    assert_eq!(vectors.iter().map(Vec::len).collect::<Vec<_>>(), [24; 3]);
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(x, y)| x * y).sum::<f64>();
    let cosine = dot(&vectors[0], &vectors[1]);
    assert!((dot(&vectors[0], &vectors[2]) - 1.0).abs() < 1e-6 && cosine < 0.999, "{cosine}");

    let file = place.path("lines.txt");
    fs::write(&file, texts.join("\n")).unwrap();
    let from_file = embed(&["--file", &show(&file), "--json"]);
    for ((line, vector), text) in from_file.lines().zip(&vectors).zip(texts) {
        let numbers: Vec<String> = vector.iter().map(|number| (*number as f32).to_string()).collect();
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["text"], text);
        let found: Vec<f32> = serde_json::from_value(object["embedding"].clone()).unwrap();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), numbers);
    }
    let object: serde_json::Value =
        serde_json::from_str(&embed(&["--file", &show(&file), "--json", "--similarity"])).unwrap();
    assert!((object["similarity"][0][1].as_f64().unwrap() - cosine).abs() < 1e-6, "{object}");

    let mut child = command()
        .args(["embed", &model, "--file", "-", "--similarity"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), texts.join("\n").as_bytes()).unwrap();
    let table = succeeded(&child.wait_with_output().unwrap());
    assert_eq!(table.lines().count(), 3);
    let first = format!("   1  1.0000 {cosine:>7.4}  1.0000  the lamp");
    assert_eq!(table.lines().next(), Some(first.as_str()));

    failed(&lanthorn(&["embed", &pretrained(), "x"]), &["family `llama`; `bert` is what embeds"]);
    failed(&lanthorn(&["embed", &model, "--file", "no-such.txt"]), &["no-such.txt", "No such file"]);
    assert_eq!(lanthorn(&["embed", &model]).status.code(), Some(2));
}

#[test]
fn help_has_examples_for_every_command() {
    for name in ["train", "generate", "run", "chat", "embed", "tokenize", "inspect", "bench"] {
        let help = succeeded(&lanthorn(&[name, "--help"]));
        assert!(help.contains("Examples:") && help.contains(&format!("lanthorn {name}")), "{help}");
    }
    assert_eq!(lanthorn(&["train", "x", "--layers", "many"]).status.code(), Some(2));
}
