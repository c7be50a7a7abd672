/** Classes and functions of the package as a runtime's own: what they make belongs to that runtime. */

import { within, type Session } from "./session.js";

/** Whether a function is a class. */
export function isClass(value: unknown): boolean {
  return typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));
}

/** A function that runs with `owner` as the engine of new tensors. */
export function functionOf<F extends (...args: any[]) => unknown>(owner: Session, f: F): F {
  return ((...args: unknown[]) => within(owner, () => f(...args))) as F;
}

/** A class whose instances and static methods make tensors of `owner`. Its instances are those of the class. */
export function classOf<C extends object>(owner: Session, original: C): C {
  const bound = new Map<unknown, unknown>();
  return new Proxy(original, {
    construct: (target, args, newTarget) =>
      within(owner, () => Reflect.construct(target as unknown as Function, args, newTarget) as object),
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== "function" || key === "prototype") return value;
      const known = bound.get(value);
      if (known !== undefined) return known;
      const method = (...args: unknown[]) => within(owner, () => (value as (...a: unknown[]) => unknown).apply(target, args));
      bound.set(value, method);
      return method;
    },
  });
}

/** The exports of a module, each of `owner`. */
export function exportsOf<M extends object>(owner: Session, module: M): M {
  const entries = Object.entries(module).map(([name, value]: [string, unknown]) => {
    if (isClass(value)) return [name, classOf(owner, value as object)];
    return [name, typeof value === "function" ? functionOf(owner, value as () => unknown) : value];
  });
  return Object.freeze(Object.fromEntries(entries)) as M;
}
