//! Link arguments of the addon.

fn main() {
    // Node closes an addon with the last worker that has loaded it, but the threads of the CPU backend's pool go on
    // in its code.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
