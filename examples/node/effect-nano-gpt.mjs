// Trains a tokenizer and a small GPT on a novel with the Effect API, and lets it write on as it is drawn, token by token.
//
//     node examples/node/effect-nano-gpt.mjs [STEPS] [TOKENS]
import { readFileSync } from "node:fs";
import { argv, stdout } from "node:process";

import * as BackendCpu from "@lanthorn/backend-cpu";
import { LearningRate, Loss, Model, Optimizer, Trainer } from "@lanthorn/effect";
import * as Tokenizer from "@lanthorn/tokenizers";
import { Effect, Stream } from "effect";

import { command, count, progress } from "./command.mjs";
import { gpt, windows, write } from "./effect-gpt.mjs";

const CONTEXT = 64;
const BATCH = 16;

/** A tokenizer of byte pairs, trained on a text. */
export const trainTokenizer = (text, vocabSize = 512) =>
  Tokenizer.train(
    {
      source: Tokenizer.trainTexts([text]),
      model: "BPE",
      vocabSize,
      minFrequency: 2,
      specialTokens: [],
      progress: Tokenizer.trainProgressNone,
    },
    Tokenizer.strictConfig,
  );

/** Trains a model on a text; gives it with its parameters, its tokenizer and the losses of all steps. */
export const train = (text, steps, told = () => Effect.void, sizes = {}) =>
  Effect.gen(function* () {
    const tokenizer = yield* trainTokenizer(text, sizes.vocabulary);
    const { data } = yield* tokenizer.encode(text);
    const model = yield* gpt(tokenizer.vocabSize, sizes);
    const losses = [];
    const trainer = yield* Trainer.make(model, {
      optimizer: yield* Optimizer.adamW({ beta2: 0.99, weightDecay: 0.1 }),
      lr: LearningRate.withWarmup(LearningRate.cosine(3e-3, { totalSteps: steps, minLr: 3e-4 }), Math.ceil(steps / 20)),
      loss: Loss.crossEntropy,
      data: () => {
        const starts = Array.from({ length: BATCH }, () => Math.floor(Math.random() * (data.length - CONTEXT)));
        return windows(data, starts, CONTEXT);
      },
      stop: ({ step }) => step >= steps,
      onStep: (info) => Effect.andThen(Effect.sync(() => losses.push(info.loss)), told(info)),
    });
    const { params } = yield* trainer.train();
    return { model, params, tokenizer, losses };
  });

/** The text that a trained model writes after another, as a stream of pieces. */
export const generate = ({ model, params, tokenizer }, start, count) =>
  Stream.unwrap(
    Effect.map(Model.inference(model, params, { maxTokens: 1024, prefillChunk: 16, attentionWindow: CONTEXT }), (program) =>
      write(program, tokenizer, start, count),
    ),
  );

const program = Effect.gen(function* () {
  const [steps, tokens] = [count("STEPS", argv[2] ?? "600"), count("TOKENS", argv[3] ?? "200", 0)];
  const text = readFileSync(new URL("../data/pride_and_prejudice.txt", import.meta.url), "utf8");
  const shown = progress(steps);
  const told = ({ step, loss }) => Effect.sync(() => shown.told(step, loss));
  const trained = yield* Effect.ensuring(train(text, steps, told), Effect.sync(shown.stop));
  const start = "It is a truth universally ";
  stdout.write(start);
  yield* Stream.runForEach(generate(trained, start, tokens), (piece) => Effect.sync(() => stdout.write(piece)));
  stdout.write("\n");
});

await command(import.meta.url, () => Effect.runPromise(Effect.provide(program, BackendCpu.layer)));
