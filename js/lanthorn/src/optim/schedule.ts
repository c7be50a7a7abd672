/**
 * Learning rates by step. What a schedule gives at a step is computed by the engine, the same as for its other faces; a
 * schedule here is its description.
 */

import { errorOf } from "../errors.js";
import { session } from "../session.js";
import type { Optimizer } from "./optimizer.js";

/** A learning rate as a function of the step alone, as the engine reads it. */
export type Schedule =
  | { readonly constant: { readonly lr: number } }
  /** From `lr` to `end` over `steps` steps in a line. */
  | { readonly linear: { readonly lr: number; readonly end: number; readonly steps: number } }
  /** `lr rate^(step / every)`. */
  | { readonly exponential: { readonly lr: number; readonly rate: number; readonly every: number } }
  /** `lr`, times `factor` after every `every` steps. */
  | { readonly stepwise: { readonly lr: number; readonly factor: number; readonly every: number } }
  /** Up to the first rate of `then` over `steps` steps, then `then`. */
  | { readonly warmup: { readonly steps: number; readonly then: Schedule } }
  /** Up to `peak` over `warmup` steps, then half a cosine down to `floor` at step `total`. */
  | { readonly cosine: { readonly peak: number; readonly floor: number; readonly warmup: number; readonly total: number } };

/** The learning rate of a schedule at a step, counted from 0. Node only. */
export function learningRate(schedule: Schedule, step: number): number {
  const owner = session();
  const { raw } = owner;
  if (raw.schedule === undefined) {
    throw errorOf("unsupported", "learningRate", "this face has no schedules; set the optimiser's lr before each step");
  }
  return owner.check(raw.schedule(JSON.stringify(schedule), step));
}

/** Sets the learning rates of an optimiser's groups: `step()` once after each step of the optimiser. */
export class LRScheduler {
  /** How often `step` was called. */
  steps = 0;
  private readonly schedules: readonly Schedule[];

  /** `schedule` gives that of a group by the learning rate that the group has now. */
  constructor(
    private readonly optimizer: Optimizer<any, any>,
    schedule: Schedule | ((lr: number) => Schedule),
  ) {
    this.schedules = optimizer.groups.map(({ lr }) => (typeof schedule === "function" ? schedule(lr) : schedule));
    this.set();
  }

  /** Goes on to the rates of the next step. */
  step(): void {
    this.steps += 1;
    this.set();
  }

  /** The learning rates of the groups. */
  get lastLr(): number[] {
    return this.optimizer.groups.map(({ lr }) => lr as number);
  }

  private set(): void {
    this.optimizer.groups.forEach((group, at) => {
      group.lr = learningRate(this.schedules[at] as Schedule, this.steps);
    });
  }

  stateDict(): { steps: number } {
    return { steps: this.steps };
  }

  loadStateDict({ steps }: { steps: number }): void {
    this.steps = steps;
    this.set();
  }
}

/** The rate times `gamma` after every `stepSize` steps. */
export class StepLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any>, stepSize: number, gamma = 0.1) {
    super(optimizer, (lr) => ({ stepwise: { lr, factor: gamma, every: stepSize } }));
  }
}

/** The rate times `gamma` at every step. */
export class ExponentialLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any>, gamma: number) {
    super(optimizer, (lr) => ({ exponential: { lr, rate: gamma, every: 1 } }));
  }
}

/** From `startFactor` of the rate to `endFactor` of it over `totalSteps` steps in a line. */
export class LinearLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any>, startFactor = 1 / 3, endFactor = 1, totalSteps = 5) {
    super(optimizer, (lr) => ({ linear: { lr: lr * startFactor, end: lr * endFactor, steps: totalSteps } }));
  }
}

/** Half a cosine from the rate down to `etaMin` over `totalSteps` steps, after a rise over `warmup` of them. */
export class CosineAnnealingLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any>, totalSteps: number, etaMin = 0, warmup = 0) {
    super(optimizer, (lr) => ({ cosine: { peak: lr, floor: etaMin, warmup, total: totalSteps } }));
  }
}
