// Every op of the table through its method, against values from outside: in the case's own types as NumPy, SciPy, mpmath or
// torch gave them, and in the other float types against f64 at the same, rounded, operands.
import assert from "node:assert/strict";
import { test } from "node:test";

import { attributesOf, call, cases, difference, elementsOf, operandsOf, read, TABLE, tolerances } from "./fixtures.mjs";

const TOLERANCE = tolerances();
const CASES = cases();

/** Ops of which no case gives a value here, each with the reason. */
const UNMET = {};

/** Calls that JavaScript cannot make, by the error that says so and what they have in common. */
const REFUSED = {
  message: /the scalar -?\d+ is beyond 2\^53 - 1; pass it as a tensor of i64/,
  // Bounds of all i64 numbers, which no number of JavaScript holds; the ops take them as scalars alone.
  ops: ["arange", "arange", "arange", "randint", "randint"],
};

/** Ops whose results in another float type are others than in f64, each with the reason. */
const UNLIKE = {
  categorical: "draws noise in the type of the logits",
  multinomial: "draws noise in the type of the weights",
  sample_logits: "draws noise in the type of the logits",
};

/** Ops of which a result in f32 may be further from that in f64, each with the reason. */
const WIDER = {
  // A device may round x to 16-bit integers: 1e-5 of the sum of the terms without their signs, which here nearly cancel.
  quantized_linear: 1e-3,
};

/** The largest finite number of each type; beyond it lies infinity. */
const LARGEST = { f32: 3.4028234663852886e38, f16: 65504, bf16: 3.3895313892515355e38 };

const met = new Set();

/** All that is wrong, so that one run says everything. */
function report(failures, count) {
  assert.ok(count > 0, "there was nothing to check");
  assert.ok(failures.length === 0, `${failures.length} of ${count} fail\n${failures.join("\n")}`);
}

test("the tolerances are those of the suite in Rust", () => {
  assert.deepEqual(Object.keys(TOLERANCE).sort(), ["bf16", "c128", "c64", "f16", "f32", "f64"]);
  for (const value of Object.values(TOLERANCE)) assert.ok(value > 0 && value < 0.1);
});

test("methods give the values from outside", (t) => {
  assert.ok(CASES.length > 2000, `${CASES.length} cases`);
  const failures = [];
  const refused = [];
  for (const row of CASES) {
    try {
      const found = call(row.op, operandsOf(row), attributesOf(row));
      if (found.length !== row.expected.length) throw new Error(`${found.length} results, expected ${row.expected.length}`);
      found.forEach((tensor, at) => {
        const { dtype, shape } = row.expected[at];
        assert.equal(tensor.dtype, dtype);
        assert.deepEqual(tensor.shape, shape);
        const within = Math.max(row.tolerance, TOLERANCE[dtype] ?? 0);
        const wrong = difference(read(tensor), elementsOf(row.expected[at]), within);
        if (wrong !== undefined) throw new Error(`result ${at}: ${wrong}`);
      });
      met.add(row.op);
    } catch (error) {
      if (REFUSED.message.test(error.message)) refused.push(row.op);
      else failures.push(`${row.what}: ${error.message.split("\n")[0]}`);
    }
  }
  t.diagnostic(`${CASES.length - refused.length - failures.length} calls of ${met.size} ops agree; ${refused.length} cannot be made`);
  report(failures, CASES.length);
  assert.deepEqual(refused.sort(), REFUSED.ops);
});

test("every op of the table has given such a value", () => {
  const unmet = [...TABLE.keys()].filter((op) => !met.has(op));
  assert.deepEqual(unmet.sort(), Object.keys(UNMET).sort());
});

for (const dtype of ["f32", "f16", "bf16"]) {
  test(`methods give in ${dtype} what f64 gives at the same operands`, (t) => {
    const chosen = CASES.filter(({ dtypes, op }) => dtypes.includes(dtype) && UNLIKE[op] === undefined);
    const failures = [];
    for (const row of chosen) {
      try {
        const attributes = attributesOf(row);
        const operands = operandsOf(row, dtype);
        const rounded = operands.map((x) => (/^b?f\d+$/.test(x?.dtype) ? x.cast("f64") : x));
        const found = call(row.op, operands, attributes);
        const expected = call(row.op, rounded, attributes);
        if (found.length !== expected.length) throw new Error(`${found.length} results, expected ${expected.length}`);
        found.forEach((tensor, at) => {
          assert.deepEqual(tensor.shape, expected[at].shape);
          const within = Math.max(TOLERANCE[tensor.dtype] ?? 0, TOLERANCE[dtype], WIDER[row.op] ?? 0);
          const wrong = difference(read(tensor), narrow(read(expected[at]), tensor.dtype), within);
          if (wrong !== undefined) throw new Error(`result ${at}: ${wrong}`);
        });
      } catch (error) {
        failures.push(`${row.what}: ${error.message.split("\n")[0]}`);
      }
    }
    t.diagnostic(`${chosen.length - failures.length} of ${chosen.length} calls agree`);
    report(failures, chosen.length);
  });
}

/** Elements of f64 as a smaller type can have them: what is too large is infinite. */
function narrow(elements, dtype) {
  const largest = LARGEST[dtype];
  if (largest === undefined) return elements;
  return elements.map((x) => (Math.abs(x) > largest ? Math.sign(x) * Infinity : x));
}
