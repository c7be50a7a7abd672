// Programs that are written for other packages of these names run, and give what they say.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

import { LearningRate, Loss, Model, Optimizer, Tensor, Trainer } from "@lanthorn/effect";

import { allValues, assertClose, effect, f32, fixedParams, folder, ids, values, xorData, xorModel } from "./learning.mjs";

/** Within the package, so that imports of it are found. */
const out = fileURLToPath(new URL("../out/", import.meta.url));
mkdirSync(out, { recursive: true });
const source = readFileSync(new URL("programs.ts", import.meta.url), "utf8");
const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
writeFileSync(`${out}programs.mjs`, ts.transpileModule(source, { compilerOptions: options }).outputText);
const programs = await import(`${out}programs.mjs`);

// Files that programs write lie where nobody keeps them.
process.chdir(folder());

effect("a model builds and computes", function* () {
  const input = yield* f32([0, 1, 1, 0], [2, 2]);
  const { lazyOutput, concreteOutput } = yield* programs.runModel(input);
  assert.ok(Tensor.isLazyTensor(lazyOutput) && Tensor.isTensor(concreteOutput));
  assert.deepEqual(concreteOutput.shape, [2, 1]);
  assertClose(yield* values(concreteOutput), yield* values(lazyOutput));
});

effect("an update is a graph of its own", function* () {
  const next = yield* programs.update([yield* f32([1])], [yield* f32([0.5])], yield* Tensor.full([], 0.1));
  assertClose(yield* values(next.params[0]), [1 - 0.1 * 0.01 - 0.1]);
});

effect("a trainer learns exclusive or", function* () {
  const { input, target } = yield* xorData;
  const { loss, step } = yield* programs.train(yield* xorModel, input, target);
  assert.ok(step <= 3000 && loss < 0.2, `${loss} after ${step}`);
});

effect("training goes on from a checkpoint", function* () {
  let last = 5;
  const trainer = yield* Trainer.make(yield* xorModel, {
    optimizer: yield* Optimizer.adam(),
    lr: LearningRate.constant(0.1),
    loss: Loss.mse,
    data: yield* xorData,
    stop: ({ step }) => step >= last,
  });
  const trained = yield* trainer.train();
  last = 9;
  const resumed = yield* programs.saveAndResume(trainer, trained);
  assert.equal(resumed.step, 9);
  const straight = yield* trainer.train(trained.params, { state: trained.state, step: trained.step });
  assert.equal(resumed.loss, straight.loss);
});

effect("parameters go to a file and come back", function* () {
  const model = yield* xorModel;
  const params = yield* fixedParams(model);
  assert.deepEqual(yield* allValues(yield* programs.roundTrip(model, params)), yield* allValues(params));
});

effect("a model writes with a cache", function* () {
  const model = yield* Model.chain(
    yield* Model.embedding("token", 12, 8),
    yield* Model.multiHeadAttention("attention", 8, 2, { causal: true, rope: 10_000 }),
    yield* Model.linear("head", 8, 12),
  );
  const params = yield* fixedParams(model);
  const text = [1, 5, 3];
  const logits = yield* programs.generate(model, params, yield* ids(text), [7, 2]);
  const output = yield* model.forward(params, yield* ids([...text, 7, 2]));
  const last = yield* Tensor.slice(output, { start: [0, 4, 0], end: [1, 5, 12] });
  assertClose(yield* values(logits), yield* values(last), 3e-2);
});
