// Whatever is passed, there is an error that says what was found and what would be right, and the engine goes on.
import assert from "node:assert/strict";
import { test } from "node:test";

import { LanthornError, noGrad, ShapeError, Tensor } from "../dist/node.js";
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
  const targets = Tensor.fromData([0.5, 1]);
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
  assert.throws(() => x.add("1"), { kind: "dtype", message: /"1"/ });
  assert.throws(() => x.add(undefined), { kind: "shape", message: /missing/ });
  assert.throws(() => x.add(Symbol("x")), { kind: "dtype" });
  assert.throws(() => x.reshape("2"), { message: /"2"/ });
  assert.throws(() => x.softmax({}), { kind: "dtype" });
  assert.throws(() => x.sum(0, 1), { kind: "dtype", message: /true or false/ });
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
