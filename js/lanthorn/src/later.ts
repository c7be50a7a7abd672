/** Computing and reading without keeping the event loop waiting. */

import { describe } from "./dtype.js";
import { errorOf, errorOfText } from "./errors.js";
import type { Session } from "./session.js";
import type { Tensor } from "./tensor.js";

/**
 * Computes tensors in one program away from the event loop, and gives their bytes if asked. When `signal` is aborted
 * the promise is rejected with the signal's reason as soon as nothing of the work runs any more; the tensors stay as
 * they were. Whoever awaits it calls `throwIfAborted` after that: the signal may be aborted meanwhile.
 */
export async function computeLater(
  session: Session,
  op: string,
  tensors: readonly Tensor<any>[],
  bytes: boolean,
  signal: AbortSignal | undefined,
): Promise<ArrayBuffer[]> {
  const { raw } = session;
  if (raw.later === undefined) {
    expectSignal(op, signal);
    throwIfAborted(signal);
    session.putAll(op, tensors);
    if (bytes) return Promise.all(tensors.map((tensor) => take(session, op, tensor)));
    session.flush();
    session.putAll(op, tensors);
    session.check(raw.commit(), op);
    return [];
  }
  return runLater(session, op, signal, () => {
    session.putAll(op, tensors);
    return raw.later?.(bytes ? 1 : 0) ?? -1;
  });
}

/**
 * The result of `start`, a raw call that gives it or its promise, with the number of the job in scratch. When `signal`
 * is aborted the promise is rejected with the signal's reason as soon as nothing of the work runs any more.
 */
export async function runLater<T>(
  session: Session,
  op: string,
  signal: AbortSignal | undefined,
  start: () => Promise<T> | T | number,
): Promise<T> {
  expectSignal(op, signal);
  throwIfAborted(signal);
  const { raw } = session;
  let job: number | undefined;
  // The listener first: a signal that refuses it must not leave work behind.
  const unlisten = listen(signal, () => {
    if (job !== undefined) raw.cancel?.(job);
  });
  try {
    throwIfAborted(signal);
    session.flush();
    const running = start();
    if (typeof running === "number") throw session.failure(op);
    if (!isThenable(running)) return running;
    job = raw.scratch[0] as number;
    try {
      return await running;
    } catch (error) {
      throwIfAborted(signal);
      // A runtime that is disposed stops its jobs: no caller has cancelled them.
      if (session.isClosed) throw errorOf("closed", op, "the runtime was disposed before it was done");
      throw errorOfText(String(error));
    }
  } finally {
    unlisten();
  }
}

/** Whether a value is a promise, of this realm or another one, or what can be awaited as one. */
export function isThenable(value: unknown): value is Promise<any> {
  return typeof value === "object" && value !== null && typeof (value as { then?: unknown }).then === "function";
}

/** The signal among the options of an asynchronous call, which knows no other option. */
export function signalOf(op: string, options: unknown): AbortSignal | undefined {
  if (options === undefined || options === null) return undefined;
  const isOptions = typeof options === "object" && !Array.isArray(options) && !("addEventListener" in options);
  if (!isOptions) throw errorOf("dtype", op, `the options are ${describe(options)}, expected an object such as { signal }`);
  const unknown = Object.keys(options).find((name) => name !== "signal");
  if (unknown !== undefined) throw errorOf("unsupported", op, `there is no option ${unknown}; the options are signal`);
  return (options as { signal?: AbortSignal | undefined }).signal;
}

/** Throws the reason of a signal that has been aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw signal.reason;
}

/** Throws for what is no signal. Those of other realms and libraries are. */
export function expectSignal(op: string, signal: unknown): void {
  if (signal === undefined || signal === null) return;
  const { aborted, addEventListener, removeEventListener } = signal as Partial<AbortSignal>;
  const isTarget = typeof addEventListener === "function" && typeof removeEventListener === "function";
  if (isTarget && typeof aborted === "boolean") return;
  throw errorOf("dtype", op, `the signal is ${describe(signal)}, expected an AbortSignal`);
}

/** The one listener of a signal, and what it calls. */
interface Listener {
  readonly stops: Set<() => void>;
  readonly onabort: () => void;
}

/** Jobs share a listener: an event target warns of a leak when it has many. */
const LISTENERS = new WeakMap<AbortSignal, Listener>();

/** Has `stop` called when the signal is aborted; gives what ends that. */
function listen(signal: AbortSignal | undefined, stop: () => void): () => void {
  if (signal === undefined || signal === null) return () => {};
  const listener = LISTENERS.get(signal) ?? listenerOf(signal);
  const { stops, onabort } = listener;
  stops.add(stop);
  return () => {
    stops.delete(stop);
    if (stops.size > 0) return;
    if (LISTENERS.get(signal) === listener) LISTENERS.delete(signal);
    signal.removeEventListener("abort", onabort);
  };
}

function listenerOf(signal: AbortSignal): Listener {
  const stops = new Set<() => void>();
  const onabort = () => {
    for (const stop of stops) stop();
  };
  signal.addEventListener("abort", onabort);
  const listener = { stops, onabort };
  LISTENERS.set(signal, listener);
  return listener;
}

function take(session: Session, op: string, tensor: Tensor<any>): ArrayBuffer | Promise<ArrayBuffer> {
  session.flush();
  const read = session.raw.read(tensor.handle);
  if (typeof read === "number") throw session.failure(op);
  return read;
}
