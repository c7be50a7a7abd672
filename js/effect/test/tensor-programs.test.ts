// Programs as people write them, one for each that the programming model is explained by: they compile under strict settings
// without casts, and run. Those of models and training are in training-programs.test.ts.
import * as BackendCpu from "@lanthorn/backend-cpu";
import { Gradient, Loss, Runtime, Tensor } from "@lanthorn/effect";
import * as Tokenizer from "@lanthorn/tokenizers";
import { Effect, Layer } from "effect";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const run = <A, E>(effect: Effect.Effect<A, E, Runtime.Runtime>) =>
  Effect.runPromise(effect.pipe(Effect.provide(BackendCpu.layer)));

test("a product of random matrices, shifted, and its mean", async () => {
  const program = Effect.gen(function* () {
    const a = yield* Tensor.randn([512, 512]);
    const b = yield* Tensor.randn([512, 512]);
    const product = yield* Tensor.matmul(a, b);
    const shifted = yield* Tensor.add(product, yield* Tensor.constantLike(product, 1));
    const mean = yield* Tensor.mean(shifted);
    const [value] = yield* Tensor.compute([mean]);
    const numbers = yield* Tensor.toNumberArray(value);
    return numbers[0];
  });
  const mean = await run(program);
  assert.ok(mean !== undefined && Math.abs(mean - 1) < 0.5, `${mean}`);
});

test("the service and the metadata of a tensor", async () => {
  const inspect = Effect.gen(function* () {
    const runtime = yield* Runtime.Runtime;
    const tensor = yield* Tensor.ones([2, 2]);
    return { backend: runtime.backend.name, placement: tensor.placement, dtype: tensor.dtype, shape: tensor.shape };
  });
  const found = await run(inspect);
  assert.deepEqual([found.backend, found.placement.id, found.dtype, found.shape], ["cpu", "cpu", "f32", [2, 2]]);
});

test("backends have a factory and a layer", () => {
  const makeRuntime: () => Runtime.RuntimeService = BackendCpu.makeRuntime;
  const layer: Layer.Layer<Runtime.Runtime> = BackendCpu.layer;
  assert.ok(typeof makeRuntime === "function" && layer !== undefined);
});

test("a graph is made before it is computed", async () => {
  const graph = Effect.gen(function* () {
    const x = yield* Tensor.ones([2, 3]);
    const y = yield* Tensor.full([1, 3], 2);
    const z = yield* Tensor.mul(x, y);
    return yield* Tensor.sum(z);
  });
  const sum = await run(graph);
  assert.equal(sum._tag, "LazyTensor");
  assert.deepEqual(await run(Tensor.toNumberArray(sum)), [12]);
});

const evaluate = (loss: Tensor.Any, gradient: Tensor.Any) =>
  Effect.gen(function* () {
    const [lossValue, gradientValue] = yield* Tensor.compute([loss, gradient]);
    return { lossValue, gradientValue };
  });

const step = (input: Tensor.Any, weight: Tensor.Any, target: Tensor.Any) =>
  Effect.gen(function* () {
    const prediction = yield* Tensor.matmul(input, weight);
    const loss = yield* Loss.mse(prediction, target);
    const [gradient] = yield* Gradient.grad(loss, [weight]);
    return yield* evaluate(loss, gradient);
  });

test("a loss and its gradient in one request", async () => {
  const program = Effect.gen(function* () {
    const { lossValue, gradientValue } = yield* step(
      yield* Tensor.ones([2, 2]),
      yield* Tensor.ones([2, 1]),
      yield* Tensor.zeros([2, 1]),
    );
    return [yield* Tensor.toNumberArray(lossValue), yield* Tensor.toNumberArray(gradientValue)];
  });
  assert.deepEqual(await run(program), [[4], [4, 4]]);
});

test("tensors are released", async () => {
  const release = (graph: Tensor.Any) =>
    Effect.gen(function* () {
      const [value] = yield* Tensor.compute([graph]);
      yield* Tensor.clear(value);
      return yield* Effect.flip(Tensor.toNumberArray(value));
    });
  const error = await run(Effect.flatMap(Tensor.ones([2]), release));
  assert.equal(error.backend?.reason, "invalid-handle");
});

test("operations take data first and last", async () => {
  const addBothWays = (a: Tensor.Any, b: Tensor.Any) =>
    Effect.gen(function* () {
      const first = yield* Tensor.add(a, b);
      const second = yield* a.pipe(Tensor.add(b));
      return { first, second };
    });
  const { first, second } = await run(
    Effect.gen(function* () {
      return yield* addBothWays(yield* Tensor.ones([2, 1]), yield* Tensor.ones([3]));
    }),
  );
  assert.deepEqual(
    [first.shape, second.shape],
    [
      [2, 3],
      [2, 3],
    ],
  );
});

test("a function is compiled", async () => {
  const runCompiled = (x: Tensor.Any, weight: Tensor.Any) =>
    Effect.gen(function* () {
      const compiled = yield* Tensor.compile(
        ([input, parameter]) =>
          Effect.gen(function* () {
            const product = yield* Tensor.matmul(input, parameter);
            return [yield* Tensor.relu(product)];
          }),
        { cacheCapacity: 8 },
      );
      const [output] = yield* compiled.call([x, weight]);
      const stats = yield* compiled.stats;
      yield* compiled.clear;
      return { output, stats };
    });
  const found = await run(
    Effect.gen(function* () {
      const { output, stats } = yield* runCompiled(yield* Tensor.ones([1, 2]), yield* Tensor.ones([2, 2]));
      return { values: yield* Tensor.toNumberArray(output), stats };
    }),
  );
  assert.deepEqual(found, { values: [2, 2], stats: { cached: 1, compiled: 1 } });
});

test("weights go to a file and come back", async () => {
  const folder = mkdtempSync(join(tmpdir(), "lanthorn-programs-"));
  const path = join(folder, "weights.safetensors");
  const roundTrip = (weight: Tensor.Any, bias: Tensor.Any) =>
    Effect.gen(function* () {
      yield* Tensor.save(path, { "model.weight": weight, "model.bias": bias }, { metadata: { framework: "lanthorn" } });
      const archive = yield* Tensor.loadArchive(path);
      return archive.tensors["model.weight"];
    });
  try {
    const weight = await run(
      Effect.gen(function* () {
        return yield* roundTrip(yield* Tensor.ones([2, 2]), yield* Tensor.zeros([2]));
      }),
    );
    assert.deepEqual(weight?.shape, [2, 2]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("token ids become tensors", async () => {
  const folder = mkdtempSync(join(tmpdir(), "lanthorn-programs-"));
  const path = join(folder, "tokenizer.json");
  const text = "A lamp lights tensors";
  const learned = Effect.gen(function* () {
    const tokenizer = yield* Tokenizer.train(
      {
        source: Tokenizer.trainTexts([text]),
        model: "BPE",
        vocabSize: 300,
        minFrequency: 1,
        specialTokens: [],
        progress: Tokenizer.trainProgressNone,
      },
      Tokenizer.strictConfig,
    );
    yield* tokenizer.save(path);
    return tokenizer;
  });
  const tokenize = Effect.gen(function* () {
    const tokenizer = yield* Tokenizer.fromFile(path, Tokenizer.strictConfig);
    const encoded = yield* tokenizer.encode(text);
    return yield* Tensor.fromTypedArray(encoded.data, [1, encoded.shape[0]]);
  });
  try {
    const tokenizer = await run(learned);
    const ids = await run(tokenize);
    const numbers = await run(Tensor.toNumberArray(ids));
    assert.deepEqual([ids.dtype, ids.shape], ["u32", [1, numbers.length]]);
    assert.equal(await run(tokenizer.decode(numbers)), text);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("failures are handled by their tags", async () => {
  const program = Effect.gen(function* () {
    const x = yield* Tensor.ones([2]);
    return yield* Gradient.grad(x, [x]);
  }).pipe(
    Effect.catchTag("GradError", ({ reason }) => Effect.succeed(reason)),
    Effect.catchTag("TensorError", ({ op }) => Effect.succeed(op)),
  );
  assert.equal(await run(program), "non-scalar-output");
});
