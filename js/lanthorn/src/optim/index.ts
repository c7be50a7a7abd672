/** Optimisers, learning rates by step, and clipping of gradients. */

export * from "./clip.js";
export * from "./group.js";
export * from "./layerwise.js";
export * from "./optimizer.js";
export { Adam, AdamW, Lion, SGD, type AdamOptions, type LionOptions, type SGDOptions } from "./rules.js";
export * from "./schedule.js";
