/** The raw calls of one engine with what makes them safe to use: arguments, errors, and handles that are let go. */

import {
  Arguments,
  codeOf,
  DTYPES,
  errorOfText,
  integersOf,
  listOf,
  OP,
  Watch,
  type DType as EngineDType,
  type Scalar,
} from "lanthorn/raw";

import type { GraphRaw } from "../raw.js";

/** The name of an op of the engine's table. */
export type OpName = keyof typeof OP;

/**
 * Puts an attribute into scratch at a place; gives the place after it. What a caller gave has been read when one is made: a
 * getter may call the engine, which overwrites scratch.
 */
export type Attribute = (to: Arguments, at: number, op: string) => number;

/** More integers than fit into scratch are refused by their number, and not read. */
const MOST_INTEGERS = 4096;

export const none: Attribute = (to, at) => to.putNone(at);
export const float =
  (value: number | undefined): Attribute =>
  (to, at, op) =>
    to.putFloat(at, op, value);
export const integer =
  (value: number | undefined): Attribute =>
  (to, at, op) =>
    to.putInteger(at, op, value);
export const integers = (values: ReadonlyArray<number>): Attribute => {
  const read: ReadonlyArray<number> = Array.isArray(values) && values.length <= MOST_INTEGERS ? Array.from(values) : values;
  return (to, at, op) => to.putIntegers(at, integersOf(to, op, read));
};
export const bool =
  (value: boolean | undefined): Attribute =>
  (to, at, op) =>
    to.putBool(at, op, value);
export const scalar =
  (value: Scalar | undefined): Attribute =>
  (to, at, op) =>
    to.putScalar(at, op, value);
export const dtype =
  (value: EngineDType): Attribute =>
  (to, at) =>
    to.putDType(at, value);
export const word =
  (words: ReadonlyArray<string>, value: string | undefined): Attribute =>
  (to, at, op) =>
    to.putWord(at, op, words, value);

/** What the engine knows of a tensor. */
export interface Description {
  readonly dtype: EngineDType;
  readonly shape: number[];
}

/** What names draws for `GraphRaw.random`. */
export const DRAW = { uniform: 0, normal: 1, key: 2 } as const;

/** An engine as the adapter sees it. */
export class Engine extends Arguments {
  readonly raw: GraphRaw;
  private readonly watch: Watch;
  /** The handles that the plans which run have made, those of an outer plan first. */
  private readonly kept: number[] = [];
  /** The handle that an op has made last, and what it is; 0 for one that was asked for, or none. */
  private last = 0;
  private lastDescription: Description = { dtype: "f32", shape: [] };

  constructor(raw: GraphRaw) {
    super();
    this.raw = raw;
    this.watch = new Watch(raw);
  }

  /** What a raw call gave; throws if that was an error. */
  check(result: number): number {
    if (result < 0) throw errorOfText(this.raw.error());
    return result;
  }

  /** Lets a handle go with an object. Overwrites scratch. */
  track(object: object, handle: number): void {
    this.watch.add(object, handle);
  }

  /** Has new objects watched; before a call that takes long. Overwrites scratch. */
  flush(): void {
    this.watch.flush();
  }

  /**
   * Runs a plan, which makes handles by the calls below. What it gives stays; the others, and all of them if it fails,
   * are given up.
   */
  plan<A, B>(plan: (engine: Engine, a: A, b: B) => number | number[], a: A, b: B): number | number[] {
    const { kept } = this;
    const first = kept.length;
    this.last = 0;
    let results: number | number[] = [];
    try {
      return (results = plan(this, a, b));
    } finally {
      // Most plans make one handle, which is their result.
      if (kept.length !== first + 1 || kept[first] !== results) this.giveUp(first, results);
      kept.length = first;
    }
  }

  /** As `plan`, without arguments. */
  made(make: () => number | number[]): number | number[] {
    return this.plan(make, undefined, undefined);
  }

  /** Releases the handles from `first` that are not among the results. */
  private giveUp(first: number, results: number | number[]): void {
    for (let at = first; at < this.kept.length; at++) {
      const handle = this.kept[at] as number;
      if (typeof results === "number" ? handle !== results : !results.includes(handle)) this.raw.release(handle);
    }
  }

  private keep(handle: number): number {
    this.kept.push(this.check(handle));
    return handle;
  }

  private place(op: OpName, operands: readonly number[], attributes: readonly Attribute[]): void {
    let at = this.putHandles(operands);
    for (const attribute of attributes) at = attribute(this, at, op);
  }

  /** The result of an op that gives one; an absent operand is 0. */
  op(op: OpName, operands: readonly number[], ...attributes: readonly Attribute[]): number {
    this.place(op, operands, attributes);
    const handle = this.keep(this.raw.op(OP[op]));
    this.lastDescription = this.described();
    return (this.last = handle);
  }

  /** The results of an op that gives several. */
  several(op: OpName, operands: readonly number[], ...attributes: readonly Attribute[]): number[] {
    this.place(op, operands, attributes);
    const count = this.check(this.raw.op(OP[op]));
    return Array.from(this.raw.scratch.subarray(0, count), (handle) => this.keep(handle));
  }

  cast(tensor: number, to: EngineDType): number {
    return this.op("cast", [tensor], dtype(to));
  }

  create(of: EngineDType, shape: readonly number[], bytes: Uint8Array): number {
    this.putSizes(0, listOf(this, "create", shape));
    return this.keep(this.raw.create(codeOf(of), bytes));
  }

  random(kind: number, of: EngineDType, a: number, b: number, shape: readonly number[]): number {
    this.putSizes(0, listOf(this, "random", shape));
    return this.keep(this.raw.random(kind, codeOf(of), a, b));
  }

  /** The key of a draw. */
  key(): number {
    return this.random(DRAW.key, "u64", 0, 0, [2]);
  }

  input(slot: number, of: EngineDType, shape: readonly number[]): number {
    this.putSizes(0, listOf(this, "input", shape));
    return this.keep(this.raw.input(slot, codeOf(of)));
  }

  scalarInput(slot: number, of: EngineDType): number {
    return this.keep(this.raw.scalar_input(slot, codeOf(of)));
  }

  positions(length: number): number {
    return this.keep(this.raw.positions(length));
  }

  vjp(y: number, x: number, v: number): number {
    return this.keep(this.raw.vjp(y, x, v));
  }

  jvp(y: number, x: number, v: number): number {
    return this.keep(this.raw.jvp(y, x, v));
  }

  vmap(y: number, x: number, batched: number, axis: number): number {
    return this.keep(this.raw.vmap(y, x, batched, axis));
  }

  checkpoint(x: number): number {
    return this.keep(this.raw.checkpoint(x));
  }

  grad(loss: number, variables: readonly number[]): number[] {
    this.putHandles(variables);
    this.check(this.raw.grad(loss));
    return Array.from(this.raw.scratch.subarray(0, variables.length), (handle) => this.keep(handle));
  }

  /** The dtype and the shape of a handle. */
  describe(tensor: number): Description {
    if (this.last === tensor) {
      this.last = 0;
      return this.lastDescription;
    }
    this.check(this.raw.describe(tensor));
    return this.described();
  }

  /** What scratch says of a tensor. */
  private described(): Description {
    const { scratch } = this.raw;
    const rank = scratch[2] as number;
    // A view of scratch would cost more than all else here.
    const shape: number[] = [];
    for (let axis = 0; axis < rank; axis++) shape.push(scratch[3 + axis] as number);
    return { dtype: DTYPES[scratch[0] as number] as EngineDType, shape };
  }
}
