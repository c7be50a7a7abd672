/**
 * Whether this thread trains: a switch for all of it beside the `training` of each module, for code that sets one flag
 * around its loop.
 */

import { expectBoolean } from "./create.js";
import { errorOf } from "./errors.js";

let trains = true;

/** Whether training is on; at first it is. */
export function isTraining(): boolean {
  return trains;
}

/** Turns training on or off in this thread. */
export function setTraining(on: boolean): void {
  expectBoolean("training", "Tensor.training", on);
  trains = on;
}

/** Throws where training is off, for what only makes sense in it. */
export function expectTraining(op: string): void {
  if (trains) return;
  throw errorOf("unsupported", op, "TRAINING must be enabled: Tensor.training is false, set it to true around the step");
}
