/**
 * Programs that keep keys and values of sequences in blocks, so that a token costs one row of attention, and the state of
 * recurrences, so that it costs one step.
 */

import { Effect } from "effect";
import { describe } from "lanthorn/raw";

import { isRecord } from "../record.js";
import * as Runtime from "../runtime.js";
import type { CompiledProgram } from "./cache.js";
import { outputsOf } from "./compile.js";
import { samplingOf, withElements, type SamplingOptions } from "./compute.js";
import { ask, failure, found, guarded, type Any, type Concrete, type TensorError } from "./core.js";

/** A compiled decode program, with the geometry that its pool must have. */
export interface DecodeProgram extends Runtime.DecodeStateSchema {
  readonly handle: Runtime.ExecutableHandle;
  readonly outputs: CompiledProgram["outputs"];
}

/** The tokens of one text in a pool. */
export interface KvSequence {
  readonly handle: Runtime.KvSequenceHandle;
}

/** State of layers that are no attention. */
export type KvRecurrentGeometry = Runtime.KvRecurrentGeometry;

/** Blocks for the keys and values of sequences, and the state of layers that are no attention. */
export interface KvPool {
  readonly handle: Runtime.KvPoolHandle;
}

type Asked<A> = Effect.Effect<A, TensorError, Runtime.Runtime>;

/** What a function asks of the part of the backend that decodes. */
const askDecode = <A>(
  op: string,
  question: (decode: Runtime.DecodeRuntime) => Effect.Effect<A, Runtime.BackendError>,
): Asked<A> => ask(op, (runtime) => question(runtime.extensions.decode));

/**
 * A pool for `maxTokens` tokens of all its sequences, in blocks of `blockSize`, of a decode program's geometry.
 *
 * `dtype` is that of the keys and values, `f32` by default; `int8` holds bytes with a scale for each token and head.
 * `recurrent` is the state of layers that are no attention, as a program tells it: it is held for `sequences` of them, in f32,
 * or f64 beside keys and values of f64. Beside such layers `layers`, and then `kvHeads` and `headDim`, may be 0.
 */
export const makeKvPool = guarded(
  "makeKvPool",
  (
    layers: number,
    kvHeads: number,
    headDim: number,
    maxTokens: number,
    blockSize: number,
    dtype: Runtime.KvDType = "f32",
    recurrent?: KvRecurrentGeometry,
  ): Asked<KvPool> => {
    const counts = { layers, kvHeads, headDim, maxTokens, blockSize };
    const others: Partial<Record<Exclude<keyof KvRecurrentGeometry, "attention">, number>> = {};
    for (const name of RECURRENT) others[name] = recurrent?.[name] ?? 0;
    if (recurrent?.sequences !== undefined) others.sequences = recurrent.sequences;
    const { kdaLayers = 0, convLayers = 0 } = others;
    const needed = new Set<string>(["maxTokens", "blockSize"]);
    if (kdaLayers + convLayers === 0) needed.add("layers");
    if (layers !== 0) needed.add("kvHeads").add("headDim");
    if (kdaLayers > 0) needed.add("kdaHeads").add("kdaHeadDim").add("kdaValueDim");
    if (convLayers > 0) needed.add("convChannels").add("convKernel");
    for (const [name, count] of Object.entries({ ...counts, ...others })) {
      // A convolution of one input keeps none.
      const least = !needed.has(name) ? 0 : name === "convKernel" ? 2 : 1;
      if (!(Number.isSafeInteger(count) && count >= least)) {
        const expected = least === 1 ? "above 0" : `of at least ${least}`;
        return failure("makeKvPool", `${name} is ${describe(count)}, expected a whole number ${expected}`);
      }
    }
    // Sizes of another program's layers give way to those that are asked for.
    const each = recurrent?.attention;
    const isOfThese = each?.length === layers && each[0]?.[0] === kvHeads && each[0][1] === headDim;
    const attention = isOfThese ? { attention: each } : {};
    if (!KV_DTYPES.includes(dtype)) {
      return failure("makeKvPool", `the dtype is ${describe(dtype)}, expected one of ${KV_DTYPES.join(", ")}`);
    }
    return Effect.map(
      askDecode("makeKvPool", (decode) => decode.makePool({ ...counts, dtype, ...others, ...attention })),
      (handle) => Object.freeze({ handle }),
    );
  },
);

/** The sizes of `KvRecurrentGeometry` that are 0 where nothing is said. */
const RECURRENT: ReadonlyArray<Exclude<keyof KvRecurrentGeometry, "attention" | "sequences">> = [
  "kdaLayers",
  "kdaHeads",
  "kdaHeadDim",
  "kdaValueDim",
  "convLayers",
  "convChannels",
  "convKernel",
];

/** What keys and values can be held in. */
const KV_DTYPES: ReadonlyArray<Runtime.KvDType> = ["f32", "f64", "f16", "bf16", "int8"];

/** An empty sequence of a pool. */
export const makeKvSequence = (pool: KvPool): Asked<KvSequence> =>
  Effect.map(
    askDecode("makeKvSequence", (decode) => decode.makeSequence(pool.handle)),
    (handle) => Object.freeze({ handle }),
  );

/**
 * Shares whole blocks that the pool holds of the beginning of a prompt with an empty sequence; gives how many tokens these
 * are, which need not be computed again. 0 for pools of layers that are no attention: a block does not hold their state.
 */
export const kvPrefillMatch = (sequence: KvSequence, tokens: ReadonlyArray<number>): Asked<number> =>
  askDecode("kvPrefillMatch", (decode) => decode.prefillMatch(sequence.handle, tokens));

/** How many tokens a sequence has. */
export const kvSequenceCursor = (sequence: KvSequence): Asked<number> =>
  askDecode("kvSequenceCursor", (decode) => decode.sequenceCursor(sequence.handle));

/** Gives up a sequence; whole blocks stay in the pool for others while there is room. */
export const releaseKvSequence = (sequence: KvSequence): Asked<void> =>
  askDecode("releaseKvSequence", (decode) => decode.releaseSequence(sequence.handle));

/**
 * Compiles roots of one sequence, `[1, length]` tokens in slot 0, into a program over a paged cache of many.
 *
 * Causal attention reads and writes the cache, `kdaChunk` and `shortConv1d` go on from the state of their sequence, and
 * positions are those of the tokens in their sequence. Fails for a graph without any of them, and for one in which anything
 * else brings tokens together. Trace it for two tokens or more where you can, since a call may have fewer: one that was traced
 * for a single token is looked at as if it had two, and refused where that does not work out.
 */
export const compileDecodeProgram = (
  roots: ReadonlyArray<Any>,
  state: Runtime.DecodeStateRequest,
): Asked<DecodeProgram> => {
  // Without one it would be a program of no sequences.
  if (!isRecord(state)) {
    return failure("compileDecodeProgram", `the state is ${found(state)}, expected an object with maxTokens`);
  }
  return Effect.map(
    ask("compileDecodeProgram", (runtime) => runtime.compile({ roots, state })),
    (handle) => Object.freeze({ ...(handle.state as Runtime.DecodeStateSchema), handle, outputs: outputsOf(roots) }),
  );
};

/** The arguments of a call on sequences. */
const invocationOf = (
  bindings: ReadonlyArray<Concrete>,
  sequences: ReadonlyArray<KvSequence>,
  tokens: ReadonlyArray<ReadonlyArray<number>>,
): Runtime.ExecutionInvocation => ({
  bindings,
  scalars: [],
  runtimeValues: {},
  state: { sequences: sequences.map(({ handle }) => handle), tokens },
});

/**
 * Runs a decode program on the new tokens of several sequences, at most its batch. Results have a row for each sequence.
 *
 * The sequences go on by their tokens if it succeeds; if it fails, nothing has changed. An interruption that comes when the
 * cache has the tokens is too late for them: `kvSequenceCursor` tells.
 */
export const runBatchedDecodeProgram = (
  program: DecodeProgram,
  inputs: ReadonlyArray<Any>,
  seqs: ReadonlyArray<KvSequence>,
  tokens: ReadonlyArray<ReadonlyArray<number>>,
): Asked<Array<Concrete>> => ran("runBatchedDecodeProgram", program, inputs, seqs, tokens);

const ran = (
  op: string,
  program: DecodeProgram,
  inputs: ReadonlyArray<Any>,
  seqs: ReadonlyArray<KvSequence>,
  tokens: ReadonlyArray<ReadonlyArray<number>>,
): Asked<Array<Concrete>> =>
  withElements(op, inputs, (bindings) =>
    Effect.map(
      ask(op, (runtime) => runtime.execute(program.handle, invocationOf(bindings, seqs, tokens))),
      (results) => [...results],
    ),
  );

/** Runs a decode program on the new tokens of one sequence, as `runBatchedDecodeProgram`. */
export const runDecodeProgram = (
  program: DecodeProgram,
  inputs: ReadonlyArray<Any>,
  seq: KvSequence,
  tokens: ReadonlyArray<number>,
): Asked<Array<Concrete>> => ran("runDecodeProgram", program, inputs, [seq], [tokens]);

/** As `runBatchedDecodeProgram`, but draws the next token of each sequence in the place of reading logits. */
export const runBatchedDecodeProgramSampled = (
  program: DecodeProgram,
  inputs: ReadonlyArray<Any>,
  seqs: ReadonlyArray<KvSequence>,
  tokens: ReadonlyArray<ReadonlyArray<number>>,
  sampling: ReadonlyArray<SamplingOptions>,
): Asked<Array<number>> => drawn("runBatchedDecodeProgramSampled", program, inputs, seqs, tokens, sampling);

const drawn = (
  op: string,
  program: DecodeProgram,
  inputs: ReadonlyArray<Any>,
  seqs: ReadonlyArray<KvSequence>,
  tokens: ReadonlyArray<ReadonlyArray<number>>,
  sampling: ReadonlyArray<SamplingOptions>,
): Asked<Array<number>> =>
  guarded(op, () => {
    if (sampling.length !== seqs.length) {
      return failure(op, `there are ${sampling.length} options of sampling for ${seqs.length} sequences`);
    }
    return withElements(op, inputs, (bindings) =>
      Effect.flatMap(
        Effect.forEach(
          sampling,
          guarded(op, (options) => samplingOf(op, options)),
        ),
        (options) =>
          Effect.map(
            ask(op, (runtime) =>
              runtime.extensions.sampling.executeDecode(program.handle, invocationOf(bindings, seqs, tokens), options),
            ),
            (tokens) => [...tokens],
          ),
      ),
    );
  })();

/** As `runDecodeProgram`, but draws the next token of the sequence in the place of reading logits. */
export const runDecodeProgramSampled = (
  program: DecodeProgram,
  inputs: ReadonlyArray<Any>,
  seq: KvSequence,
  tokens: ReadonlyArray<number>,
  sampling: SamplingOptions,
): Asked<number> =>
  Effect.map(
    drawn("runDecodeProgramSampled", program, inputs, [seq], [tokens], [sampling]),
    ([token]) => token as number,
  );
