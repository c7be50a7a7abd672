/** A step of training as a graph, and the two ways to run it. */
import { Effect } from "effect";

import * as Gradient from "./gradient.js";
import type * as Model from "./model/index.js";
import type * as Optimizer from "./optimizer.js";
import * as Runtime from "./runtime.js";
import { ran, traced } from "./tensor/compile.js";
import { named } from "./tensor/core.js";
import * as Tensor from "./tensor.js";
import type { TrainConfig } from "./trainer.js";

/** Parameters and state after a step, or before the first one. */
export interface Generation<S> {
  readonly params: ReadonlyArray<Tensor.Concrete>;
  readonly state: S;
}

/**
 * Takes a step from one generation to the next; the loss is a tensor of rank 0. Tensors of the generation that are among
 * `owned` are given up, also if the step fails: memory is there for the new ones then.
 */
export type TrainingStep<S, EL, RL> = (
  generation: Generation<S>,
  input: Tensor.Any,
  target: Tensor.Any,
  lr: number,
  owned: ReadonlySet<Tensor.Concrete>,
) => Effect.Effect<
  Generation<S> & { readonly loss: Tensor.Concrete },
  Model.ModelError | Tensor.TensorError | Gradient.GradError | EL,
  Runtime.Runtime | RL
>;

/** What a step depends on. */
type StepConfig<S, EL, RL> = Pick<TrainConfig<S, EL, RL>, "optimizer" | "loss" | "precision">;

/** A step that builds its graph anew each time. The learning rate is a tensor, so that the graphs are of one structure. */
export function uncompiledStep<S, EL, RL>(
  model: Model.Model,
  config: StepConfig<S, EL, RL>,
): TrainingStep<S, EL, RL> {
  return (generation, input, target, lr, owned) =>
    Effect.gen(function*() {
      const { params, state } = generation;
      const rate = yield* Tensor.fromTypedArray(Float32Array.of(lr), []);
      const { roots } = yield* graph(model, config, params, state, input, target, rate);
      const results = yield* named("train", Tensor.compute(roots));
      const previous = [...params, ...config.optimizer.stateRoots(state)];
      yield* Tensor.clearAll(previous.filter((tensor): tensor is Tensor.Concrete => owned.has(tensor as Tensor.Concrete)));
      return split(config.optimizer, generation, results);
    });
}

/** A step that is traced once for each signature. */
export function compiledStep<S, EL, RL>(
  model: Model.Model,
  config: StepConfig<S, EL, RL>,
  cache: Tensor.ProgramCache,
): TrainingStep<S, EL, RL> {
  const { optimizer } = config;
  return (generation, input, target, lr, owned) =>
    Effect.gen(function*() {
      const runtime = yield* Runtime.Runtime;
      const { params, state } = generation;
      const inputs = [...params, ...optimizer.stateRoots(state), input, target];
      // The roots are the loss and what comes after the step in the places of what was before.
      const places = Array.from({ length: inputs.length - 2 }, (_, slot) => slot);
      const trace = () =>
        Effect.gen(function*() {
          const { placeholders: slots, freeze } = yield* traced("train", inputs);
          const rate = yield* Tensor.makeScalarInput(inputs.length, "f32");
          const [x, y] = slots.slice(-2) as [Tensor.Lazy, Tensor.Lazy];
          const before = optimizer.rebuildState(state, slots.slice(params.length, -2));
          const { roots } = yield* graph(model, config, slots.slice(0, params.length), before, x, y, rate);
          return yield* freeze(roots, {}, places.map((place) => [place, place + 1]));
        });
      const program = yield* Tensor.cachedProgram(cache, Tensor.signatureOf(inputs, runtime), trace);
      const taken = places.filter((place) => owned.has(inputs[place] as Tensor.Concrete));
      return split(optimizer, generation, yield* ran("train", program, inputs, [lr], taken));
    });
}

/** Loss, parameters and state after a step, as roots in this order. */
function graph<S, EL, RL>(
  model: Model.Model,
  { optimizer, loss, precision = "f32" }: StepConfig<S, EL, RL>,
  params: ReadonlyArray<Tensor.Any>,
  state: S,
  input: Tensor.Any,
  target: Tensor.Any,
  lr: Tensor.Any,
) {
  return Effect.gen(function*() {
    // The casts are part of the graph: gradients come through them, and are f32 again.
    const seen = precision === "f32" ? params : yield* Effect.forEach(params, (param) => Tensor.cast(param, "bf16"));
    const value = yield* loss(yield* model.forward(seen, input), target);
    const grads = yield* Gradient.grad(value, params);
    const update = yield* optimizer.step(params, grads, state, lr);
    return { roots: [value, ...update.params, ...update.stateRoots] };
  });
}

/** What the roots of `graph` have become. A state is of tensors alone, so that the one before tells its form. */
function split<S>(
  optimizer: Optimizer.Optimizer<S>,
  { params, state }: Generation<S>,
  [loss, ...rest]: ReadonlyArray<Tensor.Concrete>,
): Generation<S> & { readonly loss: Tensor.Concrete } {
  const roots = rest.slice(params.length);
  return {
    loss: loss as Tensor.Concrete,
    params: rest.slice(0, params.length),
    state: optimizer.rebuildState(state, roots),
  };
}
