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
