//! Random calls of ops on the CPU: `cargo run --release -p lanthorn-cpu --example fuzz -- --seconds 600 --seed 1`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lanthorn_optest::device::{Device, fuzz::fuzz};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let of = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let end = Instant::now() + Duration::from_secs(of("--seconds").unwrap_or(60));
    let seed = of("--seed").unwrap_or(1);
    let findings = fuzz(&Device::whole(&lanthorn_cpu::CpuBackend), seed, || Instant::now() < end);
    for (fault, (call, count)) in &findings.faults {
        println!("{fault} ({count} times)\n    {call}");
    }
    println!(
        "seed {seed}: {} calls, {} accepted, {} compared, {} kinds of fault",
        findings.calls,
        findings.accepted,
        findings.compared,
        findings.faults.len()
    );
    if findings.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
