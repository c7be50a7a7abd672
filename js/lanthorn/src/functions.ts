/** What is no method of a tensor. */

import type { Ids } from "./create.js";
import { describe, elementsOf, type DType, type Elements } from "./dtype.js";
import { errorOf, renamed } from "./errors.js";
import { computeLater, isThenable, signalOf, throwIfAborted } from "./later.js";
import { Module } from "./nn/module.js";
import { gather, isPlain } from "./pattern.js";
import { openSessions, session, within, type Session } from "./session.js";
import { Tensor, type Abortable, type Read, type Reading } from "./tensor.js";

/** Throws for what cannot be called. */
function expectFunction(op: string, f: unknown): void {
  if (typeof f !== "function") throw errorOf("unsupported", op, `got ${describe(f)}, expected a function`);
}

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
  return noGradOf(openSessions, f);
}

/** `noGrad` for the tensors of some sessions, which are looked up whenever a part begins. */
export function noGradOf<T>(sessions: () => readonly Session[], f: (scope: NoGradScope) => T): T {
  expectFunction("noGrad", f);
  const owner = session();
  let isOver = false;
  const off = <U>(part: () => U): U => {
    const turned: Session[] = [];
    try {
      for (const each of sessions()) {
        each.check(each.raw.no_grad(1));
        turned.push(each);
      }
      return part();
    } finally {
      for (const each of turned) each.check(each.raw.no_grad(-1));
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
  if (isThenable(result)) result.then(end, end);
  else end();
  return result;
}

/**
 * Runs `f` and disposes the tensors that it has made, but for those in its result: a tensor, a module, or a list, plain
 * object, `Map` or `Set` of these. A result that holds them in an object of another class is an error. Of an asynchronous
 * function it collects what is made up to the first `await`, and disposes it at the end.
 */
export function trackTensors<T>(f: () => T): T {
  expectFunction("trackTensors", f);
  const owner = session();
  const made: Tensor<any>[] = [];
  const end = (result: unknown) => {
    const kept = new Set<Tensor<any>>();
    const others: unknown[] = [];
    keepOf(result, kept, others);
    for (const tensor of made) {
      if (kept.has(tensor)) owner.keep(tensor);
      else tensor.dispose();
    }
    for (const other of others) {
      const held = new Set<Tensor<any>>();
      gather(other, held);
      if (!made.some((tensor) => held.has(tensor) && !kept.has(tensor))) continue;
      const advice = "give them in a module, a list, a plain object, a Map or a Set";
      throw errorOf("unsupported", "trackTensors", `the result holds tensors in ${describe(other)}; ${advice}`);
    }
  };
  let result: T;
  try {
    result = owner.collect(made, f);
  } catch (error) {
    end(undefined);
    throw error;
  }
  if (isThenable(result)) {
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

/** The tensors of a result that outlive the function, and the objects of classes that may hold others. */
function keepOf(result: unknown, kept: Set<Tensor<any>>, others: unknown[], seen = new Set<unknown>()): void {
  const pending: unknown[] = [result];
  while (pending.length > 0) {
    const one = pending.pop();
    if (typeof one !== "object" || one === null || seen.has(one)) continue;
    seen.add(one);
    if (one instanceof Tensor) kept.add(one);
    else if (one instanceof Module) gather(one, kept);
    else if (Array.isArray(one) || isPlain(one)) pending.push(...Object.values(one));
    else if (one instanceof Map) pending.push(...one.keys(), ...one.values());
    else if (one instanceof Set) pending.push(...one);
    else if (!ArrayBuffer.isView(one)) others.push(one);
  }
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
  owner.putAll("grad", of);
  const count = raw.gradients(from, by);
  if (count < 0) throw renamed(owner.failure(), "grad");
  // Wrapping may overwrite scratch.
  return Array.from(raw.scratch.slice(0, count), (handle) => owner.wrap(handle));
}

/** Starts the random sequence of a seed anew. */
export function manualSeed(seed: number): void {
  Tensor.manualSeed(seed);
}

export { manualSeed as manual_seed };

/** The engine's counters by name. */
export interface Stats {
  readonly [counter: string]: number;
}

/** Counters of what was done since the last `resetCounters`; the others are of what there is now. */
const TOTALS: readonly string[] = ["commits", "programs", "compiles", "calls", "kernels"];

/** The totals of each session at its last `resetCounters`. */
const RESET = new WeakMap<Session, Stats>();

/** The counters of a session since its beginning. */
function countersOf(owner: Session): Stats {
  const { raw } = owner;
  owner.flush();
  raw.sweep?.();
  owner.check(raw.stats());
  return Object.fromEntries(raw.counters.map((name, at) => [name, raw.scratch[at] as number]));
}

/** The engine's counters by name: totals since the last `resetCounters`, and what there is now. */
export function stats(): Stats {
  const owner = session();
  const zero = RESET.get(owner);
  const counters = countersOf(owner);
  if (zero === undefined) return counters;
  const entries = Object.entries(counters);
  return Object.fromEntries(entries.map(([name, count]) => [name, TOTALS.includes(name) ? count - (zero[name] ?? 0) : count]));
}

/** Counts what is done (programs, compilations, calls, kernels) from 0 again. What is held stays counted. */
export function resetCounters(): void {
  const owner = session();
  RESET.set(owner, countersOf(owner));
}

/**
 * Lets go now of all tensors whose objects were collected as garbage, and gives idle memory back to the system. The former happens by
 * itself; this is for the end of a phase.
 */
export function collect(): void {
  const owner = session();
  owner.flush();
  const { raw } = owner;
  raw.sweep?.();
  if (raw.trim !== undefined) owner.check(raw.trim());
}

/**
 * Forgets the programs that the device keeps for graphs that come again: for code that has gone through many different ones. What runs
 * next is compiled anew; captured functions keep theirs. The cache has a bound of its own, so that this is seldom needed.
 */
export function clearScheduleCache(): void {
  const owner = session();
  if (owner.raw.forget_programs !== undefined) owner.check(owner.raw.forget_programs());
}

/** Computes tensors now, in one program. */
export function commit(tensors: readonly Tensor<any>[]): void {
  commitFor("commit", tensors);
}

/** `commit` under another name in errors. */
export function commitFor(op: string, tensors: readonly Tensor<any>[]): void {
  const owner = session();
  owner.flush();
  owner.putAll(op, tensors);
  owner.check(owner.raw.commit(), op);
}

/** `commit` without keeping the event loop waiting; stops and rejects when `signal` is aborted. */
export async function commitAsync(tensors: readonly Tensor<any>[], options?: Abortable): Promise<void> {
  const signal = signalOf("commitAsync", options);
  await computeLater(session(), "commitAsync", tensors, false, signal);
  throwIfAborted(signal);
}

/** The elements of several tensors, computed in one program. */
export function toTypedArrays<R extends Reading = "sync">(...tensors: readonly Tensor<R>[]): Read<R, Elements[]> {
  commitFor("toTypedArrays", tensors);
  const read: unknown[] = tensors.map((tensor) => tensor.toArray());
  const isLater = read.some(isThenable);
  return (isLater ? Promise.all(read) : read) as Read<R, Elements[]>;
}

/** `toTypedArrays` without keeping the event loop waiting; options may be the last argument. */
export async function toTypedArraysAsync(
  ...given: readonly Tensor<any>[] | [...tensors: Tensor<any>[], options: Abortable]
): Promise<Elements[]> {
  const last: unknown = given.at(-1);
  const hasOptions = given.length > 0 && !(last instanceof Tensor) && (last === undefined || isPlain(last));
  const tensors = (hasOptions ? given.slice(0, -1) : given) as readonly Tensor<any>[];
  const signal = signalOf("toTypedArraysAsync", hasOptions ? last : undefined);
  session().putAll("toTypedArraysAsync", tensors);
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
  if (!(logits instanceof Tensor)) {
    throw errorOf("foreign_handle", "crossEntropy", `the logits are ${describe(logits)}, expected a Tensor`);
  }
  return logits.crossEntropy(targets, reduction, ignore);
}
