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

/** What a tensor is. */
export interface Kind {
  readonly dtype: DType;
  readonly shape: ReadonlyArray<number>;
}

/** Whose fault the dtype of a tensor is, and how what is said of it begins. */
type Origin = readonly [op: string, said: string];

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

  /** What a tensor of elements is, as programs see it. Of one that they do not see, an error says where it comes from. */
  kindOf(dtype: EngineDType, shape: ReadonlyArray<number>, [op, said]: Origin = ["tensor", "the dtype is"]): Kind {
    const seen = visible(dtype);
    if (seen !== dtype) {
      throw errorOf("dtype", op, `${said} ${dtype}, expected one of ${DTYPES.join(", ")}`);
    }
    return { dtype: seen, shape };
  }

  /** The tensor of a handle to elements. */
  concrete(handle: number, kind?: Kind, origin?: Origin): ConcreteTensor {
    if (kind === undefined) {
      const { dtype, shape } = this.engine.describe(handle);
      kind = this.kindOf(dtype, shape, origin);
    }
    return this.adopt(new ConcreteTensor(kind.shape, kind.dtype, this.placement), handle);
  }

  /** Tensors of handles, of which is known what they are or where they come from; if one cannot be had, none is kept. */
  concretes(
    handles: ReadonlyArray<number>,
    kinds: ReadonlyArray<Kind> = [],
    originOf?: (at: number) => Origin,
  ): ConcreteTensor[] {
    try {
      return handles.map((handle, at) => this.concrete(handle, kinds[at], originOf?.(at)));
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
