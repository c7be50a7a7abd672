//! Files: safetensors, checkpoints and tokenizers.
