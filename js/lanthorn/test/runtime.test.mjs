// Runtimes, what they say of themselves, and reads where nothing may wait.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  AsyncRequiredError,
  canRun,
  create,
  createAsync,
  DeviceError,
  ForeignHandleError,
  getDefaultRuntime,
  InvalidHandleError,
  LanthornError,
  manualSeed,
  noGrad,
  Runtime,
  stats,
  Tensor,
} from "../dist/node.js";
import { Session, session, within } from "../dist/session.js";
import { assertClose, turn } from "./support.mjs";

test("a runtime has tensors, seeds, counters and functions of its own", () => {
  const pg = create({ device: "cpu" });
  assert.ok(pg instanceof Runtime && pg.device === "cpu");
  const x = new pg.Tensor([[1, 2], [3, 4]]);
  assert.ok(x instanceof Tensor && x instanceof pg.Tensor);
  assertClose(x.matmul(pg.Tensor.eye(2)).add(1).toArray(), [2, 3, 4, 5]);
  assert.throws(() => x.add(Tensor.ones([2, 2])), ForeignHandleError);
  assert.throws(() => Tensor.ones([2, 2]).add(x), ForeignHandleError);

  manualSeed(1);
  pg.manualSeed(2);
  const ours = Array.from(pg.Tensor.rand([3]).toArray());
  const theirs = Array.from(Tensor.rand([3]).toArray());
  pg.manualSeed(1);
  assert.notDeepEqual(ours, theirs);
  assert.deepEqual(Array.from(pg.Tensor.rand([3]).toArray()), theirs);

  const before = stats().handles;
  const kept = [1, 2, 3].map((value) => pg.Tensor.full([2], value));
  assert.equal(stats().handles, before);
  assert.ok(pg.stats().handles >= 3);
  const f = pg.jit((y) => y.mul(kept[2]));
  assertClose(f(kept[0]).toArray(), [3, 3]);
  assert.throws(() => f(Tensor.ones([2])), ForeignHandleError);
  const w = pg.Tensor.fromData([2], [1], { requiresGrad: true });
  assert.equal(pg.noGrad(() => w.mul(2)).requiresGrad, false);
  assert.equal(pg.compile((y) => y.sum(), [kept[0]]).run([kept[1]]).item(), 4);
  assert.equal(pg.run(() => Tensor.ones([2]).add(kept[0])).session, x.session);
  pg.dispose();
});

test("a runtime that was disposed holds nothing and says so", async () => {
  const pg = await createAsync();
  const x = pg.Tensor.ones([1 << 20]);
  pg.commit([x]);
  const f = pg.jit((y) => y.add(x));
  f(x);
  const running = x.matmul(pg.Tensor.ones([1 << 20])).itemAsync();
  const before = stats().live_bytes;
  pg.dispose();
  await running.then(() => {}, (error) => assert.ok(error instanceof LanthornError));
  assert.ok(stats().live_bytes <= before - (1 << 22), "its memory is free");
  const isClosed = (error) => error instanceof LanthornError && error.kind === "closed" && /disposed/.test(error.message);
  assert.throws(() => x.add(1), isClosed);
  assert.throws(() => x.toArray(), isClosed);
  assert.throws(() => pg.Tensor.ones([1]), isClosed);
  assert.throws(() => f(x), isClosed);
  await assert.rejects(x.toArrayAsync(), isClosed);
  assert.doesNotThrow(() => x.dispose());
  pg.dispose();
  assert.equal(Tensor.ones([2]).sum().item(), 2);
});

test("a runtime stays while a tensor of it is held", async () => {
  const make = () => {
    const pg = create();
    return new pg.Tensor([1, 2]).mul(3);
  };
  const x = make();
  for (let at = 0; at < 3; at++) {
    gc();
    await turn();
    assertClose(x.toArray(), [3, 6]);
  }
  assertClose(x.add(x).toArray(), [6, 12]);
});

test("runtimes come and go without a trace", async () => {
  const round = () => {
    const pg = create();
    pg.Tensor.ones([1000]).add(1).toArray();
    pg.dispose();
  };
  for (let at = 0; at < 50; at++) round();
  gc();
  const before = { ...stats(), rss: process.memoryUsage().rss };
  for (let at = 0; at < 500; at++) {
    round();
    if (at % 100 === 0) await turn();
  }
  gc();
  const after = { ...stats(), rss: process.memoryUsage().rss };
  assert.ok(after.live_bytes <= before.live_bytes, `${after.live_bytes} bytes live, ${before.live_bytes} before`);
  assert.ok(after.rss - before.rss < 64 << 20, `${after.rss - before.rss} bytes more`);
});

test("a device that is not there is an error that names those that are", async () => {
  const isDevice = (error) => error instanceof DeviceError && /no device tpu here, expected one of cpu/.test(error.message);
  assert.throws(() => create({ device: "tpu" }), isDevice);
  await assert.rejects(createAsync({ device: "tpu" }), isDevice);
  assert.throws(() => getDefaultRuntime().dispose(), /the default runtime stays/);
  assert.equal(getDefaultRuntime(), getDefaultRuntime());
  assert.equal(getDefaultRuntime().Tensor.ones([1]).add(Tensor.ones([1])).item(), 2);
});

test("canRun answers yes, no or unknown, with a reason, and never throws", () => {
  const answer = (query) => canRun(query).answer;
  assert.equal(answer({ op: "add", shape: [1024] }), "yes");
  assert.equal(answer({ op: "matmul", shape: [64, 64], dtype: "f16" }), "yes");
  assert.equal(answer({ op: "crossEntropy", shape: [2, 3], device: "gpu" }), "no");
  assert.equal(answer({ op: "logSoftmax", shape: [2, 3] }), canRun({ op: "log_softmax", shape: [2, 3] }).answer);
  assert.match(canRun({ op: "sqrt", shape: [2], dtype: "bool" }).reason, /bool/);
  assert.equal(answer({ op: "sqrt", shape: [2], dtype: "bool" }), "no");
  const unknown = canRun({ op: "matmul", shape: [2, 3] });
  assert.equal(unknown.answer, "unknown");
  assert.match(unknown.reason, /matmul/);
  assert.equal(answer({ op: "no such op" }), "no");
  for (const query of [undefined, null, 3, {}, { op: 5 }, { op: "add", shape: [-1] }, { op: "add", shape: [NaN] },
    { op: "add", shape: "x" }, { op: "add", shape: [2 ** 60, 2 ** 60] }, { op: "add", dtype: "f99" },
    { op: "constructor" }, { op: "add", shape: Array(5000).fill(1) }]) {
    const { answer: found, reason } = canRun(query);
    assert.ok(["no", "unknown"].includes(found), JSON.stringify(query));
    assert.ok(reason.length > 3);
  }
  const before = stats();
  canRun({ op: "add", shape: [2 ** 40] });
  assert.equal(stats().calls, before.calls);
});

test("stats has a number for each counter", () => {
  const found = stats();
  for (const name of ["handles", "captures", "cells", "commits", "programs", "draws", "live_bytes", "peak_bytes",
    "pooled_bytes", "executables", "compiles", "calls", "kernels"]) {
    assert.ok(Number.isSafeInteger(found[name]) && found[name] >= 0, name);
  }
  Tensor.ones([10]).add(Tensor.rand([10])).toArray();
  const after = stats();
  assert.equal(after.draws, found.draws + 1);
  assert.ok(after.calls > found.calls && after.kernels > found.kernels && after.live_bytes > 0);
});

test("where nothing may wait, reads are promises, and taking one for its value throws", async () => {
  // A session as a page has it: reads are promises, and there is no thread to give work to.
  const { raw } = session();
  const page = new Proxy(raw, {
    get: (target, name) => {
      if (name === "later" || name === "capture_later") return undefined;
      if (name === "read") return (tensor) => Promise.resolve(target.read(tensor));
      return target[name];
    },
  });
  const owner = new Session(page);
  const x = within(owner, () => Tensor.fromData([1, 2]).sum());
  assert.throws(() => x.toArraySync(), (error) =>
    error instanceof AsyncRequiredError && /toArraySync: .*use await toArray\(\)/.test(error.message));
  const item = x.item();
  assert.ok(item instanceof Promise);
  for (const coerce of [() => item * 2, () => `${item}`, () => item + 1, () => Number(item), () => item < 3]) {
    assert.throws(coerce, AsyncRequiredError);
  }
  assert.throws(() => String(x.toArray()), AsyncRequiredError);
  assert.equal(await item, 3);
  assert.deepEqual(Array.from(await x.toArray()), [3]);
  assert.equal(await x.itemAsync(), 3);
  assert.deepEqual(Array.from(Tensor.fromData([1, 2]).toArraySync()), [1, 2]);
});

test("the scope of noGrad covers what an asynchronous function does later", async () => {
  const w = Tensor.fromData([2], [1], { requiresGrad: true });
  let kept;
  const [first, second, third] = await noGrad(async (scope) => {
    kept = scope;
    const before = w.mul(2);
    await turn();
    const outside = w.mul(2);
    return [before, outside, scope.run(() => w.mul(2))];
  });
  assert.deepEqual([first, second, third].map((tensor) => tensor.requiresGrad || isTracked(tensor)), [false, true, false]);
  assert.throws(() => kept.run(() => 1), (error) => error.kind === "closed");
  assert.throws(() => noGrad((scope) => scope.run(() => { throw new RangeError("mine"); })), RangeError);
  assert.equal(isTracked(w.mul(2)), true);
});

/** Whether gradients pass through a tensor: whether backward takes it. */
function isTracked(tensor) {
  try {
    tensor.sum().backward();
    return true;
  } catch {
    return false;
  }
}

test("tensors without elements go everywhere", () => {
  const empty = Tensor.zeros([0, 3]);
  assert.deepEqual([empty.size, empty.toArray().length], [0, 0]);
  assert.deepEqual(Array.from(empty.sum(0).toArray()), [0, 0, 0]);
  assert.equal(empty.sum().item(), 0);
  assert.deepEqual(empty.matmul(Tensor.ones([3, 2])).shape, [0, 2]);
  assert.deepEqual(Array.from(Tensor.ones([2, 0]).matmul(Tensor.ones([0, 2])).toArray()), [0, 0, 0, 0]);
  assert.deepEqual(empty.add(1).exp().reshape([3, 0]).shape, [3, 0]);
  assert.equal(Tensor.fromData(new Float32Array(0)).toArray().length, 0);
  assert.deepEqual(new Tensor([]).shape, [0]);
  empty.copy_(5).add_(1);
  assert.equal(empty.toArray().length, 0);
  const pg = getDefaultRuntime();
  const f = pg.jit((x) => [x.mul(2), x.sum()]);
  for (let at = 0; at < 2; at++) {
    const [doubled, sum] = f(Tensor.zeros([0, 3]));
    assert.deepEqual(doubled.shape, [0, 3]);
    assert.equal(sum.item(), 0);
  }
  assert.throws(() => empty.max(), LanthornError);
  const w = Tensor.zeros([0], true);
  w.sum().backward();
  assert.equal(w.grad.size, 0);
});

test("numbers that are not finite are values of floats and errors elsewhere", () => {
  const x = Tensor.fromData([NaN, Infinity, -Infinity, 1]);
  assert.deepEqual(Array.from(x.toArray()), [NaN, Infinity, -Infinity, 1]);
  assert.deepEqual(Array.from(x.add(NaN).toArray()), [NaN, NaN, NaN, NaN]);
  assert.deepEqual(Array.from(x.mul(Infinity).toArray()), [NaN, Infinity, -Infinity, Infinity]);
  assert.ok(Number.isNaN(x.sum().item()));
  const f = getDefaultRuntime().jit((y) => y.add(Infinity).sub(y));
  for (let at = 0; at < 2; at++) assert.deepEqual(Array.from(f(x).toArray()).slice(3), [Infinity]);
  for (const bad of [NaN, Infinity, -Infinity, 1.5, -1]) {
    assert.throws(() => Tensor.zeros([bad]), LanthornError, `a size of ${bad}`);
    // -1 stands for what is left.
    if (bad !== -1) assert.throws(() => x.reshape([bad, 2]), LanthornError);
    assert.throws(() => manualSeed(bad), LanthornError);
  }
  for (const bad of [NaN, Infinity, 1.5]) {
    assert.throws(() => x.sum(bad), LanthornError, `an axis ${bad}`);
    assert.throws(() => Tensor.fromData(Int32Array.of(1)).add(bad), LanthornError);
  }
  assert.throws(() => { const y = Tensor.ones([1]); y.dispose(); y.add(NaN); }, InvalidHandleError);
});
