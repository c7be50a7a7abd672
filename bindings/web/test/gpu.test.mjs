// The browser's own WebGPU behind the engine's worker, against the CPU.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { launch, withPage } from "./browser.mjs";
import { run } from "./run.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

for (const [name, what] of [["fused", "a fused region and a reduction"], ["product", "a matrix product"]]) {
  test(`WebGPU computes ${what} as the CPU does`, async () => {
    await withPage(browser, { isolated: false }, async (page) => {
      const cpu = await run(page, name, { device: "cpu" });
      const gpu = await run(page, name, { device: "gpu" });
      assert.equal(gpu.length, cpu.length);
      gpu.forEach((found, at) => {
        const close = Math.abs(found - cpu[at]) <= 1e-5 * (1 + Math.abs(cpu[at]));
        assert.ok(close, `element ${at}: ${found}, on the CPU ${cpu[at]}`);
      });
    });
  });
}

test("exclusive or learns by WebGPU as everywhere", async () => {
  const expected = readFileSync(new URL("../../../examples/xor/losses.txt", import.meta.url), "utf8").trim().split("\n");
  await withPage(browser, { isolated: false }, async (page) => {
    const found = await run(page, "xorLines", { device: "gpu" });
    assert.equal(found.length, expected.length);
    found.forEach((line, at) => {
      const [[step, loss], [, other]] = [line, expected[at]].map((text) => text.split(" ").map(Number));
      assert.ok(Math.abs(loss - other) <= 1e-4, `step ${step}: ${loss}, expected ${other}`);
    });
  });
});

test("a browser without a GPU says so", async () => {
  const other = await launch({ webgpu: false });
  try {
    await withPage(other, { isolated: false }, async (page) => {
      const said = await page.evaluate(async () => {
        const { init } = await import("lanthorn");
        return init({ device: "gpu" }).then(() => "it started", (error) => error.message);
      });
      assert.match(said, /no WebGPU device/);
    });
  } finally {
    await other.close();
  }
});
