// A small language model for the examples of the Effect API, and how it writes.
import { Model, Tensor } from "@lanthorn/effect";
import { Effect, Stream } from "effect";

import { Refusal } from "./command.mjs";

/**
 * Logits `[batch, length, vocabulary]` of the next token at each place of tokens `[batch, length]`: layers of attention
 * with turned queries and keys (Su et al. 2021) and of two linear maps, each on top of what comes in.
 */
export const gpt = (vocabulary, { width = 96, heads = 4, layers = 3 } = {}) =>
  Effect.gen(function* () {
    const blocks = [];
    for (let layer = 0; layer < layers; layer++) {
      const attention = yield* Model.chain(
        yield* Model.layerNorm(`h${layer}.norm1`, width),
        yield* Model.multiHeadAttention(`h${layer}.attention`, width, heads, { causal: true, rope: 10_000 }),
      );
      const maps = yield* Model.chain(
        yield* Model.layerNorm(`h${layer}.norm2`, width),
        yield* Model.linear(`h${layer}.wide`, width, 4 * width),
        yield* Model.gelu(),
        yield* Model.linear(`h${layer}.narrow`, 4 * width, width),
      );
      blocks.push(yield* Model.residual(attention), yield* Model.residual(maps));
    }
    return yield* Model.chain(
      yield* Model.embedding("token", vocabulary, width),
      ...blocks,
      yield* Model.layerNorm("norm", width),
      yield* Model.linear("head", width, vocabulary),
    );
  });

/** Inputs and targets of windows of tokens that begin at `starts`: targets are the tokens after the inputs. */
export const windows = (tokens, starts, length) =>
  Effect.gen(function* () {
    const rows = (shift) => Uint32Array.from(starts.flatMap((start) => [...tokens.subarray(start + shift, start + shift + length)]));
    const shape = [starts.length, length];
    return { input: yield* Tensor.fromTypedArray(rows(0), shape), target: yield* Tensor.fromTypedArray(rows(1), shape) };
  });

/** What a model writes after a text, piece by piece; `count` tokens, or fewer where `end` comes. */
export const write = (program, tokenizer, start, count, { temperature = 0.8, topK = 40, seed = 1, end } = {}) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { data } = yield* tokenizer.encode(start);
      if (data.length === 0) return yield* Effect.fail(new Refusal("the text to go on from is empty, expected one of a token or more"));
      const session = yield* program.generation();
      const sampling = (counter) => ({ temperature, topK, seed, counter });
      const prompt = yield* Tensor.fromTypedArray(data, [1, data.length]);
      const { seq, token } = yield* session.addSampled(prompt, sampling(0));
      const ids = [];
      let told = "";
      /** The part of the text that is new and whole: a character may be of several tokens. */
      const news = (text) => {
        const whole = text.replace(/\uFFFD+$/, "");
        const piece = whole.slice(told.length);
        told = whole;
        return piece;
      };
      const pieces = Stream.unfold(token, (token) =>
        Effect.gen(function* () {
          if (ids.length === count || token === end) return undefined;
          ids.push(token);
          const piece = news(yield* tokenizer.decode(ids));
          if (ids.length === count) return [piece, end];
          const [next] = yield* session.stepSampled([{ seq, token, sampling: sampling(ids.length) }]);
          return [piece, next];
        }),
      );
      return Stream.ensuring(pieces, Effect.orDie(session.close()));
    }),
  );
