/** State files: safetensors, read and written by the engine. */

import { describe } from "./dtype.js";
import { errorOf, errorOfText } from "./errors.js";
import { computeLater, signalOf, throwIfAborted } from "./later.js";
import { isPlain } from "./pattern.js";
import { session, type Session } from "./session.js";
import { Tensor, type Abortable } from "./tensor.js";
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

/** Tensors by name, as a file takes them. */
export type NamedTensors = { readonly [name: string]: Tensor } | ReadonlyMap<string, Tensor>;

/** The path as text, the header of a file, and its tensors in order. */
function prepare(op: string, owner: Session, path: string | URL, tensors: NamedTensors, metadata: Metadata) {
  const file = pathOf(op, path);
  const entries = entriesOf(op, "the tensors are", tensors);
  for (const [name, tensor] of entries) {
    expectWhole("format", op, "the name of a tensor", name);
    if (!(tensor instanceof Tensor)) {
      throw errorOf("foreign_handle", op, `${name} is ${describe(tensor)}, expected a Tensor`);
    }
    tensor.expectUsable(op, owner);
  }
  const texts = entriesOf(op, "the metadata are", metadata);
  for (const [key, value] of texts) {
    expectWhole("format", op, "the name of metadata", key);
    if (typeof value !== "string") {
      throw errorOf("format", op, `the metadata ${key} is ${describe(value)}, expected text`);
    }
  }
  const header = JSON.stringify([entries.map(([name]) => name), Object.fromEntries(texts)]);
  return { file, header, list: entries.map(([, tensor]) => tensor as Tensor) };
}

/** The entries of an object without a class, or of a Map. */
function entriesOf(op: string, what: string, given: unknown): [name: string, value: unknown][] {
  if (given instanceof Map) return [...given];
  if (isPlain(given)) return Object.entries(given);
  throw errorOf("format", op, `${what} ${describe(given)}, expected an object or a Map by name`);
}

function pathOf(op: string, path: unknown): string {
  const text = path instanceof URL ? fileOf(op, path) : path;
  if (typeof text !== "string") throw errorOf("io", op, `the path is ${describe(path)}, expected text or a file: URL`);
  expectWhole("io", op, "the path", text);
  if (text.includes("\0")) throw errorOf("io", op, `the path ${JSON.stringify(text)} has a NUL in it, expected a path without`);
  return text;
}

/** The path that a URL names on this machine. (A page has this module too, so that it asks nothing of Node.) */
function fileOf(op: string, url: URL): string {
  const none = (why: string) => errorOf("io", op, `the URL ${url} names no file of this machine (${why}), expected file:///path`);
  if (url.protocol !== "file:") throw none(`its scheme is ${url.protocol}`);
  if (url.hostname !== "" && url.hostname !== "localhost") throw none(`it names the host ${url.hostname}`);
  if (/%2f|%5c/i.test(url.pathname)) throw none("it has an encoded slash");
  let path: string;
  try {
    path = decodeURIComponent(url.pathname);
  } catch {
    throw none("it has a broken escape");
  }
  // file:///C:/x
  return /^\/[A-Za-z]:/.test(path) ? path.slice(1) : path;
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
export function saveSafetensors(path: string | URL, tensors: NamedTensors, metadata: Metadata = {}): void {
  const owner = session();
  const raw = calls("saveSafetensors", owner);
  const { file, header, list } = prepare("saveSafetensors", owner, path, tensors, metadata);
  owner.flush();
  owner.putAll("saveSafetensors", list);
  take(owner, raw.save_safetensors(file, header, 0));
}

/** Reads the tensors of a file of safetensors. Errors name the file. */
export function loadSafetensors(path: string | URL): LoadedTensors {
  const owner = session();
  return take(owner, calls("loadSafetensors", owner).load_safetensors(pathOf("loadSafetensors", path), 0));
}

/**
 * `saveSafetensors` without keeping the event loop waiting. It writes the elements of the moment of the call. When `signal`
 * is aborted before the file is written, nothing is; the promise is rejected with the signal's reason.
 */
export async function saveSafetensorsAsync(
  path: string | URL,
  tensors: NamedTensors,
  metadata: Metadata = {},
  options?: Abortable,
): Promise<void> {
  const owner = session();
  const raw = calls("saveSafetensorsAsync", owner);
  const signal = signalOf("saveSafetensorsAsync", options);
  const { file, header, list } = prepare("saveSafetensorsAsync", owner, path, tensors, metadata);
  // Tensors may be written to while they are computed: results of an op, which nobody else has, are not.
  const copies = list.map((tensor) => tensor.stopGradient());
  try {
    await computeLater(owner, "saveSafetensorsAsync", copies, false, signal);
    throwIfAborted(signal);
    owner.flush();
    owner.putAll("saveSafetensorsAsync", copies);
    await settled(owner, raw.save_safetensors(file, header, 1));
  } finally {
    for (const copy of copies) copy.dispose();
  }
}

/**
 * `loadSafetensors` without keeping the event loop waiting. When `signal` is aborted, the promise is rejected with the
 * signal's reason once the file is no longer read, and nothing of it is kept.
 */
export async function loadSafetensorsAsync(path: string | URL, options?: Abortable): Promise<LoadedTensors> {
  const owner = session();
  const raw = calls("loadSafetensorsAsync", owner);
  const signal = signalOf("loadSafetensorsAsync", options);
  throwIfAborted(signal);
  const loaded = await settled(owner, raw.load_safetensors(pathOf("loadSafetensorsAsync", path), 1));
  if (signal?.aborted) for (const tensor of Object.values(loaded.tensors)) tensor.dispose();
  throwIfAborted(signal);
  return loaded;
}

async function settled(owner: Session, running: unknown): Promise<LoadedTensors> {
  if (typeof running === "number") throw owner.failure();
  const found = await (running as Promise<unknown>).catch((error: unknown) => {
    throw errorOfText(String(error));
  });
  return take(owner, found);
}
