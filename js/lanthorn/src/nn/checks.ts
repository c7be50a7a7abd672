/** What layers check of the settings they are made with, and the first values of their parameters. Not public. */

import { describe, type DTypeName } from "../dtype.js";
import { errorOf } from "../errors.js";
import { Tensor, type Reading } from "../tensor.js";
import { parameter } from "./module.js";

/** The slope of Kaiming's rule at which weights are uniform within `1 / sqrt(fan in)`: torch's default. */
const SLOPE = Math.sqrt(5);

/** A weight `[outputs, inputs, window..]`, uniform within `1 / sqrt(fan in)`. */
export function weightOf<R extends Reading>(shape: readonly number[], dtype: DTypeName | undefined): Tensor<R> {
  return parameter(Tensor.kaimingUniform<R>(shape, { a: SLOPE, dtype }));
}

/** Values uniform within `1 / sqrt(fanIn)`. */
export function uniformWithin<R extends Reading>(
  shape: readonly number[],
  fanIn: number,
  dtype: DTypeName | undefined,
): Tensor<R> {
  const bound = 1 / Math.sqrt(Math.max(fanIn, 1));
  return parameter(Tensor.rand<R>(shape, { low: -bound, high: bound, dtype }));
}

/** Throws for sizes of a layer that are no whole numbers of at least 0. */
export function expectSizes(op: string, sizes: { readonly [name: string]: unknown }): void {
  for (const [name, size] of Object.entries(sizes)) {
    if (Number.isSafeInteger(size) && (size as number) >= 0) continue;
    throw errorOf("shape", op, `${name} is ${describe(size)}, expected a whole number of at least 0`);
  }
}

/** A number of at least 0, or what holds if it is left out. */
export function positiveOf(op: string, name: string, value: unknown, standard: number): number {
  if (value === undefined) return standard;
  if (typeof value === "number" && value >= 0 && value < Infinity) return value;
  throw errorOf("dtype", op, `${name} is ${describe(value)}, expected a finite number of at least 0`);
}

/** A probability below 1. */
export function probabilityOf(op: string, p: unknown): number {
  if (typeof p === "number" && p >= 0 && p < 1) return p;
  throw errorOf("shape", op, `the probability is ${describe(p)}, expected 0 to below 1`);
}

/** Throws for what is no tensor. */
export function expectTensor(op: string, name: string, value: unknown): void {
  if (value instanceof Tensor) return;
  throw errorOf("foreign_handle", op, `${name} is ${describe(value)}, expected a Tensor`);
}
