// What several tests need.
import * as BackendCpu from "@lanthorn/backend-cpu";
import { Runtime, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";
import assert from "node:assert/strict";
import { test } from "node:test";

/** A test that is an effect. */
export const effectTest = (name, program, options = {}) =>
  test(name, options, () => run(typeof program === "function" ? Effect.gen(program) : program));

/** Runs an effect on the processor. */
export const run = (effect) => Effect.runPromise(Effect.provide(effect, BackendCpu.layer));

/** The elements of a tensor as a list; of `i64` as bigints. */
export const values = (tensor) => Effect.map(Tensor.toTypedArray(tensor), (elements) => Array.from(elements));

/** A tensor of `f64`. */
export const f64 = (data, shape) => Tensor.fromTypedArray(Float64Array.from(data), shape);
/** A tensor of `f32`. */
export const f32 = (data, shape) => Tensor.fromTypedArray(Float32Array.from(data), shape);
/** A tensor of `i64`. */
export const i64 = (data, shape) => Tensor.fromTypedArray(BigInt64Array.from(data, BigInt), shape);

/** Holds elements against expected ones: |a - b| <= tolerance * (1 + |b|). */
export function assertClose(found, expected, tolerance = 1e-9, what = "") {
  assert.equal(found.length, expected.length, `${what}: number of elements`);
  for (let at = 0; at < expected.length; at++) {
    const [a, b] = [Number(found[at]), Number(expected[at])];
    const isSame = Object.is(a, b) || a === b || (Number.isNaN(a) && Number.isNaN(b));
    const isClose = isSame || (Number.isFinite(b) && Math.abs(a - b) <= tolerance * (1 + Math.abs(b)));
    assert.ok(isClose, `${what}: element ${at} is ${a}, expected ${b}`);
  }
}

/** Holds the elements of a tensor against expected ones. */
export const assertValues = (tensor, expected, tolerance, what) =>
  Effect.map(values(tensor), (found) => assertClose(found, expected, tolerance, what));

/** The service. */
export const runtime = Effect.gen(function* () {
  return yield* Runtime.Runtime;
});

/** A turn of the event loop. */
export const turn = () => new Promise((resolve) => setImmediate(resolve));
