/** What callers give, held against what is expected: an argument that is something else is an error with its name. */

import { describe, halfOf } from "lanthorn/raw";

import { invalid } from "./errors.js";

/** Throws for what is not expected. `name` is the argument's. */
export function refuse(op: string, name: string, value: unknown, expected: string): never {
  throw invalid(op, `${name} is ${describe(value)}, expected ${expected}`);
}

/** A text. Half a character (a lone surrogate) in it becomes U+FFFD, as in everything that Node writes. */
export function textOf(op: string, name: string, value: unknown): string {
  return typeof value === "string" ? value : refuse(op, name, value, "a text");
}

/** What names something: a path, a token. One with half a character would be another when it is written. */
export function nameOf(op: string, name: string, value: unknown): string {
  const text = textOf(op, name, value);
  const half = halfOf(text);
  if (half !== undefined) throw invalid(op, `${name} ${half}`);
  return text;
}

/** A copy of a list, each of whose elements `each` reads. */
export function listOf<T>(
  op: string,
  name: string,
  values: unknown,
  what: string,
  each: (op: string, name: string, value: unknown) => T,
): T[] {
  if (!Array.isArray(values)) refuse(op, name, values, `a list of ${what}`);
  return Array.from(values as readonly unknown[], (value, at) => each(op, `${name}[${at}]`, value));
}

/** An object, such as one of options. */
export function objectOf<T extends object>(op: string, name: string, value: T): T {
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse(op, name, value, "an object");
  return value;
}

/** Options, or none. */
export function optionsOf<T extends object>(op: string, value: T | undefined): Partial<T> {
  return value === undefined ? {} : objectOf(op, "options", value);
}

/** A switch among options; `standard` if it is not given. */
export function switchOf(op: string, name: string, value: unknown, standard: boolean): boolean {
  if (value === undefined) return standard;
  return typeof value === "boolean" ? value : refuse(op, name, value, "true or false");
}

/** A value as JSON. Half a character in a text of it becomes U+FFFD behind the border. */
export function jsonOf(op: string, name: string, value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw invalid(op, `${name} is no JSON: ${error instanceof Error ? error.message.split("\n")[0] : describe(error)}`);
  }
  return json ?? refuse(op, name, value, "what JSON has");
}
