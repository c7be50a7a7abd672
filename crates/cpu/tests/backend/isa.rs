//! The same tests on the narrower instruction sets, each in a process of its own.

use std::process::Command;

use lanthorn_cpu::simd::Isa;

#[test]
fn all_holds_on_every_instruction_set() {
    // Set in the processes that this test starts.
    if std::env::var_os("LANTHORN_ISA").is_some() {
        return;
    }
    let widest = Isa::supported().last().unwrap();
    for isa in Isa::supported().filter(|&isa| isa != widest) {
        let output = Command::new(std::env::current_exe().unwrap())
            .env("LANTHORN_ISA", isa.name())
            .arg("--quiet")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "on {}:\n{text}", isa.name());
    }
}
