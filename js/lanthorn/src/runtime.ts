/** Runtimes: engines with the class API over each. */

import { classOf, exportsOf, functionOf } from "./bound.js";
import { compile, compileAsync, func, jit, jitAsync } from "./capture.js";
import { settingsOf } from "./create.js";
import { codeOf, describe } from "./dtype.js";
import { DTypeError, errorOf } from "./errors.js";
import * as files from "./files.js";
import {
  clearScheduleCache,
  collect,
  commit,
  commitAsync,
  crossEntropy,
  grad,
  manualSeed,
  noGradOf,
  resetCounters,
  stats,
  toTypedArrays,
  toTypedArraysAsync,
  trackTensors,
  type noGrad,
} from "./functions.js";
import { OP } from "./generated/table.js";
import * as nn from "./nn/index.js";
import * as optim from "./optim/index.js";
import { listOf, session, within, type Session } from "./session.js";
import { Tensor, type Nested, type Reading } from "./tensor.js";
import type { Options } from "./create.js";
import type { DType } from "./dtype.js";

/** What `create` takes. */
export interface RuntimeOptions {
  /** Where programs run; the first device of the engine, `cpu`, if it is not given or `"auto"`. */
  device?: string | undefined;
  /** Which build of the engine: `"native"` on Node, `"wasm"` on a page, or `"auto"`, the one that there is. */
  core?: "auto" | "native" | "wasm" | undefined;
}

/** What `canRun` is asked. */
export interface CanRunQuery {
  /** An op, by its method's name or the table's. */
  op: string;
  /** Sizes of the operands' axes; a single element if they are not given. */
  shape?: readonly number[] | undefined;
  /** The operands' element type, `f32` if it is not given. */
  dtype?: DType | undefined;
  /** Another device than the runtime's. */
  device?: string | undefined;
}

/** Whether something runs, and why not. */
export interface Capability {
  readonly answer: "yes" | "no" | "unknown";
  readonly reason: string;
}

/** `Tensor` as a runtime's own class: what it makes belongs to that runtime. */
export type TensorClass<R extends Reading> = {
  new (data: Nested, options?: Options): Tensor<R>;
  readonly prototype: Tensor<R>;
} & {
  [K in Exclude<keyof typeof Tensor, "prototype">]: (typeof Tensor)[K] extends (...args: infer A) => Tensor<any>
    ? (...args: A) => Tensor<R>
    : (typeof Tensor)[K];
};

/**
 * An engine's tensors, apart from those of other runtimes: an op on tensors of two of them is a `ForeignHandleError`. The
 * package's own `Tensor`, `jit` and so on belong to the default runtime.
 *
 * ```ts
 * using pg = create({ device: "cpu" });
 * new pg.Tensor([1, 2, 3]).add(1).toArray(); // 2, 3, 4
 * ```
 */
export class Runtime<R extends Reading = "sync"> {
  /** Where its programs run. */
  readonly device: string;
  /** Which build of the engine it is of. */
  readonly core: "native" | "wasm";
  /** The class of its tensors. */
  readonly Tensor: TensorClass<R>;
  private readonly owner: Session;
  private readonly close: (() => void) | undefined;
  private layers: typeof nn | undefined;
  private rules: typeof optim | undefined;

  /** @internal */
  constructor(owner: Session, device: string, close?: () => void) {
    this.owner = owner;
    this.device = device;
    this.core = owner.blocks ? "native" : "wasm";
    this.close = close;
    this.Tensor = classOf(owner, Tensor) as unknown as TensorClass<R>;
    const own = <F extends (...args: any[]) => unknown>(f: F) => functionOf(owner, f);
    this.jit = own(jit);
    this.jitAsync = own(jitAsync);
    this.func = own(func);
    this.function = this.func;
    this.compile = own(compile);
    this.compileAsync = own(compileAsync);
    this.trackTensors = own(trackTensors);
    this.manualSeed = own(manualSeed);
    this.grad = own(grad);
    this.crossEntropy = own(crossEntropy);
    this.commit = own(commit);
    this.commitAsync = own(commitAsync);
    this.toTypedArrays = own(toTypedArrays);
    this.toTypedArraysAsync = own(toTypedArraysAsync);
    this.saveSafetensors = own(files.saveSafetensors);
    this.saveSafetensorsAsync = own(files.saveSafetensorsAsync);
    this.loadSafetensors = own(files.loadSafetensors);
    this.loadSafetensorsAsync = own(files.loadSafetensorsAsync);
    this.loadGguf = own(files.loadGguf);
    this.loadGgufAsync = own(files.loadGgufAsync);
    this.loadTorch = own(files.loadTorch);
    this.loadTorchAsync = own(files.loadTorchAsync);
    this.loadZip = own(files.loadZip);
    this.loadZipAsync = own(files.loadZipAsync);
    this.loadTar = own(files.loadTar);
    this.loadTarAsync = own(files.loadTarAsync);
    this.stats = own(stats);
    this.resetCounters = own(resetCounters);
    this.collect = own(collect);
    this.clearScheduleCache = own(clearScheduleCache);
    this.noGrad = own((f) => noGradOf(() => [owner], f));
  }

  /** The package's `nn`, whose layers have parameters of this runtime. */
  get nn(): typeof nn {
    return (this.layers ??= exportsOf(this.owner, nn));
  }

  /** The package's `optim`. An optimiser is of its parameters' runtime. */
  get optim(): typeof optim {
    return (this.rules ??= exportsOf(this.owner, optim));
  }

  /** Runs `f` with this runtime in the place of the default one, up to the first `await` of an asynchronous `f`. */
  run<T>(f: () => T): T {
    return within(this.owner, f);
  }

  /** As the package's function of that name, in this runtime; so are the following ones. */
  readonly jit: typeof jit;
  readonly jitAsync: typeof jitAsync;
  readonly func: typeof func;
  /** As `func`. */
  readonly function: typeof func;
  readonly compile: typeof compile;
  readonly compileAsync: typeof compileAsync;
  readonly noGrad: typeof noGrad;
  readonly trackTensors: typeof trackTensors;
  readonly manualSeed: typeof manualSeed;
  readonly grad: typeof grad;
  readonly crossEntropy: typeof crossEntropy;
  readonly commit: typeof commit;
  readonly commitAsync: typeof commitAsync;
  readonly toTypedArrays: typeof toTypedArrays;
  readonly toTypedArraysAsync: typeof toTypedArraysAsync;
  readonly saveSafetensors: typeof files.saveSafetensors;
  readonly saveSafetensorsAsync: typeof files.saveSafetensorsAsync;
  readonly loadSafetensors: typeof files.loadSafetensors;
  readonly loadSafetensorsAsync: typeof files.loadSafetensorsAsync;
  readonly loadGguf: typeof files.loadGguf;
  readonly loadGgufAsync: typeof files.loadGgufAsync;
  readonly loadTorch: typeof files.loadTorch;
  readonly loadTorchAsync: typeof files.loadTorchAsync;
  readonly loadZip: typeof files.loadZip;
  readonly loadZipAsync: typeof files.loadZipAsync;
  readonly loadTar: typeof files.loadTar;
  readonly loadTarAsync: typeof files.loadTarAsync;
  readonly stats: typeof stats;
  readonly resetCounters: typeof resetCounters;
  readonly collect: typeof collect;
  readonly clearScheduleCache: typeof clearScheduleCache;

  /**
   * Whether an op runs on operands of one shape and dtype, its other arguments left out. Nothing is computed. `unknown`
   * is the answer where shape and dtype alone do not say, or a worker would have to be asked. Never throws.
   */
  canRun(query: CanRunQuery): Capability {
    try {
      return this.ask(query);
    } catch (error) {
      const answer = error instanceof DTypeError ? "no" : "unknown";
      return { answer, reason: error instanceof Error ? error.message : String(error) };
    }
  }

  private ask(query: CanRunQuery): Capability {
    const known = ["op", "shape", "dtype", "device"] as const;
    const { op, shape = [], dtype = "f32", device = this.device } = settingsOf("canRun", query, known);
    if (typeof op !== "string") throw errorOf("unsupported", "canRun", `op is ${describe(op)}, expected the name of an op`);
    const sizes = listOf(this.owner, "canRun", shape);
    if (device !== this.device) {
      return { answer: "no", reason: `this runtime computes on ${this.device}, not on ${device}` };
    }
    const id = idOf(op);
    if (id === undefined) {
      const isMethod = [Tensor, Tensor.prototype].some((owner) => typeof methodAt(owner, op) === "function");
      if (!isMethod) return { answer: "no", reason: `there is no op ${op}` };
      return { answer: "unknown", reason: `${op} is made of other ops or does more than one; ask for these` };
    }
    const { raw } = this.owner;
    // Methods of those names take other dtypes by a cast.
    const code = codeOf(OPS_OF_TRUTHS.has(id) ? "bool" : dtype);
    this.owner.putSizes(0, sizes);
    switch (this.owner.check(raw.can_run(id, code))) {
      case 2:
        return { answer: "yes", reason: `${this.device} has kernels for ${op} of ${dtype}[${shape.join(", ")}]` };
      case 1:
        return { answer: "unknown", reason: this.owner.failure().message };
      default:
        return { answer: "no", reason: this.owner.failure().message };
    }
  }

  /** Stops its work and lets go of all that it holds; its tensors cannot be used any more. */
  dispose(): void {
    if (this.close === undefined) {
      throw errorOf("unsupported", "dispose", "the default runtime stays; disposeDefault lets go of all that it holds");
    }
    this.close();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Methods that are an op under another name, beside those whose name only ends in `_`. */
const SYNONYMS: { readonly [method: string]: string } = {
  cat: "concat",
  view: "reshape",
  t: "transpose",
  mod: "remainder",
  movedim: "move_axis",
  swapaxes: "swap_axes",
  clip: "clamp",
  amax: "max",
  amin: "min",
  expand_as: "expand",
  take_along_dim: "take_along_axis",
  inv: "inverse",
  lshift: "shift_left",
  rshift: "shift_right",
  to: "cast",
  empty: "zeros",
};

/** Ops of `bool` whose methods take every dtype. */
const OPS_OF_TRUTHS: ReadonlySet<number> = new Set([OP.logical_not, OP.logical_and, OP.logical_or, OP.logical_xor]);

/** The number of the op that a method is, by its name or the table's. */
function idOf(method: string): number | undefined {
  const own = method.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const written = methodAt(Tensor.prototype, method) === undefined ? own : own.replace(/_$/, "");
  const name = [own, written].map((name) => (Object.hasOwn(SYNONYMS, name) ? (SYNONYMS[name] as string) : name));
  const found = name.find((name) => Object.hasOwn(OP, name));
  return found === undefined ? undefined : OP[found as keyof typeof OP];
}

/** A method by its name; getters are none. */
function methodAt(owner: object, name: string): unknown {
  const ends: unknown[] = [null, Object.prototype, Function.prototype];
  for (let at: object | null = owner; at !== null && !ends.includes(at); at = Object.getPrototypeOf(at)) {
    if (name === "constructor") return undefined;
    const property = Object.getOwnPropertyDescriptor(at, name);
    if (property !== undefined) return property.value;
  }
  return undefined;
}

const RUNTIMES = new WeakMap<Session, Runtime<any>>();

/** The runtime of tensors that are made without another one. */
export function getDefaultRuntime<R extends Reading = "sync">(): Runtime<R> {
  const owner = session();
  let runtime = RUNTIMES.get(owner);
  if (runtime === undefined) {
    runtime = new Runtime<R>(owner, owner.raw.device);
    RUNTIMES.set(owner, runtime);
  }
  return runtime as Runtime<R>;
}

/** `Runtime.canRun` of the default runtime. Never throws. */
export function canRun(query: CanRunQuery): Capability {
  try {
    return getDefaultRuntime().canRun(query);
  } catch (error) {
    return { answer: "unknown", reason: error instanceof Error ? error.message : String(error) };
  }
}

/** The device that options name, of an engine that is built as `core`. */
export function deviceOf(options: RuntimeOptions | undefined, devices: readonly string[], core: "native" | "wasm"): string {
  const given = settingsOf("create", options ?? {}, ["device", "core"]);
  const device = given.device === undefined || given.device === "auto" ? (devices[0] as string) : given.device;
  if (given.core !== undefined && given.core !== "auto" && given.core !== core) {
    throw errorOf("device", "create", `the core is ${String(given.core)}, and here it is ${core}; expected that, or auto`);
  }
  if (devices.includes(device)) return device;
  throw errorOf("device", "create", `there is no device ${String(device)} here, expected one of ${devices.join(", ")}`);
}
