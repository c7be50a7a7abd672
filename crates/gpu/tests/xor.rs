//! The program that every face of the engine runs, on the GPU of this machine: exclusive or, learned in 2,000 steps.

// Its `main` is the example's, and so are the features that it asks for.
#[allow(dead_code, unexpected_cfgs)]
#[path = "../../lanthorn/examples/xor.rs"]
mod xor;

use lanthorn::prelude::*;

#[test]
fn the_losses_are_the_cpus_to_four_digits() {
    let gpu = Device::gpu().unwrap_or_else(|e| panic!("{e}; tools/gpu-setup.sh installs a software one"));
    let (found, expected) = (xor::train(&gpu).unwrap(), xor::train(&Device::cpu()).unwrap());
    assert_eq!(found.len(), expected.len());
    for ((step, loss), (_, expected)) in found.iter().zip(&expected) {
        assert!((loss - expected).abs() < 1e-4, "step {step}: {loss}, expected {expected}");
    }
    // It has learned.
    assert!(found.last().is_some_and(|(_, loss)| *loss < 1e-3), "{found:?}");
}
