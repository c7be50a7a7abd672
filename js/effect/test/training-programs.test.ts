// Programs of models, training, checkpoints and generation as people write them: they compile under strict settings without
// casts, and run.
import * as BackendCpu from "@lanthorn/backend-cpu"
import { Checkpoint, LearningRate, Loss, Model, Optimizer, Tensor, Trainer, type Runtime } from "@lanthorn/effect"
import { Effect } from "effect"
import assert from "node:assert/strict"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { test } from "node:test"

/** A folder that is gone when the process is. */
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "lanthorn-effect-"))
  process.on("exit", () => rmSync(path, { recursive: true, force: true }))
  return path
}

function assertClose(found: ReadonlyArray<number>, expected: ReadonlyArray<number>, tolerance: number): void {
  assert.equal(found.length, expected.length)
  found.forEach((a, at) => assert.ok(Math.abs(a - expected[at]!) <= tolerance * (1 + Math.abs(expected[at]!)), `${a}, expected ${expected[at]}`))
}

const runModel = (input: Tensor.Any) =>
  Effect.gen(function*() {
    const model = yield* Model.chain(
      yield* Model.linear("fc1", 2, 8),
      yield* Model.tanh,
      yield* Model.linear("fc2", 8, 1),
      yield* Model.sigmoid
    )

    const params = yield* Tensor.compute(yield* model.init)
    const lazyOutput = yield* model.forward(params, input)
    const concreteOutput = yield* model.execute(params, input)
    return { lazyOutput, concreteOutput }
  })

const update = (
  params: ReadonlyArray<Tensor.Any>,
  grads: ReadonlyArray<Tensor.Any>,
  lrTensor: Tensor.Any
) =>
  Effect.gen(function*() {
    const optimizer = yield* Optimizer.adamW({ weightDecay: 0.01 })
    const state = yield* optimizer.init(params)
    return yield* optimizer.step(params, grads, state, lrTensor)
  })

const train = (model: Model.Model, input: Tensor.Any, target: Tensor.Any) =>
  Effect.gen(function*() {
    const trainer = yield* Trainer.make(model, {
      optimizer: yield* Optimizer.adam(),
      lr: LearningRate.constant(0.1),
      loss: Loss.mse,
      data: { input, target },
      stop: ({ step, loss }) => step >= 3000 || loss < 1e-4,
      onStep: ({ step, loss }) =>
        step % 100 === 0
          ? Effect.log(`step=${step} loss=${loss}`)
          : Effect.void
    })

    return yield* trainer.train()
  })

const saveAndResume = <S>(
  trainer: Trainer.Trainer<S>,
  trained: Trainer.Trained<S>
) =>
  Effect.gen(function*() {
    yield* Checkpoint.save("training.safetensors", trainer, trained)

    const restored = yield* Checkpoint.load(
      "training.safetensors",
      trainer
    )

    return yield* trainer.train(
      restored.params,
      restored.resume
    )
  })

const generate = (
  model: Model.Model,
  params: Model.Params,
  promptTensor: Tensor.Any,
  generatedTokens: ReadonlyArray<number>
) =>
  Effect.gen(function*() {
    const inference = yield* Model.inference(model, params, {
      maxTokens: 8192,
      blockSize: 16,
      prefillChunk: 16,
      attentionWindow: 256,
      kvDtype: "bf16",
      decodeBatch: 8
    })

    const generation = yield* inference.generation()
    const entry = yield* generation.add(promptTensor)
    let logits = entry.logits

    for (const token of generatedTokens) {
      ;[logits] = yield* generation.step([
        { seq: entry.seq, token }
      ])
    }

    yield* entry.seq.finish()
    return logits
  })

const roundTrip = (model: Model.Model, params: Model.Params) =>
  Effect.gen(function*() {
    yield* Model.save(model, params, "model.safetensors")
    return yield* Model.load(model, "model.safetensors")
  })

// Files that programs write lie where nobody keeps them.
process.chdir(folder())

const run = <A, E>(effect: Effect.Effect<A, E, Runtime.Runtime>) =>
  Effect.runPromise(effect.pipe(Effect.provide(BackendCpu.layer)))

const f32 = (data: ReadonlyArray<number>, shape: ReadonlyArray<number>) =>
  Tensor.fromTypedArray(Float32Array.from(data), shape)

const xor = Effect.gen(function*() {
  const model = yield* Model.chain(
    yield* Model.linear("fc1", 2, 8),
    yield* Model.tanh,
    yield* Model.linear("fc2", 8, 1),
    yield* Model.sigmoid
  )
  const input = yield* f32([0, 0, 0, 1, 1, 0, 1, 1], [4, 2])
  return { model, input, target: yield* f32([0, 1, 1, 0], [4, 1]) }
})

test("a model builds and computes", () =>
  run(Effect.gen(function*() {
    const { input } = yield* xor
    const { lazyOutput, concreteOutput } = yield* runModel(input)
    assert.ok(Tensor.isLazyTensor(lazyOutput) && Tensor.isTensor(concreteOutput))
    assert.deepEqual(concreteOutput.shape, [4, 1])
    assertClose(yield* Tensor.toNumberArray(concreteOutput), yield* Tensor.toNumberArray(lazyOutput), 1e-6)
  })))

test("an update is a graph of its own", () =>
  run(Effect.gen(function*() {
    const next = yield* update([yield* f32([1], [1])], [yield* f32([0.5], [1])], yield* Tensor.full([], 0.1))
    assertClose(yield* Tensor.toNumberArray(next.params[0]!), [1 - 0.1 * 0.01 - 0.1], 1e-6)
  })))

test("a trainer learns exclusive or", () =>
  run(Effect.gen(function*() {
    const { model, input, target } = yield* xor
    const { loss, step } = yield* train(model, input, target)
    assert.ok(step <= 3000 && loss < 0.2, `${loss} after ${step}`)
  })))

test("training goes on from a checkpoint", () =>
  run(Effect.gen(function*() {
    const { model, input, target } = yield* xor
    let last = 5
    const trainer = yield* Trainer.make(model, {
      optimizer: yield* Optimizer.adam(),
      lr: LearningRate.constant(0.1),
      loss: Loss.mse,
      data: { input, target },
      stop: ({ step }) => step >= last
    })
    const trained = yield* trainer.train()
    last = 9
    const resumed = yield* saveAndResume(trainer, trained)
    assert.equal(resumed.step, 9)
    const straight = yield* trainer.train(trained.params, { state: trained.state, step: trained.step })
    assert.equal(resumed.loss, straight.loss)
  })))

test("parameters go to a file and come back", () =>
  run(Effect.gen(function*() {
    const { model } = yield* xor
    const params = yield* Tensor.compute(yield* model.init)
    const loaded = yield* roundTrip(model, params)
    const numbers = (tensors: ReadonlyArray<Tensor.Any>) => Effect.forEach(tensors, Tensor.toNumberArray)
    assert.deepEqual(yield* numbers(loaded), yield* numbers(params))
  })))

test("a model writes with a cache", () =>
  run(Effect.gen(function*() {
    const model = yield* Model.chain(
      yield* Model.embedding("token", 12, 8),
      yield* Model.multiHeadAttention("attention", 8, 2, { causal: true, rope: 10_000 }),
      yield* Model.linear("head", 8, 12)
    )
    const params = yield* Tensor.compute(yield* model.init)
    const ids = (tokens: ReadonlyArray<number>) => Tensor.fromTypedArray(Uint32Array.from(tokens), [1, tokens.length])
    const logits = yield* generate(model, params, yield* ids([1, 5, 3]), [7, 2])
    const output = yield* model.forward(params, yield* ids([1, 5, 3, 7, 2]))
    const last = yield* Tensor.slice(output, { start: [0, 4, 0], end: [1, 5, 12] })
    assertClose(yield* Tensor.toNumberArray(logits), yield* Tensor.toNumberArray(last), 5e-2)
  })))
