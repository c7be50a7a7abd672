// Measures the face on Node and merges its rows into a file of rows: node bench/node.mjs FILE [PEERS [LANTHORN]], where PEERS
// is a folder in which TensorFlow.js is installed and LANTHORN the command (tools/node-bench.sh does both). A row's ratio is the peer's time by ours;
// where the peer is a limit, 1 keeps it.
import { createRequire } from "node:module";
import { join } from "node:path";
import { performance } from "node:perf_hooks";

import { commit, compile, stats, Tensor } from "../dist/node.js";
import { OP } from "../dist/generated/table.js";
import { session } from "../dist/session.js";
import { ours as gptStep, theirs as gptOfRust } from "./gpt.mjs";
import { merge } from "./rows.mjs";
import { ours as train, theirs as trainTensorflow } from "./training.mjs";

const [file = "out/bench.json", peers, command] = process.argv.slice(2);
const ROUNDS = 7;
const rows = [];

/** Seconds of one call of `work`, the best of several rounds of `count`. */
function seconds(count, work) {
  let best = Infinity;
  for (let round = 0; round <= ROUNDS; round++) {
    const start = performance.now();
    for (let at = 0; at < count; at++) work();
    // The first round only warms up.
    if (round > 0) best = Math.min(best, (performance.now() - start) / 1e3 / count);
  }
  return best;
}

function row(name, ours, peer, theirs, target) {
  const ratio = theirs === undefined ? null : theirs / ours;
  rows.push({ name, ours_s: ours, peer: peer ?? null, peer_s: theirs ?? null, ratio, target: target ?? null });
  const show = (value) => (value === undefined ? "-" : `${(value * 1e6).toFixed(3)} us`);
  console.log(`${name}: ${show(ours)}, ${peer ?? "no peer"} ${show(theirs)}, ratio ${ratio?.toFixed(2) ?? "-"}`);
}

async function tensorflow() {
  if (peers === undefined) return undefined;
  const require = createRequire(join(peers, "package.json"));
  const tf = require("@tensorflow/tfjs");
  require("@tensorflow/tfjs-backend-wasm");
  await tf.setBackend("wasm");
  return tf;
}

const OP_LIMIT = 0.5e-6;
const CALL_LIMIT = 20e-6;
const LAG_LIMIT = 0.05;

const a = Tensor.fromData([1, 2, 3, 4]);
const b = Tensor.fromData([5, 6, 7, 8]);
commit([a, b]);

const { raw } = session();
const rawOp = () => {
  raw.scratch[0] = 2;
  raw.scratch[1] = a.handle;
  raw.scratch[2] = b.handle;
  raw.release(raw.op(OP.add));
};
row("node: build an op and release it, raw calls", seconds(50_000, rawOp), "limit", OP_LIMIT, 1);
row("node: build an op, class API, collected", seconds(50_000, () => a.add(b)), "limit", OP_LIMIT, 1);

const tf = await tensorflow();
const add = seconds(5_000, () => a.add(b).toArray());
let theirs;
if (tf !== undefined) {
  const [x, y] = [tf.tensor1d([1, 2, 3, 4]), tf.tensor1d([5, 6, 7, 8])];
  theirs = seconds(5_000, () => {
    const sum = tf.add(x, y);
    sum.dataSync();
    sum.dispose();
  });
}
row("node: add 4 elements and read them", add, tf && "tfjs-wasm", theirs, 1);

const program = compile((x, y) => x.add(y), [a, b]);
const floor = seconds(20_000, () => program.run([a, b]).dispose());
row("node: a compiled call on 4 elements", floor, "limit", CALL_LIMIT, 1);
row("node: a compiled call on 4 elements, read", seconds(10_000, () => program.run([a, b]).toArray()), "limit", CALL_LIMIT, 1);

/** Runs `step` `count` times in each of two rounds; gives the seconds of the better one. */
function steps(count, step) {
  let best = Infinity;
  for (let round = 0; round < 2; round++) {
    const start = performance.now();
    for (let at = 0; at < count; at++) step();
    best = Math.min(best, (performance.now() - start) / 1e3);
  }
  return best;
}

for (const [name, count, few, target] of [["xor", 3000, 300, 10], ["mlp", 20, 4, 30]]) {
  const step = train(name);
  for (let at = 0; at < 3; at++) step().item();
  const live = stats();
  let loss;
  const ours = steps(count, () => {
    loss = step().item();
  });
  gc?.();
  const leaked = stats();
  // The peer runs fewer steps, each of which takes the same time.
  const step2 = tf && trainTensorflow(name, tf);
  step2?.();
  const theirs = step2 && (steps(few, step2) * count) / few;
  const what = { xor: "exclusive or, 3,000 compiled Adam steps with their losses", mlp: "784-512-512-10, batch 128, 20 compiled Adam steps with their losses" }[name];
  row(`node: ${what}`, ours, tf && "tfjs-wasm", theirs, target);
  console.log(`loss ${loss.toExponential(2)}; ${leaked.handles - live.handles} handles and ${leaked.live_bytes - live.live_bytes} bytes more than before`);
}

// In turn, and the best step of each, as that program measures itself.
const gpt = gptStep();
let [gptSeconds, ofRust] = [Infinity, undefined];
for (let round = 0; round < 3; round++) {
  gptSeconds = Math.min(gptSeconds, seconds(1, gpt));
  const theirs = gptOfRust(command);
  ofRust = theirs && Math.min(ofRust ?? Infinity, theirs);
}
row("node: GPT step", gptSeconds, ofRust && "the same in Rust", ofRust, 0.95);

const square = Tensor.rand([1024, 1024]);
commit([square]);
const product = seconds(4, () => square.matmul(square).toArray());
let theirProduct;
if (tf !== undefined) {
  const x = tf.randomUniform([1024, 1024]);
  theirProduct = seconds(2, () => {
    const y = tf.matMul(x, x);
    y.dataSync();
    y.dispose();
  });
}
row("node: product of 1024 with its readback", product, tf && "tfjs-wasm", theirProduct, 7);

const before = stats();
const x = Tensor.rand([1024, 1024]);
commit([x]);
let y = x;
for (let at = 0; at < 20; at++) y = y.matmul(x).mul(1 / 1024);
const start = performance.now();
let last = start;
let worst = 0;
const timer = setInterval(() => {
  const now = performance.now();
  worst = Math.max(worst, now - last - 1);
  last = now;
}, 1);
await y.toArrayAsync();
const took = (performance.now() - start) / 1e3;
clearInterval(timer);
row("node: longest stop of the event loop in 20 products of 1024", worst / 1e3, "limit", LAG_LIMIT, 1);
row("node: 20 products of 1024, read asynchronously", took);
console.log(`${((20 * 2 * 1024 ** 3) / took / 1e9).toFixed(0)} GFLOP/s; ${stats().compiles - before.compiles} programs`);

merge(file, rows);
