/**
 * Optimisers as transformations of graphs: parameters, gradients and state in, new parameters and state out. Nothing is
 * changed in place, so that loss, gradients and update are one program.
 *
 * State is made of tensors alone, also the number of steps: a compiled step never grows old.
 */
import { Effect } from "effect";
import { describe } from "lanthorn/raw";

import * as Gradient from "./gradient.js";
import { isRecord } from "./record.js";
import type * as Runtime from "./runtime.js";
import { build, named } from "./tensor/core.js";
import * as Tensor from "./tensor.js";

/** Settings of `sgd`. */
export interface SgdConfig {
  /** How much of the velocity stays at each step; 0 if left out, and then there is no velocity. */
  readonly momentum?: number;
  /** The share of a gradient, but the first, that does not enter the velocity; 0 if left out. */
  readonly dampening?: number;
  readonly nesterov?: boolean;
  /** How much of a parameter is added to its gradient; 0 if left out. */
  readonly weightDecay?: number;
}

/** State of `sgd`: a velocity for each parameter, none without momentum, and 1 before the first step, then 0. */
export interface SgdState {
  readonly velocity: ReadonlyArray<Tensor.Any>;
  readonly first: Tensor.Any;
}

/** Settings of `adam`: 0.9, 0.999 and 1e-8 if left out. */
export interface AdamConfig {
  readonly beta1?: number;
  readonly beta2?: number;
  readonly eps?: number;
}

/** Settings of `adamW`. */
export interface AdamWConfig extends AdamConfig {
  /** By how much of itself, times the learning rate, a parameter shrinks; 0.01 if left out. */
  readonly weightDecay?: number;
}

/** State of `adam` and `adamW`: means of gradients and of their squares for each parameter, and the number of steps. */
export interface AdamState {
  readonly m: ReadonlyArray<Tensor.Any>;
  readonly v: ReadonlyArray<Tensor.Any>;
  readonly t: Tensor.Any;
}

/** What a step gives, all of it lazy. `stateRoots` are the tensors of `state` that are to be computed. */
export interface OptimizerUpdate<S> {
  readonly params: ReadonlyArray<Tensor.Lazy>;
  readonly state: S;
  readonly stateRoots: ReadonlyArray<Tensor.Any>;
}

/** How parameters move. Whoever gives these four has an optimiser. */
export interface Optimizer<S> {
  /** The state before the first step. */
  readonly init: (params: ReadonlyArray<Tensor.Any>) => Effect.Effect<S, Tensor.TensorError, Runtime.Runtime>;
  /** One step; `lr` is a float of rank 0. */
  readonly step: (
    params: ReadonlyArray<Tensor.Any>,
    grads: ReadonlyArray<Tensor.Any>,
    state: S,
    lr: Tensor.Any,
  ) => Effect.Effect<OptimizerUpdate<S>, Tensor.TensorError, Runtime.Runtime>;
  /** The tensors of a state, in an order of their own. */
  readonly stateRoots: (state: S) => ReadonlyArray<Tensor.Any>;
  /** A state like `state` of other tensors, in the order of `stateRoots`. */
  readonly rebuildState: (state: S, roots: ReadonlyArray<Tensor.Any>) => S;
}

/**
 * Gradient descent, with momentum if asked (Sutskever et al. 2013, as in PyTorch). Settings that are none are a defect: the
 * effect dies with a `RangeError`; to make it throws nothing.
 *
 * With momentum the velocity is the first gradient, then `momentum velocity + (1 - dampening) gradient`. Nesterov's form
 * takes a momentum and no dampening.
 */
export const sgd = (config: SgdConfig = {}): Effect.Effect<Optimizer<SgdState>> => Effect.suspend(() => descent(config));

/** Adam (Kingma and Ba 2015). Dies with a `RangeError` for settings that are none. */
export const adam = (config: AdamConfig = {}): Effect.Effect<Optimizer<AdamState>> =>
  Effect.suspend(() => adaptive("adam", config, 0));

/**
 * Adam with weight decay apart from the gradient (Loshchilov and Hutter 2019). Dies with a `RangeError` for settings that
 * are none.
 */
export const adamW = (config: AdamWConfig = {}): Effect.Effect<Optimizer<AdamState>> =>
  Effect.suspend(() => adaptive("adamW", config, (config as AdamWConfig | null)?.weightDecay ?? 0.01));

/** Each gradient with its elements kept between `min` and `max`. */
export const clipByValue = (
  grads: ReadonlyArray<Tensor.Any>,
  options: { readonly min?: number; readonly max?: number },
): Effect.Effect<Array<Tensor.Lazy>, Tensor.TensorError, Runtime.Runtime> =>
  named(
    "clipByValue",
    Effect.andThen(checkGradients("clipByValue", grads), Effect.forEach(grads, (grad) => Tensor.clamp(grad, options))),
  );

/**
 * Gradients scaled by one factor, so that the norm of all of them together is at most `maxNorm` (Pascanu, Mikolov and
 * Bengio 2013). Where it is so already, they stay exactly as they are.
 */
export const clipByGlobalNorm = (
  grads: ReadonlyArray<Tensor.Any>,
  maxNorm: number,
): Effect.Effect<Array<Tensor.Lazy>, Tensor.TensorError, Runtime.Runtime> =>
  named(
    "clipByGlobalNorm",
    Effect.gen(function*() {
      yield* checkGradients("clipByGlobalNorm", grads);
      if (!(typeof maxNorm === "number" && maxNorm > 0 && maxNorm < Infinity)) {
        return yield* fault("clipByGlobalNorm", `maxNorm is ${describe(maxNorm)}, expected a number above 0`);
      }
      const [head, ...rest] = yield* Effect.forEach(grads, squares);
      if (head === undefined) return [];
      let total = head;
      for (const part of rest) total = yield* Tensor.add(total, part);
      const norm = yield* Tensor.sqrt(total);
      const limit = yield* Tensor.constantLike(norm, maxNorm);
      // Below the limit this is the limit by itself: exactly 1, also where all gradients are 0.
      const factor = yield* Tensor.div(limit, yield* Tensor.maximum(norm, limit));
      return yield* Effect.forEach(grads, (grad) => Tensor.mul(grad, factor));
    }),
  );

/** Concrete tensors in the places of those given. */
export type Materialized<P extends ReadonlyArray<Tensor.Any>> = { readonly [K in keyof P]: Tensor.Concrete };

/**
 * A whole step: gradients of a loss, the update, and loss, parameters and state computed as one program. What it gives
 * belongs to the caller, and so does what it was given: release old parameters and states when they are no longer wanted.
 *
 * Fails with `GradError` where the loss has no gradient.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Optimizer, Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const optimizer = yield* Optimizer.adam()
 *   const lr = yield* Tensor.full([], 0.1)
 *   const x = yield* Tensor.fromTypedArray(Float32Array.of(3))
 *   const loss = yield* Tensor.sum(yield* Tensor.square(x))
 *   const next = yield* Optimizer.step(optimizer, loss, [x], yield* optimizer.init([x]), lr)
 *   return yield* Tensor.toNumberArray(next.params[0])
 * })
 *
 * const [x] = await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * assert.ok(Math.abs(x! - 2.9) < 1e-5)
 * ```
 */
export const step = <S, const P extends ReadonlyArray<Tensor.Any>>(
  optimizer: Optimizer<S>,
  loss: Tensor.Any,
  params: P,
  state: S,
  lr: Tensor.Any,
): Effect.Effect<
  { readonly loss: Tensor.Concrete; readonly params: Materialized<P>; readonly state: S },
  Gradient.GradError | Tensor.TensorError,
  Runtime.Runtime
> =>
  Effect.gen(function*() {
    const grads = yield* Gradient.grad(loss, params);
    const update = yield* optimizer.step(params, grads, state, lr);
    const [value, ...computed] = yield* Tensor.compute([loss, ...update.params, ...update.stateRoots]);
    return {
      loss: value as Tensor.Concrete,
      params: computed.slice(0, params.length) as unknown as Materialized<P>,
      state: optimizer.rebuildState(update.state, computed.slice(params.length)),
    };
  });

/** `sgd`; throws for settings that are none. */
function descent(config: SgdConfig): Effect.Effect<Optimizer<SgdState>> {
  expectSettings("sgd", config);
  const { momentum = 0, dampening = 0, nesterov = false, weightDecay = 0 } = config;
  for (const [name, value] of Object.entries({ momentum, dampening, weightDecay })) {
    expectNumber("sgd", name, value);
  }
  if (nesterov && (momentum === 0 || dampening !== 0)) {
    throw new RangeError("Optimizer.sgd: nesterov takes a momentum above 0 and no dampening");
  }
  const settings = { momentum, dampening, nesterov, weightDecay };
  return Effect.succeed({
    init: (params) =>
      Effect.gen(function*() {
        yield* checkParameters("sgd.init", params);
        const first = yield* Tensor.constant(1, { dtype: countDtype(params) });
        return { velocity: momentum === 0 ? [] : yield* Effect.forEach(params, Tensor.zerosLike), first };
      }),
    step: (params, grads, state, lr) =>
      named(
        "sgd.step",
        Effect.gen(function*() {
          yield* checkStep("sgd.step", params, grads, lr);
          if (momentum === 0) {
            // Of a run with momentum: to leave its velocities out would be another run.
            if (state?.velocity?.length !== 0) {
              const message = "the state is not of sgd without momentum, which has no velocity; use init for these parameters";
              return yield* fault("sgd.step", message);
            }
            const moved = yield* Effect.forEach(params, (param, at) => descend(param, grads[at] as Tensor.Any, lr, weightDecay));
            return { params: moved, state, stateRoots: [] };
          }
          yield* checkState("sgd.step", params, "velocity", state?.velocity);
          const moved: Array<Tensor.Lazy> = [];
          const velocity: Array<Tensor.Lazy> = [];
          for (const [at, param] of params.entries()) {
            const inputs = [param, grads[at] as Tensor.Any, state.velocity[at] as Tensor.Any, state.first, lr] as const;
            const update = yield* build("sgd.step", { op: "sgdStep", inputs, attributes: settings });
            moved.push(yield* build("sgd.step", { op: "sgdOut", inputs: [update], attributes: { index: 0 } }));
            velocity.push(yield* build("sgd.step", { op: "sgdOut", inputs: [update], attributes: { index: 1 } }));
          }
          const next = { velocity, first: yield* Tensor.zerosLike(state.first) };
          return { params: moved, state: next, stateRoots: [...velocity, next.first] };
        }),
      ),
    stateRoots: ({ velocity, first }) => (momentum === 0 ? [] : [...velocity, first]),
    rebuildState: (state, roots) =>
      momentum === 0 ? state : { velocity: roots.slice(0, -1), first: roots.at(-1) as Tensor.Any },
  });
}

/** `adam` and `adamW`, which differ in the decay alone; throws for settings that are none. */
function adaptive(name: string, config: AdamConfig, weightDecay: number): Effect.Effect<Optimizer<AdamState>> {
  expectSettings(name, config);
  const { beta1 = 0.9, beta2 = 0.999, eps = 1e-8 } = config;
  if (![beta1, beta2].every((beta) => typeof beta === "number" && beta >= 0 && beta < 1)) {
    const found = `${describe(beta1)} and ${describe(beta2)}`;
    throw new RangeError(`Optimizer.${name}: beta1 and beta2 are ${found}, expected 0 to below 1`);
  }
  expectNumber(name, "eps", eps);
  expectNumber(name, "weightDecay", weightDecay);
  if (eps === 0) throw new RangeError(`Optimizer.${name}: eps is ${eps}, but eps must be positive`);
  const attributes = { beta1, beta2, eps, weightDecay };
  return Effect.succeed({
    init: (params) =>
      Effect.gen(function*() {
        yield* checkParameters(`${name}.init`, params);
        return {
          m: yield* Effect.forEach(params, Tensor.zerosLike),
          v: yield* Effect.forEach(params, Tensor.zerosLike),
          t: yield* Tensor.constant(0, { dtype: countDtype(params) }),
        };
      }),
    step: (params, grads, state, lr) =>
      named(
        `${name}.step`,
        Effect.gen(function*() {
          yield* checkStep(`${name}.step`, params, grads, lr);
          yield* checkState(`${name}.step`, params, "m", state?.m);
          yield* checkState(`${name}.step`, params, "v", state?.v);
          const t = yield* Tensor.add(state.t, yield* Tensor.constantLike(state.t, 1));
          const [bias1, bias2] = [yield* correction(t, beta1), yield* correction(t, beta2)];
          const outputs: [Array<Tensor.Lazy>, Array<Tensor.Lazy>, Array<Tensor.Lazy>] = [[], [], []];
          for (const [at, param] of params.entries()) {
            const [m, v] = [state.m[at] as Tensor.Any, state.v[at] as Tensor.Any];
            const inputs = [param, grads[at] as Tensor.Any, m, v, lr, bias1, bias2] as const;
            const update = yield* build(`${name}.step`, { op: "adamwStep", inputs, attributes });
            for (const [index, list] of outputs.entries()) {
              list.push(yield* build(`${name}.step`, { op: "adamwOut", inputs: [update], attributes: { index } }));
            }
          }
          const [moved, m, v] = outputs;
          return { params: moved, state: { m, v, t }, stateRoots: [...m, ...v, t] };
        }),
      ),
    stateRoots: ({ m, v, t }) => [...m, ...v, t],
    rebuildState: ({ m }, roots) => ({
      m: roots.slice(0, m.length),
      v: roots.slice(m.length, 2 * m.length),
      t: roots.at(-1) as Tensor.Any,
    }),
  });
}

function expectSettings(name: string, config: unknown): void {
  if (!isRecord(config)) throw new RangeError(`Optimizer.${name}: the settings are ${describe(config)}, expected an object`);
}

function expectNumber(name: string, setting: string, value: unknown): void {
  if (typeof value === "number" && value >= 0 && value < Infinity) return;
  throw new RangeError(`Optimizer.${name}: ${setting} is ${describe(value)}, expected a number of at least 0`);
}

/** `1 - beta^t`, as `-expm1(t ln beta)`: for a beta close to 1 the difference itself would keep few digits. */
function correction(t: Tensor.Any, beta: number) {
  return Effect.gen(function*() {
    if (beta === 0) return yield* Tensor.onesLike(t);
    const exponent = yield* Tensor.mul(t, yield* Tensor.constantLike(t, Math.log(beta)));
    return yield* Tensor.neg(yield* Tensor.expm1(exponent));
  });
}

/** `param - lr (grad + weightDecay param)`. */
function descend(param: Tensor.Any, grad: Tensor.Any, lr: Tensor.Any, weightDecay: number) {
  return Effect.gen(function*() {
    const decayed =
      weightDecay === 0
        ? grad
        : yield* Tensor.add(grad, yield* Tensor.mul(param, yield* Tensor.constantLike(param, weightDecay)));
    return yield* Tensor.sub(param, yield* Tensor.mul(decayed, lr));
  });
}

/** The sum of the squares of a gradient's elements, in f32 at least. */
function squares(grad: Tensor.Any) {
  return Effect.gen(function*() {
    const wide = grad.dtype === "f64" || grad.dtype === "f32" ? grad : yield* Tensor.cast(grad, "f32");
    return yield* Tensor.sum(yield* Tensor.square(wide));
  });
}

/** The dtype in which steps are counted. */
function countDtype(params: ReadonlyArray<Tensor.Any>): Tensor.DType {
  return params.some(({ dtype }) => dtype === "f64") ? "f64" : "f32";
}

function checkGradients(op: string, grads: unknown): Effect.Effect<void, Tensor.TensorError> {
  return Array.isArray(grads) ? Effect.void : fault(op, `got ${describe(grads)}, expected a list of gradients`);
}

function checkParameters(op: string, params: ReadonlyArray<Tensor.Any>): Effect.Effect<void, Tensor.TensorError> {
  const at = params.findIndex(({ dtype }) => dtype !== "f32" && dtype !== "f64");
  if (at < 0) return Effect.void;
  return fault(op, `parameter ${at} is ${(params[at] as Tensor.Any).dtype}, expected f32 or f64`);
}

function checkStep(
  op: string,
  params: ReadonlyArray<Tensor.Any>,
  grads: ReadonlyArray<Tensor.Any>,
  lr: Tensor.Any,
): Effect.Effect<void, Tensor.TensorError> {
  if (grads.length !== params.length) return fault(op, `expected ${params.length} gradients, got ${grads.length}`);
  if (lr.shape.length !== 0 || !/^b?f\d+$/.test(lr.dtype)) {
    return fault(op, `the learning rate is ${lr.dtype} [${lr.shape}], expected a 0-d float tensor`);
  }
  for (const [at, grad] of grads.entries()) {
    const param = params[at] as Tensor.Any;
    if (alike(param, grad)) continue;
    const [found, wanted] = [`${grad.dtype} [${grad.shape}]`, `${param.dtype} [${param.shape}]`];
    return fault(op, `gradient ${at} is ${found}, expected ${wanted} as its parameter`);
  }
  return Effect.void;
}

function checkState(
  op: string,
  params: ReadonlyArray<Tensor.Any>,
  name: string,
  tensors: ReadonlyArray<Tensor.Any>,
): Effect.Effect<void, Tensor.TensorError> {
  if (!Array.isArray(tensors)) return fault(op, `the state has no ${name}; is it of another optimiser?`);
  const fits = tensors.length === params.length && tensors.every((tensor, at) => alike(tensor, params[at] as Tensor.Any));
  return fits ? Effect.void : fault(op, `${name} of the state is of other parameters; use init for these parameters`);
}

function alike(a: Tensor.Any, b: Tensor.Any): boolean {
  return a.dtype === b.dtype && a.shape.length === b.shape.length && a.shape.every((size, at) => size === b.shape[at]);
}

function fault(op: string, message: string): Effect.Effect<never, Tensor.TensorError> {
  return Effect.fail(new Tensor.TensorError({ op, message }));
}
