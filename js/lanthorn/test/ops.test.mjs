// Ops against plain JavaScript: what takes a number, what draws, and what is more than its values. `fixtures.test.mjs` holds
// every op against values from outside.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Tensor } from "../dist/node.js";
import { call, TABLE } from "./fixtures.mjs";
import { assertClose } from "./support.mjs";

const X = [-2.5, -1, -0.25, 0.5, 1, 3];

test("ops with a number give what JavaScript gives", () => {
  const references = {
    add_scalar: (a, b) => a + b,
    sub_scalar: (a, b) => a - b,
    rsub_scalar: (a, b) => b - a,
    mul_scalar: (a, b) => a * b,
    div_scalar: (a, b) => a / b,
    rem_scalar: (a, b) => a % b,
    pow_scalar: (a, b) => a ** b,
    maximum_scalar: Math.max,
    minimum_scalar: Math.min,
    eq_scalar: (a, b) => a === b,
    ne_scalar: (a, b) => a !== b,
    lt_scalar: (a, b) => a < b,
    le_scalar: (a, b) => a <= b,
    gt_scalar: (a, b) => a > b,
    ge_scalar: (a, b) => a >= b,
  };
  for (const [name, reference] of Object.entries(references)) {
    for (const y of [2, 0.5, 3.25, -1]) {
      const x = name === "pow_scalar" ? X.map(Math.abs) : X;
      const tensor = Tensor.fromData(x, [2, 3], { dtype: "f64" });
      const expected = x.map((a) => reference(a, y));
      assertClose(call(name, [tensor], [y])[0].toArray(), expected, 1e-12, `${name} ${y}`);
      // The op on two tensors takes a number as well.
      const paired = name.replace(/_scalar$/, "");
      if (TABLE.has(paired)) assertClose(tensor[paired](y).toArray(), expected, 1e-12, `${paired} ${y}`);
    }
  }
});

test("the rest of the table gives what JavaScript gives", () => {
  const x = Tensor.fromData(X, [2, 3], { dtype: "f64" });
  const bits = Tensor.fromData([true, false, true, false], [4]);
  const other = Tensor.fromData([true, true, false, false], [4]);
  const key = Tensor.randomKey();
  const is = (name, tensors, attributes, expected, tolerance = 1e-12) => {
    const [found] = call(name, tensors, attributes);
    assertClose(found.toArray(), expected, tolerance, name);
    return found;
  };
  is("logical_not", [bits], [], [0, 1, 0, 1]);
  is("logical_and", [bits, other], [], [1, 0, 0, 0]);
  is("logical_or", [bits, other], [], [1, 1, 1, 0]);
  const odd = Tensor.fromData([1, NaN, Infinity, -Infinity], [4]);
  is("isfinite", [odd], [], [1, 0, 0, 0]);
  is("isinf", [odd], [], [0, 0, 1, 1]);
  is("leaky_relu", [x], [0.1], X.map((a) => (a > 0 ? a : 0.1 * a)));
  is("elu", [x], [1.5], X.map((a) => (a > 0 ? a : 1.5 * Math.expm1(a))));
  is("full_like", [x], [7.5], X.map(() => 7.5));
  is("zeros_like", [x], [], X.map(() => 0));
  is("ones_like", [x], [], X.map(() => 1));
  is("scalar", [], [2.5, { dtype: "f32" }], [2.5]);
  is("full", [], [[2, 2], 3.5, { dtype: "f64" }], [3.5, 3.5, 3.5, 3.5]);
  is("zeros", [], [[3], { dtype: "i32" }], [0, 0, 0]);
  is("ones", [], [[3], { dtype: "u8" }], [1, 1, 1]);
  is("iota", [], [4, { dtype: "i64" }], [0, 1, 2, 3]);
  is("lower_triangle", [], [2, 3, 0], [1, 0, 0, 1, 1, 0]);
  is("split_sizes", [x], [[1, 1], 0], X.slice(0, 3));
  is("unsqueeze", [x], [0], X);
  is("weighted_mean", [x, Tensor.fromData([1, 0, 0, 0, 0, 3], [2, 3], { dtype: "f64" })], [], [(-2.5 + 9) / 4]);
  const a = Tensor.fromData([1, 2, 3, 4], [2, 2]);
  is("matmul_as", [a, a], [{ dtype: "f64" }], [7, 10, 15, 22]);
  // The kernels' layout, [batch, seq, heads, head_dim], against the other one.
  const [q, k, v] = [0, 1, 2].map(() => Tensor.rand([2, 3, 4, 8], { dtype: "f64" }));
  const dense = [q, k, v].map((x) => x.transpose(1, 2));
  const expected = dense[0].scaledDotProductAttention(dense[1], dense[2], true).transpose(1, 2).toArray();
  is("attention", [q, k, v, undefined], [true, undefined], expected, 1e-6);
});

test("random ops draw from their key and keep their range", () => {
  const key = Tensor.randomKey();
  const uniform = call("uniform", [key], [[1000], -2, 3, { dtype: "f64" }, 0])[0].toArray();
  assert.ok(uniform.every((a) => -2 <= a && a < 3));
  assert.ok(Math.abs(uniform.reduce((a, b) => a + b) / 1000 - 0.5) < 0.2);
  const normal = call("normal", [key], [[4000], 1, 2, { dtype: "f64" }, 0])[0].toArray();
  const mean = normal.reduce((a, b) => a + b) / 4000;
  const variance = normal.reduce((sum, a) => sum + (a - mean) ** 2, 0) / 4000;
  assert.ok(Math.abs(mean - 1) < 0.2 && Math.abs(variance - 4) < 0.5, `mean ${mean}, variance ${variance}`);
  const coins = call("bernoulli", [key], [[1000], 0.25, 0])[0].toArray();
  const heads = coins.reduce((sum, coin) => sum + Number(coin), 0);
  assert.ok(heads > 180 && heads < 320, `${heads} of 1000`);
  const dropped = call("dropout", [Tensor.ones([1000]), key], [0.5, 0])[0].toArray();
  assert.ok(dropped.every((a) => a === 0 || a === 2));
  assert.deepEqual(key.uniform([5]).toArray(), key.uniform([5]).toArray());
  assert.notDeepEqual(Tensor.randomKey().uniform([5]).toArray(), key.uniform([5]).toArray());
});

const listOf = (tensor) => Array.from(tensor.toArray(), Number);

test("draws keep their range, their number and their probabilities", () => {
  const key = Tensor.randomKey();
  const draw = (name, tensors, attributes) => call(name, [key, ...tensors], attributes)[0];
  const all = (tensor, holds) => assert.ok(listOf(tensor).every(holds));
  const ramp = Tensor.fromData([0, 0.25, 1]);
  assert.deepEqual(listOf(draw("bernoulli_like", [Tensor.fromData([0, 1])], [0])), [0, 1]);
  all(draw("uniform_like", [Tensor.zeros([100])], [2, 3, 0]), (x) => x >= 2 && x < 3);
  assert.deepEqual(listOf(draw("normal_like", [ramp], [5, 0, 0])), [5, 5, 5]);
  assert.equal(new Set(listOf(draw("random_bits", [], [[50], { dtype: "u32" }, 0]))).size, 50);
  all(draw("randint", [], [[200], -2, 3, { dtype: "i32" }, 0]), (x) => Number.isInteger(x) && x >= -2 && x < 3);
  all(draw("exponential", [], [[100], 2, { dtype: "f64" }, 0]), (x) => x > 0);
  all(draw("gumbel", [], [[100], { dtype: "f32" }, 0]), Number.isFinite);
  all(draw("truncated_normal", [], [[200], 0, 1, -0.5, 0.5, { dtype: "f32" }, 0]), (x) => Math.abs(x) <= 0.5);
  const certain = Tensor.fromData([0, 1e9, 0, 1e9, 0, 0], [2, 3]);
  assert.deepEqual(listOf(draw("categorical", [certain], [null, 0])), [1, 0]);
  assert.deepEqual(listOf(draw("multinomial", [Tensor.fromData([0, 1, 0])], [1, false, 0])), [1]);
  const order = listOf(draw("randperm", [], [20, 0]));
  assert.deepEqual(order.toSorted((a, b) => a - b), [...Array(20).keys()]);
  assert.deepEqual(listOf(draw("permutation", [ramp], [0, 0])).toSorted((a, b) => a - b), [0, 0.25, 1]);
});

test("complex numbers come apart as they were put together", () => {
  const [re, im] = [Tensor.fromData([3, 0]), Tensor.fromData([4, -2])];
  const z = call("complex", [re, im], [])[0];
  assert.equal(z.dtype, "c64");
  assert.deepEqual(listOf(call("imag", [z], [])[0]), [4, -2]);
  const pairs = call("as_real", [z], [])[0];
  assert.deepEqual(listOf(pairs), [3, 4, 0, -2]);
  assert.deepEqual(listOf(call("as_complex", [pairs], [])[0].abs()), [5, 2]);
  const turned = call("polar", [Tensor.fromData([2]), Tensor.fromData([Math.PI / 2])], [])[0];
  assertClose(call("imag", [turned], [])[0].toArray(), [2], 1e-6, "polar");
});
