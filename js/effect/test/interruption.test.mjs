// An interruption cancels the job of the engine that a fiber waits for, in each call that takes long. Nothing here is timed: the
// job that is to be cancelled stands in line behind another one, of so much work that it does not end by itself, or is such
// work itself.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { makeRuntime } from "@lanthorn/effect/adapter";
import { Checkpoint, LearningRate, Loss, Model, Optimizer, Runtime, Tensor, Trainer } from "@lanthorn/effect";
import { Cause, Effect, Exit, Fiber } from "effect";
import { load } from "lanthorn/addon";

import { folder, ids } from "./learning.mjs";
import { turn } from "./support.mjs";

/** The raw calls that give promises of jobs. */
const LONG = ["compute", "execute", "execute_sampled", "read", "save_safetensors", "load_safetensors"];

/** A runtime of its own over raw calls that are watched. `begun` is told of each job; `change` may put calls of its own there. */
function watched(begun, change = () => {}) {
  const addon = load();
  const raw = Object.assign(addon.graph(), { scratch: addon.scratch });
  /** The numbers of the jobs that were cancelled. */
  const cancelled = [];
  const watching = { ...raw, cancel: (number) => (cancelled.push(number), raw.cancel(number)) };
  for (const call of LONG) {
    watching[call] = (...args) => {
      const result = raw[call](...args);
      if (!(result instanceof Promise)) return result;
      // The kind of an error is the first of its lines.
      const end = result.then(() => "fulfilled", (text) => text.split("\n")[0]);
      begun({ call, number: raw.scratch[0], end });
      return result;
    };
  }
  change(watching);
  const placement = { id: "cpu", deviceType: "cpu", description: "watched" };
  return { raw, cancelled, service: makeRuntime(watching, { backend: { name: "watched" }, placement }) };
}

/** A service that does something before each call of that name, which is one of its own or of its extensions. */
function preceded(service, name, before) {
  const within = (object) => ({ ...object, [name]: (...args) => Effect.suspend(() => (before(), object[name](...args))) });
  if (name in service) return within(service);
  const [group, extension] = Object.entries(service.extensions).find(([, extension]) => name in extension);
  return { ...service, extensions: { ...service.extensions, [group]: within(extension) } };
}

/** Work of a minute and more. */
const endless = Effect.gen(function* () {
  let x = yield* Tensor.randn([1000, 1000]);
  for (let at = 0; at < 2000; at++) x = yield* Tensor.matmul(x, x);
  return yield* Tensor.sum(x);
});

/**
 * A test that a fiber is interrupted in the call of that name of the service, the `skip`th one after the first: that its job
 * is cancelled, and no other. `setUp` gives the program, and what is to be held afterwards. With `runs` the job is not put
 * behind another one.
 */
function interrupts(what, name, setUp, { skip = 0, runs = false } = {}) {
  test(`an interruption cancels ${what}`, async () => {
    let begun = () => {};
    const { raw, cancelled, service } = watched((job) => begun(job));
    try {
      const run = (effect) => Effect.runPromise(Effect.provideService(effect, Runtime.Runtime, service));
      const { program, after = Effect.void } = await run(setUp);
      const plug = await run(endless);

      let before;
      let left = skip;
      const called = preceded(service, name, () => {
        if (left-- !== 0) return;
        if (runs) before = { number: -1, end: "cancelled" };
        else Effect.runFork(Effect.provideService(Tensor.compute([plug]), Runtime.Runtime, service));
      });
      const { promise, resolve, reject } = withResolvers();
      begun = (job) => {
        if (left >= 0) return;
        if (before === undefined) before = job;
        else resolve(job);
      };
      const fiber = Effect.runFork(Effect.provideService(program, Runtime.Runtime, called));
      fiber.addObserver((exit) => reject(new Error(`it has ended before its job began: ${exit}`)));
      const job = await promise;
      begun = () => {};
      if (runs) for (let at = 0; at < 20; at++) await turn();

      let isOver = false;
      const ended = job.end.then((end) => (assert.equal(isOver, false, "the fiber has ended before its job"), end));
      const interruption = Effect.runPromise(Fiber.interrupt(fiber)).then(() => (isOver = true));
      // What is not cancelled would run for long.
      for (let at = 0; at < 5; at++) await turn();
      assert.deepEqual(cancelled, [job.number], "the numbers of the jobs that were cancelled");
      await interruption;
      const exit = await Effect.runPromise(Fiber.await(fiber));
      assert.ok(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause), String(exit));
      assert.equal(await ended, "cancelled");

      raw.cancel(before.number);
      assert.equal(await before.end, "cancelled");
      await run(after);
    } finally {
      raw.close();
    }
  });
}

function withResolvers() {
  const found = {};
  found.promise = new Promise((resolve, reject) => Object.assign(found, { resolve, reject }));
  return found;
}

const directory = folder();
const file = (name) => join(directory, name);
const computed = (tensor) => Effect.map(Effect.flatMap(tensor, (x) => Tensor.compute([x])), ([x]) => x);
const square = computed(Tensor.randn([256, 256]));
const large = computed(Tensor.full([1 << 20], 3));

interrupts(
  "a computation that runs",
  "compute",
  Effect.map(endless, (root) => ({ program: Tensor.compute([root]) })),
  { runs: true },
);

interrupts(
  "one product of matrices that runs",
  "compute",
  Effect.gen(function* () {
    const x = yield* computed(Tensor.ones([4000, 4000], { dtype: "f64" }));
    const product = yield* Tensor.matmul(x, x);
    return { program: Tensor.compute([product]) };
  }),
  { runs: true },
);

interrupts(
  "a compiled call that runs",
  "execute",
  Effect.gen(function* () {
    const compiled = yield* Tensor.compile(() => Effect.map(endless, (root) => [root]));
    return { program: compiled.call([]) };
  }),
  { runs: true },
);

interrupts("a computation that waits", "compute", Effect.gen(function* () {
  const x = yield* square;
  const product = yield* Tensor.matmul(x, x);
  return { program: Tensor.compute([product]) };
}));

interrupts("a compiled call that waits", "execute", Effect.gen(function* () {
  const compiled = yield* Tensor.compile(([x]) => Effect.map(Tensor.matmul(x, x), (product) => [product]));
  return { program: compiled.call([yield* square]) };
}));

interrupts("the execution of a model", "execute", Effect.gen(function* () {
  const model = yield* Model.linear("l", 256, 256);
  const params = yield* Tensor.compute(yield* model.init);
  return { program: model.execute(params, yield* square) };
}));

interrupts("a readback", "readback", Effect.map(large, (x) => ({ program: Tensor.toTypedArray(x) })));

interrupts("a readback of a node, in its computation", "compute", Effect.gen(function* () {
  return { program: Tensor.toNumberArray(yield* Tensor.neg(yield* large)) };
}));

interrupts("a save", "save", Effect.gen(function* () {
  const path = file("save.safetensors");
  const after = Effect.sync(() => assert.equal(existsSync(path), false));
  return { program: Tensor.save(path, { x: yield* large }), after };
}));

interrupts("a load", "load", Effect.gen(function* () {
  const path = file("load.safetensors");
  yield* Tensor.save(path, { x: yield* large });
  return { program: Tensor.load(path) };
}));

const network = Effect.gen(function* () {
  return yield* Model.chain(yield* Model.linear("a", 256, 256), yield* Model.tanh, yield* Model.linear("b", 256, 256));
});

const trainerOf = (make) =>
  Effect.gen(function* () {
    return yield* make(yield* network, {
      optimizer: yield* Optimizer.adam(),
      lr: LearningRate.constant(1e-3),
      loss: Loss.mse,
      data: { input: yield* square, target: yield* square },
      stop: ({ step }) => step >= 5,
    });
  });

const training = (make) => Effect.map(trainerOf(make), (trainer) => ({ program: trainer.train(), after: trainer.clear }));
interrupts("a step of training", "execute", training(Trainer.make), { skip: 2 });
// The first computation is that of the first parameters.
interrupts("a step of training that is not compiled", "compute", training(Trainer.makeUncompiled), { skip: 3 });

interrupts("the save of a checkpoint", "save", Effect.gen(function* () {
  const trainer = yield* trainerOf(Trainer.make);
  const path = file("checkpoint-save.safetensors");
  const after = Effect.sync(() => assert.equal(existsSync(path), false));
  return { program: Checkpoint.save(path, trainer, yield* trainer.train()), after };
}));

interrupts("the load of a checkpoint", "load", Effect.gen(function* () {
  const trainer = yield* trainerOf(Trainer.make);
  const path = file("checkpoint-load.safetensors");
  yield* Checkpoint.save(path, trainer, yield* trainer.train());
  return { program: Checkpoint.load(path, trainer) };
}));

interrupts("the load of a model", "load", Effect.gen(function* () {
  const model = yield* network;
  const path = file("model.safetensors");
  yield* Model.save(model, yield* model.init, path);
  return { program: Model.load(model, path) };
}));

/** A session of a small model with a text of six tokens, and what is to be held when a call was interrupted. */
const session = Effect.gen(function* () {
  const model = yield* Model.chain(
    yield* Model.embedding("token", 12, 8),
    yield* Model.multiHeadAttention("attention", 8, 2, { causal: true, rope: 10_000 }),
    yield* Model.linear("head", 8, 12),
  );
  const inference = yield* Model.inference(model, yield* model.init, { maxTokens: 64, blockSize: 4, decodeBatch: 2 });
  const generation = yield* inference.generation();
  const { seq } = yield* generation.add(yield* ids([1, 5, 3, 7, 2, 9]));
  const after = Effect.gen(function* () {
    assert.deepEqual([yield* generation.live(), yield* seq.cursor()], [1, 6]);
  });
  return { generation, seq, after, prompt: yield* ids([4, 4, 8, 1, 0, 2, 2, 6, 11]) };
});
const sampling = { temperature: 0, seed: 1 };

interrupts(
  "a prompt, in the second of its chunks",
  "execute",
  Effect.map(session, ({ generation, prompt, after }) => ({ program: generation.add(prompt), after })),
  { skip: 1 },
);
interrupts(
  "a prompt whose next token is drawn",
  "executeDecode",
  Effect.map(session, ({ generation, prompt, after }) => ({ program: generation.addSampled(prompt, sampling), after })),
);
interrupts(
  "a step of generation",
  "execute",
  Effect.map(session, ({ generation, seq, after }) => ({ program: generation.step([{ seq, token: 3 }]), after })),
);
interrupts(
  "a step of generation whose token is drawn",
  "executeDecode",
  Effect.map(session, ({ generation, seq, after }) => ({ program: generation.stepSampled([{ seq, token: 3, sampling }]), after })),
);

/**
 * A test that what a call gives is let go where it comes in spite of an interruption: the call was over before it could be
 * cancelled.
 */
function gives(what, call, setUp) {
  test(`${what} that comes after its interruption is let go`, async () => {
    const { raw, service } = watched(() => {}, (watching) => {
      const running = watching[call];
      watching.cancel = () => 0;
      watching[call] = (...args) => {
        const result = running(...args);
        if (!(result instanceof Promise)) return result;
        begun();
        return result.then(async (given) => (await over, given));
      };
    });
    let begun, over;
    try {
      const run = (effect) => Effect.runPromise(Effect.provideService(effect, Runtime.Runtime, service));
      const program = await run(setUp);
      const before = raw.stats();
      const [begins, ends] = [withResolvers(), withResolvers()];
      [begun, over] = [begins.resolve, ends.promise];
      const fiber = Effect.runFork(Effect.provideService(program, Runtime.Runtime, service));
      await begins.promise;
      const interruption = Effect.runPromise(Fiber.interrupt(fiber));
      ends.resolve();
      await interruption;
      const exit = await Effect.runPromise(Fiber.await(fiber));
      assert.ok(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause), String(exit));
      assert.equal(raw.stats(), before);
    } finally {
      raw.close();
    }
  });
}

gives("the result of a computation", "compute", Effect.map(Tensor.randn([1 << 20]), (root) => Tensor.compute([root])));

gives("the result of a compiled call", "execute", Effect.gen(function* () {
  const compiled = yield* Tensor.compile(() => Effect.map(Tensor.randn([1 << 20]), (root) => [root]));
  return compiled.call([]);
}));

gives("the result of a load", "load_safetensors", Effect.gen(function* () {
  const path = file("late.safetensors");
  yield* Tensor.save(path, { x: yield* large });
  return Tensor.load(path);
}));
