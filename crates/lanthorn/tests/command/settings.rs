//! Settings of a run and of the machine, by flags and by the environment.

use super::*;

#[test]
fn a_run_takes_what_the_trainer_has_and_resumes_with_it() {
    let place = Place::new();
    for optimizer in ["sgd", "adam", "adamw", "lion"] {
        let settings = [
            TINY,
            &["--steps", "8", "--optimizer", optimizer, "--precision", "bf16", "--accumulate", "2"],
            &["--ema", "0.9", "--patience", "9", "--lr", "1e-3"],
        ]
        .concat();
        let (whole, parts) = (format!("whole-{optimizer}"), format!("parts-{optimizer}"));
        let told = succeeded(&place.train(&whole, &settings));
        assert!(told.contains("training on 64 tokens a step"), "{told}");
        succeeded(&place.train(&parts, &[&settings[..], &["--stop-after", "5"]].concat()));
        succeeded(&place.train(&parts, &["--resume"]));
        let checkpoint = |out: &str| place.path(out).join("checkpoint.safetensors");
        assert!(
            fs::read(checkpoint(&whole)).unwrap() == fs::read(checkpoint(&parts)).unwrap(),
            "{optimizer}"
        );
        let listing = succeeded(&lanthorn(&["inspect", &show(&checkpoint(&whole))]));
        let kept = match optimizer {
            "sgd" => &[][..],
            "lion" => &["optim/m/"],
            _ => &["optim/m/", "optim/v/"],
        };
        assert!(kept.iter().all(|name| listing.contains(name)), "{listing}");
        assert!(listing.contains("ema/") && listing.contains("mixed_bf16"), "{listing}");
        assert_eq!(listing.contains("optim/"), optimizer != "sgd");
        succeeded(&lanthorn(&["generate", "--checkpoint", &show(&checkpoint(&whole)), "--tokens", "2"]));
    }
}

/// Without a learning rate nothing gets better; what has been waited is in the checkpoint.
#[test]
fn a_run_that_gets_no_better_ends_early_wherever_it_was_stopped() {
    let place = Place::new();
    let settings = [TINY, &["--steps", "1000", "--lr", "0", "--patience", "2", "--dropout", "0"]].concat();
    let told = succeeded(&place.train("whole", &settings));
    assert!(told.contains("ended early: 2 measurements in a row") && told.contains("step 12:"), "{told}");
    succeeded(&place.train("parts", &[&settings[..], &["--stop-after", "9"]].concat()));
    let told = succeeded(&place.train("parts", &["--resume"]));
    assert!(told.contains("ended early") && told.contains("step 12:"), "{told}");
    let file = |out: &str, name: &str| fs::read(place.path(out).join(name)).unwrap();
    assert!(file("whole", "checkpoint.safetensors") == file("parts", "checkpoint.safetensors"));
    assert!(file("whole", "best.safetensors") == file("parts", "best.safetensors"));
    let best = show(&place.path("whole/best.safetensors"));
    succeeded(&lanthorn(&["generate", "--checkpoint", &best, "--tokens", "2"]));
}

#[test]
fn settings_of_the_machine_are_flags_and_variables_and_a_slip_is_told() {
    let place = Place::new();
    let checkpoint = show(&place.trained("out", "1"));
    let generate = ["generate", "--checkpoint", &checkpoint, "--tokens", "2"];
    let run = |variables: &[(&str, &str)], more: &[&str]| {
        command().envs(variables.iter().copied()).args(generate).args(more).output().unwrap()
    };
    failed(&run(&[("LANTHORN_THREADS", "abc")], &[]), &["LANTHORN_THREADS: \"abc\" is no number of threads"]);
    failed(&run(&[("LANTHORN_ISA", "foo")], &[]), &["LANTHORN_ISA: \"foo\" is no instruction set"]);
    failed(&run(&[("LANTHORN_MEMORY_LIMIT", "some")], &[]), &["LANTHORN_MEMORY_LIMIT", "is no size"]);
    succeeded(&run(&[("LANTHORN_THREADS", "3"), ("LANTHORN_MEMORY_LIMIT", "1GiB")], &[]));
    assert_eq!(
        succeeded(&run(&[], &["--threads", "1", "--memory-limit", "1GiB"])).split(" tokens/s").count(),
        2
    );
    failed(&run(&[], &["--memory-limit", "1KiB"]), &["exceed the limit of 1024 bytes"]);
    for wrong in [["--threads", "0"], ["--memory-limit", "lots"]] {
        assert_eq!(run(&[], &wrong).status.code(), Some(2));
    }
    for name in ["train", "generate", "run", "chat", "embed", "bench"] {
        let help = succeeded(&lanthorn(&[name, "--help"]));
        assert!(help.contains("--threads <N>") && help.contains("--memory-limit <SIZE>"), "{name}");
    }
}
