/** Losses: how far predictions are from targets. Each has a reduction, `"mean"` by default. */

import { Effect } from "effect";
import { dual } from "effect/Function";

import type { LossReduction } from "./operation-map.js";
import type * as Runtime from "./runtime.js";
import { build, failure, guarded, isDataFirst, named, type Built } from "./tensor/core.js";
import { broadcastTo } from "./tensor/movement.js";
import { classDTypes, isClassDType } from "./tensor/network.js";
import type { Any, Lazy, TensorError } from "./tensor.js";

/** How the terms of a loss are put together: their mean, their sum, or not at all. */
export type Reduction = LossReduction;

/** Options of losses. */
export interface LossOptions {
  /** `"mean"` by default, which `Gradient.grad` takes as it is. */
  readonly reduction?: Reduction;
}

/** A loss of predictions and targets. */
interface Loss<Options> {
  (target: Any, options?: Options | undefined): (pred: Any) => Built;
  (pred: Any, target: Any, options?: Options | undefined): Built;
}

const loss = <Options>(
  name: string,
  body: (pred: Any, target: Any, options: Options | undefined) => Built,
): Loss<Options> => dual(isDataFirst, guarded(name, body));

const reductionOf = (options: LossOptions | undefined): Reduction => options?.reduction ?? "mean";

/** The shape to which two shapes broadcast; where they do not, the first, so that the engine refuses the second. */
function joint(first: ReadonlyArray<number>, second: ReadonlyArray<number>): ReadonlyArray<number> {
  const rank = Math.max(first.length, second.length);
  const size = (shape: ReadonlyArray<number>, axis: number) => shape[axis - rank + shape.length] ?? 1;
  return Array.from({ length: rank }, (_, axis) => (size(first, axis) === 1 ? size(second, axis) : size(first, axis)));
}

const fitted = (self: Any, shape: ReadonlyArray<number>): Effect.Effect<Any, TensorError, Runtime.Runtime> =>
  self.shape.length === shape.length && self.shape.every((size, axis) => size === shape[axis])
    ? Effect.succeed(self)
    : broadcastTo(self, shape);

/** Makes a loss of a prediction and a target that were broadcast to one shape. */
const aligned = (name: string, pred: Any, target: Any, make: (pred: Any, target: Any) => Built): Built => {
  const shape = joint(pred.shape, target.shape);
  return named(
    name,
    Effect.flatMap(fitted(pred, shape), (x) => Effect.flatMap(fitted(target, shape), (y) => make(x, y))),
  );
};

const pairLoss = (name: string, op: "mseLoss" | "l1Loss" | "klDiv" | "hingeLoss"): Loss<LossOptions> =>
  loss(name, (pred, target, options) =>
    aligned(name, pred, target, (x, y) =>
      build(name, () => ({ op, inputs: [x, y], attributes: { reduction: reductionOf(options) } })),
    ),
  );

/**
 * `(pred - target)^2`.
 *
 * Use it for numbers. Predictions and targets broadcast; all losses of pairs fail for two dtypes, as `Tensor.add` does.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Loss, Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const loss = yield* Loss.mse(yield* Tensor.arange(3), yield* Tensor.ones([3]))
 *   return yield* Tensor.toNumberArray(loss) // [2 / 3]
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const mse: Loss<LossOptions> = pairLoss("mse", "mseLoss");

/** `|pred - target|`. Use it where large differences are not to weigh more. */
export const l1: Loss<LossOptions> = pairLoss("l1", "l1Loss");

/** Options of `huber`. */
export interface HuberOptions extends LossOptions {
  /** Where the square goes over into a line; 1 by default. */
  readonly delta?: number;
}

/** Half the square of differences up to `delta`, beyond it a line (Huber 1964). */
export const huber: Loss<HuberOptions> = loss("huber", (pred, target, options: HuberOptions | undefined) =>
  aligned("huber", pred, target, (x, y) =>
    build("huber", () => ({
      op: "huberLoss",
      inputs: [x, y],
      attributes: { delta: options?.delta ?? 1, reduction: reductionOf(options) },
    })),
  ),
);

/** Options of `binaryCrossEntropy`. */
export interface BinaryCrossEntropyOptions extends LossOptions {
  /** Whether predictions are logits in the place of probabilities, which is exact for large ones. */
  readonly fromLogits?: boolean;
}

/** `-target log(pred) - (1 - target) log(1 - pred)` of probabilities, or of logits. */
export const binaryCrossEntropy: Loss<BinaryCrossEntropyOptions> = loss(
  "binaryCrossEntropy",
  (pred, target, options: BinaryCrossEntropyOptions | undefined) =>
    aligned("binaryCrossEntropy", pred, target, (x, y) =>
      build("binaryCrossEntropy", () => ({
        op: options?.fromLogits === true ? "binaryCrossEntropyWithLogits" : "binaryCrossEntropy",
        inputs: [x, y],
        attributes: { reduction: reductionOf(options) },
      })),
    ),
);

/** A target that no class has, so that all targets count. */
const NONE_IGNORED = -100;

const classLoss = (name: string, op: "crossEntropy" | "nllLoss"): Loss<LossOptions> =>
  loss(name, (pred, target, options) => {
    if (!isClassDType(target)) return failure(name, classDTypes(target));
    const attributes = { ignoreIndex: NONE_IGNORED, reduction: reductionOf(options) };
    return build(name, { op, inputs: [pred, target], attributes });
  });

/**
 * `-logSoftmax` of logits `[.., classes]` at the ids of classes, `i64` or `u32`, in `target [..]`.
 *
 * Use it to classify. Fails for targets that are not integers; a target out of range is an error when the program runs.
 */
export const crossEntropy: Loss<LossOptions> = classLoss("crossEntropy", "crossEntropy");

/** As `crossEntropy`, of log-probabilities, which `Tensor.logSoftmax` gives, in the place of logits. */
export const nll: Loss<LossOptions> = classLoss("nll", "nllLoss");

/** `target (log(target) - pred)` of log-probabilities and of probabilities; the mean is over all elements. */
export const klDiv: Loss<LossOptions> = pairLoss("klDiv", "klDiv");

/** `max(0, 1 - pred target)` for targets of -1 and 1. */
export const hinge: Loss<LossOptions> = pairLoss("hinge", "hingeLoss");

/** Options of `cosineEmbeddingLoss`. */
export interface CosineEmbeddingOptions extends LossOptions {
  /** The cosine above which vectors that are to differ cost something; 0 by default. */
  readonly margin?: number;
}

/**
 * `1 - cos(a, b)` where the target is 1, and `max(0, cos(a, b) - margin)` where it is -1, for vectors along the last axis:
 * `a`, `b` `[.., size]`, targets `[..]`.
 */
export const cosineEmbeddingLoss = (
  a: Any,
  b: Any,
  targets: Any,
  options?: CosineEmbeddingOptions,
): Effect.Effect<Lazy, TensorError, Runtime.Runtime> =>
  build("cosineEmbeddingLoss", () => ({
    op: "cosineEmbeddingLoss",
    inputs: [a, b, targets],
    attributes: { margin: options?.margin ?? 0, reduction: reductionOf(options) },
  }));
