/** Sessions of generation: which texts are live, and what is computed of them. */
import { Data, Effect, Semaphore } from "effect";
import { describe } from "lanthorn/raw";

import { isTensorHandle } from "../handles.js";
import { isRecord } from "../record.js";
import type * as Runtime from "../runtime.js";
import { named } from "../tensor/core.js";
import * as Tensor from "../tensor.js";
import type { ModelError } from "./definition.js";

/** Inference that cannot be set up, or a call that does not fit. */
export class InferenceError extends Data.TaggedError("InferenceError")<{
  readonly op: string;
  readonly message: string;
}> {}

/** What sessions work with. */
export interface Programs {
  readonly pool: Tensor.KvPool;
  readonly params: ReadonlyArray<Tensor.Concrete>;
  readonly prefill: Tensor.DecodeProgram;
  readonly single: Tensor.DecodeProgram;
  /** None where a batch is of one text. */
  readonly batched: Tensor.DecodeProgram | undefined;
  readonly chunk: number;
  readonly batch: number;
  readonly tokenDtype: "u32" | "i64";
}

/** A text of a session. */
export interface GenerationSeq {
  readonly sequence: Tensor.KvSequence;
  /** How many tokens it has. */
  readonly cursor: () => Effect.Effect<number, Tensor.TensorError, Runtime.Runtime>;
  /** Ends it, and gives its blocks back; blocks that are whole may still serve texts that begin alike. Once more does nothing. */
  readonly finish: () => Effect.Effect<void, Tensor.TensorError, Runtime.Runtime>;
}

/** A new text with the logits `[vocab]` after its prompt, which belong to the caller. */
export interface GenerationEntry {
  readonly seq: GenerationSeq;
  readonly logits: Tensor.Concrete;
}

/** A new text with the token after its prompt. */
export interface GenerationSampledEntry {
  readonly seq: GenerationSeq;
  readonly token: number;
}

type Failure = InferenceError | ModelError | Tensor.TensorError;

/** A session. Its calls run one after the other; a call that fails or is interrupted changes no text. */
export interface Generation {
  /** A new text of a prompt `[1, length]`. */
  readonly add: (prompt: Tensor.Any) => Effect.Effect<GenerationEntry, Failure, Runtime.Runtime>;
  /** As `add`, with the token that is drawn from the logits. */
  readonly addSampled: (
    prompt: Tensor.Any,
    sampling: Tensor.SamplingOptions,
  ) => Effect.Effect<GenerationSampledEntry, Failure, Runtime.Runtime>;
  /** Appends a token to each of some texts; gives the logits `[vocab]` of each, which belong to the caller. */
  readonly step: (
    entries: ReadonlyArray<{ readonly seq: GenerationSeq; readonly token: number }>,
  ) => Effect.Effect<Array<Tensor.Concrete>, Failure, Runtime.Runtime>;
  /** As `step`, with the tokens that are drawn from the logits. */
  readonly stepSampled: (
    entries: ReadonlyArray<{
      readonly seq: GenerationSeq;
      readonly token: number;
      readonly sampling: Tensor.SamplingOptions;
    }>,
  ) => Effect.Effect<Array<number>, Failure, Runtime.Runtime>;
  /** How many texts are live. */
  readonly live: () => Effect.Effect<number>;
  /** Ends all texts and the session. Once more does nothing. */
  readonly close: () => Effect.Effect<void, Tensor.TensorError, Runtime.Runtime>;
}

/** A session over programs that are compiled. */
export function generationOf(programs: Programs): Generation {
  const { pool, params, prefill, single, batched, chunk, batch } = programs;
  const live = new Set<GenerationSeq>();
  const turn = Semaphore.makeUnsafe(1);
  let closed = false;

  /** A call of the session, one after the other. */
  const called = <A, E, R>(op: string, effect: Effect.Effect<A, E | Tensor.TensorError, R>) =>
    turn.withPermit(named(op, effect));

  const admitted = <A>(
    op: string,
    prompt: Tensor.Any,
    ready: Effect.Effect<void, InferenceError>,
    last: (
      program: Tensor.DecodeProgram,
      sequence: Tensor.KvSequence,
      tokens: ReadonlyArray<number>,
    ) => Effect.Effect<A, Tensor.TensorError, Runtime.Runtime>,
  ) =>
    called(
      op,
      Effect.gen(function*() {
        if (closed) return yield* fault(op, "the session is closed");
        if (live.size >= batch) {
          return yield* fault(op, `${live.size} texts are live, and a session has at most decodeBatch, which is ${batch}`);
        }
        const tokens = yield* promptOf(op, prompt, programs.tokenDtype);
        yield* ready;
        const sequence = yield* Tensor.makeKvSequence(pool);
        const result = yield* Effect.onError(
          Effect.gen(function*() {
            let at = yield* Tensor.kvPrefillMatch(sequence, tokens);
            for (; tokens.length - at > chunk; at += chunk) {
              const [logits] = yield* Tensor.runDecodeProgram(prefill, params, sequence, tokens.slice(at, at + chunk));
              yield* Tensor.clear(logits as Tensor.Concrete);
            }
            return yield* last(tokens.length - at === 1 ? single : prefill, sequence, tokens.slice(at));
          }),
          () => Effect.ignore(Tensor.releaseKvSequence(sequence)),
        );
        const seq: GenerationSeq = {
          sequence,
          cursor: () => named("cursor", Tensor.kvSequenceCursor(sequence)),
          finish: () =>
            // Not while a call of the session works on it.
            called("finish", Effect.suspend(() => (live.delete(seq) ? Tensor.releaseKvSequence(sequence) : Effect.void))),
        };
        live.add(seq);
        return { seq, result };
      }),
    );

  const checked = (op: string, entries: ReadonlyArray<{ readonly seq: GenerationSeq; readonly token: number }>) => {
    if (closed) return fault(op, "the session is closed");
    if (!Array.isArray(entries)) return fault(op, `the entries are ${describe(entries)}, expected a list of seq and token`);
    if (entries.length === 0) return fault(op, "there are no entries, expected at least one entry");
    if (entries.length > batch) {
      return fault(op, `got ${entries.length} entries, expected at most decodeBatch, which is ${batch}`);
    }
    for (const [at, entry] of entries.entries()) {
      if (!isRecord(entry as unknown)) return fault(op, `entry ${at} is ${describe(entry)}, expected seq and token`);
      const { seq, token }: (typeof entries)[number] = entry;
      if (!live.has(seq)) return fault(op, `entry ${at} is not a live sequence of this session`);
      if (!isToken(token)) return fault(op, `the token of entry ${at} is ${describe(token)}, expected ${TOKEN}`);
    }
    if (new Set(entries.map(({ seq }) => seq)).size < entries.length) return fault(op, "duplicate sequence among the entries");
    return Effect.void;
  };

  return {
    add: (prompt) =>
      Effect.map(
        admitted("add", prompt, Effect.void, (program, sequence, tokens) =>
          Effect.flatMap(Tensor.runDecodeProgram(program, params, sequence, tokens), rowsOf),
        ),
        ({ seq, result }) => ({ seq, logits: result[0] as Tensor.Concrete }),
      ),
    addSampled: (prompt, sampling) =>
      Effect.map(
        admitted("addSampled", prompt, checkSampling("addSampled", "sampling", sampling), (program, sequence, tokens) =>
          Tensor.runDecodeProgramSampled(program, params, sequence, tokens, sampling),
        ),
        ({ seq, result }) => ({ seq, token: result }),
      ),
    step: (entries) =>
      called(
        "step",
        Effect.gen(function*() {
          yield* checked("step", entries);
          const sequences = entries.map(({ seq }) => seq.sequence);
          const [first] = sequences as [Tensor.KvSequence];
          const tokens = entries.map(({ token }) => [token]);
          if (batched === undefined || entries.length === 1) {
            return yield* rowsOf(yield* Tensor.runDecodeProgram(single, params, first, tokens.flat()));
          }
          return yield* rowsOf(yield* Tensor.runBatchedDecodeProgram(batched, params, sequences, tokens));
        }),
      ),
    stepSampled: (entries) =>
      called(
        "stepSampled",
        Effect.gen(function*() {
          yield* checked("stepSampled", entries);
          for (const [at, { sampling }] of entries.entries()) {
            yield* checkSampling("stepSampled", `sampling of entry ${at}`, sampling);
          }
          const sequences = entries.map(({ seq }) => seq.sequence);
          const [first] = sequences as [Tensor.KvSequence];
          const tokens = entries.map(({ token }) => [token]);
          const samplings = entries.map(({ sampling }) => sampling);
          if (batched === undefined || entries.length === 1) {
            const [sampling] = samplings as [Tensor.SamplingOptions];
            return [yield* Tensor.runDecodeProgramSampled(single, params, first, tokens.flat(), sampling)];
          }
          return [...(yield* Tensor.runBatchedDecodeProgramSampled(batched, params, sequences, tokens, samplings))];
        }),
      ),
    live: () => Effect.sync(() => live.size),
    close: () =>
      called("close", 
        Effect.suspend(() => {
          closed = true;
          const sequences = [...live].map(({ sequence }) => sequence);
          live.clear();
          return Effect.forEach(sequences, Tensor.releaseKvSequence, { discard: true });
        }),
      ),
  };
}

/** The rows of a call's logits `[texts, vocab]`, each a tensor of its own. */
function rowsOf([
  logits,
]: ReadonlyArray<Tensor.Concrete>): Effect.Effect<Array<Tensor.Concrete>, Tensor.TensorError, Runtime.Runtime> {
  const all = logits as Tensor.Concrete;
  const [count, vocabulary] = all.shape as [number, number];
  const row = (at: number) =>
    Effect.flatMap(Tensor.slice(all, { start: [at, 0], end: [at + 1, vocabulary] }), Tensor.reshape([vocabulary]));
  const rows = Effect.flatMap(Effect.forEach(Array.from({ length: count }, (_, at) => at), row), (lazy) => Tensor.compute(lazy));
  return Effect.ensuring(rows, Tensor.clear(all));
}

/** The tokens of a prompt. */
function promptOf(op: string, prompt: Tensor.Any, dtype: "u32" | "i64") {
  return Effect.gen(function*() {
    if (!isTensorHandle(prompt)) return yield* fault(op, `the prompt is ${describe(prompt)}, expected a tensor of shape [1, T]`);
    const [one, length] = prompt.shape;
    if (prompt.shape.length !== 2 || one !== 1 || length === 0) {
      return yield* fault(op, `got [${prompt.shape}]; a session expects a prompt of shape [1, T], T at least 1`);
    }
    if (prompt.dtype !== dtype) return yield* fault(op, `the prompt is ${prompt.dtype}, but the prompt dtype must be ${dtype}`);
    const tokens = Array.from<number | bigint, number>(yield* Tensor.toTypedArray(prompt), Number);
    const wrong = tokens.findIndex((token) => !isToken(token));
    if (wrong >= 0) return yield* fault(op, `token ${wrong} of the prompt is ${tokens[wrong]}, expected ${TOKEN}`);
    return tokens;
  });
}

/** The ids that tokens have; a vocabulary may be smaller. */
const isToken = (value: unknown) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32;
const TOKEN = "a whole number from 0 to 2^32 - 1";

function checkSampling(op: string, what: string, sampling: unknown): Effect.Effect<void, InferenceError> {
  return isRecord(sampling) ? Effect.void : fault(op, `${what} is ${describe(sampling)}, expected options with a seed`);
}

export function fault(op: string, message: string): Effect.Effect<never, InferenceError> {
  return Effect.fail(new InferenceError({ op, message }));
}
