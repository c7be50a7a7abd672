//! Tests of the run-time through its public interface.

mod compiled;
mod eager;
mod executable;
mod reference;
mod tensor;
