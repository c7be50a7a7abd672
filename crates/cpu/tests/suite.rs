//! The suite of the ops on the CPU backend.

use std::time::{Duration, Instant};

use lanthorn_optest::device::{Device, fuzz};
use lanthorn_optest::op_suite;

fn device() -> Device {
    Device::whole(&lanthorn_cpu::CpuBackend)
}

op_suite!(cpu, device());

/// The same without vector instructions, in a process of its own. `tests/backend/isa.rs` tries all sets between.
#[test]
fn all_holds_without_vector_instructions() {
    // Set in the process that this test starts.
    if std::env::var_os("LANTHORN_ISA").is_some() {
        return;
    }
    let scalar = lanthorn_cpu::simd::Isa::supported().next().unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .env("LANTHORN_ISA", scalar.name())
        .arg("--quiet")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "on {}:\n{text}", scalar.name());
}

/// Random calls of random ops. `LANTHORN_FUZZ=600,7` makes them for so many seconds, from that seed:
/// `LANTHORN_FUZZ=600,7 cargo test --release -p lanthorn-cpu --test suite random_calls`.
#[test]
fn random_calls_keep_the_rules() {
    let given = std::env::var("LANTHORN_FUZZ").ok();
    let mut numbers = given.iter().flat_map(|text| text.split(',')).map(|text| text.parse::<u64>().unwrap());
    let (seconds, seed) = (numbers.next(), numbers.next().unwrap_or(1));
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut left = 2000;
    let findings = fuzz::fuzz(&device(), seed, || match end {
        Some(end) => Instant::now() < end,
        None => {
            left -= 1;
            left >= 0
        }
    });
    println!("{findings}");
    assert!(findings.compared > 100, "{findings}");
    assert!(findings.faults.is_empty(), "{findings}");
}
