/** Programs that are made once for a signature of their inputs, and kept while they are in use. */

import { Context, Deferred, Effect, Exit } from "effect";

import * as Runtime from "../runtime.js";
import { failure, type Any, type DType, type TensorError } from "./core.js";

/** A compiled graph, and what its results are. */
export interface CompiledProgram {
  readonly handle: Runtime.ExecutableHandle;
  readonly outputs: ReadonlyArray<{
    readonly shape: ReadonlyArray<number>;
    readonly dtype: DType;
    readonly placement: Runtime.Placement;
  }>;
}

/** How many programs there are, and how often one was traced. */
export interface CompileStats {
  readonly cached: number;
  readonly compiled: number;
}

/** A program, or one that is being made. */
export interface ProgramCacheEntry {
  readonly done: Deferred.Deferred<CompiledProgram, unknown>;
  /** The programs that its trace waits for. */
  readonly awaited: Array<ProgramCacheEntry>;
}

/** What a cache holds. */
export interface ProgramCacheState {
  readonly capacity: number;
  /** The programs by signature, least recently used first. */
  readonly entries: Map<string, ProgramCacheEntry>;
  /** Signatures that were traced before, until a warning has been given. */
  readonly keys: Set<string>;
  /** How often a program was traced. */
  compiled: number;
  /** Whether it was said that programs are made again because there is no room for them. */
  warned: boolean;
}

/** A bounded cache of programs. */
export interface ProgramCache extends ProgramCacheState {
  readonly stats: Effect.Effect<CompileStats>;
  /** Lets go of the programs; the count of traces stays. */
  readonly clear: Effect.Effect<void>;
}

const CAPACITY = 32;
/** How many signatures are remembered for each program that there is room for. */
const REMEMBERED = 16;

/**
 * An empty cache of at most that many programs, 32 by default. The least recently used one makes room.
 *
 * Use it with `cachedProgram`, and `Tensor.compile` where a function of tensors is all that is wanted.
 */
export const makeProgramCache = (capacity: number = CAPACITY): ProgramCache => {
  if (!(Number.isInteger(capacity) && capacity > 0)) {
    throw new RangeError(`makeProgramCache: the capacity is ${capacity}, expected a whole number above 0`);
  }
  const cache: ProgramCacheState = { capacity, entries: new Map(), keys: new Set(), compiled: 0, warned: false };
  const { entries } = cache;
  return Object.assign(cache, {
    stats: Effect.sync(() => ({ cached: entries.size, compiled: cache.compiled })),
    clear: Effect.sync(() => {
      entries.clear();
      cache.keys.clear();
    }),
  });
};

/** The program that a fiber, or the one that has forked it, makes. */
class Traced extends Context.Reference<ProgramCacheEntry | undefined>("@lanthorn/effect/Traced", {
  defaultValue: () => undefined,
}) {}

/** Whether a program is made only when another one is. */
const needs = (entry: ProgramCacheEntry, other: ProgramCacheEntry): boolean =>
  entry === other || entry.awaited.some((next) => needs(next, other));

/** Waits for a program, or makes it, on behalf of the one that is traced. */
const awaiting = <A, E, R>(
  traced: ProgramCacheEntry | undefined,
  entry: ProgramCacheEntry,
  effect: Effect.Effect<A, E, R>,
): Effect.Effect<A, E, R> =>
  traced === undefined
    ? effect
    : Effect.suspend(() => {
        traced.awaited.push(entry);
        return Effect.ensuring(
          effect,
          Effect.sync(() => traced.awaited.splice(traced.awaited.indexOf(entry), 1)),
        );
      });

/** Counts a trace; says once that programs are made again for lack of room. */
const counted = (cache: ProgramCacheState, key: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    cache.compiled += 1;
    if (cache.warned) return Effect.void;
    if (!cache.keys.has(key)) return Effect.void;
    cache.warned = true;
    cache.keys.clear();
    return Effect.logWarning(
      `a program is traced again because its cache of ${cache.capacity} is too small; raise cacheCapacity, or call with fewer shapes`,
    );
  });

/**
 * The program of a key; `trace` makes it if there is none.
 *
 * Those who ask at the same time wait for one trace. One that fails is not kept, nor is one that is interrupted: another who
 * waits for it then traces. Fails where a trace needs the program that it makes, by itself or through other traces.
 */
export const cachedProgram = <E, R>(
  cache: ProgramCacheState,
  key: string,
  trace: () => Effect.Effect<CompiledProgram, E, R>,
): Effect.Effect<CompiledProgram, TensorError | E, R> =>
  Effect.flatMap(Traced, (traced) => {
    const { entries } = cache;
    const found = entries.get(key);
    if (found !== undefined) {
      if (traced !== undefined && needs(found, traced)) return reentered;
      // The last of the map is the most recently used.
      entries.delete(key);
      entries.set(key, found);
      return Effect.flatMap(Effect.exit(awaiting(traced, found, Deferred.await(found.done))), (exit) =>
        Exit.hasInterrupts(exit) && !Exit.hasFails(exit)
          ? cachedProgram(cache, key, trace)
          : (exit as Exit.Exit<CompiledProgram, E>),
      );
    }
    const entry: ProgramCacheEntry = { done: Deferred.makeUnsafe<CompiledProgram, unknown>(), awaited: [] };
    entries.set(key, entry);
    const making = Effect.provideService(Effect.suspend(trace), Traced, entry);
    return awaiting(traced, entry, Effect.andThen(counted(cache, key), making)).pipe(
      Effect.onExit((exit) => {
        if (entries.get(key) === entry) {
          if (Exit.isFailure(exit)) entries.delete(key);
          else kept(cache, key);
        }
        return Deferred.done(entry.done, exit);
      }),
    );
  });

const reentered = failure(
  "compile",
  "a function calls itself while it is traced, by itself or through other compiled functions, with inputs of the signature " +
    "that is traced; call the function that was given to compile, which has to end",
);

/** Remembers that a program was made, and lets the least recently used ones go for which there is no room. */
function kept(cache: ProgramCacheState, key: string): void {
  // A program whose shapes never come again is not to be remembered for ever.
  if (!cache.warned) {
    if (cache.keys.size >= REMEMBERED * cache.capacity) cache.keys.clear();
    cache.keys.add(key);
  }
  trim(cache);
}

/** Lets the least recently used programs go for which there is no room. */
function trim({ entries, capacity }: ProgramCacheState): void {
  for (const key of entries.keys()) {
    if (entries.size <= capacity) return;
    entries.delete(key);
  }
}

const identities = new WeakMap<object, number>();
let runtimes = 0;

/** A number that tells runtimes apart. */
function numberOf({ identity }: Runtime.RuntimeService): number {
  const known = identities.get(identity);
  if (known !== undefined) return known;
  identities.set(identity, ++runtimes);
  return runtimes;
}

/** What a program is specific to: the runtime, and for each input its placement, dtype and shape. */
export const signatureOf = (inputs: ReadonlyArray<Any>, runtime: Runtime.RuntimeService): string =>
  [
    numberOf(runtime),
    ...inputs.map(({ placement, dtype, shape }) => `${placement.id} ${dtype} ${shape.join("x")}`),
  ].join("|");
