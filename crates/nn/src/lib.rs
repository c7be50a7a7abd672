//! Layers, optimisers, schedules, samplers, the trainer and model families.
//!
//! A model is `(params, state, input, mode) -> (output, state)` ([`Model`]). Everything that computes is generic over
//! [`Builder`](lanthorn_ir::Builder): the same forward, backward and update run as one compiled program or
//! primitive by primitive.
//!
//! | module | what |
//! |---|---|
//! | [`params`] | named values, what a model says about each, initial values from a seed |
//! | [`host`] | tensors in host memory, which enter and leave a model |
//! | [`mode`] | training or evaluation, and where dropout gets its randomness |
//! | [`layers`] | linear, embedding, norms, attention, dropout, feed-forward |
//! | [`models`] | model families, one file each |
//! | [`optim`] | AdamW with decay groups, clipping by the global norm |
//! | [`schedule`] | the learning rate by step |
//! | [`step`] | forward, loss, backward, clipping and update as one function |
//! | [`trainer`] | the same as one compiled program, step by step, with exact resumption |
//! | [`snapshot`] | a run's state: JSON documents and named tensors in host memory |
//! | [`sampler`], [`batch`] | windows of a token stream in random order, restorable; batches of them |
//! | [`metrics`] | numbers about token streams |

pub mod batch;
pub mod host;
pub mod layers;
pub mod metrics;
pub mod mode;
pub mod model;
pub mod models;
pub mod optim;
pub mod params;
pub mod sampler;
pub mod schedule;
pub mod snapshot;
pub mod step;
pub mod trainer;

pub use batch::Batch;
pub use host::HostTensor;
pub use mode::Mode;
pub use model::{CachedModel, Decoded, KeyValue, Model};
pub use models::bert::{Bert, BertConfig, BertInput};
pub use models::gpt::{Gpt, GptConfig};
pub use models::llama::{Llama, LlamaConfig};
pub use optim::{AdamW, AdamWConfig};
pub use params::{Init, ParamKind, ParamSpec, Params};
pub use sampler::{SamplerState, WindowSampler};
pub use schedule::Schedule;
pub use snapshot::Snapshot;
pub use trainer::{StepReport, Trainer, TrainerConfig};
