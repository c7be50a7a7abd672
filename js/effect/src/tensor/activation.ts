/** Activations of neural networks, and dropout. */

import { build, failure, optional, unary, type Any, type Built, type Optional } from "./core.js";

/** `1 / (1 + e^-x)`. */
export const sigmoid: (self: Any) => Built = unary("sigmoid");
/** `max(x, 0)`. */
export const relu: (self: Any) => Built = unary("relu");
/** `x sigmoid(x)`. */
export const silu: (self: Any) => Built = unary("silu");
/** `x tanh(softplus(x))` (Misra 2019). */
export const mish: (self: Any) => Built = unary("mish");
/** `log(1 + e^x)`, without overflow; `x` itself above 20. */
export const softplus: (self: Any) => Built = unary("softplus");

/** Options of `gelu`. */
export interface GeluOptions {
  /** `"tanh"` for the approximation by a hyperbolic tangent; `"none"`, the default, for the error function. */
  readonly approximate?: "none" | "tanh";
}

/** `x` times the normal distribution's probability below `x` (Hendrycks and Gimpel 2016). */
export const gelu: Optional<GeluOptions> = optional("gelu", (self, options: GeluOptions | undefined) =>
  build("gelu", () => ({ op: "gelu", inputs: [self], attributes: { approximate: options?.approximate === "tanh" } })),
);

/** Options of `elu`. */
export interface EluOptions {
  /** The negative of the limit towards minus infinity; 1 by default. */
  readonly alpha?: number;
}

/** `x` above 0, else `alpha (e^x - 1)` (Clevert et al. 2015). */
export const elu: Optional<EluOptions> = optional("elu", (self, options: EluOptions | undefined) =>
  build("elu", () => ({ op: "elu", inputs: [self], attributes: { alpha: options?.alpha ?? 1 } })),
);

/** Options of `leakyRelu`. */
export interface LeakyReluOptions {
  /** The slope below 0; 0.01 by default. */
  readonly negativeSlope?: number;
}

/** `x` above 0, else `negativeSlope x`. */
export const leakyRelu: Optional<LeakyReluOptions> = optional(
  "leakyRelu",
  (self, options: LeakyReluOptions | undefined) =>
    build("leakyRelu", () => ({
      op: "leakyRelu",
      inputs: [self],
      attributes: { negativeSlope: options?.negativeSlope ?? 0.01 },
    })),
);

/** Elements held between -1 and 1. */
export const hardtanh = (self: Any): Built =>
  build("hardtanh", { op: "clamp", inputs: [self], attributes: { min: -1, max: 1 } });

/** Options of `dropout`. */
export interface DropoutOptions {
  /** The probability with which an element becomes 0; 0.5 by default. */
  readonly p?: number;
}

/**
 * Each element 0 with probability `p`, else divided by `1 - p` (Srivastava et al. 2014).
 *
 * It is drawn anew whenever a program runs. There is no state that turns it off: leave it out for inference. Fails for a `p`
 * below 0 or not below 1.
 */
export const dropout: Optional<DropoutOptions> = optional("dropout", (self, options: DropoutOptions | undefined) => {
  const p = options?.p ?? 0.5;
  if (!(p >= 0 && p < 1)) return failure("dropout", `p must be at least 0 and below 1, got ${p}`);
  return build("dropout", { op: "dropout", inputs: [self], attributes: { p } });
});
