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

abstract class Handle extends Pipeable.Class {
  readonly [TensorHandleTypeId]: typeof TensorHandleTypeId = TensorHandleTypeId;
  readonly shape: ReadonlyArray<number>;
  readonly dtype: DType;
  readonly placement: Placement;

  constructor(shape: ReadonlyArray<number>, dtype: DType, placement: Placement) {
    super();
    this.shape = Object.freeze(shape);
    this.dtype = dtype;
    this.placement = placement;
  }

  get device(): string {
    return this.placement.id;
  }

  toJSON(): unknown {
    const { _tag, shape, dtype, device } = this as unknown as TensorHandle;
    return { _tag, shape, dtype, device };
  }
}

/** A node of a graph. */
export class LazyTensor extends Handle implements LazyTensorHandle {
  readonly _tag = "LazyTensor";
  readonly [LazyTensorHandleTypeId]: typeof LazyTensorHandleTypeId = LazyTensorHandleTypeId;
}

/** Elements. */
export class ConcreteTensor extends Handle implements ConcreteTensorHandle {
  readonly _tag = "Tensor";
  readonly [ConcreteTensorHandleTypeId]: typeof ConcreteTensorHandleTypeId = ConcreteTensorHandleTypeId;
}

/** Whether a value is a tensor of any adapter; one that cannot be asked is none. */
export const isTensorHandle = (value: unknown): value is TensorHandle => {
  try {
    return typeof value === "object" && value !== null && TensorHandleTypeId in value;
  } catch {
    return false;
  }
};
