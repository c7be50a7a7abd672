/**
 * Text generation out of a model's own forward graph: prefill in chunks, single tokens and batches of them over a paged
 * cache of keys and values, and the state of recurrences. Three programs serve texts of whatever lengths.
 */
import { Effect } from "effect";
import { describe } from "lanthorn/raw";

import { isRecord } from "../record.js";
import type * as Runtime from "../runtime.js";
import * as Tensor from "../tensor.js";
import { checkArity, type Model, type ModelError, type Params } from "./definition.js";
import { fault, generationOf, InferenceError, type Generation, type Programs } from "./generation.js";

/** How a model's texts are held and computed. */
export interface InferenceConfig {
  /** Tokens of all texts together for which there is room; a multiple of `blockSize`. */
  readonly maxTokens: number;
  /** Tokens of a block, of which whole ones are shared between texts that begin alike; 16 if left out. */
  readonly blockSize?: number;
  /** How many tokens a token attends to, itself included; all if left out. Blocks out of every window are free again. */
  readonly attentionWindow?: number;
  /** How many tokens of a prompt are computed at once; `blockSize` if left out. */
  readonly prefillChunk?: number;
  /** In which dtype the model takes tokens; u32 if left out. */
  readonly tokenDtype?: "u32" | "i64";
  /** How keys and values are held; f32 if left out. int8 is one byte for each number and a scale for each token and head. */
  readonly kvDtype?: "f32" | "f16" | "bf16" | "int8";
  /** How many texts of a session are computed together at most; 8 if left out. */
  readonly decodeBatch?: number;
  /**
   * Texts of all sessions together for which there is room at a time, in models that keep the state of recurrences or
   * convolutions; as many as there are blocks, up to 64, if left out.
   */
  readonly sequences?: number;
}

/** A model that is ready to write. Sessions share its room, and the beginnings that their texts have in common. */
export interface InferenceProgram {
  /** A session of its own. */
  readonly generation: () => Effect.Effect<Generation, InferenceError>;
}

/**
 * Compiles a model with causal attention or recurrences for generation. Parameters are computed and held once; what the caller
 * has stays the caller's.
 *
 * The model takes tokens `[1, length]` and gives logits `[1, length, vocab]`. Its attention is `multiHeadAttention`, or
 * `Tensor.scaledDotProductAttention` with `causal`, and its positions are `positionEmbedding` or `rotaryEmbedding`. With it, or
 * instead, it may have `kimiDeltaAttention`, `Tensor.kdaChunk` and `Tensor.shortConv1d`, of which a text keeps a state of one
 * size; texts of such a model compute their prompts themselves, also where they begin alike. `attentionWindow` bounds
 * attention and not what a state remembers, and `maxTokens` counts tokens of such models too. What else brings tokens together
 * is not cached.
 *
 * Fails with `InferenceError` for settings that do not fit and for models that cannot be cached.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Model, Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const model = yield* Model.chain(
 *     yield* Model.embedding("token", 100, 16),
 *     yield* Model.multiHeadAttention("attention", 16, 2, { causal: true, rope: 10_000 }),
 *     yield* Model.linear("head", 16, 100)
 *   )
 *   const inference = yield* Model.inference(model, yield* model.init, { maxTokens: 256 })
 *   const session = yield* inference.generation()
 *   const prompt = yield* Tensor.fromTypedArray(Uint32Array.of(1, 2, 3), [1, 3])
 *   let { seq, token } = yield* session.addSampled(prompt, { temperature: 0, seed: 1 })
 *   const text = [token]
 *   while (text.length < 5) {
 *     token = (yield* session.stepSampled([{ seq, token, sampling: { temperature: 0, seed: 1 } }]))[0]!
 *     text.push(token)
 *   }
 *   yield* session.close()
 *   return text
 * })
 *
 * const text = await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * assert.ok(text.length === 5)
 * ```
 */
export const inference = (
  model: Model,
  params: Params,
  config: InferenceConfig,
): Effect.Effect<InferenceProgram, InferenceError | ModelError | Tensor.TensorError, Runtime.Runtime> =>
  Effect.gen(function*() {
    const settings = yield* settingsOf(config);
    yield* checkArity("inference", model.names, params);
    const held = yield* Tensor.compute(params);
    const programs = yield* Effect.onError(compiled(model, held, settings), () => Tensor.clearAll(held));
    return { generation: () => Effect.sync(() => generationOf(programs)) };
  });

type Optional = "attentionWindow" | "sequences";
type Settings = Required<Omit<InferenceConfig, Optional>> & Pick<InferenceConfig, Optional>;

function settingsOf(config: InferenceConfig): Effect.Effect<Settings, InferenceError> {
  if (!isRecord(config)) return fault("inference", `the settings are ${describe(config)}, expected an object with maxTokens`);
  const { maxTokens, blockSize = 16, attentionWindow, decodeBatch = 8, tokenDtype = "u32", kvDtype = "f32" } = config;
  const texts = config.sequences === undefined ? {} : { sequences: config.sequences };
  const { prefillChunk = blockSize } = config;
  const window = attentionWindow === undefined ? {} : { attentionWindow };
  const counts = { maxTokens, blockSize, prefillChunk, decodeBatch, ...window, ...texts };
  for (const [name, value] of Object.entries(counts)) {
    if (!Number.isInteger(value) || value <= 0) return fault("inference", `${name} is ${describe(value)}, expected a positive integer`);
  }
  if (maxTokens % blockSize !== 0) {
    return fault("inference", `maxTokens is ${maxTokens}, expected a multiple of blockSize, which is ${blockSize}`);
  }
  if (attentionWindow !== undefined && attentionWindow > maxTokens) {
    return fault("inference", `attentionWindow is ${attentionWindow}, expected at most maxTokens, which is ${maxTokens}`);
  }
  if (!["u32", "i64"].includes(tokenDtype)) return fault("inference", `tokenDtype is ${describe(tokenDtype)}, expected u32 or i64`);
  if (!["f32", "f16", "bf16", "int8"].includes(kvDtype)) {
    return fault("inference", `kvDtype is ${describe(kvDtype)}, expected f32, f16, bf16 or int8`);
  }
  return Effect.succeed({ ...config, maxTokens, blockSize, prefillChunk, decodeBatch, tokenDtype, kvDtype });
}

function compiled(model: Model, params: ReadonlyArray<Tensor.Concrete>, settings: Settings) {
  return Effect.gen(function*() {
    const { prefillChunk, decodeBatch, tokenDtype } = settings;
    // In a graph of one token nothing shows whether different ones are brought together.
    if (prefillChunk === 1 && settings.maxTokens > 1) yield* program(model, params, settings, 2, 1);
    const prefill = yield* program(model, params, settings, prefillChunk, 1);
    const single = yield* program(model, params, settings, 1, 1);
    const batched = decodeBatch === 1 ? undefined : yield* program(model, params, settings, 1, decodeBatch);
    const { layers, kvHeads, headDim, maxTokens, blockSize, kvDtype } = prefill;
    const pool = yield* Tensor.makeKvPool(layers, kvHeads, headDim, maxTokens, blockSize, kvDtype, prefill);
    return { pool, params, prefill, single, batched, chunk: prefillChunk, batch: decodeBatch, tokenDtype } satisfies Programs;
  });
}

/** The program for so many tokens of each of so many texts, traced over one text. */
function program(
  model: Model,
  params: ReadonlyArray<Tensor.Concrete>,
  { maxTokens, blockSize, kvDtype, attentionWindow, tokenDtype, prefillChunk, sequences }: Settings,
  length: number,
  batch: number,
) {
  // What does not fit may do so with a smaller chunk.
  const chunkOf = ({ reason }: Runtime.BackendError) =>
    reason === "unsupported-layout" && length === prefillChunk ? `; prefillChunk is ${prefillChunk}` : "";
  return Effect.gen(function*() {
    const slots: Array<Tensor.Lazy> = [];
    for (const [slot, param] of params.entries()) slots.push(yield* Tensor.makeInput(slot, param));
    const tokenSlot = params.length;
    const tokens = yield* Tensor.makeInput(tokenSlot, yield* Tensor.zeros([1, length], { dtype: tokenDtype }));
    const logits = yield* model.forward(slots, tokens);
    const [one, rows] = logits.shape;
    if (logits.shape.length !== 3 || one !== 1 || rows !== length) {
      return yield* fault("inference", `the model output must be [1, ${length}, vocab], got [${logits.shape}]`);
    }
    const window = attentionWindow === undefined ? {} : { window: attentionWindow };
    const texts = sequences === undefined ? {} : { sequences };
    const request = { maxTokens, blockSize, kvDtype, ...window, ...texts, batch, lastTokenRow: true, tokenSlot };
    return yield* Effect.mapError(Tensor.compileDecodeProgram([logits], request), (error) =>
      // The graph is what cannot be served: its attention, its positions, a layer over several texts.
      error.backend?.phase === "compile"
        ? new InferenceError({ op: "inference", message: `${error.message}${chunkOf(error.backend)}` })
        : error,
    );
  });
}
