// Optimisers against the formulas of PyTorch's documentation, written out on numbers.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Gradient, LearningRate, Loss, Optimizer, Tensor } from "@lanthorn/effect";
import { Cause, Effect, Exit } from "effect";

import { allValues, assertClose, assertFault, effect, f32, values } from "./learning.mjs";

/** Gradients of three steps of two parameters. */
const STARTS = [[1, -2, 0.5], [3, 0.25]];
const GRADS = [
  [[0.5, -0.5, 1], [2, 0]],
  [[-1, 0.25, 0.75], [0, 1e-3]],
  [[0.125, 3, -2], [-1, 4]],
];
const LRS = [0.1, 0.05, 0.02];

/** Steps of the optimiser on the gradients above; what the parameters are after each of them, and the last state. */
const steps = (optimizer, dtype = "f32") =>
  Effect.gen(function* () {
    const tensor = (data) => Effect.flatMap(f32(data), (made) => Tensor.cast(made, dtype));
    let params = yield* Tensor.compute(yield* Effect.forEach(STARTS, tensor));
    let state = yield* optimizer.init(params);
    const seen = [];
    for (const [at, numbers] of GRADS.entries()) {
      const grads = yield* Effect.forEach(numbers, tensor);
      const lr = yield* Tensor.full([], LRS[at], { dtype: "f32" });
      const next = yield* optimizer.step(params, grads, state, lr);
      const computed = yield* Tensor.compute([...next.params, ...next.stateRoots]);
      params = computed.slice(0, params.length);
      state = optimizer.rebuildState(next.state, computed.slice(params.length));
      seen.push(yield* allValues(params));
    }
    return { seen, state, params };
  });

/** The same on numbers: `rule` is given a parameter, its gradient, its own memory, the rate and the step from 1. */
function reference(rule) {
  const params = STARTS.map((start) => [...start]);
  const memory = STARTS.map((start) => start.map(() => ({})));
  return GRADS.map((grads, at) => {
    params.forEach((param, p) => param.forEach((value, i) => (param[i] = rule(value, grads[p][i], memory[p][i], LRS[at], at + 1))));
    return params.map((param) => [...param]);
  });
}

const sgdRule = ({ momentum = 0, dampening = 0, nesterov = false, weightDecay = 0 }) => (value, grad, memory, lr, step) => {
  const g = grad + weightDecay * value;
  if (momentum === 0) return value - lr * g;
  memory.v = step === 1 ? g : momentum * memory.v + (1 - dampening) * g;
  return value - lr * (nesterov ? g + momentum * memory.v : memory.v);
};

const adamRule = ({ beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0 }) => (value, grad, memory, lr, step) => {
  memory.m = beta1 * (memory.m ?? 0) + (1 - beta1) * grad;
  memory.v = beta2 * (memory.v ?? 0) + (1 - beta2) * grad * grad;
  const [m, v] = [memory.m / (1 - beta1 ** step), memory.v / (1 - beta2 ** step)];
  return value * (1 - lr * weightDecay) - (lr * m) / (Math.sqrt(v) + eps);
};

for (const config of [
  {},
  { weightDecay: 0.3 },
  { momentum: 0.9 },
  { momentum: 0.9, dampening: 0.3 },
  { momentum: 0.9, nesterov: true },
  { momentum: 0.5, dampening: 0.1, weightDecay: 0.01 },
]) {
  effect(`sgd ${JSON.stringify(config)}`, function* () {
    const { seen } = yield* steps(yield* Optimizer.sgd(config));
    const expected = reference(sgdRule(config));
    seen.forEach((params, step) => params.forEach((param, at) => assertClose(param, expected[step][at], 1e-6, `step ${step}`)));
  });
}

for (const [name, config] of [
  ["adam", {}],
  ["adam", { beta1: 0.5, beta2: 0.9, eps: 1e-3 }],
  ["adam", { beta1: 0 }],
  ["adamW", {}],
  ["adamW", { weightDecay: 0.5 }],
]) {
  effect(`${name} ${JSON.stringify(config)}`, function* () {
    const { seen, state } = yield* steps(yield* Optimizer[name](config));
    const decay = name === "adamW" ? { weightDecay: 0.01 } : {};
    const expected = reference(adamRule({ ...decay, ...config }));
    // A gradient of 0 gives 0 by 0 plus eps: the rule itself is exact to f32 here.
    seen.forEach((params, step) => params.forEach((param, at) => assertClose(param, expected[step][at], 2e-6, `step ${step}`)));
    assert.deepEqual(yield* values(state.t), [3]);
  });
}

effect("f64 parameters are updated in f64", function* () {
  const { seen, params } = yield* steps(yield* Optimizer.adamW({ weightDecay: 0.25 }), "f64");
  assert.equal(params[0].dtype, "f64");
  // The rate is a 0-d f32 number, which takes the parameters' dtype.
  const rounded = LRS.map(Math.fround);
  const expected = reference((value, grad, memory, _, step) =>
    adamRule({ weightDecay: 0.25 })(value, Math.fround(grad), memory, rounded[step - 1], step),
  );
  assertClose(seen[2][0], expected[2][0], 1e-12);
});

effect("bias correction holds for a beta close to 1", function* () {
  const optimizer = yield* Optimizer.adam({ beta2: 0.9999999 });
  const [p, g, lr] = [yield* f32([1]), yield* f32([0.5]), yield* Tensor.full([], 0.1)];
  const next = yield* optimizer.step([p], [g], yield* optimizer.init([p]), lr);
  // The first step of Adam is the rate in the direction of the gradient.
  assertClose(yield* values(next.params[0]), [0.9], 1e-5);
});

effect("clipByValue keeps elements between bounds", function* () {
  const g = yield* f32([-5, 0.5, 10]);
  assert.deepEqual(yield* values((yield* Optimizer.clipByValue([g], { min: -1, max: 1 }))[0]), [-1, 0.5, 1]);
  assert.deepEqual(yield* values((yield* Optimizer.clipByValue([g], { max: 1 }))[0]), [-5, 0.5, 1]);
});

effect("clipByGlobalNorm scales all gradients by one factor, and only above the norm", function* () {
  const [a, b] = [yield* f32([3, 4]), yield* f32([0, 12])];
  const [c, d] = yield* allValues(yield* Optimizer.clipByGlobalNorm([a, b], 6.5));
  assertClose([...c, ...d], [1.5, 2, 0, 6]);
  const kept = yield* allValues(yield* Optimizer.clipByGlobalNorm([a, b], 100));
  assert.deepEqual(kept, [[3, 4], [0, 12]]);
  const zero = yield* allValues(yield* Optimizer.clipByGlobalNorm([yield* f32([0, 0])], 1));
  assert.deepEqual(zero, [[0, 0]]);
  const half = yield* Tensor.cast(yield* f32([300, 400]), "f16");
  const [scaled] = yield* Optimizer.clipByGlobalNorm([half], 5);
  assert.equal(scaled.dtype, "f16");
  assertClose(yield* values(scaled), [3, 4], 1e-3);
  assert.deepEqual(yield* Optimizer.clipByGlobalNorm([], 1), []);
  assertFault(yield* Effect.flip(Optimizer.clipByGlobalNorm([a], 0)), "TensorError", /maxNorm is 0/);
  assertFault(yield* Effect.flip(Optimizer.clipByGlobalNorm(a, 1)), "TensorError", /got an object .*, expected a list of gradients/);
  assertFault(yield* Effect.flip(Optimizer.clipByValue(7, { max: 1 })), "TensorError", /got 7, expected a list of gradients/);
});

effect("a whole step computes loss, parameters and state together", function* () {
  const [x, y] = [yield* f32([1, 2, 2, 5, 4, 3, 5, 8], [4, 2]), yield* f32([7, 18, 16, 33], [4, 1])];
  const optimizer = yield* Optimizer.adam();
  const schedule = LearningRate.withWarmup(LearningRate.cosine(0.1, { totalSteps: 400 }), 20);
  let params = [yield* f32([0, 0], [2, 1]), yield* f32([0], [1, 1])];
  let state = yield* optimizer.init(params);
  const losses = [];
  for (let step = 0; step < 400; step++) {
    const lr = yield* Tensor.fromTypedArray(Float32Array.of(schedule(step)), []);
    const loss = yield* Loss.mse(yield* Tensor.add(yield* Tensor.matmul(x, params[0]), params[1]), y);
    const next = yield* Optimizer.step(optimizer, loss, params, state, lr);
    assert.ok([next.loss, ...next.params, ...optimizer.stateRoots(next.state)].every(Tensor.isTensor));
    losses.push((yield* values(next.loss))[0]);
    ({ params, state } = next);
  }
  assert.ok(losses.at(-1) < losses[0] * 1e-2, `${losses[0]} to ${losses.at(-1)}`);
});

effect("whoever gives the four functions has an optimiser", function* () {
  const halves = {
    init: (params) => Effect.map(Effect.forEach(params, Tensor.zerosLike), (prev) => ({ prev })),
    step: (params, grads, { prev }, lr) =>
      Effect.gen(function* () {
        const used = yield* Effect.forEach(grads, (grad, at) =>
          Effect.gen(function* () {
            const sum = yield* Tensor.add(grad, prev[at]);
            return yield* Tensor.mul(sum, yield* Tensor.constantLike(sum, 0.5));
          }),
        );
        const moved = yield* Effect.forEach(params, (param, at) => Effect.flatMap(Tensor.mul(used[at], lr), (by) => Tensor.sub(param, by)));
        return { params: moved, state: { prev: used }, stateRoots: used };
      }),
    stateRoots: ({ prev }) => prev,
    rebuildState: (_, roots) => ({ prev: roots }),
  };
  const { seen } = yield* steps(halves);
  const expected = reference((value, grad, memory, lr) => value - lr * (memory.prev = (grad + (memory.prev ?? 0)) / 2));
  assertClose(seen[2][0], expected[2][0]);
});

effect("gradients of a loss move parameters as those given do", function* () {
  const p = yield* f32([1, 2, 3]);
  const loss = yield* Tensor.sum(yield* Tensor.square(p));
  const optimizer = yield* Optimizer.sgd({ momentum: 0.9 });
  const lr = yield* Tensor.full([], 0.25);
  const whole = yield* Optimizer.step(optimizer, loss, [p], yield* optimizer.init([p]), lr);
  assert.deepEqual(yield* values(whole.loss), [14]);
  assertClose(yield* values(whole.params[0]), [0.5, 1, 1.5]);
  const parts = yield* optimizer.step([p], yield* Gradient.grad(loss, [p]), yield* optimizer.init([p]), lr);
  assert.deepEqual(yield* values(parts.params[0]), yield* values(whole.params[0]));
});

test("settings that are none are named by a defect of the effect, which is made without a throw", () => {
  const none = [
    [Optimizer.sgd({ momentum: Number.NaN }), /sgd: momentum is NaN/],
    [Optimizer.sgd({ weightDecay: -1 }), /sgd: weightDecay is -1/],
    [Optimizer.sgd({ momentum: 0.9, nesterov: true, dampening: 0.1 }), /nesterov/],
    [Optimizer.sgd({ nesterov: true }), /nesterov takes a momentum above 0/],
    [Optimizer.adam({ beta1: 1.5 }), /adam: beta1 and beta2 are 1.5/],
    [Optimizer.adam({ beta2: Number.NaN }), /beta1 and beta2/],
    [Optimizer.adamW({ beta1: 1 }), /adamW: beta1 and beta2 are 1/],
    [Optimizer.adamW({ eps: 0 }), /eps must be positive/],
    [Optimizer.adamW({ eps: Number.NaN }), /eps is NaN/],
    [Optimizer.adamW({ weightDecay: Infinity }), /weightDecay is Infinity/],
    [Optimizer.adamW({ weightDecay: Number.NaN }), /weightDecay is NaN/],
    [Optimizer.adam({ eps: "1" }), /adam: eps is the text "1", expected a number/],
    [Optimizer.sgd(null), /sgd: the settings are null, expected an object/],
    [Optimizer.adam(7), /adam: the settings are 7/],
    [Optimizer.adamW(null), /adamW: the settings are null/],
  ];
  for (const [optimizer, message] of none) {
    const exit = Effect.runSyncExit(optimizer);
    assert.ok(Exit.isFailure(exit) && Exit.hasDies(exit));
    const defect = Cause.squash(exit.cause);
    assert.ok(defect instanceof RangeError, String(defect));
    assert.match(defect.message, message);
  }
});

effect("tensors that do not belong together are named", function* () {
  const optimizer = yield* Optimizer.adam();
  const [a, b, lr] = [yield* f32([1]), yield* f32([1, 2]), yield* Tensor.full([], 0.1)];
  const state = yield* optimizer.init([a]);
  const fault = (effect) => Effect.flip(effect);
  const whole = yield* Tensor.fromTypedArray(BigInt64Array.of(1n));
  assertFault(yield* fault(optimizer.init([a, whole])), "TensorError", /parameter 1 is i64, expected f32 or f64/);
  assertFault(yield* fault(optimizer.step([a, a], [a], state, lr)), "TensorError", /expected 2 gradients, got 1/);
  assertFault(yield* fault(optimizer.step([b], [b], state, lr)), "TensorError", /use init for these parameters/);
  assertFault(yield* fault(optimizer.step([a], [b], state, lr)), "TensorError", /gradient 0 is f32 \[2\], expected f32 \[1\]/);
  assertFault(yield* fault(optimizer.step([a], [a], state, a)), "TensorError", /f32 \[1\], expected a 0-d float tensor/);
  const [plain, heavy] = [yield* Optimizer.sgd(), yield* Optimizer.sgd({ momentum: 0.5 })];
  const velocity = yield* heavy.init([a]);
  for (const other of [velocity, null, {}]) {
    assertFault(yield* fault(optimizer.step([a], [a], other, lr)), "TensorError", /the state has no m; is it of another optimiser/);
  }
  for (const other of [state, null, {}]) {
    assertFault(yield* fault(heavy.step([a], [a], other, lr)), "TensorError", /the state has no velocity/);
  }
  for (const other of [velocity, state, null]) {
    assertFault(yield* fault(plain.step([a], [a], other, lr)), "TensorError", /not of sgd without momentum/);
  }
});
