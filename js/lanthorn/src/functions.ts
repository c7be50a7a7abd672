/** What is no method of a tensor. */

import type { Ids } from "./create.js";
import { elementsOf, type DType, type Elements } from "./dtype.js";
import { errorOf } from "./errors.js";
import { computeLater, throwIfAborted } from "./later.js";
import { session, within } from "./session.js";
import { Tensor, type Abortable, type Read, type Reading } from "./tensor.js";

/** Turns gradients off for parts of an asynchronous function, see `noGrad`. */
export interface NoGradScope {
  /** Runs `f` with gradients off; of an asynchronous `f` only the part up to its first `await`. */
  run<T>(f: () => T): T;
}

/**
 * Runs `f` with gradients off. Of an asynchronous function this covers the part up to its first `await`; what runs
 * after that belongs to the event loop, where other code runs too. Such a function uses the scope that it is given:
 *
 * ```ts
 * const weight = Tensor.ones([2], true);
 * const loaded = Promise.resolve([1, 2]);
 * await noGrad(async (scope) => {
 *   const batch = Tensor.fromData(await loaded);
 *   return scope.run(() => weight.mul(batch));
 * });
 * ```
 */
export function noGrad<T>(f: (scope: NoGradScope) => T): T {
  const owner = session();
  let isOver = false;
  const off = <U>(part: () => U): U => {
    owner.check(owner.raw.no_grad(1));
    try {
      return part();
    } finally {
      owner.check(owner.raw.no_grad(-1));
    }
  };
  const scope: NoGradScope = {
    run(part) {
      if (isOver) throw errorOf("closed", "noGrad", "the function of this scope has ended; call noGrad again");
      return within(owner, () => off(part));
    },
  };
  const end = () => {
    isOver = true;
  };
  let result: T;
  try {
    result = off(() => f(scope));
  } catch (error) {
    end();
    throw error;
  }
  if (result instanceof Promise) result.then(end, end);
  else end();
  return result;
}

/**
 * Runs `f` and disposes the tensors that it has made, but for those in its result: a tensor, or a list or object of
 * tensors. Of an asynchronous function it collects what is made up to the first `await`, and disposes it at the end.
 */
export function trackTensors<T>(f: () => T): T {
  const owner = session();
  const made: Tensor<any>[] = [];
  const end = (result: unknown) => {
    const kept = new Set<unknown>();
    gather(result, kept);
    for (const tensor of made) {
      if (kept.has(tensor)) owner.keep(tensor);
      else tensor.dispose();
    }
  };
  let result: T;
  try {
    result = owner.collect(made, f);
  } catch (error) {
    end(undefined);
    throw error;
  }
  if (result instanceof Promise) {
    const settled = result.then(
      (value: unknown) => (end(value), value),
      (error: unknown) => {
        end(undefined);
        throw error;
      },
    );
    return settled as T;
  }
  end(result);
  return result;
}

/** The tensors of a result: of lists and plain objects, not of what else an object may refer to. */
function gather(result: unknown, kept: Set<unknown>): void {
  if (typeof result !== "object" || result === null || kept.has(result)) return;
  const isPlain = Array.isArray(result) || [Object.prototype, null].includes(Object.getPrototypeOf(result));
  if (!isPlain && !(result instanceof Tensor)) return;
  kept.add(result);
  if (isPlain) for (const part of Object.values(result)) gather(part, kept);
}

/**
 * The gradients of a loss with respect to tensors that require them, as new tensors through which gradients pass again;
 * nothing is accumulated. The gradient of a gradient: `grad(grad(f(x), [x])[0].sum(), [x])`. `seed` is the gradient of
 * the loss itself where it has several elements.
 *
 * Errors: a tensor that requires no gradients, or that did not lead to the loss.
 */
export function grad<R extends Reading = "sync">(
  loss: Tensor<R>,
  of: readonly Tensor<R>[],
  seed?: Tensor<R>,
): Tensor<R>[] {
  const owner = loss instanceof Tensor ? loss.session : session();
  const { raw } = owner;
  if (raw.gradients === undefined) throw errorOf("unsupported", "grad", "this face has no gradients of gradients yet");
  const [from, by] = [owner.handle("grad", loss), seed === undefined ? 0 : owner.handle("grad", seed)];
  owner.putTensors("grad", of);
  const count = owner.check(raw.gradients(from, by));
  // Wrapping may overwrite scratch.
  return Array.from(raw.scratch.slice(0, count), (handle) => owner.wrap(handle));
}

/** Starts the random sequence of a seed anew. */
export function manualSeed(seed: number): void {
  Tensor.manualSeed(seed);
}

export { manualSeed as manual_seed };

/** The engine's counters by name. */
export function stats(): { readonly [counter: string]: number } {
  const owner = session();
  const { raw } = owner;
  owner.flush();
  raw.sweep?.();
  owner.check(raw.stats());
  return Object.fromEntries(raw.counters.map((name, at) => [name, raw.scratch[at] as number]));
}

/** Computes tensors now, in one program. */
export function commit(tensors: readonly Tensor<any>[]): void {
  const owner = session();
  owner.flush();
  owner.putTensors("commit", tensors);
  owner.check(owner.raw.commit());
}

/** `commit` without keeping the event loop waiting; stops and rejects when `signal` is aborted. */
export async function commitAsync(tensors: readonly Tensor<any>[], options?: Abortable): Promise<void> {
  const signal = options?.signal;
  await computeLater(session(), "commitAsync", tensors, false, signal);
  throwIfAborted(signal);
}

/** The elements of several tensors, computed in one program. */
export function toTypedArrays<R extends Reading = "sync">(...tensors: readonly Tensor<R>[]): Read<R, Elements[]> {
  commit(tensors);
  const read: unknown[] = tensors.map((tensor) => tensor.toArray());
  const isLater = read.some((elements) => elements instanceof Promise);
  return (isLater ? Promise.all(read) : read) as Read<R, Elements[]>;
}

/** `toTypedArrays` without keeping the event loop waiting; options may be the last argument. */
export async function toTypedArraysAsync(
  ...given: readonly Tensor<any>[] | [...tensors: Tensor<any>[], options: Abortable]
): Promise<Elements[]> {
  const tensors = given.filter((one) => one instanceof Tensor);
  const options = given.find((one) => !(one instanceof Tensor)) as Abortable | undefined;
  const signal = options?.signal;
  const dtypes = tensors.map(({ dtype }) => dtype);
  const bytes = await computeLater(session(), "toTypedArraysAsync", tensors, true, signal);
  throwIfAborted(signal);
  return bytes.map((elements, at) => elementsOf(dtypes[at] as DType, elements));
}

/** The mean cross entropy between logits `[..., classes]` and the ids of classes `[...]`. */
export function crossEntropy<R extends Reading = "sync">(
  logits: Tensor<R>,
  targets: Tensor<R> | Ids,
  reduction?: "mean" | "sum" | "none",
  ignore?: number,
): Tensor<R> {
  return logits.crossEntropy(targets, reduction, ignore);
}
