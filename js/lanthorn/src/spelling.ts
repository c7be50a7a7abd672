/** Methods under further names. */

/** Gives methods other names; a class that extends this one may have methods of its own in their place. */
export function respell(prototype: object, names: { readonly [name: string]: string }): void {
  for (const [name, method] of Object.entries(names)) {
    const value = function (this: { readonly [method: string]: (...args: unknown[]) => unknown }, ...args: unknown[]) {
      return this[method]?.(...args);
    };
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  }
}
