// The face in a browser: right numbers in both modes, errors, memory, and a main thread that keeps its turn.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { launch, withPage } from "./browser.mjs";
import { run } from "./run.mjs";

const MODES = [
  { name: "isolated, 2 threads", isolated: true, threads: 2 },
  { name: "not isolated, 1 thread", isolated: false, threads: 1 },
];

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Each line is a step and a loss. */
const losses = (lines) => lines.map((line) => line.split(" ").map(Number));
const XOR = losses(readFileSync(new URL("../../../examples/xor/losses.txt", import.meta.url), "utf8").trim().split("\n"));

function assertLosses(lines, tolerance) {
  const found = losses(lines);
  assert.deepEqual(found.map(([step]) => step), XOR.map(([step]) => step));
  found.forEach(([step, loss], at) => {
    assert.ok(Math.abs(loss - XOR[at][1]) <= tolerance, `step ${step}: ${loss}, expected ${XOR[at][1]}`);
  });
}

for (const { name, isolated, threads } of MODES) {
  const inPage = (...rest) => withPage(browser, { isolated }, (page) => run(page, ...rest));

  test(`${name}: the engine runs with as many threads as the page allows`, async () => {
    await withPage(browser, { isolated }, async (page) => {
      const found = await page.evaluate(async () => {
        const engine = await (await import("lanthorn")).init({ threads: 2 });
        return [globalThis.crossOriginIsolated, engine.threads];
      });
      assert.deepEqual(found, [isolated, threads]);
      // The engine's thread and the rest of its pool.
      assert.equal(page.workers().length, threads);
      assert.deepEqual(page.said, []);
    });
  });

  test(`${name}: a linear regression finds its line`, async () => {
    const { w, b, losses } = await inPage("regression", { threads });
    assert.ok(Math.abs(w - 2) < 1e-2 && Math.abs(b - 1) < 2e-2, `${w} x + ${b}`);
    losses.slice(1).forEach((loss, at) => assert.ok(loss < losses[at], `${losses}`));
  });

  test(`${name}: exclusive or has the losses of every other face`, async () => {
    assertLosses(await inPage("xorLines", { threads }), 1e-6);
  });

  test(`${name}: errors come at once from shapes, with the read from numbers, and harm nothing else`, async () => {
    const { told, after } = await inPage("errors", { threads });
    const [shape, index, dependant] = told;
    assert.deepEqual(shape.slice(0, 2), ["ShapeError", "shape"]);
    assert.match(shape[2], /^matmul: /);
    assert.match(index[2], /9/);
    assert.deepEqual(dependant, index);
    assert.deepEqual(after, [2, 3, 4, 5]);
  });

  test(`${name}: 2,000 steps leave the engine as 100 did`, async () => {
    const [early, late] = await inPage("steps", { threads }, 2000);
    assert.deepEqual(late, early);
    assert.ok(early.tensors < 16, `${early.tensors} tensors`);
  });

  test(`${name}: the main thread has its turn while the engine computes`, async (t) => {
    const found = await inPage("responsiveness", { threads });
    const [task, stop, gap, all] = [found.longestTask, found.longestStop, found.longestGap, found.elapsed].map(Math.round);
    t.diagnostic(`longest task ${task} ms, stop ${stop} ms, gap between frames ${gap} ms, in ${all} ms of computing`);
    assert.ok(found.turns > 10, `${found.turns} turns`);
  });
}

test("one thread and two give the same bits", async () => {
  await withPage(browser, { isolated: true }, async (page) => {
    const one = await run(page, "bits", { threads: 1 });
    const two = await run(page, "bits", { threads: 2 });
    assert.deepEqual(two, one);
    assert.equal(new Set(one).size, one.length);
  });
});

test("what was asked of a closed engine is refused, and a new one may be started", async () => {
  await withPage(browser, { isolated: false }, async (page) => {
    const found = await page.evaluate(async () => {
      const { init, Tensor } = await import("lanthorn");
      const engine = await init();
      const tensor = Tensor.fromData([1, 2], [2]);
      const pending = tensor.toArray().catch((error) => error.message);
      engine.close();
      const told = [await pending];
      try {
        tensor.add(1);
      } catch (error) {
        told.push(error.kind, error.message);
      }
      await init();
      return [...told, ...(await Tensor.fromData([3, 4], [2]).toArray())];
    });
    assert.deepEqual(found, ["engine: it has been closed", "closed", "engine: it has been closed", 3, 4]);
  });
});
