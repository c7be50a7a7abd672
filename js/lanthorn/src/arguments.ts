/** Arguments of raw calls as they stand in scratch: handles first, then a tag and its payload for each attribute. */

import { codeOf, describe, type DTypeName, type Scalar } from "./dtype.js";
import { errorOf } from "./errors.js";
import { Unsendable } from "./sending.js";

/** Tags of attributes in scratch. */
const enum Tag {
  None = 0,
  Float = 1,
  Integer = 2,
  Bool = 3,
  Integers = 4,
  DType = 5,
  Word = 6,
  Text = 7,
}

/** A whole number or a list of them, such as axes or sizes. */
export type Integers = number | readonly number[];

/** Puts arguments into the scratch of an engine. */
export abstract class Arguments extends Unsendable {
  /** The engine's calls; only what all of them have. */
  abstract readonly raw: { readonly scratch: Float64Array };

  /** Puts operands into scratch, first of all arguments. Gives the place after them. */
  putHandles(handles: readonly number[]): number {
    const { scratch } = this.raw;
    scratch[0] = handles.length;
    for (let at = 0; at < handles.length; at++) scratch[at + 1] = handles[at] as number;
    return handles.length + 1;
  }

  putNone(at: number): number {
    this.raw.scratch[at] = Tag.None;
    return at + 1;
  }

  putFloat(at: number, op: string, value: number | undefined): number {
    return value === undefined ? this.putNone(at) : this.put(at, Tag.Float, numberOf(op, value));
  }

  putInteger(at: number, op: string, value: number | undefined): number {
    return value === undefined ? this.putNone(at) : this.put(at, Tag.Integer, numberOf(op, value));
  }

  putBool(at: number, op: string, value: boolean | undefined): number {
    if (value === undefined) return this.putNone(at);
    if (typeof value !== "boolean") throw errorOf("argument", op, `got ${describe(value)}, expected true or false`);
    return this.put(at, Tag.Bool, value ? 1 : 0);
  }

  /** Integers that `integersOf` gave. */
  putIntegers(at: number, values: Integers | undefined): number {
    if (values === undefined) return this.putNone(at);
    const { scratch } = this.raw;
    scratch[at] = Tag.Integers;
    if (typeof values === "number") {
      scratch[at + 1] = 1;
      scratch[at + 2] = values;
      return at + 3;
    }
    return this.putSizes(at + 1, values);
  }

  /** The count and the numbers of a list that `listOf` gave, without a tag. */
  putSizes(at: number, values: readonly number[]): number {
    const { scratch } = this.raw;
    scratch[at] = values.length;
    // What does not fit is not written; the engine then refuses the count.
    const count = Math.min(values.length, scratch.length - at - 1);
    for (let k = 0; k < count; k++) scratch[at + 1 + k] = values[k] as number;
    return at + 1 + values.length;
  }

  putDType(at: number, dtype: DTypeName | undefined): number {
    return dtype === undefined ? this.putNone(at) : this.put(at, Tag.DType, codeOf(dtype));
  }

  putScalar(at: number, op: string, value: Scalar | undefined): number {
    switch (typeof value) {
      case "undefined":
        return this.putNone(at);
      case "boolean":
        return this.put(at, Tag.Bool, value ? 1 : 0);
      case "bigint":
        if (value > Number.MAX_SAFE_INTEGER || value < Number.MIN_SAFE_INTEGER) {
          throw errorOf("argument", methodOf(op), `the scalar ${value} is beyond 2^53 - 1; pass it as a tensor of i64`);
        }
        return this.put(at, Tag.Integer, Number(value));
      case "number":
        // An integer has no -0.
        return this.put(at, Number.isSafeInteger(value) && !Object.is(value, -0) ? Tag.Integer : Tag.Float, value);
      default:
        throw errorOf("argument", methodOf(op), `got ${describe(value)}, expected a Tensor or a number`);
    }
  }

  /** A word by its place in the parameter's list. */
  putWord(at: number, op: string, words: readonly string[], word: string | undefined): number {
    if (word === undefined) return this.putNone(at);
    const place = words.indexOf(word);
    if (place < 0) {
      throw errorOf("unsupported", op, `got ${describe(word)}, expected one of ${words.join(", ")}`);
    }
    return this.put(at, Tag.Word, place);
  }

  /** A text as the bytes of UTF-8. */
  putText(at: number, op: string, text: string | undefined): number {
    if (text === undefined) return this.putNone(at);
    if (typeof text !== "string") throw errorOf("argument", op, `got ${describe(text)}, expected a string`);
    this.raw.scratch[at] = Tag.Text;
    return this.putSizes(at + 1, Array.from(new TextEncoder().encode(text)));
  }

  private put(at: number, tag: Tag, payload: number): number {
    const { scratch } = this.raw;
    scratch[at] = tag;
    scratch[at + 1] = payload;
    return at + 2;
  }
}

/** A copy of a list of numbers. A list may have getters, so that it is read once. */
export function listOf(owner: Arguments, op: string, values: unknown): readonly number[] {
  if (!Array.isArray(values)) throw errorOf("shape", op, `got ${describe(values)}, expected a list of integers`);
  const count = fit(owner, op, values, "integers");
  const copy: number[] = [];
  for (let at = 0; at < count; at++) copy.push(numberOf(op, values[at]));
  return copy;
}

/** A whole number, or a copy of a list of them. */
export function integersOf<T extends Integers | undefined>(owner: Arguments, op: string, values: T): T {
  if (values === undefined || typeof values === "number") return values;
  return listOf(owner, op, values) as T;
}

/** The length of a list, which must fit into scratch. */
export function fit(owner: Arguments, op: string, list: readonly unknown[], what: string): number {
  const { length } = list;
  const most = owner.raw.scratch.length - 1;
  if (length <= most) return length;
  throw errorOf("shape", op, `the number of ${what} is ${length}, expected at most ${most}`);
}

/** An op of the table by the name of the method that takes a tensor or a number. */
export function methodOf(op: string): string {
  return op.replace(/_scalar$/, "");
}

function numberOf(op: string, value: unknown): number {
  if (typeof value === "number") return value;
  throw errorOf("argument", op, `got ${describe(value)}, expected a number`);
}
