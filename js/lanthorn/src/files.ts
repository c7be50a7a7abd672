/** State files: safetensors, read and written by the engine, and files of other writers, which it reads. */

import { describe } from "./dtype.js";
import { errorOf, errorOfText } from "./errors.js";
import { computeLater, expectSignal, signalOf, throwIfAborted } from "./later.js";
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

/** What a GGUF file holds. */
export interface LoadedGguf {
  readonly tensors: { [name: string]: Tensor };
  /** Typed values by key. Integers beyond 2^53 are text, as are numbers that are not finite. */
  readonly metadata: { readonly [key: string]: unknown };
  /** How the file holds those of its tensors that are packed there, such as `"Q4_K"`; here they are `f32`. */
  readonly encodings: { readonly [name: string]: string };
}

/** The formats that are read, by their numbers in raw calls. */
const enum Form {
  Safetensors = 0,
  Gguf = 1,
  Torch = 2,
  Zip = 3,
  Tar = 4,
}

/** The raw calls of files. Left out where there are none. */
export interface FileCalls {
  /** Writes the tensors in scratch; the header is the JSON `[[name..], {key: text}]`. `later` 1 gives a promise. */
  save_safetensors(path: string, header: string, later: number): unknown;
  /**
   * Reads a file: format 0 safetensors, 1 GGUF, 2 torch, 3 ZIP, 4 tar. Gives `[header, handles]`, or with `later` 1 a promise of
   * them; the header is the JSON `[[name..], {key: value}, {name: encoding}]`.
   */
  load_file(form: number, path: string, later: number): unknown;
}

function calls(op: string, owner: Session): FileCalls {
  const { raw } = owner;
  if (raw.save_safetensors !== undefined && raw.load_file !== undefined) return raw as FileCalls;
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
function take(owner: Session, found: unknown): LoadedGguf {
  if (typeof found === "number") throw owner.failure();
  const [header, handles] = found as [string, number[]];
  const [names, metadata, encodings] = JSON.parse(header) as [string[], LoadedGguf["metadata"], LoadedGguf["encodings"]];
  const entries = names.map((name, at) => [name, owner.wrap(handles[at] as number)] as const);
  return { tensors: Object.fromEntries(entries), metadata, encodings };
}

/** Reads a file of a format. */
function load(op: string, form: Form, path: string | URL): LoadedGguf {
  const owner = session();
  return take(owner, calls(op, owner).load_file(form, pathOf(op, path), 0));
}

/** `load` without keeping the event loop waiting. */
async function loadLater(op: string, form: Form, path: string | URL, options: Abortable | undefined): Promise<LoadedGguf> {
  const owner = session();
  const raw = calls(op, owner);
  const signal = signalOf(op, options);
  expectSignal(op, signal);
  throwIfAborted(signal);
  const loaded = await settled(owner, raw.load_file(form, pathOf(op, path), 1));
  if (signal?.aborted) for (const tensor of Object.values(loaded.tensors)) tensor.dispose();
  throwIfAborted(signal);
  return loaded;
}

/** What a file of tensors and texts holds. */
function plain({ tensors, metadata }: LoadedGguf): LoadedTensors {
  return { tensors, metadata: metadata as Metadata };
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
  return plain(load("loadSafetensors", Form.Safetensors, path));
}

/**
 * Reads a GGUF file, a model in one file as llama.cpp has them: its tensors, packed ones as `f32`, its metadata, and how the tensors
 * were packed.
 */
export function loadGguf(path: string | URL): LoadedGguf {
  return load("loadGguf", Form.Gguf, path);
}

/**
 * Reads the tensors of a file that `torch.save` has written, such as a state dictionary: those of dictionaries and lists in one another
 * are named `model.weight`. Numbers, truth values and texts are metadata. Nothing of the file is run: what needs more than tensors,
 * dictionaries, numbers and texts is an error that names it, as are files of torch before 1.6.
 */
export function loadTorch(path: string | URL): LoadedTensors {
  return plain(load("loadTorch", Form.Torch, path));
}

/** The bytes of each entry of a ZIP archive as `u8`. Compressed entries are an error. */
export function loadZip(path: string | URL): { [name: string]: Tensor } {
  return load("loadZip", Form.Zip, path).tensors;
}

/** The bytes of each entry of a tar archive as `u8`. */
export function loadTar(path: string | URL): { [name: string]: Tensor } {
  return load("loadTar", Form.Tar, path).tensors;
}

/** `loadGguf` without keeping the event loop waiting. */
export function loadGgufAsync(path: string | URL, options?: Abortable): Promise<LoadedGguf> {
  return loadLater("loadGgufAsync", Form.Gguf, path, options);
}

/** `loadTorch` without keeping the event loop waiting. */
export async function loadTorchAsync(path: string | URL, options?: Abortable): Promise<LoadedTensors> {
  return plain(await loadLater("loadTorchAsync", Form.Torch, path, options));
}

/** `loadZip` without keeping the event loop waiting. */
export async function loadZipAsync(path: string | URL, options?: Abortable): Promise<{ [name: string]: Tensor }> {
  return (await loadLater("loadZipAsync", Form.Zip, path, options)).tensors;
}

/** `loadTar` without keeping the event loop waiting. */
export async function loadTarAsync(path: string | URL, options?: Abortable): Promise<{ [name: string]: Tensor }> {
  return (await loadLater("loadTarAsync", Form.Tar, path, options)).tensors;
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
  return plain(await loadLater("loadSafetensorsAsync", Form.Safetensors, path, options));
}

async function settled(owner: Session, running: unknown): Promise<LoadedGguf> {
  if (typeof running === "number") throw owner.failure();
  const found = await (running as Promise<unknown>).catch((error: unknown) => {
    throw errorOfText(String(error));
  });
  return take(owner, found);
}
