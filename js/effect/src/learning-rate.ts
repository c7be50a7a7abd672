/**
 * Learning rates as functions of the step alone.
 *
 * A schedule is a plain function, so that whoever trains may write one in a line. The trainer turns what it gives into a
 * scalar of the compiled step, which therefore serves all steps.
 *
 * Steps count from 0.
 */

/** The learning rate at a step, counted from 0. */
export type LearningRate = (step: number) => number;

/**
 * The same rate at every step. Throws where `lr` is not above 0.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import { LearningRate } from "@lanthorn/effect"
 *
 * const rate = LearningRate.constant(0.1)
 * assert.ok(rate(7) === 0.1)
 * ```
 */
export const constant = (lr: number): LearningRate => {
  aboveZero("constant", "lr", lr);
  return () => lr;
};

/**
 * `initial decayRate^(step / decaySteps)`: the rate is multiplied by `decayRate` over every `decaySteps` steps, smoothly.
 * Throws where a number is not above 0.
 */
export const exponential = (
  initial: number,
  options: { readonly decayRate: number; readonly decaySteps: number },
): LearningRate => {
  const { decayRate, decaySteps } = options;
  aboveZero("exponential", "initial", initial);
  aboveZero("exponential", "decayRate", decayRate);
  aboveZero("exponential", "decaySteps", decaySteps);
  return (step) => initial * decayRate ** (step / decaySteps);
};

/** `initial`, times `dropFactor` after every `dropEvery` steps. Throws where a number is not above 0. */
export const stepwise = (
  initial: number,
  options: { readonly dropFactor: number; readonly dropEvery: number },
): LearningRate => {
  const { dropFactor, dropEvery } = options;
  aboveZero("stepwise", "initial", initial);
  aboveZero("stepwise", "dropFactor", dropFactor);
  aboveZero("stepwise", "dropEvery", dropEvery);
  return (step) => initial * dropFactor ** Math.floor(step / dropEvery);
};

/**
 * Half a cosine from `initial` at step 0 down to `minLr`, 0 if left out, at step `totalSteps` (Loshchilov and Hutter 2017,
 * without restarts); `minLr` from then on. Throws where `minLr` is negative or another number not above 0.
 */
export const cosine = (
  initial: number,
  options: { readonly totalSteps: number; readonly minLr?: number },
): LearningRate => {
  const { totalSteps, minLr = 0 } = options;
  aboveZero("cosine", "initial", initial);
  aboveZero("cosine", "totalSteps", totalSteps);
  if (!(minLr >= 0 && minLr < Infinity)) throw new RangeError(`LearningRate.cosine: minLr is ${minLr}, expected at least 0`);
  return (step) => {
    const done = Math.min(Math.max(step / totalSteps, 0), 1);
    return minLr + ((initial - minLr) * (1 + Math.cos(Math.PI * done))) / 2;
  };
};

/**
 * `base`, scaled over the first `warmupSteps` steps in a line: by `1 / warmupSteps` at step 0 and by 1 from step
 * `warmupSteps - 1` on. The steps of `base` are not shifted. Throws where `warmupSteps` is not an integer above 0.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import { LearningRate } from "@lanthorn/effect"
 *
 * const rate = LearningRate.withWarmup(LearningRate.cosine(1e-3, { totalSteps: 1000 }), 100)
 * assert.ok(rate(0) < rate(50) && rate(50) < rate(99) && rate(99) > rate(999))
 * ```
 */
export const withWarmup = (base: LearningRate, warmupSteps: number): LearningRate => {
  aboveZero("withWarmup", "warmupSteps", warmupSteps);
  if (!Number.isInteger(warmupSteps)) {
    throw new RangeError(`LearningRate.withWarmup: warmupSteps is ${warmupSteps}, expected an integer`);
  }
  return (step) => (step < warmupSteps ? (base(step) * (step + 1)) / warmupSteps : base(step));
};

/** Throws unless a number is finite and above 0. */
function aboveZero(schedule: string, name: string, value: number): void {
  if (value > 0 && value < Infinity) return;
  throw new RangeError(`LearningRate.${schedule}: ${name} is ${value}, expected a number above 0`);
}
