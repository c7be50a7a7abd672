// Kimi Delta Attention and its parts against loops over steps, by differences, and in training. How it decodes is in
// `recurrent-decode.test.mjs`.
import assert from "node:assert/strict";

import { Gradient, LearningRate, Loss, Model, Optimizer, Tensor, Trainer } from "@lanthorn/effect";
import { Effect } from "effect";

import { allValues, assertClose, assertFault, effect, fixedParams, ids, values } from "./learning.mjs";
import { f64 } from "./support.mjs";

/** Numbers of a fixed sequence, from -1 to 1. */
function numbers(count, seed) {
  let state = seed;
  return Array.from({ length: count }, () => ((state = (state * 48271) % 2147483647) / 2147483647 - 0.5) * 2);
}

const size = (shape) => shape.reduce((product, of) => product * of, 1);

/** Operands of `kdaChunk`: lists and shapes. Decays are negative, betas from 0 to 1. */
function operandsOf(batch, heads, seq, d, dv) {
  const keys = [batch, heads, seq, d];
  const drawn = (shape, seed, f = (x) => x) => ({ shape, data: numbers(size(shape), seed).map(f) });
  return [
    drawn(keys, 1),
    drawn(keys, 2),
    drawn([batch, heads, seq, dv], 3),
    drawn(keys, 4, (x) => -0.5 * (1 + x)),
    drawn([batch, heads, seq], 5, (x) => 0.5 * (1 + x)),
  ];
}

const tensorsOf = (operands) => Effect.forEach(operands, ({ data, shape }) => f64(data, shape));

/** The recurrence as it is written, one step after the other, for each head of each sequence. */
function stepByStep([q, k, v, logDecay, beta], scale = 1 / Math.sqrt(q.shape[3])) {
  const [batch, heads, seq, d] = q.shape;
  const dv = v.shape[3];
  const output = [];
  for (let head = 0; head < batch * heads; head++) {
    const state = Array.from({ length: d }, () => Array(dv).fill(0));
    for (let at = head * seq; at < (head + 1) * seq; at++) {
      const row = ({ data }, width) => data.slice(at * width, (at + 1) * width);
      const [query, key, value, decay] = [row(q, d), row(k, d), row(v, dv), row(logDecay, d)];
      const read = (by) => value.map((_, j) => by.reduce((sum, x, i) => sum + x * state[i][j], 0));
      state.forEach((line, i) => line.forEach((x, j) => (line[j] = Math.exp(decay[i]) * x)));
      const known = read(key);
      state.forEach((line, i) => line.forEach((x, j) => (line[j] = x + beta.data[at] * key[i] * (value[j] - known[j]))));
      output.push(...read(query).map((x) => scale * x));
    }
  }
  return output;
}

// Lengths below, at and above what the engine takes at once.
for (const shape of [[1, 1, 1, 2, 2], [2, 3, 5, 4, 2], [1, 2, 64, 3, 3], [2, 1, 131, 2, 3]]) {
  effect(`kdaChunk of [${shape}] is the recurrence step by step`, function* () {
    const operands = operandsOf(...shape);
    const [q, k, v, logDecay, beta] = yield* tensorsOf(operands);
    const output = yield* Tensor.kdaChunk(q, k, v, logDecay, beta);
    assert.deepEqual([...output.shape], operands[2].shape);
    assertClose(yield* values(output), stepByStep(operands), 1e-10);
    assertClose(yield* values(yield* Tensor.kdaChunk(q, k, v, logDecay, beta, { scale: 0.3 })), stepByStep(operands, 0.3), 1e-10);
  });
}

effect("a decay of minus infinity forgets what came before", function* () {
  const operands = operandsOf(1, 2, 6, 2, 2);
  operands[3].data = operands[3].data.map((x, at) => (Math.floor(at / 2) % 6 === 3 ? -Infinity : x));
  const expected = stepByStep(operands);
  assert.ok(expected.every(Number.isFinite));
  assertClose(yield* values(yield* Tensor.kdaChunk(...(yield* tensorsOf(operands)))), expected, 1e-10);
});

/** Holds gradients of the sum of squares by all operands against central differences. */
const assertGradients = (f, operands) =>
  Effect.gen(function* () {
    const lossOf = (tensors) => Effect.flatMap(Effect.flatMap(f(...tensors), Tensor.square), Tensor.sum);
    const tensors = yield* tensorsOf(operands);
    const found = yield* allValues(yield* Gradient.grad(yield* lossOf(tensors), tensors));
    const at = (place, data) =>
      Effect.gen(function* () {
        const moved = yield* tensorsOf(operands.map((operand, other) => (other === place ? { ...operand, data } : operand)));
        return (yield* values(yield* lossOf(moved)))[0];
      });
    const step = 1e-5;
    for (const [place, { data }] of operands.entries()) {
      const expected = [];
      for (let k = 0; k < data.length; k++) {
        const above = yield* at(place, data.with(k, data[k] + step));
        const below = yield* at(place, data.with(k, data[k] - step));
        expected.push((above - below) / (2 * step));
      }
      assertClose(found[place], expected, 1e-7, `operand ${place}`);
    }
  });

effect("gradients of kdaChunk are those of differences", assertGradients(Tensor.kdaChunk, operandsOf(1, 2, 3, 2, 2)));

effect("gradients of shortConv1d are those of differences", function* () {
  const [x, weight] = [[2, 3, 2], [2, 4]].map((shape, seed) => ({ shape, data: numbers(size(shape), seed + 1) }));
  yield* assertGradients(Tensor.shortConv1d, [x, weight]);
});

effect("kdaChunk names shapes and dtypes that do not fit", function* () {
  const [q, k, v, logDecay, beta] = yield* tensorsOf(operandsOf(1, 2, 3, 2, 4));
  const fault = (...operands) => Effect.flip(Tensor.kdaChunk(...operands));
  const message = /^kdaChunk: q \[1,2,3,2\], k \[1,2,3,2\], v \[1,2,3,4\], logDecay \[1,2,3\], beta \[1,2,3\] do not fit; expected \[batch, heads, seq, d\]/;
  assertFault(yield* fault(q, k, v, beta, beta), "TensorError", message);
  assertFault(yield* fault(q, v, v, logDecay, beta), "TensorError", /k \[1,2,3,4\].* do not fit/);
  assertFault(yield* fault(q, k, v, logDecay, logDecay), "TensorError", /beta \[1,2,3,2\] do not fit/);
  assertFault(yield* fault(beta, beta, beta, beta, beta), "TensorError", /q \[1,2,3\],/);
  const wide = yield* Tensor.transpose(q, [1, 0, 2, 3]);
  assertFault(yield* fault(wide, k, v, logDecay, beta), "TensorError", /q \[2,1,3,2\]/);
  assertFault(yield* fault(q, yield* Tensor.cast(k, "f32"), v, logDecay, beta), "TensorError", /f32.*f64|f64.*f32/);
});

for (const [batch, seq, channels, kernel] of [[2, 5, 3, 4], [1, 2, 2, 4], [1, 3, 2, 1]]) {
  effect(`shortConv1d of [${[batch, seq, channels]}] with ${kernel} taps is a sum over taps`, function* () {
    const [x, weight] = [numbers(batch * seq * channels, 1), numbers(channels * kernel, 2)];
    const expected = [];
    for (let b = 0; b < batch; b++) {
      for (let step = 0; step < seq; step++) {
        for (let channel = 0; channel < channels; channel++) {
          let sum = 0;
          for (let tap = 0; tap < kernel; tap++) {
            const from = step - kernel + 1 + tap;
            if (from >= 0) sum += weight[channel * kernel + tap] * x[(b * seq + from) * channels + channel];
          }
          expected.push(sum);
        }
      }
    }
    const output = yield* Tensor.shortConv1d(yield* f64(x, [batch, seq, channels]), yield* f64(weight, [channels, kernel]));
    assert.deepEqual([...output.shape], [batch, seq, channels]);
    assertClose(yield* values(output), expected, 1e-12);
  });
}

effect("shortConv1d names shapes that do not fit", function* () {
  const x = yield* f64(numbers(12, 1), [2, 2, 3]);
  const weight = yield* f64(numbers(8, 2), [2, 4]);
  assertFault(yield* Effect.flip(Tensor.shortConv1d(x, weight)), "TensorError", /x \[2, 2, 3\] and weight \[2, 4\] do not fit/);
  assertFault(yield* Effect.flip(Tensor.shortConv1d(weight, weight)), "TensorError", /do not fit/);
});

effect("parameters are named after their parts, and first values fit", function* () {
  const model = yield* Model.kimiDeltaAttention("a", 8, 2);
  assert.deepEqual(model.parameters, [
    { name: "a.q.weight", shape: [8, 8] },
    { name: "a.q.conv", shape: [8, 4] },
    { name: "a.k.weight", shape: [8, 8] },
    { name: "a.k.conv", shape: [8, 4] },
    { name: "a.v.weight", shape: [8, 8] },
    { name: "a.v.conv", shape: [8, 4] },
    { name: "a.decay.down", shape: [8, 4] },
    { name: "a.decay.up", shape: [4, 8] },
    { name: "a.decay.scale", shape: [2] },
    { name: "a.decay.bias", shape: [8] },
    { name: "a.beta.weight", shape: [8, 2] },
    { name: "a.gate.down", shape: [8, 4] },
    { name: "a.gate.up", shape: [4, 8] },
    { name: "a.norm.weight", shape: [4] },
    { name: "a.wo.weight", shape: [8, 8] },
  ]);
  const params = yield* Tensor.compute(yield* model.init);
  assert.deepEqual(params.map(({ shape }) => shape), model.parameters.map(({ shape }) => shape));
  const first = yield* allValues(params);
  const at = (name) => first[model.names.indexOf(`a.${name}`)];
  assert.ok(at("decay.scale").every((x) => x >= 0 && x <= Math.log(16)), `${at("decay.scale")}`);
  const speeds = at("decay.bias").map((x) => Math.log1p(Math.exp(x)));
  assert.ok(speeds.every((x) => x > 0.00099 && x < 0.101), `${speeds}`);
  assert.deepEqual(at("norm.weight"), [1, 1, 1, 1]);
  // Each is a draw of its own.
  const drawn = first.filter((_, place) => model.names[place] !== "a.norm.weight").map(String);
  assert.equal(new Set(drawn).size, drawn.length);
});

effect("first weights have a variance of 1 by the number of inputs", function* () {
  const model = yield* Model.kimiDeltaAttention("a", 64, 2);
  const first = yield* allValues(yield* Tensor.compute(yield* model.init));
  for (const [at, { name, shape }] of model.parameters.entries()) {
    if (shape.length < 2) continue;
    const inputs = name.endsWith(".conv") ? shape[1] : shape[0];
    const variance = first[at].reduce((sum, x) => sum + x * x, 0) / first[at].length;
    assert.ok(Math.abs(variance * inputs - 1) < 0.5, `${name}: ${variance}`);
  }
});

effect("a later token changes no earlier output, and an earlier one changes later outputs", function* () {
  const [length, width, changed] = [9, 8, 5];
  const model = yield* Model.kimiDeltaAttention("a", width, 2);
  const params = yield* fixedParams(model);
  const x = numbers(length * width, 3);
  const other = x.map((value, at) => (Math.floor(at / width) === changed ? -value : value));
  const outputs = [];
  for (const data of [x, other]) {
    const input = yield* Tensor.fromTypedArray(Float32Array.from(data), [1, length, width]);
    outputs.push(yield* values(yield* model.execute(params, input)));
  }
  const row = (output, at) => output.slice(at * width, (at + 1) * width);
  for (let at = 0; at < length; at++) {
    const [a, b] = outputs.map((output) => row(output, at));
    if (at < changed) assertClose(b, a, 1e-6, `row ${at}`);
    // Further than the convolutions reach, too.
    else assert.ok(a.some((value, k) => Math.abs(value - b[k]) > 1e-4), `row ${at} is the same`);
  }
});

const VOCABULARY = 6;

/** A language model of one layer. */
const language = Effect.gen(function* () {
  return yield* Model.chain(
    yield* Model.embedding("token", VOCABULARY, 8),
    yield* Model.residual(yield* Model.kimiDeltaAttention("attention", 8, 2)),
    yield* Model.linear("head", 8, VOCABULARY),
  );
});

effect("training lowers the loss below what one token alone tells, and every parameter has a part in it", function* () {
  const model = yield* language;
  const params = yield* fixedParams(model);
  // What follows 0 depends on what came before it.
  const text = [1, 0, 2, 3, 0, 4, 1, 0, 2, 3, 0, 4, 1];
  const targets = yield* Tensor.fromTypedArray(Uint32Array.from(text.slice(1)), [1, text.length - 1]);
  const losses = [];
  const trainer = yield* Trainer.make(model, {
    optimizer: yield* Optimizer.adam(),
    lr: LearningRate.constant(0.03),
    loss: Loss.crossEntropy,
    data: { input: yield* ids(text.slice(0, -1)), target: targets },
    stop: ({ step }) => step >= 60,
    onStep: ({ loss }) => Effect.sync(() => losses.push(loss)),
  });
  const trained = yield* trainer.train(params);
  // 4 of 12 places are behind a 0, with one bit each that the token does not tell.
  const blind = (4 / 12) * Math.log(2);
  assert.ok(losses[0] > 1 && losses.at(-1) < blind / 2, `from ${losses[0]} to ${losses.at(-1)}`);
  const [before, after] = [yield* allValues(params), yield* allValues(trained.params)];
  for (const [at, name] of model.names.entries()) assert.notDeepEqual(after[at], before[at], name);
});
