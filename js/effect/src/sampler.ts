/**
 * Where the windows of a long sequence of tokens begin, in shuffled order.
 *
 * A sequence of `length` tokens has `(length - 1) / block` whole windows beside each other; a window of `block` inputs
 * also takes the token after its last one as a target. In one epoch each window is drawn once. What a sampler has still to
 * give is its state, which a checkpoint keeps.
 */
import { Data, Effect } from "effect";
import { describe } from "lanthorn/raw";

import { isCount, isRecord } from "./record.js";

/** A sampler that cannot be: settings or a state that do not fit. */
export class SamplerError extends Data.TaggedError("SamplerError")<{
  readonly op: string;
  readonly message: string;
}> {}

/** Of what a sampler draws: tokens in all, inputs of a window, windows of a batch. */
export interface SamplerConfig {
  readonly length: number;
  readonly block: number;
  readonly batch: number;
}

/** All that a sampler has still to give: the order of the windows of this epoch, and how many of them are drawn. */
export interface SamplerState {
  readonly _tag: "SamplerState";
  readonly config: SamplerConfig;
  /** Numbers of windows; window `i` begins at token `i block`. */
  readonly order: Uint32Array;
  readonly cursor: number;
  /** How many epochs are over. */
  readonly epoch: number;
}

/** Windows are numbered in 32 bits, as in a checkpoint. */
const MOST_WINDOWS = 2 ** 32 - 1;

/** Draws the windows of a batch. */
export interface Sampler {
  /** The tokens at which the windows of the next batch begin. Where an epoch ends within a batch, the next one goes on in it. */
  readonly next: () => Array<number>;
  /** A copy of the state; later draws do not change it. */
  readonly state: () => SamplerState;
}

/**
 * A sampler at the beginning of its first epoch. Fails with `SamplerError` where numbers are not integers above 0, the
 * sequence has fewer windows than a batch, or more of them than 32 bits number or than there is memory for.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import { Sampler } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const sampler = yield* Sampler.make({ length: 33, block: 8, batch: 2 })
 *   const starts = [...sampler.next(), ...sampler.next()]
 *   return starts.sort((a, b) => a - b)
 * })
 * assert.ok(String(await Effect.runPromise(program)) === "0,8,16,24")
 * ```
 */
export const make = (config: SamplerConfig): Effect.Effect<Sampler, SamplerError> =>
  Effect.gen(function*() {
    const order = yield* room("make", yield* windowsOf("make", config));
    for (let at = 0; at < order.length; at++) order[at] = at;
    shuffle(order);
    return samplerAt(config, order, 0, 0);
  });

/**
 * A sampler that goes on where a state was taken: it draws what that one would have drawn within the epoch. Fails with
 * `SamplerError` where the state is of other settings, or no state of a sampler.
 */
export const restore = (config: SamplerConfig, state: SamplerState): Effect.Effect<Sampler, SamplerError> =>
  Effect.gen(function*() {
    const windows = yield* windowsOf("restore", config);
    const { order, cursor, epoch } = yield* stateOf(config, windows, state);
    const own = yield* room("restore", windows);
    own.set(order);
    return samplerAt(config, own, cursor, epoch);
  });

/** The state, where it is one of a sampler with these settings. What is read from outside has whatever form. */
function stateOf(config: SamplerConfig, windows: number, state: unknown): Effect.Effect<SamplerState, SamplerError> {
  const fail = (message: string) => Effect.fail(new SamplerError({ op: "restore", message }));
  if (!isRecord(state)) return fail(`the state is ${describe(state)}, expected the state of a sampler`);
  const { config: of, order, cursor, epoch } = state;
  if (!isRecord(of)) return fail(`the config of the state is ${describe(of)}, expected length, block and batch`);
  for (const name of ["length", "block", "batch"] as const) {
    if (of[name] === config[name]) continue;
    return fail(`the state is of ${name} ${describe(of[name])}, the sampler of ${name} ${config[name]}`);
  }
  if (!(order instanceof Uint32Array)) return fail(`the order is ${describe(order)}, expected a Uint32Array`);
  if (order.length !== windows) return fail(`the order holds ${order.length} windows, expected ${windows}`);
  if (new Set(order).size !== windows || order.some((window) => window >= windows)) {
    return fail(`the order is no permutation of the numbers below ${windows}`);
  }
  if (!isCount(cursor) || cursor > windows) {
    return fail(`the cursor is ${describe(cursor)}, expected an integer from 0 to ${windows}`);
  }
  if (!isCount(epoch)) return fail(`the epoch is ${describe(epoch)}, expected an integer of at least 0`);
  return Effect.succeed(state as unknown as SamplerState);
}

function samplerAt(config: SamplerConfig, order: Uint32Array, cursor: number, epoch: number): Sampler {
  const own = { ...config };
  return {
    next: () =>
      Array.from({ length: own.batch }, () => {
        if (cursor === order.length) {
          shuffle(order);
          cursor = 0;
          epoch += 1;
        }
        return (order[cursor++] as number) * own.block;
      }),
    state: () => ({ _tag: "SamplerState", config: { ...own }, order: order.slice(), cursor, epoch }),
  };
}

/** How many windows the settings make. */
function windowsOf(op: string, config: SamplerConfig): Effect.Effect<number, SamplerError> {
  const fail = (message: string) => Effect.fail(new SamplerError({ op, message }));
  if (!isRecord(config)) return fail(`the settings are ${describe(config)}, expected length, block and batch`);
  for (const name of ["length", "block", "batch"] as const) {
    const value = config[name];
    if (isCount(value) && value > 0) continue;
    return fail(`${name} is ${describe(value)}, expected an integer above 0`);
  }
  const { length, block, batch } = config;
  const windows = Math.floor((length - 1) / block);
  const made = `${length} tokens make ${windows} windows of ${block} inputs and a target`;
  if (windows > MOST_WINDOWS) return fail(`${made}, expected at most ${MOST_WINDOWS} windows`);
  if (windows >= batch) return Effect.succeed(windows);
  return fail(`${made}, a batch takes ${batch}: at least ${batch * block + 1} tokens are needed`);
}

/** Room for the order of so many windows. */
function room(op: string, windows: number): Effect.Effect<Uint32Array<ArrayBuffer>, SamplerError> {
  return Effect.try({
    try: () => new Uint32Array(windows),
    catch: () => new SamplerError({ op, message: `there is no memory for the order of ${windows} windows, 4 bytes each` }),
  });
}

/** Puts numbers into random order (Fisher and Yates, as by Durstenfeld). */
function shuffle(order: Uint32Array): void {
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    const moved = order[last] as number;
    order[last] = order[other] as number;
    order[other] = moved;
  }
}
