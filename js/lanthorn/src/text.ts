/**
 * Texts that go to the engine. Half a character (a lone surrogate) has no UTF-8: in a text it becomes U+FFFD, as in all that
 * Node writes; a name with one, which would be another name then, is refused.
 */

import { describe } from "./dtype.js";
import { errorOf, type ErrorKind } from "./errors.js";

/** Where half a character stands that has no other half, or -1. */
export function loneAt(text: string): number {
  return text.search(/\p{Surrogate}/u);
}

/** What is wrong with a name that has half a character; nothing with any other. */
export function halfOf(name: string): string | undefined {
  const at = loneAt(name);
  if (at < 0) return undefined;
  const code = name.charCodeAt(at).toString(16).toUpperCase();
  return `has half a character, the lone surrogate U+${code}, at ${at}, expected whole ones`;
}

/** Throws for what is no text, and for a name that has half a character. `what` says whose it is. */
export function expectWhole(kind: ErrorKind, op: string, what: string, name: unknown): void {
  if (typeof name !== "string") throw errorOf(kind, op, `${what} is ${describe(name)}, expected a text`);
  const half = halfOf(name);
  if (half !== undefined) throw errorOf(kind, op, `${what} ${half}`);
}
