/**
 * The raw calls on a page: the small module answers what needs no numbers, and writes down for the engine's worker what
 * does. Nothing here waits; what the page's module wrote leaves at the end of the running task, or with the next read.
 */

import { Connection, type EngineOptions, type Usage } from "./connection.js";
import { errorOf, type LanthornError } from "./errors.js";
import { FINGERPRINT } from "./generated/table.js";
import type { Raw } from "./raw.js";

/** Places in scratch. */
const SCRATCH = 4096;
/** Batches of more bytes leave at once. */
const BATCH = 1 << 18;

/** What the page's module exports. */
interface Exports {
  readonly memory: WebAssembly.Memory;
  lanthorn_panic_record(): number;
  lanthorn_fingerprint(): number;
  lanthorn_scratch(): number;
  lanthorn_inbox(bytes: number): number;
  lanthorn_text_bytes(): number;
  lanthorn_error(): number;
  lanthorn_counters(): number;
  lanthorn_batch_bytes(): number;
  lanthorn_batch(): number;
  lanthorn_op(id: number): number;
  lanthorn_assign(target: number, id: number): number;
  lanthorn_copy(target: number, source: number): number;
  lanthorn_create(dtype: number, flags: number): number;
  lanthorn_random(kind: number, dtype: number, a: number, b: number): number;
  lanthorn_backward(loss: number, seed: number): number;
  lanthorn_grad(tensor: number): number;
  lanthorn_set_grad(tensor: number, grad: number): number;
  lanthorn_requires_grad(tensor: number, on: number): number;
  lanthorn_detach(tensor: number): number;
  lanthorn_no_grad(step: number): number;
  lanthorn_describe(tensor: number): number;
  lanthorn_seed(seed: number): number;
  lanthorn_release(tensor: number): number;
  lanthorn_stats(): number;
  lanthorn_commit(): number;
  lanthorn_can_run(id: number, dtype: number): number;
  lanthorn_capture_begin(purpose: number): number;
  lanthorn_capture_end(isFinal: number): number;
  lanthorn_capture_abort(): number;
  lanthorn_capture_call(captured: number): number;
  lanthorn_capture_stats(captured: number): number;
  lanthorn_capture_release(captured: number): number;
  lanthorn_capture_counters(): number;
  lanthorn_read(tensor: number): number;
}

async function load(url: URL): Promise<Exports> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} cannot be fetched: the server says ${response.status}`);
  const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), {});
  const exports = instance.exports as unknown as Exports;
  if (exports.lanthorn_fingerprint() >>> 0 !== FINGERPRINT) {
    throw new Error(`${url} was built from another op table than this package; build it with tools/web-build.sh`);
  }
  return exports;
}

/** The engine of a page. */
export class Page implements Raw {
  readonly device: string;
  readonly counters: readonly string[];
  readonly capture_counters: readonly string[];
  private readonly exports: Exports;
  private readonly connection: Connection;
  private readonly record: number;
  private view: Float64Array;
  /** An error that the module does not know of. */
  private failure: LanthornError | undefined;
  private scheduled = false;

  private constructor(exports: Exports, connection: Connection, device: string) {
    this.device = device;
    this.exports = exports;
    this.connection = connection;
    this.record = exports.lanthorn_panic_record() >>> 0;
    this.view = this.look();
    this.counters = this.text(exports.lanthorn_counters()).split("\n");
    this.capture_counters = this.text(exports.lanthorn_capture_counters()).split("\n");
  }

  /** Loads the page's module and starts an engine. */
  static async open(base: URL, options: EngineOptions): Promise<Page> {
    const opening = Connection.open(base, options);
    try {
      const exports = await load(new URL("page.wasm", base));
      return new Page(exports, await opening, options.device ?? "cpu");
    } catch (error) {
      opening.then((connection) => connection.close(), () => {});
      throw error;
    }
  }

  /** Threads of the engine, its own included. */
  get threads(): number {
    return this.connection.threads;
  }

  /** What the engine holds once it has done what it was asked so far. */
  usage(): Promise<Usage> {
    this.flush();
    return this.connection.usage();
  }

  /** Ends the engine. What is asked of it afterwards fails. */
  close(): void {
    this.connection.close();
  }

  /** Called when the engine has ended, by `close` or because it failed. */
  set onclose(listener: () => void) {
    this.connection.onclose = listener;
  }

  get scratch(): Float64Array {
    // Memory that grew is another buffer, and this one is empty.
    if (this.view.length === 0) this.view = this.look();
    return this.view;
  }

  private look(): Float64Array {
    // The first call makes the array, for which memory may grow.
    const address = this.exports.lanthorn_scratch() >>> 0;
    return new Float64Array(this.exports.memory.buffer, address, SCRATCH);
  }

  error(): string {
    const { failure } = this;
    if (failure === undefined) return this.text(this.exports.lanthorn_error());
    return `${failure.kind}\n${failure.op}\n${failure.message.slice(failure.op.length + 2)}`;
  }

  op(id: number): number {
    return this.call(() => this.exports.lanthorn_op(id));
  }
  assign(target: number, id: number): number {
    return this.call(() => this.exports.lanthorn_assign(target, id));
  }
  copy(target: number, source: number): number {
    return this.call(() => this.exports.lanthorn_copy(target, source));
  }
  create(dtype: number, flags: number, bytes: Uint8Array): number {
    return this.call(() => {
      const { exports } = this;
      const address = exports.lanthorn_inbox(bytes.length) >>> 0;
      if (address === 0) {
        this.failure = errorOf("out_of_memory", "create", `the page has no memory for ${bytes.length} bytes`);
        return -1;
      }
      new Uint8Array(exports.memory.buffer, address, bytes.length).set(bytes);
      return exports.lanthorn_create(dtype, flags);
    });
  }
  random(kind: number, dtype: number, a: number, b: number): number {
    return this.call(() => this.exports.lanthorn_random(kind, dtype, a, b));
  }
  backward(loss: number, seed: number): number {
    return this.call(() => this.exports.lanthorn_backward(loss, seed));
  }
  grad(tensor: number): number {
    return this.call(() => this.exports.lanthorn_grad(tensor));
  }
  set_grad(tensor: number, grad: number): number {
    return this.call(() => this.exports.lanthorn_set_grad(tensor, grad));
  }
  requires_grad(tensor: number, on: number): number {
    return this.call(() => this.exports.lanthorn_requires_grad(tensor, on));
  }
  detach(tensor: number): number {
    return this.call(() => this.exports.lanthorn_detach(tensor));
  }
  no_grad(step: number): number {
    return this.call(() => this.exports.lanthorn_no_grad(step));
  }
  describe(tensor: number): number {
    return this.call(() => this.exports.lanthorn_describe(tensor));
  }
  seed(seed: number): number {
    return this.call(() => this.exports.lanthorn_seed(seed));
  }
  release(tensor: number): number {
    return this.call(() => this.exports.lanthorn_release(tensor));
  }
  stats(): number {
    return this.call(() => this.exports.lanthorn_stats());
  }
  commit(): number {
    return this.call(() => this.exports.lanthorn_commit());
  }
  can_run(id: number, dtype: number): number {
    return this.call(() => this.exports.lanthorn_can_run(id, dtype));
  }
  capture_begin(purpose: number): number {
    return this.call(() => this.exports.lanthorn_capture_begin(purpose));
  }
  capture_end(isFinal: number): number {
    return this.call(() => this.exports.lanthorn_capture_end(isFinal));
  }
  capture_abort(): number {
    return this.call(() => this.exports.lanthorn_capture_abort());
  }
  capture_call(captured: number): number {
    return this.call(() => this.exports.lanthorn_capture_call(captured));
  }
  capture_stats(captured: number): number {
    return this.call(() => this.exports.lanthorn_capture_stats(captured));
  }
  capture_release(captured: number): number {
    return this.call(() => this.exports.lanthorn_capture_release(captured));
  }

  read(tensor: number): number | Promise<ArrayBuffer> {
    const request = this.call(() => this.exports.lanthorn_read(tensor));
    if (request < 0) return request;
    const answer = this.connection.answer(request);
    this.flush();
    return answer;
  }

  /** Calls the module. After a trap it is of no more use, and says so. */
  private call(work: () => number): number {
    const dead = this.connection.failure;
    if (dead !== undefined) {
      this.failure = dead;
      return -1;
    }
    this.failure = undefined;
    try {
      const result = work();
      if (!this.scheduled) {
        this.scheduled = true;
        queueMicrotask(() => {
          this.scheduled = false;
          this.flush();
        });
      } else if (this.exports.lanthorn_batch_bytes() > BATCH) {
        this.flush();
      }
      return result;
    } catch (error) {
      this.failure = errorOf("closed", "page", `its module stopped: ${this.panic() || error}`);
      this.connection.close(this.failure);
      return -1;
    }
  }

  /** Sends what the module wrote down. */
  private flush(): void {
    const { exports } = this;
    if (this.connection.failure !== undefined) return;
    const length = exports.lanthorn_batch_bytes();
    if (length === 0) return;
    const address = exports.lanthorn_batch() >>> 0;
    this.connection.send(exports.memory.buffer.slice(address, address + length));
  }

  /** Text of the module's. */
  private text(address: number): string {
    const bytes = new Uint8Array(this.exports.memory.buffer, address >>> 0, this.exports.lanthorn_text_bytes());
    return new TextDecoder().decode(bytes);
  }

  /** The message of a panic, if there was one. */
  private panic(): string {
    const { memory } = this.exports;
    const length = new DataView(memory.buffer).getUint32(this.record, true);
    return new TextDecoder().decode(new Uint8Array(memory.buffer, this.record + 4, length));
  }
}

