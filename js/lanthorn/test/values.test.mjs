// What a caller gives arrives as it is, or is an error: elements, scalars, ids and further arguments.
import assert from "node:assert/strict";
import { test } from "node:test";
import vm from "node:vm";

import { create, func, Tensor, toTypedArrays, toTypedArraysAsync } from "../dist/node.js";

const refused = (make, message) => assert.throws(make, { name: "DTypeError", kind: "dtype", op: "Tensor", message });

test("-0 stays -0 as a scalar", () => {
  const one = new Tensor([1]);
  assert.equal(one.div(-0).item(), -Infinity);
  const yes = new Tensor([true]);
  const results = {
    full: Tensor.full([1], -0),
    fill_: new Tensor([1]).fill_(-0),
    mul: one.mul(-0),
    maskedFill: one.maskedFill(yes, -0),
    add: new Tensor([-0]).add(-0),
    where: Tensor.where(yes, -0, one),
  };
  for (const [name, x] of Object.entries(results)) assert.ok(Object.is(x.toArray()[0], -0), name);
  const whole = new Tensor([3], { dtype: "i32" });
  assert.deepEqual([...whole.mul(-0).toArray()], [0], "an integer has no -0");
});

test("elements that their dtype does not hold are refused", () => {
  refused(() => new Tensor([1, 3e9], { dtype: "i32" }), /element 1 is 3000000000, and i32 holds -2147483648 to 2147483647/);
  refused(() => new Tensor([[1, 2], [300, 4]], { dtype: "u8" }), /element 2 is 300, and u8 holds 0 to 255/);
  refused(() => new Tensor([-1], { dtype: "u8" }), /element 0 is -1/);
  refused(() => new Tensor([NaN], { dtype: "bool" }), /element 0 is NaN, which is neither true nor false/);
  refused(() => new Tensor([NaN], { dtype: "i32" }), /element 0 is NaN, which is no i32/);
  refused(() => new Tensor([1.7], { dtype: "i32" }), /element 0 is 1.7, which is no i32/);
  refused(() => new Tensor([1e300], { dtype: "i64" }), /element 0 is 1e\+300, and i64 holds/);
  refused(() => new Tensor([2 ** 63], { dtype: "i64" }), /i64 holds/);
  refused(() => new Tensor([2n ** 70n]), /element 0 is 1180591620717411303424, and i64 holds/);
  refused(() => new Tensor([10n ** 400n], { dtype: "f64" }), /beyond every float/);
  refused(() => new Tensor(new Float64Array([3e9]), { dtype: "i32" }), /element 0 is 3000000000/);
  assert.throws(() => Tensor.fromData([256], [1], { dtype: "u8" }), { op: "fromData", message: /element 0 is 256/ });
  assert.throws(() => new Tensor([1], { dtype: "i8" }).copyFrom([200]), { op: "copyFrom", message: /element 0 is 200/ });
  // The ends of the ranges.
  assert.deepEqual([...new Tensor([-(2n ** 63n), 2n ** 63n - 1n]).toArray()], [-(2n ** 63n), 2n ** 63n - 1n]);
  assert.deepEqual([...new Tensor([0, 255], { dtype: "u8" }).toArray()], [0, 255]);
  assert.deepEqual([...new Tensor([2n ** 64n - 1n], { dtype: "u64" }).toArray()], [2n ** 64n - 1n]);
  assert.deepEqual([...new Tensor([2, 0], { dtype: "bool" }).toArray()], [1, 0]);
  assert.deepEqual([...new Tensor(new Uint8Array([2, 0]), { dtype: "bool" }).toArray()], [1, 0]);
});

test("mixed lists take the widest kind of their elements", () => {
  // torch: bool < int < float.
  const mixed = new Tensor([true, 2, 3.5]);
  assert.deepEqual([mixed.dtype, ...mixed.toArray()], ["f32", 1, 2, 3.5]);
  const whole = new Tensor([true, 2n]);
  assert.deepEqual([whole.dtype, ...whole.toArray()], ["i64", 1n, 2n]);
  assert.equal(new Tensor([2n, 0.5]).dtype, "f32");
  assert.equal(new Tensor([true, false]).dtype, "bool");
  assert.equal(new Tensor([]).dtype, "f32");
  for (const value of [5n, true, 5]) {
    assert.equal(Tensor.full([1], value).dtype, new Tensor(value).dtype, String(value));
    assert.equal(Tensor.scalar(value).dtype, new Tensor(value).dtype, String(value));
  }
  assert.equal(Tensor.full([1], 5n, { dtype: "f64" }).dtype, "f64");
});

test("arrays of another realm keep their dtype", () => {
  for (const [code, dtype] of [["new Float64Array([0.1])", "f64"], ["new Int16Array([3])", "i16"], ["new BigUint64Array([3n])", "u64"]]) {
    assert.equal(new Tensor(vm.runInNewContext(code)).dtype, dtype, code);
  }
});

test("ids are whole numbers that i64 holds", () => {
  const x = new Tensor([1, 2]);
  assert.throws(() => x.indexSelect(0, [2n ** 64n]), { op: "index_select", message: /element 0 is 18446744073709551616, and i64/ });
  assert.throws(() => x.indexSelect(0, [Symbol("a")]), { op: "index_select", message: /an id is a symbol/ });
  assert.throws(() => x.indexSelect(0, [0.5]), { message: /an id is 0.5/ });
  assert.deepEqual([...x.indexSelect(0, [1n, 0n]).toArray()], [2, 1]);
});

test("sub, mod and div take their further arguments", () => {
  const one = (value, dtype = "f32") => new Tensor([value], { dtype });
  assert.equal(one(1).sub(5, true).item(), 4);
  assert.equal(one(1).sub(one(5), true).item(), 4);
  assert.equal(one(1).sub(5).item(), -4);
  assert.equal(one(3).mod(7, true).item(), 1);
  assert.equal(one(-3).mod(7).item(), 4);
  assert.equal(one(2).div(1, null, true).item(), 0.5);
  assert.equal(one(7).div(2).item(), 3.5);
  // torch.div: floor downwards, trunc towards zero, of floats and of integers.
  for (const dtype of ["f32", "i32"]) {
    assert.equal(one(7, dtype).div(2, "floor").item(), 3);
    assert.equal(one(-7, dtype).div(2, "floor").item(), -4);
    assert.equal(one(-7, dtype).div(2, "trunc").item(), -3);
    assert.equal(one(-7, dtype).div(one(2, dtype), "trunc").item(), -3);
    assert.equal(one(2, dtype).div(-7, "floor", true).item(), -4);
  }
  assert.throws(() => one(1).div(2, "up"), { op: "div", message: /"up", expected "trunc", "floor" or null/ });
  assert.throws(() => one(1).sub(2, 1), { op: "sub", message: /reverse is 1/ });
  assert.throws(() => one(1).sub("2", true), { op: "sub" });
  const x = new Tensor([4], true);
  x.div(8, undefined, true).sum().backward();
  assert.equal(x.grad.item(), -0.5, "d(8/x) = -8/x^2");
});

test("ranges of slice have a step", () => {
  const x = new Tensor([[1, 2, 3, 4]]);
  assert.deepEqual(x.slice([[0, 1], [0, 4, 2]]).tolist(), [[1, 3]]);
  assert.deepEqual(x.slice([[0, 1], [1, 3]]).tolist(), [[2, 3]]);
  assert.equal(new Tensor(5).slice([]).item(), 5);
  for (const [ranges, message] of [[[0, 2], /axis 0 is 0, expected \[start, stop\]/], [[[0, 1], [1]], /axis 1 is a list of 1/]]) {
    assert.throws(() => x.slice(ranges), { name: "ShapeError", op: "slice", message });
  }
});

test("options that are none are told", async () => {
  assert.throws(() => create("cuda"), { op: "create", message: /"cuda", expected an object/ });
  assert.throws(() => create({ devcie: "cpu" }), { op: "create", message: /no option devcie; the options are device/ });
  assert.throws(() => func((x) => x, { precompile: true }), { op: "func", message: /no option precompile/ });
  const stop = new AbortController();
  const x = new Tensor([1]);
  for (const name of ["toArrayAsync", "itemAsync", "realizeAsync"]) {
    await assert.rejects(x[name](stop.signal), { op: name, message: /AbortSignal, expected an object such as \{ signal \}/ });
    await assert.rejects(x[name]({ sginal: stop.signal }), { op: name, message: /no option sginal/ });
  }
});

test("lists of tensors to read hold tensors alone", async () => {
  const list = [new Tensor([1]), new Tensor([2])];
  await assert.rejects(toTypedArraysAsync(list), { op: "toTypedArraysAsync", message: /Array, expected a Tensor/ });
  await assert.rejects(toTypedArraysAsync(null), { op: "toTypedArraysAsync", message: /null, expected a Tensor/ });
  assert.throws(() => toTypedArrays(null), { op: "toTypedArrays", message: /null, expected a Tensor/ });
  assert.deepEqual(await toTypedArraysAsync(...list, {}), [new Float32Array([1]), new Float32Array([2])]);
});

test("distributions that there are not are refused", () => {
  assert.throws(() => Tensor.rand([1], { low: 5, high: 1 }), { op: "rand", message: /low is 5 and high is 1/ });
  assert.throws(() => Tensor.randn([1], { std: -1 }), { op: "randn", message: /std is -1/ });
  assert.throws(() => new Tensor([1]).uniform_(5, 1), { op: "uniform_" });
});
