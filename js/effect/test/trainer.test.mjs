// Training: the compiled step against the one that is not, memory, precision, callbacks, resumption, interruption.
import assert from "node:assert/strict";

import { LearningRate, Loss, Model, Optimizer, Runtime, Tensor, Trainer } from "@lanthorn/effect";
import { Deferred, Duration, Effect, Fiber } from "effect";
import { TestClock } from "effect/testing";

import { allValues, assertClose, assertFault, effect, f32, fixedParams, values, xorData, xorModel } from "./learning.mjs";
import { turn } from "./support.mjs";

/** Settings for exclusive or, over which others are written. */
const settings = (change = {}) =>
  Effect.gen(function* () {
    return {
      optimizer: yield* Optimizer.adam(),
      lr: LearningRate.constant(0.05),
      loss: Loss.mse,
      data: change.data ?? (yield* xorData),
      stop: ({ step }) => step >= 20,
      ...change,
    };
  });

/** What other tests have left behind is collected, so that bytes are those of the test. */
const collected = Effect.promise(async () => {
  for (let at = 0; at < 3; at++) {
    gc();
    await turn();
  }
});

const bytes = Effect.flatMap(Runtime.Runtime, ({ extensions }) => extensions.diagnostics.externalMemoryBytes);

const release = (trainer, { params, state }) =>
  Tensor.clearAll([...params, ...trainer.config.optimizer.stateRoots(state).filter(Tensor.isTensor)]);

effect("exclusive or is learned", function* () {
  const model = yield* xorModel;
  const config = yield* settings({ lr: LearningRate.constant(0.1), stop: ({ step, loss }) => step >= 3000 || loss < 1e-3 });
  const trainer = yield* Trainer.make(model, config);
  const { params, loss, step } = yield* trainer.train(yield* fixedParams(model));
  assert.ok(loss < 1e-3 && step < 3000, `${loss} after ${step}`);
  const answers = yield* values(yield* model.forward(params, config.data.input));
  assert.deepEqual(answers.map(Math.round), [0, 1, 1, 0]);
  assert.deepEqual(yield* trainer.stats, { cached: 1, compiled: 1 });
});

for (const [name, change] of [
  ["sgd", { optimizer: Optimizer.sgd() }],
  ["sgd with momentum", { optimizer: Optimizer.sgd({ momentum: 0.9, dampening: 0.5, weightDecay: 0.1 }) }],
  ["adam under a schedule", { optimizer: Optimizer.adam(), lr: LearningRate.cosine(0.1, { totalSteps: 25 }) }],
  ["adamW", { optimizer: Optimizer.adamW() }],
]) {
  effect(`the compiled step gives what the other one gives: ${name}`, function* () {
    const model = yield* xorModel;
    const params = yield* fixedParams(model);
    const traced = { losses: [] };
    const reference = { losses: [] };
    for (const [made, seen] of [[Trainer.make, traced], [Trainer.makeUncompiled, reference]]) {
      const onStep = ({ loss }) => Effect.sync(() => seen.losses.push(loss));
      const trainer = yield* made(model, yield* settings({ ...change, optimizer: yield* change.optimizer, onStep }));
      const trained = yield* trainer.train(params);
      seen.params = yield* allValues(trained.params);
      seen.state = yield* allValues(trainer.config.optimizer.stateRoots(trained.state));
      seen.stats = yield* trainer.stats;
    }
    assert.equal(traced.losses.length, 20);
    assert.deepEqual(traced.losses, reference.losses);
    assert.deepEqual(traced.params, reference.params);
    assert.deepEqual(traced.state, reference.state);
    assert.deepEqual(traced.stats, { cached: 1, compiled: 1 });
    assert.deepEqual(reference.stats, { cached: 0, compiled: 0 });
  });
}

effect("the first steps are those of the rule by hand", function* () {
  // One weight, one number: prediction w x, loss (w x - y)^2, gradient 2 x (w x - y).
  const model = yield* Model.define({
    parameters: [{ name: "w", shape: [1] }],
    init: Effect.map(Tensor.full([1], 1), (w) => [w]),
    forward: ([w], x) => Tensor.mul(x, w),
  });
  const losses = [];
  const config = yield* settings({
    optimizer: yield* Optimizer.sgd(),
    lr: (step) => 0.1 / (step + 1),
    data: { input: yield* f32([2]), target: yield* f32([6]) },
    stop: ({ step }) => step >= 3,
    onStep: ({ loss }) => Effect.sync(() => losses.push(loss)),
  });
  const { params } = yield* (yield* Trainer.make(model, config)).train();
  let w = 1;
  const expected = [0, 1, 2].map((step) => {
    const error = 2 * w - 6;
    w -= (0.1 / (step + 1)) * 4 * error;
    return error * error;
  });
  assertClose(losses, expected);
  assertClose(yield* values(params[0]), [w]);
});

effect("what a run has made is gone when it is released, whatever the number of steps", function* () {
  const model = yield* xorModel;
  const seen = [];
  const config = yield* settings({
    stop: ({ step }) => step >= 3000,
    onStep: ({ step }) => (step % 500 === 0 ? Effect.map(Effect.andThen(collected, bytes), (now) => void seen.push(now)) : Effect.void),
  });
  const trainer = yield* Trainer.make(model, config);
  yield* collected;
  const trained = yield* trainer.train();
  assert.equal(seen.length, 6);
  assert.deepEqual(seen, Array(6).fill(seen[0]));
  const before = yield* bytes;
  yield* release(trainer, trained);
  const after = yield* bytes;
  assert.ok(after < before, `${before} to ${after}`);
  yield* release(trainer, yield* trainer.train());
  assert.equal(yield* bytes, after);
});

effect("parameters and a state that were given stay the caller's", function* () {
  const model = yield* xorModel;
  const params = yield* fixedParams(model);
  const numbers = yield* allValues(params);
  const trainer = yield* Trainer.make(model, yield* settings());
  const first = yield* trainer.train(params);
  assert.deepEqual(yield* allValues(params), numbers);
  const roots = trainer.config.optimizer.stateRoots(first.state);
  const state = yield* allValues(roots);
  yield* trainer.train(first.params, { state: first.state, step: 19 });
  assert.deepEqual(yield* allValues(roots), state);
});

effect("a resumed run goes on as if it had never stopped", function* () {
  const model = yield* xorModel;
  const params = yield* fixedParams(model);
  const to = (last) => Effect.flatMap(settings({ lr: LearningRate.cosine(0.1, { totalSteps: 20 }), stop: ({ step }) => step >= last }), (config) => Trainer.make(model, config));
  const whole = yield* (yield* to(20)).train(params);
  const first = yield* (yield* to(8)).train(params);
  assert.equal(first.step, 8);
  const rest = yield* (yield* to(20)).train(first.params, { state: first.state, step: first.step });
  assert.equal(rest.step, 20);
  assert.equal(rest.loss, whole.loss);
  assert.deepEqual(yield* allValues(rest.params), yield* allValues(whole.params));
});

effect("mixed bf16 learns, with parameters and state in f32", function* () {
  const model = yield* xorModel;
  const { input, target } = yield* xorData;
  const data = { input: yield* Tensor.cast(input, "bf16"), target: yield* Tensor.cast(target, "bf16") };
  const config = yield* settings({ data, precision: "mixedBf16", lr: LearningRate.constant(0.1), stop: ({ step }) => step >= 600 });
  const params = yield* fixedParams(model);
  const { params: trained, state, loss } = yield* (yield* Trainer.make(model, config)).train(params);
  assert.ok(loss < 0.02, `${loss}`);
  assert.ok([...trained, ...state.m, ...state.v].every(({ dtype }) => dtype === "f32"));
  const seen = yield* Effect.forEach(trained, (param) => Tensor.cast(param, "bf16"));
  const output = yield* model.forward(seen, data.input);
  assert.equal(output.dtype, "bf16");
  assert.deepEqual((yield* values(output)).map(Math.round), [0, 1, 1, 0]);
  const single = { ...config, stop: () => true };
  const once = yield* (yield* Trainer.make(model, single)).train(params);
  const reference = yield* (yield* Trainer.makeUncompiled(model, single)).train(params);
  assert.deepEqual(yield* allValues(once.params), yield* allValues(reference.params));
});

effect("mixed bf16 takes f32 parameters and a backend that has it", function* () {
  const model = yield* xorModel;
  const trainer = yield* Trainer.make(model, yield* settings({ precision: "mixedBf16" }));
  const wide = yield* Effect.forEach(yield* fixedParams(model), (param) => Tensor.cast(param, "f64"));
  assertFault(yield* Effect.flip(trainer.train(wide)), "ModelError", /fc1.weight is f64; with mixedBf16/);
  const runtime = yield* Runtime.Runtime;
  const poor = { ...runtime, capabilities: { ...runtime.capabilities, features: [] } };
  const fault = yield* Effect.flip(Effect.provideService(trainer.train(), Runtime.Runtime, poor));
  assertFault(fault, "ModelError", /mixed-bf16/);
});

effect("callbacks see every step in order, before the stop policy is asked", function* () {
  const model = yield* xorModel;
  const seen = [];
  const config = yield* settings({
    onStep: ({ step, loss, elapsed }) => Effect.sync(() => seen.push(["step", step, Number.isFinite(loss), Duration.toMillis(elapsed) >= 0])),
    stop: ({ step }) => (seen.push(["stop", step, true, true]), step >= 3),
  });
  yield* (yield* Trainer.make(model, config)).train();
  assert.deepEqual(seen, [1, 2, 3].flatMap((step) => [["step", step, true, true], ["stop", step, true, true]]));
});

effect("there is at least one step", function* () {
  const { step } = yield* (yield* Trainer.make(yield* xorModel, yield* settings({ stop: () => true }))).train();
  assert.equal(step, 1);
});

effect("each run has a clock of its own, unless it is told when it began", function* () {
  const times = [];
  const config = yield* settings({
    stop: ({ step }) => step % 3 === 0,
    onStep: ({ elapsed }) => Effect.andThen(Effect.sync(() => times.push(Duration.toMillis(elapsed))), TestClock.adjust("100 millis")),
  });
  const trainer = yield* Trainer.make(yield* xorModel, config);
  const both = Effect.gen(function* () {
    const { params, state, step } = yield* trainer.train();
    yield* trainer.train(params, { state, step, startedAt: 0 });
  });
  yield* Effect.provide(both, TestClock.layer());
  assert.deepEqual(times, [0, 100, 200, 300, 400, 500]);
});

effect("data of a step are asked for by its number, and rates by the steps before it", function* () {
  const { input, target } = yield* xorData;
  const [steps, rates] = [[], []];
  const config = yield* settings({
    data: (step) => Effect.sync(() => (steps.push(step), { input, target })),
    lr: (step) => (rates.push(step), 0.1),
    stop: ({ step }) => step >= 4,
  });
  yield* (yield* Trainer.make(yield* xorModel, config)).train();
  assert.deepEqual(steps, [1, 2, 3, 4]);
  assert.deepEqual(rates, [0, 1, 2, 3]);
});

effect("data of other shapes get a program of their own", function* () {
  const large = yield* xorData;
  const small = { input: yield* f32([0, 1], [1, 2]), target: yield* f32([1], [1, 1]) };
  const config = yield* settings({ data: (step) => Effect.succeed(step % 2 === 1 ? small : large), stop: ({ step }) => step >= 6 });
  const trainer = yield* Trainer.make(yield* xorModel, config);
  yield* trainer.train();
  assert.deepEqual(yield* trainer.stats, { cached: 2, compiled: 2 });
  yield* trainer.clear;
  assert.deepEqual(yield* trainer.stats, { cached: 0, compiled: 2 });
});

effect("dropout is drawn anew at each step of one program", function* () {
  const model = yield* Model.chain(yield* Model.dropout({ p: 0.5 }), yield* Model.linear("l", 64, 1));
  const losses = [];
  const config = yield* settings({
    optimizer: yield* Optimizer.sgd(),
    lr: LearningRate.constant(1e-9),
    data: { input: yield* Tensor.ones([1, 64]), target: yield* Tensor.zeros([1, 1]) },
    stop: ({ step }) => step >= 5,
    onStep: ({ loss }) => Effect.sync(() => losses.push(loss)),
  });
  yield* (yield* Trainer.make(model, config)).train(yield* fixedParams(model));
  assert.equal(new Set(losses).size, 5, `${losses}`);
});

effect("a loss that is no number and callbacks that fail end the run with their errors", function* () {
  const model = yield* xorModel;
  const data = yield* xorData;
  yield* collected;
  const before = yield* bytes;
  const none = yield* Trainer.make(model, yield* settings({ data, loss: (pred, target) => Loss.mse(pred, target, { reduction: "none" }) }));
  assert.equal((yield* Effect.flip(none.train()))._tag, "GradError");
  const failing = yield* Trainer.make(model, yield* settings({ data, onStep: ({ step }) => (step === 3 ? Effect.fail("enough") : Effect.void) }));
  assert.equal(yield* Effect.flip(failing.train()), "enough");
  const wrong = yield* Trainer.make(model, yield* settings({ data }));
  assertFault(yield* Effect.flip(wrong.train([])), "ModelError", /4 parameters, got 0/);
  assert.equal(yield* bytes, before);
});

effect("an interrupted run releases what it has made", function* () {
  const model = yield* xorModel;
  const data = yield* xorData;
  yield* collected;
  const before = yield* bytes;
  const started = yield* Deferred.make();
  const config = yield* settings({
    data,
    stop: () => false,
    onStep: ({ step }) => (step === 50 ? Deferred.succeed(started, undefined) : Effect.void),
  });
  const trainer = yield* Trainer.make(model, config);
  const fiber = yield* Effect.forkChild(trainer.train());
  yield* Deferred.await(started);
  yield* Fiber.interrupt(fiber);
  yield* trainer.clear;
  assert.equal(yield* bytes, before);
});

effect("a resumption that is none is named by what was found, and leaves nothing behind", function* () {
  const model = yield* xorModel;
  const data = yield* xorData;
  const adam = yield* Trainer.make(model, yield* settings({ data }));
  const plain = yield* Trainer.make(model, yield* settings({ data, optimizer: yield* Optimizer.sgd() }));
  const heavy = yield* Trainer.make(model, yield* settings({ data, optimizer: yield* Optimizer.sgd({ momentum: 0.9 }) }));
  const odd = yield* Trainer.make(model, yield* settings({ data, optimizer: { ...adam.config.optimizer, stateRoots: () => [1] } }));
  const params = yield* Tensor.compute(yield* fixedParams(model));
  const [{ state }, { state: velocity }] = [yield* adam.train(params), yield* heavy.train(params)];
  yield* collected;
  const before = yield* bytes;
  const refused = [
    [adam, { state: velocity, step: 1 }, /state to go on from is \{velocity, first\}, expected \{m, v, t\} as the optimiser has it/],
    [heavy, { state, step: 1 }, /is \{m, v, t\}, expected \{velocity, first\}/],
    [plain, { state, step: 1 }, /is \{m, v, t\}, expected \{velocity, first\}/],
    [adam, { state: {}, step: 1 }, /is \{\}, expected \{m, v, t\}/],
    [adam, { state: null, step: 1 }, /is null, expected \{m, v, t\}/],
    [adam, { step: 1 }, /is undefined, expected/],
    [adam, { state: { ...state, m: 1 }, step: 1 }, /is \{m, v, t\} of other content/],
    [adam, { state: { ...state, t: 3 }, step: 1 }, /with 3 in the place of tensor 8/],
    [odd, { state, step: 1 }, /with 1 in the place of tensor 0/],
    [adam, { state, step: Number.NaN }, /the step to go on from is NaN, expected an integer of at least 0/],
    [adam, { state, step: -5 }, /is -5/],
    [adam, { state, step: 1.5 }, /is 1.5/],
    [adam, { state, step: "3" }, /is the text "3"/],
    [adam, { state }, /is undefined/],
    [adam, { state, step: 1, startedAt: Number.NaN }, /startedAt is NaN/],
  ];
  for (const [trainer, resume, message] of refused) {
    assertFault(yield* Effect.flip(trainer.train(params, resume)), "ModelError", message);
  }
  const left = yield* Effect.flip(plain.train(params, { state: velocity, step: 1 }));
  assertFault(left, "TensorError", /not of sgd without momentum/);
  assertFault(yield* Effect.flip(adam.train([...params.slice(0, 3), null])), "ModelError", /fc2.bias is null, expected a tensor/);
  yield* collected;
  assert.equal(yield* bytes, before);
});

effect("rates, data and a precision that are none are named by what was found", function* () {
  const model = yield* xorModel;
  const data = yield* xorData;
  const refused = [
    [{ lr: () => Number.NaN }, /lr gives NaN for step 0, counted from 0; expected a finite number/],
    [{ lr: () => undefined }, /lr gives undefined for step 0/],
    [{ lr: (step) => (step < 2 ? 0.1 : Infinity) }, /lr gives Infinity for step 2/],
    [{ lr: () => 1e300 }, /lr gives 1e\+300/],
    [{ lr: () => "0.1" }, /lr gives the text "0.1"/],
    [{ lr: 0.1 }, /lr is 0.1, expected a function of the step/],
    [{ data: () => Effect.succeed(undefined) }, /the data of step 1 is undefined, expected input and target/],
    [{ data: (step) => Effect.succeed(step < 3 ? data : { input: data.input }) }, /target of the data of step 3 is undefined, expected a tensor/],
    [{ data: () => Effect.succeed({ ...data, input: [1, 2] }) }, /input of the data of step 1 is an object of class Array/],
    [{ data: () => undefined }, /data gives undefined for step 1, expected an Effect/],
    [{ data: { input: data.input } }, /target of the data is undefined/],
    [{ data: null }, /the data is null/],
    [{ precision: "f8" }, /precision is the text "f8", expected f32 or mixedBf16/],
  ];
  for (const make of [Trainer.make, Trainer.makeUncompiled]) {
    for (const [change, message] of refused) {
      const trainer = yield* make(model, { ...(yield* settings({ data })), ...change });
      assertFault(yield* Effect.flip(trainer.train()), "ModelError", message);
    }
  }
});
