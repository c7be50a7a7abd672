//! Language-model inference: KV cache, generation and sampling.
