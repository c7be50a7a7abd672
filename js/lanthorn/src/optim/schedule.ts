/**
 * Learning rates by step. What a schedule gives at a step is computed by the engine, the same as for its other faces; a
 * schedule here is its description.
 */

import { describe } from "../dtype.js";
import { errorOf, renamed } from "../errors.js";
import { session } from "../session.js";
import { OptimizerGroup } from "./group.js";
import { Optimizer } from "./optimizer.js";

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
  expectSchedule("learningRate", schedule);
  if (!(Number.isSafeInteger(step) && step >= 0)) {
    throw errorOf("shape", "learningRate", `the step is ${describe(step)}, expected a whole number of at least 0`);
  }
  const rate = raw.schedule(JSON.stringify(schedule), step);
  if (rate < 0) throw renamed(owner.failure(), "learningRate");
  return rate;
}

/** The numbers of each kind of schedule; those of `COUNTS` are whole. */
const KINDS: { readonly [kind: string]: readonly string[] } = {
  constant: ["lr"],
  linear: ["lr", "end", "steps"],
  exponential: ["lr", "rate", "every"],
  stepwise: ["lr", "factor", "every"],
  warmup: ["steps"],
  cosine: ["peak", "floor", "warmup", "total"],
};
const COUNTS = ["steps", "every", "warmup", "total"];

/** Throws for what is no schedule, with the number that is not as it should be. */
function expectSchedule(op: string, schedule: unknown): void {
  const entries = typeof schedule === "object" && schedule !== null ? Object.entries(schedule) : [];
  const [kind, settings] = entries[0] ?? [];
  const names = kind !== undefined && Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  if (kind === undefined || names === undefined || entries.length !== 1 || typeof settings !== "object" || settings === null) {
    const found = entries.length === 0 ? describe(schedule) : `an object of ${entries.map(([name]) => name).join(", ")}`;
    throw errorOf("shape", op, `the schedule is ${found}, expected an object of one of ${Object.keys(KINDS).join(", ")}`);
  }
  const numbers = settings as { readonly [name: string]: unknown };
  for (const name of names) expectNumber(op, `${name} of ${kind}`, numbers[name], COUNTS.includes(name));
  if (kind === "warmup") expectSchedule(op, numbers.then);
}

/** Throws for what is no number, or no whole number of at least 0 where one counts. */
function expectNumber(op: string, name: string, value: unknown, counts = false): void {
  const isRight = counts ? Number.isSafeInteger(value) && (value as number) >= 0 : Number.isFinite(value);
  if (isRight) return;
  throw errorOf("shape", op, `${name} is ${describe(value)}, expected a ${counts ? "whole number of at least 0" : "finite number"}`);
}

/** Sets the learning rates of an optimiser's groups: `step()` once after each step of the optimiser. */
export class LRScheduler {
  /** How often `step` was called. */
  steps = 0;
  private readonly schedules: readonly Schedule[];

  /** `schedule` gives that of a group by the learning rate that the group has now. */
  constructor(
    private readonly optimizer: Optimizer<any, any> | OptimizerGroup<any>,
    schedule: Schedule | ((lr: number) => Schedule),
  ) {
    const name = new.target.name;
    if (!([Optimizer, OptimizerGroup] as Function[]).some((known) => (optimizer as unknown) instanceof known)) {
      throw errorOf("unsupported", name, `got ${describe(optimizer)}, expected an optimiser`);
    }
    this.schedules = optimizer.groups.map(({ lr }) => (typeof schedule === "function" ? schedule(lr) : schedule));
    for (const schedule of this.schedules) expectSchedule(name, schedule);
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

  loadStateDict(state: { steps: number }): void {
    const { steps } = (state ?? {}) as { steps?: unknown };
    expectNumber(`${this.constructor.name}.loadStateDict`, "steps", steps, true);
    this.steps = steps as number;
    this.set();
  }
}

/** The rate times `gamma` after every `stepSize` steps. */
export class StepLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any> | OptimizerGroup<any>, stepSize: number, gamma = 0.1) {
    super(optimizer, (lr) => ({ stepwise: { lr, factor: gamma, every: stepSize } }));
  }
}

/** The rate times `gamma` at every step. */
export class ExponentialLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any> | OptimizerGroup<any>, gamma: number) {
    super(optimizer, (lr) => ({ exponential: { lr, rate: gamma, every: 1 } }));
  }
}

/** From `startFactor` of the rate to `endFactor` of it over `totalSteps` steps in a line. */
export class LinearLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any> | OptimizerGroup<any>, startFactor = 1 / 3, endFactor = 1, totalSteps = 5) {
    super(optimizer, (lr) => ({ linear: { lr: lr * startFactor, end: lr * endFactor, steps: totalSteps } }));
  }
}

/** Half a cosine from the rate down to `etaMin` over `totalSteps` steps, after a rise over `warmup` of them. */
export class CosineAnnealingLR extends LRScheduler {
  constructor(optimizer: Optimizer<any, any> | OptimizerGroup<any>, totalSteps: number, etaMin = 0, warmup = 0) {
    super(optimizer, (lr) => ({ cosine: { peak: lr, floor: etaMin, warmup, total: totalSteps } }));
  }
}
