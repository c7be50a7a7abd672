//! Tests of sessions on the CPU device, through their public interface.

mod capture;
mod commits;
mod functions;
mod gradients;
mod hostile;
mod loops;
mod op_table;
mod support;
mod views;
mod writes;
mod xor;
