/** Files of safetensors. */

import { Effect } from "effect";

import * as Runtime from "../runtime.js";
import { withElements } from "./compute.js";
import { ask, failure, guarded, type Any, type Concrete, type TensorError } from "./core.js";

/** Options of `save`. */
export interface SafetensorsOptions {
  /** Texts that the file holds beside the tensors. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** What a file held. */
export interface SafetensorsArchive {
  readonly tensors: Readonly<Record<string, Concrete>>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The key of the metadata in the format. */
const RESERVED = "__metadata__";

/**
 * Writes tensors to a file of safetensors, all of them or none: a file that was there stays until the new one is whole.
 *
 * Interrupting it stops the work, and waits until nothing of it runs any more. The file is then the old one, or none where
 * there was none; or, where the interruption came after the last byte, the new one. It is never a part of either, and
 * nothing else is left in the folder.
 *
 * Nodes of graphs are computed together first. Fails for the name `__metadata__`, and where the file cannot be written.
 */
export const save = guarded(
  "save",
  (
    path: string,
    tensors: Readonly<Record<string, Any>>,
    options?: SafetensorsOptions,
  ): Effect.Effect<void, TensorError, Runtime.Runtime> => {
    const names = Object.keys(tensors);
    if (names.includes(RESERVED)) {
      return failure("save", `the name ${RESERVED} belongs to the format; name the tensor otherwise`);
    }
    const metadata = options?.metadata ?? {};
    const wrong = Object.keys(metadata).find((key) => typeof metadata[key] !== "string");
    if (wrong !== undefined) {
      return failure("save", `the metadata ${wrong} is a ${typeof metadata[wrong]}, expected a string`);
    }
    return withElements(
      "save",
      names.map((name) => tensors[name] as Any),
      (elements) => {
        const entries = elements.map((tensor, at) => ({ name: names[at] as string, tensor }));
        return ask("save", (runtime) => runtime.extensions.pathSafetensors.save(path, { entries, metadata }));
      },
    );
  },
);

/** Reads the tensors of a file of safetensors with its metadata. Fails where it cannot be read, or is none. */
export const loadArchive = (path: string): Effect.Effect<SafetensorsArchive, TensorError, Runtime.Runtime> =>
  archiveOf("loadArchive", path);

const archiveOf = (op: string, path: string): Effect.Effect<SafetensorsArchive, TensorError, Runtime.Runtime> =>
  Effect.map(
    ask(op, (runtime) => runtime.extensions.pathSafetensors.load(path)),
    ({ entries, metadata }) => ({
      tensors: Object.fromEntries(entries.map(({ name, tensor }) => [name, tensor])),
      metadata,
    }),
  );

/** Reads the tensors of a file of safetensors. Fails as `loadArchive`. */
export const load = (path: string): Effect.Effect<Readonly<Record<string, Concrete>>, TensorError, Runtime.Runtime> =>
  Effect.map(archiveOf("load", path), ({ tensors }) => tensors);
