// Gradients against closed forms and finite differences.
import { Gradient, Loss, Runtime, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";
import assert from "node:assert/strict";

import { assertClose, assertValues, effectTest, f32, f64, i64, values } from "./support.mjs";

/** Holds the gradient of a function against central differences. */
const check = (name, f, data, shape = [data.length]) =>
  effectTest(`the gradient of ${name} is that of differences`, function* () {
    const at = (list) =>
      Effect.gen(function* () {
        const x = yield* f64(list, shape);
        return { x, y: yield* Tensor.sum(yield* f(x)) };
      });
    const { x, y } = yield* at(data);
    const [gradient] = yield* Gradient.grad(y, [x]);
    const found = yield* values(gradient);
    const step = 1e-6;
    const expected = [];
    for (let k = 0; k < data.length; k++) {
      const moved = (by) => data.map((value, j) => (j === k ? value + by : value));
      const [above] = yield* values((yield* at(moved(step))).y);
      const [below] = yield* values((yield* at(moved(-step))).y);
      expected.push((above - below) / (2 * step));
    }
    assertClose(found, expected, 1e-6, name);
  });

const DATA = [0.5, -1.25, 2, 0.75, -0.3, 1.1];
for (const name of [
  "neg",
  "exp",
  "tanh",
  "sin",
  "sigmoid",
  "silu",
  "gelu",
  "mish",
  "softplus",
  "elu",
  "leakyRelu",
  "square",
  "erf",
  "logSoftmax",
  "softmax",
  "logsumexp",
  "variance",
  "std",
  "norm",
  "prod",
  "abs",
]) {
  const second = name === "softmax" || name === "logSoftmax";
  check(name, (x) => (second ? Effect.flatMap(Tensor[name](x), Tensor.square) : Tensor[name](x)), DATA, [2, 3]);
}
check("log", Tensor.log, [0.5, 1, 2]);
check("pow", (x) => Tensor.pow(x, 3), DATA);
check("cumsum", (x) => Effect.flatMap(Tensor.cumsum(x, 1), Tensor.square), DATA, [2, 3]);
check("clamp", (x) => Tensor.clamp(x, { min: -1, max: 1 }), DATA);
check(
  "matmul",
  (x) => Effect.flatMap(Tensor.transpose(x, [1, 0]), (y) => Effect.flatMap(Tensor.matmul(x, y), Tensor.square)),
  DATA,
  [2, 3],
);
check("slice", (x) => Effect.flatMap(Tensor.slice(x, { start: [0, 1], stride: [1, 2] }), Tensor.square), DATA, [2, 3]);
check(
  "pad",
  (x) =>
    Effect.flatMap(
      Tensor.pad(x, [
        [1, 1],
        [0, 2],
      ]),
      Tensor.square,
    ),
  DATA,
  [2, 3],
);
check("tile", (x) => Effect.flatMap(Tensor.tile(x, [2, 2]), Tensor.square), DATA, [2, 3]);
check("trace", (x) => Effect.flatMap(Tensor.trace(x), Tensor.square), [1, 2, 3, 4], [2, 2]);
check("inverse", (x) => Effect.flatMap(Tensor.inverse(x), Tensor.square), [4, 1, 1, 3], [2, 2]);
check("rmsNorm", (x) => Effect.flatMap(Tensor.rmsNorm(x), (y) => Tensor.pow(y, 3)), DATA, [2, 3]);
check(
  "rotaryEmbedding",
  (x) => Effect.flatMap(Tensor.rotaryEmbedding(x, 2, 100), (y) => Tensor.pow(y, 3)),
  [...DATA, 1, 2],
  [2, 4],
);
check(
  "maxPool2d",
  (x) => Effect.flatMap(Tensor.maxPool2d(x, { kernelSize: [1, 2] }), Tensor.square),
  DATA.concat([3, 0.1]),
  [1, 1, 2, 4],
);
check(
  "avgPool2d",
  (x) => Effect.flatMap(Tensor.avgPool2d(x, { kernelSize: 2, padding: 1 }), Tensor.square),
  DATA,
  [1, 1, 2, 3],
);
check(
  "attention",
  (x) => Effect.flatMap(Tensor.scaledDotProductAttention(x, x, x, { causal: true }), Tensor.square),
  DATA,
  [1, 3, 2],
);
check(
  "conv1d",
  (x) =>
    Effect.flatMap(f64([1, -2], [1, 1, 2]), (w) => Effect.flatMap(Tensor.conv1d(x, w, { padding: 1 }), Tensor.square)),
  DATA,
  [1, 1, 6],
);
check(
  "convTranspose1d",
  (x) =>
    Effect.flatMap(f64([1, -2], [1, 1, 2]), (w) =>
      Effect.flatMap(Tensor.convTranspose1d(x, w, { stride: 2 }), Tensor.square),
    ),
  DATA,
  [1, 1, 6],
);
check(
  "vmap",
  (x) =>
    Effect.gen(function* () {
      const row = yield* f64([1, 2, 3]);
      const y = yield* Tensor.pow(row, 3);
      return yield* Gradient.vmap(y, row, x);
    }),
  DATA,
  [2, 3],
);
check(
  "cosineEmbeddingLoss",
  (x) =>
    Effect.gen(function* () {
      return yield* Loss.cosineEmbeddingLoss(x, yield* f64([1, 1, 1, 2, 1, 0], [2, 3]), yield* f64([1, -1]));
    }),
  DATA,
  [2, 3],
);
for (const name of ["mse", "l1", "huber", "hinge"]) {
  check(`Loss.${name}`, (x) => Effect.flatMap(Tensor.constantLike(x, 0.2), (y) => Loss[name](x, y)), DATA);
}
check("Loss.klDiv", (x) => Effect.flatMap(f64([0.25, 0.75, 0.1]), (y) => Loss.klDiv(x, y)), [-0.7, -0.6, -0.1]);
check(
  "Loss.binaryCrossEntropy",
  (x) => Effect.flatMap(f64([1, 0, 1]), (y) => Loss.binaryCrossEntropy(x, y)),
  [0.8, 0.3, 0.6],
);
check("Loss.crossEntropy", (x) => Effect.flatMap(i64([2, 0]), (y) => Loss.crossEntropy(x, y)), DATA, [2, 3]);
check("Loss.nll", (x) => Effect.flatMap(i64([2, 0]), (y) => Loss.nll(x, y)), DATA, [2, 3]);

effectTest("gradients of elements, of nodes, and of what the loss does not depend on", function* () {
  const [x] = yield* Tensor.compute([yield* f32([1, 2, 3])]);
  const other = yield* f32([5]);
  const middle = yield* Tensor.mul(x, x);
  const loss = yield* Tensor.sum(yield* Tensor.exp(yield* Tensor.mul(middle, yield* Tensor.constant(0))));
  const square = yield* Tensor.sum(middle);
  const gradients = yield* Gradient.grad(square, [x, middle, other]);
  const [a, b, c] = yield* Effect.forEach(yield* Tensor.compute(gradients), values);
  assert.deepEqual([a, b, c], [[2, 4, 6], [1, 1, 1], [0]]);
  assert.deepEqual(yield* values((yield* Gradient.grad(loss, [x]))[0]), [0, 0, 0]);
  assert.deepEqual(yield* Gradient.grad(square, []), []);
});

effectTest("gradients are graphs, so that they have gradients", function* () {
  const x = yield* f64([2, 3]);
  const [first] = yield* Gradient.grad(yield* Tensor.sum(yield* Tensor.pow(x, 3)), [x]);
  const [second] = yield* Gradient.grad(yield* Tensor.sum(first), [x]);
  const [third] = yield* Gradient.grad(yield* Tensor.sum(second), [x]);
  yield* assertValues(first, [12, 27]);
  yield* assertValues(second, [12, 18]);
  yield* assertValues(third, [6, 6]);
});

effectTest("a scalar that follows a dtype has a gradient in its own", function* () {
  const half = yield* Tensor.cast(yield* f32([1, 2]), "bf16");
  const scale = yield* Tensor.constant(3);
  const [gradient] = yield* Gradient.grad(yield* Tensor.sum(yield* Tensor.mul(half, scale)), [scale]);
  assert.equal(gradient.dtype, "f32");
  assert.deepEqual(yield* values(gradient), [3]);
});

effectTest("no gradient flows through stopGradient, nor to a padding row", function* () {
  const x = yield* f64([2]);
  const y = yield* Tensor.mul(x, yield* Gradient.stopGradient(x));
  assert.deepEqual(yield* values((yield* Gradient.grad(yield* Tensor.sum(y), [x]))[0]), [2]);
  const weight = yield* f64([1, 2, 3], [3, 1]);
  const rows = yield* Tensor.embedding(yield* i64([0, 1, 1]), { weight, paddingIndex: 1 });
  assert.deepEqual(yield* values((yield* Gradient.grad(yield* Tensor.sum(rows), [weight]))[0]), [1, 0, 0]);
});

effectTest("a checkpoint changes neither values nor gradients", function* () {
  const x = yield* f64([0.5, 1, 2]);
  const body = (wrap) =>
    Effect.gen(function* () {
      const hidden = yield* wrap(yield* Tensor.sin(yield* Tensor.square(x)));
      const loss = yield* Tensor.sum(yield* wrap(yield* Tensor.exp(hidden)));
      return yield* Effect.forEach([loss, ...(yield* Gradient.grad(loss, [x]))], values);
    });
  assert.deepEqual(yield* body(Gradient.checkpoint), yield* body(Effect.succeed));
});

effectTest("vjp and jvp are products with the Jacobian", function* () {
  const x = yield* f64([1, 2, 3]);
  const weight = yield* f64([1, 2, 3, 4, 5, 6], [3, 2]);
  const y = yield* Tensor.matmul(yield* Tensor.square(x), weight);
  // J = 2 x[i] weight[i][j]
  yield* assertValues(yield* Gradient.vjp(y, x, yield* f64([1, 10])), [42, 172, 390]);
  yield* assertValues(yield* Gradient.jvp(y, x, yield* f64([1, 1, 0])), [2 + 12, 4 + 16]);
  const error = yield* Effect.flip(Gradient.jvp(y, x, yield* f64([1, 1])));
  assert.equal(error._tag, "TensorError");
});

effectTest("vmap maps a graph over an axis", function* () {
  const x = yield* f64([1, 2]);
  const y = yield* Tensor.sum(yield* Tensor.mul(x, yield* f64([10, 100])));
  const batch = yield* f64([1, 2, 3, 4, 5, 6], [3, 2]);
  assert.deepEqual(yield* values(yield* Gradient.vmap(y, x, batch)), [210, 430, 650]);
  const turned = yield* Tensor.transpose(batch, [1, 0]);
  assert.deepEqual(yield* values(yield* Gradient.vmap(y, x, turned, { dim: 1 })), [210, 430, 650]);
  // Gradients of each example.
  const [gradient] = yield* Gradient.grad(yield* Tensor.sum(yield* Tensor.pow(x, 2)), [x]);
  assert.deepEqual(yield* values(yield* Gradient.vmap(gradient, x, batch)), [2, 4, 6, 8, 10, 12]);
  assert.equal((yield* Effect.flip(Gradient.vmap(y, x, yield* f64([1, 2, 3], [1, 3]))))._tag, "TensorError");
});

effectTest("what has no gradient is a GradError", function* () {
  const x = yield* f64([1, 2]);
  const many = yield* Effect.flip(Gradient.grad(x, [x]));
  assert.deepEqual([many._tag, many.reason], ["GradError", "non-scalar-output"]);
  assert.match(many.message, /\[2\]/);
  const ids = yield* i64([1, 2]);
  const loss = yield* Tensor.sum(x);
  for (const effect of [
    Gradient.grad(loss, [ids]),
    Gradient.grad(yield* Tensor.sum(ids), [x]),
    Gradient.vjp(ids, x, x),
  ]) {
    const error = yield* Effect.flip(effect);
    assert.deepEqual([error._tag, error.reason], ["GradError", "non-float-dtype"]);
    assert.match(error.detail, /i64/);
  }
});

effectTest("a step of gradient descent", function* () {
  const input = yield* f32([1, 2, 3, 4], [2, 2]);
  const weight = yield* f32([0.5, -0.5], [2, 1]);
  const target = yield* f32([1, 2], [2, 1]);
  const loss = yield* Loss.mse(yield* Tensor.matmul(input, weight), target);
  const [gradient] = yield* Gradient.grad(loss, [weight]);
  const [lossValue, gradientValue] = yield* Tensor.compute([loss, gradient]);
  // Residuals are -1.5 and -2.5.
  assert.deepEqual(yield* values(lossValue), [(2.25 + 6.25) / 2]);
  assert.deepEqual(yield* values(gradientValue), [-1.5 * 1 - 2.5 * 3, -1.5 * 2 - 2.5 * 4]);
});

/** AdamW and gradient descent with momentum as nodes, against their formulas. */
effectTest("optimizer steps are nodes with several results", function* () {
  const runtime = yield* Runtime.Runtime;
  const [p, g, m, v] = [
    [1, -2],
    [0.5, 0.25],
    [0.1, 0],
    [0.01, 0.02],
  ];
  const [lr, beta1, beta2, eps, decay, t] = [0.1, 0.9, 0.99, 1e-8, 0.01, 3];
  const [c1, c2] = [1 - beta1 ** t, 1 - beta2 ** t];
  const scalar = (value) => Tensor.constant(value, { dtype: "f64" });
  const inputs = yield* Effect.all([f64(p), f64(g), f64(m), f64(v), scalar(lr), scalar(c1), scalar(c2)]);
  const step = yield* runtime.node({ op: "adamwStep", inputs, attributes: { beta1, beta2, eps, weightDecay: decay } });
  const outs = yield* Effect.forEach([0, 1, 2], (index) =>
    runtime.node({ op: "adamwOut", inputs: [step], attributes: { index } }),
  );
  const next = {
    m: m.map((x, k) => beta1 * x + (1 - beta1) * g[k]),
    v: v.map((x, k) => beta2 * x + (1 - beta2) * g[k] ** 2),
  };
  const expected = p.map((x, k) => x - lr * decay * x - (lr * (next.m[k] / c1)) / (Math.sqrt(next.v[k] / c2) + eps));
  yield* assertValues(outs[0], expected, 1e-12);
  yield* assertValues(outs[1], next.m, 1e-12);
  yield* assertValues(outs[2], next.v, 1e-12);

  for (const [first, gain] of [
    [1, 1],
    [0, 0.75],
  ]) {
    const operands = yield* Effect.all([f64(p), f64(g), f64(m), scalar(first), scalar(lr)]);
    const attributes = { momentum: 0.9, dampening: 0.25, nesterov: false, weightDecay: 0 };
    const sgd = yield* runtime.node({ op: "sgdStep", inputs: operands, attributes });
    const velocity = m.map((x, k) => 0.9 * x + gain * g[k]);
    const out = (index) => runtime.node({ op: "sgdOut", inputs: [sgd], attributes: { index } });
    yield* assertValues(
      yield* out(0),
      p.map((x, k) => x - lr * velocity[k]),
      1e-12,
    );
    yield* assertValues(yield* out(1), velocity, 1e-12);
    const plain = yield* runtime.node({ op: "sgdStep", inputs: operands, attributes: { ...attributes, momentum: 0 } });
    yield* assertValues(
      yield* runtime.node({ op: "sgdOut", inputs: [plain], attributes: { index: 0 } }),
      p.map((x, k) => x - lr * g[k]),
      1e-12,
    );
    assert.equal(
      (yield* Effect.flip(runtime.node({ op: "sgdOut", inputs: [plain], attributes: { index: 2 } }))).reason,
      "unsupported-operation",
    );
  }
});
