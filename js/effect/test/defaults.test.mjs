// Options that are left out, against the formulas in plain numbers.
import { Gradient, Loss, Model, Optimizer, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";
import assert from "node:assert/strict";

import { assertValues, effectTest, f64, i64, values } from "./support.mjs";

const u32 = (data, shape) => Tensor.fromTypedArray(Uint32Array.from(data), shape);
const softmax = (row) => {
  const powers = row.map(Math.exp);
  return powers.map((power) => power / powers.reduce((sum, other) => sum + other));
};
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

effectTest("activations", function* () {
  const x = yield* f64([-1, 2]);
  yield* assertValues(yield* Tensor.elu(x), [Math.exp(-1) - 1, 2]);
  yield* assertValues(yield* Tensor.leakyRelu(x), [-0.01, 2]);
  yield* assertValues(yield* Tensor.hardtanh(x), [-1, 1]);
  // The exact form: x Phi(x), of which the approximation by tanh is 0.8411920 at 1.
  yield* assertValues(yield* Tensor.gelu(yield* f64([1])), [0.8413447460685429]);
  yield* assertValues(yield* Tensor.gelu(yield* f64([1]), { approximate: "none" }), [0.8413447460685429]);
  const rows = yield* f64([1, 2, 3, 5], [2, 2]);
  const expected = [...softmax([1, 2]), ...softmax([3, 5])];
  yield* assertValues(yield* Tensor.softmax(rows), expected);
  yield* assertValues(yield* Tensor.logSoftmax(rows), expected.map(Math.log));
  const dropped = yield* values(yield* Tensor.dropout(yield* Tensor.ones([10_000])));
  assert.ok(dropped.every((value) => value === 0 || value === 2));
  const kept = dropped.filter((value) => value === 2).length;
  assert.ok(Math.abs(kept - 5000) < 300, `${kept} of 10,000 are kept`);
});

effectTest("reductions", function* () {
  const x = yield* f64([1, 2, 3, 4], [2, 2]);
  yield* assertValues(yield* Tensor.variance(x), [5 / 3]);
  yield* assertValues(yield* Tensor.std(x), [Math.sqrt(5 / 3)]);
  yield* assertValues(yield* Tensor.norm(x), [Math.sqrt(30)]);
  yield* assertValues(yield* Tensor.logsumexp(x), [Math.log([1, 2, 3, 4].reduce((sum, value) => sum + Math.exp(value), 0))]);
  for (const [reduction, expected] of [["sum", 10], ["mean", 2.5], ["max", 4], ["min", 1], ["prod", 24], ["all", 1], ["any", 1]]) {
    const reduced = yield* Tensor[reduction](x);
    assert.deepEqual([reduced.shape, (yield* values(reduced)).map(Number)], [[], [expected]], reduction);
  }
});

effectTest("constructors", function* () {
  for (const made of [Tensor.zeros([1]), Tensor.ones([1]), Tensor.full([1], 2), Tensor.randn([1]), Tensor.uniform([1]), Tensor.eye(1),
    Tensor.arange(1), Tensor.linspace(0, 1, 2), Tensor.constant(1), Tensor.oneHot(yield* u32([0]), 2)]) {
    assert.equal((yield* made).dtype, "f32");
  }
  yield* assertValues(yield* Tensor.arange(3), [0, 1, 2]);
  yield* assertValues(yield* Tensor.arange(2, 4), [2, 3]);
  const drawn = yield* values(yield* Tensor.uniform([10_000]));
  assert.ok(drawn.every((value) => value >= 0 && value < 1));
  const mean = drawn.reduce((sum, value) => sum + value) / drawn.length;
  assert.ok(Math.abs(mean - 0.5) < 0.02, `${mean}`);
});

effectTest("movement and selection", function* () {
  const x = yield* f64([1, 2, 3, 4], [2, 2]);
  yield* assertValues(yield* Tensor.concat([x, x]), [1, 2, 3, 4, 1, 2, 3, 4]);
  assert.deepEqual((yield* Tensor.stack([x, x, x])).shape, [3, 2, 2]);
  assert.deepEqual((yield* Tensor.split(x, 1)).map(({ shape }) => shape), [[1, 2], [1, 2]]);
  assert.deepEqual((yield* Tensor.chunk(x, 2)).map(({ shape }) => shape), [[1, 2], [1, 2]]);
  yield* assertValues(yield* Tensor.take(x, yield* u32([1])), [3, 4]);
  yield* assertValues(yield* Tensor.gather(x, yield* u32([1, 0], [1, 2])), [3, 2]);
  yield* assertValues(yield* Tensor.scatterAdd(x, yield* u32([1, 0], [1, 2]), yield* f64([10, 20], [1, 2])), [1, 22, 13, 4]);
  const cube = yield* Tensor.ones([1, 2, 1, 3]);
  assert.deepEqual([(yield* Tensor.flatten(cube)).shape, (yield* Tensor.squeeze(cube)).shape], [[6], [2, 3]]);
  yield* assertValues(yield* Tensor.triu(x), [1, 2, 0, 4]);
  yield* assertValues(yield* Tensor.tril(x), [1, 0, 3, 4]);
  yield* assertValues(yield* Tensor.slice(x, { start: [1, 0] }), [3, 4]);
});

effectTest("layers", function* () {
  // A mean of 1 and a variance of 1: what the smallest number adds to it shows in the 6th place.
  const x = yield* f64([0, 2], [1, 2]);
  const [one, zero] = [yield* f64([1, 1]), yield* f64([0, 0])];
  const normed = 1 / Math.sqrt(1 + 1e-5);
  yield* assertValues(yield* Tensor.layerNorm(x, one, zero), [-normed, normed], 1e-9);
  const layer = yield* Model.layerNorm("norm", 2);
  yield* assertValues(yield* layer.forward([one, zero], x), [-normed, normed], 1e-9);

  const image = yield* f64([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], [1, 1, 4, 4]);
  yield* assertValues(yield* Tensor.maxPool2d(image, { kernelSize: 2 }), [6, 8, 14, 16]);
  yield* assertValues(yield* Tensor.avgPool2d(image, { kernelSize: 2 }), [3.5, 5.5, 11.5, 13.5]);
  const weight = yield* f64([1, 0, 0, -1], [1, 1, 2, 2]);
  assert.deepEqual((yield* Tensor.conv2d(image, weight)).shape, [1, 1, 3, 3]);
  yield* assertValues(yield* Tensor.conv2d(image, weight), Array(9).fill(-5));
  assert.deepEqual((yield* Tensor.convTranspose2d(image, weight)).shape, [1, 1, 5, 5]);

  // One query, two keys: by default all keys are seen, and scores are divided by the root of the size.
  const query = yield* f64([1, 1, 1, 1], [1, 1, 1, 4]);
  const keys = yield* f64([1, 1, 1, 1, 0, 0, 0, 0], [1, 1, 2, 4]);
  const weights = softmax([2, 0]);
  yield* assertValues(yield* Tensor.scaledDotProductAttention(query, keys, keys), Array(4).fill(weights[0]));
  const rotated = yield* Tensor.rotaryEmbedding(yield* f64([1, 0, 1, 0, 1, 0, 1, 0], [1, 1, 2, 4]), 2, 100);
  // Halves: 0 turns with 2 by one radian, 1 with 3 by a tenth.
  const halves = [Math.cos(1) - Math.sin(1), 0, Math.sin(1) + Math.cos(1), 0];
  yield* assertValues(rotated, [1, 0, 1, 0, ...halves]);
});

effectTest("losses", function* () {
  const [x, y] = [yield* f64([3, 0.5]), yield* f64([1, 0])];
  yield* assertValues(yield* Loss.huber(x, y), [(1.5 + 0.125) / 2]);
  const chance = yield* f64([0.9, 0.2]);
  yield* assertValues(yield* Loss.binaryCrossEntropy(chance, y), [-(Math.log(0.9) + Math.log(0.8)) / 2]);
  yield* assertValues(yield* Loss.binaryCrossEntropy(x, y, { fromLogits: true }), [-(Math.log(sigmoid(3)) + Math.log(1 - sigmoid(0.5))) / 2]);
  const [a, b] = [yield* f64([1, 0, 1, 0], [2, 2]), yield* f64([0, 1, 1, 0], [2, 2])];
  yield* assertValues(yield* Loss.cosineEmbeddingLoss(a, b, yield* f64([1, -1])), [(1 + 1) / 2]);
  const logits = yield* f64([1, 2, 5, 0], [2, 2]);
  // Targets of -100 do not count.
  yield* assertValues(yield* Tensor.crossEntropy(logits, { target: yield* i64([0, -100]) }), [-Math.log(softmax([1, 2])[0])]);
});

effectTest("optimisers", function* () {
  const lr = yield* f64([0.5], []);
  const [start, gradient] = [[1, -2], [4, 0.25]];
  const first = (optimizer) =>
    Effect.gen(function* () {
      const params = [yield* f64(start)];
      return (yield* optimizer.step(params, [yield* f64(gradient)], yield* optimizer.init(params), lr)).params[0];
    });
  yield* assertValues(yield* first(yield* Optimizer.sgd()), start.map((value, at) => value - 0.5 * gradient[at]));
  const adam = start.map((value, at) => value - (0.5 * gradient[at]) / (Math.abs(gradient[at]) + 1e-8));
  yield* assertValues(yield* first(yield* Optimizer.adam()), adam, 1e-12);
  yield* assertValues(yield* first(yield* Optimizer.adamW()), adam.map((value, at) => value - 0.5 * 0.01 * start[at]), 1e-12);
});

effectTest("vmap maps over the first dimension", function* () {
  const x = yield* f64([1, 2]);
  const y = yield* Tensor.sum(yield* Tensor.square(x));
  yield* assertValues(yield* Gradient.vmap(y, x, yield* f64([1, 2, 3, 4], [2, 2])), [5, 25]);
});
