/**
 * Where tensors are in the arguments or the result of a function: in lists, plain objects, `Map`s and `Set`s, among other
 * values.
 */

import { describe } from "./dtype.js";
import { errorOf } from "./errors.js";
import { Tensor } from "./tensor.js";

type AnyTensor = Tensor<any>;

/** The shape of a value around its tensors. */
export type Pattern =
  | { readonly kind: "tensor" }
  | { readonly kind: "list"; readonly parts: readonly Pattern[] }
  | { readonly kind: "object"; readonly keys: readonly string[]; readonly parts: readonly Pattern[] }
  | { readonly kind: "map"; readonly keys: readonly unknown[]; readonly parts: readonly Pattern[] }
  | { readonly kind: "set"; readonly parts: readonly Pattern[] }
  | { readonly kind: "value"; readonly value: unknown };

const TENSOR: Pattern = { kind: "tensor" };

/** How deep values may be nested: one that contains itself has no end. */
const MOST_LEVELS = 256;

/** The pattern of a value; its tensors are appended to `tensors` in the pattern's order. `op` is named in errors. */
export function patternOf(op: string, value: unknown, tensors: AnyTensor[], level = 0): Pattern {
  if (value instanceof Tensor) {
    tensors.push(value);
    return TENSOR;
  }
  if (level > MOST_LEVELS) {
    const found = `lists and objects are nested more than ${MOST_LEVELS} deep, or one contains itself`;
    throw errorOf("compile", op, `${found}; expected tensors in lists, objects, Maps and Sets`);
  }
  const patternsOf = (parts: Iterable<unknown>) => Array.from(parts, (part) => patternOf(op, part, tensors, level + 1));
  if (Array.isArray(value)) return { kind: "list", parts: patternsOf(value) };
  if (value instanceof Map) return { kind: "map", keys: [...value.keys()], parts: patternsOf(value.values()) };
  if (value instanceof Set) return { kind: "set", parts: patternsOf(value) };
  if (isPlain(value)) return { kind: "object", keys: Object.keys(value), parts: patternsOf(Object.values(value)) };
  return { kind: "value", value };
}

/**
 * Appends the tensors of a value that has the pattern to `tensors`. Gives undefined, or how the value differs; `path`
 * says where it stands.
 */
export function match(pattern: Pattern, value: unknown, path: string, tensors: AnyTensor[]): string | undefined {
  switch (pattern.kind) {
    case "tensor":
      if (!(value instanceof Tensor)) return `${path} is ${describe(value)}, expected a Tensor`;
      tensors.push(value);
      return undefined;
    case "list": {
      const { parts } = pattern;
      if (!Array.isArray(value)) return `${path} is ${describe(value)}, expected a list of ${parts.length}`;
      if (value.length !== parts.length) {
        return `${path} is a list of ${value.length}, expected one of ${parts.length}`;
      }
      return first(parts, (part, at) => match(part, value[at], `${path}[${at}]`, tensors));
    }
    case "object": {
      const { keys, parts } = pattern;
      const found = isPlain(value) ? Object.keys(value) : undefined;
      if (found === undefined || found.length !== keys.length || keys.some((key) => !found.includes(key))) {
        const shown = found === undefined ? describe(value) : `an object of ${found.join(", ")}`;
        return `${path} is ${shown}, expected an object of ${keys.join(", ")}`;
      }
      return first(parts, (part, at) => {
        const key = keys[at] as string;
        return match(part, (value as { [key: string]: unknown })[key], `${path}.${key}`, tensors);
      });
    }
    case "map": {
      const { keys, parts } = pattern;
      const found = value instanceof Map ? value : undefined;
      if (found === undefined || found.size !== keys.length || keys.some((key) => !found.has(key))) {
        const shown = found === undefined ? describe(value) : `a Map of ${[...found.keys()].map(String).join(", ")}`;
        return `${path} is ${shown}, expected a Map of ${keys.map(String).join(", ")}`;
      }
      return first(parts, (part, at) => match(part, found.get(keys[at]), `${path}.get(${String(keys[at])})`, tensors));
    }
    case "set": {
      const { parts } = pattern;
      const found = value instanceof Set ? [...value] : undefined;
      if (found === undefined || found.length !== parts.length) {
        const shown = found === undefined ? describe(value) : `a Set of ${found.length}`;
        return `${path} is ${shown}, expected a Set of ${parts.length}`;
      }
      return first(parts, (part, at) => match(part, found[at], `${path}[${at}]`, tensors));
    }
    case "value":
      if (Object.is(value, pattern.value)) return undefined;
      return (
        `${path} is ${describe(value)}, expected ${describe(pattern.value)}: what is no tensor is part of the program; ` +
        "pass a tensor for what changes"
      );
  }
}

/** A value of the pattern, of tensors that `next` gives in order. */
export function build(pattern: Pattern, next: () => AnyTensor): unknown {
  switch (pattern.kind) {
    case "tensor":
      return next();
    case "list":
      return pattern.parts.map((part) => build(part, next));
    case "object":
      return Object.fromEntries(pattern.keys.map((key, at) => [key, build(pattern.parts[at] as Pattern, next)]));
    case "map":
      return new Map(pattern.keys.map((key, at) => [key, build(pattern.parts[at] as Pattern, next)]));
    case "set":
      return new Set(pattern.parts.map((part) => build(part, next)));
    case "value":
      return pattern.value;
  }
}

/** The values of a pattern in which no tensors were looked for. */
export function* valuesOf(pattern: Pattern): Generator<unknown> {
  if (pattern.kind === "value") yield pattern.value;
  else if (pattern.kind !== "tensor") for (const part of pattern.parts) yield* valuesOf(part);
}

/** Adds all tensors that a value refers to, through objects of any class. */
export function gather(value: unknown, tensors: Set<AnyTensor>, seen = new Set<unknown>()): void {
  const pending: unknown[] = [value];
  while (pending.length > 0) {
    const one = pending.pop();
    if (typeof one !== "object" || one === null || seen.has(one) || ArrayBuffer.isView(one)) continue;
    seen.add(one);
    if (one instanceof Tensor) tensors.add(one);
    else if (one instanceof Map) pending.push(...one.keys(), ...one.values());
    else if (one instanceof Set) pending.push(...one);
    else pending.push(...Object.values(one));
  }
}

function first<T>(parts: readonly T[], differs: (part: T, at: number) => string | undefined): string | undefined {
  for (let at = 0; at < parts.length; at++) {
    const difference = differs(parts[at] as T, at);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

/** Whether a value is an object of no class, in this realm or another one: its prototype is the last of its chain. */
export function isPlain(value: unknown): value is { [key: string]: unknown } {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "hasOwnProperty"));
}
