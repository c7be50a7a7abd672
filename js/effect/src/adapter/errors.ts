/** Errors of the engine as failures of a backend. */

import { LanthornError, type ErrorKind } from "lanthorn/raw";

import { BackendError } from "../runtime.js";

/** What was done when something failed. */
export type Phase = BackendError["phase"];

const REASONS: { readonly [K in ErrorKind]: BackendError["reason"] } = {
  shape: "unsupported-layout",
  dtype: "unsupported-dtype",
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

/** Kinds that a message does not tell by itself, in words. */
const WORDS: { readonly [K in ErrorKind]?: string } = {
  dtype: "dtype mismatch",
};

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

/** What the engine's op table expects of attributes, in its words. An attribute of another kind says nothing of dtypes. */
const ATTRIBUTE = /, expected (an integer|a list of integers|a number|true or false|one of ")/;

/** The failure that an error of the engine is. Anything else comes of arguments, which are read as they are used. */
export function failureOf(backend: string, phase: Phase, operation: string, error: unknown): BackendError {
  if (!(error instanceof LanthornError)) {
    const message = `${operation}: ${unreadable(error)}`;
    return new BackendError({ reason: "unsupported-layout", backend, operation, phase, message });
  }
  const { kind, op } = error;
  const said = error.message.slice(op.length + 2);
  const isAttribute = kind === "dtype" && !said.includes("dtype") && ATTRIBUTE.test(said);
  const word = isAttribute ? undefined : WORDS[kind];
  const message = word === undefined || said.includes("dtype") ? said : `${word}: ${said}`;
  return new BackendError({
    reason: REASONS[isAttribute ? "shape" : kind] ?? "execution-failed",
    backend,
    operation,
    phase,
    message: `${op}: ${message}`,
    details: { kind, op },
  });
}
