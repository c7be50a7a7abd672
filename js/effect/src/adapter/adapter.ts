/** What the parts of the adapter share: the engine, its objects, and how a failure is made. */

import { describe, errorOf, type DType as EngineDType } from "lanthorn/raw";

import { ConcreteTensor, LazyTensor, type Owned } from "../handles.js";
import type { GraphRaw } from "../raw.js";
import type { BackendError, DType, Placement } from "../runtime.js";
import { Engine } from "./engine.js";
import { failureOf, type Phase } from "./errors.js";
import type { Fail } from "./jobs.js";
import { Registry } from "./registry.js";

/** The element types that programs see. */
export const DTYPES: ReadonlyArray<DType> = ["f32", "f64", "f16", "bf16", "i64", "u8", "u32"];

/** A caller's element type. The engine has others, which are not for programs. */
export function dtypeOf(operation: string, dtype: unknown): DType {
  const found = DTYPES.find((name) => name === dtype);
  if (found !== undefined) return found;
  throw errorOf("dtype", operation, `the dtype is ${describe(dtype)}, expected one of ${DTYPES.join(", ")}`);
}

/** What the element types of the engine that programs do not see become: flags and counts. */
function visible(dtype: EngineDType): DType {
  if ((DTYPES as ReadonlyArray<string>).includes(dtype)) return dtype as DType;
  return dtype === "bool" ? "u8" : "i64";
}

/** One engine with its objects. */
export class Adapter {
  readonly engine: Engine;
  readonly registry = new Registry();
  readonly backend: string;
  readonly placement: Placement;

  constructor(raw: GraphRaw, backend: string, placement: Placement) {
    this.engine = new Engine(raw);
    this.backend = backend;
    this.placement = placement;
  }

  /** How an operation that fails in a phase fails; `calls` are the engine's names of what it calls. */
  failing(phase: Phase, operation: string, ...calls: ReadonlyArray<string>): Fail {
    return (error): BackendError => failureOf(this.backend, phase, operation, calls, error);
  }

  /** The handles of objects. */
  handlesOf(operation: string, objects: ReadonlyArray<unknown>): number[] {
    if (!Array.isArray(objects)) {
      throw errorOf("invalid_handle", operation, `got ${describe(objects)}, expected a list of tensors`);
    }
    const handles: number[] = [];
    for (let at = 0; at < objects.length; at++) handles.push(this.registry.handleOf(operation, objects[at]));
    return handles;
  }

  /** Has an object stand for a handle, which goes with it. May overwrite scratch. */
  adopt<T extends Owned>(object: T, handle: number): T {
    this.registry.set(object, handle);
    this.engine.track(object, handle);
    return object;
  }

  /** The node of a handle that a plan has made; a flag becomes `u8`, another type that programs do not see `i64`. */
  lazy(handle: number): LazyTensor {
    const { engine } = this;
    let node = handle;
    const { dtype, shape } = engine.describe(handle);
    const seen = visible(dtype);
    if (seen !== dtype) {
      node = engine.made(() => engine.cast(handle, seen)) as number;
      engine.raw.release(handle);
    }
    return this.adopt(new LazyTensor(shape, seen, this.placement), node);
  }

  /** The tensor of a handle to elements. */
  concrete(handle: number): ConcreteTensor {
    const { dtype, shape } = this.engine.describe(handle);
    const seen = visible(dtype);
    if (seen !== dtype) {
      throw errorOf("dtype", "tensor", `the dtype is ${dtype}, expected one of ${DTYPES.join(", ")}`);
    }
    return this.adopt(new ConcreteTensor(shape, seen, this.placement), handle);
  }

  /** Tensors of handles; if one cannot be had, none is kept. */
  concretes(handles: ReadonlyArray<number>): ConcreteTensor[] {
    try {
      return handles.map((handle) => this.concrete(handle));
    } catch (error) {
      this.drop(handles);
      throw error;
    }
  }

  /** Gives up handles that no object stands for. */
  drop(handles: ReadonlyArray<number>): void {
    for (const handle of handles) this.engine.raw.release(handle);
  }
}
