/**
 * Where the windows of a long sequence of tokens begin, in shuffled order.
 *
 * A sequence of `length` tokens has `(length - 1) / block` whole windows beside each other; a window of `block` inputs
 * also takes the token after its last one as a target. In one epoch each window is drawn once. What a sampler has still to
 * give is its state, which a checkpoint keeps.
 */
import { Data, Effect } from "effect";

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

/** Draws the windows of a batch. */
export interface Sampler {
  /** The tokens at which the windows of the next batch begin. Where an epoch ends within a batch, the next one goes on in it. */
  readonly next: () => Array<number>;
  /** A copy of the state; later draws do not change it. */
  readonly state: () => SamplerState;
}

/**
 * A sampler at the beginning of its first epoch. Fails with `SamplerError` where numbers are not integers above 0 or the
 * sequence has fewer windows than a batch.
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
  Effect.flatMap(windowsOf("make", config), (windows) => Effect.sync(() => samplerAt(config, shuffled(windows), 0, 0)));

/**
 * A sampler that goes on where a state was taken: it draws what that one would have drawn within the epoch. Fails with
 * `SamplerError` where the state is of other settings, or no state of a sampler.
 */
export const restore = (config: SamplerConfig, state: SamplerState): Effect.Effect<Sampler, SamplerError> =>
  Effect.gen(function*() {
    const windows = yield* windowsOf("restore", config);
    const fail = (message: string) => new SamplerError({ op: "restore", message });
    for (const name of ["length", "block", "batch"] as const) {
      if (state.config[name] === config[name]) continue;
      return yield* fail(`the state is of ${name} ${state.config[name]}, the sampler of ${name} ${config[name]}`);
    }
    const { order, cursor, epoch } = state;
    if (order.length !== windows) return yield* fail(`the order holds ${order.length} windows, expected ${windows}`);
    const seen = new Set(order);
    if (seen.size !== windows || order.some((window) => window >= windows)) {
      return yield* fail(`the order is no permutation of the numbers below ${windows}`);
    }
    if (!Number.isInteger(cursor) || cursor < 0 || cursor > windows) {
      return yield* fail(`the cursor is ${cursor}, expected an integer from 0 to ${windows}`);
    }
    if (!Number.isInteger(epoch) || epoch < 0) {
      return yield* fail(`the epoch is ${epoch}, expected an integer of at least 0`);
    }
    return samplerAt(config, order.slice(), cursor, epoch);
  });

function samplerAt(config: SamplerConfig, order: Uint32Array, cursor: number, epoch: number): Sampler {
  const own = { ...config };
  return {
    next: () =>
      Array.from({ length: own.batch }, () => {
        if (cursor === order.length) {
          order = shuffled(order.length);
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
  for (const name of ["length", "block", "batch"] as const) {
    const value = config[name];
    if (Number.isInteger(value) && value > 0) continue;
    return Effect.fail(new SamplerError({ op, message: `${name} is ${value}, expected an integer above 0` }));
  }
  const { length, block, batch } = config;
  const windows = Math.floor((length - 1) / block);
  if (windows >= batch) return Effect.succeed(windows);
  const needed = batch * block + 1;
  const made = `${length} tokens make ${windows} windows of ${block} inputs and a target`;
  const message = `${made}, a batch takes ${batch}: at least ${needed} tokens are needed`;
  return Effect.fail(new SamplerError({ op, message }));
}

/** The numbers below `count` in random order (Fisher and Yates, as by Durstenfeld). */
function shuffled(count: number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, at) => at);
  for (let last = count - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1));
    const moved = order[last] as number;
    order[last] = order[other] as number;
    order[other] = moved;
  }
  return order;
}
