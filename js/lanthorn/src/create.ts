/** Tensors from JavaScript's own values and from the engine's random sequence. */

import {
  bytesOf,
  codeOf,
  describe,
  dtypeNamed,
  dtypeOf,
  uploadDType,
  type DType,
  type DTypeName,
  type ElementsLike,
  type Scalar,
} from "./dtype.js";
import { errorOf, renamed } from "./errors.js";
import { OP } from "./generated/table.js";
import { listOf, session, type Integers, type Session } from "./session.js";
import type { Nested, Reading, Tensor } from "./tensor.js";

/** Dtype of a new tensor, and whether it requires gradients. */
export interface TensorOptions {
  dtype?: DTypeName | undefined;
  requiresGrad?: boolean | undefined;
  /** As `requiresGrad`. */
  requires_grad?: boolean | undefined;
  /** As `requiresGrad`: whether an optimiser is to move it. */
  isParam?: boolean | undefined;
  /** As `isParam`. */
  is_param?: boolean | undefined;
  /** Where it is computed: the runtime's device, or `"auto"`, which is that. Runtimes of other devices come from `create`. */
  device?: string | undefined;
}

/** Options as they are used. */
interface Settings {
  readonly dtype?: DType | undefined;
  readonly requiresGrad?: boolean | undefined;
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

/** How the first values of weights `[outputs, inputs, window..]` are spread by He et al. 2015. */
export interface KaimingOptions extends TensorOptions {
  /** The slope of the rectifier below 0 that follows; 0 if left out. */
  a?: number | undefined;
  /** Whether the inputs or the outputs of a unit are counted; its inputs if left out. */
  mode?: "fanIn" | "fanOut" | undefined;
}

/** How the first values of weights `[outputs, inputs, window..]` are spread by Glorot and Bengio 2010. */
export interface XavierOptions extends TensorOptions {
  /** What the standard deviation is multiplied by; 1 if left out. */
  gain?: number | undefined;
}

/** A shape as a list or number by number, and options after it: `([2, 3], options)`, `(2, 3)`, `(2, 3, options)`. */
export type ShapeArguments<O = Options> =
  | [shape: Integers, options?: O]
  | [...sizes: number[]]
  | [...sizes: number[], options: O];

/** Integers that select, without a tensor of their own: lists, nested ones too, or a typed array. */
export type Ids = Nested | ElementsLike;

/** The flag of `Raw.create` for a tensor that requires gradients. */
const REQUIRES_GRAD = 1;

/** What every call that makes a tensor takes. */
const COMMON = ["dtype", "requiresGrad", "requires_grad", "isParam", "is_param", "device"];

/** Options as an object of ours, which may also have those named in `further`. Each is read once: it may be a getter. */
export function optionsOf(op: string, options: Options | undefined, further: readonly string[] = []): Settings {
  if (options === undefined || options === null) return {};
  if (typeof options === "boolean") return { requiresGrad: options };
  if (typeof options !== "object" || Array.isArray(options)) {
    throw errorOf("dtype", op, `the options are ${describe(options)}, expected an object, or true or false`);
  }
  expectKnown(op, options, [...COMMON, ...further]);
  const { dtype, requiresGrad = options.requires_grad, isParam = options.is_param, device } = options;
  if (requiresGrad !== undefined) expectBoolean(op, "requiresGrad", requiresGrad);
  if (isParam !== undefined) expectBoolean(op, "isParam", isParam);
  if (requiresGrad !== undefined && isParam !== undefined && requiresGrad !== isParam) {
    throw errorOf("unsupported", op, `requiresGrad is ${requiresGrad} and isParam ${isParam}, expected one of them, or both alike`);
  }
  if (device !== undefined) expectDevice(op, device);
  return { dtype: dtype === undefined ? undefined : dtypeNamed(dtype), requiresGrad: requiresGrad ?? isParam };
}

/** Throws for another device than that of the engine of new tensors. */
function expectDevice(op: string, device: unknown): void {
  const own = session().raw.device;
  if (device === own || device === "auto") return;
  const found = typeof device === "string" ? device : describe(device);
  throw errorOf("device", op, `the device is ${found}, and this runtime computes on ${own}; make a runtime of another one with create`);
}

/** Throws for an option that is not among `known`. */
export function expectKnown(op: string, options: object, known: readonly string[]): void {
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw errorOf("unsupported", op, `there is no option ${unknown}; the options are ${known.join(", ")}`);
}

/**
 * The settings of a layer or an optimiser, each under its name in JavaScript's style: `padding_idx` is `paddingIdx`. What
 * is undefined is left out.
 *
 * Errors: a setting that is not among `known`.
 */
export function settingsOf<O extends object>(op: string, options: O, known: readonly (keyof O & string)[]): O {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw errorOf("dtype", op, `the options are ${describe(options)}, expected an object`);
  }
  const settings: { [name: string]: unknown } = {};
  for (const [given, value] of Object.entries(options)) {
    const name = given.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (value !== undefined) settings[name] = value;
  }
  expectKnown(op, settings, known);
  return settings as O;
}

/** The sizes of a shape and the options after it. */
export function shapeOf<O = Options>(
  owner: Session,
  op: string,
  given: ShapeArguments<O>,
): [shape: readonly number[], options: O | undefined] {
  const [first, ...rest] = given as unknown[];
  if (Array.isArray(first)) {
    if (rest.length > 1) throw errorOf("shape", op, `got ${rest.length} arguments after the shape, expected options alone`);
    return [listOf(owner, op, first), rest[0] as O | undefined];
  }
  const sizes = [...(given as unknown[])];
  const hasOptions = sizes.length > 0 && typeof sizes.at(-1) !== "number";
  const options = hasOptions ? sizes.pop() : undefined;
  if (hasOptions && sizes.length === 0 && options !== undefined) {
    throw errorOf("shape", op, `the shape is ${describe(options)}, expected a list of integers, or integers`);
  }
  return [listOf(owner, op, sizes), options as O | undefined];
}

/** A tensor of ids: the tensor itself, or a new one of `i64` for plain lists. */
export function idsOf(owner: Session, op: string, ids: unknown): unknown {
  if (!Array.isArray(ids) && !ArrayBuffer.isView(ids) && typeof ids !== "number" && typeof ids !== "bigint") return ids;
  if (ArrayBuffer.isView(ids)) return owner.wrap(create(owner, op, ids as ElementsLike, undefined, {}));
  const { shape, elements } = flattened(op, ids as Nested);
  const other = elements.find((id) => typeof id !== "bigint" && !Number.isInteger(id));
  if (other !== undefined) throw errorOf("dtype", op, `an id is ${describe(other)}, expected an integer`);
  return owner.wrap(create(owner, op, elements, shape, { dtype: "i64" }));
}

/** The tensors of a list, all of which must be there. */
export function tensorsOf<T>(op: string, name: string, tensors: readonly T[]): readonly T[] {
  if (!Array.isArray(tensors)) {
    throw errorOf("foreign_handle", op, `${name} is ${describe(tensors)}, expected a list of Tensors`);
  }
  const place = Array.from(tensors).findIndex((tensor: unknown) => tensor === undefined || tensor === null);
  if (place < 0) return tensors;
  throw errorOf("foreign_handle", op, `${name}[${place}] is ${describe(tensors[place])}, expected a Tensor`);
}

/** Throws for what is neither true nor false. */
export function expectBoolean(op: string, name: string, value: unknown): void {
  if (typeof value === "boolean") return;
  throw errorOf("dtype", op, `${name} is ${describe(value)}, expected true or false`);
}

/** Applies the options that an op leaves to its caller. */
export function finish<R extends Reading>(tensor: Tensor<R>, settings: Settings): Tensor<R> {
  if (settings.requiresGrad === true) tensor.requiresGrad = true;
  return tensor;
}

/** The handle of a new tensor, of one axis if no shape is given. */
export function create(
  owner: Session,
  op: string,
  data: ElementsLike,
  shape: readonly number[] | undefined,
  settings: Settings,
): number {
  if (!isElements(data)) {
    throw errorOf("dtype", op, `the data are ${describe(data)}, expected a list or a typed array`);
  }
  const sizes = shape === undefined ? [data.length] : listOf(owner, op, shape);
  const dtype = settings.dtype ?? dtypeOf(data);
  const code = codeOf(dtype);
  const uploaded = uploadDType(dtype);
  const bytes = bytesOf(data, uploaded, op);
  const { raw } = owner;
  owner.putSizes(0, sizes);
  const flags = settings.requiresGrad === true ? REQUIRES_GRAD : 0;
  const made = (handle: number) => {
    if (handle < 0) throw renamed(owner.failure(), op);
    return handle;
  };
  if (uploaded === dtype) return made(raw.create(code, flags, bytes));
  const source = made(raw.create(codeOf(uploaded), 0, bytes));
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

/** The kinds of `Raw.random` with the numbers that they take, and these numbers if they are not given. */
const DISTRIBUTIONS = {
  rand: { kind: 0, parameters: [["low", 0], ["high", 1]] },
  randn: { kind: 1, parameters: [["mean", 0], ["std", 1]] },
  kaimingUniform: { kind: 3, parameters: [["a", 0]] },
  kaimingNormal: { kind: 4, parameters: [["a", 0]] },
  xavierUniform: { kind: 5, parameters: [["gain", 1]] },
  xavierNormal: { kind: 6, parameters: [["gain", 1]] },
} as const;

/** The kind of `Raw.random` that gives a key. */
const KEY = 2;

/** The key of the next draw. */
export function randomKey<R extends Reading>(): Tensor<R> {
  const owner = session();
  return owner.wrap(owner.check(owner.raw.random(KEY, 0, 0, 0)));
}

/** A tensor of random elements of a distribution; the arguments are a shape and options. */
export function random<R extends Reading>(
  op: keyof typeof DISTRIBUTIONS,
  given: ShapeArguments<UniformOptions | NormalOptions | KaimingOptions | XavierOptions | boolean>,
): Tensor<R> {
  const owner = session();
  const [sizes, options] = shapeOf(owner, op, given);
  const { kind, parameters } = DISTRIBUTIONS[op];
  const isKaiming = op === "kaimingUniform" || op === "kaimingNormal";
  const further = [...parameters.map(([name]) => name), ...(isKaiming ? ["mode"] : [])];
  const settings = optionsOf(op, options, further);
  const [a = 0, b = 0] = parameters.map((parameter) => parameterOf(op, options, parameter));
  const fan = isKaiming ? fanOf(op, (options as KaimingOptions | undefined)?.mode) : b;
  const code = codeOf(settings.dtype ?? "f32");
  if (op === "rand" && !(a <= b)) throw errorOf("shape", op, `low is ${a} and high is ${b}, expected low to be at most high`);
  if (op === "randn" && !(b >= 0)) throw errorOf("shape", op, `std is ${b}, expected a number of at least 0`);
  owner.putSizes(0, sizes);
  const handle = owner.raw.random(kind, code, a, fan);
  if (handle < 0) throw renamed(owner.failure(), op);
  return finish(owner.wrap(handle), settings);
}

/** Which fan `Raw.random` is to count. */
function fanOf(op: string, mode: unknown): number {
  if (mode === undefined || mode === "fanIn") return 0;
  if (mode === "fanOut") return 1;
  throw errorOf("unsupported", op, `the mode is ${describe(mode)}, expected "fanIn" or "fanOut"`);
}

/** An option of a distribution and its value if it is not given. */
type Parameter = readonly [name: string, standard: number];

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

/** How deep lists may be nested: deeper than any tensor has axes, so that a list which contains itself is told. */
const MOST_AXES = 64;

/** The elements of nested lists in row-major order, and their shape. */
export function flattened(op: string, data: Nested): { readonly shape: number[]; readonly elements: Scalar[] } {
  const shape: number[] = [];
  const elements: Scalar[] = [];
  flatten(op, data, 0, shape, elements);
  return { shape, elements };
}

function flatten(op: string, data: Nested, depth: number, shape: number[], elements: Scalar[]): void {
  if (!Array.isArray(data)) {
    if (depth !== shape.length) throw ragged(op, depth, "a single value", `a list of ${shape[depth]}`);
    elements.push(data as Scalar);
    return;
  }
  const found = `a list of ${data.length}`;
  if (depth > MOST_AXES) {
    const found = `the lists are nested more than ${MOST_AXES} deep, or one contains itself`;
    throw errorOf("shape", op, `${found}; expected one level for each axis`);
  }
  // The first list of each depth says the size of its axis.
  if (shape.length === depth && elements.length === 0) shape.push(data.length);
  if (depth >= shape.length) throw ragged(op, depth, found, "a single value");
  if (shape[depth] !== data.length) throw ragged(op, depth, found, `a list of ${shape[depth]}`);
  for (const part of data as readonly Nested[]) flatten(op, part, depth + 1, shape, elements);
}

function ragged(op: string, depth: number, found: string, expected: string): Error {
  return errorOf("shape", op, `the nested lists are ragged: ${found} at depth ${depth}, expected ${expected}`);
}
