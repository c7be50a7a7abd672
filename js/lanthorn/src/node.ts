/** The class API on Node, over the addon. Reads are synchronous; `toArrayAsync` and `commitAsync` are not. */

import { load } from "./addon.js";
import { install, session, Session } from "./session.js";
import { Tensor } from "./tensor.js";

export { Tensor };
export type { Abortable, Nested, Range, Read, Reading } from "./tensor.js";
export type { NormalOptions, Options, TensorOptions, UniformOptions } from "./create.js";
export type { DType, Elements, ElementsLike, Scalar } from "./dtype.js";
export type { Raw } from "./raw.js";
export * from "./errors.js";
export * from "./functions.js";

const addon = load();
install(new Session(addon));

/** The most bytes that the tensors of this process may hold, if there is a limit. */
export function memoryLimit(): number | undefined {
  return addon.memory_limit() || undefined;
}

/**
 * Limits the bytes that the tensors of this process, its workers' included, may hold, idle memory included; `undefined`
 * lifts the limit. Beyond it, computing is an `OutOfMemoryError`. At first it is `LANTHORN_MEMORY_LIMIT`.
 */
export function setMemoryLimit(bytes: number | undefined): void {
  if (bytes !== undefined && !(Number.isSafeInteger(bytes) && bytes > 0)) {
    throw new RangeError(`setMemoryLimit: got ${bytes}, expected a positive number of bytes, or undefined`);
  }
  session().check(addon.set_memory_limit(bytes ?? 0));
}

/** Starts the engine. On Node it runs once the module is there; a page awaits the same call, with options of its own. */
export async function init(_options?: object): Promise<void> {}
