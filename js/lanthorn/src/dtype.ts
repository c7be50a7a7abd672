/** Element types, and their elements as JavaScript holds them. */

import { errorOf } from "./errors.js";
import { DTYPES } from "./generated/table.js";

/** The name of an element type. */
export type DType = (typeof DTYPES)[number];

/** The code of an element type in raw calls; an error for a name that is none. */
export function codeOf(dtype: DType): number {
  const code = DTYPES.indexOf(dtype);
  if (code < 0) {
    throw errorOf("dtype", "dtype", `there is no dtype ${String(dtype)}; one of ${DTYPES.join(", ")} is expected`);
  }
  return code;
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

/** The type in which elements pass to and from JavaScript: its own, or `f32` for the half and 8-bit floats. */
export function transferDType(dtype: DType): DType {
  if (CLASSES[dtype] !== undefined) return dtype;
  if (dtype.startsWith("f") || dtype === "bf16") return "f32";
  throw errorOf("unsupported", "transfer", `elements of ${dtype} have no JavaScript type; take the real parts first`);
}

/** Bytes read from a tensor of a transfer type as elements. */
export function elementsOf(dtype: DType, bytes: ArrayBuffer): Elements {
  return new (CLASSES[dtype] as ElementsClass)(bytes);
}

/** A value of which a tensor can be made. */
export type Scalar = number | bigint | boolean;

/** Elements that a caller gives. */
export type ElementsLike = Elements | readonly Scalar[];

/** The element type of values whose type the caller does not name: `f32` for plain numbers. */
export function dtypeOf(values: ElementsLike): DType {
  if (ArrayBuffer.isView(values)) {
    for (const dtype of ["f32", "f64", "i32", "i64", "u8", "i8", "i16", "u16", "u32", "u64"] as const) {
      if (values instanceof (CLASSES[dtype] as ElementsClass)) return dtype;
    }
    if (values instanceof Uint8ClampedArray) return "u8";
  }
  switch (typeof values[0]) {
    case "boolean":
      return "bool";
    case "bigint":
      return "i64";
    default:
      return "f32";
  }
}

/** The bytes of values as elements of a transfer type. */
export function bytesOf(values: ElementsLike, dtype: DType): Uint8Array {
  const Class = CLASSES[dtype] as ElementsClass;
  const elements = values instanceof Class ? (values as Elements) : convert(values, dtype, Class);
  return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
}

function convert(values: ElementsLike, dtype: DType, Class: ElementsClass): Elements {
  const source = values as Iterable<Scalar>;
  const converted: unknown[] = [];
  for (const value of source) {
    if (typeof value !== "number" && typeof value !== "bigint" && typeof value !== "boolean") {
      throw errorOf("dtype", "create", `element ${converted.length} is ${describe(value)}, expected a number`);
    }
    if (dtype === "bool") {
      converted.push(value ? 1 : 0);
    } else if (dtype === "i64" || dtype === "u64") {
      if (typeof value === "number" && !Number.isInteger(value)) {
        throw errorOf("dtype", "create", `element ${converted.length} is ${value}, which is no ${dtype}`);
      }
      converted.push(BigInt(value));
    } else {
      converted.push(Number(value));
    }
  }
  return Class.from(converted as never[]);
}

/** A value in an error message. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "object") return `an object of class ${value.constructor?.name ?? "none"}`;
  if (typeof value === "string") return `the text ${JSON.stringify(value.slice(0, 40))}`;
  return typeof value === "function" || typeof value === "symbol" ? `a ${typeof value}` : `${String(value)}`;
}
