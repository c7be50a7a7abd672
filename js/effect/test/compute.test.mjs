// Elements out of graphs: draws, clearing, handles, interruption.
import * as BackendCpu from "@lanthorn/backend-cpu";
import { makeRuntime } from "@lanthorn/effect/adapter";
import { Gradient, Runtime, Tensor } from "@lanthorn/effect";
import { Cause, Effect, Exit, Fiber } from "effect";
import { load } from "lanthorn/addon";
import assert from "node:assert/strict";
import { test } from "node:test";

import { effectTest, f32, f64, run, turn, values } from "./support.mjs";

/** A runtime of its own. */
function another() {
  const addon = load();
  const raw = Object.assign(addon.graph(), { scratch: addon.scratch });
  const placement = { id: "cpu", deviceType: "cpu", description: "another" };
  return { raw, service: makeRuntime(raw, { backend: { name: "other" }, placement }) };
}

/** Work that takes a while. */
const long = Effect.gen(function* () {
  let x = yield* Tensor.randn([500, 500]);
  const scale = yield* Tensor.constant(0.05);
  for (let at = 0; at < 30; at++) x = yield* Tensor.matmul(x, yield* Tensor.mul(x, scale));
  return yield* Tensor.sum(x);
});

test("the service is made once", () => {
  assert.equal(BackendCpu.makeRuntime(), BackendCpu.makeRuntime());
});

effectTest("the service says what it is", function* () {
  const runtime = yield* Runtime.Runtime;
  assert.equal(runtime, BackendCpu.makeRuntime());
  assert.equal(runtime.backend.name, "cpu");
  assert.equal(runtime.placement.id, "cpu");
  assert.deepEqual([...runtime.capabilities.dtypes].sort(), ["bf16", "f16", "f32", "f64", "i64", "u32", "u8"]);
  assert.ok(runtime.capabilities.features.includes("mixed-bf16"));
  assert.ok((yield* runtime.extensions.diagnostics.externalMemoryBytes) >= 0);
});

effectTest("handles say what they are, and cannot be changed", function* () {
  const lazy = yield* Tensor.ones([2, 3]);
  const [concrete] = yield* Tensor.compute([lazy]);
  assert.deepEqual([Tensor.isLazyTensor(lazy), Tensor.isTensor(lazy)], [true, false]);
  assert.deepEqual([Tensor.isLazyTensor(concrete), Tensor.isTensor(concrete)], [false, true]);
  assert.deepEqual([lazy._tag, concrete._tag], ["LazyTensor", "Tensor"]);
  assert.deepEqual([Tensor.shape(concrete), Tensor.dtype(concrete), Tensor.device(concrete)], [[2, 3], "f32", "cpu"]);
});

effectTest("no handle can be changed, nor what it says of itself", function* () {
  const lazy = yield* Tensor.ones([1, 4, 1, 4]);
  const [concrete] = yield* Tensor.compute([lazy]);
  const program = yield* Tensor.freezeProgram([yield* Tensor.neg(yield* Tensor.makeInput(0, lazy))]);
  const tokens = yield* Tensor.makeInput(0, yield* Tensor.zeros([1, 4], { dtype: "u32" }));
  const embedded = yield* Tensor.embedding(tokens, { weight: yield* Tensor.ones([8, 4]) });
  const heads = yield* Tensor.reshape(embedded, [1, 1, 4, 4]);
  const attended = yield* Tensor.scaledDotProductAttention(heads, heads, heads, { causal: true });
  const logits = yield* Tensor.reshape(attended, [1, 4, 4]);
  const decode = yield* Tensor.compileDecodeProgram([logits], { maxTokens: 16, blockSize: 4, kvDtype: "f32", batch: 1 });
  const pool = yield* Tensor.makeKvPool(decode.layers, decode.kvHeads, decode.headDim, 16, 4);
  const sequence = yield* Tensor.makeKvSequence(pool);
  const handles = { lazy, concrete, program, decode, pool, sequence };
  const seen = new Set();
  /** All that a handle leads to, with the names that its class gives it. */
  const check = (what, object) => {
    if (typeof object !== "object" || object === null || seen.has(object)) return;
    seen.add(object);
    const names = new Set(["extra", "_tag", "dtype", "shape", "device", "placement", "pipe", "handle", ...Reflect.ownKeys(object)]);
    for (const name of names) {
      const before = object[name];
      assert.throws(() => { object[name] = "f64"; }, TypeError, `${what}: ${String(name)} is written to`);
      assert.throws(() => Object.defineProperty(object, name, { value: "f64" }), Error, `${what}: ${String(name)}`);
      if (Object.hasOwn(object, name)) assert.throws(() => delete object[name], TypeError, `${what}: ${String(name)}`);
      assert.equal(object[name], before, `${what}: ${String(name)}`);
      check(`${what}.${String(name)}`, before);
    }
  };
  for (const [what, handle] of Object.entries(handles)) check(what, handle);
  assert.ok(seen.size > 20, `${seen.size} objects`);
  assert.deepEqual([concrete.dtype, concrete.shape, concrete._tag], ["f32", [1, 4, 1, 4], "Tensor"]);
  assert.equal((yield* values(concrete)).length, 16);
});

effectTest("all roots of a call see one draw, and each call draws anew", function* () {
  const noise = yield* Tensor.randn([100]);
  const doubled = yield* Tensor.add(noise, noise);
  const [a, b] = yield* Tensor.compute([noise, doubled]);
  const [first, second] = [yield* values(a), yield* values(b)];
  assert.deepEqual(
    first.map((x) => Math.fround(x + x)),
    second,
  );
  const [c] = yield* Tensor.compute([noise]);
  assert.notDeepEqual(yield* values(c), first);
  const other = yield* Tensor.randn([100]);
  const [d, e] = yield* Tensor.compute([noise, other]);
  assert.notDeepEqual(yield* values(d), yield* values(e));
});

effectTest("results are tensors of their own", function* () {
  const [x] = yield* Tensor.compute([yield* f32([1, 2])]);
  const [again, twice] = yield* Tensor.compute([x, yield* Tensor.add(x, x)]);
  yield* Tensor.clear(x);
  assert.deepEqual(yield* values(again), [1, 2]);
  assert.deepEqual(yield* values(twice), [2, 4]);
  assert.deepEqual(yield* Tensor.compute([]), []);
});

effectTest("a cleared tensor is an error, and clearing it again is none", function* () {
  const [x] = yield* Tensor.compute([yield* f32([1, 2])]);
  yield* Tensor.clear(x);
  yield* Tensor.clear(x);
  for (const use of [Tensor.neg(x), Tensor.compute([x]), Tensor.toTypedArray(x), Tensor.add(x, x)]) {
    const error = yield* Effect.flip(use);
    assert.equal(error._tag, "TensorError");
    assert.equal(error.backend.reason, "invalid-handle");
    assert.match(error.message, /cleared/);
  }
  const runtime = yield* Runtime.Runtime;
  assert.equal((yield* Effect.flip(runtime.release(x))).reason, "invalid-handle");
});

effectTest("clearing frees memory at once, and nodes over the tensor are an error then", function* () {
  const { service, raw } = another();
  const bytes = service.extensions.diagnostics.externalMemoryBytes;
  const own = Effect.gen(function* () {
    const size = 1 << 20;
    const [x] = yield* Tensor.compute([yield* Tensor.full([size], 3)]);
    const node = yield* Tensor.neg(x);
    const behind = yield* Gradient.stopGradient(yield* Tensor.reshape(x, [2, size / 2]));
    const gradient = yield* Gradient.grad(yield* Tensor.sum(yield* Tensor.square(x)), [x]);
    const [again, same] = yield* Tensor.compute([x, x]);
    const before = yield* bytes;
    yield* Tensor.clearAll([x, again]);
    // Of three tensors of one memory the last still has it.
    assert.equal(yield* bytes, before);
    assert.equal((yield* values(same))[size - 1], 3);
    yield* Tensor.clear(same);
    assert.equal(yield* bytes, before - 4 * size);
    const uses = [
      Tensor.compute([node]),
      Tensor.toTypedArray(node),
      Tensor.compute([yield* Tensor.sum(behind), yield* Tensor.ones([])]),
      Tensor.compute(gradient),
      Tensor.freezeProgram([node]),
      Tensor.save("never-written.safetensors", { node }),
    ];
    for (const [at, use] of uses.entries()) {
      const error = yield* Effect.flip(use);
      assert.deepEqual([error._tag, error.backend.reason], ["TensorError", "invalid-handle"], `${at}: ${error.message}`);
      assert.match(error.message, /^\w+: a tensor f32\[1048576\] was cleared; compute what is made of it before that$/);
    }
  });
  yield* Effect.provideService(own, Runtime.Runtime, service);
  raw.close();
});

effectTest("what the collector finds is let go of, and nodes over it go on", function* () {
  const node = yield* Effect.gen(function* () {
    const [x] = yield* Tensor.compute([yield* f32([1, 2])]);
    return yield* Tensor.neg(x);
  });
  for (let at = 0; at < 3; at++) {
    globalThis.gc?.();
    yield* Effect.promise(turn);
  }
  assert.deepEqual(yield* values(node), [-1, -2]);
});

effectTest("work that has begun keeps what is cleared meanwhile", function* () {
  const [x] = yield* Tensor.compute([yield* Tensor.full([400, 400], 0.05)]);
  let product = x;
  for (let at = 0; at < 10; at++) product = yield* Tensor.matmul(product, x);
  const fiber = yield* Effect.forkChild(Tensor.compute([product]), { startImmediately: true });
  yield* Tensor.clear(x);
  const [found] = yield* Fiber.join(fiber);
  const [first] = yield* values(found);
  assert.ok(Math.abs(first / (0.05 * 20 ** 10) - 1) < 1e-3, `${first}`);
});

effectTest("a tensor of another runtime is an error", function* () {
  const { service, raw } = another();
  const foreign = yield* Effect.provideService(f32([1]), Runtime.Runtime, service);
  const own = yield* f32([1]);
  for (const use of [Tensor.neg(foreign), Tensor.add(own, foreign), Tensor.compute([foreign])]) {
    const error = yield* Effect.flip(use);
    assert.equal(error.backend.reason, "foreign-handle");
    assert.match(error.message, /another runtime/);
  }
  const [concrete] = yield* Effect.provideService(Tensor.compute([foreign]), Runtime.Runtime, service);
  assert.equal((yield* Effect.flip(Tensor.toTypedArray(concrete))).backend.reason, "foreign-handle");
  yield* Tensor.clear(concrete);
  assert.deepEqual(yield* Effect.provideService(values(concrete), Runtime.Runtime, service), [1]);
  const error = yield* Effect.flip(Tensor.neg({ shape: [] }));
  assert.equal(error.backend.reason, "foreign-handle");
  raw.close();
});

effectTest("what is no operation, or no operand, is an error", function* () {
  const service = yield* Runtime.Runtime;
  const x = yield* f32([1]);
  const unknown = yield* Effect.flip(service.node({ op: "nonsense", inputs: [x] }));
  assert.deepEqual(
    [unknown._tag, unknown.reason, unknown.operation],
    ["BackendError", "unsupported-operation", "nonsense"],
  );
  for (const inputs of [[undefined], [null], [3], [{}]]) {
    assert.equal((yield* Effect.flip(service.node({ op: "neg", inputs }))).reason, "foreign-handle");
  }
  const unread = yield* Effect.flip(service.execute({}, { bindings: [], scalars: [], runtimeValues: {} }));
  assert.equal(unread.reason, "foreign-handle");
});

effectTest("scopes clear", function* () {
  const kept = [];
  yield* Effect.scoped(
    Effect.gen(function* () {
      const [x, y, z] = yield* Tensor.compute([yield* f32([1]), yield* f32([2]), yield* f32([3])]);
      assert.equal(yield* Tensor.clearScoped(x), x);
      const list = [y, z];
      assert.equal(yield* Tensor.clearAllScoped(list), list);
      kept.push(x, y, z);
      assert.deepEqual(yield* values(x), [1]);
    }),
  );
  for (const tensor of kept) assert.equal((yield* Effect.flip(values(tensor))).backend.reason, "invalid-handle");
});

effectTest("placeholders cannot be computed", function* () {
  const input = yield* Tensor.makeInput(0, yield* f32([1]));
  const scalar = yield* Tensor.makeScalarInput(1, "f32");
  for (const use of [
    Tensor.compute([input]),
    Tensor.toNumberArray(yield* Tensor.neg(input)),
    Tensor.compute([scalar]),
  ]) {
    const error = yield* Effect.flip(use);
    assert.equal(error._tag, "TensorError");
    assert.match(error.message, /input 0|scalar 1/);
  }
});

test("interruption stops the work and ends when nothing runs", async () => {
  const runtime = BackendCpu.makeRuntime();
  const root = await run(long);
  const fiber = Effect.runFork(Effect.provideService(Tensor.compute([root]), Runtime.Runtime, runtime));
  await turn();
  await Effect.runPromise(Fiber.interrupt(fiber));
  const exit = await Effect.runPromise(Fiber.await(fiber));
  assert.ok(Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause) && !Cause.hasFails(exit.cause), String(exit));
  // What was interrupted can be done again.
  assert.equal((await run(Tensor.toNumberArray(await run(f32([3]))))).length, 1);
});

test(
  "what is interrupted leaves nothing behind, whenever that is",
  { skip: globalThis.gc === undefined && "needs --expose-gc" },
  async () => {
    const { raw, service } = another();
    const inIt = (effect) => Effect.runPromise(Effect.provideService(effect, Runtime.Runtime, service));
    const settle = async () => {
      for (let at = 0; at < 5; at++) {
        globalThis.gc();
        await turn();
        raw.sweep();
      }
      const bytes = raw.stats();
      return { handles: raw.scratch[0], bytes };
    };
    const root = await inIt(long);
    // Once, so that what is kept for later is there.
    await inIt(Effect.flatMap(Tensor.compute([root]), Tensor.clearAll));
    const before = await settle();
    for (const delay of [0, 1, 2, 5, 10, 20, 40]) await inIt(Effect.timeoutOption(Tensor.compute([root]), delay));
    assert.deepEqual(await settle(), before);
    assert.equal(Tensor.isLazyTensor(root), true);
    raw.close();
  },
);

test("reads and compiled calls are interruptible too", async () => {
  const program = Effect.gen(function* () {
    const compiled = yield* Tensor.compile(() => Effect.map(long, (root) => [root]));
    yield* compiled.call([]);
  });
  for (const effect of [Effect.flatMap(long, Tensor.toNumberArray), program]) {
    const exit = await run(Effect.exit(Effect.timeoutOption(effect, 20)));
    assert.ok(Exit.isSuccess(exit), String(exit));
  }
});

test("an effect that is interrupted before it starts does nothing", async () => {
  const exit = await run(Effect.exit(Effect.andThen(Effect.interrupt, Effect.flatMap(f32([1]), values))));
  assert.ok(Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause));
});

test(
  "memory is let go of when objects are collected",
  { skip: globalThis.gc === undefined && "needs --expose-gc" },
  async () => {
    const runtime = BackendCpu.makeRuntime();
    const bytes = () => Effect.runPromise(runtime.extensions.diagnostics.externalMemoryBytes);
    const make = async () => {
      for (let at = 0; at < 20; at++) await run(Effect.flatMap(Tensor.ones([250_000]), (x) => Tensor.compute([x])));
    };
    const settle = async () => {
      for (let at = 0; at < 5; at++) {
        globalThis.gc();
        await turn();
      }
    };
    await make();
    await settle();
    const before = await bytes();
    await make();
    await settle();
    const after = await bytes();
    assert.ok(after - before < 4_000_000, `${before} to ${after} bytes`);
  },
);

test("a second runtime does not disturb the first", async () => {
  const { service, raw } = another();
  const program = Effect.gen(function* () {
    const x = yield* Tensor.arange(4);
    return yield* values(yield* Tensor.square(x));
  });
  const [a, b] = await Promise.all([
    run(program),
    Effect.runPromise(Effect.provideService(program, Runtime.Runtime, service)),
  ]);
  assert.deepEqual(a, b);
  assert.ok(raw.close() >= 0);
});

test("a backend without a computation of its own compiles and executes", async () => {
  const { compute: _, ...service } = BackendCpu.makeRuntime();
  const inIt = (effect) => Effect.runPromise(Effect.provideService(effect, Runtime.Runtime, service));
  const program = Effect.gen(function* () {
    const noise = yield* Tensor.randn([50]);
    const x = yield* f32([1, 2, 3]);
    const [first, second, sum, [held]] = [
      ...(yield* Tensor.compute([noise, yield* Tensor.add(noise, noise), yield* Tensor.sum(x)])),
      yield* Tensor.compute([x]),
    ];
    assert.deepEqual((yield* values(first)).map((a) => Math.fround(a + a)), yield* values(second));
    assert.notDeepEqual(yield* Tensor.toNumberArray(noise), yield* values(first));
    assert.deepEqual([yield* values(sum), yield* values(held), sum._tag], [[6], [1, 2, 3], "Tensor"]);
    const [again, twice, same] = yield* Tensor.compute([held, yield* Tensor.add(held, held), held]);
    yield* Tensor.clearAll([held, same]);
    assert.deepEqual([yield* values(again), yield* values(twice)], [[1, 2, 3], [2, 4, 6]]);
    assert.deepEqual(yield* Tensor.compute([]), []);
    const inputs = [yield* Tensor.makeInput(0, x), yield* Tensor.neg(yield* Tensor.makeScalarInput(1, "f32"))];
    for (const root of [...inputs, held]) {
      const error = yield* Effect.flip(Tensor.compute([root]));
      assert.deepEqual([error._tag, error.op], ["TensorError", "compute"]);
      assert.match(error.message, /^compute: .*(input 0|binding|scalar|cleared)/);
    }
  });
  await inIt(program);
});

effectTest("f64 is exact", function* () {
  assert.deepEqual(yield* values(yield* Tensor.add(yield* f64([0.1]), yield* f64([0.2]))), [0.1 + 0.2]);
});
