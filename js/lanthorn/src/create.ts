/** Tensors from JavaScript's own values and from the engine's random sequence. */

import { bytesOf, codeOf, describe, dtypeOf, uploadDType, type DType, type ElementsLike, type Scalar } from "./dtype.js";
import { errorOf } from "./errors.js";
import { OP } from "./generated/table.js";
import { session, type Session } from "./session.js";
import type { Nested, Reading, Tensor } from "./tensor.js";

/** Dtype of a new tensor, and whether it requires gradients. */
export interface TensorOptions {
  dtype?: DType | undefined;
  requiresGrad?: boolean | undefined;
}

/** Options, or only whether gradients are required. */
export type Options = TensorOptions | boolean;

/** Between what uniform values lie. */
export interface UniformOptions extends TensorOptions {
  low?: number | undefined;
  high?: number | undefined;
}

/** How normal values are distributed. */
export interface NormalOptions extends TensorOptions {
  mean?: number | undefined;
  std?: number | undefined;
}

/** The flag of `Raw.create` for a tensor that requires gradients. */
const REQUIRES_GRAD = 1;

/** Options as an object. */
export function optionsOf(options: Options | undefined): TensorOptions {
  return typeof options === "boolean" ? { requiresGrad: options } : (options ?? {});
}

/** Applies the options that an op leaves to its caller. */
export function finish<R extends Reading>(tensor: Tensor<R>, options: Options | undefined): Tensor<R> {
  if (optionsOf(options).requiresGrad === true) tensor.requiresGrad = true;
  return tensor;
}

/** The handle of a new tensor. */
export function create(
  owner: Session,
  data: ElementsLike,
  shape: readonly number[],
  options: TensorOptions,
): number {
  if (!Array.isArray(data) && !ArrayBuffer.isView(data)) {
    throw errorOf("dtype", "fromData", `the data are ${describe(data)}, expected a list or a typed array`);
  }
  const dtype = options.dtype ?? dtypeOf(data);
  const code = codeOf(dtype);
  const uploaded = uploadDType(dtype);
  const bytes = bytesOf(data, uploaded);
  const { raw } = owner;
  owner.putSizes(0, "fromData", shape);
  const flags = options.requiresGrad === true ? REQUIRES_GRAD : 0;
  if (uploaded === dtype) return owner.check(raw.create(code, flags, bytes));
  const source = owner.check(raw.create(codeOf(uploaded), 0, bytes));
  try {
    return cast(owner, source, dtype, flags);
  } finally {
    raw.release(source);
  }
}

/** The handle of a tensor cast and computed: a program that reads it later must see it rounded. */
function cast(owner: Session, source: number, dtype: DType, flags: number): number {
  const { raw } = owner;
  raw.scratch[0] = 1;
  raw.scratch[1] = source;
  owner.putDType(2, dtype);
  const handle = owner.check(raw.op(OP.cast));
  raw.scratch[0] = 1;
  raw.scratch[1] = handle;
  let result = raw.commit();
  if (result >= 0 && flags !== 0) result = raw.requires_grad(handle, 1);
  if (result >= 0) return handle;
  const failure = owner.failure();
  raw.release(handle);
  throw failure;
}

/** Uniform values between `a` and `b`, or for `randn` normal values of mean `a` and standard deviation `b`. */
export function random<R extends Reading>(
  op: "rand" | "randn",
  shape: readonly number[],
  a: number,
  b: number,
  options: Options | undefined,
): Tensor<R> {
  const owner = session();
  owner.putSizes(0, op, shape);
  const code = codeOf(optionsOf(options).dtype ?? "f32");
  return finish(owner.wrap(owner.raw.random(op === "rand" ? 0 : 1, code, a, b)), options);
}

/** Puts the elements of nested lists in row-major order and finds their shape. */
export function flatten(data: Nested, depth: number, shape: number[], elements: Scalar[]): void {
  if (!Array.isArray(data)) {
    if (depth !== shape.length) throw ragged(depth, "a single value", `a list of ${shape[depth]}`);
    elements.push(data as Scalar);
    return;
  }
  const found = `a list of ${data.length}`;
  // The first list of each depth says the size of its axis.
  if (shape.length === depth && elements.length === 0) shape.push(data.length);
  if (depth >= shape.length) throw ragged(depth, found, "a single value");
  if (shape[depth] !== data.length) throw ragged(depth, found, `a list of ${shape[depth]}`);
  for (const part of data as readonly Nested[]) flatten(part, depth + 1, shape, elements);
}

function ragged(depth: number, found: string, expected: string): Error {
  return errorOf("shape", "Tensor", `the nested lists are ragged: ${found} at depth ${depth}, expected ${expected}`);
}
