//! Models and optimisers on the reference backend: naive loops, so every model here is tiny.

mod decode;
mod dropout;
mod gpt;
mod optim;
mod support;
