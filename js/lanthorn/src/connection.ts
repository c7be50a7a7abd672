/** The engine's worker and its pool, as a page holds them: batches go out, answers to reads come back. */

import { errorOf, errorOfText, type LanthornError } from "./errors.js";

/** How an engine is started. */
export interface EngineOptions {
  /** Where it computes. */
  device?: "cpu" | "gpu" | undefined;
  /** Threads of the engine, its own included. More than one needs a page that is cross-origin isolated. */
  threads?: number | undefined;
  /** The most bytes of shared memory that the engine may take, if it has threads; at most 2 GiB. */
  memory?: number | undefined;
  /** The folder of the modules and workers. */
  base?: string | URL | undefined;
}

/** What an engine holds. */
export interface Usage {
  /** Bytes of its module's memory, which grows and never shrinks. */
  memoryBytes: number;
  /** Tensors that the page has not let go of. */
  tensors: number;
}

/** What the engine's worker posts. */
type Posted =
  | { seats: unknown[] }
  | { ready: true }
  | { request: number; bytes: ArrayBuffer }
  | { request: number; error: string }
  | { usage: Usage }
  | { dead: string };

interface Waiting<T> {
  resolve(answer: T): void;
  reject(error: LanthornError): void;
}

const MOST_MEMORY = 2 ** 31;
/** More threads than these gain little in a browser. */
const MOST_THREADS = 8;

/** How many threads an engine gets that was asked for `wanted`. */
export function threadsOf(wanted: number | undefined): number {
  if (!globalThis.crossOriginIsolated) return 1;
  const offered = Math.min(navigator.hardwareConcurrency ?? 1, MOST_THREADS);
  return Math.max(1, Math.floor(wanted ?? offered));
}

export class Connection {
  /** Threads of the engine, its own included. */
  readonly threads: number;
  /** Called when nothing works any more. */
  onclose: (() => void) | undefined;
  private readonly workers: Worker[] = [];
  private readonly waiting = new Map<number, Waiting<ArrayBuffer>>();
  private readonly questions: Waiting<Usage>[] = [];
  /** Why nothing works any more. */
  private reason: LanthornError | undefined;
  private started: { resolve(): void; reject(error: LanthornError): void } | undefined;

  private constructor(threads: number) {
    this.threads = threads;
  }

  /** Starts an engine; resolves once it takes batches. */
  static async open(base: URL, options: EngineOptions): Promise<Connection> {
    const connection = new Connection(threadsOf(options.threads));
    await new Promise<void>((resolve, reject) => {
      connection.started = { resolve, reject };
      const engine = connection.spawn(base, "engine-worker.js", (posted) => connection.receive(base, posted));
      const memory = Math.min(options.memory ?? MOST_MEMORY, MOST_MEMORY);
      engine?.postMessage({ start: { threads: connection.threads, memory, device: options.device ?? "cpu" } });
    });
    return connection;
  }

  /** Why nothing works any more, if so. */
  get failure(): LanthornError | undefined {
    return this.reason;
  }

  /** Sends messages to the engine, which carries them out in order. */
  send(batch: ArrayBuffer): void {
    this.workers[0]?.postMessage({ batch }, [batch]);
  }

  /** The answer to a read that was sent, or is about to be. */
  answer(request: number): Promise<ArrayBuffer> {
    if (this.reason !== undefined) return Promise.reject(this.reason);
    return new Promise((resolve, reject) => this.waiting.set(request, { resolve, reject }));
  }

  /** What the engine holds. Questions are answered in order. */
  usage(): Promise<Usage> {
    if (this.reason !== undefined) return Promise.reject(this.reason);
    return new Promise((resolve, reject) => {
      this.questions.push({ resolve, reject });
      this.workers[0]?.postMessage({ usage: true });
    });
  }

  /** Ends the workers. Reads that wait for an answer are rejected, and so is whatever is asked later. */
  close(reason: LanthornError = errorOf("closed", "engine", "it has been closed")): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    for (const worker of this.workers) worker.terminate();
    for (const { reject } of [...this.waiting.values(), ...this.questions]) reject(reason);
    this.waiting.clear();
    this.questions.length = 0;
    this.started?.reject(reason);
    this.onclose?.();
  }

  private receive(base: URL, posted: Posted): void {
    if ("seats" in posted) this.fill(base, posted.seats);
    else if ("ready" in posted) this.started?.resolve();
    else if ("dead" in posted) this.die(posted.dead);
    else if ("usage" in posted) this.questions.shift()?.resolve(posted.usage);
    else {
      const waiting = this.waiting.get(posted.request);
      this.waiting.delete(posted.request);
      if ("bytes" in posted) waiting?.resolve(posted.bytes);
      else waiting?.reject(errorOfText(posted.error));
    }
  }

  /** Gives each seat of the pool a worker; the engine begins when all of them sit. */
  private fill(base: URL, seats: unknown[]): void {
    let empty = seats.length;
    const begin = () => this.workers[0]?.postMessage({ seated: true });
    for (const seat of seats) {
      const worker = this.spawn(base, "pool-worker.js", (posted) => {
        if ("dead" in posted) this.die(posted.dead);
        else if (--empty === 0) begin();
      });
      worker?.postMessage(seat);
    }
    if (empty === 0) begin();
  }

  /** Starts a worker; `undefined` if the engine is dead by now. */
  private spawn(base: URL, file: string, receive: (posted: Posted) => void): Worker | undefined {
    if (this.reason !== undefined) return undefined;
    const url = new URL(file, base);
    let worker: Worker;
    try {
      worker = new Worker(url, { type: "module" });
    } catch (error) {
      this.die(`${url} cannot be started: ${error instanceof Error ? error.message : error}`);
      return undefined;
    }
    worker.onmessage = ({ data }) => receive(data as Posted);
    // An event without a message says that the file could not be loaded.
    worker.onerror = (event) => this.die(event.message ?? `${url} cannot be loaded`);
    worker.onmessageerror = () => this.die(`${url} posted what cannot be read`);
    this.workers.push(worker);
    return worker;
  }

  private die(cause: string): void {
    this.close(errorOf("closed", "engine", `its worker stopped: ${cause}`));
  }
}
