/** Tensors out of numbers, and out of nothing. */

import { bytesOf, describe, type ElementsLike } from "lanthorn/raw";

import {
  build,
  failure,
  guarded,
  type Any,
  type Built,
  type DType,
  type FloatDType,
  type TensorOptions,
  type TypedArray,
} from "./core.js";

const DEFAULT = "f32";

/**
 * A number as a tensor of rank 0.
 *
 * Use `constantLike` where it is to fit an existing tensor. Fails for a number that the dtype cannot hold.
 */
export const constant = (value: number, options?: TensorOptions): Built =>
  build("constant", () => ({ op: "constant", inputs: [], attributes: { value, dtype: options?.dtype ?? DEFAULT } }));

/**
 * A number as a tensor of rank 0 of another tensor's dtype and placement.
 *
 * Use it for the numbers of a formula: numbers are no operands by themselves.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const doubled = Effect.gen(function*() {
 *   const x = yield* Tensor.arange(3)
 *   const y = yield* Tensor.mul(x, yield* Tensor.constantLike(x, 2))
 *   return yield* Tensor.toNumberArray(y) // [0, 2, 4]
 * })
 *
 * await Effect.runPromise(doubled.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const constantLike = (self: Any, value: number): Built =>
  build("constantLike", () => ({ op: "constant", inputs: [self], attributes: { value, dtype: self.dtype } }));

/** Zeros of a shape. */
export const zeros = (shape: ReadonlyArray<number>, options?: TensorOptions): Built =>
  build("zeros", () => ({ op: "zeros", inputs: [], attributes: { shape, dtype: options?.dtype ?? DEFAULT } }));

/** Ones of a shape. */
export const ones = (shape: ReadonlyArray<number>, options?: TensorOptions): Built =>
  build("ones", () => ({ op: "ones", inputs: [], attributes: { shape, dtype: options?.dtype ?? DEFAULT } }));

/** One value at every place of a shape. Fails for a value that the dtype cannot hold. */
export const full = (shape: ReadonlyArray<number>, value: number, options?: TensorOptions): Built =>
  build("full", () => ({ op: "full", inputs: [], attributes: { shape, value, dtype: options?.dtype ?? DEFAULT } }));

/** Zeros of another tensor's shape, dtype and placement. */
export const zerosLike = (self: Any): Built =>
  build("zerosLike", () => ({ op: "zeros", inputs: [self], attributes: { shape: self.shape, dtype: self.dtype } }));

/** Ones of another tensor's shape, dtype and placement. */
export const onesLike = (self: Any): Built =>
  build("onesLike", () => ({ op: "ones", inputs: [self], attributes: { shape: self.shape, dtype: self.dtype } }));

/** One value at every place of another tensor's shape, in its dtype and placement. */
export const fullLike = (self: Any, value: number): Built =>
  build("fullLike", () => ({
    op: "full",
    inputs: [self],
    attributes: { shape: self.shape, value, dtype: self.dtype },
  }));

/**
 * Numbers of the normal distribution with mean 0 and deviation 1.
 *
 * They are drawn anew whenever a program runs; roots that are computed together see the same ones.
 */
export const randn = (shape: ReadonlyArray<number>, options?: { readonly dtype?: FloatDType }): Built =>
  build("randn", () => ({ op: "randn", inputs: [], attributes: { shape, dtype: options?.dtype ?? DEFAULT } }));

/**
 * Numbers evenly distributed from `min`, 0 by default, up to and without `max`, 1 by default.
 *
 * They are drawn anew whenever a program runs; roots that are computed together see the same ones.
 */
export const uniform = guarded(
  "uniform",
  (
    shape: ReadonlyArray<number>,
    options?: { readonly min?: number; readonly max?: number; readonly dtype?: FloatDType },
  ): Built => {
    const { min = 0, max = 1, dtype = DEFAULT } = options ?? {};
    return build("uniform", { op: "uniform", inputs: [], attributes: { shape, lo: min, hi: max, dtype } });
  },
);

/** `steps` evenly spaced numbers from `start` to `end`, both included. The dtype is a float's. */
export const linspace = (start: number, end: number, steps: number, options?: TensorOptions): Built =>
  build("linspace", () => ({
    op: "linspace",
    inputs: [],
    attributes: { start, end, steps, dtype: options?.dtype ?? DEFAULT },
  }));

/**
 * `start`, `start + step` and on, up to and without `end`; with one number from 0 to that.
 *
 * Fails for a step of 0, and for numbers that the dtype cannot hold.
 */
export const arange = guarded(
  "arange",
  (start: number, end?: number, options?: { readonly step?: number; readonly dtype?: DType }): Built => {
    const { step = 1, dtype = DEFAULT } = options ?? {};
    const [first, last] = end === undefined ? [0, start] : [start, end];
    return build("arange", { op: "arange", inputs: [], attributes: { start: first, end: last, step, dtype } });
  },
);

/** The identity matrix of `n` rows. */
export const eye = (n: number, options?: TensorOptions): Built =>
  build("eye", () => ({ op: "eye", inputs: [], attributes: { n, dtype: options?.dtype ?? DEFAULT } }));

/** The dtype of each class of arrays. `Float16Array` is not there in every engine of JavaScript. */
const DTYPES: ReadonlyArray<readonly [class_: unknown, dtype: DType]> = [
  [Float32Array, "f32"],
  [Float64Array, "f64"],
  [BigInt64Array, "i64"],
  [Uint8Array, "u8"],
  [Uint32Array, "u32"],
  [(globalThis as { readonly Float16Array?: unknown }).Float16Array, "f16"],
];

/**
 * The elements of a typed array, whose class tells the dtype, in row-major order. They are copied.
 *
 * The shape is `[data.length]` by default; it fails for one of another number of elements. `Float16Array` is `f16`; make
 * `bf16` by `cast`.
 */
export const fromTypedArray = guarded(
  "fromTypedArray",
  (data: TypedArray, shape: ReadonlyArray<number> = [data.length]): Built => {
    const dtype = DTYPES.find(([Class]) => typeof Class === "function" && data instanceof Class)?.[1];
    if (dtype === undefined) {
      const classes = "Float32Array, Float64Array, Float16Array, BigInt64Array, Uint8Array or Uint32Array";
      return failure("fromTypedArray", `got ${describe(data)}, expected a ${classes}`);
    }
    const count = shape.reduce((product, size) => product * size, 1);
    if (count !== data.length) {
      return failure(
        "fromTypedArray",
        `the shape [${shape.join(", ")}] has ${count} elements, and the data ${data.length}`,
      );
    }
    const bytes =
      dtype === "f16"
        ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
        : bytesOf(data as ElementsLike, dtype);
    return build("fromTypedArray", { op: "fromBytes", inputs: [], attributes: { data: bytes, shape, dtype } });
  },
);
