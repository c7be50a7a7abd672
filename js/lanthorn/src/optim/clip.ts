/** Gradients held within bounds, between `backward` and a step. */

import { describe } from "../dtype.js";
import { errorOf } from "../errors.js";
import { noGrad } from "../functions.js";
import type { Module } from "../nn/module.js";
import { within } from "../session.js";
import { Tensor, type Reading } from "../tensor.js";
import { tensorsOf } from "./checks.js";

/** The gradients that are there, of a module's parameters or of tensors. */
function gradsOf<R extends Reading>(op: string, given: Module<R> | Iterable<Tensor<R>>): [parameter: Tensor<R>, grad: Tensor<R>][] {
  const found: [Tensor<R>, Tensor<R>][] = [];
  for (const parameter of tensorsOf(op, given)) {
    const { grad } = parameter;
    if (grad !== null) found.push([parameter, grad]);
  }
  return found;
}

/** Runs `f` without gradients, with the engine of the parameters in the place of the default one. */
function quietly<R extends Reading, T>([first]: readonly [Tensor<R>, Tensor<R>][], f: () => T): T {
  return first === undefined ? f() : within(first[0].session, () => noGrad(f));
}

function expectLimit(op: string, limit: number): void {
  if (typeof limit === "number" && limit > 0) return;
  throw errorOf("shape", op, `the limit is ${describe(limit)}, expected a number above 0`);
}

/** Scales all gradients so that their joint norm is at most `maxNorm`; gives the norm before that, of rank 0. */
export function clipGradNorm<R extends Reading = "sync">(parameters: Module<R> | Iterable<Tensor<R>>, maxNorm: number): Tensor<R> {
  expectLimit("clipGradNorm", maxNorm);
  const found = gradsOf("clipGradNorm", parameters);
  if (found.length === 0) throw errorOf("unsupported", "clipGradNorm", "no parameter has a gradient; call backward first");
  return quietly(found, () => {
    const grads = found.map(([, grad]) => grad);
    const norm = Tensor.globalNorm<R>(grads);
    norm.clipByNorm(grads, maxNorm).forEach((clipped, at) => {
      (found[at] as [Tensor<R>, Tensor<R>])[0].grad = clipped;
    });
    return norm;
  });
}

/** Holds each element of all gradients between `-limit` and `limit`. */
export function clipGradValue<R extends Reading = "sync">(parameters: Module<R> | Iterable<Tensor<R>>, limit: number): void {
  expectLimit("clipGradValue", limit);
  const found = gradsOf("clipGradValue", parameters);
  quietly(found, () => {
    for (const [parameter, grad] of found) parameter.grad = grad.clamp(-limit, limit);
  });
}

export { clipGradNorm as clip_grad_norm_, clipGradValue as clip_grad_value_ };
