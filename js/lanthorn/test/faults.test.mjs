// Faults that are known of other libraries of this kind, each as a test that ours has it not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "node:worker_threads";

import { Tensor, commitAsync, crossEntropy, nn, noGrad, optim, setMemoryLimit, memoryLimit, stats } from "../dist/node.js";
import { assertClose, turn } from "./support.mjs";

test("transpose and reshape keep the order of elements", () => {
  const x = new Tensor([[1, 2, 3], [4, 5, 6]]);
  assert.deepEqual([...x.transpose().reshape([6]).toArray()], [1, 4, 2, 5, 3, 6]);
  assert.deepEqual([...x.T.reshape(2, 3).toArray()], [1, 4, 2, 5, 3, 6]);
  assert.throws(() => x.T.view(2, 3), { name: "ShapeError", op: "view" });
});

test("a slice reads its own elements alone", () => {
  const x = Tensor.arange(0, 12, 1, { dtype: "f32" }).view(3, 4);
  const part = x.slice([[1, 3], [1, 3]]);
  assert.deepEqual([...part.toArray()], [5, 6, 9, 10]);
  assert.equal(part.sum().item(), 30);
});

test("writing to a slice writes to what it is a slice of", () => {
  const x = Tensor.zeros(3, 3);
  x.slice([[1, 3], [0, 2]]).set([0, 1], 5);
  assert.deepEqual(x.tolist(), [[0, 0, 0], [0, 5, 0], [0, 0, 0]]);
});

test("gradients pass through a slice", () => {
  const x = new Tensor([[1, 2], [3, 4]], true);
  x.slice([[0, 2], [1, 2]]).square().sum().backward();
  assert.deepEqual(x.grad.tolist(), [[0, 4], [0, 8]]);
});

test("softmax of large values is right along every axis", () => {
  const x = new Tensor([[1000, -1000], [1001, 1000], [999, 5000]]);
  for (const axis of [0, 1, -1]) {
    assert.ok(x.softmax(axis).toArray().every(Number.isFinite));
    assertClose(x.softmax(axis).sum(axis).toArray(), Array(axis === 0 ? 2 : 3).fill(1));
  }
});

test("cross entropy has no ceiling", () => {
  assert.equal(crossEntropy(new Tensor([[0, 100]]), [0]).item(), 100);
  assert.equal(nn.crossEntropyLoss(new Tensor([[0, 2000]]), [0]).item(), 2000);
});

test("a view lives on when its parent is disposed", () => {
  const parent = Tensor.full([1000], 7);
  const view = parent.slice([[10, 20]]);
  parent.dispose();
  const others = Array.from({ length: 50 }, (_, at) => Tensor.full([1000], at).add(0.5));
  for (const other of others) other.toArray();
  assert.deepEqual(view.toArray(), new Float32Array(10).fill(7));
});

test("running out of memory rejects the read that waits for it", async () => {
  const before = memoryLimit();
  setMemoryLimit(stats().live_bytes + stats().pooled_bytes + 4e6);
  try {
    const large = Tensor.ones(4000, 4000).add(1);
    await assert.rejects(large.toArrayAsync(), { name: "OutOfMemoryError" });
    await assert.rejects(commitAsync([large]), { name: "OutOfMemoryError" });
    large.dispose();
  } finally {
    setMemoryLimit(before);
  }
  assert.equal(await Tensor.ones(3).sum().itemAsync(), 3);
});

test("a second backward adds the same gradients once more", () => {
  const x = new Tensor([3], true);
  const y = x.square();
  y.sum().backward();
  assert.deepEqual([...x.grad.toArray()], [6]);
  y.sum().backward();
  assert.deepEqual([...x.grad.toArray()], [12]);
});

test("gradients of different tensors share nothing", () => {
  const [a, b] = [new Tensor([1], true), new Tensor([2], true)];
  a.add(b).sum().backward();
  noGrad(() => a.grad.mul_(10));
  assert.deepEqual([...b.grad.toArray()], [1]);
});

test("elements that do not fit a shape are refused", () => {
  assert.throws(() => Tensor.fromData([1, 2, 3], [2, 2]), { name: "ShapeError" });
  assert.throws(() => Tensor.fromData(new Float32Array(5), [2, 2]), { name: "ShapeError" });
});

test("an asynchronous function without gradients leaves others alone", async () => {
  const w = Tensor.ones([2], true);
  const quiet = noGrad(async () => {
    await turn();
  });
  w.sum().backward();
  assert.deepEqual([...w.grad.toArray()], [1, 1]);
  await quiet;
});

test("what was read stays as it is when the program runs again", () => {
  const x = Tensor.zeros(3);
  const results = [];
  for (let at = 0; at < 6; at++) {
    x.copyFrom([at, at, at]);
    results.push(x.add(1));
  }
  const read = results.map((result) => [...result.toArray()]);
  assert.deepEqual(read, Array.from({ length: 6 }, (_, at) => [at + 1, at + 1, at + 1]));
});

test("workers use engines of their own beside the main thread", async () => {
  const source = `
    import { parentPort } from "node:worker_threads";
    import { Tensor } from ${JSON.stringify(new URL("../dist/node.js", import.meta.url).href)};
    let sum = 0;
    for (let at = 0; at < 200; at++) sum += Tensor.full([64, 64], 1).matmul(Tensor.ones(64, 64)).mean().item();
    parentPort.postMessage(sum);
  `;
  const url = new URL(`data:text/javascript,${encodeURIComponent(source)}`);
  const workers = Array.from({ length: 4 }, () => new Worker(url, { type: "module" }));
  const answers = workers.map((worker) => new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject)));
  for (let at = 0; at < 100; at++) Tensor.ones(32).sum().item();
  assert.deepEqual(await Promise.all(answers), [12800, 12800, 12800, 12800]);
});

test("no compiler runs: everything works with an empty PATH, half floats too", () => {
  const { PATH } = process.env;
  process.env.PATH = "";
  try {
    const w = new Tensor([[0.1, 0.2], [0.3, 0.4]], { dtype: "f16", requiresGrad: true });
    const adam = new optim.Adam([w], { lr: 0.5 });
    w.matmul(w).exp().sum().log().backward();
    adam.step();
    assert.ok(w.toArray().every(Number.isFinite));
  } finally {
    process.env.PATH = PATH;
  }
});

test("a list of whole numbers is f32 and takes gradients", () => {
  const x = new Tensor([1.0, 2.0, 3.0], true);
  assert.equal(x.dtype, "f32");
  x.square().sum().backward();
  assert.deepEqual([...x.grad.toArray()], [2, 4, 6]);
  assert.equal(new Tensor(Float64Array.of(1)).dtype, "f64");
  assert.equal(new Tensor([1, 2], { dtype: "i32" }).dtype, "i32");
});

test("equal first values make no parameter another's", () => {
  class Pair extends nn.Module {
    a = nn.parameter(Tensor.zeros(2));
    b = nn.parameter(Tensor.zeros(2));
    forward(x) {
      return x.mul(this.a).add(this.b);
    }
  }
  const pair = new Pair();
  assert.equal(pair.parameters().length, 2);
  const sgd = new optim.SGD(pair, { lr: 1 });
  pair.forward(new Tensor([2, 3])).sum().backward();
  sgd.step();
  assert.deepEqual(pair.a.tolist(), [-2, -3]);
  assert.deepEqual(pair.b.tolist(), [-1, -1]);
});

test("a gradient that was read stays after zeroGrad and after its tensor is gone", () => {
  const x = new Tensor([1, 2], true);
  x.square().sum().backward();
  const { grad } = x;
  x.zeroGrad();
  assert.equal(x.grad, null);
  x.mul(100).sum().backward();
  x.dispose();
  assert.deepEqual([...grad.toArray()], [2, 4]);
});

test("a loss without leaves that take gradients is named", () => {
  assert.throws(() => new Tensor([1, 2]).sum().backward(), /no leaf tensors require grad/);
  assert.throws(() => new Tensor([1, 2], { dtype: "i32", requiresGrad: true }), { name: "DTypeError" });
});
