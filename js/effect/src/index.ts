/** Tensors, gradients and compiled programs for Effect. A backend's layer provides what they run on. */

export * as Checkpoint from "./checkpoint.js";
export * as Gradient from "./gradient.js";
export * as LearningRate from "./learning-rate.js";
export * as Loss from "./loss.js";
export * as Model from "./model/index.js";
export * as Optimizer from "./optimizer.js";
export * as Runtime from "./runtime.js";
export * as Sampler from "./sampler.js";
export * as Tensor from "./tensor.js";
export * as Trainer from "./trainer.js";
