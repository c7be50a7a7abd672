// Methods that make and write tensors, and the names that other libraries have for them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Tensor, manualSeed, nn, stats, toTypedArrays, toTypedArraysAsync } from "../dist/node.js";
import { assertClose } from "./support.mjs";

test("a shape is a list or sizes one by one, with options after it", () => {
  for (const make of ["zeros", "ones", "rand", "randn", "empty"]) {
    for (const tensor of [Tensor[make](2, 3), Tensor[make]([2, 3])]) assert.deepEqual(tensor.shape, [2, 3], make);
    assert.equal(Tensor[make](2, 3, { dtype: "f64" }).dtype, "f64");
    assert.equal(Tensor[make]([2], { requires_grad: true }).requiresGrad, true);
    assert.equal(Tensor[make](2, true).requires_grad, true);
    assert.deepEqual(Tensor[make]().shape, []);
    assert.throws(() => Tensor[make](2, { foo: 1 }), { name: "UnsupportedError", message: /no option foo; the options are/ });
    assert.throws(() => Tensor[make]({ dtype: "f32" }), { name: "ShapeError" });
    assert.throws(() => Tensor[make](2, "3"), { kind: "dtype" });
  }
  assert.throws(() => new Tensor([1], { foo: 1 }), /foo/);
  assert.throws(() => new Tensor([1], { device: "gpu" }), { name: "DeviceError", message: /the device is gpu/ });
});

test("random tensors repeat by seed and keep their bounds", () => {
  const draw = () => {
    manualSeed(11);
    return [Tensor.randint(-3, 4, [1000]), Tensor.randperm(50), Tensor.kaimingUniform(20, 30, { a: 0.01 }), Tensor.xavierNormal([9, 9])];
  };
  const [first, second] = [draw(), draw()];
  first.forEach((tensor, at) => assert.deepEqual(tensor.toArray(), second[at].toArray()));
  const [integers, order, weights] = first.map((tensor) => Array.from(tensor.toArray(), Number));
  assert.deepEqual([...new Set(integers)].sort((a, b) => a - b), [-3, -2, -1, 0, 1, 2, 3]);
  assert.deepEqual(order.toSorted((a, b) => a - b), order.map((_, at) => at));
  const bound = Math.sqrt(6 / ((1 + 0.01 ** 2) * 30));
  assert.ok(Math.max(...weights.map(Math.abs)) <= bound && Math.max(...weights) > 0.95 * bound);
  assert.equal(first[0].dtype, "i64");
  assert.throws(() => Tensor.kaimingUniform(3), { name: "ShapeError", message: /\[outputs, inputs/ });
  assert.throws(() => Tensor.kaimingUniform(3, 3, { mode: "fan" }), /the mode is/);
});

test("ids are plain lists or typed arrays where an op selects by them", () => {
  const x = new Tensor([[1, 2], [3, 4], [5, 6]]);
  assert.deepEqual(x.indexSelect(0, [2, 0]).tolist(), [[5, 6], [1, 2]]);
  assert.deepEqual(x.gather(1, [[1], [0], [1]]).tolist(), [[2], [3], [6]]);
  assert.deepEqual(x.embedding([[0, 1]]).shape, [1, 2, 2]);
  assert.deepEqual(x.index([[0, 2], [1, 1]]).tolist(), [2, 6]);
  assert.deepEqual(x.take(Int32Array.of(5, 0)).tolist(), [6, 1]);
  assert.throws(() => x.indexSelect(0, [0.5]), { name: "DTypeError", message: /an id is 0.5/ });
  assert.throws(() => x.add([1, 2]), /Array, expected a Tensor/);
});

test("every pointwise op has a form that writes over its tensor", () => {
  const x = new Tensor([-1, 0.5, 4]);
  assert.equal(x.clamp_(0, 2), x);
  assert.deepEqual(x.tolist(), [0, 0.5, 2]);
  assertClose(x.exp_().toArray(), [1, Math.exp(0.5), Math.exp(2)]);
  assert.deepEqual(x.fill_(3).sub_(1).mul_(2).pow_(2).tolist(), [16, 16, 16]);
  assert.deepEqual(x.zero_().tolist(), [0, 0, 0]);
  assert.deepEqual(x.masked_fill_(new Tensor([true, false, true]), 9).tolist(), [9, 0, 9]);
  assert.deepEqual(x.addcmul_(x, x, 0.5).sqrt_().tolist().map(Math.round), [7, 0, 7]);
  const view = x.slice([[1, 3]]);
  view.add_(new Tensor([1, 2]));
  assert.equal(x.toArray()[1], 1);
  const uniform = Tensor.zeros(1000).uniform_(2, 3).toArray();
  assert.ok(uniform.every((value) => value >= 2 && value < 3));
  assert.ok(Math.abs(Tensor.zeros(4000).normal_(5, 0.1).mean().item() - 5) < 0.02);
  const leaf = Tensor.ones([2], true);
  assert.throws(() => leaf.add_(1), /requires/);
});

test("copyFrom and assign write elements of the same shape into the same tensor", () => {
  const x = Tensor.zeros(2, 2);
  const view = x.select(0, 1);
  assert.equal(x.copyFrom([[1, 2], [3, 4]]), x);
  assert.deepEqual(view.tolist(), [3, 4]);
  assert.deepEqual(x.copy_from(Float32Array.of(5, 6, 7, 8)).tolist(), [[5, 6], [7, 8]]);
  const source = Tensor.ones(2, 2);
  assert.deepEqual(x.assign(source).tolist(), [[1, 1], [1, 1]]);
  assert.equal(source.sum().item(), 4);
  // Nothing is left of the elements but what they were written over.
  const { handles } = stats();
  for (const elements of [[[1, 2], [3, 4]], Float32Array.of(5, 6, 7, 8), source]) x.copyFrom(elements);
  assert.equal(stats().handles, handles);
  assert.throws(() => x.copyFrom([1, 2]), { name: "ShapeError", message: /\[2\], expected \[2, 2\]/ });
});

test("several tensors are read in one program", async () => {
  const x = new Tensor([1, 2, 3]);
  const [a, b] = [x.mul(2), x.mul(2).add(1)];
  const before = stats().programs;
  assert.deepEqual(toTypedArrays(a, b), [Float32Array.of(2, 4, 6), Float32Array.of(3, 5, 7)]);
  assert.equal(stats().programs, before + 1);
  const [c] = await toTypedArraysAsync(x.add(1), x.mul(3));
  assert.deepEqual(c, Float32Array.of(2, 3, 4));
  const controller = new AbortController();
  controller.abort();
  await assert.rejects(toTypedArraysAsync(x, { signal: controller.signal }), { name: "AbortError" });
});

test("element types go by the names of NumPy and torch too", () => {
  for (const [name, dtype] of [["float32", "f32"], ["float64", "f64"], ["bfloat16", "bf16"], ["int64", "i64"], ["uint8", "u8"]]) {
    assert.equal(new Tensor([1, 2], { dtype: name }).dtype, dtype);
    assert.equal(Tensor.zeros(2, { dtype: name }).dtype, dtype);
    assert.equal(Tensor.ones(2).cast(name).to(name).dtype, dtype);
  }
  assert.equal(Tensor.rand(2, { dtype: "float16" }).dtype, "f16");
  assert.equal(new nn.Linear(2, 2, { dtype: "float64" }).weight.dtype, "f64");
  for (const name of ["float31", "toString", 7, null]) {
    assert.throws(() => Tensor.zeros(2, { dtype: name }), { name: "DTypeError", message: /there is no dtype/ });
  }
});

test("shapes and axes are lists, or numbers one by one", async () => {
  const x = Tensor.arange(6, { dtype: "f32" });
  assert.deepEqual(Tensor.arange(3).toArray(), BigInt64Array.of(0n, 1n, 2n));
  assert.deepEqual(Tensor.arange(0, 1, 0.25).toArray(), Float32Array.of(0, 0.25, 0.5, 0.75));
  assert.deepEqual(x.reshape(2, 3).tolist(), [[0, 1, 2], [3, 4, 5]]);
  assert.deepEqual(x.reshape([2, -1]).permute(1, 0).shape, [3, 2]);
  assert.deepEqual(Tensor.arange(1, 7, 2).tolist(), Tensor.arange(3).mul(2).add(1).tolist());
  assert.deepEqual(Tensor.arange(3, { dtype: "int32" }).toArray(), Int32Array.of(0, 1, 2));
  assert.deepEqual(Tensor.ones(1, 2).expand(3, -1).shape, [3, 2]);
  assert.deepEqual(Tensor.ones(2).repeat(3, 2).shape, [3, 4]);
  assert.deepEqual(x.flip().tolist(), [5, 4, 3, 2, 1, 0]);
  assert.deepEqual(x.view(2, 3).flip(0, 1).tolist(), [[5, 4, 3], [2, 1, 0]]);
  assert.deepEqual(new Tensor([-3, 3]).mod(2).tolist(), [1, 1]);
  assert.equal(x.realize(), x);
  assert.equal(await x.add(1).realizeAsync().then((y) => y.sum().item()), 21);
  assert.deepEqual(Tensor.toTypedArrays(x.slice([[0, 2]]), x.sum()), [Float32Array.of(0, 1), Float32Array.of(15)]);
  Tensor.manual_seed(4);
  const first = Tensor.rand(3).tolist();
  Tensor.manualSeed(4);
  assert.deepEqual(Tensor.rand(3).tolist(), first);
});

test("dropout draws anew at each call, or by a key", () => {
  const x = Tensor.ones(1000);
  const [a, b] = [x.dropout(0.5), x.dropout(0.5)].map((dropped) => dropped.toArray());
  assert.notDeepEqual(a, b);
  assert.ok(a.every((value) => value === 0 || value === 2));
  const key = Tensor.randomKey();
  assert.deepEqual(x.dropout(0.5, key).toArray(), x.dropout(0.5, key).toArray());
});

test("names of torch and NumPy stand for the ops of the table", async () => {
  const x = new Tensor([[1, 2, 3], [4, 5, 6]]);
  assert.deepEqual(x.T.tolist(), [[1, 4], [2, 5], [3, 6]]);
  assert.deepEqual(x.view(3, 2).tolist(), [[1, 2], [3, 4], [5, 6]]);
  assert.deepEqual(x.view([-1]).shape, [6]);
  assert.deepEqual([x.numel(), x.dim(), x.ndim, x.size], [6, 2, 2, 6]);
  assert.deepEqual(Tensor.cat([x, x], 1).shape, [2, 6]);
  assert.deepEqual(Tensor.where(x.gt(3), x, 0).tolist(), [[0, 0, 0], [4, 5, 6]]);
  assert.deepEqual([x.long().dtype, x.half().dtype, x.to("f64").dtype, x.bool().dtype], ["i64", "f16", "f64", "bool"]);
  assert.deepEqual(await x.toTypedArrayAsync(), x.toTypedArray());
  assert.equal(Tensor.scalar(2).tolist(), 2);
  assert.deepEqual(Tensor.zeros([0, 2]).tolist(), []);
  const w = new Tensor([1, 2], true);
  w.mul(2).backward([1, 10]);
  assert.deepEqual(w.grad.tolist(), [2, 20]);
  w.zero_grad();
  assert.equal(w.grad, null);
  w.requires_grad = false;
  assert.equal(w.requires_grad_().requiresGrad, true);
});
