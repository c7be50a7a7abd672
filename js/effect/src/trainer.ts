/**
 * Training: forward pass, loss, gradients and update as one program for each signature of parameters, state and data.
 *
 * Parameters and state of a step are new tensors. A trainer releases those of the step before once the new ones are there,
 * unless they were given to it; what it ends with belongs to the caller.
 */
import { Clock, Duration, Effect, Exit } from "effect";
import { describe } from "lanthorn/raw";

import type * as Gradient from "./gradient.js";
import { isTensorHandle } from "./handles.js";
import type { LearningRate } from "./learning-rate.js";
import * as Model from "./model/index.js";
import type * as Optimizer from "./optimizer.js";
import { isCount, isRecord } from "./record.js";
import * as Runtime from "./runtime.js";
import * as Tensor from "./tensor.js";
import { compiledStep, uncompiledStep, type Generation, type TrainingStep } from "./trainer-step.js";

/** What a step is trained on. */
export interface TrainData {
  readonly input: Tensor.Any;
  readonly target: Tensor.Any;
}

/** The same data at every step, or those of a step, counted from 1. */
export type TrainDataSource<E = never, R = never> = TrainData | ((step: number) => Effect.Effect<TrainData, E, R>);

/** How far training has come: steps done, the loss of the last one, and the time since training began. */
export interface TrainStep {
  readonly step: number;
  readonly loss: number;
  readonly elapsed: Duration.Duration;
}

/**
 * In which dtype forward and backward passes run. With `"mixedBf16"` parameters and state stay f32; the model sees bf16
 * copies of the parameters. Floating-point data are then to be bf16 as well.
 */
export type Precision = "f32" | "mixedBf16";

/** What a trainer is made of. */
export interface TrainConfig<S, EL = never, RL = never, ED = never, RD = never, EO = never, RO = never> {
  readonly optimizer: Optimizer.Optimizer<S>;
  /** Called with the step counted from 0. */
  readonly lr: LearningRate;
  /** Gives the loss, of rank 0, out of the model's output and the target. */
  readonly loss: (
    pred: Tensor.Any,
    target: Tensor.Any,
  ) => Effect.Effect<Tensor.Lazy, EL | Tensor.TensorError, Runtime.Runtime | RL>;
  readonly data: TrainDataSource<ED, RD>;
  /** Asked after each step; there is at least one. */
  readonly stop: (info: TrainStep) => boolean;
  /** Runs after each step, before `stop` is asked. */
  readonly onStep?: (info: TrainStep) => Effect.Effect<void, EO, RO>;
  /** `"f32"` if left out. */
  readonly precision?: Precision;
}

/** What training has come to. Its tensors belong to whoever called. */
export interface Trained<S> {
  readonly params: ReadonlyArray<Tensor.Concrete>;
  readonly state: S;
  readonly loss: number;
  /** How many steps there were, those before a resumption included. */
  readonly step: number;
}

/** Where training goes on: the state after so many steps, and when it began by the clock, in milliseconds. */
export interface Resume<S> {
  readonly state: S;
  readonly step: number;
  readonly startedAt?: number;
}

/**
 * Trains a model. Each call of `train` begins anew, from the model's own first values if there are no parameters.
 *
 * Fails with `ModelError` for parameters that are not of the model, for a resumption with another optimiser's state or with
 * no number of steps, and at a step whose learning rate is no finite number or whose data are no tensors.
 */
export interface Trainer<S, EL = never, RL = never, ED = never, RD = never, EO = never, RO = never> {
  readonly model: Model.Model;
  readonly config: TrainConfig<S, EL, RL, ED, RD, EO, RO>;
  readonly train: (
    params?: Model.Params,
    resume?: Resume<S>,
  ) => Effect.Effect<
    Trained<S>,
    Model.ModelError | Tensor.TensorError | Gradient.GradError | EL | ED | EO,
    Runtime.Runtime | RL | RD | RO
  >;
  /** About the programs of the steps. */
  readonly stats: Effect.Effect<Tensor.CompileStats>;
  readonly clear: Effect.Effect<void>;
}

/**
 * A trainer of compiled steps: a program for each signature of parameters, state and data, traced at its first step.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { LearningRate, Loss, Model, Optimizer, Tensor, Trainer } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const model = yield* Model.linear("line", 1, 1)
 *   const trainer = yield* Trainer.make(model, {
 *     optimizer: yield* Optimizer.sgd(),
 *     lr: LearningRate.constant(0.1),
 *     loss: Loss.mse,
 *     data: {
 *       input: yield* Tensor.fromTypedArray(Float32Array.of(0, 1, 2), [3, 1]),
 *       target: yield* Tensor.fromTypedArray(Float32Array.of(1, 3, 5), [3, 1])
 *     },
 *     stop: ({ step, loss }) => step >= 500 || loss < 1e-6
 *   })
 *   const { params } = yield* trainer.train()
 *   return yield* Tensor.toNumberArray(params[0]!)
 * })
 *
 * const [slope] = await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * assert.ok(Math.abs(slope! - 2) < 0.01)
 * ```
 */
export const make = <S, EL = never, RL = never, ED = never, RD = never, EO = never, RO = never>(
  model: Model.Model,
  config: TrainConfig<S, EL, RL, ED, RD, EO, RO>,
): Effect.Effect<Made<S, EL, RL, ED, RD, EO, RO>> =>
  Effect.sync(() => {
    const cache = Tensor.makeProgramCache();
    return trainer(model, config, compiledStep(model, config, cache), cache);
  });

/** The same without programs of its own: each step builds its graph and computes it. Gives what `make` gives, for comparison. */
export const makeUncompiled = <S, EL = never, RL = never, ED = never, RD = never, EO = never, RO = never>(
  model: Model.Model,
  config: TrainConfig<S, EL, RL, ED, RD, EO, RO>,
): Effect.Effect<Made<S, EL, RL, ED, RD, EO, RO>> =>
  Effect.sync(() => {
    const nothing = { stats: Effect.succeed({ cached: 0, compiled: 0 }), clear: Effect.void };
    return trainer(model, config, uncompiledStep(model, config), nothing);
  });

/** A trainer that fails and asks for no more than its parts do beside what every trainer does. */
type Made<S, EL, RL, ED, RD, EO, RO> = Trainer<S, Own<EL>, Asked<RL>, Own<ED>, Asked<RD>, Own<EO>, Asked<RO>>;
type Own<E> = Exclude<E, Model.ModelError | Tensor.TensorError | Gradient.GradError>;
type Asked<R> = Exclude<R, Runtime.Runtime>;

function trainer<S, EL, RL, ED, RD, EO, RO>(
  model: Model.Model,
  config: TrainConfig<S, EL, RL, ED, RD, EO, RO>,
  step: TrainingStep<S, EL, RL>,
  programs: Pick<Trainer<S>, "stats" | "clear">,
): Made<S, EL, RL, ED, RD, EO, RO> {
  const made: Trainer<S, EL, RL, ED, RD, EO, RO> = {
    model,
    config,
    train: (params, resume) =>
      Effect.suspend(() => {
        const owned = new Set<Tensor.Concrete>();
        return Effect.onExit(loop(model, config, step, owned, params, resume), (exit) =>
          // What a run leaves behind that gives nothing to its caller, its caller cannot release.
          Exit.isSuccess(exit) ? Effect.void : Tensor.clearAll(owned),
        );
      }),
    stats: programs.stats,
    clear: programs.clear,
  };
  // The unions of errors and services are the same ones.
  return made as unknown as Made<S, EL, RL, ED, RD, EO, RO>;
}

/** `owned` holds what the run has made and nobody else knows. */
function loop<S, EL, RL, ED, RD, EO, RO>(
  model: Model.Model,
  config: TrainConfig<S, EL, RL, ED, RD, EO, RO>,
  takeStep: TrainingStep<S, EL, RL>,
  owned: Set<Tensor.Concrete>,
  given: Model.Params | undefined,
  resume: Resume<S> | undefined,
) {
  return Effect.gen(function*() {
    const { optimizer, stop, onStep } = config;
    const startedAt = resume?.startedAt ?? (yield* Clock.currentTimeMillis);
    let generation: Generation<S> = yield* begin(model, config, owned, given, resume);
    const data = yield* sourceOf(config.data, owned);
    for (let step = (resume?.step ?? 0) + 1; ; step++) {
      const { input, target } = yield* data.of(step);
      const rate = yield* rateOf(config.lr, step - 1);
      const { loss: lossTensor, ...next } = yield* takeStep(generation, input, target, rate, owned);
      for (const tensor of rootsOf(optimizer, generation)) owned.delete(tensor);
      for (const tensor of rootsOf(optimizer, next)) owned.add(tensor);
      generation = next;
      const [loss] = yield* Effect.ensuring(Tensor.toNumberArray(lossTensor), Tensor.clear(lossTensor));
      const elapsed = Duration.millis((yield* Clock.currentTimeMillis) - startedAt);
      const info: TrainStep = { step, loss: loss as number, elapsed };
      if (onStep !== undefined) yield* onStep(info);
      if (!stop(info)) continue;
      yield* Tensor.clearAll(data.made);
      return { ...generation, loss: info.loss, step };
    }
  });
}

/** The data of each step; `made` are tensors that this has computed. */
function sourceOf<ED, RD>(data: TrainDataSource<ED, RD>, owned: Set<Tensor.Concrete>) {
  return Effect.gen(function*() {
    if (typeof data === "function") {
      const of = (step: number) =>
        Effect.gen(function*() {
          const given: unknown = data(step);
          if (!Effect.isEffect(given)) return yield* fault(`data gives ${describe(given)} for step ${step}, expected an Effect`);
          return yield* dataOf(`the data of step ${step}`, yield* given as Effect.Effect<unknown, ED, RD>);
        });
      return { of, made: [] };
    }
    const { input, target } = yield* dataOf("the data", data);
    const { tensors, made } = yield* computed([input, target], owned);
    const [first, second] = tensors as [Tensor.Concrete, Tensor.Concrete];
    return { of: () => Effect.succeed({ input: first, target: second }), made };
  });
}

/** What was given as data, where it is that. */
function dataOf(what: string, data: unknown): Effect.Effect<TrainData, Model.ModelError> {
  if (!isRecord(data)) return fault(`${what} is ${describe(data)}, expected input and target`);
  for (const name of ["input", "target"] as const) {
    if (!isTensorHandle(data[name])) return fault(`${name} of ${what} is ${describe(data[name])}, expected a tensor`);
  }
  return Effect.succeed(data as unknown as TrainData);
}

/** The learning rate of a step, counted from 0. */
function rateOf(lr: LearningRate, step: number): Effect.Effect<number, Model.ModelError> {
  if (typeof lr !== "function") return fault(`lr is ${describe(lr)}, expected a function of the step`);
  const rate: unknown = lr(step);
  // It becomes an f32.
  if (typeof rate === "number" && Number.isFinite(Math.fround(rate))) return Effect.succeed(rate);
  return fault(`lr gives ${describe(rate)} for step ${step}, counted from 0; expected a finite number`);
}

/** Fails where a resumption is none of a run with this optimiser, of which `first` is a state. */
function checkResume<S>({ stateRoots }: Optimizer.Optimizer<S>, { state, step, startedAt = 0 }: Resume<S>, first: S) {
  if (!isCount(step)) {
    return fault(`the step to go on from is ${describe(step)}, expected an integer of at least 0`);
  }
  if (!Number.isFinite(startedAt)) return fault(`startedAt is ${describe(startedAt)}, expected milliseconds of the clock`);
  const foreign = (why = "") =>
    fault(`the state to go on from is ${fieldsOf(state)}${why}, expected ${fieldsOf(first)} as the optimiser has it`);
  if (isRecord(first) && !(isRecord(state) && Object.keys(first).every((name) => name in state))) return foreign();
  let roots: ReadonlyArray<unknown>;
  try {
    roots = Array.from(stateRoots(state));
  } catch {
    // What reads the tensors of its own state need not look at what others give.
    return foreign(" of other content");
  }
  const at = roots.findIndex((root) => !isTensorHandle(root));
  return at < 0 ? Effect.void : foreign(` with ${describe(roots[at])} in the place of tensor ${at}`);
}

/** A state by the names of what it holds. */
function fieldsOf(state: unknown): string {
  if (!isRecord(state)) return describe(state);
  const names = Object.keys(state);
  return names.length > 8 ? `{${names.slice(0, 8).join(", ")}, ..}` : `{${names.join(", ")}}`;
}

/** The parameters and the state with which a run begins, computed where they are lazy. */
function begin<S>(
  model: Model.Model,
  { optimizer, precision = "f32" }: Pick<TrainConfig<S>, "optimizer" | "precision">,
  owned: Set<Tensor.Concrete>,
  given: Model.Params | undefined,
  resume: Resume<S> | undefined,
) {
  return Effect.gen(function*() {
    const { capabilities, backend } = yield* Runtime.Runtime;
    const params = given ?? (yield* model.init);
    if (params.length !== model.names.length) {
      return yield* fault(`the model has ${model.names.length} parameters, got ${params.length}`);
    }
    for (const [at, param] of params.entries()) {
      if (!isTensorHandle(param)) return yield* fault(`${model.names[at]} is ${describe(param)}, expected a tensor`);
    }
    if (precision !== "f32" && precision !== "mixedBf16") {
      return yield* fault(`precision is ${describe(precision)}, expected f32 or mixedBf16`);
    }
    if (precision === "mixedBf16") {
      if (!capabilities.features.includes("mixed-bf16")) {
        return yield* fault(`precision mixedBf16 takes the feature mixed-bf16, which the backend ${backend.name} lacks`);
      }
      const at = params.findIndex(({ dtype }) => dtype !== "f32");
      if (at >= 0) {
        return yield* fault(`${model.names[at]} is ${(params[at] as Tensor.Any).dtype}; with mixedBf16 parameters are f32`);
      }
    }
    const first = yield* computed(params, owned);
    const fresh = yield* optimizer.init(first.tensors);
    if (resume) yield* checkResume(optimizer, resume, fresh);
    const state = resume ? resume.state : fresh;
    const roots = yield* computed(optimizer.stateRoots(state), owned);
    return { params: first.tensors, state: optimizer.rebuildState(state, roots.tensors) } satisfies Generation<S>;
  });
}

/** Concrete tensors in the places of lazy ones, all computed together; those made are put into `owned`. */
function computed(tensors: ReadonlyArray<Tensor.Any>, owned: Set<Tensor.Concrete>) {
  return Effect.gen(function*() {
    const made = yield* Tensor.compute(tensors.filter(Tensor.isLazyTensor));
    for (const tensor of made) owned.add(tensor);
    let at = 0;
    const all = tensors.map((tensor) => (Tensor.isTensor(tensor) ? tensor : (made[at++] as Tensor.Concrete)));
    return { tensors: all, made };
  });
}

/** The tensors of a generation. */
function rootsOf<S>({ stateRoots }: Optimizer.Optimizer<S>, { params, state }: Generation<S>): Array<Tensor.Concrete> {
  return [...params, ...stateRoots(state).filter(Tensor.isTensor)];
}

function fault(message: string): Effect.Effect<never, Model.ModelError> {
  return Effect.fail(new Model.ModelError({ op: "train", message }));
}
