/** What optimisers and schedules check of what they are given. Not public. */

import { describe } from "../dtype.js";
import { errorOf } from "../errors.js";
import { getParameters, Module } from "../nn/module.js";
import { Tensor } from "../tensor.js";

/** What an optimiser is given as a list: the parameters of a module, or what a list holds. */
export function listedOf(op: string, given: unknown): unknown[] {
  if (given instanceof Module) return getParameters(given);
  const isList = typeof given === "object" && given !== null && Symbol.iterator in given && !(given instanceof Tensor);
  if (isList) return [...(given as Iterable<unknown>)];
  throw errorOf("foreign_handle", op, `got ${describe(given)}, expected a module or a list of Tensors`);
}

/** The tensors of a module or a list. */
export function tensorsOf(op: string, given: unknown): Tensor<any>[] {
  return listedOf(op, given).map((tensor, place) => {
    if (tensor instanceof Tensor) return tensor;
    throw errorOf("foreign_handle", op, `parameter ${place} is ${describe(tensor)}, expected a Tensor`);
  });
}

/** Throws for settings that are no numbers from 0 on. What is undefined is left out. */
export function expectNumbers(op: string, settings: { readonly [name: string]: unknown }): void {
  for (const [name, value] of Object.entries(settings)) {
    if (value === undefined || (typeof value === "number" && value >= 0 && value < Infinity)) continue;
    throw errorOf("shape", op, `${name} is ${describe(value)}, expected a finite number of at least 0`);
  }
}

/** The most Newton-Schulz iterations of a step, as in torch: each is three matrix products. */
const MOST_NS_STEPS = 99;

/** Throws for settings of any rule that no step could follow. What is undefined is left out. */
export function expectSettings(op: string, settings: object): void {
  const { lr, weightDecay, momentum, dampening, eps, trust, betas, nesterov, nsSteps } = settings as { [name: string]: unknown };
  expectNumbers(op, { lr, weightDecay, momentum, dampening, eps, trust });
  if (nesterov !== undefined && typeof nesterov !== "boolean") {
    throw errorOf("shape", op, `nesterov is ${describe(nesterov)}, expected true or false`);
  }
  if (nsSteps !== undefined && !(Number.isSafeInteger(nsSteps) && (nsSteps as number) >= 0 && (nsSteps as number) <= MOST_NS_STEPS)) {
    throw errorOf("shape", op, `nsSteps is ${describe(nsSteps)}, expected a whole number from 0 to ${MOST_NS_STEPS}`);
  }
  if (betas === undefined) return;
  if (!Array.isArray(betas) || betas.length !== 2) {
    const found = Array.isArray(betas) ? `a list of ${betas.length}` : describe(betas);
    throw errorOf("shape", op, `betas is ${found}, expected a list of 2 numbers`);
  }
  for (const beta of betas as unknown[]) {
    if (typeof beta === "number" && beta >= 0 && beta < 1) continue;
    throw errorOf("shape", op, `a beta is ${describe(beta)}, expected 0 to below 1`);
  }
}
