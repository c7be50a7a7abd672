//! Tests of the run-time through its public interface.

mod eager;
mod executable;
mod reference;
