/** Computing and reading without keeping the event loop waiting. */

import { errorOfText } from "./errors.js";
import type { Session } from "./session.js";

interface Held {
  readonly handle: number;
}

/**
 * Computes tensors in one program away from the event loop, and gives their bytes if asked. When `signal` is aborted
 * the promise is rejected with the signal's reason as soon as nothing of the work runs any more; the tensors stay as
 * they were.
 */
export async function computeLater(
  session: Session,
  tensors: readonly Held[],
  bytes: boolean,
  signal: AbortSignal | undefined,
): Promise<ArrayBuffer[]> {
  signal?.throwIfAborted();
  session.flush();
  const { raw } = session;
  if (raw.later === undefined) {
    if (bytes) return Promise.all(tensors.map((tensor) => take(session, tensor)));
    put(session, tensors);
    session.check(raw.commit());
    return [];
  }
  put(session, tensors);
  const running = raw.later(bytes ? 1 : 0);
  if (typeof running === "number") throw session.failure();
  const job = raw.scratch[0] as number;
  const stop = () => raw.cancel?.(job);
  signal?.addEventListener("abort", stop);
  try {
    return await running;
  } catch (error) {
    signal?.throwIfAborted();
    throw errorOfText(String(error));
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

function put(session: Session, tensors: readonly Held[]): void {
  session.putTensors("commit", tensors);
}

function take(session: Session, tensor: Held): ArrayBuffer | Promise<ArrayBuffer> {
  const read = session.raw.read(tensor.handle);
  if (typeof read === "number") throw session.failure();
  return read;
}
