/** Errors of the engine as JavaScript errors. */

/** What kind of fault an error reports; the names are the engine's. */
export type ErrorKind =
  | "shape"
  | "dtype"
  | "argument"
  | "device"
  | "invalid_handle"
  | "foreign_handle"
  | "closed"
  | "unsupported"
  | "compile"
  | "execute"
  | "transfer"
  | "cancelled"
  | "io"
  | "format"
  | "out_of_memory";

/** An error of the engine. The message names the op, what was found and what would be right. */
export class LanthornError extends Error {
  /** What kind of fault this is. */
  readonly kind: ErrorKind;
  /** The op or call that failed. */
  readonly op: string;

  constructor(kind: ErrorKind, op: string, message: string) {
    super(`${op}: ${message}`);
    this.name = new.target.name;
    this.kind = kind;
    this.op = op;
  }
}

/** Shapes, axes or counts that do not fit. */
export class ShapeError extends LanthornError {}
/** Element types that do not fit. */
export class DTypeError extends LanthornError {}
/** An argument that is no tensor, such as an axis or a setting, of another type or range than the op takes. */
export class ArgumentError extends LanthornError {}
/** A tensor that has been disposed, or was never there. */
export class InvalidHandleError extends LanthornError {}
/** A tensor of another engine, or an object that is no tensor. */
export class ForeignHandleError extends LanthornError {}
/** Something that the engine or a device does not do. */
export class UnsupportedError extends LanthornError {}
/** More memory than there is, or than the limit allows. */
export class OutOfMemoryError extends LanthornError {}
/** Work that was stopped on request. */
export class CancelledError extends LanthornError {}

/** A program that cannot be made. */
export class CompileError extends LanthornError {}
/** A function that cannot be traced, or a call that does not match the one that was: of `jit`, `compile` and `func`. */
export class JitError extends CompileError {}
/** A device that is not there, or that lacks what is asked of it. */
export class DeviceError extends LanthornError {}
/** An engine that has ended, or has not been started. */
export class ClosedError extends LanthornError {}
/** A synchronous read where the engine cannot be waited for. */
export class AsyncRequiredError extends UnsupportedError {}

/** What captured functions are called in errors. */
const CAPTURES = new Set(["jit", "compile", "func"]);

const CLASSES: { readonly [kind: string]: typeof LanthornError } = {
  shape: ShapeError,
  dtype: DTypeError,
  argument: ArgumentError,
  invalid_handle: InvalidHandleError,
  foreign_handle: ForeignHandleError,
  unsupported: UnsupportedError,
  out_of_memory: OutOfMemoryError,
  cancelled: CancelledError,
  compile: CompileError,
  device: DeviceError,
  closed: ClosedError,
};

/** An error of that kind as an instance of its class. */
export function errorOf(kind: ErrorKind, op: string, message: string): LanthornError {
  if (kind === "compile" && CAPTURES.has(op)) return new JitError(kind, op, message);
  return new (CLASSES[kind] ?? LanthornError)(kind, op, message);
}

/** Errors of work that a call may only have waited for, not of what it was given. */
const OF_WORK: ReadonlySet<ErrorKind> = new Set<ErrorKind>(
  ["compile", "execute", "cancelled", "out_of_memory", "closed", "device", "io", "format"],
);

/**
 * An error under the name of the method that was called, in place of that of an op or a call inside of it. A method that
 * `reads` is only to blame for its handles: the rest is about ops that were called before.
 */
export function renamed(error: unknown, method: string, reads = false): unknown {
  if (!(error instanceof LanthornError) || error.op === method) return error;
  if (reads ? error.kind !== "invalid_handle" : OF_WORK.has(error.kind)) return error;
  const { op, message, stack } = error;
  const text = message.startsWith(`${op}: `) ? `${method}${message.slice(op.length)}` : message;
  Object.assign(error, { op: method, message: text });
  if (stack !== undefined) error.stack = stack.replace(message, () => text);
  return error;
}

/** Methods that compute or read what was asked for before. */
const READS = /^((item|toArray|toTypedArrays?|realize)(Async|Sync)?|tolist|shape|dtype|rank|size|ndim|numel|dim)$/;

/**
 * Has errors that leave methods of `owner`, a prototype or a class, name the method. A method that calls another is then
 * the one that is named: the outermost is what the user has called.
 */
export function nameErrors(owner: object, except: readonly string[] = []): void {
  for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
    if (name === "constructor" || name === "prototype" || except.includes(name)) continue;
    const { value, get, set } = property;
    const isMethod = typeof value === "function" && !/^class\b/.test(Function.prototype.toString.call(value));
    if (!isMethod && get === undefined) continue;
    if (isMethod) property.value = naming(name, value);
    if (get !== undefined) property.get = naming(name, get as Method);
    if (set !== undefined) property.set = naming(name, set as Method) as (value: unknown) => void;
    Object.defineProperty(owner, name, property);
  }
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

function naming(name: string, method: Method): Method {
  const reads = READS.test(name);
  const named: Method = function (...args) {
    try {
      return method.apply(this, args);
    } catch (error) {
      throw renamed(error, name, reads);
    }
  };
  return Object.defineProperties(named, {
    name: { value: name, configurable: true },
    length: { value: method.length, configurable: true },
  });
}

/** The error that `Raw.error` describes: kind, op and message on a line each. */
export function errorOfText(text: string): LanthornError {
  const [kind = "execute", op = "call", ...message] = text.split("\n");
  return errorOf(kind as ErrorKind, op, message.join("\n"));
}
