/** The class API on Node, over the addon. Reads are synchronous; `toArrayAsync` and `commitAsync` are not. */

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { markAsUntransferable } from "node:worker_threads";

import { FINGERPRINT } from "./generated/table.js";
import type { Raw } from "./raw.js";
import { install, Session } from "./session.js";
import { Tensor } from "./tensor.js";

export { Tensor };
export type { Abortable, Nested, Range, Read, Reading } from "./tensor.js";
export type { NormalOptions, Options, TensorOptions, UniformOptions } from "./create.js";
export type { DType, Elements, ElementsLike, Scalar } from "./dtype.js";
export type { Raw } from "./raw.js";
export * from "./errors.js";
export * from "./functions.js";

/** What the addon is beside its raw calls. */
interface Addon extends Raw {
  /** The op table from which the addon was built. */
  readonly fingerprint: number;
}

/** Which of the builds for this platform would be needed: Linux has two C libraries. */
function platform(): string {
  const name = `${process.platform} ${process.arch}`;
  if (process.platform !== "linux") return name;
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined;
  const glibc = report?.header?.glibcVersionRuntime;
  return `${name} (${glibc === undefined ? "musl or another C library" : `glibc ${glibc}`})`;
}

function load(): Raw {
  const file = fileURLToPath(new URL("../lanthorn.node", import.meta.url));
  let addon: Addon;
  try {
    addon = createRequire(import.meta.url)(file) as Addon;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(
      `lanthorn's addon for ${platform()}, Node ${process.versions.node}, cannot be loaded from ${file}: ${reason}. ` +
        "Install a package that was built for this platform, or build it with tools/node-build.sh.",
      { cause },
    );
  }
  if (addon.fingerprint !== FINGERPRINT) {
    throw new Error(`${file} was built from another op table than this package; build it with tools/node-build.sh`);
  }
  // The engine reads the words on this thread only.
  markAsUntransferable(addon.scratch.buffer);
  return addon;
}

install(new Session(load()));

/** Starts the engine. On Node it runs once the module is there; a page awaits the same call, with options of its own. */
export async function init(_options?: object): Promise<void> {}
