//! The suite of the ops on the CPU backend.

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

/// Random calls of random ops: `LANTHORN_FUZZ=600,7 cargo test --release -p lanthorn-cpu --test suite random_calls` makes
/// them for 600 seconds from seed 7.
#[test]
fn random_calls_give_what_the_reference_gives() {
    let (seed, more) = lanthorn_optest::fuzz::budget(2000);
    let findings = fuzz::fuzz(&device(), seed, more);
    println!("{findings}");
    assert!(findings.compared > 100, "{findings}");
    assert!(findings.faults.is_empty(), "{findings}");
}
