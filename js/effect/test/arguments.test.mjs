// Arguments that are none: each is an error of the function that was called, and says what was found.
import { Gradient, Loss, Optimizer, Tensor } from "@lanthorn/effect";
import { Cause, Effect, Exit } from "effect";
import assert from "node:assert/strict";

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { assertValues, effectTest, f32, i64, runtime, values } from "./support.mjs";

/** Arguments that cannot be read, or are nothing that a function takes. */
const hostile = (x) => {
  const thrower = () => {
    throw new Error("boo");
  };
  return {
    undefined: undefined,
    null: null,
    number: 5,
    bigint: 5n,
    symbol: Symbol("x"),
    text: "x",
    tensor: x,
    list: [1, 0],
    "list of null": [null, null],
    "proxy of a list": new Proxy([1, 2], { get: thrower }),
    "proxy of an object": new Proxy({}, { get: thrower, has: thrower, getPrototypeOf: thrower, ownKeys: thrower }),
    revoked: (() => {
      const { proxy, revoke } = Proxy.revocable([], {});
      revoke();
      return proxy;
    })(),
    getters: Object.defineProperties(
      {},
      Object.fromEntries(
        ["dtype", "dims", "dim", "weight", "target", "start", "kernelSize", "reduction"].map((name) => [
          name,
          { get: thrower, enumerable: true },
        ]),
      ),
    ),
  };
};

/** What is no effect by contract: it gives a value, or has no channel for errors. */
const VALUES = ["compile", "makeProgramCache", "cachedProgram", "signatureOf", "shape", "dtype", "device", "isTensor"];
const isAsked = (name) => !VALUES.includes(name) && !/^(isLazyTensor|TensorError|clear.*|save|load.*)$/.test(name);

for (const [module, functions] of [
  ["Tensor", Tensor],
  ["Gradient", Gradient],
  ["Loss", Loss],
]) {
  effectTest(`functions of ${module} fail, and neither throw nor die, whatever they are given`, function* () {
    const x = yield* f32([1, 2, 3, 4], [2, 2]);
    const given = Object.entries(hostile(x));
    const faults = [];
    for (const [name, body] of Object.entries(functions)) {
      if (typeof body !== "function" || !isAsked(name) || name === "GradError") continue;
      for (const [first, a] of given) {
        for (const [second, b] of given) {
          const what = `${name}(${first}, ${second})`;
          try {
            const made = body(a, b);
            if (!Effect.isEffect(made)) continue;
            const exit = yield* Effect.exit(made);
            if (Exit.isFailure(exit) && !Cause.hasFails(exit.cause))
              faults.push(`${what} dies: ${Cause.squash(exit.cause)}`);
          } catch (error) {
            faults.push(`${what} throws: ${error}`);
          }
        }
      }
    }
    assert.deepEqual(faults, []);
  });
}

effectTest("what cannot be read is an error of the function that was called", function* () {
  const x = yield* f32([1, 2, 3, 4], [2, 2]);
  const detached = Float32Array.of(1, 2);
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  const given = hostile(x);
  const wrong = {
    fromTypedArray: [Tensor.fromTypedArray(detached), Tensor.fromTypedArray(detached, [0])],
    maxPool2d: [Tensor.maxPool2d(x), Tensor.maxPool2d(x, null)],
    embedding: [Tensor.embedding(x)],
    slice: [Tensor.slice(x, undefined)],
    pad: [Tensor.pad(x, [1, 0])],
    zeros: [Tensor.zeros([2], given.getters), Tensor.zeros(given["proxy of a list"])],
    sum: [Tensor.sum(x, given.getters)],
    compute: [Tensor.compute(5), Tensor.compute(x)],
    grad: [Gradient.grad(x, x), Gradient.grad(null, [x])],
    freezeProgram: [Tensor.freezeProgram(x)],
    compile: [Effect.flatMap(Tensor.compile(Effect.succeed), (f) => f.call(null))],
    save: [Tensor.save("/nowhere/x.safetensors", null)],
    sample: [Tensor.sample(x, undefined)],
  };
  for (const [op, effects] of Object.entries(wrong)) {
    for (const effect of effects) {
      const error = yield* Effect.flip(effect);
      assert.equal(error._tag, "TensorError", op);
      assert.equal(error.op, op);
    }
  }
  const tensor = yield* Tensor.compile(([y]) => Effect.succeed(y));
  assert.match((yield* Effect.flip(tensor.call([x]))).message, /expected a list of tensors/);
});

effectTest("an attribute that is none is no fault of a dtype", function* () {
  const x = yield* f32([1, 2]);
  for (const [wrong, message] of [
    [Tensor.zeros([-1]), /^zeros: shape is \[-1\], expected a list of integers of at least 0/],
    [Tensor.eye(-1), /^eye: n is -1, expected an integer/],
    [Tensor.linspace(0, 1, -1), /^linspace: steps is -1/],
    [Tensor.tile(x, [-1]), /^tile: repeats is \[-1\]/],
    [Tensor.sum(x, { dims: ["0"] }), /^sum: got the text "0", expected a number/],
  ]) {
    const error = yield* Effect.flip(wrong);
    assert.match(error.message, message);
    assert.equal(error.backend.reason, "unsupported-layout");
  }
  const error = yield* Effect.flip(Tensor.add(x, yield* i64([1, 2])));
  assert.equal(error.backend.reason, "unsupported-dtype");
});

effectTest("an option of sampling that is none is named", function* () {
  const [logits] = yield* Tensor.compute([yield* f32([1, 2, 3])]);
  for (const [options, message] of [
    [{ seed: 1, temperature: NaN }, /temperature is NaN, expected a finite number of at least 0/],
    [{ seed: 1, temperature: -1 }, /temperature is -1/],
    [{ seed: 1, temperature: Infinity }, /temperature is Infinity/],
    [{ seed: 1, topK: -1 }, /topK is -1, expected a whole number/],
    [{ seed: 1, topK: 1.5 }, /topK is 1.5/],
    [{ seed: 1, topP: NaN }, /topP is NaN, expected a number above 0 and at most 1/],
    [{ seed: 1, topP: 0 }, /topP is 0/],
    [{ seed: -1 }, /seed is -1/],
    [{ seed: "1" }, /seed is the text "1"/],
    [{ seed: 1n }, /seed is 1, expected/],
    [{ seed: 1, counter: NaN }, /counter is NaN/],
    [{}, /seed is undefined/],
  ]) {
    const error = yield* Effect.flip(Tensor.sample(logits, options));
    assert.equal(error._tag, "TensorError");
    assert.match(error.message, message);
    assert.match(error.message, /^sample: /);
  }
  assert.equal(yield* Tensor.sample(logits, { seed: 2 ** 53 - 1, temperature: 0, topK: 3, topP: 1, counter: 0 }), 2);
});

effectTest("pools and paths that are none say what was found", function* () {
  for (const [wrong, message] of [
    [Tensor.makeKvPool(1, 1, NaN, 16, 16), /headDim is NaN, expected a whole number above 0/],
    [Tensor.makeKvPool(1, -1, 4, 16, 16), /kvHeads is -1/],
    [Tensor.makeKvPool(1, 1, 4, 16, 16, "f8"), /the dtype is the text "f8", expected one of f32, f64, f16, bf16, int8/],
    [Tensor.makeKvPool(1, 1, 4, 16, 16, "i64"), /the dtype is the text "i64"/],
    [Tensor.load(null), /load: the path is null, expected a text/],
    [Tensor.loadArchive(5), /the path is 5/],
    [Tensor.save(null, {}), /save: the path is null/],
  ]) {
    const error = yield* Effect.flip(wrong);
    assert.equal(error._tag, "TensorError");
    assert.match(error.message, message);
  }
});

effectTest("getters that call the runtime do not change the arguments of another call", function* () {
  const service = yield* runtime;
  const context = yield* Effect.context();
  const now = Effect.runSyncWith(context);
  const small = yield* f32([1, 2, 3, 4], [2, 2]);
  let disturbed = 0;
  const disturb = () => {
    disturbed++;
    now(Tensor.sum(small, { dims: [0, 1] }));
  };
  /** A list or an object with getters. */
  const getters = (given) => {
    const result = Array.isArray(given) ? [...given] : {};
    for (const [name, value] of Object.entries(given)) {
      Object.defineProperty(result, name, { enumerable: true, get: () => (disturb(), value) });
    }
    return result;
  };
  const x = yield* f32([1, 2, 3, 4, 5, 6], [2, 3]);
  const y = yield* f32([6, 5, 4, 3, 2, 1], [2, 3]);
  const node = (op, inputs, attributes) => service.node({ op, inputs, attributes });
  for (const [op, attributes] of [
    ["sum", { dims: [1], keepdims: true }],
    ["reshape", { shape: [3, 2] }],
    ["permute", { dims: [1, 0] }],
    ["tile", { reps: [2, 1] }],
    ["flip", { dims: [0, 1] }],
  ]) {
    const right = yield* node(op, [x], attributes);
    const lists = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [name, Array.isArray(value) ? getters(value) : value]),
    );
    const before = disturbed;
    const found = yield* node(op, getters([x]), getters(lists));
    assert.ok(disturbed > before, op);
    assert.deepEqual([...found.shape], [...right.shape], op);
    const [one, other] = yield* Tensor.compute([found, right]);
    assert.deepEqual(yield* values(one), yield* values(other), op);
  }

  // A program, its options, and a call of it.
  const sum = yield* Tensor.add(yield* Tensor.makeInput(0, y), x);
  const double = yield* Tensor.add(sum, sum);
  const request = getters({ roots: getters([sum, double]), options: getters({ optimize: false, constantWeights: true }) });
  const executable = yield* service.compile(request);
  const invocation = getters({ bindings: getters([y]), scalars: [], runtimeValues: {} });
  const [once, twice] = yield* service.execute(executable, invocation);
  yield* assertValues(once, [7, 7, 7, 7, 7, 7]);
  yield* assertValues(twice, [14, 14, 14, 14, 14, 14]);

  // Tensors and what is written beside them.
  const folder = mkdtempSync(join(tmpdir(), "lanthorn-getters-"));
  try {
    const path = join(folder, "x.safetensors");
    const [kept] = yield* Tensor.compute([y]);
    const entries = getters([getters({ name: "y", tensor: kept })]);
    yield* service.extensions.pathSafetensors.save(path, { entries, metadata: getters({ note: "text" }) });
    const archive = yield* Tensor.loadArchive(path);
    assert.deepEqual(archive.metadata, { note: "text" });
    assert.deepEqual(yield* values(archive.tensors.y), yield* values(kept));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

effectTest("what is no tensor is a defect that says so, where a function has no channel for failures", function* () {
  const [kept] = yield* Tensor.compute([yield* f32([1])]);
  const given = hostile(kept);
  const wrong = Object.entries(given).filter(([name]) => name !== "tensor");
  const dies = (op, name, cause) => {
    const defect = Cause.squash(cause);
    assert.ok(Cause.hasDies(cause) && !Cause.hasFails(cause), `${op}(${name})`);
    assert.ok(defect instanceof Tensor.TensorError, `${op}(${name}): ${defect}`);
    assert.equal(defect.op, op);
    assert.match(defect.message, new RegExp(`^${op}: .*(expected (a|an iterable of) tensors?|cannot be read)`), name);
  };
  for (const [name, value] of wrong) {
    dies("clear", name, yield* Effect.flip(Effect.sandbox(Tensor.clear(value))));
    dies("clearScoped", name, yield* Effect.flip(Effect.sandbox(Effect.scoped(Tensor.clearScoped(value)))));
    for (const list of [value, [kept, value]]) {
      dies("clearAll", name, yield* Effect.flip(Effect.sandbox(Tensor.clearAll(list))));
      dies("clearAllScoped", name, yield* Effect.flip(Effect.sandbox(Effect.scoped(Tensor.clearAllScoped(list)))));
    }
    for (const op of ["shape", "dtype", "device"]) {
      assert.throws(
        () => Tensor[op](value),
        (error) => error instanceof Tensor.TensorError && error.op === op && /expected a tensor/.test(error.message),
        `${op}(${name})`,
      );
    }
    assert.deepEqual([Tensor.isTensor(value), Tensor.isLazyTensor(value)], [false, false]);
    const compiled = yield* Tensor.compile(value);
    const fault = yield* Effect.flip(compiled.call([kept]));
    assert.match(fault.message, /^compile: got .*, expected a function/);
  }
  // A list of which one is no tensor is left as it is.
  assert.deepEqual(yield* Tensor.toNumberArray(kept), [1]);
  yield* Tensor.clearAll(new Set([kept, kept]));
  yield* Tensor.clearAll([kept]);
  assert.equal((yield* Effect.flip(Tensor.toNumberArray(kept))).backend.reason, "invalid-handle");
});

effectTest("a failure is named after the function that was called, not after one that it is made of", function* () {
  const x = yield* f32([1, 2, 3, 4], [2, 2]);
  const lr = yield* Tensor.constant(0.1);
  const whole = yield* i64([1, 2, 3, 4], [2, 2]);
  const input = yield* Tensor.makeInput(0, x);
  const wide = yield* Tensor.embedding(yield* i64([9]), { weight: x });
  const compiled = yield* Tensor.compile(([y]) => Effect.map(Tensor.embedding(whole, { weight: y }), (z) => [z]));
  for (const [op, effect, message] of [
    ["softmax", Tensor.softmax(x, { dims: [0, 7] }), /axis 7/],
    ["logSoftmax", Tensor.logSoftmax(whole, { dims: [0, 1] }), /dtype mismatch/],
    ["round", Tensor.round(yield* Tensor.gt(x, x)), undefined],
    ["variance", Tensor.variance(whole), /var: dtype mismatch/],
    ["take", Tensor.take(x, x), /^take: dtype mismatch: ids is f32/],
    ["transpose", Tensor.transpose(x, [0]), /^transpose: (?!permute)/],
    ["linear", Tensor.linear(x, yield* f32([1]), x), /matmul/],
    ["mse", Loss.mse(x, yield* f32([1, 2, 3])), undefined],
    ["clipByValue", Optimizer.clipByValue([whole], { min: 0.5 }), undefined],
    ["clipByGlobalNorm", Optimizer.clipByGlobalNorm([x, yield* Tensor.cast(x, "f64")], 1), undefined],
    ["toNumberArray", Tensor.toNumberArray(input), undefined],
    ["toTypedArray", Tensor.toTypedArray(wide), /embedding/],
    ["compute", Tensor.compute([wide]), /embedding/],
    ["save", Tensor.save("/nowhere/x.safetensors", { wide }), /embedding/],
    ["load", Tensor.load("/nowhere/x.safetensors"), /nowhere/],
    ["loadArchive", Tensor.loadArchive("/nowhere/x.safetensors"), /nowhere/],
    ["compile", compiled.call([x]), /embedding/],
    ["sample", Tensor.sample((yield* Tensor.compute([whole]))[0], { seed: 1 }), undefined],
  ]) {
    if (Exit.isSuccess(yield* Effect.exit(effect))) assert.equal(op, "round");
    else {
      const error = yield* Effect.flip(effect);
      assert.deepEqual([error._tag, error.op], ["TensorError", op], error.message);
      assert.ok(error.message.startsWith(`${op}: `), error.message);
      assert.ok(!error.message.startsWith(`${op}: ${op}: `), error.message);
      if (message !== undefined) assert.match(error.message, message);
    }
  }
  const adam = yield* Optimizer.adam();
  const state = yield* adam.init([x]);
  const other = { ...state, t: yield* Tensor.cast(state.t, "i64") };
  const fault = yield* Effect.flip(adam.step([x], [x], other, lr));
  assert.deepEqual([fault.op, fault.message.startsWith("adam.step: ")], ["adam.step", true], fault.message);
});
