/** What a handle looks like to a program: frozen metadata and `pipe`. What it stands for is known to its adapter alone. */

import { Pipeable } from "effect";

import type { ConcreteTensorHandle, DType, LazyTensorHandle, Placement, TensorHandle } from "./runtime.js";

/** Marks tensors of every kind. */
export const TensorHandleTypeId: unique symbol = Symbol.for("@lanthorn/effect/Tensor");
/** Marks nodes of graphs. */
export const LazyTensorHandleTypeId: unique symbol = Symbol.for("@lanthorn/effect/LazyTensor");
/** Marks elements. */
export const ConcreteTensorHandleTypeId: unique symbol = Symbol.for("@lanthorn/effect/ConcreteTensor");
/** Marks executables. */
export const ExecutableHandleTypeId: unique symbol = Symbol.for("@lanthorn/effect/Executable");
/** Marks pools of keys and values. */
export const KvPoolHandleTypeId: unique symbol = Symbol.for("@lanthorn/effect/KvPool");
/** Marks sequences of a pool. */
export const KvSequenceHandleTypeId: unique symbol = Symbol.for("@lanthorn/effect/KvSequence");

/**
 * An object that stands for a handle of an engine.
 *
 * Which one, and of which adapter, is in private fields, so that nobody else can read, change or forge it. They are reached
 * through the static functions, which an adapter alone uses; a `WeakMap` would do the same at several times the cost.
 */
export abstract class Owned extends Pipeable.Class {
  #owner: object | undefined = undefined;
  #handle = 0;
  #marks: object | undefined = undefined;

  /** Has an object stand for a handle of an owner. */
  static own(object: Owned, owner: object, handle: number): void {
    object.#owner = owner;
    object.#handle = handle;
  }

  /** The handle of an owner that a value stands for; undefined for a value that stands for none of it. */
  static handleOf(value: unknown, owner: object): number | undefined {
    if (typeof value !== "object" || value === null || !(#owner in value)) return undefined;
    return value.#owner === owner ? value.#handle : undefined;
  }

  /** What an adapter has noted of an object. */
  static marksOf(value: object): object | undefined {
    return #owner in value ? value.#marks : undefined;
  }

  static mark(object: Owned, marks: object): void {
    object.#marks = marks;
  }
}

abstract class Handle extends Owned {
  declare readonly [TensorHandleTypeId]: typeof TensorHandleTypeId;
  readonly shape: ReadonlyArray<number>;
  readonly dtype: DType;
  readonly placement: Placement;

  constructor(shape: ReadonlyArray<number>, dtype: DType, placement: Placement) {
    super();
    this.shape = Object.freeze(shape);
    this.dtype = dtype;
    this.placement = placement;
    // Classes below have no fields of their own. What an adapter notes is in private fields, which stay as they are.
    Object.freeze(this);
  }

  get device(): string {
    return this.placement.id;
  }

  toJSON(): unknown {
    const { _tag, shape, dtype, device } = this as unknown as TensorHandle;
    return { _tag, shape, dtype, device };
  }

  static {
    shared(this, TensorHandleTypeId, TensorHandleTypeId);
  }
}

/** A node of a graph. */
export class LazyTensor extends Handle implements LazyTensorHandle {
  declare readonly _tag: "LazyTensor";
  declare readonly [LazyTensorHandleTypeId]: typeof LazyTensorHandleTypeId;

  static {
    shared(this, "_tag", "LazyTensor");
    shared(this, LazyTensorHandleTypeId, LazyTensorHandleTypeId);
  }
}

/** Elements. */
export class ConcreteTensor extends Handle implements ConcreteTensorHandle {
  declare readonly _tag: "Tensor";
  declare readonly [ConcreteTensorHandleTypeId]: typeof ConcreteTensorHandleTypeId;

  static {
    shared(this, "_tag", "Tensor");
    shared(this, ConcreteTensorHandleTypeId, ConcreteTensorHandleTypeId);
  }
}

/** What all objects of a class have in common: it lies on the prototype, so that making an object costs nothing for it. */
function shared(of: { readonly prototype: object }, name: string | symbol, value: unknown): void {
  Object.defineProperty(of.prototype, name, { value, enumerable: true });
}

/** Whether a value is a tensor of any adapter; one that cannot be asked is none. */
export const isTensorHandle = (value: unknown): value is TensorHandle => {
  try {
    return typeof value === "object" && value !== null && TensorHandleTypeId in value;
  } catch {
    return false;
  }
};
