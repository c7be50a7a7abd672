/** The class API on a page, over an engine in a worker. Reads give promises. */

import type { EngineOptions } from "./connection.js";
import { Page } from "./page.js";
import { settingsOf } from "./create.js";
import { install, session, Session } from "./session.js";
import { AsyncRequiredError } from "./errors.js";
import { deviceOf, Runtime, type RuntimeOptions } from "./runtime.js";
// The class first: the ops that it extends refer back to it.
import { Tensor } from "./tensor.js";

export { Tensor };
export type { EngineOptions, Usage } from "./connection.js";
export type { Page } from "./page.js";
export * from "./api.js";

/** A page's engine is in a worker, which takes its time to start: `createAsync`. */
export function create(_options?: RuntimeOptions): never {
  throw new AsyncRequiredError("unsupported", "create", "an engine of a page starts in a worker; use await createAsync()");
}

/** A runtime of its own, with an engine of its own: its tensors are apart from those of all others, and go with it. */
export async function createAsync(options: RuntimeOptions & Omit<EngineOptions, "device"> = {}): Promise<Runtime<"async">> {
  const { device, core, ...engine } = settingsOf("createAsync", options ?? {}, ["device", "core", "threads", "memory", "base"]);
  const chosen = deviceOf({ device, core }, ["cpu", "gpu"], "wasm") as "cpu" | "gpu";
  const opened = await Page.open(new URL(engine.base ?? "../web/", import.meta.url), { ...engine, device: chosen });
  const owner = new Session(opened);
  return new Runtime<"async">(owner, opened.device, () => owner.close());
}

let page: Promise<Page> | undefined;

/**
 * Starts the engine of tensors that are made from now on. A second call gives the same engine, unless the first has
 * failed or the engine was closed.
 */
export function init(options: EngineOptions = {}): Promise<Page> {
  page ??= open(options).catch((error: unknown) => {
    page = undefined;
    throw error;
  });
  return page;
}

/**
 * Lets go of all that the default runtime holds and ends its worker: its tensors cannot be used any more. `init` starts another one.
 */
export function disposeDefault(): void {
  if (page === undefined) return;
  session().close();
  page = undefined;
}

async function open(options: EngineOptions): Promise<Page> {
  const opened = await Page.open(new URL(options.base ?? "../web/", import.meta.url), options);
  opened.onclose = () => {
    page = undefined;
  };
  install(new Session(opened));
  return opened;
}
