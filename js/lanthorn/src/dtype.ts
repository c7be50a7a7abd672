/** Element types, and their elements as JavaScript holds them. */

import { errorOf } from "./errors.js";
import { DTYPES } from "./generated/table.js";

/** The name of an element type. */
export type DType = (typeof DTYPES)[number];

/** Names that NumPy and torch have for element types. */
const SYNONYMS = {
  float16: "f16",
  bfloat16: "bf16",
  float32: "f32",
  float64: "f64",
  int8: "i8",
  int16: "i16",
  int32: "i32",
  int64: "i64",
  uint8: "u8",
  uint16: "u16",
  uint32: "u32",
  uint64: "u64",
  float8_e4m3: "f8e4m3",
  float8_e4m3fn: "f8e4m3",
  float8_e5m2: "f8e5m2",
  fp8e4m3: "f8e4m3",
  fp8e5m2: "f8e5m2",
} as const satisfies { readonly [name: string]: DType };

/** A name that a caller may give for an element type: ours, or that of NumPy and torch, such as `"float32"`. */
export type DTypeName = DType | keyof typeof SYNONYMS;

/** An element type by our name; an error for a name that is none. */
export function dtypeNamed(name: DTypeName): DType {
  // An object may become another text each time it is read as one.
  if (typeof name === "string") {
    const dtype = Object.hasOwn(SYNONYMS, name) ? SYNONYMS[name as keyof typeof SYNONYMS] : (name as DType);
    if (DTYPES.includes(dtype)) return dtype;
  }
  const found = typeof name === "string" ? name : describe(name);
  throw errorOf("dtype", "dtype", `there is no dtype ${found}; one of ${DTYPES.join(", ")} is expected`);
}

/** The code of an element type in raw calls; an error for a name that is none. */
export function codeOf(dtype: DTypeName): number {
  // Names of ours are looked up first: this is part of every call that has a dtype.
  const code = (DTYPES as readonly string[]).indexOf(dtype);
  return code >= 0 ? code : DTYPES.indexOf(dtypeNamed(dtype));
}

/** Elements of a tensor in row-major order; `bool` as bytes of 0 and 1. */
export type Elements =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array;

type ElementsClass = { new (buffer: ArrayBuffer): Elements; from(values: Iterable<never>): Elements };

const CLASSES: { readonly [D in DType]?: ElementsClass } = {
  bool: Uint8Array,
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  u64: BigUint64Array,
  i8: Int8Array,
  i16: Int16Array,
  i32: Int32Array,
  i64: BigInt64Array,
  f32: Float32Array,
  f64: Float64Array,
};

/** Floats that JavaScript has no arrays for, by the bits of their exponent and of their mantissa. */
const SMALL_FLOATS: { readonly [D in DType]?: readonly [exponent: number, mantissa: number] } = {
  f16: [5, 10],
  bf16: [8, 7],
  f8e4m3: [4, 3],
  f8e5m2: [5, 2],
};

/** The type in which elements pass from JavaScript: their own, or `f32` for the smaller floats. */
export function uploadDType(dtype: DType): DType {
  if (CLASSES[dtype] !== undefined) return dtype;
  if (SMALL_FLOATS[dtype] !== undefined) return "f32";
  throw noClass(dtype);
}

function noClass(dtype: DType): Error {
  return errorOf("unsupported", "transfer", `elements of ${dtype} have no JavaScript type`);
}

/** Bytes read from a tensor as elements. */
export function elementsOf(dtype: DType, bytes: ArrayBuffer): Elements {
  const Class = CLASSES[dtype];
  if (Class !== undefined) return new Class(bytes);
  const format = SMALL_FLOATS[dtype];
  if (format === undefined) throw noClass(dtype);
  const [exponent, mantissa] = format;
  const values = exponent + mantissa > 7 ? new Uint16Array(bytes) : new Uint8Array(bytes);
  return Float32Array.from(values, (bits) => decode(bits, exponent, mantissa));
}

/** The value of a small float. `f8e4m3` has no infinities: only all ones are NaN. */
function decode(bits: number, exponentBits: number, mantissaBits: number): number {
  const sign = bits >> (exponentBits + mantissaBits) === 0 ? 1 : -1;
  const ones = (1 << exponentBits) - 1;
  const exponent = (bits >> mantissaBits) & ones;
  const fraction = (bits & ((1 << mantissaBits) - 1)) / (1 << mantissaBits);
  const bias = ones >> 1;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias);
  if (exponent === ones) {
    if (exponentBits !== 4) return fraction === 0 ? sign * Infinity : NaN;
    if (fraction === 1 - 2 ** -mantissaBits) return NaN;
  }
  return sign * (1 + fraction) * 2 ** (exponent - bias);
}

/** A value of which a tensor can be made. */
export type Scalar = number | bigint | boolean;

/** Elements that a caller gives. */
export type ElementsLike = Elements | readonly Scalar[];

/** The element types of JavaScript's arrays by the names of their classes, which are the same in every realm. */
const ARRAYS: { readonly [name: string]: DType } = {
  Float32Array: "f32",
  Float64Array: "f64",
  Int8Array: "i8",
  Int16Array: "i16",
  Int32Array: "i32",
  BigInt64Array: "i64",
  Uint8Array: "u8",
  Uint8ClampedArray: "u8",
  Uint16Array: "u16",
  Uint32Array: "u32",
  BigUint64Array: "u64",
};

/** The element type of a typed array. */
function arrayDType(values: ArrayBufferView): DType | undefined {
  return ARRAYS[(values as unknown as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] ?? ""];
}

/**
 * The element type of values whose type the caller does not name: a typed array's own; of a list the widest of its
 * elements' (numbers are `f32`, bigints `i64`, true and false `bool`).
 */
export function dtypeOf(values: ElementsLike): DType {
  if (ArrayBuffer.isView(values)) return arrayDType(values) ?? "f32";
  let dtype: DType = values.length === 0 ? "f32" : "bool";
  for (const value of values) {
    if (typeof value === "bigint") dtype = "i64";
    else if (typeof value !== "boolean") return "f32";
  }
  return dtype;
}

/** The bytes of values as elements of a type that JavaScript has. `op` is named in errors. */
export function bytesOf(values: ElementsLike, dtype: DType, op = "create"): Uint8Array {
  const Class = CLASSES[dtype] as ElementsClass;
  const isAlready = ArrayBuffer.isView(values) && dtype !== "bool" && arrayDType(values) === dtype;
  const elements = isAlready ? (values as Elements) : convert(values, dtype, Class, op);
  try {
    return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
  } catch {
    throw errorOf("transfer", op, "the buffer of the typed array is detached: it was transferred; copy the elements before that");
  }
}

function convert(values: ElementsLike, dtype: DType, Class: ElementsClass, op: string): Elements {
  const bounds = boundsOf(dtype);
  const isWide = dtype === "i64" || dtype === "u64";
  const converted: unknown[] = [];
  const refuse = (value: unknown, why: string) => errorOf("dtype", op, `element ${converted.length} is ${describe(value)}${why}`);
  for (const value of values as Iterable<Scalar>) {
    if (typeof value !== "number" && typeof value !== "bigint" && typeof value !== "boolean") {
      throw refuse(value, ", expected a number");
    }
    if (dtype === "bool") {
      if (Number.isNaN(value)) throw refuse(value, ", which is neither true nor false");
      converted.push(value ? 1 : 0);
    } else if (bounds !== undefined) {
      const [low, high] = bounds;
      const number = typeof value === "boolean" ? Number(value) : value;
      const isWhole = typeof number === "bigint" || Number.isInteger(number);
      if (!isWhole) throw refuse(value, `, which is no ${dtype}; make a tensor of floats and cast it`);
      if (number < low || number > high) throw refuse(value, `, and ${dtype} holds ${low} to ${high}`);
      converted.push(isWide ? BigInt(value) : Number(value));
    } else {
      const number = Number(value);
      if (typeof value === "bigint" && !Number.isFinite(number)) throw refuse(value, ", which is beyond every float");
      converted.push(number);
    }
  }
  return Class.from(converted as never[]);
}

/** The least and the largest element of an integer type. */
function boundsOf(dtype: DType): readonly [low: bigint, high: bigint] | undefined {
  const [, sign, width] = /^([iu])(\d+)$/.exec(dtype) ?? [];
  if (width === undefined) return undefined;
  const bits = BigInt(width);
  return sign === "u" ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
}

/** A value in an error message. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "object") return `an object of class ${value.constructor?.name ?? "none"}`;
  if (typeof value === "string") return `the text ${JSON.stringify(value.slice(0, 40))}`;
  return typeof value === "function" || typeof value === "symbol" ? `a ${typeof value}` : `${String(value)}`;
}
