// Writes on with the model that effect-fineweb-train.mjs left in a folder, as it is drawn, token by token.
//
//     node examples/node/effect-fineweb-generate.mjs FOLDER [TEXT] [TOKENS] [f32|f16|bf16|int8]
import { join } from "node:path";
import { argv, stdout } from "node:process";

import * as BackendCpu from "@lanthorn/backend-cpu";
import { Model } from "@lanthorn/effect";
import { Effect, Option, Stream } from "effect";

import { command, count, Refusal } from "./command.mjs";
import { END } from "./effect-fineweb-prepare.mjs";
import { modelOf } from "./effect-fineweb-train.mjs";
import { write } from "./effect-gpt.mjs";

/** What the model of a folder writes after a text, as a stream of pieces. */
export const generate = (folder, start, count, { kvDtype = "f32", ...sizes } = {}) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { model, tokenizer } = yield* modelOf(folder, sizes);
      const params = yield* Model.load(model, join(folder, "model.safetensors"));
      const config = { maxTokens: 1024, prefillChunk: 16, attentionWindow: 64, kvDtype };
      const program = yield* Model.inference(model, params, config);
      const end = Option.getOrUndefined(tokenizer.tokenToId(END));
      return write(program, tokenizer, start, count, { end });
    }),
  );

const program = Effect.gen(function* () {
  const [, , folder, start = "The ", given = "200", kvDtype = "f32"] = argv;
  if (folder === undefined) throw new Refusal("usage: effect-fineweb-generate.mjs FOLDER [TEXT] [TOKENS] [f32|f16|bf16|int8]");
  const tokens = count("TOKENS", given, 0);
  let told = start;
  yield* Stream.runForEach(generate(folder, start, tokens, { kvDtype }), (piece) =>
    Effect.sync(() => {
      stdout.write(told + piece);
      told = "";
    }),
  );
  stdout.write(`${told}\n`);
});

await command(import.meta.url, () => Effect.runPromise(Effect.provide(program, BackendCpu.layer)));
