/** State files: safetensors, read and written by the engine. */

import { describe } from "./dtype.js";
import { errorOf, errorOfText } from "./errors.js";
import { computeLater } from "./later.js";
import { session, type Session } from "./session.js";
import { Tensor } from "./tensor.js";
import { expectWhole } from "./text.js";

/** Strings beside the tensors of a file. */
export type Metadata = { readonly [key: string]: string };

/** What a file holds. */
export interface LoadedTensors {
  readonly tensors: { [name: string]: Tensor };
  readonly metadata: Metadata;
}

/** The raw calls of files. Left out where there are none. */
export interface FileCalls {
  /** Writes the tensors in scratch; the header is the JSON `[[name..], {key: text}]`. `later` 1 gives a promise. */
  save_safetensors(path: string, header: string, later: number): unknown;
  /** Gives `[header, handles]`, or with `later` 1 a promise of them. */
  load_safetensors(path: string, later: number): unknown;
}

function calls(op: string, owner: Session): FileCalls {
  const { raw } = owner;
  if (raw.save_safetensors !== undefined && raw.load_safetensors !== undefined) return raw as FileCalls;
  throw errorOf("unsupported", op, "a page has no files; read bytes by fetch");
}

/** The path as text, the header of a file, and its tensors in order. */
function prepare(op: string, path: string | URL, tensors: { readonly [name: string]: Tensor }, metadata: Metadata) {
  const names = Object.keys(tensors);
  for (const name of names) expectWhole("format", op, "the name of a tensor", name);
  for (const [key, value] of Object.entries(metadata)) {
    expectWhole("format", op, "the name of metadata", key);
    if (typeof value !== "string") {
      throw errorOf("format", op, `the metadata ${key} is ${describe(value)}, expected text`);
    }
  }
  const header = JSON.stringify([names, metadata]);
  return { file: pathOf(op, path), header, list: names.map((name) => tensors[name] as Tensor) };
}

function pathOf(op: string, path: unknown): string {
  if (typeof path === "string") {
    expectWhole("io", op, "the path", path);
    return path;
  }
  if (path instanceof URL && path.protocol === "file:") return decodeURIComponent(path.pathname);
  throw errorOf("io", op, `the path is ${describe(path)}, expected text or a file: URL`);
}

/** Takes what a call gave: an error's number, or names, metadata and handles. */
function take(owner: Session, found: unknown): LoadedTensors {
  if (typeof found === "number") throw owner.failure();
  const [header, handles] = found as [string, number[]];
  const [names, metadata] = JSON.parse(header) as [string[], Metadata];
  const entries = names.map((name, at) => [name, owner.wrap(handles[at] as number)] as const);
  return { tensors: Object.fromEntries(entries), metadata };
}

/**
 * Writes tensors to a file of safetensors, all of them or none: a file that was there stays until the new one is whole.
 *
 * Errors: the file cannot be written; the message names it.
 */
export function saveSafetensors(path: string | URL, tensors: { readonly [name: string]: Tensor }, metadata: Metadata = {}): void {
  const owner = session();
  const raw = calls("saveSafetensors", owner);
  const { file, header, list } = prepare("saveSafetensors", path, tensors, metadata);
  owner.flush();
  owner.putTensors("saveSafetensors", list);
  take(owner, raw.save_safetensors(file, header, 0));
}

/** Reads the tensors of a file of safetensors. Errors name the file. */
export function loadSafetensors(path: string | URL): LoadedTensors {
  const owner = session();
  return take(owner, calls("loadSafetensors", owner).load_safetensors(pathOf("loadSafetensors", path), 0));
}

/** `saveSafetensors` without keeping the event loop waiting. It writes the elements of the moment of the call. */
export async function saveSafetensorsAsync(
  path: string | URL,
  tensors: { readonly [name: string]: Tensor },
  metadata: Metadata = {},
): Promise<void> {
  const owner = session();
  const raw = calls("saveSafetensorsAsync", owner);
  const { file, header, list } = prepare("saveSafetensorsAsync", path, tensors, metadata);
  // Tensors may be written to while they are computed: results of an op, which nobody else has, are not.
  const copies = list.map((tensor) => tensor.stopGradient());
  try {
    await computeLater(owner, "saveSafetensorsAsync", copies, false, undefined);
    owner.flush();
    owner.putTensors("saveSafetensorsAsync", copies);
    await settled(owner, raw.save_safetensors(file, header, 1));
  } finally {
    for (const copy of copies) copy.dispose();
  }
}

/** `loadSafetensors` without keeping the event loop waiting. */
export async function loadSafetensorsAsync(path: string | URL): Promise<LoadedTensors> {
  const owner = session();
  const raw = calls("loadSafetensorsAsync", owner);
  return settled(owner, raw.load_safetensors(pathOf("loadSafetensorsAsync", path), 1));
}

async function settled(owner: Session, running: unknown): Promise<LoadedTensors> {
  if (typeof running === "number") throw owner.failure();
  const found = await (running as Promise<unknown>).catch((error: unknown) => {
    throw errorOfText(String(error));
  });
  return take(owner, found);
}
