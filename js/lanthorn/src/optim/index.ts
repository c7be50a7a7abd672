/** Optimisers, learning rates by step, and clipping of gradients. */

export * from "./clip.js";
export * from "./optimizer.js";
export * from "./rules.js";
export * from "./schedule.js";
