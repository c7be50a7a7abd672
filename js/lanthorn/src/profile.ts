/** Profiles: which kernels and compilations took the time. */

import { writeFileSync } from "node:fs";

import { describe } from "./dtype.js";
import { errorOf } from "./errors.js";
import { isThenable } from "./later.js";
import { session } from "./session.js";

/** What the engine did while a profile was taken. */
export class Profile {
  /** All spans as Chrome's trace events in JSON: compilations with their passes, calls of programs, kernels. */
  readonly trace: string;
  /** How many spans were left out: beyond a million, none is kept. */
  readonly leftOut: number;
  private readonly table: string;

  /** @internal */
  constructor([table, trace, leftOut]: readonly [string, string, number]) {
    this.table = table;
    this.trace = trace;
    this.leftOut = leftOut;
  }

  /** The ten kernels that took longest: calls, time, share of all kernels' time, GFLOP/s and GB/s. */
  toString(): string {
    return this.table;
  }

  /** Writes the trace to a file for ui.perfetto.dev or chrome://tracing. */
  writeChromeTrace(path: string): void {
    writeFileSync(path, this.trace);
  }
}

/**
 * Runs `work` and records what the engine does meanwhile, in all runtimes of this process. Work that is asynchronous is
 * awaited. One profile is taken at a time; the next one ends it.
 *
 * ```ts
 * const [sum, taken] = profile(() => Tensor.ones([64, 64]).exp().sum().item());
 * console.log(String(taken)); // calls, time and GFLOP/s of the kernels
 * ```
 *
 * Throws what `work` throws.
 */
export function profile<T>(work: () => Promise<T>): Promise<[result: T, profile: Profile]>;
export function profile<T>(work: () => T): [result: T, profile: Profile];
export function profile<T>(work: () => T | Promise<T>): [T, Profile] | Promise<[T, Profile]> {
  const owner = session();
  const record = (change: number) => {
    const given = owner.raw.profile?.(change) ?? -1;
    if (typeof given === "number" && given < 0) throw owner.failure();
    return given;
  };
  if (typeof work !== "function") throw errorOf("unsupported", "profile", `got ${describe(work)}, expected a function`);
  const end = () => new Profile(record(0) as [string, string, number]);
  const fail = (error: unknown): never => {
    record(0);
    throw error;
  };
  record(1);
  let result: T | Promise<T>;
  try {
    result = work();
  } catch (error) {
    return fail(error);
  }
  if (!isThenable(result)) return [result, end()];
  return result.then((value): [T, Profile] => [value, end()], fail);
}
