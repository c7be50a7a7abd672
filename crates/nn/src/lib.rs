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
//! | [`layers`] | what models are put together from, and how |
//! | [`sequential`] | a model as a list of layers that can be saved |
//! | [`models`] | model families, one file each |
//! | [`loss`] | losses as a setting |
//! | [`optim`] | SGD, Adam, AdamW, Lion; weight decay, clipping, groups of parameters |
//! | [`schedule`] | the learning rate by step |
//! | [`precision`] | f32, f64, mixed bf16 |
//! | [`step`] | forward, loss, backward, clipping, update and average as one function |
//! | [`trainer`] | the same as compiled programs: steps, accumulation, evaluation, the loop; with exact resumption |
//! | [`snapshot`] | a run's state: JSON documents and named tensors in host memory |
//! | [`data`], [`batch`] | examples in host memory; windows of a token stream |
//! | [`sampler`] | the order in which examples are seen, exactly restorable |
//! | [`metrics`] | what evaluations measure; numbers about token streams |

pub mod batch;
pub mod data;
pub mod host;
pub mod layers;
pub mod loss;
pub mod metrics;
pub mod mode;
pub mod model;
pub mod models;
pub mod optim;
pub mod params;
pub mod precision;
pub mod sampler;
pub mod schedule;
pub mod sequential;
pub mod snapshot;
pub mod step;
pub mod trainer;

pub use batch::Batch;
pub use data::{Dataset, Examples};
pub use host::HostTensor;
pub use loss::Loss;
pub use metrics::Metric;
pub use mode::Mode;
pub use model::{CachedModel, KeyValueCache, KeyValueShape, Model, last_rows};
pub use models::bert::{Bert, BertConfig, BertInput};
pub use models::gpt::{Gpt, GptConfig};
pub use models::llama::{Llama, LlamaConfig};
pub use optim::{Clip, Group, Optimizer, Rule, Select};
pub use params::{Init, ParamKind, ParamSpec, Params};
pub use precision::Precision;
pub use sampler::{SamplerState, Source, WindowSampler};
pub use schedule::Schedule;
pub use sequential::{LayerConfig, Sequential};
pub use snapshot::Snapshot;
pub use trainer::{Evaluation, Fit, StepReport, Trainer, TrainerConfig};
