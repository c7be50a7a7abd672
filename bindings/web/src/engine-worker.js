// The engine's thread: starts the engine, hands it the page's batches in order and posts its replies.
//
// In:  { start: { threads, memory, device } }, then { seated: true } once the pool's workers sit, then { batch } and
//      { usage: true }.
// Out: { seats } with what each pool worker needs, { ready: true }, { request, bytes }, { request, error }, { usage },
//      { dead }.

import { gpuDriver, openGpu } from "./gpu-driver.js";
import { bytesOf, causeOf, compile } from "./module.js";

const PAGE = 65536;
/** What the shared memory begins with; it grows on demand. */
const INITIAL_PAGES = 512;
/** The stack of a pool worker. */
const STACK = 1 << 20;
const DEVICES = { cpu: 0, gpu: 1 };

let engine;

class Engine {
  static async start({ threads, memory: limit, device }) {
    if (!Object.hasOwn(DEVICES, device)) {
      throw new Error(`there is no device ${device}; there are ${Object.keys(DEVICES).join(" and ")}`);
    }
    const shared = threads > 1;
    const module = await compile(new URL(shared ? "./engine-threads.wasm" : "./engine.wasm", import.meta.url));
    const env = shared ? { memory: sharedMemory(limit) } : {};
    const driver = gpuDriver(device === "gpu" ? await openGpu() : null);
    const { exports } = await WebAssembly.instantiate(module, { env, lanthorn_gpu: driver.imports });
    const memory = env.memory ?? exports.memory;
    driver.attach(memory, exports.lanthorn_gpu_arrived);
    const started = new Engine(exports, memory, driver);
    started.guarded(() => {
      if (exports.lanthorn_start(DEVICES[device], threads) < 0) throw new Error(started.error());
    });
    const seats = shared ? started.seats(threads - 1) : [];
    postMessage({ seats: seats.map((seat) => ({ module, memory, seat })) });
    return started;
  }

  constructor(exports, memory, driver) {
    this.exports = exports;
    this.memory = memory;
    this.driver = driver;
    this.panicRecord = exports.lanthorn_panic_record() >>> 0;
    this.dead = false;
    this.waiting = false;
  }

  /** Stacks and thread-local storage for the pool's workers, in the engine's own memory. */
  seats(count) {
    const { exports } = this;
    const allocate = (bytes, alignment) => {
      const address = exports.lanthorn_allocate(bytes, alignment) >>> 0;
      if (address === 0) throw new Error(`there is no memory for a pool worker's ${bytes} bytes`);
      return address;
    };
    return Array.from({ length: count }, () => ({
      // A stack grows downwards.
      stack: allocate(STACK, 16) + STACK,
      storage: allocate(exports.__tls_size.value, Math.max(1, exports.__tls_align.value)),
      panicRecord: this.panicRecord,
    }));
  }

  /** Carries out a batch and posts what it answered. */
  handle(batch) {
    if (this.dead) return;
    this.guarded(() => {
      const { exports, memory } = this;
      const address = exports.lanthorn_inbox(batch.byteLength) >>> 0;
      if (address === 0) throw new Error(`there is no memory for a batch of ${batch.byteLength} bytes`);
      new Uint8Array(memory.buffer, address, batch.byteLength).set(new Uint8Array(batch));
      if (exports.lanthorn_handle() < 0) throw new Error(this.error());
    });
    this.answer();
  }

  /** Posts the replies that are there, and comes back for those that are not. */
  answer() {
    if (this.dead) return;
    this.guarded(() => {
      const { exports } = this;
      for (;;) {
        const reply = this.read(exports.lanthorn_reply());
        if (reply === undefined) break;
        const { request, failed, bytes } = reply;
        if (failed) postMessage({ request, error: new TextDecoder().decode(bytes) });
        else postMessage({ request, bytes: bytes.buffer }, [bytes.buffer]);
      }
      // A device's bytes arrive between tasks of this thread.
      if (exports.lanthorn_pending() > 0) this.wait();
    });
  }

  /** Answers again once the reads that the device has begun have ended. */
  async wait() {
    if (this.waiting) return;
    this.waiting = true;
    await this.driver.settled();
    this.waiting = false;
    this.answer();
  }

  /** Posts what the engine holds. */
  tell() {
    if (this.dead) return;
    const { exports, memory } = this;
    postMessage({ usage: { memoryBytes: memory.buffer.byteLength, tensors: exports.lanthorn_tensors() } });
  }

  /** An `Answer` of the module's. */
  read(pointer) {
    if (pointer === 0) return undefined;
    const fields = new DataView(this.memory.buffer, pointer >>> 0, 16);
    const bytes = bytesOf(this.memory, fields.getUint32(8, true), fields.getUint32(12, true));
    return { request: fields.getUint32(0, true), failed: fields.getUint32(4, true) !== 0, bytes };
  }

  error() {
    return new TextDecoder().decode(this.read(this.exports.lanthorn_error()).bytes);
  }

  /** Runs `work`; if it throws or traps, the engine is dead and the page is told why. */
  guarded(work) {
    try {
      work();
    } catch (error) {
      this.dead = true;
      const trapped = error instanceof WebAssembly.RuntimeError;
      die(trapped ? causeOf(error, this.memory, this.panicRecord) : error.message);
    }
  }
}

function sharedMemory(limit) {
  const maximum = Math.floor(limit / PAGE);
  try {
    return new WebAssembly.Memory({ initial: Math.min(INITIAL_PAGES, maximum), maximum, shared: true });
  } catch (error) {
    throw new Error(`the browser does not reserve ${limit} bytes of shared memory: ${error.message}`);
  }
}

function die(dead) {
  postMessage({ dead });
}

addEventListener("message", async ({ data }) => {
  if (data.start !== undefined) {
    try {
      engine = await Engine.start(data.start);
    } catch (error) {
      die(error.message);
    }
  } else if (data.seated !== undefined) {
    postMessage({ ready: true });
  } else if (data.batch !== undefined) {
    engine?.handle(data.batch);
  } else if (data.usage !== undefined) {
    engine?.tell();
  }
});
