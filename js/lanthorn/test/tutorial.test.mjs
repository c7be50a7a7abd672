// Programs as tutorials of small class APIs have them: nothing but the import differs.
import assert from "node:assert/strict";
import { test } from "node:test";

import { crossEntropy, init, noGrad, Tensor, trackTensors } from "../dist/node.js";
import { assertClose } from "./support.mjs";

test("a first program", async () => {
  await init({ backend: "workers", threadCount: 4 });

  // Create tensors
  const x = Tensor.fromData([1, 2, 3, 4], [2, 2]);
  const w = Tensor.randn([2, 2], true); // requires_grad=true
  const b = Tensor.zeros([2], true);

  // Forward pass (all synchronous-looking!)
  const y = x.matmul(w).add(b);
  const loss = y.sum();

  // Backward pass
  loss.backward();

  // Read results (async only when reading data)
  const weights = await w.toArray();
  assertClose([await loss.item()], [4 * (weights[0] + weights[1]) + 6 * (weights[2] + weights[3])], 1e-5);
  assertClose(await w.grad.toArray(), [4, 4, 6, 6]);
  assertClose(await b.grad.toArray(), [2, 2]);

  // Example: using trackTensors to auto-dispose temporaries
  let temp;
  await trackTensors(async () => {
    temp = x.add(w);
    assert.throws(() => temp.item(), { kind: "shape" });
    assertClose([await temp.sum().item()], [10 + weights.reduce((sum, a) => sum + a)], 1e-5);
  });
  assert.throws(() => temp.toArray(), { kind: "invalid_handle" });
});

test("a training loop", async () => {
  // Linear regression: y = 2x + 1
  const x = Tensor.fromData([1, 2, 3, 4, 5], [5, 1]);
  const y_true = Tensor.fromData([3, 5, 7, 9, 11], [5, 1]);

  // Initialize parameters
  let w = Tensor.randn([1, 1], true);
  let b = Tensor.zeros([1], true);

  const lr = 0.01;
  const losses = [];

  for (let epoch = 0; epoch < 100; epoch++) {
    // Forward
    const y_pred = x.matmul(w).add(b);
    const loss = y_pred.sub(y_true).mul(y_pred.sub(y_true)).mean();

    // Backward
    loss.backward();

    // Update (disable autograd during parameter updates)
    await noGrad(async () => {
      if (w.grad) w.sub_(w.grad.mul(Tensor.fromData([lr], [1])));
      if (b.grad) b.sub_(b.grad.mul(Tensor.fromData([lr], [1])));
      // Zero gradients
      w.grad = null;
      b.grad = null;
    });

    if (epoch % 10 === 0) {
      losses.push(await loss.item());
    }
  }

  assert.ok(losses.at(-1) < 0.1 && losses.at(-1) < losses[0], String(losses));
  assert.ok(Math.abs((await w.item()) - 2) < 0.3, `w is ${w.item()}`);
  assert.ok(Math.abs((await b.item()) - 1) < 0.9, `b is ${b.item()}`);
});

test("the methods of its reference", async () => {
  const a = Tensor.fromData([1, 2, 3, 4, 5, 6], [2, 3]);
  const b = Tensor.fromData([7, 8, 9, 10, 11, 12], [3, 2]);
  assert.deepEqual(await a.matmul(b).toArray(), Float32Array.of(58, 64, 139, 154));
  assert.deepEqual(await a.neg().relu().toArray(), Float32Array.of(0, 0, 0, 0, 0, 0));
  assertClose(await a.exp().log().toArray(), [1, 2, 3, 4, 5, 6]);
  assertClose(await a.softmax(1).sum(1).toArray(), [1, 1]);
  assert.deepEqual((await a.sum(0, true)).shape, [1, 3]);
  assert.equal(await a.mean().item(), 3.5);
  assert.deepEqual(await a.reshape([3, 2]).transpose().toArray(), Float32Array.of(1, 3, 5, 2, 4, 6));
  assert.deepEqual(await a.slice([[0, 2], [1, 3]]).toArray(), Float32Array.of(2, 3, 5, 6));
  a.set([1, 2], 60);
  assert.equal(await a.max().item(), 60);
  const loss = crossEntropy(a, Tensor.fromData([0, 2], [2], { dtype: "i64" }));
  assert.ok((await loss.item()) > 0);
});
