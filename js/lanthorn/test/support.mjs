// What several tests need.
import assert from "node:assert/strict";

/** Holds elements against expected ones: |a - b| <= tolerance * (1 + |b|). */
export function assertClose(found, expected, tolerance = 1e-6, what = "") {
  assert.equal(found.length, expected.length, `${what}: number of elements`);
  for (let at = 0; at < expected.length; at++) {
    const [a, b] = [Number(found[at]), Number(expected[at])];
    const isSame = Object.is(a, b) || a === b || (Number.isNaN(a) && Number.isNaN(b));
    const isClose = isSame || (Number.isFinite(b) && Math.abs(a - b) <= tolerance * (1 + Math.abs(b)));
    assert.ok(isClose, `${what}: element ${at} is ${a}, expected ${b}`);
  }
}

/** A turn of the event loop. */
export const turn = () => new Promise((resolve) => setImmediate(resolve));
