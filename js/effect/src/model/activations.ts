/** Layers without parameters: activations, `softmax`, `flatten`, `dropout` and pooling. */
import { Effect } from "effect";
import { describe } from "lanthorn/raw";

import { isRecord } from "../record.js";
import type * as Runtime from "../runtime.js";
import * as Tensor from "../tensor.js";
import { build, fault, type Model, type ModelError } from "./definition.js";

type Unary = (input: Tensor.Any) => Effect.Effect<Tensor.Lazy, Tensor.TensorError, Runtime.Runtime>;

/** A model of an op; each use makes one of its own, with programs of its own. */
const ofOp = (op: Unary): Effect.Effect<Model> =>
  Effect.sync(() => build({ parameters: [], forward: (_, input) => op(input) }));

/** `Tensor.tanh` as a model. */
export const tanh: Effect.Effect<Model> = ofOp(Tensor.tanh);

/** `Tensor.sigmoid` as a model. */
export const sigmoid: Effect.Effect<Model> = ofOp(Tensor.sigmoid);

/** `Tensor.relu` as a model. */
export const relu: Effect.Effect<Model> = ofOp(Tensor.relu);

/** `Tensor.silu` as a model. */
export const silu: Effect.Effect<Model> = ofOp(Tensor.silu);

/** `Tensor.mish` as a model. */
export const mish: Effect.Effect<Model> = ofOp(Tensor.mish);

/** `Tensor.softplus` as a model. */
export const softplus: Effect.Effect<Model> = ofOp(Tensor.softplus);

/** `Tensor.gelu` as a model. */
export const gelu = (options?: Tensor.GeluOptions): Effect.Effect<Model> => ofOp((x) => Tensor.gelu(x, options));

/** `Tensor.elu` as a model. */
export const elu = (options?: Tensor.EluOptions): Effect.Effect<Model> => ofOp((x) => Tensor.elu(x, options));

/** `Tensor.leakyRelu` as a model. */
export const leakyRelu = (options?: Tensor.LeakyReluOptions): Effect.Effect<Model> =>
  ofOp((x) => Tensor.leakyRelu(x, options));

/** `Tensor.softmax` over an axis, the last one if left out, as a model. */
export const softmax = (dim = -1): Effect.Effect<Model> => ofOp((x) => Tensor.softmax(x, { dims: [dim] }));

/** `Tensor.logSoftmax` over an axis, the last one if left out, as a model. */
export const logSoftmax = (dim = -1): Effect.Effect<Model> => ofOp((x) => Tensor.logSoftmax(x, { dims: [dim] }));

/** Axes `startDim` to `endDim` as one; all but the first if left out, so that a batch stays a batch. */
export const flatten = (options: { readonly startDim?: number; readonly endDim?: number } = {}): Effect.Effect<Model> =>
  ofOp((x) => Tensor.flatten(x, { startDim: 1, ...options }));

/**
 * `Tensor.dropout` as a model, 0.5 if left out. It always drops: a model for evaluation is one without it, whose parameters
 * are the same. Fails with `ModelError` where `p` is not in [0, 1).
 */
export const dropout = (options: Tensor.DropoutOptions = {}): Effect.Effect<Model, ModelError> => {
  if (!isRecord(options)) return fault("dropout", `the options are ${describe(options)}, expected an object`);
  const { p = 0.5 } = options;
  if (!(typeof p === "number" && p >= 0 && p < 1)) return fault("dropout", `p is ${describe(p)}, expected a number in [0, 1)`);
  return ofOp((x) => Tensor.dropout(x, { p }));
};

/** `Tensor.maxPool2d` as a model. Fails with `ModelError` for settings that are none. */
export const maxPool2d = (options: Tensor.PoolOptions): Effect.Effect<Model, ModelError> =>
  Effect.andThen(checkPool("maxPool2d", options), ofOp((x) => Tensor.maxPool2d(x, options)));

/** `Tensor.avgPool2d` as a model. Fails with `ModelError` for settings that are none. */
export const avgPool2d = (options: Tensor.PoolOptions): Effect.Effect<Model, ModelError> =>
  Effect.andThen(checkPool("avgPool2d", options), ofOp((x) => Tensor.avgPool2d(x, options)));

function checkPool(op: string, options: Tensor.PoolOptions): Effect.Effect<void, ModelError> {
  if (!isRecord(options)) return fault(op, `the options are ${describe(options)}, expected an object with kernelSize`);
  const { kernelSize, stride = kernelSize, padding = 0 } = options;
  for (const [name, value] of Object.entries({ kernelSize, stride })) {
    const sizes: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value];
    if (sizes.every((size) => Number.isInteger(size) && (size as number) > 0)) continue;
    return fault(op, `${name} is ${sizes.map(describe).join(" by ")}, expected positive integers`);
  }
  if (Number.isInteger(padding) && padding >= 0) return Effect.void;
  return fault(op, `padding is ${describe(padding)}, expected an integer of at least 0`);
}
