/** What all functions on tensors share: their types, their error, and how a node is added to a graph. */

import { Data, Effect } from "effect";
import { dual } from "effect/Function";
import { describe } from "lanthorn/raw";

import { isTensorHandle } from "../handles.js";
import { messageOf, unreadable } from "../adapter/errors.js";
import * as Runtime from "../runtime.js";

/** The name of an element type. */
export type DType = Runtime.DType;

/** A float element type. */
export type FloatDType = "f32" | "f64" | "f16" | "bf16";

/** `Float16Array` where the program's libraries have it: a name that they have not would make `any` of the types with it. */
type HalfArray = typeof globalThis extends { Float16Array: { readonly prototype: infer Half } } ? Half : never;

/** Elements as JavaScript holds them. */
export type TypedArray = Float32Array | Float64Array | HalfArray | BigInt64Array | Uint8Array | Uint32Array;

/** How a tensor is made. */
export interface TensorOptions {
  /** The element type; `f32` by default. */
  readonly dtype?: DType;
}

/**
 * A failure of a function on tensors.
 *
 * `op` is the function, `message` names what was found and what would be right, and `backend` is the failure of the backend
 * that it came from, if it came from one. Handle it with `Effect.catchTag("TensorError", ..)`.
 */
export class TensorError extends Data.TaggedError("TensorError")<{
  readonly op: string;
  readonly message: string;
  readonly backend?: Runtime.BackendError;
}> {}

/** A tensor: a node of a graph, or elements. */
export type Any = Runtime.TensorHandle;
/** A node of a graph, which has no elements. */
export type Lazy = Runtime.LazyTensorHandle;
/** Elements that a backend holds. */
export type Concrete = Runtime.ConcreteTensorHandle;

/** A node that is added to a graph. */
export type Built = Effect.Effect<Lazy, TensorError, Runtime.Runtime>;

/** A function of two tensors. */
export interface Binary {
  (other: Any): (self: Any) => Built;
  (self: Any, other: Any): Built;
}

/** A function of a tensor and options that may be left out. */
export interface Optional<Options> {
  (options?: Options | undefined): (self: Any) => Built;
  (self: Any, options?: Options | undefined): Built;
}

/** A function of a tensor and one more argument. */
export interface With<Argument> {
  (argument: Argument): (self: Any) => Built;
  (self: Any, argument: Argument): Built;
}

/** Options of reductions. */
export interface ReduceOptions {
  /** The axes, from the end where negative; all of them by default. */
  readonly dims?: ReadonlyArray<number>;
  /** Whether the axes stay, of size 1. */
  readonly keepdims?: boolean;
}

/** Whether a tensor is a node of a graph; what is no tensor is none. */
export const isLazyTensor = (self: Any): self is Lazy => isTensorHandle(self) && self._tag === "LazyTensor";

/** Whether a tensor holds elements; what is no tensor does not. */
export const isTensor = (self: Any): self is Concrete => isTensorHandle(self) && self._tag === "Tensor";

/** The sizes of a tensor's axes. Throws a `TensorError` for what is no tensor. */
export const shape = (self: Any): ReadonlyArray<number> => expectTensor("shape", self).shape;

/** The element type of a tensor. Throws as `shape`. */
export const dtype = (self: Any): DType => expectTensor("dtype", self).dtype;

/** Where a tensor lies, such as `"cpu"`. Throws as `shape`. */
export const device = (self: Any): string => expectTensor("device", self).device;

/** The tensor that a value is; for functions without a channel for failures, of which that is a defect. */
export function expectTensor<T extends Any>(op: string, value: T): T {
  if (isTensorHandle(value)) return value;
  throw new TensorError({ op, message: `${op}: got ${found(value)}, expected a tensor` });
}

/** What a value is, in words; for one that cannot be asked, why. */
export function found(value: unknown): string {
  try {
    return describe(value);
  } catch (error) {
    return unreadable(error);
  }
}

/** The failure of a function with that message. */
export const failure = (op: string, message: string): Effect.Effect<never, TensorError> =>
  Effect.fail(new TensorError({ op, message: `${op}: ${message}` }));

/** What is wrong with what should be a list of tensors; undefined for nothing. */
export function notTensors(tensors: unknown): string | undefined {
  try {
    if (!Array.isArray(tensors)) return `got ${describe(tensors)}, expected a list of tensors`;
    const wrong = tensors.findIndex((tensor) => !isTensorHandle(tensor));
    return wrong < 0 ? undefined : `tensor ${wrong} of the list is ${describe(tensors[wrong])}, expected a tensor`;
  } catch (error) {
    return unreadable(error);
  }
}

/** A function that fails where reading its arguments throws: for what is missing, has a getter that throws, or is detached. */
export const guarded =
  <Arguments extends ReadonlyArray<unknown>, A, E, R>(
    op: string,
    body: (...args: Arguments) => Effect.Effect<A, E, R>,
  ): ((...args: Arguments) => Effect.Effect<A, E | TensorError, R>) =>
  (...args) => {
    try {
      return body(...args);
    } catch (error) {
      return failure(op, unreadable(error));
    }
  };

/** What a function asks of the backend; failures become those of the function. */
export const ask = <A>(
  op: string,
  question: (runtime: Runtime.RuntimeService) => Effect.Effect<A, Runtime.BackendError>,
): Effect.Effect<A, TensorError, Runtime.Runtime> =>
  Runtime.Runtime.use(guarded(op, (runtime: Runtime.RuntimeService) => fromBackend(op, question(runtime))));

/** The failure of a function that a failure of the backend is. */
const failed = (op: string, backend: Runtime.BackendError): TensorError =>
  new TensorError({ op, message: messageOf(op, backend), backend });

/** An effect of the backend, of which failures become those of a function. */
export const fromBackend = <A, R>(
  op: string,
  effect: Effect.Effect<A, Runtime.BackendError, R>,
): Effect.Effect<A, TensorError, R> => Effect.mapError(effect, (backend) => failed(op, backend));

/**
 * An effect of other functions that a function is made of: its failures become those of the function, so that a caller reads
 * the name that he has called.
 */
export const named = <A, E, R>(op: string, effect: Effect.Effect<A, E | TensorError, R>): Effect.Effect<A, E | TensorError, R> =>
  Effect.mapError(effect, (error) => {
    if (!(error instanceof TensorError) || error.op === op) return error;
    const { backend, message } = error;
    return backend === undefined ? new TensorError({ op, message: `${op}: ${message}` }) : failed(op, backend);
  });

/** Adds a node to a graph. Programs build graphs of thousands of nodes, so that this takes one effect and no more. */
export const build = (op: string, request: Runtime.NodeRequest | (() => Runtime.NodeRequest)): Built => {
  if (typeof request !== "function") return Runtime.Runtime.use((runtime) => added(op, request, runtime));
  try {
    const read = request();
    return Runtime.Runtime.use((runtime) => added(op, read, runtime));
  } catch (error) {
    return failure(op, unreadable(error));
  }
};

function added(
  op: string,
  request: Runtime.NodeRequest,
  runtime: Runtime.RuntimeService,
): Effect.Effect<Lazy, TensorError> {
  try {
    if (runtime.nodeNow === undefined) return fromBackend(op, runtime.node(request));
    const made = runtime.nodeNow(request);
    return made._tag === "BackendError" ? Effect.fail(failed(op, made)) : Effect.succeed(made);
  } catch (error) {
    return failure(op, unreadable(error));
  }
}

/** The operations whose operands are of that form, and which have no attributes. */
type Plain<Inputs> = {
  [K in keyof Runtime.NodeOperationMap]: Runtime.NodeOperationMap[K] extends { readonly inputs: Inputs }
    ? Runtime.NodeOperationMap[K] extends { readonly attributes: unknown }
      ? never
      : K
    : never;
}[keyof Runtime.NodeOperationMap];

type UnaryOperation = Plain<readonly [self: Any]>;
type BinaryOperation = Plain<readonly [self: Any, other: Any]>;

/** A function that is one operation on one tensor. */
export const unary =
  (op: UnaryOperation): ((self: Any) => Built) =>
  (self) =>
    build(op, { op, inputs: [self] } as Runtime.NodeRequest);

/** A function that is one operation on two tensors. */
export const binary = (op: BinaryOperation): Binary =>
  dual(2, (self: Any, other: Any) => build(op, { op, inputs: [self, other] } as Runtime.NodeRequest));

/** A function whose options may be left out: data comes first if the first argument is a tensor. */
export const optional = <Options>(
  op: string,
  body: (self: Any, options: Options | undefined) => Built,
): Optional<Options> => dual((args) => isTensorHandle(args[0]), guarded(op, body));

/** Whether data comes first in the arguments of a function of two tensors and options that may be left out. */
export const isDataFirst = (args: IArguments): boolean => isTensorHandle(args[0]) && isTensorHandle(args[1]);
