// Learning rates against their formulas.
import assert from "node:assert/strict";
import { test } from "node:test";

import { LearningRate } from "@lanthorn/effect";

const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a}, expected ${b}`);

test("a constant rate is the same at every step", () => {
  assert.equal(LearningRate.constant(0.1)(0), 0.1);
  assert.equal(LearningRate.constant(0.1)(1_000_000), 0.1);
});

test("an exponential rate is a power of the steps", () => {
  const rate = LearningRate.exponential(1, { decayRate: 0.5, decaySteps: 10 });
  assert.equal(rate(0), 1);
  close(rate(5), Math.SQRT1_2);
  close(rate(10), 0.5);
  close(rate(20), 0.25);
});

test("a rate by steps falls after each of them", () => {
  const rate = LearningRate.stepwise(1, { dropFactor: 0.1, dropEvery: 5 });
  assert.deepEqual([0, 4].map(rate), [1, 1]);
  close(rate(5), 0.1);
  close(rate(9), 0.1);
  close(rate(10), 0.01);
});

test("a cosine goes from the first rate to the last, and stays there", () => {
  const rate = LearningRate.cosine(1, { totalSteps: 100 });
  close(rate(0), 1);
  close(rate(25), (1 + Math.SQRT1_2) / 2);
  close(rate(50), 0.5);
  close(rate(100), 0);
  close(rate(200), 0);
  const floored = LearningRate.cosine(1, { totalSteps: 100, minLr: 0.2 });
  close(floored(50), 0.6);
  close(floored(1000), 0.2);
});

test("a warm-up scales what it begins", () => {
  const rate = LearningRate.withWarmup(LearningRate.constant(0.5), 10);
  close(rate(0), 0.05);
  close(rate(9), 0.5);
  assert.equal(rate(10), 0.5);
  const cosine = LearningRate.cosine(1, { totalSteps: 20 });
  const both = LearningRate.withWarmup(cosine, 4);
  close(both(1), cosine(1) / 2);
  assert.equal(both(4), cosine(4));
});

test("numbers that make no rate are named", () => {
  const cases = [
    [() => LearningRate.constant(0), /constant: lr is 0, expected a number above 0/],
    [() => LearningRate.constant(Number.NaN), /lr is NaN/],
    [() => LearningRate.exponential(1, { decayRate: 0, decaySteps: 1 }), /decayRate is 0/],
    [() => LearningRate.exponential(1, { decayRate: 1, decaySteps: 0 }), /decaySteps is 0/],
    [() => LearningRate.stepwise(1, { dropFactor: -1, dropEvery: 1 }), /dropFactor is -1/],
    [() => LearningRate.stepwise(1, { dropFactor: 1, dropEvery: 0 }), /dropEvery is 0/],
    [() => LearningRate.cosine(0, { totalSteps: 10 }), /initial is 0/],
    [() => LearningRate.cosine(1, { totalSteps: 0 }), /totalSteps is 0/],
    [() => LearningRate.cosine(1, { totalSteps: 10, minLr: -1 }), /minLr is -1/],
    [() => LearningRate.withWarmup(LearningRate.constant(1), 0), /warmupSteps is 0/],
    [() => LearningRate.withWarmup(LearningRate.constant(1), 1.5), /warmupSteps is 1.5, expected an integer/],
  ];
  for (const [make, message] of cases) assert.throws(make, message);
});
