/** Tensors from JavaScript's own values and from the engine's random sequence. */

import { bytesOf, codeOf, describe, dtypeOf, uploadDType, type DType, type ElementsLike, type Scalar } from "./dtype.js";
import { errorOf } from "./errors.js";
import { OP } from "./generated/table.js";
import { listOf, session, type Session } from "./session.js";
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

/** Options as an object of ours. Each is read once: it may be a getter. */
export function optionsOf(op: string, options: Options | undefined): TensorOptions {
  if (options === undefined || options === null) return {};
  if (typeof options === "boolean") return { requiresGrad: options };
  if (typeof options !== "object") {
    throw errorOf("dtype", op, `the options are ${describe(options)}, expected an object, or true or false`);
  }
  const { dtype, requiresGrad } = options;
  if (requiresGrad !== undefined) expectBoolean(op, "requiresGrad", requiresGrad);
  return { dtype, requiresGrad };
}

/** Throws for what is neither true nor false. */
export function expectBoolean(op: string, name: string, value: unknown): void {
  if (typeof value === "boolean") return;
  throw errorOf("dtype", op, `${name} is ${describe(value)}, expected true or false`);
}

/** Applies the options that an op leaves to its caller. */
export function finish<R extends Reading>(tensor: Tensor<R>, settings: TensorOptions): Tensor<R> {
  if (settings.requiresGrad === true) tensor.requiresGrad = true;
  return tensor;
}

/** The handle of a new tensor, of one axis if no shape is given. */
export function create(
  owner: Session,
  data: ElementsLike,
  shape: readonly number[] | undefined,
  settings: TensorOptions,
): number {
  if (!isElements(data)) {
    throw errorOf("dtype", "fromData", `the data are ${describe(data)}, expected a list or a typed array`);
  }
  const sizes = shape === undefined ? [data.length] : listOf(owner, "fromData", shape);
  const dtype = settings.dtype ?? dtypeOf(data);
  const code = codeOf(dtype);
  const uploaded = uploadDType(dtype);
  const bytes = bytesOf(data, uploaded);
  const { raw } = owner;
  owner.putSizes(0, sizes);
  const flags = settings.requiresGrad === true ? REQUIRES_GRAD : 0;
  if (uploaded === dtype) return owner.check(raw.create(code, flags, bytes));
  const source = owner.check(raw.create(codeOf(uploaded), 0, bytes));
  try {
    return cast(owner, source, dtype, flags);
  } finally {
    raw.release(source);
  }
}

/** Whether these are elements: a `DataView` is a view without any. */
function isElements(data: unknown): data is ElementsLike {
  return Array.isArray(data) || (ArrayBuffer.isView(data) && typeof (data as { length?: unknown }).length === "number");
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

/** Uniform values between `low` and `high`. */
export function uniform<R extends Reading>(
  shape: readonly number[],
  options: UniformOptions | boolean | undefined,
): Tensor<R> {
  return random("rand", 0, shape, options, ["low", 0], ["high", 1]);
}

/** Normal values of that mean and standard deviation. */
export function normal<R extends Reading>(
  shape: readonly number[],
  options: NormalOptions | boolean | undefined,
): Tensor<R> {
  return random("randn", 1, shape, options, ["mean", 0], ["std", 1]);
}

/** An option of a distribution and its value if it is not given. */
type Parameter = readonly [name: string, standard: number];

/** Values of the distribution that has that number in `Raw.random`. */
function random<R extends Reading>(
  op: string,
  kind: number,
  shape: readonly number[],
  options: Options | undefined,
  first: Parameter,
  second: Parameter,
): Tensor<R> {
  const owner = session();
  const sizes = listOf(owner, op, shape);
  const settings = optionsOf(op, options);
  const a = parameterOf(op, options, first);
  const b = parameterOf(op, options, second);
  const code = codeOf(settings.dtype ?? "f32");
  owner.putSizes(0, sizes);
  return finish(owner.wrap(owner.raw.random(kind, code, a, b)), settings);
}

/** A number among the options. A bigint is one if no digit of it is lost. */
function parameterOf(op: string, options: Options | undefined, [name, standard]: Parameter): number {
  const value = (options as { [name: string]: unknown } | undefined)?.[name];
  if (value === undefined) return standard;
  if (typeof value === "number") return value;
  if (typeof value !== "bigint") {
    throw errorOf("dtype", op, `${name} is ${describe(value)}, expected a number`);
  }
  const number = Number(value);
  if (Number.isFinite(number) && BigInt(number) === value) return number;
  throw errorOf("dtype", op, `${name} is ${describe(value)}, which no number holds exactly`);
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
