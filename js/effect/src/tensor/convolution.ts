/** Convolution and pooling over images and sequences, in the layout `[batch, channels, ..]` but for `shortConv1d`. */

import { dual } from "effect/Function";

import { build, guarded, isDataFirst, type Any, type Built } from "./core.js";

/** Options of convolutions; the same along each axis. */
export interface ConvOptions {
  /** How far the kernel moves; 1 by default. */
  readonly stride?: number;
  /** Zeros before and after; 0 by default. */
  readonly padding?: number;
  /** The distance of the kernel's elements; 1 by default. */
  readonly dilation?: number;
  /** Parts of the channels that do not see each other; 1 by default. */
  readonly groups?: number;
}

/** Options of transposed convolutions. */
export interface ConvTransposeOptions extends ConvOptions {
  /** What the result is larger by at the end; 0 by default. */
  readonly outputPadding?: number;
}

/** A function of a tensor, a weight and options that may be left out. */
interface Weighted<Options> {
  (weight: Any, options?: Options): (self: Any) => Built;
  (self: Any, weight: Any, options?: Options): Built;
}

const given = ({ stride = 1, padding = 0, dilation = 1, groups = 1 }: ConvOptions = {}) => ({
  stride,
  padding,
  dilation,
  groups,
});

const convolution = (op: "conv1d" | "conv2d"): Weighted<ConvOptions> =>
  dual(isDataFirst, (self: Any, weight: Any, options?: ConvOptions) =>
    build(op, () => ({ op, inputs: [self, weight], attributes: given(options) })),
  );

const transposed = (op: "convTranspose1d" | "convTranspose2d"): Weighted<ConvTransposeOptions> =>
  dual(isDataFirst, (self: Any, weight: Any, options?: ConvTransposeOptions) =>
    build(op, () => ({
      op,
      inputs: [self, weight],
      attributes: { ...given(options), outputPadding: options?.outputPadding ?? 0 },
    })),
  );

/** The correlation of `[batch, in, length]` with `[out, in / groups, kernel]`. */
export const conv1d: Weighted<ConvOptions> = convolution("conv1d");
/** The correlation of `[batch, in, height, width]` with `[out, in / groups, kernel height, kernel width]`. */
export const conv2d: Weighted<ConvOptions> = convolution("conv2d");
/** The transpose of `conv1d`: `[batch, in, length]` with `[in, out / groups, kernel]`. */
export const convTranspose1d: Weighted<ConvTransposeOptions> = transposed("convTranspose1d");
/** The transpose of `conv2d`: `[batch, in, height, width]` with `[in, out / groups, kernel height, kernel width]`. */
export const convTranspose2d: Weighted<ConvTransposeOptions> = transposed("convTranspose2d");

/**
 * The causal convolution of each channel by itself: `self [batch, seq, channels]` with `weight [channels, kernel]`, of the
 * shape of `self`. The last tap is that of the step itself, and zeros come before the first step.
 *
 * Use it before a recurrence, as Mamba and Kimi Linear do (Gu and Dao 2023; Kimi Team 2025). Note the layout, which is not
 * that of the other convolutions. Fails for other ranks and another number of channels. A decode program keeps the last
 * `kernel - 1` steps of each sequence, and so goes on where the last call ended.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const x = yield* Tensor.fromTypedArray(Float32Array.of(1, 2, 3), [1, 3, 1])
 *   const weight = yield* Tensor.fromTypedArray(Float32Array.of(10, 1), [1, 2])
 *   assert.deepEqual(yield* Tensor.toNumberArray(yield* Tensor.shortConv1d(x, weight)), [1, 12, 23])
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const shortConv1d = (self: Any, weight: Any): Built =>
  build("shortConv1d", { op: "shortConv1d", inputs: [self, weight], attributes: {} });

/** Options of pooling. */
export interface PoolOptions {
  /** The size of a window, or its height and width. */
  readonly kernelSize: number | readonly [number, number];
  /** How far the window moves; its size by default. */
  readonly stride?: number | readonly [number, number];
  /** What is added before and after, which is never a maximum; 0 by default. */
  readonly padding?: number;
}

const both = (value: number | readonly [number, number]): readonly [number, number] =>
  typeof value === "number" ? [value, value] : value;

const pooling = (op: "maxPool2d" | "avgPool2d") =>
  guarded(op, (self: Any, options: PoolOptions): Built => {
    const { kernelSize, stride = kernelSize, padding = 0 } = options;
    const attributes = { kernelSize: both(kernelSize), stride: both(stride), padding };
    return build(op, { op, inputs: [self], attributes });
  });

/** The largest element of each window of `[batch, channels, height, width]`. */
export const maxPool2d: (self: Any, options: PoolOptions) => Built = pooling("maxPool2d");
/** The mean of each window of `[batch, channels, height, width]`; zeros that were added count. */
export const avgPool2d: (self: Any, options: PoolOptions) => Built = pooling("avgPool2d");
