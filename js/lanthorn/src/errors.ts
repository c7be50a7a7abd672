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

/** The error that `Raw.error` describes: kind, op and message on a line each. */
export function errorOfText(text: string): LanthornError {
  const [kind = "execute", op = "call", ...message] = text.split("\n");
  return errorOf(kind as ErrorKind, op, message.join("\n"));
}
