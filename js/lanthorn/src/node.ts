/** The class API on Node, over the addon. Reads are synchronous; `toArrayAsync` and `commitAsync` are not. */

import { load } from "./addon.js";
import { errorOf } from "./errors.js";
import { currentSession, install, session, Session } from "./session.js";
import { deviceOf, Runtime, type RuntimeOptions } from "./runtime.js";
import type { Raw } from "./raw.js";
import { Tensor } from "./tensor.js";

export { Tensor };
export * from "./api.js";
export * from "./files.js";
export { profile, Profile } from "./profile.js";

const addon = load();
let standard = new Session(addon);
install(standard);

/**
 * A runtime of its own on a device: its tensors are apart from those of all others, and go with it.
 *
 * Throws `DeviceError` for a device that this build has not.
 */
export function create(options?: RuntimeOptions): Runtime {
  const device = deviceOf(options, addon.devices, "native");
  const owner = open(device);
  return new Runtime(owner, device, () => owner.close());
}

/** A further session of this thread. */
function open(device: string): Session {
  const opened = addon.open();
  if (typeof opened === "number") throw standard.failure();
  const { scratch, counters, capture_counters } = addon;
  // The addon closes the session once the object that it gave is gone: the copy, which is faster to look things up in, holds it.
  return new Session({ ...opened, scratch, counters, capture_counters, device, opened } as Raw & { opened: object });
}

/**
 * Lets go of all that the default runtime holds: its tensors and captured functions cannot be used any more. What is made from now on
 * belongs to a new one.
 */
export function disposeDefault(): void {
  if (currentSession() !== standard) {
    throw errorOf("unsupported", "disposeDefault", "another runtime is in the place of the default one here; call it outside of run");
  }
  const next = open(standard.raw.device);
  standard.close();
  standard = next;
  install(standard);
}

/** As `create`; for code that also runs on a page, where an engine takes its time to start. */
export async function createAsync(options?: RuntimeOptions): Promise<Runtime> {
  return create(options);
}

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
