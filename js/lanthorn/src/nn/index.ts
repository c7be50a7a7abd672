/** Layers, losses, and the modules that hold them. */

export * from "./activation.js";
export * from "./attention.js";
export * from "./containers.js";
export * from "./convolution.js";
export * from "./linear.js";
export * from "./loss.js";
export * from "./module.js";
export * from "./normalization.js";
export * from "./pool.js";
export * from "./recurrent.js";
// Optimisers too, where other libraries of this kind have them.
export * from "../optim/index.js";
