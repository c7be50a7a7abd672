/**
 * Tensors as JavaScript holds them: a handle of the engine and nothing else. What an op does, and every error about
 * shapes, dtypes and gradients, is the engine's.
 */

import {
  create,
  expectBoolean,
  flatten,
  normal,
  optionsOf,
  uniform,
  type NormalOptions,
  type Options,
  type UniformOptions,
} from "./create.js";
import { elementsOf, type DType, type Elements, type ElementsLike, type Scalar } from "./dtype.js";
import { AsyncRequiredError, errorOf, type LanthornError } from "./errors.js";
import { Operations } from "./generated/ops.js";
import { DTYPES, OP } from "./generated/table.js";
import { computeLater, throwIfAborted } from "./later.js";
import { session, type Session } from "./session.js";

/** How a face reads: Node at once, a page by promises. */
export type Reading = "sync" | "async";

/** What a read gives. */
export type Read<R extends Reading, T> = R extends "sync" ? T : Promise<T>;

/** Nested lists of numbers, one level for each axis. */
export type Nested = Scalar | readonly Nested[];

/** A range of one axis: start and stop, negative from the end. */
export type Range = readonly [start: number, stop: number];

/** Asks an asynchronous call to stop. */
export interface Abortable {
  signal?: AbortSignal | undefined;
}

/** The flag of `Raw.describe` for a tensor that requires gradients. */
const REQUIRES_GRAD = 1;

/** The kind of `Raw.random` that gives a key. */
const KEY = 2;

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

export class Tensor<R extends Reading = "sync"> extends Operations<R> {
  /** The engine's number for this tensor, which is stale once it is disposed. @internal */
  readonly handle: number;
  /** @internal */
  readonly session: Session;
  private sizes: readonly number[] | undefined = undefined;
  private element: DType | undefined = undefined;
  private isDisposed = false;

  /** A tensor of nested lists: `new Tensor([[1, 2], [3, 4]])`. */
  constructor(data: Nested, options?: Options);
  /** @internal */
  constructor(handle: number, options: undefined, owner: Session);
  constructor(data: Nested, options?: Options, owner?: Session) {
    super();
    if (owner !== undefined) {
      this.handle = data as number;
      this.session = owner;
      return;
    }
    const shape: number[] = [];
    const elements: Scalar[] = [];
    flatten(data, 0, shape, elements);
    this.session = session();
    this.handle = create(this.session, elements, shape, optionsOf("Tensor", options));
    this.session.watch(this);
  }

  /** A tensor of elements in row-major order. Typed arrays give their dtype, plain numbers `f32`. */
  static fromData<R extends Reading = "sync">(
    data: ElementsLike,
    shape?: readonly number[],
    options?: Options,
  ): Tensor<R> {
    const owner = session();
    return owner.wrap(create(owner, data, shape, optionsOf("fromData", options)));
  }

  /** Uniform values, between 0 and 1 if `low` and `high` are not given. */
  static rand<R extends Reading = "sync">(shape: readonly number[], options?: UniformOptions | boolean): Tensor<R> {
    return uniform(shape, options);
  }

  /** Normal values, of mean 0 and standard deviation 1 if `mean` and `std` are not given. */
  static randn<R extends Reading = "sync">(shape: readonly number[], options?: NormalOptions | boolean): Tensor<R> {
    return normal(shape, options);
  }

  /** The key of the next draw, for ops that take one, such as `dropout`. */
  static randomKey<R extends Reading = "sync">(): Tensor<R> {
    const owner = session();
    return owner.wrap(owner.raw.random(KEY, 0, 0, 0));
  }

  /** Sizes of the axes. */
  get shape(): readonly number[] {
    if (this.sizes === undefined) this.describe();
    return this.sizes as readonly number[];
  }

  /** The element type. */
  get dtype(): DType {
    if (this.element === undefined) this.describe();
    return this.element as DType;
  }

  /** The number of axes. */
  get rank(): number {
    return this.shape.length;
  }

  /** The number of elements. */
  get size(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }

  /** Whether `backward` accumulates a gradient here. */
  get requiresGrad(): boolean {
    return (this.describe() & REQUIRES_GRAD) !== 0;
  }

  set requiresGrad(on: boolean) {
    expectBoolean("requiresGrad", "the value", on);
    this.session.check(this.session.raw.requires_grad(this.handle, on ? 1 : 0));
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

  /** Keeps dtype and sizes; gives the flags. */
  private describe(): number {
    const { raw } = this.session;
    this.session.check(raw.describe(this.handle));
    const { scratch } = raw;
    if (this.sizes === undefined) {
      this.element = DTYPES[scratch[0] as number];
      const rank = scratch[2] as number;
      this.sizes = Object.freeze(Array.from(scratch.subarray(3, 3 + rank)));
    }
    return scratch[1] as number;
  }

  /**
   * Accumulates the gradients of this tensor, a loss of one element, in all tensors that require them. `seed` is the
   * gradient of the tensor itself where it has several elements.
   */
  backward(seed?: Tensor<R>): void {
    const { session } = this;
    const handle = seed === undefined ? 0 : session.handle("backward", seed);
    session.check(session.raw.backward(this.handle, handle));
  }

  /** The same elements, through which no gradient passes. */
  detach(): Tensor<R> {
    return this.session.wrap(this.session.raw.detach(this.handle));
  }

  /** Writes `this + other` over this tensor. */
  add_(other: Tensor<R> | Scalar): this {
    return this.assign("add_", OP.add, OP.add_scalar, other);
  }

  /** Writes `this - other` over this tensor. */
  sub_(other: Tensor<R> | Scalar): this {
    return this.assign("sub_", OP.sub, OP.sub_scalar, other);
  }

  /** Writes `this * other` over this tensor. */
  mul_(other: Tensor<R> | Scalar): this {
    return this.assign("mul_", OP.mul, OP.mul_scalar, other);
  }

  /** Writes `this / other` over this tensor. */
  div_(other: Tensor<R> | Scalar): this {
    return this.assign("div_", OP.div, OP.div_scalar, other);
  }

  private assign(op: string, id: number, scalarId: number, other: Tensor<R> | Scalar): this {
    const { session } = this;
    const { raw } = session;
    if (typeof other === "object") {
      const handle = session.handle(op, other);
      const { scratch } = raw;
      scratch[0] = 2;
      scratch[1] = this.handle;
      scratch[2] = handle;
      session.check(raw.assign(this.handle, id));
    } else {
      const at = session.putTensors(op, [this]);
      session.putScalar(at, op, other);
      session.check(raw.assign(this.handle, scalarId));
    }
    return this;
  }

  /** Writes the elements of `source`, broadcast and cast, or one number over this tensor. */
  copy_(source: Tensor<R> | Scalar): this {
    const { session } = this;
    const { raw } = session;
    if (typeof source !== "object") {
      const at = session.putTensors("copy_", [this]);
      session.putScalar(at, "copy_", source);
      session.check(raw.assign(this.handle, OP.full_like));
      return this;
    }
    session.check(raw.copy(this.handle, session.handle("copy_", source)));
    return this;
  }

  /** Writes `value` at the place or sub-tensor that `indices` select, one for each of the first axes. */
  set(indices: readonly number[], value: Tensor<R> | Scalar): this {
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
    let view: Tensor<R> = super.slice(0);
    axes.forEach(([from, to]: Range, axis: number) => {
      const wider = view;
      view = wider.slice(axis, from, to);
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

  /** The elements now: `AsyncRequiredError` where the engine cannot be waited for, as on a page. */
  toArraySync(): Elements {
    if (!this.session.blocks) throw asyncRequired("toArraySync", "use await toArray()");
    return this.toArray() as Elements;
  }

  /** `item` without keeping the event loop waiting. */
  async itemAsync(options?: Abortable): Promise<number> {
    this.expectOne();
    const signal = options?.signal;
    const elements = await this.readLater(signal);
    throwIfAborted(signal);
    return Number(elements[0]);
  }

  /** `toArray` without keeping the event loop waiting; stops and rejects when `signal` is aborted. */
  async toArrayAsync(options?: Abortable): Promise<Elements> {
    const signal = options?.signal;
    const elements = await this.readLater(signal);
    throwIfAborted(signal);
    return elements;
  }

  private async readLater(signal: AbortSignal | undefined): Promise<Elements> {
    const { dtype } = this;
    const [bytes] = await computeLater(this.session, "toArrayAsync", [this], true, signal);
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
    const take = (bytes: ArrayBuffer) => make(elementsOf(dtype, bytes));
    return (read instanceof ArrayBuffer ? take(read) : uncoerced(read.then(take))) as Read<R, T>;
  }

  /** Lets go of the tensor now; it cannot be used any more. Doing so twice is no error. */
  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
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
    return this.isDisposed ? "Tensor (disposed)" : `Tensor ${this.dtype}[${this.shape.join(", ")}]`;
  }
}
