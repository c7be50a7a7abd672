/**
 * Tensors as JavaScript holds them: a handle of the engine and nothing else. What an op does, and every error about
 * shapes, dtypes and gradients, is the engine's.
 */

import { create, expectBoolean, flattened, optionsOf, type NormalOptions, type Options, type UniformOptions } from "./create.js";
import { describe, elementsOf, type DType, type Elements, type Scalar } from "./dtype.js";
import { AsyncRequiredError, errorOf, nameErrors, type LanthornError } from "./errors.js";
import { Factories } from "./factories.js";
import { commitFor, toTypedArrays, toTypedArraysAsync } from "./functions.js";
import { DTYPES, OP } from "./generated/table.js";
import { computeLater, isThenable, signalOf, throwIfAborted } from "./later.js";
import { session, within, type Session } from "./session.js";
import { isTraining, setTraining } from "./training.js";

/** How a face reads: Node at once, a page by promises. */
export type Reading = "sync" | "async";

/** What a read gives. */
export type Read<R extends Reading, T> = R extends "sync" ? T : Promise<T>;

/** Nested lists of numbers, one level for each axis. */
export type Nested = Scalar | readonly Nested[];

/** Elements as lists nested as the shape is. */
export type NestedElements = number | bigint | NestedElements[];

/** A range of one axis: start and stop, negative from the end, and a step, 1 if left out. */
export type Range = readonly [start: number, stop: number, step?: number];

/** Asks an asynchronous call to stop. */
export interface Abortable {
  signal?: AbortSignal | undefined;
}

/** Flags of `Raw.describe`. */
const enum Flag {
  /** A leaf that requires gradients. */
  RequiresGrad = 1,
  /** Gradients pass through the tensor. */
  Tracked = 2,
  /** It shows elements of another tensor. */
  View = 4,
}

function asyncRequired(op: string, advice: string): LanthornError {
  return new AsyncRequiredError("unsupported", op, `the elements are in a worker and not here yet; ${advice}`);
}

/** A promise that throws where it is taken for its value: `x.item() * 2` without an `await` would be NaN. */
function uncoerced<T>(promise: Promise<T>): Promise<T> {
  const value = () => {
    throw asyncRequired("read", "await what item() and toArray() give");
  };
  return Object.defineProperty(promise, Symbol.toPrimitive, { value });
}

export class Tensor<R extends Reading = "sync"> extends Factories<R> {
  /** The engine's number for this tensor, which is stale once it is disposed. @internal */
  readonly handle: number;
  /** @internal */
  readonly session: Session;
  // Private by the language, so that they can be written to where the object is frozen.
  #sizes: readonly number[] | undefined = undefined;
  #element: DType | undefined = undefined;
  #isDisposed = false;
  /** Whether the elements were computed, as far as is known here. */
  #isThere = false;

  /**
   * A tensor of nested lists, `new Tensor([[1, 2], [3, 4]])`, of `f32` unless a dtype is given, or of a typed array,
   * which gives one axis and its dtype.
   */
  constructor(data: Nested | Elements, options?: Options);
  /** @internal */
  constructor(handle: number, options: undefined, owner: Session);
  constructor(data: Nested | Elements, options?: Options, owner?: Session) {
    super();
    if (owner !== undefined) {
      this.handle = data as number;
      this.session = owner;
      return;
    }
    this.session = session();
    const settings = optionsOf("Tensor", options);
    if (ArrayBuffer.isView(data)) {
      this.handle = create(this.session, "Tensor", data, undefined, settings);
    } else {
      const { shape, elements } = flattened("Tensor", data);
      this.handle = create(this.session, "Tensor", elements, shape, settings);
    }
    this.#isThere = true;
    this.session.watch(this);
  }

  /** Sizes of the axes. */
  get shape(): readonly number[] {
    if (this.#sizes === undefined) this.describe();
    return this.#sizes as readonly number[];
  }

  /** The element type. */
  get dtype(): DType {
    if (this.#element === undefined) this.describe();
    return this.#element as DType;
  }

  /** The number of axes. */
  get rank(): number {
    return this.shape.length;
  }

  /** The number of elements. */
  get size(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }

  /**
   * Whether gradients are asked for here: of a leaf, in which `backward` accumulates one, and of what was computed from such
   * tensors.
   */
  get requiresGrad(): boolean {
    return (this.describe() & (Flag.RequiresGrad | Flag.Tracked)) !== 0;
  }

  set requiresGrad(on: boolean) {
    expectBoolean("requiresGrad", "the value", on);
    this.session.check(this.session.raw.requires_grad(this.handle, on ? 1 : 0));
  }

  /** Whether the tensor is no result through which gradients pass: `backward` leaves gradients in leaves alone. */
  get isLeaf(): boolean {
    return (this.describe() & (Flag.RequiresGrad | Flag.Tracked)) !== Flag.Tracked;
  }

  /** Whether the tensor shows elements of another one: what is written to one is written to both. */
  get isView(): boolean {
    return (this.describe() & Flag.View) !== 0;
  }

  /** Where its programs run. */
  get device(): string {
    return this.session.raw.device;
  }

  /** The gradient that `backward` has left, or null. */
  get grad(): Tensor<R> | null {
    const handle = this.session.check(this.session.raw.grad(this.handle));
    return handle === 0 ? null : this.session.wrap(handle);
  }

  set grad(grad: Tensor<R> | null) {
    const { session } = this;
    session.check(session.raw.set_grad(this.handle, grad === null ? 0 : session.handle("grad", grad)));
  }

  /** Throws for a tensor that has been disposed, or that is none of `owner`'s: for calls that check all they are given. @internal */
  expectUsable(op: string, owner: Session): void {
    owner.handle(op, this);
    owner.check(owner.raw.describe(this.handle), op);
  }

  /** Notes that an op has written over it. @internal */
  wasWritten(): void {
    this.#isThere = false;
  }

  /** Keeps dtype and sizes; gives the flags. */
  private describe(): number {
    const { raw } = this.session;
    this.session.check(raw.describe(this.handle));
    const { scratch } = raw;
    if (this.#sizes === undefined) {
      this.#element = DTYPES[scratch[0] as number];
      const rank = scratch[2] as number;
      this.#sizes = Object.freeze(Array.from(scratch.subarray(3, 3 + rank)));
    }
    return scratch[1] as number;
  }

  /**
   * Accumulates the gradients of this tensor, a loss of one element, in all tensors that require them. `seed` is the
   * gradient of the tensor itself where it has several elements.
   */
  backward(seed?: Tensor<R> | Nested): void {
    const { session } = this;
    const given =
      seed === undefined || seed instanceof Tensor
        ? seed
        : within(session, () => new Tensor(seed, { dtype: this.dtype }) as Tensor<any>);
    const handle = given === undefined ? 0 : session.handle("backward", given);
    session.check(session.raw.backward(this.handle, handle));
  }

  /** The same elements, through which no gradient passes. */
  detach(): Tensor<R> {
    return this.session.wrap(this.session.raw.detach(this.handle));
  }

  /** `requiresGrad` as a method that can be chained. */
  requiresGrad_(on = true): this {
    this.requiresGrad = on;
    return this;
  }

  /** Whether an optimiser is to move it: a leaf that requires gradients. */
  get isParam(): boolean {
    return this.requiresGrad && this.isLeaf;
  }

  /** As `requiresGrad_`. */
  isParam_(on = true): this {
    return this.requiresGrad_(on);
  }

  /** Lets the gradient go. What `grad` gave before stays as it is. */
  zeroGrad(): void {
    this.grad = null;
  }

  /** Writes a number over every element. */
  fill_(value: Scalar): this {
    const { session } = this;
    if (value === undefined) throw errorOf("dtype", "fill_", "got undefined, expected a number");
    this.#isThere = false;
    session.putScalar(session.putTensors("fill_", [this]), "fill_", value);
    return session.assign(this, OP.full_like);
  }

  /** Writes 0 over every element. */
  zero_(): this {
    return this.fill_(0);
  }

  /** Writes uniform values over the elements, between 0 and 1 if `low` and `high` are not given. */
  uniform_(low = 0, high = 1): this {
    const options: UniformOptions = { low, high, dtype: this.dtype };
    return this.copy_(within(this.session, () => Factories.rand<R>(this.shape, options)));
  }

  /** Writes normal values over the elements, of mean 0 and standard deviation 1 if these are not given. */
  normal_(mean = 0, std = 1): this {
    const options: NormalOptions = { mean, std, dtype: this.dtype };
    return this.copy_(within(this.session, () => Factories.randn<R>(this.shape, options)));
  }

  /** Writes the elements of `source`, broadcast and cast, or one number over this tensor. */
  copy_(source: Tensor<R> | Scalar): this {
    if (typeof source !== "object") return this.fill_(source);
    const { session } = this;
    this.#isThere = false;
    session.check(session.raw.copy(this.handle, session.handle("copy_", source)));
    return this;
  }

  /**
   * Writes elements over this tensor: those of a tensor, a list nested as the shape is, or a typed array of as many
   * elements. The tensor stays the same for programs that were captured with it. No gradient passes, so that it may be a
   * parameter.
   */
  copyFrom(source: Tensor<R> | Nested | Elements): this {
    const given = within(this.session, () => this.sourceOf(source));
    const { shape } = given;
    if (shape.length !== this.rank || shape.some((size, axis) => size !== this.shape[axis])) {
      const found = `the elements have the shape [${shape.join(", ")}]`;
      throw errorOf("shape", "copyFrom", `${found}, expected [${this.shape.join(", ")}]`);
    }
    const { raw } = this.session;
    this.session.check(raw.no_grad(1));
    try {
      this.copy_(given);
    } finally {
      this.session.check(raw.no_grad(-1));
    }
    given.dispose();
    return this;
  }

  /** What `copyFrom` takes as a tensor of its own. */
  private sourceOf(source: Tensor<R> | Nested | Elements): Tensor<R> {
    if (source instanceof Tensor) return source.detach();
    if (!ArrayBuffer.isView(source)) return new Tensor(source, { dtype: this.dtype }) as Tensor<any>;
    return Factories.fromData<R>(source, source.length === this.size ? this.shape : undefined);
  }

  /** As `copyFrom`. */
  updateFrom(source: Tensor<R> | Nested | Elements): this {
    return this.copyFrom(source);
  }

  /** As `copyFrom`. */
  assign(source: Tensor<R> | Nested | Elements): this {
    return this.copyFrom(source);
  }

  /** Writes `value` at the place or sub-tensor that `indices` select, one for each of the first axes. */
  set(indices: readonly number[], value: Tensor<R> | Scalar): this {
    if (!Array.isArray(indices)) {
      throw errorOf("shape", "set", `the indices are ${describe(indices)}, expected a list of integers`);
    }
    const views: Tensor<R>[] = [];
    try {
      let target: Tensor<R> = this;
      for (const index of indices) {
        target = target.select(0, index);
        views.push(target);
      }
      target.copy_(value);
    } finally {
      for (const view of views) view.dispose();
    }
    return this;
  }

  /** A view of a range of each of the first axes, or of one axis: `slice([[0, 2], [1, 4]])`, `slice(0, 0, 2)`. */
  override slice(ranges: readonly Range[]): Tensor<R>;
  override slice(axis: number, start?: number, stop?: number, step?: number): Tensor<R>;
  override slice(axes: number | readonly Range[], start?: number, stop?: number, step?: number): Tensor<R> {
    if (!Array.isArray(axes)) return super.slice(axes as number, start, stop, step);
    const ranges = axes.map((range: unknown, axis): Range => {
      const isRange = Array.isArray(range) && (range.length === 2 || range.length === 3);
      if (isRange) return range as unknown as Range;
      const found = Array.isArray(range) ? `a list of ${range.length}` : describe(range);
      throw errorOf("shape", "slice", `the range of axis ${axis} is ${found}, expected [start, stop] or [start, stop, step]`);
    });
    let view: Tensor<R> = this.rank === 0 ? this.reshape([]) : super.slice(0);
    ranges.forEach(([from, to, step], axis) => {
      const wider = view;
      view = wider.slice(axis, from, to, step);
      wider.dispose();
    });
    return view;
  }

  /** Two axes swapped, the last two if none are named. A view. */
  override transpose(first = -2, second = -1): Tensor<R> {
    return super.transpose(first, second);
  }

  /** The only element as a number; `bool` as 0 or 1, 64-bit integers rounded beyond 2^53. */
  item(): Read<R, number> {
    this.expectOne();
    return this.fetch((elements) => Number(elements[0]));
  }

  /** The elements in row-major order; half-precision and 8-bit floats as `Float32Array`, `bool` as bytes. */
  toArray(): Read<R, Elements> {
    return this.fetch((elements) => elements);
  }

  /**
   * Computes the tensor now. Reading it does so by itself. In a function that is traced there is nothing to compute yet: its program
   * computes what the function gives, and the tensor is given back as it is.
   */
  realize(): this {
    if (this.session.isTracing) {
      this.expectUsable("realize", this.session);
      return this;
    }
    within(this.session, () => commitFor("realize", [this]));
    this.#isThere = true;
    return this;
  }

  /** `realize` without keeping the event loop waiting. */
  async realizeAsync(options?: Abortable): Promise<this> {
    const signal = signalOf("realizeAsync", options);
    await computeLater(this.session, "realizeAsync", [this], false, signal);
    throwIfAborted(signal);
    this.#isThere = true;
    return this;
  }

  /**
   * Whether this thread trains, at first true. While it is false dropout passes everything, batch norms use their running
   * statistics, and the step of an optimiser is an error. Modules have a `training` of their own as well.
   */
  static get training(): boolean {
    return isTraining();
  }

  static set training(on: boolean) {
    setTraining(on);
  }

  /** The elements of several tensors, computed in one program. */
  static toTypedArrays<R extends Reading = "sync">(...tensors: readonly Tensor<R>[]): Read<R, Elements[]> {
    return toTypedArrays(...tensors);
  }

  /** `toTypedArrays` without keeping the event loop waiting; options may be the last argument. */
  static toTypedArraysAsync(
    ...given: readonly Tensor<any>[] | [...tensors: Tensor<any>[], options: Abortable]
  ): Promise<Elements[]> {
    return toTypedArraysAsync(...given);
  }

  /** As `toArray`. */
  toTypedArray(): Read<R, Elements> {
    return this.toArray();
  }

  /** The elements as lists nested as the shape is, or one element where there is no axis. `bool` as 0 and 1. */
  tolist(): Read<R, NestedElements> {
    return this.fetch((elements) => nest(elements, this.shape));
  }

  /** The elements now: `AsyncRequiredError` where the engine cannot be waited for, as on a page. */
  toArraySync(): Elements {
    if (!this.session.blocks) throw asyncRequired("toArraySync", "use await toArray()");
    return this.toArray() as Elements;
  }

  /** `item` without keeping the event loop waiting. */
  async itemAsync(options?: Abortable): Promise<number> {
    this.expectOne();
    const signal = signalOf("itemAsync", options);
    const elements = await this.readLater("itemAsync", signal);
    throwIfAborted(signal);
    return Number(elements[0]);
  }

  /** `toArray` without keeping the event loop waiting; stops and rejects when `signal` is aborted. */
  async toArrayAsync(options?: Abortable): Promise<Elements> {
    const signal = signalOf("toArrayAsync", options);
    const elements = await this.readLater("toArrayAsync", signal);
    throwIfAborted(signal);
    return elements;
  }

  /** As `toArrayAsync`. */
  toTypedArrayAsync(options?: Abortable): Promise<Elements> {
    return this.toArrayAsync(options);
  }

  private async readLater(op: string, signal: AbortSignal | undefined): Promise<Elements> {
    const { dtype } = this;
    const [bytes] = await computeLater(this.session, op, [this], true, signal);
    this.#isThere = true;
    return elementsOf(dtype, bytes as ArrayBuffer);
  }

  private expectOne(): void {
    const { size } = this;
    if (size === 1) return;
    const found = `the tensor has the shape [${this.shape.join(", ")}] and ${size} elements`;
    throw errorOf("shape", "item", `${found}, expected one element; use toArray`);
  }

  private fetch<T>(make: (elements: Elements) => T): Read<R, T> {
    const { session, dtype } = this;
    session.flush();
    const read = session.raw.read(this.handle);
    if (typeof read === "number") throw session.failure();
    const take = (bytes: ArrayBuffer) => {
      this.#isThere = true;
      return make(elementsOf(dtype, bytes));
    };
    return (isThenable(read) ? uncoerced(read.then(take)) : take(read as ArrayBuffer)) as Read<R, T>;
  }

  /** Lets go of the tensor now; it cannot be used any more. Doing so twice is no error. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.session.check(this.session.raw.release(this.handle));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** What `JSON.stringify` writes: dtype and shape, no elements. Reads nothing. */
  toJSON(): { dtype: DType; shape: readonly number[] } {
    const { dtype, shape } = this;
    return { dtype, shape };
  }

  /** Dtype and shape. Reads nothing. */
  override toString(): string {
    return this.#isDisposed ? "Tensor (disposed)" : `Tensor ${this.dtype}[${this.shape.join(", ")}]`;
  }

  /** Its text where one is asked for. It is no number: `x * 2` would be NaN without a word. */
  [Symbol.toPrimitive](hint: string): string {
    if (hint !== "number") return this.toString();
    throw errorOf("unsupported", "Tensor", "a tensor is taken for a number; use its methods, such as mul and gt, or what item() gives");
  }

  /** What `console.log` of Node shows: dtype, shape, device, and the first elements if they were computed. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    if (this.#isDisposed) return String(this);
    try {
      const shown = this.#isThere ? this.firstElements() : undefined;
      return `${String(this)} on ${this.session.raw.device}${shown === undefined ? "" : ` {${shown}}`}`;
    } catch {
      // Of a runtime that was disposed, or a value that cannot be computed: inspecting never fails.
      return "Tensor (its elements cannot be read)";
    }
  }

  /** The first elements in words, of a tensor that is not too large to be copied for it. */
  private firstElements(): string | undefined {
    const most = 6;
    if (this.size > 10_000 || !this.session.blocks || this.session.isTracing) return undefined;
    const elements = this.toArray() as Elements;
    const shown = elements.subarray(0, most) as Iterable<number | bigint>;
    const list = Array.from(shown, (element) => (Object.is(element, -0) ? "-0" : String(element)));
    return ` ${[...list, ...(elements.length > most ? ["..."] : [])].join(", ")} `;
  }
}

/** The elements from `start` on as lists of that shape. */
function nest(elements: Elements, shape: readonly number[], start = 0): NestedElements {
  const [size, ...inner] = shape;
  if (size === undefined) return elements[start] as number | bigint;
  const step = inner.reduce((product, size) => product * size, 1);
  return Array.from({ length: size }, (_, at) => nest(elements, inner, start + at * step));
}

/** Names in torch's style beside those of JavaScript's. */
export interface Tensor<R extends Reading = "sync"> {
  requires_grad: boolean;
  readonly is_leaf: boolean;
  readonly is_param: boolean;
  is_param_: Tensor<R>["isParam_"];
  requires_grad_: Tensor<R>["requiresGrad_"];
  zero_grad: Tensor<R>["zeroGrad"];
  copy_from: Tensor<R>["copyFrom"];
  update_from: Tensor<R>["updateFrom"];
  to_list: Tensor<R>["tolist"];
}

nameErrors(Tensor.prototype, ["describe", "expectUsable", "sourceOf", "readLater", "expectOne", "fetch", "firstElements"]);
nameErrors(Tensor);

const ALIASES = {
  requires_grad: "requiresGrad",
  is_leaf: "isLeaf",
  is_param: "isParam",
  is_param_: "isParam_",
  requires_grad_: "requiresGrad_",
  zero_grad: "zeroGrad",
  copy_from: "copyFrom",
  update_from: "updateFrom",
  to_list: "tolist",
} as const;

for (const [alias, name] of Object.entries(ALIASES)) {
  const property = Object.getOwnPropertyDescriptor(Tensor.prototype, name) as PropertyDescriptor;
  Object.defineProperty(Tensor.prototype, alias, property);
}
