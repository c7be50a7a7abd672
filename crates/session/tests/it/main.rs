//! Tests of sessions on the CPU device, through their public interface.

mod capture;
mod commits;
mod failures;
mod functions;
mod gradients;
mod hostile;
mod loops;
mod no_grad_writes;
mod op_table;
mod parts;
mod support;
mod views;
mod writes;
mod xor;
