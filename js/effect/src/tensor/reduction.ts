/** Reductions: sums, extremes, spreads, and where they are. */

import { dual } from "effect/Function";

import { build, optional, type Any, type Built, type Optional, type ReduceOptions, type With } from "./core.js";

type ReductionOperation = "sum" | "prod" | "mean" | "max" | "min" | "logsumexp" | "any" | "all";

const given = ({ dims = [], keepdims = false }: ReduceOptions = {}) => ({ dims, keepdims });

const reduction = (op: ReductionOperation): Optional<ReduceOptions> =>
  optional(op, (self, options: ReduceOptions | undefined) =>
    build(op, () => ({ op, inputs: [self], attributes: given(options) })),
  );

/**
 * The sum over axes, all by default.
 *
 * Fails for an axis that is not there, as all reductions do.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const rows = Effect.gen(function*() {
 *   const x = yield* Tensor.reshape(yield* Tensor.arange(6), [2, 3])
 *   return yield* Tensor.toNumberArray(yield* Tensor.sum(x, { dims: [-1] })) // [3, 12]
 * })
 *
 * await Effect.runPromise(rows.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const sum: Optional<ReduceOptions> = reduction("sum");
/** The product over axes, all by default. */
export const prod: Optional<ReduceOptions> = reduction("prod");
/** The mean over axes, all by default. */
export const mean: Optional<ReduceOptions> = reduction("mean");
/** The largest element over axes, all by default; NaN counts as largest. Fails over no elements. */
export const max: Optional<ReduceOptions> = reduction("max");
/** The smallest element over axes, all by default; NaN counts as smallest. Fails over no elements. */
export const min: Optional<ReduceOptions> = reduction("min");
/** `log(sum(e^x))` over axes, all by default, without overflow. */
export const logsumexp: Optional<ReduceOptions> = reduction("logsumexp");
/** 1 where an element over axes is not 0, else 0, in `u8`. */
export const any: Optional<ReduceOptions> = reduction("any");
/** 1 where no element over axes is 0, else 0, in `u8`. */
export const all: Optional<ReduceOptions> = reduction("all");

/** Options of `variance` and `std`. */
export interface VarianceOptions extends ReduceOptions {
  /** What the number of elements is lessened by in the divisor; 1 by default, 0 for a whole population. */
  readonly correction?: number;
}

const spread = (op: "variance" | "std"): Optional<VarianceOptions> =>
  optional(op, (self, options: VarianceOptions | undefined) =>
    build(op, () => ({ op, inputs: [self], attributes: { ...given(options), correction: options?.correction ?? 1 } })),
  );

/** The variance over axes, all by default. */
export const variance: Optional<VarianceOptions> = spread("variance");
/** The standard deviation over axes, all by default. */
export const std: Optional<VarianceOptions> = spread("std");

/** Options of `norm`. */
export interface NormOptions extends ReduceOptions {
  /** The order: 2 by default, `Infinity` for the largest magnitude. */
  readonly ord?: number;
}

/** `sum(|x|^ord)^(1 / ord)` over axes, all by default. */
export const norm: Optional<NormOptions> = optional("norm", (self, options: NormOptions | undefined) =>
  build("norm", () => ({ op: "norm", inputs: [self], attributes: { ...given(options), ord: options?.ord ?? 2 } })),
);

const along = (op: "argmax" | "argmin" | "cumsum"): With<number> =>
  dual(2, (self: Any, dim: number): Built => build(op, { op, inputs: [self], attributes: { dim } }));

/** The place of the first largest element along an axis, in `i64`. */
export const argmax: With<number> = along("argmax");
/** The place of the first smallest element along an axis, in `i64`. */
export const argmin: With<number> = along("argmin");
/** The sum of all elements up to each one along an axis. */
export const cumsum: With<number> = along("cumsum");
