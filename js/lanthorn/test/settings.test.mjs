// What can be set of the engine.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";

import { memoryLimit, OutOfMemoryError, setMemoryLimit, stats, Tensor } from "../dist/node.js";

test("a memory limit is an error and can be lifted", () => {
  assert.equal(memoryLimit(), undefined);
  const { live_bytes, pooled_bytes } = stats();
  const limit = live_bytes + pooled_bytes + (1 << 20);
  setMemoryLimit(limit);
  assert.equal(memoryLimit(), limit);
  const large = Tensor.ones([1 << 20]);
  assert.throws(() => large.add(large).toArray(), (error) => {
    assert.ok(error instanceof OutOfMemoryError);
    return /exceed the limit of/.test(error.message);
  });
  assert.deepEqual([...Tensor.ones([2]).toArray()], [1, 1]);
  setMemoryLimit(undefined);
  assert.equal(memoryLimit(), undefined);
  assert.equal(large.add(large).toArray()[7], 2);
});

test("what is no limit is refused", () => {
  for (const wrong of [0, -1, 1.5, NaN, Infinity]) assert.throws(() => setMemoryLimit(wrong), RangeError);
  assert.equal(memoryLimit(), undefined);
});

test("the environment sets the limit", () => {
  const module = new URL("../dist/node.js", import.meta.url).href;
  const program = `import(${JSON.stringify(module)}).then((lanthorn) => console.log(lanthorn.memoryLimit()))`;
  const env = { ...process.env, LANTHORN_MEMORY_LIMIT: "3MiB" };
  assert.equal(execFileSync(process.execPath, ["-e", program], { env, encoding: "utf8" }).trim(), String(3 << 20));
});
