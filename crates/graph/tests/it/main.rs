//! Graphs by handle, from outside.

mod compute;
mod decode;
mod deep;
mod draws;
mod executable;
mod hostile;
mod support;
mod transform;
