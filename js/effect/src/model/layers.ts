/** Layers with parameters. Their first weights are normal with a variance of 1 by the number of inputs, their biases 0. */
import { Effect } from "effect";
import { describe } from "lanthorn/raw";

import type * as Runtime from "../runtime.js";
import * as Tensor from "../tensor.js";
import { build, checkOptions, fault, type Model, type ModelError } from "./definition.js";

/**
 * `x weight + bias` over the last axis: `weight [inFeatures, outFeatures]`, `bias [outFeatures]`.
 *
 * Parameters: `<name>.weight`, `<name>.bias`.
 */
export const linear = (name: string, inFeatures: number, outFeatures: number): Effect.Effect<Model, ModelError> =>
  Effect.gen(function*() {
    yield* checkName("linear", name);
    yield* checkSizes("linear", { inFeatures, outFeatures });
    const shape = [inFeatures, outFeatures];
    return build({
      parameters: [
        { name: `${name}.weight`, shape },
        { name: `${name}.bias`, shape: [outFeatures] },
      ],
      init: weightAndBias(shape, inFeatures, outFeatures),
      forward: ([weight, bias], input) => Tensor.linear(input, weight as Tensor.Any, bias as Tensor.Any),
    });
  });

/**
 * Convolution of `[batch, inChannels, length]`: `weight [outChannels, inChannels / groups, kernelSize]`,
 * `bias [outChannels]`.
 *
 * Parameters: `<name>.weight`, `<name>.bias`.
 */
export const conv1d = (
  name: string,
  inChannels: number,
  outChannels: number,
  kernelSize: number,
  options: Tensor.ConvOptions = {},
): Effect.Effect<Model, ModelError> => convolution("conv1d", name, inChannels, outChannels, [kernelSize], options);

/**
 * Convolution of `[batch, inChannels, height, width]`: `weight [outChannels, inChannels / groups, height, width]`,
 * `bias [outChannels]`. A kernel of one size is square.
 *
 * Parameters: `<name>.weight`, `<name>.bias`.
 */
export const conv2d = (
  name: string,
  inChannels: number,
  outChannels: number,
  kernelSize: number | readonly [number, number],
  options: Tensor.ConvOptions = {},
): Effect.Effect<Model, ModelError> => {
  const kernel: ReadonlyArray<number> = Array.isArray(kernelSize) ? [...kernelSize] : [kernelSize, kernelSize];
  if (kernel.length !== 2) return fault("conv2d", `kernelSize is a list of ${kernel.length}, expected a number or 2 of them`);
  return convolution("conv2d", name, inChannels, outChannels, kernel, options);
};

/**
 * Rows of `weight [numEmbeddings, embeddingDim]` by number, of any shape of numbers. The row of `paddingIndex` is 0 at first
 * and gets no gradient. First values are standard normal.
 *
 * Parameter: `<name>.weight`.
 */
export const embedding = (
  name: string,
  numEmbeddings: number,
  embeddingDim: number,
  options: { readonly paddingIndex?: number } = {},
): Effect.Effect<Model, ModelError> =>
  Effect.gen(function*() {
    yield* checkName("embedding", name);
    yield* checkOptions("embedding", options);
    yield* checkSizes("embedding", { numEmbeddings, embeddingDim });
    const { paddingIndex } = options;
    if (paddingIndex !== undefined && !(Number.isInteger(paddingIndex) && paddingIndex >= 0 && paddingIndex < numEmbeddings)) {
      return yield* fault("embedding", `paddingIndex is ${describe(paddingIndex)}, expected an integer from 0 to ${numEmbeddings - 1}`);
    }
    const shape = [numEmbeddings, embeddingDim];
    return build({
      parameters: [{ name: `${name}.weight`, shape }],
      init: Effect.gen(function*() {
        const weight = yield* Tensor.randn(shape);
        if (paddingIndex === undefined) return [weight];
        const kept = Float32Array.from({ length: numEmbeddings }, (_, row) => (row === paddingIndex ? 0 : 1));
        return [yield* Tensor.mul(weight, yield* Tensor.fromTypedArray(kept, [numEmbeddings, 1]))];
      }),
      forward: ([weight], indexes) =>
        Tensor.embedding(indexes, {
          weight: weight as Tensor.Any,
          ...(paddingIndex === undefined ? {} : { paddingIndex }),
        }),
    });
  });

/**
 * Rows of `weight [maxPositions, embeddingDim]` by position: `[length, embeddingDim]` for an input whose last axis is of
 * that length. What the input holds does not matter. First values are standard normal.
 *
 * Parameter: `<name>.weight`.
 */
export const positionEmbedding = (
  name: string,
  maxPositions: number,
  embeddingDim: number,
): Effect.Effect<Model, ModelError> =>
  Effect.gen(function*() {
    yield* checkName("positionEmbedding", name);
    yield* checkSizes("positionEmbedding", { maxPositions, embeddingDim });
    const shape = [maxPositions, embeddingDim];
    return build({
      parameters: [{ name: `${name}.weight`, shape }],
      init: Effect.map(Tensor.randn(shape), (weight) => [weight]),
      forward: ([weight], input) => {
        const length = input.shape.at(-1);
        const refused = (message: string) => fault("positionEmbedding", `${name}: ${message}`);
        if (length === undefined) return refused("the input is of rank 0, expected an axis of positions");
        if (length > maxPositions) return refused(`a length of ${length} exceeds maxPositions, which is ${maxPositions}`);
        return Tensor.positionEmbedding(weight as Tensor.Any, length);
      },
    });
  });

/**
 * Normalisation over the last axes (Ba, Kiros and Hinton 2016), whose sizes are `normalizedShape`, then `weight` and `bias`
 * of that shape, at first 1 and 0. `eps` is 1e-5 if left out.
 *
 * Parameters: `<name>.weight`, `<name>.bias`.
 */
export const layerNorm = (
  name: string,
  normalizedShape: number | ReadonlyArray<number>,
  options: { readonly eps?: number } = {},
): Effect.Effect<Model, ModelError> =>
  Effect.gen(function*() {
    yield* checkName("layerNorm", name);
    yield* checkOptions("layerNorm", options);
    const shape: ReadonlyArray<number> = Array.isArray(normalizedShape) ? [...normalizedShape] : [normalizedShape];
    if (shape.length === 0) return yield* fault("layerNorm", "normalizedShape is empty");
    for (const size of shape) yield* checkSizes("layerNorm", { "a size of normalizedShape": size });
    const { eps = 1e-5 } = options;
    if (!(typeof eps === "number" && eps > 0 && eps < Infinity)) return yield* fault("layerNorm", `eps is ${describe(eps)}, expected a number above 0`);
    return build({
      parameters: [
        { name: `${name}.weight`, shape },
        { name: `${name}.bias`, shape },
      ],
      init: Effect.all([Tensor.ones(shape), Tensor.zeros(shape)]),
      forward: ([weight, bias], input) => normalized(input, weight as Tensor.Any, bias as Tensor.Any, shape, eps),
    });
  });

/** `Tensor.layerNorm` is over the last axis: more axes are one of their product. */
function normalized(input: Tensor.Any, weight: Tensor.Any, bias: Tensor.Any, shape: ReadonlyArray<number>, eps: number) {
  return Effect.gen(function*() {
    if (shape.length === 1) return yield* Tensor.layerNorm(input, weight, bias, eps);
    const outer = input.shape.slice(0, -shape.length);
    const own = input.shape.slice(-shape.length);
    if (own.length !== shape.length || own.some((size, at) => size !== shape[at])) {
      return yield* fault("layerNorm", `the input is of shape [${input.shape}], expected [.., ${shape.join(", ")}]`);
    }
    const count = shape.reduce((product, size) => product * size, 1);
    const flat = yield* Tensor.layerNorm(
      yield* Tensor.reshape(input, [...outer, count]),
      yield* Tensor.reshape(weight, [count]),
      yield* Tensor.reshape(bias, [count]),
      eps,
    );
    return yield* Tensor.reshape(flat, input.shape);
  });
}

function convolution(
  op: "conv1d" | "conv2d",
  name: string,
  inChannels: number,
  outChannels: number,
  kernel: ReadonlyArray<number>,
  options: Tensor.ConvOptions,
): Effect.Effect<Model, ModelError> {
  return Effect.gen(function*() {
    yield* checkOptions(op, options);
    const { stride = 1, padding = 0, dilation = 1, groups = 1 } = options;
    yield* checkName(op, name);
    yield* checkSizes(op, { inChannels, outChannels, stride, dilation, groups });
    for (const size of kernel) yield* checkSizes(op, { kernelSize: size });
    if (!Number.isInteger(padding) || padding < 0) {
      return yield* fault(op, `padding is ${describe(padding)}, expected an integer of at least 0`);
    }
    if (inChannels % groups !== 0 || outChannels % groups !== 0) {
      return yield* fault(op, `${inChannels} and ${outChannels} channels are not divisible into ${groups} groups`);
    }
    const shape = [outChannels, inChannels / groups, ...kernel];
    const inputs = shape.slice(1).reduce((product, size) => product * size, 1);
    return build({
      parameters: [
        { name: `${name}.weight`, shape },
        { name: `${name}.bias`, shape: [outChannels] },
      ],
      init: weightAndBias(shape, inputs, outChannels),
      forward: ([weight, bias], input) =>
        Effect.gen(function*() {
          const output = yield* Tensor[op](input, weight as Tensor.Any, options);
          const along = [1, outChannels, ...kernel.map(() => 1)];
          return yield* Tensor.add(output, yield* Tensor.reshape(bias as Tensor.Any, along));
        }),
    });
  });
}

/** First values of a weight each of whose outputs has so many inputs, and of a bias. */
export function weightAndBias(
  shape: ReadonlyArray<number>,
  inputs: number,
  outputs: number,
): Effect.Effect<readonly [Tensor.Any, Tensor.Any], Tensor.TensorError, Runtime.Runtime> {
  return Effect.gen(function*() {
    return [yield* firstWeight(shape, inputs), yield* Tensor.zeros([outputs])] as const;
  });
}

/** First values of a weight each of whose outputs has so many inputs. */
export function firstWeight(
  shape: ReadonlyArray<number>,
  inputs: number,
): Effect.Effect<Tensor.Any, Tensor.TensorError, Runtime.Runtime> {
  return Effect.gen(function*() {
    const drawn = yield* Tensor.randn([...shape]);
    return yield* Tensor.mul(drawn, yield* Tensor.constantLike(drawn, 1 / Math.sqrt(inputs)));
  });
}

export function checkName(op: string, name: string): Effect.Effect<void, ModelError> {
  if (typeof (name as unknown) !== "string") return fault(op, `the name is ${describe(name)}, expected the name of the layer`);
  return name === "" ? fault(op, "the name is empty, expected the name of the layer") : Effect.void;
}

export function checkSizes(op: string, sizes: Readonly<Record<string, number>>): Effect.Effect<void, ModelError> {
  for (const [name, size] of Object.entries(sizes)) {
    if (!Number.isInteger(size) || size <= 0) return fault(op, `${name} is ${describe(size)}, expected a positive integer`);
  }
  return Effect.void;
}
