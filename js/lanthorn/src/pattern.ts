/** Where tensors are in the arguments or the result of a function: lists and plain objects of tensors and other values. */

import { describe } from "./dtype.js";
import { Tensor } from "./tensor.js";

type AnyTensor = Tensor<any>;

/** The shape of a value around its tensors. */
export type Pattern =
  | { readonly kind: "tensor" }
  | { readonly kind: "list"; readonly parts: readonly Pattern[] }
  | { readonly kind: "object"; readonly keys: readonly string[]; readonly parts: readonly Pattern[] }
  | { readonly kind: "value"; readonly value: unknown };

const TENSOR: Pattern = { kind: "tensor" };

/** The pattern of a value; its tensors are appended to `tensors` in the pattern's order. */
export function patternOf(value: unknown, tensors: AnyTensor[]): Pattern {
  if (value instanceof Tensor) {
    tensors.push(value);
    return TENSOR;
  }
  if (Array.isArray(value)) return { kind: "list", parts: value.map((part) => patternOf(part, tensors)) };
  if (isPlain(value)) {
    const keys = Object.keys(value);
    return { kind: "object", keys, parts: keys.map((key) => patternOf(value[key], tensors)) };
  }
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
    case "value":
      return pattern.value;
  }
}

function first<T>(parts: readonly T[], differs: (part: T, at: number) => string | undefined): string | undefined {
  for (let at = 0; at < parts.length; at++) {
    const difference = differs(parts[at] as T, at);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

function isPlain(value: unknown): value is { [key: string]: unknown } {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
