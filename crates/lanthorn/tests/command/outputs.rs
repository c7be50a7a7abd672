//! Files that options name, and what is printed of files that somebody else wrote.

use super::*;

#[test]
fn a_trace_does_not_replace_what_the_command_writes() {
    let place = Place::new();
    let own = |name: &str| place.path("out").join(name);
    for name in ["checkpoint.safetensors", "tokenizer.json", "loss.svg", "best.safetensors"] {
        let trace = show(&own(name));
        let output = place.train("out", &[TINY, &["--steps", "1", "--trace", &trace]].concat());
        failed(&output, &["--trace", name, "the command itself writes that file"]);
        // Nothing has been done.
        assert!(!place.path("out").exists(), "{name}");
    }
    #[cfg(unix)]
    {
        fs::create_dir(place.path("real")).unwrap();
        std::os::unix::fs::symlink("real", place.path("link")).unwrap();
        let trace = show(&place.path("link/checkpoint.safetensors"));
        let output = place.train("real", &[TINY, &["--steps", "1", "--trace", &trace]].concat());
        failed(&output, &["the command itself writes that file"]);
    }
    // In the folder of the run there is room for it.
    let trace = show(&own("trace.json"));
    succeeded(&place.train("out", &[TINY, &["--steps", "1", "--trace", &trace]].concat()));
    assert!(own("trace.json").exists() && own("checkpoint.safetensors").exists());
}

#[test]
fn a_trace_that_could_not_be_written_is_refused_before_the_work() {
    let place = Place::new();
    let mut wrong =
        vec![(show(place.folder.path()), "Is a directory"), ("/no/such/trace.json".into(), "no folder")];
    if cfg!(target_os = "linux") {
        wrong.push(("/proc/trace.json".into(), "cannot write /proc/trace.json"));
    }
    for (trace, words) in &wrong {
        failed(
            &place.train("out", &[TINY, &["--steps", "1", "--trace", trace]].concat()),
            &["--trace", words],
        );
        assert!(!place.path("out").exists());
        failed(&lanthorn(&["chat", &pretrained(), "--trace", trace]), &["--trace", words]);
    }
    let trace = show(&place.path("trace.json"));
    let chat = piped(&["chat", &pretrained(), "--max-tokens", "2", "--trace", &trace], b"Hi\n");
    succeeded(&chat);
    assert!(events(Path::new(&trace)).iter().any(|event| event.0 == "run"));
}

#[test]
fn bench_replaces_no_file_of_others_and_measures_no_name_that_is_none() {
    let place = Place::new();
    let out = place.path("rows.json");
    fs::write(&out, "{\"somebody\": \"else's\"}").unwrap();
    let bench = |only: &str| lanthorn(&["bench", "--rounds", "1", "--only", only, "--out", &show(&out)]);
    failed(&bench("eager_add"), &["--out", "rows.json", "the file exists and is no file of rows of bench"]);
    failed(
        &bench("no_such"),
        &["--only no_such", "no workload's name begins so", "those that there are", "gpt_step"],
    );
    assert_eq!(fs::read_to_string(&out).unwrap(), "{\"somebody\": \"else's\"}");
    failed(&lanthorn(&["bench", "--just", "1", "--only", "no_such"]), &["no workload's name begins so"]);
}

/// A safetensors file with one tensor of each type of floats.
fn floats() -> Vec<u8> {
    let tensors: [(&str, &str, &[u8]); 6] = [
        ("half", "F16", &[0x00, 0x3c, 0x00, 0xc1]),
        ("brain", "BF16", &[0x80, 0x3f, 0x20, 0xc0]),
        ("wide", "F64", &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 4, 0xc0]),
        ("fp8", "F8_E4M3", &[0x38, 0xc2]),
        ("fp8b", "F8_E5M2", &[0x3c, 0xc1]),
        ("none\u{1b}[31m", "F32", &[0, 0, 0xc0, 0x7f, 0, 0, 0xc0, 0x7f]),
    ];
    let mut header = serde_json::json!({"__metadata__": {"by\u{7}": "\u{1b}[2Jsomebody"}});
    let mut bytes = Vec::new();
    for (name, dtype, content) in tensors {
        let begin = bytes.len();
        bytes.extend_from_slice(content);
        header[name] =
            serde_json::json!({"dtype": dtype, "shape": [2], "data_offsets": [begin, bytes.len()]});
    }
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes].concat()
}

#[test]
fn statistics_are_of_every_type_of_floats_and_names_are_shown_as_text() {
    let place = Place::new();
    let file = place.path("floats.safetensors");
    fs::write(&file, floats()).unwrap();
    let listing = succeeded(&lanthorn(&["inspect", &show(&file), "--statistics"]));
    for name in ["half", "brain", "wide", "fp8", "fp8b"] {
        let line = listing.lines().find(|line| line.starts_with(&format!("{name}\t"))).unwrap();
        assert!(line.ends_with("\tmin -2.5000 mean -0.7500 max 1.0000"), "{line}");
    }
    assert!(listing.contains("none\\u{1b}[31m\tf32[2]\tno numbers, 2 NaN"), "{listing}");
    assert!(listing.contains("by\\u{7}: \\u{1b}[2Jsomebody") && !listing.contains('\u{1b}'), "{listing}");
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for argument in ["--help", "--version"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        failed(
            &command().arg(argument).stdout(full).output().unwrap(),
            &["standard output cannot be written"],
        );
    }
    assert!(succeeded(&lanthorn(&["--help"])).contains("LANTHORN_MEMORY_LIMIT"));
}

#[test]
fn empty_standard_input_is_no_file() {
    let output = piped(&["run", &pretrained(), "--raw"], b"");
    failed(&output, &["standard input: it is empty; a UTF-8 text would be right"]);
}

/// A limit of the system on a file's size is an error, not the end by a signal.
#[cfg(target_os = "linux")]
#[test]
fn a_file_beyond_the_limit_of_the_system_is_told() {
    let place = Place::new();
    let train = format!(
        "ulimit -f 8; exec {} train {} --out {} {} --steps 1",
        env!("CARGO_BIN_EXE_lanthorn"),
        place.text(),
        show(&place.path("out")),
        TINY.join(" ")
    );
    let output = Command::new("bash").args(["-c", &train]).output().unwrap();
    failed(&output, &["cannot write", "checkpoint.safetensors", "File too large"]);
}
