//! Devices, storages, tensors, eager execution, the executable cache, random state and cancellation.
