//! Layers, losses, optimisers, schedules, samplers and model families.
