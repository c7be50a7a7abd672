// Every op of the table through its method, against values from outside: in the case's own types as NumPy, SciPy, mpmath or
// torch gave them, and in the other float types against f64 at the same, rounded, operands.
import assert from "node:assert/strict";
import { test } from "node:test";

import { LanthornError } from "../dist/node.js";
import { attributesOf, call, cases, difference, elementsOf, read, TABLE, tensorOf, tolerances } from "./fixtures.mjs";

const TOLERANCE = tolerances();
const CASES = cases();

/** Ops of which no case gives a value here, each with the reason. */
const UNMET = {};

/** Cases that another float type cannot confirm against f64, each with the reason, by op and type. */
const UNSTEADY = {};

const met = new Set();

/** All that is wrong, so that one run says everything. */
function report(failures, count) {
  assert.ok(count > 0, "there was nothing to check");
  assert.ok(failures.length === 0, `${failures.length} of ${count} fail\n${failures.join("\n")}`);
}

/** The shape of the result depends on values, which a graph does not know: such an op says how to fix it. */
const isOfValues = (error) => error instanceof LanthornError && error.kind === "unsupported" && /give `size`/.test(error.message);

test("the tolerances are those of the suite in Rust", () => {
  assert.deepEqual(Object.keys(TOLERANCE).sort(), ["bf16", "c128", "c64", "f16", "f32", "f64"]);
  for (const value of Object.values(TOLERANCE)) assert.ok(value > 0 && value < 0.1);
});

test("methods give the values from outside", (t) => {
  assert.ok(CASES.length > 2000, `${CASES.length} cases`);
  const failures = [];
  let refused = 0;
  for (const row of CASES) {
    try {
      const found = call(row.op, row.tensors.map((x) => tensorOf(x)), attributesOf(row));
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
      if (isOfValues(error)) refused++;
      else failures.push(`${row.what}: ${error.message.split("\n")[0]}`);
    }
  }
  t.diagnostic(`${CASES.length - refused} calls agree; ${refused} are refused, for their shapes depend on values`);
  report(failures, CASES.length);
});

test("every op of the table has given such a value", () => {
  const unmet = [...TABLE.keys()].filter((op) => !met.has(op));
  assert.deepEqual(unmet.sort(), Object.keys(UNMET).sort());
});

for (const dtype of ["f32", "f16", "bf16"]) {
  test(`methods give in ${dtype} what f64 gives at the same operands`, (t) => {
    const chosen = CASES.filter(({ dtypes, op }) => dtypes.includes(dtype) && !UNSTEADY[op]?.[0].includes(dtype));
    const failures = [];
    let agreed = 0;
    for (const row of chosen) {
      try {
        const attributes = attributesOf(row);
        const operands = row.tensors.map((x) => tensorOf(x, dtype));
        const rounded = operands.map((x) => (x?.dtype === dtype ? x.cast("f64") : x));
        const found = outcome(() => call(row.op, operands, attributes));
        const expected = outcome(() => call(row.op, rounded, attributes));
        if (found.error !== undefined || expected.error !== undefined) {
          // What the op does not take in one type it does not take in the other, or it says which it takes.
          if (found.error === undefined) throw new Error(`f64 fails: ${expected.error.message}`);
          if (expected.error === undefined && found.error.kind !== "dtype") throw found.error;
          continue;
        }
        found.values.forEach((values, at) => {
          const within = Math.max(TOLERANCE[found.dtypes[at]] ?? TOLERANCE[dtype], TOLERANCE[dtype]);
          const wrong = difference(values, expected.values[at], within);
          if (wrong !== undefined) throw new Error(`result ${at}: ${wrong}`);
        });
        agreed++;
      } catch (error) {
        failures.push(`${row.what}: ${error.message.split("\n")[0]}`);
      }
    }
    t.diagnostic(`${agreed} of ${chosen.length} calls agree`);
    report(failures, chosen.length);
  });
}

/** What a call gives: elements and types, or an error of the engine. */
function outcome(run) {
  try {
    const results = run();
    return { values: results.map(read), dtypes: results.map((x) => x.dtype) };
  } catch (error) {
    if (error instanceof LanthornError) return { error };
    throw error;
  }
}
