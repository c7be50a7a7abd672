// Checkpoints: training goes on as if it had never stopped, with a sampler or without.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { Checkpoint, LearningRate, Loss, Optimizer, Sampler, Tensor, Trainer } from "@lanthorn/effect";
import { Effect, Fiber } from "effect";

import { allValues, assertFault, effect, f32, fixedParams, folder, xorData, xorModel } from "./learning.mjs";

const directory = folder();

const trainerTo = (last, change = {}) =>
  Effect.gen(function* () {
    return yield* Trainer.make(yield* xorModel, {
      optimizer: yield* Optimizer.adam(),
      lr: LearningRate.withWarmup(LearningRate.cosine(0.1, { totalSteps: 30 }), 5),
      loss: Loss.mse,
      data: yield* xorData,
      stop: ({ step }) => step >= last,
      ...change,
    });
  });

for (const [name, optimizer] of [
  ["adamW", Optimizer.adamW()],
  ["sgd with momentum", Optimizer.sgd({ momentum: 0.9 })],
  ["sgd", Optimizer.sgd()],
]) {
  effect(`a run from a checkpoint ends with the same bits: ${name}`, function* () {
    const file = join(directory, `${name}.safetensors`);
    const change = { optimizer: yield* optimizer };
    const long = yield* trainerTo(20, change);
    const params = yield* fixedParams(long.model);
    const whole = yield* long.train(params);
    const short = yield* trainerTo(8, change);
    yield* Checkpoint.save(file, short, yield* short.train(params));
    const restored = yield* Checkpoint.load(file, long);
    assert.equal(restored.resume.step, 8);
    const rest = yield* long.train(restored.params, restored.resume);
    assert.equal(rest.step, 20);
    assert.equal(rest.loss, whole.loss);
    assert.deepEqual(yield* allValues(rest.params), yield* allValues(whole.params));
    const roots = long.config.optimizer.stateRoots;
    assert.deepEqual(yield* allValues(roots(rest.state)), yield* allValues(roots(whole.state)));
  });
}

/** Data of a step by where their windows begin. */
const windows = (sampler) => () =>
  Effect.gen(function* () {
    const starts = sampler.next();
    const rows = starts.flatMap((start) => [start / 100, (start % 16) / 16]);
    const targets = starts.map((start) => (start % 3) / 3);
    return { input: yield* f32(rows, [starts.length, 2]), target: yield* f32(targets, [starts.length, 1]) };
  });

effect("a sampler goes on within its epoch, and training with it", function* () {
  const file = join(directory, "sampler.safetensors");
  const config = { length: 200 * 8 + 1, block: 8, batch: 4 };
  const sampler = yield* Sampler.make(config);
  const copy = yield* Sampler.restore(config, sampler.state());
  const long = yield* trainerTo(20, { data: windows(copy) });
  const params = yield* fixedParams(long.model);
  const whole = yield* long.train(params);
  const short = yield* trainerTo(9, { data: windows(sampler) });
  yield* Checkpoint.saveWithSampler(file, short, yield* short.train(params), sampler);
  const saved = sampler.state();
  const checkpoint = yield* Checkpoint.loadWithSampler(file, short);
  assert.deepEqual(checkpoint.sampler, saved);
  const restored = yield* Sampler.restore(config, checkpoint.sampler);
  const rest = yield* (yield* trainerTo(20, { data: windows(restored) })).train(checkpoint.params, checkpoint.resume);
  assert.equal(rest.loss, whole.loss);
  assert.deepEqual(yield* allValues(rest.params), yield* allValues(whole.params));
  assert.equal((yield* Checkpoint.load(file, short)).resume.step, 9);
});

effect("the entries of a file are named after what they hold", function* () {
  const file = join(directory, "names.safetensors");
  const trainer = yield* trainerTo(1);
  yield* Checkpoint.save(file, trainer, yield* trainer.train());
  const tensors = yield* Tensor.load(file);
  const params = trainer.model.names.map((name) => `param:${name}`);
  const state = Array.from({ length: 9 }, (_, at) => `state:${at}`);
  assert.deepEqual(Object.keys(tensors).sort(), ["meta:step", ...params, ...state].sort());
  assert.equal(tensors["meta:step"].dtype, "u32");
});

effect("files that are no checkpoint of this trainer are refused", function* () {
  const base = join(directory, "base.safetensors");
  const trainer = yield* trainerTo(1);
  const sampler = yield* Sampler.make({ length: 33, block: 8, batch: 2 });
  yield* Checkpoint.saveWithSampler(base, trainer, yield* trainer.train(), sampler);
  const whole = yield* Tensor.load(base);
  const fault = (change) =>
    Effect.gen(function* () {
      const entries = { ...whole, ...change };
      for (const name of Object.keys(entries)) if (entries[name] === undefined) delete entries[name];
      const file = join(directory, "changed.safetensors");
      yield* Tensor.save(file, entries);
      return yield* Effect.flip(Checkpoint.loadWithSampler(file, trainer));
    });
  const u32 = (data, shape) => Tensor.fromTypedArray(Uint32Array.from(data), shape);
  const f32Scalar = yield* f32([1], []);
  const refused = [
    [{ "sampler:version": undefined }, /missing sampler:version/],
    [{ "sampler:version": f32Scalar }, /sampler:version is f32 \[\], expected a u32 scalar/],
    [{ "sampler:version": yield* u32([2], []) }, /unsupported sampler version 2/],
    [{ "sampler:length": yield* u32([33], [1]) }, /expected a u32 scalar/],
    [{ "sampler:order": yield* u32([0, 1, 2, 3], [2, 2]) }, /expected a u32 vector/],
    [{ "sampler:cursor": undefined }, /missing sampler:cursor/],
    [{ "meta:step": undefined }, /missing meta:step/],
    [{ "meta:step": f32Scalar }, /invalid meta:step/],
    [{ "param:fc1.bias": undefined }, /missing param:fc1.bias/],
    [{ "param:fc1.bias": yield* f32([1, 2], [2]) }, /param:fc1.bias is of shape \[2\], expected \[8\]/],
    [{ "state:0": f32Scalar }, /state:0 is f32 \[\], expected f32 \[2,8\]/],
    [{ "state:8": undefined }, /missing state:8: the file holds 8 entries state:\*, the optimiser of the trainer expects 9/],
    [{ "state:9": f32Scalar }, /unexpected state:9: the file holds 10 entries state:\*, the optimiser of the trainer expects 9/],
    [{ "param:other": f32Scalar }, /no parameter for the entry param:other; is the model another one\?/],
    [{ "param:fc1.bias": yield* Tensor.zeros([8], { dtype: "i64" }) }, /changed.safetensors: param:fc1.bias is i64, expected f32 or f64/],
    [{ "param:fc1.bias": yield* Tensor.zeros([8], { dtype: "bf16" }) }, /param:fc1.bias is bf16, which the optimiser does not take/],
    [
      { "param:fc1.bias": yield* Tensor.zeros([8], { dtype: "f64" }) },
      /changed.safetensors: state:1 is f32 \[8\], expected f64 \[8\] as param:fc1.bias is f64/,
    ],
    [{ "state:1": yield* Tensor.zeros([8], { dtype: "f64" }) }, /state:1 is f64 \[8\], expected f32 \[8\] as param:fc1.weight is f32/],
  ];
  for (const [change, message] of refused) assertFault(yield* fault(change), "CheckpointError", message);
  const absent = yield* Effect.flip(Checkpoint.load(join(directory, "absent.safetensors"), trainer));
  assert.equal(absent._tag, "TensorError");
});

effect("what is not of this trainer is not written", function* () {
  const file = join(directory, "never.safetensors");
  const trainer = yield* trainerTo(1);
  const trained = yield* trainer.train();
  assertFault(yield* Effect.flip(Checkpoint.save(file, trainer, { ...trained, params: [] })), "TensorError", /4 parameters, got 0/);
  assertFault(yield* Effect.flip(Checkpoint.save(file, trainer, { ...trained, step: 2 ** 32 })), "TensorError", /step is 4294967296/);
  assert.ok(!existsSync(file));
});

effect("a file of another optimiser is refused, whichever has more state", function* () {
  const optimizers = {
    adam: [yield* Optimizer.adam(), 9],
    momentum: [yield* Optimizer.sgd({ momentum: 0.5 }), 5],
    plain: [yield* Optimizer.sgd(), 0],
  };
  for (const [name, [saved, held]] of Object.entries(optimizers)) {
    const file = join(directory, `of-${name}.safetensors`);
    const trainer = yield* trainerTo(1, { optimizer: saved });
    yield* Checkpoint.save(file, trainer, yield* trainer.train());
    for (const [other, [optimizer, expected]] of Object.entries(optimizers)) {
      const loaded = Checkpoint.load(file, yield* trainerTo(1, { optimizer }));
      if (other === name) {
        yield* loaded;
        continue;
      }
      const message = `of-${name}.*: the file holds ${held} entries state:\\*, the optimiser of the trainer expects ${expected}; is`;
      assertFault(yield* Effect.flip(loaded), "CheckpointError", new RegExp(message));
    }
  }
});

effect("under mixedBf16 parameters of a file are f32", function* () {
  const file = join(directory, "wide.safetensors");
  const wide = yield* trainerTo(1, { precision: "mixedBf16" });
  const plain = yield* trainerTo(1);
  const trained = yield* plain.train();
  const params = yield* Tensor.compute(yield* Effect.forEach(trained.params, (param) => Tensor.cast(param, "f64")));
  yield* Checkpoint.save(file, plain, { ...trained, params });
  const fault = yield* Effect.flip(Checkpoint.load(file, wide));
  assertFault(fault, "CheckpointError", /wide.safetensors: param:fc1.weight is f64, expected f32$/);
});

effect("an interrupted save leaves the checkpoint of before or the new one, from which training goes on", function* () {
  const file = join(directory, "interrupted.safetensors");
  const trainer = yield* trainerTo(4);
  const early = yield* trainer.train(yield* fixedParams(trainer.model));
  const late = yield* (yield* trainerTo(8)).train(early.params, { state: early.state, step: early.step });
  const rest = {};
  for (const trained of [early, late]) {
    const resume = { state: trained.state, step: trained.step };
    rest[trained.step] = (yield* (yield* trainerTo(12)).train(trained.params, resume)).loss;
  }
  for (const delay of [undefined, 0, 1, 2, 4, 1000]) {
    yield* Checkpoint.save(file, trainer, early);
    const saving = Checkpoint.save(file, trainer, late);
    yield* delay === undefined
      ? Effect.flatMap(Effect.forkChild(saving, { startImmediately: true }), Fiber.interrupt)
      : Effect.timeoutOption(saving, delay);
    const { params, resume } = yield* Checkpoint.load(file, trainer);
    assert.ok(resume.step === 4 || resume.step === 8);
    assert.equal((yield* (yield* trainerTo(12)).train(params, resume)).loss, rest[resume.step]);
  }
});
