// Trains a GPT on files of tokens that effect-fineweb-prepare.mjs made. Begun anew it goes on from its last checkpoint, with
// the windows of the epoch that are still to come.
//
//     node examples/node/effect-fineweb-train.mjs FOLDER [STEPS] [f32|mixedBf16]
//
// Writes checkpoint.safetensors every 100 steps and at the end, and model.safetensors at the end.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";

import * as BackendCpu from "@lanthorn/backend-cpu";
import { Checkpoint, LearningRate, Loss, Model, Optimizer, Sampler, Tensor, Trainer } from "@lanthorn/effect";
import * as Tokenizer from "@lanthorn/tokenizers";
import { Console, Effect } from "effect";

import { command, count, progress, Refusal } from "./command.mjs";
import { gpt, windows } from "./effect-gpt.mjs";

const CONTEXT = 64;
const BATCH = 16;

/** The tokens of a file. */
export const bin = (file) => {
  const bytes = readFileSync(file);
  if (bytes.length % 2 !== 0) throw new Refusal(`${file} has ${bytes.length} bytes, expected two for each token`);
  return new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
};

/** The model for the tokenizer of a folder. */
export const modelOf = (folder, sizes) =>
  Effect.gen(function* () {
    const tokenizer = yield* Tokenizer.fromFile(join(folder, "tokenizer.json"), Tokenizer.strictConfig);
    return { tokenizer, model: yield* gpt(tokenizer.vocabSize, sizes) };
  });

/** Trains up to a number of steps in all; gives the losses of the steps that were left and that on the texts held out. */
export const train = (folder, steps, { every = 100, precision = "f32", told = () => Effect.void, ...sizes } = {}) =>
  Effect.gen(function* () {
    const { model } = yield* modelOf(folder, sizes);
    const tokens = bin(join(folder, "train.bin"));
    const config = { length: tokens.length, block: CONTEXT, batch: BATCH };
    const file = join(folder, "checkpoint.safetensors");
    let sampler = yield* Sampler.make(config);
    const losses = [];
    const trainer = yield* Trainer.make(model, {
      optimizer: yield* Optimizer.adamW({ beta2: 0.99, weightDecay: 0.1 }),
      lr: LearningRate.withWarmup(LearningRate.cosine(3e-3, { totalSteps: steps, minLr: 3e-4 }), Math.ceil(steps / 20)),
      loss: Loss.crossEntropy,
      data: () => Effect.suspend(() => windows(tokens, sampler.next(), CONTEXT)),
      precision,
      // Each run ends where a checkpoint is due, and the next one goes on from it.
      stop: ({ step }) => step % every === 0 || step >= steps,
      onStep: (info) => Effect.andThen(Effect.sync(() => losses.push(info.loss)), told(info)),
    });
    let [params, resume] = [undefined, undefined];
    if (existsSync(file)) {
      const saved = yield* Checkpoint.loadWithSampler(file, trainer);
      sampler = yield* Sampler.restore(config, saved.sampler);
      ({ params, resume } = saved);
    }
    while (params === undefined || resume.step < steps) {
      const trained = yield* trainer.train(params, resume);
      yield* Checkpoint.saveWithSampler(file, trainer, trained, sampler);
      if (params !== undefined) yield* Tensor.clearAll([...params, ...trainer.config.optimizer.stateRoots(resume.state)]);
      ({ params } = trained);
      resume = { state: trained.state, step: trained.step };
    }
    yield* Model.save(model, params, join(folder, "model.safetensors"));
    return { losses, heldOut: yield* evaluate(model, params, bin(join(folder, "held-out.bin"))) };
  });

/** The mean loss on the windows of some tokens, 16 at most. */
const evaluate = (model, params, tokens) =>
  Effect.gen(function* () {
    const count = Math.min(16, Math.floor((tokens.length - 1) / CONTEXT));
    if (count === 0) return undefined;
    const starts = Array.from({ length: count }, (_, at) => at * CONTEXT);
    const { input, target } = yield* windows(tokens, starts, CONTEXT);
    const [loss] = yield* Tensor.toNumberArray(yield* Loss.crossEntropy(yield* model.execute(params, input), target));
    return loss;
  });

const program = Effect.gen(function* () {
  const [, , folder, given = "300", precision = "f32"] = argv;
  if (folder === undefined) throw new Refusal("usage: effect-fineweb-train.mjs FOLDER [STEPS] [f32|mixedBf16]");
  const steps = count("STEPS", given);
  const shown = progress(steps);
  const told = ({ step, loss }) => Effect.sync(() => shown.told(step, loss));
  const { heldOut } = yield* Effect.ensuring(train(folder, steps, { precision, told }), Effect.sync(shown.stop));
  yield* Console.log(`loss on texts held out: ${heldOut?.toFixed(3) ?? "there are none"}`);
});

await command(import.meta.url, () => Effect.runPromise(Effect.provide(program, BackendCpu.layer)));
