// Tensors beyond 2 GB, which 32 bits do not count.
import assert from "node:assert/strict";
import { freemem } from "node:os";
import { test } from "node:test";

import { commit, stats, Tensor } from "../dist/node.js";

const GIB = 2 ** 30;

test("a tensor of more than 2 GB is computed, read and let go", { skip: freemem() < 8 * GIB && "too little memory" }, () => {
  const size = 2 * GIB + 5;
  const before = stats().live_bytes;
  const x = Tensor.full([size], 7, { dtype: "u8" });
  commit([x]);
  assert.ok(stats().live_bytes - before >= size);
  assert.deepEqual([x.size, x.shape], [size, [size]]);
  const end = x.slice(0, size - 3, size);
  assert.deepEqual(Array.from(end.toArray()), [7, 7, 7]);
  x.slice(0, size - 1, size).copy_(9);
  assert.deepEqual(Array.from(x.slice(0, size - 3, size).toArray()), [7, 7, 9]);
  x.dispose();
  end.dispose();
  gc();
});

test("a tensor that no machine holds is an error, and others go on", () => {
  const x = Tensor.zeros([2 ** 46], { dtype: "u8" }).add(1);
  assert.throws(() => commit([x]), (error) => error.kind === "out_of_memory");
  x.dispose();
  assert.throws(() => Tensor.zeros([2 ** 40, 2 ** 40]), (error) => error.kind === "shape");
  assert.equal(Tensor.ones([3]).sum().item(), 3);
});
