/** Tensors, gradients and compiled programs for Effect. A backend's layer provides what they run on. */

export * as Gradient from "./gradient.js";
export * as Loss from "./loss.js";
export * as Runtime from "./runtime.js";
export * as Tensor from "./tensor.js";
