/** Errors of the engine as failures of a backend. They are told apart by the kind that the engine gives them. */

import { LanthornError, type ErrorKind } from "lanthorn/raw";

import { BackendError } from "../runtime.js";

/** What was done when something failed. */
export type Phase = BackendError["phase"];

const REASONS: { readonly [K in ErrorKind]: BackendError["reason"] } = {
  shape: "unsupported-layout",
  dtype: "unsupported-dtype",
  argument: "unsupported-layout",
  device: "device-unavailable",
  invalid_handle: "invalid-handle",
  foreign_handle: "foreign-handle",
  closed: "closed-runtime",
  unsupported: "unsupported-operation",
  compile: "compilation-failed",
  execute: "execution-failed",
  transfer: "transfer-failed",
  cancelled: "cancelled",
  io: "io-failed",
  format: "io-failed",
  out_of_memory: "execution-failed",
};

/** Kinds that are said in words before the message. */
const WORDS: { readonly [K in ErrorKind]?: string } = {
  dtype: "dtype mismatch",
};

/** What `details` of a failure of this adapter are. */
class Details {
  /** The kind of the engine's error. */
  readonly kind: ErrorKind;
  /** The op or call of the engine that failed. */
  readonly op: string;
  /** What it said, without names of ops. */
  readonly said: string;

  constructor(kind: ErrorKind, op: string, said: string) {
    this.kind = kind;
    this.op = op;
    this.said = said;
  }
}

/** What is said of an exception that reading arguments has thrown. */
export function unreadable(error: unknown): string {
  let text = "an exception without a text";
  try {
    text = String(error);
  } catch {
    // What was thrown cannot be read either.
  }
  return `the arguments cannot be read: ${text}`;
}

/** A name of the engine as functions of programs, or sizes, are called here. */
const camel = (name: string) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** Sizes of pools, as the engine says them. */
const SIZES =
  /\b(kv_heads|head_dim|kv_dtype|max_tokens|block_size|kda_layers|kda_heads|kda_head_dim|kda_value_dim|conv_layers|conv_channels|conv_kernel)\b/g;

/**
 * The failure that an error of the engine is. Anything else comes of arguments, which are read as they are used.
 *
 * `calls` are the names under which the engine speaks of what the operation calls. An op with another name is one of those
 * that the operation is made of, and is told after it.
 */
export function failureOf(
  backend: string,
  phase: Phase,
  operation: string,
  calls: ReadonlyArray<string>,
  error: unknown,
): BackendError {
  if (!(error instanceof LanthornError)) {
    const message = `${operation}: ${unreadable(error)}`;
    return new BackendError({ reason: "unsupported-layout", backend, operation, phase, message });
  }
  const { kind } = error;
  // A message begins with the op. Those about files have names of others in them.
  const words = error.message.slice(error.op.length + 2);
  const rest = kind === "io" || kind === "format" ? words : words.replace(SIZES, camel);
  const op = calls.includes(error.op) ? operation : error.op;
  const details = new Details(kind, op, WORDS[kind] === undefined ? rest : `${WORDS[kind]}: ${rest}`);
  const reason = REASONS[kind] ?? "execution-failed";
  return new BackendError({ reason, backend, operation, phase, message: told(operation, operation, details), details });
}

/** The message of a failure of `operation` as that of the function `name` which has asked for it. */
export function messageOf(name: string, { operation, message, details }: BackendError): string {
  if (details instanceof Details) return told(name, operation, details);
  return operation === name ? message : `${name}: ${message}`;
}

/** What an op said, under the name of a function, and under its own where that is another one. */
function told(name: string, operation: string, { kind, op, said }: Details): string {
  // Of files the op is the path.
  const isFile = kind === "io" || kind === "format";
  const isSame = op === operation || (!isFile && (camel(op) === name || camel(op) === operation));
  return isSame ? `${name}: ${said}` : `${name}: ${op}: ${said}`;
}
