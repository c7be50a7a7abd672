// Whatever is passed, there is an error that says what was found and what would be right, and the engine goes on.
import assert from "node:assert/strict";
import { test } from "node:test";

import { commit, commitAsync, jit, LanthornError, noGrad, ShapeError, Tensor } from "../dist/node.js";
import { session } from "../dist/session.js";

const works = () => assert.deepEqual([...Tensor.fromData([1, 2]).add(1).toArray()], [2, 3]);

test("shapes that do not fit are both named", () => {
  const fails = () => Tensor.zeros([2, 3]).add(Tensor.zeros([4, 3]));
  assert.throws(fails, (error) => {
    assert.ok(error instanceof ShapeError && error instanceof LanthornError && error instanceof Error);
    assert.deepEqual([error.name, error.kind, error.op], ["ShapeError", "shape", "add"]);
    assert.match(error.message, /\[2, 3\]/);
    assert.match(error.message, /\[4, 3\]/);
    return true;
  });
  assert.throws(() => Tensor.zeros([2, 3]).matmul(Tensor.zeros([4, 2])), { kind: "shape", op: "matmul" });
  assert.throws(() => Tensor.fromData([1, 2, 3], [2, 2]), { kind: "shape" });
  assert.throws(() => Tensor.zeros([2]).item(), { kind: "shape", op: "item", message: /\[2\]/ });
  assert.throws(() => Tensor.zeros([2]).sum(3), { kind: "shape" });
  works();
});

test("dtypes that do not fit are named", () => {
  const targets = Tensor.fromData([true, false]);
  assert.throws(() => Tensor.zeros([2, 3]).crossEntropy(targets), { name: "DTypeError", kind: "dtype" });
  assert.throws(() => Tensor.fromData([1, 2], [2], { dtype: "i32", requiresGrad: true }), { kind: "dtype" });
  assert.throws(() => Tensor.fromData([1, 2], [2], { dtype: "i32" }).add_(0.5), { kind: "dtype" });
  assert.throws(() => Tensor.fromData([1.5], [1], { dtype: "i64" }), { kind: "dtype", message: /1\.5/ });
  assert.throws(() => Tensor.zeros([1], { dtype: "f128" }), { kind: "dtype", message: /f128/ });
  works();
});

test("a disposed tensor is an error wherever it is used", () => {
  const gone = Tensor.fromData([1, 2]);
  gone.dispose();
  const x = Tensor.fromData([1, 2]);
  const stale = { name: "InvalidHandleError", kind: "invalid_handle", message: /released/ };
  for (const use of [
    () => gone.add(1),
    () => x.add(gone),
    () => gone.toArray(),
    () => gone.shape,
    () => gone.requiresGrad,
    () => (gone.requiresGrad = true),
    () => gone.grad,
    () => (x.grad = gone),
    () => gone.backward(),
    () => gone.detach(),
    () => gone.add_(1),
    () => x.copy_(gone),
    () => gone.set([0], 1),
    () => Tensor.concat([x, gone]),
  ]) {
    assert.throws(use, stale, String(use));
  }
  return assert.rejects(gone.toArrayAsync(), stale).then(works);
});

test("a leaf that requires gradients is written only inside noGrad", () => {
  const w = Tensor.ones([2, 2], true);
  for (const write of [() => w.add_(1), () => w.copy_(0), () => w.set([0, 0], 1), () => w.slice(0, 0, 1).mul_(2)]) {
    assert.throws(write, { kind: "unsupported", message: /no_grad/ }, String(write));
  }
  noGrad(() => w.add_(1));
  assert.deepEqual([...w.toArray()], [2, 2, 2, 2]);
  assert.equal(w.requiresGrad, true);
});

test("foreign objects are told by what they are", () => {
  const x = Tensor.fromData([1, 2]);
  const foreign = { name: "ForeignHandleError", kind: "foreign_handle" };
  assert.throws(() => x.add({ handle: x.handle }), { ...foreign, message: /object of class Object/ });
  assert.throws(() => x.add(null), foreign);
  assert.throws(() => x.matmul([[1, 2]]), { ...foreign, message: /Array/ });
  assert.throws(() => x.matmul(3), { ...foreign, message: /3/ });
  assert.throws(() => x.add("1"), { name: "ArgumentError", kind: "argument", message: /"1"/ });
  assert.throws(() => x.add(undefined), { kind: "shape", message: /missing/ });
  assert.throws(() => x.add(Symbol("x")), { kind: "argument" });
  assert.throws(() => x.reshape("2"), { message: /"2"/ });
  assert.throws(() => x.softmax({}), { kind: "argument" });
  assert.throws(() => x.sum(0, 1), { kind: "argument", message: /true or false/ });
  assert.throws(() => x.tile([-1]), { kind: "argument", message: /repeats is \[-1\], expected a list of integers of at least 0/ });
  assert.throws(() => x.gelu("fast"), { kind: "unsupported", message: /none, tanh/ });
  assert.throws(() => Tensor.fromData("abc", [3]), { kind: "dtype" });
  assert.throws(() => Tensor.fromData([1, "2"], [2]), { kind: "dtype" });
  assert.throws(() => Tensor.fromData({ length: 2 }, [2]), { kind: "dtype" });
  // A tensor of another engine: the handle may be one of ours too.
  const other = Object.create(Tensor.prototype, { handle: { value: x.handle }, session: { value: {} } });
  assert.throws(() => x.add(other), { ...foreign, message: /another engine/ });
  works();
});

test("hostile numbers give errors, not crashes", () => {
  const x = Tensor.fromData([1, 2]);
  for (const shape of [[-1], [NaN], [1.5], [Infinity], [2 ** 53], [2 ** 40, 2 ** 40], new Array(100).fill(1)]) {
    assert.throws(() => Tensor.zeros(shape).toArray(), LanthornError, String(shape));
    assert.throws(() => Tensor.rand(shape).toArray(), LanthornError, String(shape));
    assert.throws(() => Tensor.fromData([1, 2], shape), LanthornError, String(shape));
  }
  assert.throws(() => x.reshape(new Array(5000).fill(1)), LanthornError);
  assert.throws(() => Tensor.concat(new Array(5000).fill(x)), LanthornError);
  assert.throws(() => x.sum(NaN), LanthornError);
  assert.throws(() => x.repeat([2 ** 60]), LanthornError);
  // More memory than there is, once it is read.
  assert.throws(() => Tensor.ones([2 ** 24, 2 ** 24]).toArray(), LanthornError);
  works();
});

test("raw calls with any words give errors, not crashes", () => {
  const { raw } = session();
  const hostile = [NaN, -1, 0, 0.5, Infinity, -Infinity, 2 ** 53, 1e300, undefined, null, "x", {}, [], 1n, Symbol("s")];
  const calls = Object.entries(raw).filter(([, call]) => typeof call === "function");
  assert.ok(calls.length > 20);
  for (const [name, call] of calls) {
    if (name === "error" || name === "release") continue;
    for (const value of hostile) {
      raw.scratch.fill(typeof value === "number" ? value : 3);
      const result = call(value, value, value, value);
      if (result instanceof Promise) result.catch(() => {});
    }
  }
  while (raw.no_grad(0) === 1) raw.no_grad(-1);
  assert.equal(raw.op(NaN), -7);
  assert.match(raw.error(), /^unsupported\nop\n/);
  // Numbers as random as they come, in scratch and out.
  let state = 12345;
  const next = () => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) / 2 ** 32;
  const x = Tensor.fromData([1, 2]);
  for (let round = 0; round < 3000; round++) {
    for (let at = 0; at < 12; at++) {
      const kind = Math.floor(next() * 5);
      raw.scratch[at] = [Math.floor(next() * 7), x.handle, next() * 1e6 - 5e5, hostile[Math.floor(next() * 8)], 1][kind];
    }
    raw.op(Math.floor(next() * 150));
  }
  works();
});

test("the scratch words stay with their thread", () => {
  const { raw } = session();
  try {
    // Node 20 ignores the transfer, later versions refuse it.
    structuredClone(raw.scratch.buffer, { transfer: [raw.scratch.buffer] });
  } catch (error) {
    assert.equal(error.name, "DataCloneError");
  }
  assert.equal(raw.scratch.length, 4096);
  works();
});

test("what is no number is no parameter of a distribution", () => {
  const dtype = { name: "DTypeError", kind: "dtype" };
  assert.throws(() => Tensor.rand([2], { low: "1" }), { ...dtype, op: "rand", message: /low is the text "1"/ });
  assert.throws(() => Tensor.rand([2], { low: {} }), { ...dtype, message: /low is an object of class Object/ });
  assert.throws(() => Tensor.rand([2], { high: null }), { ...dtype, message: /high is null/ });
  assert.throws(() => Tensor.randn([2], { mean: true }), { ...dtype, op: "randn", message: /mean is true/ });
  assert.throws(() => Tensor.randn([2], { std: [1] }), { ...dtype, message: /std is an object of class Array/ });
  for (const std of [2n ** 53n + 1n, 10n ** 400n]) {
    assert.throws(() => Tensor.randn([2], { std }), { ...dtype, message: /std is \d+, which no number holds exactly/ });
  }
  assert.deepEqual([...Tensor.rand([2], { low: 3n, high: 3 }).toArray()], [3, 3]);
  assert.ok(Tensor.randn([2], { std: 2n }).toArray().every(Number.isFinite));
  works();
});

test("getters that call ops do not change the arguments of another op", () => {
  const disturb = () => Tensor.ones([7, 7, 7]).sum([0, 1]).shape;
  /** A list or options with getters. */
  const getters = (values) => {
    const result = Array.isArray(values) ? [...values] : {};
    for (const [name, value] of Object.entries(values)) {
      Object.defineProperty(result, name, { enumerable: true, get: () => (disturb(), value) });
    }
    return result;
  };
  const options = getters({ dtype: "f64", requiresGrad: true });
  const x = Tensor.arange(0, 24, 1, { dtype: "f32" }).reshape([2, 3, 4]);
  for (const make of [
    () => Tensor.rand([2, 2], options),
    () => Tensor.rand([2, 2], getters({ low: 0, high: 1, dtype: "f64", requiresGrad: true })),
    () => Tensor.randn(getters([2, 2]), options),
    () => Tensor.ones(getters([2, 2]), options),
    () => Tensor.full(getters([2, 2]), 3, options),
    () => Tensor.eye(2, options),
    () => Tensor.fromData([1, 2, 3, 4], getters([2, 2]), options),
    () => Tensor.fromData(getters([1, 2, 3, 4]), [2, 2], options),
    () => new Tensor([getters([1, 2]), [3, 4]], options),
  ]) {
    const made = make();
    assert.deepEqual([made.shape, made.dtype, made.requiresGrad], [[2, 2], "f64", true], String(make));
  }
  for (const [found, expected] of [
    [x.sum(getters([0, 2]), true), x.sum([0, 2], true)],
    [x.permute(getters([2, 0, 1])), x.permute([2, 0, 1])],
    [x.reshape(getters([4, 6])), x.reshape([4, 6])],
    [x.pad(getters([0, 1, 2]), getters([1, 0, 0]), 5), x.pad([0, 1, 2], [1, 0, 0], 5)],
    [x.splitSizes(getters([1, 2]), 1)[1], x.splitSizes([1, 2], 1)[1]],
    [Tensor.concat(getters([x, x]), 1), Tensor.concat([x, x], 1)],
    [Tensor.stack(getters([x, x])), Tensor.stack([x, x])],
  ]) {
    assert.deepEqual([found.shape, found.toArray()], [expected.shape, expected.toArray()]);
  }
  // A tensor behind a proxy, whose handle takes a call.
  const proxy = new Proxy(x, { get: (target, name) => (disturb(), Reflect.get(target, name, target)) });
  assert.deepEqual(x.mul(proxy).toArray(), x.square().toArray());
  assert.deepEqual(x.gt(7).where(proxy, x).toArray(), x.toArray());
  const copy = x.add(0);
  assert.deepEqual(copy.add_(proxy).toArray(), x.mul(2).toArray());
});

test("what stands for a tensor or a dtype is looked at before arguments are put", () => {
  const disturb = () => Tensor.ones([7, 7, 7]).sum([0, 1]).shape;
  const x = Tensor.arange(0, 6, 1, { dtype: "f32" }).reshape([2, 3]);
  const [y, z] = [x.mul(3), x.add(1)];
  const behind = (tensor) =>
    new Proxy(tensor, {
      get: (target, name) => (disturb(), Reflect.get(target, name, target)),
      getPrototypeOf: (target) => (disturb(), Reflect.getPrototypeOf(target)),
    });
  const traced = jit((a, b, c) => a.add(b.mul(2)).sub(c));
  const right = x.add(y.mul(2)).sub(z).toArray();
  for (let call = 0; call < 3; call++) {
    assert.deepEqual(traced(x, y, z).toArray(), right);
    assert.deepEqual(traced(x, behind(y), z).toArray(), right);
    assert.deepEqual(traced(behind(x), y, behind(z)).toArray(), right);
  }
  // An object that is read as a text is none: it may become another each time.
  let times = 0;
  const dtype = { toString: () => (disturb(), ["f64", "f32"][times++ % 2]) };
  for (const call of [() => x.cast(dtype), () => x.argmax(0).oneHot(3, dtype), () => Tensor.ones([2], { dtype })]) {
    assert.throws(call, { name: "DTypeError", message: /there is no dtype an object of class Object; one of/ });
  }
  assert.equal(times, 0);
});

test("what is no list of tensors is told by what it is", () => {
  const x = Tensor.fromData([1, 2]);
  for (const [list, message] of [
    [5, /concat: got 5, expected a list of Tensors/],
    [undefined, /got undefined, expected a list/],
    [x, /class Tensor, expected a list/],
    [new Set([x]), /class Set, expected a list/],
    [new Array(2 ** 32 - 1), /number of tensors is 4294967295, expected at most/],
  ]) {
    assert.throws(() => Tensor.concat(list, 0), { message });
    assert.throws(() => Tensor.concat(list, 0), LanthornError);
  }
  assert.throws(() => Tensor.stack([x, 5]), { kind: "foreign_handle", message: /operand is 5/ });
  assert.throws(() => x.sum(new Array(2 ** 32 - 1)), { kind: "shape", message: /4294967295/ });
  assert.throws(() => commit(null), { kind: "foreign_handle", message: /got null/ });
  return assert.rejects(commitAsync(null), { kind: "foreign_handle", message: /commitAsync: got null/ }).then(works);
});

test("data, options and signals of another kind are told by what they are", async () => {
  const x = Tensor.fromData([1, 2]);
  const dtype = { name: "DTypeError", kind: "dtype" };
  assert.throws(() => Tensor.fromData(), { ...dtype, message: /data are undefined/ });
  assert.throws(() => Tensor.fromData(null), { ...dtype, message: /data are null/ });
  assert.throws(() => Tensor.fromData(new ArrayBuffer(8)), { ...dtype, message: /ArrayBuffer/ });
  for (const shape of [undefined, [2]]) {
    const view = new DataView(new ArrayBuffer(8));
    assert.throws(() => Tensor.fromData(view, shape), { ...dtype, message: /class DataView, expected a list or/ });
  }
  assert.throws(() => Tensor.ones([2], "f64"), { ...dtype, op: "ones", message: /options are the text "f64"/ });
  assert.throws(() => Tensor.ones([2], { dtype: {} }), { ...dtype, message: /class Object/ });
  for (const signal of [{}, 5, "x", new EventTarget()]) {
    await assert.rejects(x.toArrayAsync({ signal }), { ...dtype, message: /signal is .*expected an AbortSignal/ });
    await assert.rejects(commitAsync([x], { signal }), { ...dtype, op: "commitAsync" });
  }
  assert.deepEqual([...(await x.toArrayAsync({ signal: null }))], [1, 2]);
  works();
});

test("requiresGrad is true or false", () => {
  const x = Tensor.ones([2]);
  for (const value of [1, "yes", {}, null, undefined]) {
    assert.throws(() => (x.requiresGrad = value), { kind: "dtype", op: "requiresGrad", message: /true or false/ });
    assert.equal(x.requiresGrad, false);
  }
  assert.throws(() => Tensor.ones([2], { requiresGrad: 1 }), { kind: "dtype", message: /requiresGrad is 1/ });
  x.requiresGrad = true;
  assert.equal(x.requiresGrad, true);
  x.requiresGrad = false;
  assert.equal(x.requiresGrad, false);
});
