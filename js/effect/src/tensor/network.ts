/** Operations of neural networks: softmax, normalization, attention, positions, cross-entropy. */

import { Effect } from "effect";

import {
  build,
  failure,
  guarded,
  named,
  optional,
  type Any,
  type Built,
  type Optional,
  type ReduceOptions,
  type With,
} from "./core.js";
import { exp, sub } from "./pointwise.js";
import { logsumexp } from "./reduction.js";
import { dual } from "effect/Function";

/** `x - log(sum(e^x))` over several axes. */
const logSoftmaxOver = (self: Any, dims: ReadonlyArray<number>): Built =>
  Effect.flatMap(logsumexp(self, { dims, keepdims: true }), (total) => sub(self, total));

/**
 * `e^x` in parts of its sum over axes, the last by default. `keepdims` has no meaning here.
 *
 * Use it to make probabilities of scores, and `logSoftmax` where their logarithms are wanted.
 */
export const softmax: Optional<ReduceOptions> = optional("softmax", (self, { dims = [-1] }: ReduceOptions = {}) =>
  dims.length === 1
    ? build("softmax", { op: "softmax", inputs: [self], attributes: { dim: dims[0] as number } })
    : named("softmax", Effect.flatMap(logSoftmaxOver(self, dims), exp)),
);

/** The logarithm of `softmax`, exact where that is near 0. */
export const logSoftmax: Optional<ReduceOptions> = optional(
  "logSoftmax",
  (self, { dims = [-1] }: ReduceOptions = {}) =>
    dims.length === 1
      ? build("logSoftmax", { op: "logSoftmax", inputs: [self], attributes: { dim: dims[0] as number } })
      : named("logSoftmax", logSoftmaxOver(self, dims)),
);

/** Options of `scaledDotProductAttention`. */
export interface ScaledDotProductAttentionOptions {
  /** What scores are multiplied by; `1 / sqrt(head size)` by default. */
  readonly scale?: number;
  /** Whether a token sees only itself and those before it. */
  readonly causal?: boolean;
  /** The most tokens that a token sees, itself included; no limit by default. */
  readonly window?: number | null;
}

/**
 * `softmax(scale q k^T) v`, of `q [.., heads, queries, size]` and `k`, `v` `[.., heads, keys, size]`.
 *
 * Heads of `k` and `v` may be fewer and divide those of `q`. A causal attention over one sequence is what `Model.inference`
 * and `compileDecodeProgram` cache.
 */
export const scaledDotProductAttention = guarded(
  "scaledDotProductAttention",
  (q: Any, k: Any, v: Any, options: ScaledDotProductAttentionOptions = {}): Built => {
    const { causal = false, window = null, scale } = options;
    if (window !== null && !(Number.isInteger(window) && window > 0)) {
      return failure("scaledDotProductAttention", `the window is ${window}, expected a whole number above 0`);
    }
    return build("scaledDotProductAttention", {
      op: "scaledDotProductAttention",
      inputs: [q, k, v],
      attributes: { causal, window, ...(scale !== undefined && { scale }) },
    });
  },
);

/** Vectors along the last axis with mean 0 and variance 1, times `weight` plus `bias`. `eps` is 1e-5 by default. */
export const layerNorm = (self: Any, weight: Any, bias: Any, eps: number = 1e-5): Built =>
  build("layerNorm", { op: "layerNorm", inputs: [self, weight, bias], attributes: { eps } });

/** Vectors along the last axis with a mean square of 1, times `weight` if there is one. `eps` is 1e-5 by default. */
export const rmsNorm = (self: Any, weight?: Any, eps: number = 1e-5): Built =>
  build("rmsNorm", { op: "rmsNorm", inputs: weight === undefined ? [self] : [self, weight], attributes: { eps } });

/**
 * The rows of `weight`, `[positions, width]`, at the first `seqLen` positions: `[seqLen, width]`.
 *
 * In a decode program the positions are those of the tokens in their sequence. Fails for more positions than rows.
 */
export const positionEmbedding = guarded("positionEmbedding", (weight: Any, seqLen: number): Built => {
  const rows = weight.shape[0] ?? 0;
  if (seqLen > rows) return failure("positionEmbedding", `there are ${rows} rows for ${seqLen} positions`);
  return build("positionEmbedding", { op: "positionEmbedding", inputs: [weight], attributes: { seqLen } });
});

/** Options of `rotaryEmbedding`. */
export interface RotaryEmbeddingOptions {
  /** Which elements turn together: `i` and `i + size / 2`, the default, or `2 i` and `2 i + 1`. */
  readonly layout?: "HalfSplit" | "InterleavedPairs";
}

/**
 * Pairs of elements of `self [.., seqLen, size]` turned by angles that grow with the position (Su et al. 2021).
 *
 * `theta` is the base of the angles, often 10000. In a decode program the positions are those of the tokens in their
 * sequence. Fails for an odd size, and where the axis before the last is not of size `seqLen`.
 */
export const rotaryEmbedding = guarded(
  "rotaryEmbedding",
  (self: Any, seqLen: number, theta: number, options?: RotaryEmbeddingOptions): Built => {
    const found = self.shape.at(-2);
    if (found !== seqLen) {
      return failure(
        "rotaryEmbedding",
        `the axis before the last is of size ${found}, and there are ${seqLen} positions`,
      );
    }
    const layout = options?.layout ?? "HalfSplit";
    return build("rotaryEmbedding", { op: "rotaryEmbedding", inputs: [self], attributes: { seqLen, theta, layout } });
  },
);

/** Options of `crossEntropy`. */
export interface CrossEntropyOptions {
  /** Ids of classes, `i64` or `u32`, of the shape of the logits without the last axis. */
  readonly target: Any;
  /** A target that does not count; -100 by default. */
  readonly ignoreIndex?: number;
}

/**
 * The mean of `-logSoftmax` of logits `[.., classes]` at their targets.
 *
 * Use `Loss.crossEntropy` for other reductions. Fails for targets that are not integers; a target out of range is an error
 * when the program runs.
 */
export const crossEntropy: With<CrossEntropyOptions> = dual(
  2,
  guarded("crossEntropy", (self: Any, options: CrossEntropyOptions) => {
    const { target, ignoreIndex = -100 } = options;
    if (!isClassDType(target)) return failure("crossEntropy", classDTypes(target));
    return build("crossEntropy", { op: "crossEntropy", inputs: [self, target], attributes: { ignoreIndex } });
  }),
);

/** Whether a tensor may hold ids of classes. */
export const isClassDType = ({ dtype }: Any): boolean => dtype === "i64" || dtype === "u32";

/** What is wrong with targets that are no ids of classes. */
export const classDTypes = ({ dtype }: Any): string => `targets have dtype ${dtype}, expected i64 or u32`;
