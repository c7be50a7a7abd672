// Work away from the event loop: results, cancelling, workers, and the end of a process.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

import { commit, commitAsync, compile, noGrad, stats, Tensor } from "../dist/node.js";
import { session } from "../dist/session.js";
import { assertClose, turn } from "./support.mjs";

const MODULE = new URL("../dist/node.js", import.meta.url).href;

/** A chain of products that takes seconds: each is normalised, or the numbers would run away. */
function chain(x, length) {
  let y = x;
  for (let at = 0; at < length; at++) y = y.matmul(x).mul(1 / x.shape[0]);
  return y;
}

test("asynchronous reads give what synchronous ones give", async () => {
  const a = Tensor.rand([16, 16]);
  const b = a.matmul(a);
  const [first, second, half] = await Promise.all([
    b.toArrayAsync(),
    b.transpose().toArrayAsync(),
    b.cast("bf16").toArrayAsync(),
  ]);
  assert.deepEqual(first, b.toArray());
  assert.deepEqual(second, b.transpose().toArray());
  assertClose(half, first, 1e-2);
  assert.equal(await b.sum().itemAsync(), b.sum().item());
  const before = stats().programs;
  const [c, d] = [a.add(1), a.sum()];
  await commitAsync([c, d]);
  assert.equal(stats().programs, before + 1);
  c.toArray();
  d.item();
  assert.equal(stats().programs, before + 1);
});

test("a read sees the tensor as it was when it was asked for", async () => {
  const w = Tensor.ones([4]);
  const y = w.mul(3);
  const read = Promise.all([w.toArrayAsync(), y.toArrayAsync()]);
  w.add_(5);
  y.dispose();
  const [was, product] = await read;
  assert.deepEqual([...was], [1, 1, 1, 1]);
  assert.deepEqual([...product], [3, 3, 3, 3]);
  assert.deepEqual([...w.toArray()], [6, 6, 6, 6]);
});

test("an aborted read rejects with an AbortError and leaves tensors readable", async () => {
  const x = Tensor.rand([256, 256]);
  const y = chain(x, 200);
  const w = Tensor.ones([4], true);
  noGrad(() => w.mul_(3));
  const before = stats();
  const controller = new AbortController();
  const read = y.toArrayAsync({ signal: controller.signal });
  await turn();
  controller.abort();
  await assert.rejects(read, { name: "AbortError" });
  assert.equal(stats().programs, before.programs, "a cancelled program counts as run");
  assert.ok(stats().live_bytes <= before.live_bytes, "a cancelled program has left memory behind");
  assert.deepEqual([...w.toArray()], [3, 3, 3, 3]);
  assert.ok(y.toArray().every(Number.isFinite));
  // A signal that was aborted before, and one with a reason of its own.
  await assert.rejects(y.toArrayAsync({ signal: AbortSignal.abort() }), { name: "AbortError" });
  const reason = new RangeError("mine");
  await assert.rejects(commitAsync([y.add(1)], { signal: AbortSignal.abort(reason) }), reason);
  // After the end there is nothing to stop.
  const late = new AbortController();
  assert.ok((await y.toArrayAsync({ signal: late.signal })).length > 0);
  late.abort();
});

test("a signal that refuses its listener rejects the read and leaves nothing behind", async () => {
  const { signal } = new AbortController();
  signal.addEventListener = () => {
    throw new RangeError("mine");
  };
  // Work that fails: a promise of it that nobody holds would end the process.
  const wrong = Tensor.ones([3, 2]).embedding(Tensor.fromData([7], [1], { dtype: "i64" }));
  await assert.rejects(wrong.toArrayAsync({ signal }), { name: "RangeError", message: "mine" });
  await assert.rejects(commitAsync([wrong], { signal }), { name: "RangeError", message: "mine" });
  for (let at = 0; at < 20; at++) await turn();
  assert.deepEqual([...(await Tensor.ones([2]).add(1).toArrayAsync())], [2, 2]);
});

test("reads in flight share one listener of their signal", async () => {
  const warnings = [];
  const warn = (warning) => warnings.push(warning);
  process.on("warning", warn);
  const controller = new AbortController();
  const { signal } = controller;
  const read = () => Array.from({ length: 20 }, (_, at) => Tensor.ones([1 << 15]).add(at).toArrayAsync({ signal }));
  const reads = read();
  assert.equal(getEventListeners(signal, "abort").length, 1);
  const values = await Promise.all(reads);
  assert.deepEqual(values.map((elements) => elements[0]), Array.from({ length: 20 }, (_, at) => at + 1));
  assert.equal(getEventListeners(signal, "abort").length, 0);
  // Each of them stops, and one that has ended before takes no listener away.
  const x = Tensor.rand([256, 256]);
  const short = Tensor.ones([1 << 15]).add(1).toArrayAsync({ signal });
  const long = [chain(x, 200), chain(x, 201)].map((y) => y.toArrayAsync({ signal }));
  await short;
  assert.equal(getEventListeners(signal, "abort").length, 1);
  controller.abort();
  for (const { status, reason } of await Promise.allSettled(long)) {
    assert.deepEqual([status, reason?.name], ["rejected", "AbortError"]);
  }
  assert.equal(getEventListeners(signal, "abort").length, 0);
  await turn();
  process.off("warning", warn);
  assert.deepEqual(warnings, []);
});

test("an abort between the end of the work and its delivery is heeded", async () => {
  const { raw } = session();
  const { later } = raw;
  // Enough for the thread; what is little is done at once.
  const x = Tensor.ones([1 << 15]);
  const reason = new RangeError("mine");
  try {
    for (const start of [
      (signal) => x.add(1).toArrayAsync({ signal }),
      (signal) => x.sum().itemAsync({ signal }),
      (signal) => commitAsync([x.add(1)], { signal }),
    ]) {
      for (const ticks of [0, 1]) {
        const controller = new AbortController();
        raw.later = (bytes) => {
          const running = later(bytes);
          let done = running;
          for (let tick = 0; tick < ticks; tick++) done = done.then(() => {});
          done.then(() => controller.abort(reason));
          return running;
        };
        await assert.rejects(start(controller.signal), reason, `${start} after ${ticks} ticks`);
      }
    }
  } finally {
    raw.later = later;
  }
});

test("an error of a kernel comes with the read, and others go on", async () => {
  const table = Tensor.ones([3, 2]);
  const ids = Tensor.fromData([0, 7], [2], { dtype: "i64" });
  const wrong = table.embedding(ids);
  const right = table.add(1);
  const settled = await Promise.allSettled([wrong.toArrayAsync(), right.toArrayAsync()]);
  assert.equal(settled[0].status, "rejected");
  assert.match(settled[0].reason.message, /7/);
  assert.equal(settled[1].status, "fulfilled");
  assert.throws(() => wrong.toArray(), /7/);
});

test("the event loop goes on while a read runs", async () => {
  const x = Tensor.rand([384, 384]);
  commit([x]);
  let turns = 0;
  let isDone = false;
  const read = chain(x, 60).toArrayAsync().then(() => (isDone = true));
  while (!isDone) {
    turns++;
    // JavaScript computes something of its own meanwhile.
    assert.equal(Tensor.fromData([turns, 1]).sum().item(), turns + 1);
    await turn();
  }
  await read;
  assert.ok(turns > 3, `${turns} turns while the read ran`);
});

function inWorker(source) {
  const code = `import(${JSON.stringify(MODULE)}).then(async (lanthorn) => {
    const { parentPort } = await import("node:worker_threads");
    const { Tensor, jit, manualSeed, stats } = lanthorn;
    ${source}
  });`;
  return new Worker(code, { eval: true });
}

const answer = (worker) =>
  new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });

test("workers have sessions of their own", async () => {
  const mine = Tensor.fromData([1, 2, 3]);
  const workers = [1, 2].map((seed) =>
    inWorker(`
      manualSeed(${seed});
      const w = Tensor.fromData([${seed}, 2], [2], true);
      w.square().sum().backward();
      const read = await w.grad.toArrayAsync();
      parentPort.postMessage({ grad: [...read], handles: stats().handles, drawn: [...Tensor.rand([2]).toArray()] });
    `),
  );
  // Listened for from the start: one may have ended before the other answers.
  const ends = workers.map((worker) => new Promise((resolve) => worker.once("exit", resolve)));
  const [first, second] = await Promise.all(workers.map(answer));
  assert.deepEqual([first.grad, second.grad], [[2, 4], [4, 4]]);
  assert.ok(first.handles < 10);
  assert.notDeepEqual(first.drawn, second.drawn);
  await Promise.all(ends);
  assert.deepEqual([...mine.toArray()], [1, 2, 3]);
});

test("workers run compiled programs at the same time, each with its own runtime", async () => {
  const worker = (seed) =>
    inWorker(`
      const step = jit((x) => { w.copy_(w.matmul(x).mul(1 / 256)); return w.sum(); });
      manualSeed(${seed});
      const w = Tensor.rand([256, 256]);
      const x = Tensor.ones([256, 256]);
      step(x).item();
      parentPort.postMessage("ready");
      parentPort.once("message", () => {
        const start = Date.now();
        let sum;
        let steps = 0;
        while (Date.now() - start < 300) {
          sum = step(x);
          sum.item();
          steps++;
        }
        parentPort.postMessage({ start, end: Date.now(), steps, sum: sum.item(), calls: step.stats().calls });
      });
    `);
  const workers = [1, 2].map(worker);
  await Promise.all(workers.map(answer));
  const answers = workers.map(answer);
  workers.forEach((each) => each.postMessage("go"));
  const found = await Promise.all(answers);
  await Promise.all(workers.map((each) => each.terminate()));
  assert.ok(Math.max(...found.map(({ start }) => start)) < Math.min(...found.map(({ end }) => end)), "they overlap");
  for (const { steps, calls, sum } of found) {
    assert.ok(steps > 0 && calls === steps + 1);
    assert.ok(Number.isFinite(sum) && sum > 0);
  }
  assert.notEqual(found[0].sum, found[1].sum);
});

test("every long call heeds its signal, and nothing of it is left", async () => {
  const x = Tensor.rand([512, 512]);
  commit([x]);
  const program = compile((y) => chain(y, 60), [x]);
  const calls = {
    toArrayAsync: (options) => chain(x, 60).toArrayAsync(options),
    itemAsync: (options) => chain(x, 60).sum().itemAsync(options),
    commitAsync: (options) => commitAsync([chain(x, 60)], options),
    runAsync: (options) => program.runAsync([x], options),
  };
  for (const [name, call] of Object.entries(calls)) {
    const abort = new AbortController();
    const running = call({ signal: abort.signal });
    await new Promise((resolve) => setTimeout(resolve, 5));
    const start = performance.now();
    abort.abort();
    await assert.rejects(running, (error) => error.name === "AbortError", name);
    // What was cancelled does not go on: the next call need not wait for it.
    assert.equal((await Tensor.ones([4]).sum().itemAsync()), 4, name);
    assert.ok(performance.now() - start < 2000, `${name} took ${performance.now() - start} ms to stop`);
    assert.equal(getEventListeners(abort.signal, "abort").length, 0, name);
  }
  program.dispose();
});

test("what is little is done at once, what is much goes to the thread", async () => {
  const small = Tensor.fromData([1, 2]).add(1).toArrayAsync();
  const { raw } = session();
  const later = (tensor) => {
    session().flush();
    raw.scratch[0] = 1;
    raw.scratch[1] = tensor.handle;
    return raw.later(1);
  };
  assert.ok(Array.isArray(later(Tensor.fromData([1, 2]).add(1))));
  const large = later(chain(Tensor.rand([256, 256]), 3));
  assert.ok(large instanceof Promise);
  assert.equal((await large)[0].byteLength, 256 * 256 * 4);
  assert.deepEqual([...(await small)], [2, 3]);
});

test("a worker may be terminated with work in flight", async () => {
  for (let round = 0; round < 3; round++) {
    const worker = inWorker(`
      let y = Tensor.rand([256, 256]);
      for (let at = 0; at < 300; at++) y = y.matmul(y).mul(1 / 256);
      y.toArrayAsync();
      parentPort.postMessage("running");
    `);
    assert.equal(await answer(worker), "running");
    assert.equal(await worker.terminate(), 1);
  }
  assert.deepEqual([...Tensor.fromData([1, 2]).add(1).toArray()], [2, 3]);
});

test("a process ends with work in flight", () => {
  const program = (end) => `
    import { Tensor } from ${JSON.stringify(MODULE)};
    let y = Tensor.rand([256, 256]);
    for (let at = 0; at < 40; at++) y = y.matmul(y).mul(1 / 256);
    const read = y.toArrayAsync();
    read.then(() => console.log("read"), () => {});
    ${end}
  `;
  const run = (end) =>
    spawnSync(process.execPath, ["--input-type=module", "--eval", program(end)], {
      cwd: fileURLToPath(new URL(".", import.meta.url)),
      encoding: "utf8",
      timeout: 60_000,
    });
  for (let round = 0; round < 3; round++) {
    const exited = run("setTimeout(() => process.exit(7), 5);");
    assert.deepEqual([exited.status, exited.signal, exited.stderr], [7, null, ""]);
  }
  const called = run(`
    const { compile } = await import(${JSON.stringify(MODULE)});
    const f = compile((x) => { let z = x; for (let at = 0; at < 40; at++) z = z.matmul(x).mul(1 / 256); return z; }, [y]);
    f.runAsync([Tensor.ones([256, 256])]).catch(() => {});
    setTimeout(() => process.exit(7), 5);
  `);
  assert.deepEqual([called.status, called.signal, called.stderr], [7, null, ""]);
  // Without an exit, work keeps the process alive until it is done.
  const finished = run("");
  assert.deepEqual([finished.status, finished.stdout, finished.stderr], [0, "read\n", ""]);
  const thrown = run('setTimeout(() => { throw new Error("mine"); }, 5);');
  assert.equal(thrown.status, 1);
  assert.match(thrown.stderr, /Error: mine/);
});

test("an aborted call that has not begun does not wait for those before it", async () => {
  const long = chain(Tensor.ones([384, 384]), 60);
  let isDone = false;
  const first = long.toArrayAsync().then((values) => {
    isDone = true;
    return values;
  });
  const abort = new AbortController();
  const second = Tensor.ones([384, 384]).matmul(Tensor.ones([384, 384])).toArrayAsync({ signal: abort.signal });
  abort.abort(new Error("not any more"));
  await assert.rejects(second, /not any more/);
  assert.equal(isDone, false);
  assert.ok(Math.abs((await first)[0] - 1) < 1e-3);
});
