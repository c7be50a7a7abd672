// Loops that train: their answers, and that they need no more memory and no more programs with time.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as lanthorn from "../dist/node.js";
import { xor } from "../../../examples/xor/xor.mjs";
import { turn } from "./support.mjs";

const { Tensor, noGrad, stats } = lanthorn;

/** The programs that steps of one structure may need: the first step's, the others', and those of a read. */
const FEW_PROGRAMS = 8;

/** The linear regression of a class API's tutorial: y = 2x + 1. */
function regression() {
  const x = Tensor.fromData([1, 2, 3, 4, 5], [5, 1]);
  const y_true = Tensor.fromData([3, 5, 7, 9, 11], [5, 1]);
  lanthorn.manualSeed(1);
  const w = Tensor.randn([1, 1], true);
  const b = Tensor.zeros([1], true);
  const lr = 0.01;
  const step = async () => {
    const y_pred = x.matmul(w).add(b);
    const loss = y_pred.sub(y_true).mul(y_pred.sub(y_true)).mean();
    loss.backward();
    // The body has no `await`, so all of it runs now.
    const done = noGrad(async () => {
      if (w.grad) w.sub_(w.grad.mul(Tensor.fromData([lr], [1])));
      if (b.grad) b.sub_(b.grad.mul(Tensor.fromData([lr], [1])));
      w.grad = null;
      b.grad = null;
    });
    return [loss, done];
  };
  return { w, b, step };
}

function assertSolved({ w, b }) {
  assert.ok(Math.abs(w.item() - 2) < 1e-3, `w is ${w.item()}`);
  assert.ok(Math.abs(b.item() - 1) < 1e-3, `b is ${b.item()}`);
}

test("10,000 steps without a dispose or an await keep memory flat and run few programs", async () => {
  const loop = regression();
  for (let epoch = 0; epoch < 200; epoch++) loop.step();
  gc();
  const before = stats();
  const rss = process.memoryUsage().rss;
  let most = 0;
  for (let epoch = 0; epoch < 10_000; epoch++) {
    loop.step();
    if (epoch % 500 === 499) most = Math.max(most, stats().handles);
  }
  const grown = process.memoryUsage().rss - rss;
  gc();
  const after = stats();
  assertSolved(loop);
  assert.ok(most < 100_000, `${most} handles at a time`);
  assert.ok(after.handles <= before.handles + 64, `${before.handles} handles before, ${after.handles} after`);
  assert.ok(after.live_bytes <= before.live_bytes + 16384, `${before.live_bytes} bytes before, ${after.live_bytes} after`);
  assert.ok(grown < 150e6, `resident memory grew by ${grown} bytes`);
  assert.equal(after.compiles, before.compiles, "a later step made another program");
  assert.ok(after.executables <= FEW_PROGRAMS, `${after.executables} programs`);
});

test("10,000 jitted steps without a dispose keep memory flat", () => {
  const x = Tensor.fromData([1, 2, 3, 4, 5], [5, 1]);
  const y = Tensor.fromData([3, 5, 7, 9, 11], [5, 1]);
  lanthorn.manualSeed(1);
  const w = Tensor.randn([1, 1], true);
  const b = Tensor.zeros([1], true);
  const step = lanthorn.jit((input, target) => {
    const loss = input.matmul(w).add(b).sub(target).square().mean();
    loss.backward();
    noGrad(() => [w, b].forEach((parameter) => parameter.sub_(parameter.grad.mul(0.01))));
    w.grad = null;
    b.grad = null;
    return loss;
  });
  for (let epoch = 0; epoch < 200; epoch++) step(x, y);
  gc();
  const before = stats();
  const rss = process.memoryUsage().rss;
  for (let epoch = 0; epoch < 10_000; epoch++) step(x, y);
  const grown = process.memoryUsage().rss - rss;
  gc();
  const after = stats();
  assertSolved({ w, b });
  assert.equal(after.compiles, before.compiles);
  assert.equal(after.programs, before.programs);
  assert.ok(after.handles <= before.handles + 64, `${before.handles} handles before, ${after.handles} after`);
  assert.ok(after.live_bytes <= before.live_bytes + 65536, `${after.live_bytes - before.live_bytes} bytes more`);
  assert.ok(grown < 64 << 20, `resident memory grew by ${grown} bytes`);
});

test("10,000 steps with an await keep memory flat", async () => {
  const loop = regression();
  const run = async (steps) => {
    for (let epoch = 0; epoch < steps; epoch++) {
      const [loss, done] = await loop.step();
      await done;
      if (epoch % 100 === 0) await loss.item();
      if (epoch % 10 === 0) await turn();
    }
  };
  await run(300);
  gc();
  const before = stats();
  const rss = process.memoryUsage().rss;
  await run(10_000);
  const grown = process.memoryUsage().rss - rss;
  gc();
  const after = stats();
  assertSolved(loop);
  assert.ok(after.handles <= before.handles + 64, `${before.handles} handles before, ${after.handles} after`);
  assert.ok(after.live_bytes <= before.live_bytes + 16384, `${before.live_bytes} bytes before, ${after.live_bytes} after`);
  assert.ok(grown < 150e6, `resident memory grew by ${grown} bytes`);
  assert.equal(after.compiles, before.compiles);
});

test("parameters of megabytes do not pile up in a loop without an await", () => {
  const w = Tensor.zeros([1 << 20], true);
  const step = () => {
    w.sub(1).square().mean().backward();
    noGrad(() => w.sub_(w.grad.mul(1000)));
    w.grad = null;
  };
  for (let at = 0; at < 20; at++) step();
  let most = 0;
  for (let at = 0; at < 200; at++) {
    step();
    lanthorn.commit([w]);
    most = Math.max(most, process.memoryUsage().rss);
  }
  // 200 steps write 800 MB of parameters and as much of gradients.
  assert.ok(most < 900e6, `${most} bytes`);
  assert.ok(stats().live_bytes < 400e6, `${stats().live_bytes} bytes live`);
});

test("the example learns exclusive or with the losses of every face", async () => {
  const expected = readFileSync(new URL("../../../examples/xor/losses.txt", import.meta.url), "utf8").trim().split("\n");
  const lines = [];
  await xor(lanthorn, (line) => lines.push(line));
  assert.equal(lines.length, expected.length);
  lines.forEach((line, at) => {
    const [step, loss] = line.split(" ").map(Number);
    const [expectedStep, expectedLoss] = expected[at].split(" ").map(Number);
    assert.equal(step, expectedStep);
    assert.ok(Math.abs(loss - expectedLoss) <= 1e-6, `step ${step}: ${loss}, expected ${expectedLoss}`);
  });
});
