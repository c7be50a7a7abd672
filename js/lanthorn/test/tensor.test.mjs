// What the class adds to the ops: tensors from values, properties, views, writing in place, scopes.
import assert from "node:assert/strict";
import { test } from "node:test";

import { crossEntropy, manualSeed, noGrad, stats, Tensor, trackTensors } from "../dist/node.js";
import { assertClose } from "./support.mjs";

test("typed arrays give their dtype, plain numbers f32", () => {
  for (const [data, dtype] of [
    [Float32Array.of(1.5, 2), "f32"],
    [Float64Array.of(1.5, 2), "f64"],
    [Int8Array.of(-1, 2), "i8"],
    [Int16Array.of(-1, 2), "i16"],
    [Int32Array.of(-1, 2), "i32"],
    [BigInt64Array.of(-(2n ** 60n), 2n), "i64"],
    [Uint8Array.of(1, 2), "u8"],
    [Uint16Array.of(1, 2), "u16"],
    [Uint32Array.of(1, 2), "u32"],
    [BigUint64Array.of(2n ** 63n, 2n), "u64"],
  ]) {
    const tensor = Tensor.fromData(data);
    assert.equal(tensor.dtype, dtype);
    assert.deepEqual(tensor.toArray(), data);
  }
  assert.equal(Tensor.fromData([1, 2]).dtype, "f32");
  assert.equal(Tensor.fromData([true, false]).dtype, "bool");
  assert.equal(Tensor.fromData([1n, -2n]).dtype, "i64");
  // A part of a larger buffer.
  assert.deepEqual(Tensor.fromData(Float32Array.of(1, 2, 3, 4).subarray(1, 3)).toArray(), Float32Array.of(2, 3));
});

test("half-precision floats are written and read as f32", () => {
  for (const [dtype, expected] of [["f16", 0.0999755859375], ["bf16", 0.10009765625]]) {
    assert.deepEqual([...Tensor.fromData([0.1], [1], { dtype }).cast("f32").toArray()], [expected]);
    const tensor = Tensor.fromData([0.1, -2], [2], { dtype });
    assert.equal(tensor.dtype, dtype);
    assert.deepEqual(tensor.toArray(), Float32Array.of(expected, -2));
    assert.equal(tensor.requiresGrad, false);
    assert.equal(Tensor.fromData([1], [1], { dtype, requiresGrad: true }).requiresGrad, true);
  }
});

test("nested lists give their shape", () => {
  const tensor = new Tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]);
  assert.deepEqual(tensor.shape, [3, 2, 2]);
  assert.deepEqual(tensor.toArray(), Float32Array.from({ length: 12 }, (_, at) => at + 1));
  assert.deepEqual(new Tensor(5).shape, []);
  assert.deepEqual(new Tensor([]).shape, [0]);
  assert.deepEqual(new Tensor([[], []]).shape, [2, 0]);
  assert.equal(new Tensor([1, 2], true).requiresGrad, true);
  for (const ragged of [[[1, 2], [3]], [[1], 2], [1, [2]], [[[1]], [2]]]) {
    assert.throws(() => new Tensor(ragged), { name: "ShapeError", kind: "shape", message: /ragged/ });
  }
});

test("a tensor says what it is", () => {
  const tensor = Tensor.zeros([2, 3, 4], { dtype: "i32" });
  assert.deepEqual([tensor.shape, tensor.rank, tensor.size, tensor.dtype], [[2, 3, 4], 3, 24, "i32"]);
  assert.equal(String(tensor), "Tensor i32[2, 3, 4]");
  assert.equal(Tensor.scalar(2.5).item(), 2.5);
  assert.equal(Tensor.arange(0, 5, 1, { dtype: "f32" }).sum().item(), 10);
  assert.equal(Tensor.eye(3).sum().item(), 3);
});

test("JSON has the dtype and the shape of a tensor", () => {
  const tensor = Tensor.zeros([2, 3]);
  assert.deepEqual(tensor.toJSON(), { dtype: "f32", shape: [2, 3] });
  assert.equal(JSON.stringify({ w: tensor }), '{"w":{"dtype":"f32","shape":[2,3]}}');
});

test("names of the table stand beside those of JavaScript", () => {
  const tensor = Tensor.fromData([1, 2, 3, 4], [2, 2]);
  assert.deepEqual(tensor.log_softmax().toArray(), tensor.logSoftmax().toArray());
  assert.equal(tensor.log_softmax, tensor.logSoftmax);
  assert.equal(Tensor.lower_triangle, Tensor.lowerTriangle);
});

test("numbers stand where a tensor may", () => {
  const tensor = Tensor.fromData([1, 2, 3]);
  assert.deepEqual(tensor.add(1).mul(2).sub(0.5).div(2).toArray(), Float32Array.of(1.75, 2.75, 3.75));
  assert.deepEqual(tensor.pow(2).toArray(), Float32Array.of(1, 4, 9));
  assert.deepEqual([...tensor.gt(1.5).toArray()], [0, 1, 1]);
});

test("slices by ranges are views, and writing goes through them", () => {
  const tensor = Tensor.fromData([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [3, 4]);
  const view = tensor.slice([[0, 2], [1, 3]]);
  assert.deepEqual(view.shape, [2, 2]);
  assert.deepEqual([...view.toArray()], [1, 2, 5, 6]);
  view.mul_(10);
  assert.deepEqual([...tensor.toArray()], [0, 10, 20, 3, 4, 50, 60, 7, 8, 9, 10, 11]);
  tensor.set([2, 0], -1).set([0], 7);
  assert.deepEqual([...tensor.toArray()], [7, 7, 7, 7, 4, 50, 60, 7, -1, 9, 10, 11]);
  assert.deepEqual([...view.toArray()], [7, 7, 50, 60]);
  assert.deepEqual([...tensor.slice(1, -1).toArray()], [7, 7, 11]);
  tensor.transpose().set([0], Tensor.fromData([1, 2, 3]));
  assert.deepEqual([...tensor.slice(1, 0, 1).toArray()], [1, 2, 3]);
});

test("writing in place takes tensors and numbers", () => {
  const tensor = Tensor.fromData([1, 2, 3, 4], [2, 2]);
  assert.equal(tensor.add_(Tensor.fromData([1, 0])), tensor);
  tensor.sub_(1).mul_(Tensor.fromData([2], [1])).div_(4);
  assert.deepEqual([...tensor.toArray()], [0.5, 0.5, 1.5, 1.5]);
  tensor.copy_(Tensor.fromData([7, 8], [2], { dtype: "i32" }));
  assert.deepEqual([...tensor.toArray()], [7, 8, 7, 8]);
  assert.deepEqual([...tensor.copy_(0.25).toArray()], [0.25, 0.25, 0.25, 0.25]);
});

test("gradients accumulate until they are taken away", () => {
  const w = Tensor.fromData([1, 2, 3], [3], { requiresGrad: true });
  assert.equal(w.grad, null);
  for (const expected of [[2, 4, 6], [4, 8, 12]]) {
    w.square().sum().backward();
    assert.deepEqual([...w.grad.toArray()], expected);
  }
  w.grad = null;
  assert.equal(w.grad, null);
  w.mul(2).backward(Tensor.fromData([1, 10, 100]));
  assert.deepEqual([...w.grad.toArray()], [2, 20, 200]);
  w.grad = Tensor.ones([3]);
  assert.deepEqual([...w.grad.toArray()], [1, 1, 1]);
  assert.equal(w.mul(2).detach().requiresGrad, false);
  noGrad(() => assert.throws(() => w.sum().backward(), { name: "UnsupportedError" }));
  w.sum().backward();
});

test("noGrad covers an asynchronous function up to its first await, and ends with an error", async () => {
  const w = Tensor.ones([2], true);
  const isTracked = () => {
    try {
      w.sum().backward();
      return true;
    } catch {
      return false;
    }
  };
  const result = await noGrad(async () => {
    const before = isTracked();
    await null;
    return [before, isTracked()];
  });
  assert.deepEqual(result, [false, true]);
  assert.throws(() => noGrad(() => { throw new RangeError("mine"); }), RangeError);
  assert.equal(isTracked(), true);
});

test("trackTensors disposes what it does not give back", async () => {
  const x = Tensor.fromData([1, 2]);
  let inner;
  const kept = trackTensors(() => {
    inner = x.add(1);
    return { sum: inner.sum(), list: [inner.mul(2)] };
  });
  assert.throws(() => inner.sum(), { name: "InvalidHandleError" });
  assert.equal(kept.sum.item(), 5);
  assert.deepEqual([...kept.list[0].toArray()], [4, 6]);
  const value = await trackTensors(async () => {
    inner = x.add(2);
    return inner.toArrayAsync();
  });
  assert.deepEqual([...value], [3, 4]);
  assert.throws(() => inner.toArray(), { name: "InvalidHandleError" });
  // What an inner scope keeps belongs to the outer one.
  let outer;
  trackTensors(() => {
    outer = trackTensors(() => x.add(3));
    assert.equal(outer.sum().item(), 9);
  });
  assert.throws(() => outer.item(), { name: "InvalidHandleError" });
  assert.throws(() => trackTensors(() => { inner = x.add(1); throw new RangeError("mine"); }), RangeError);
  assert.equal(String(inner), "Tensor (disposed)");
  const before = stats().handles;
  trackTensors(() => { for (let at = 0; at < 100; at++) x.add(at); });
  assert.equal(stats().handles, before);
});

test("a seed gives the same numbers again", () => {
  const draw = () => [Tensor.rand([4]).toArray(), Tensor.randn([4], { mean: 3, std: 0.5 }).toArray()];
  manualSeed(3);
  const first = draw();
  assert.notDeepEqual(draw(), first);
  manualSeed(3);
  assert.deepEqual(draw(), first);
  const range = Tensor.rand([1000], { low: -3, high: -2, dtype: "f64" });
  assert.ok(range.toArray().every((a) => -3 <= a && a < -2));
  const drawn = Tensor.rand([4]);
  assert.deepEqual(drawn.toArray(), drawn.toArray());
});

test("crossEntropy is that of the definition", () => {
  const logits = [[2, -1, 0.5], [0, 1, 3]];
  const targets = [0, 1];
  const loss = logits.map((row, at) => Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0)) - row[targets[at]]);
  const found = crossEntropy(new Tensor(logits), Tensor.fromData(targets, [2], { dtype: "i64" }));
  assertClose([found.item()], [(loss[0] + loss[1]) / 2], 1e-6);
  const each = crossEntropy(new Tensor(logits), Tensor.fromData(targets, [2], { dtype: "i64" }), "none");
  assertClose(each.toArray(), loss, 1e-6);
});

test("dispose lets go at once, and twice is no error", () => {
  const before = stats();
  const tensor = Tensor.fromData(new Float32Array(1 << 16));
  assert.equal(stats().handles, before.handles + 1);
  assert.ok(stats().live_bytes >= before.live_bytes + (1 << 18));
  tensor.dispose();
  tensor[Symbol.dispose]();
  assert.equal(stats().handles, before.handles);
  assert.equal(stats().live_bytes, before.live_bytes);
  assert.equal(String(tensor), "Tensor (disposed)");
});
