//! Tests of the run-time through its public interface, each on every backend.

// One file of tests, once for each backend.
#![allow(clippy::duplicate_mod)]

mod cancel;
mod deep;
mod reference;
mod remote;

macro_rules! on {
    ($module:ident, $backend:expr) => {
        #[path = "."]
        mod $module {
            /// A device of its own, so that counters are a test's own.
            fn device() -> lanthorn_runtime::Device {
                lanthorn_runtime::Device::new(std::sync::Arc::new($backend))
            }

            #[path = "compiled.rs"]
            mod compiled;
            #[path = "eager.rs"]
            mod eager;
            #[path = "engine.rs"]
            mod engine;
            #[path = "executable.rs"]
            mod executable;
            #[path = "failures.rs"]
            mod failures;
            #[path = "flat.rs"]
            mod flat;
            #[path = "observe.rs"]
            mod observe;
            #[path = "programs.rs"]
            mod programs;
            #[path = "tensor.rs"]
            mod tensor;
        }
    };
}

on!(on_reference, crate::reference::Reference);
on!(on_cpu, lanthorn_cpu::CpuBackend);
on!(on_remote, crate::remote::Remote);
