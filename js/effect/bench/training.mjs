// Measures the Effect API's training and merges its rows into a file of rows: node bench/training.mjs FILE [PEERS [LANTHORN]],
// where PEERS is a folder in which TensorFlow.js is installed and LANTHORN the command. A row's ratio is the peer's time by
// ours; where the peer is a limit, 1 keeps it.
import { createRequire } from "node:module";
import { join } from "node:path";
import { performance } from "node:perf_hooks";

import * as BackendCpu from "@lanthorn/backend-cpu";
import { LearningRate, Loss, Model, Optimizer, Runtime, Tensor, Trainer } from "@lanthorn/effect";
import { Effect } from "effect";
import { commit, Tensor as ClassTensor } from "lanthorn";

import { theirs as gptOfRust } from "../../lanthorn/bench/gpt.mjs";
import { merge } from "../../lanthorn/bench/rows.mjs";
import { theirs as trainTensorflow } from "../../lanthorn/bench/training.mjs";

const [file = "out/bench.json", peers, command] = process.argv.slice(2);
const rows = [];

const run = (effect) => Effect.runPromise(Effect.provide(effect, BackendCpu.layer));

function row(name, ours, peer, theirs, target) {
  const ratio = theirs === undefined ? null : theirs / ours;
  rows.push({ name, ours_s: ours, peer: peer ?? null, peer_s: theirs ?? null, ratio, target: target ?? null });
  const show = (value) => (value === undefined ? "-" : `${(value * 1e6).toFixed(3)} us`);
  console.log(`${name}: ${show(ours)}, ${peer ?? "no peer"} ${show(theirs)}, ratio ${ratio?.toFixed(2) ?? "-"}`);
}

/** Seconds of one of `count` calls, the best of several rounds. */
function seconds(count, work) {
  let best = Infinity;
  for (let round = 0; round < 8; round++) {
    const start = performance.now();
    for (let at = 0; at < count; at++) work();
    best = Math.min(best, (performance.now() - start) / 1e3 / count);
  }
  return best;
}

async function tensorflow() {
  if (peers === undefined) return undefined;
  const require = createRequire(join(peers, "package.json"));
  const tf = require("@tensorflow/tfjs");
  require("@tensorflow/tfjs-backend-wasm");
  await tf.setBackend("wasm");
  return tf;
}

/** Layers with an activation between them. */
const network = (sizes, activation) =>
  Effect.gen(function* () {
    const layers = [];
    for (let at = 1; at < sizes.length; at++) {
      if (at > 1) layers.push(yield* activation);
      layers.push(yield* Model.linear(`fc${at}`, sizes[at - 1], sizes[at]));
    }
    return yield* Model.chain(...layers);
  });

/** Compiled Adam steps: seconds of so many, the better of two runs, their last loss, and bytes by which memory grew. */
const trained = (model, loss, data, rate, count) =>
  Effect.gen(function* () {
    const { extensions } = yield* Runtime.Runtime;
    const config = (last) => ({ optimizer, lr: LearningRate.constant(rate), loss, data, stop: ({ step }) => step >= last });
    const optimizer = yield* Optimizer.adam();
    const release = ({ params, state }) => Tensor.clearAll([...params, ...optimizer.stateRoots(state)]);
    let last = 3;
    const trainer = yield* Trainer.make(model, { ...config(0), stop: ({ step }) => step >= last });
    yield* Effect.flatMap(trainer.train(), release);
    last = count;
    const before = yield* extensions.diagnostics.externalMemoryBytes;
    const runs = [];
    for (let round = 0; round < 2; round++) {
      const start = performance.now();
      const result = yield* trainer.train();
      runs.push({ seconds: (performance.now() - start) / 1e3, loss: result.loss });
      yield* release(result);
    }
    const grown = (yield* extensions.diagnostics.externalMemoryBytes) - before;
    return { seconds: Math.min(...runs.map((run) => run.seconds)), loss: runs.at(-1).loss, grown };
  });

const xor = Effect.gen(function* () {
  const input = yield* Tensor.fromTypedArray(Float32Array.of(0, 0, 0, 1, 1, 0, 1, 1), [4, 2]);
  const target = yield* Tensor.fromTypedArray(Float32Array.of(0, 1, 1, 0), [4, 1]);
  return yield* trained(yield* network([2, 8, 1], Model.tanh), Loss.mse, { input, target }, 0.01, 3000);
});

const mlp = Effect.gen(function* () {
  const inputs = Float32Array.from({ length: 128 * 784 }, (_, at) => Math.sin(at * 12.9898) * 0.5 + 0.5);
  const input = yield* Tensor.fromTypedArray(inputs, [128, 784]);
  const target = yield* Tensor.fromTypedArray(Uint32Array.from({ length: 128 }, (_, at) => at % 10), [128]);
  return yield* trained(yield* network([784, 512, 512, 10], Model.relu), Loss.crossEntropy, { input, target }, 1e-3, 20);
});

/** The network of `lanthorn bench --only gpt_step`, and seconds of its step. */
const gpt = Effect.gen(function* () {
  const { layers, width, heads, context, batch, vocabulary } = { layers: 4, width: 256, heads: 8, context: 128, batch: 8, vocabulary: 2048 };
  const parts = [
    yield* Model.add(yield* Model.embedding("token", vocabulary, width), yield* Model.positionEmbedding("position", context, width)),
  ];
  for (let layer = 0; layer < layers; layer++) {
    const norm = (name) => Model.layerNorm(`h${layer}.${name}`, width);
    const attention = yield* Model.multiHeadAttention(`h${layer}.attention`, width, heads, { causal: true });
    const maps = [
      yield* Model.linear(`h${layer}.wide`, width, 4 * width),
      yield* Model.gelu(),
      yield* Model.linear(`h${layer}.narrow`, 4 * width, width),
    ];
    parts.push(yield* Model.residual(yield* Model.chain(yield* norm("norm1"), attention)));
    parts.push(yield* Model.residual(yield* Model.chain(yield* norm("norm2"), ...maps)));
  }
  const head = yield* Model.define({
    parameters: [{ name: "head.weight", shape: [width, vocabulary] }],
    init: Effect.map(Tensor.uniform([width, vocabulary], { min: -1 / 16, max: 1 / 16 }), (weight) => [weight]),
    forward: ([weight], input) => Tensor.matmul(input, weight),
  });
  const model = yield* Model.chain(...parts, yield* Model.layerNorm("norm", width), head);
  const adamW = yield* Optimizer.adamW();
  // The gradients' norm is clipped to 1 before each step.
  const optimizer = {
    ...adamW,
    step: (params, grads, state, lr) =>
      Effect.flatMap(Optimizer.clipByGlobalNorm(grads, 1), (clipped) => adamW.step(params, clipped, state, lr)),
  };
  const times = [];
  const trainer = yield* Trainer.make(model, {
    optimizer,
    lr: LearningRate.constant(1e-4),
    loss: Loss.crossEntropy,
    data: (step) =>
      Effect.gen(function* () {
        const token = (row, at) => (step + (row * (context + 1) + at) * 7919) % vocabulary;
        const ids = (shift) => Uint32Array.from({ length: batch * context }, (_, at) => token(Math.floor(at / context), (at % context) + shift));
        const shape = [batch, context];
        return { input: yield* Tensor.fromTypedArray(ids(0), shape), target: yield* Tensor.fromTypedArray(ids(1), shape) };
      }),
    stop: ({ step }) => step >= 6,
    onStep: () => Effect.sync(() => times.push(performance.now())),
  });
  yield* trainer.train();
  // The first step compiles.
  const steps = times.slice(1).map((time, at) => (time - times[at]) / 1e3);
  return Math.min(...steps);
});

// An op of each API: the class API builds one, the Effect API builds one by an effect that is run.
const a = ClassTensor.fromData([1, 2, 3, 4]);
const b = ClassTensor.fromData([5, 6, 7, 8]);
commit([a, b]);
const classOp = seconds(50_000, () => a.add(b));
const effectOp = await run(
  Effect.gen(function* () {
    const [x, y] = yield* Tensor.compute([yield* Tensor.ones([4]), yield* Tensor.ones([4])]);
    let best = Infinity;
    for (let round = 0; round < 8; round++) {
      const start = performance.now();
      for (let at = 0; at < 20_000; at++) yield* Tensor.add(x, y);
      best = Math.min(best, (performance.now() - start) / 1e3 / 20_000);
    }
    return best;
  }),
);
row("effect: build an op", effectOp, "class API", classOp);

const tf = await tensorflow();
for (const [name, ours, count, few, target] of [["xor", xor, 3000, 300, 10], ["mlp", mlp, 20, 4, 30]]) {
  const { seconds: took, loss, grown } = await run(ours);
  const step = tf && trainTensorflow(name, tf);
  let theirs;
  if (step) {
    step();
    const start = performance.now();
    for (let at = 0; at < few; at++) step();
    theirs = ((performance.now() - start) / 1e3 / few) * count;
  }
  const what = { xor: "exclusive or, 3,000 compiled Adam steps with their losses", mlp: "784-512-512-10, batch 128, 20 compiled Adam steps with their losses" }[name];
  row(`effect: ${what}`, took, tf && "tfjs-wasm", theirs, target);
  console.log(`loss ${loss.toExponential(2)}; ${grown} bytes more than before`);
}

const ofRust = gptOfRust(command);
row("effect: GPT step", await run(gpt), ofRust && "the same in Rust", ofRust, 0.95);

merge(file, rows);
