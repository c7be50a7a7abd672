// The types of models, optimisers, training, checkpoints and samplers.
import { expect, test } from "tstyche";

import { Checkpoint, LearningRate, Loss, Model, Optimizer, Sampler, Tensor, Trainer, type Gradient, type Runtime } from "@lanthorn/effect";
import { Duration, Effect } from "effect";

declare const model: Model.Model;
declare const params: Model.Params;
declare const x: Tensor.Any;
declare const built: Tensor.Lazy;
declare const adam: Optimizer.Optimizer<Optimizer.AdamState>;
declare const data: Trainer.TrainData;

type Failure = Model.ModelError | Tensor.TensorError;

test("layers are effects that may fail, activations are not", () => {
  expect(Model.linear("fc", 2, 8)).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect(Model.conv2d("c", 2, 4, [3, 2], { groups: 2 })).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect(Model.multiHeadAttention("a", 8, 2, { causal: true, rope: 1e4 })).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect(Model.kimiDeltaAttention("a", 8, 2)).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect(Model.kimiDeltaAttention("a", 8, 2, { normEps: 1e-6 })).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect<Model.KimiDeltaAttentionOptions["normEps"]>().type.toBe<number | undefined>();
  expect(Model.kimiDeltaAttention).type.not.toBeCallableWith("a", 8, 2, { causal: true });
  expect(Model.dropout()).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect(Model.tanh).type.toBe<Effect.Effect<Model.Model>>();
  expect(Model.gelu({ approximate: "tanh" })).type.toBe<Effect.Effect<Model.Model>>();
  expect(Model.flatten()).type.toBe<Effect.Effect<Model.Model>>();
  expect(Model.linear).type.not.toBeCallableWith("fc", 2);
  expect(Model.embedding).type.not.toBeCallableWith("e", 2, 3, { padding: 1 });
});

test("a model builds and computes", () => {
  expect(model.names).type.toBe<ReadonlyArray<string>>();
  expect(model.init).type.toBe<Effect.Effect<Model.Params, Failure, Runtime.Runtime>>();
  expect(model.forward(params, x)).type.toBe<Effect.Effect<Tensor.Lazy, Failure, Runtime.Runtime>>();
  expect(model.execute(params, x)).type.toBe<Effect.Effect<Tensor.Concrete, Failure, Runtime.Runtime>>();
  expect(model.stats).type.toBe<Effect.Effect<Tensor.CompileStats>>();
});

test("merge gives its function an output of each model", () => {
  expect(Model.merge([model, model], (a, b) => Tensor.add(a, b))).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect(Model.merge).type.not.toBeCallableWith([model], (_a: Tensor.Lazy, _b: Tensor.Lazy) => Tensor.relu(built));
  expect(Model.chain(model, model)).type.toBe<Effect.Effect<Model.Model, Model.ModelError>>();
  expect(Model.residual(model)).type.toBe<Effect.Effect<Model.Model>>();
});

test("files of parameters", () => {
  expect(Model.save(model, params, "m")).type.toBe<Effect.Effect<void, Failure, Runtime.Runtime>>();
  expect(Model.load(model, "m")).type.toBe<Effect.Effect<Array<Tensor.Concrete>, Failure, Runtime.Runtime>>();
});

test("an optimiser's state is its own", () => {
  expect(Optimizer.sgd()).type.toBe<Effect.Effect<Optimizer.Optimizer<Optimizer.SgdState>>>();
  expect(Optimizer.adam({ beta1: 0.5 })).type.toBe<Effect.Effect<Optimizer.Optimizer<Optimizer.AdamState>>>();
  expect(Optimizer.adamW({ weightDecay: 0 })).type.toBe<Effect.Effect<Optimizer.Optimizer<Optimizer.AdamState>>>();
  expect(Optimizer.adam).type.not.toBeCallableWith({ weightDecay: 0 });
  expect(adam.stateRoots).type.not.toBeCallableWith({ velocity: [], first: x });
  expect(Optimizer.step(adam, x, [x, x], { m: [], v: [], t: x }, x)).type.toBe<
    Effect.Effect<
      {
        readonly loss: Tensor.Concrete;
        readonly params: readonly [Tensor.Concrete, Tensor.Concrete];
        readonly state: Optimizer.AdamState;
      },
      Gradient.GradError | Tensor.TensorError,
      Runtime.Runtime
    >
  >();
  expect(Optimizer.clipByGlobalNorm([x], 1)).type.toBe<
    Effect.Effect<Array<Tensor.Lazy>, Tensor.TensorError, Runtime.Runtime>
  >();
});

test("a learning rate is a function of the step", () => {
  expect(LearningRate.constant(1)).type.toBe<LearningRate.LearningRate>();
  expect<LearningRate.LearningRate>().type.toBe<(step: number) => number>();
  expect(LearningRate.withWarmup).type.toBeCallableWith((step: number) => 1 / (step + 1), 10);
  expect(LearningRate.cosine).type.not.toBeCallableWith(1);
});

test("failures and requirements of data and callbacks are those of training", () => {
  class Service {
    readonly service = 1;
  }
  const made = Trainer.make(model, {
    optimizer: adam,
    lr: LearningRate.constant(0.1),
    loss: Loss.mse,
    data: (step: number): Effect.Effect<Trainer.TrainData, "no data", Service> => (step > 1 ? Effect.fail("no data") : Effect.succeed(data)),
    stop: ({ step, loss }) => step > 3 || loss < 1,
    onStep: ({ elapsed }) => (Duration.toMillis(elapsed) > 10 ? Effect.fail(1 as const) : Effect.void),
  });
  const trained = Effect.flatMap(made, (trainer) => trainer.train());
  expect(trained).type.toBe<
    Effect.Effect<
      Trainer.Trained<Optimizer.AdamState>,
      Failure | Gradient.GradError | "no data" | 1,
      Runtime.Runtime | Service
    >
  >();
});

test("fixed data and no callback need the runtime alone", () => {
  const made = Trainer.make(model, {
    optimizer: adam,
    lr: () => 0.1,
    loss: Loss.crossEntropy,
    data,
    stop: () => true,
    precision: "mixedBf16",
  });
  expect(Effect.flatMap(made, (trainer) => trainer.train(params))).type.toBe<
    Effect.Effect<Trainer.Trained<Optimizer.AdamState>, Failure | Gradient.GradError, Runtime.Runtime>
  >();
});

test("a checkpoint is of a trainer's state", () => {
  type S = Optimizer.SgdState;
  const trainer = {} as Trainer.Trainer<S>;
  const trained = {} as Trainer.Trained<S>;
  expect(Checkpoint.save("c", trainer, trained)).type.toBe<Effect.Effect<void, Tensor.TensorError, Runtime.Runtime>>();
  expect(Checkpoint.save).type.not.toBeCallableWith("c", trainer, {} as Trainer.Trained<Optimizer.AdamState>);
  expect(Checkpoint.load("c", trainer)).type.toBe<
    Effect.Effect<Checkpoint.Checkpoint<S>, Checkpoint.CheckpointError | Tensor.TensorError, Runtime.Runtime>
  >();
  const restored = Effect.map(Checkpoint.loadWithSampler("c", trainer), ({ sampler }) => sampler);
  expect(restored).type.toBe<
    Effect.Effect<Sampler.SamplerState, Checkpoint.CheckpointError | Tensor.TensorError, Runtime.Runtime>
  >();
});

test("a sampler draws on the host", () => {
  const config = { length: 33, block: 8, batch: 2 };
  expect(Sampler.make(config)).type.toBe<Effect.Effect<Sampler.Sampler, Sampler.SamplerError>>();
  expect({} as Sampler.Sampler["next"]).type.toBe<() => Array<number>>();
  expect(Sampler.restore).type.toBeCallableWith(config, {} as Sampler.SamplerState);
  expect(Sampler.restore).type.not.toBeCallableWith(config, { order: new Uint32Array(4), cursor: 0, epoch: 0 });
});

test("generation gives logits, or tokens", () => {
  type Fault = Model.InferenceError | Failure;
  const session = {} as Model.Generation;
  const seq = {} as Model.GenerationSeq;
  expect(Model.inference(model, params, { maxTokens: 64, kvDtype: "int8" })).type.toBe<
    Effect.Effect<Model.InferenceProgram, Fault, Runtime.Runtime>
  >();
  expect(Model.inference).type.not.toBeCallableWith(model, params, { maxTokens: 64, kvDtype: "u8" });
  expect(Model.inference).type.toBeCallableWith(model, params, { maxTokens: 64, sequences: 4 });
  expect(session.add(x)).type.toBe<Effect.Effect<Model.GenerationEntry, Fault, Runtime.Runtime>>();
  expect(session.step([{ seq, token: 1 }])).type.toBe<Effect.Effect<Array<Tensor.Concrete>, Fault, Runtime.Runtime>>();
  expect(session.stepSampled([{ seq, token: 1, sampling: { seed: 1 } }])).type.toBe<
    Effect.Effect<Array<number>, Fault, Runtime.Runtime>
  >();
  expect(session.stepSampled).type.not.toBeCallableWith([{ seq, token: 1 }]);
  expect(session.live()).type.toBe<Effect.Effect<number>>();
});

test("a trainer of common parts is one of its state alone", () => {
  const common = Trainer.make(model, {
    optimizer: adam,
    lr: () => 0.1,
    loss: Loss.mse,
    data: () => Effect.map(Tensor.ones([2]), (ones): Trainer.TrainData => ({ input: ones, target: ones })),
    stop: () => true,
  });
  expect(common).type.toBe<Effect.Effect<Trainer.Trainer<Optimizer.AdamState>>>();
  expect(Trainer.make<Optimizer.AdamState, Tensor.TensorError>).type.toBeAssignableTo<
    (model: Model.Model, config: Trainer.TrainConfig<Optimizer.AdamState, Tensor.TensorError>) => Effect.Effect<Trainer.Trainer<Optimizer.AdamState, Tensor.TensorError>>
  >();
});
