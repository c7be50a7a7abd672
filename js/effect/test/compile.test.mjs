// Compiled functions and their cache.
import { Gradient, Runtime, Tensor } from "@lanthorn/effect";
import { Deferred, Effect, Exit, Fiber, Logger } from "effect";
import assert from "node:assert/strict";

import { effectTest, f32, i64, values } from "./support.mjs";

const relu = ([x]) => Effect.map(Tensor.relu(x), (y) => [y]);
const ones = (count) => Tensor.ones([count]);

effectTest("a compiled function gives what the graph gives", function* () {
  const body = ([a, b]) =>
    Effect.gen(function* () {
      const sum = yield* Tensor.add(a, b);
      return [yield* Tensor.tanh(yield* Tensor.mul(sum, yield* Tensor.constantLike(sum, 2))), sum];
    });
  const compiled = yield* Tensor.compile(body);
  const [x, y] = [yield* f32([1, 2, 3, 4], [2, 2]), yield* f32([0.5, 0.25, -3, -4], [2, 2])];
  const expected = yield* Tensor.compute(yield* body([x, y]));
  const found = yield* compiled.call([x, y]);
  for (let at = 0; at < 2; at++) assert.deepEqual(yield* values(found[at]), yield* values(expected[at]));
  assert.deepEqual(yield* compiled.stats, { cached: 1, compiled: 1 });
});

effectTest("a program is one of shapes, dtypes and the runtime", function* () {
  let traces = 0;
  const compiled = yield* Tensor.compile((inputs) => (traces++, relu(inputs)));
  assert.deepEqual(yield* values((yield* compiled.call([yield* f32([-1, 2])]))[0]), [0, 2]);
  assert.deepEqual(yield* values((yield* compiled.call([yield* f32([3, -4])]))[0]), [3, 0]);
  assert.deepEqual(yield* values((yield* compiled.call([yield* f32([-1, 2], [2, 1])]))[0]), [0, 2]);
  assert.deepEqual(yield* values((yield* compiled.call([yield* i64([-1, 2])]))[0]), [0n, 2n]);
  assert.deepEqual(yield* compiled.stats, { cached: 3, compiled: 3 });
  assert.equal(traces, 3);
});

effectTest("inputs that the function does not read may be there", function* () {
  const compiled = yield* Tensor.compile(([, second]) => Effect.succeed([second]));
  const [x] = yield* compiled.call([yield* ones(3), yield* f32([4, 5]), yield* ones(1)]);
  assert.deepEqual(yield* values(x), [4, 5]);
  const constant = yield* Tensor.compile(() => Effect.map(Tensor.ones([2]), (x) => [x]));
  assert.deepEqual(yield* values((yield* constant.call([yield* ones(1)]))[0]), [1, 1]);
});

effectTest("calls at the same time share a trace", function* () {
  const compiled = yield* Tensor.compile(([x]) => Effect.andThen(Effect.yieldNow, relu([x])));
  const inputs = [];
  for (let at = 0; at < 8; at++) inputs.push(yield* f32([at, -at]));
  const results = yield* Effect.forEach(inputs, (x) => compiled.call([x]), { concurrency: "unbounded" });
  for (let at = 0; at < 8; at++) assert.deepEqual(yield* values(results[at][0]), [at, 0]);
  assert.deepEqual(yield* compiled.stats, { cached: 1, compiled: 1 });
});

effectTest("the least recently used program makes room", function* () {
  const compiled = yield* Tensor.compile(relu, { cacheCapacity: 2 });
  const call = (count) => Effect.flatMap(ones(count), (x) => compiled.call([x]));
  yield* call(1);
  yield* call(2);
  yield* call(1);
  yield* call(3);
  assert.deepEqual(yield* compiled.stats, { cached: 2, compiled: 3 });
  yield* call(1);
  assert.deepEqual(yield* compiled.stats, { cached: 2, compiled: 3 });
  yield* call(2);
  assert.deepEqual(yield* compiled.stats, { cached: 2, compiled: 4 });
});

effectTest("a cache that is too small says so once", function* () {
  const said = [];
  const logger = Logger.make(({ message }) => said.push(String(message)));
  const compiled = yield* Tensor.compile(relu, { cacheCapacity: 1 });
  yield* Effect.gen(function* () {
    for (const count of [1, 2, 1, 2, 1]) yield* compiled.call([yield* ones(count)]);
  }).pipe(Effect.provide(Logger.layer([logger])));
  assert.equal(said.length, 1);
  assert.match(said[0], /cacheCapacity/);
});

effectTest("the capacity is 32 by default", function* () {
  const compiled = yield* Tensor.compile(relu);
  for (let count = 1; count <= 34; count++) yield* compiled.call([yield* ones(count)]);
  assert.deepEqual(yield* compiled.stats, { cached: 32, compiled: 34 });
});

effectTest("clearing lets programs go and keeps the count", function* () {
  const compiled = yield* Tensor.compile(relu);
  yield* compiled.call([yield* ones(1)]);
  yield* compiled.clear;
  assert.deepEqual(yield* compiled.stats, { cached: 0, compiled: 1 });
  yield* compiled.call([yield* ones(1)]);
  assert.deepEqual(yield* compiled.stats, { cached: 1, compiled: 2 });
});

effectTest("a failed trace is not kept, and its error is the function's", function* () {
  let attempts = 0;
  const compiled = yield* Tensor.compile(([x]) => (++attempts === 1 ? Effect.fail("first") : relu([x])));
  const x = yield* f32([-1]);
  assert.equal(yield* Effect.flip(compiled.call([x])), "first");
  assert.deepEqual(yield* compiled.stats, { cached: 0, compiled: 1 });
  assert.deepEqual(yield* values((yield* compiled.call([x]))[0]), [0]);
  assert.deepEqual(yield* compiled.stats, { cached: 1, compiled: 2 });
});

effectTest("who waits for a trace that is interrupted traces", function* () {
  const began = yield* Deferred.make();
  let attempts = 0;
  const compiled = yield* Tensor.compile(([x]) =>
    ++attempts === 1 ? Effect.andThen(Deferred.succeed(began, undefined), Effect.never) : relu([x]),
  );
  const x = yield* f32([-1, 2]);
  const first = yield* Effect.forkChild(compiled.call([x]));
  yield* Deferred.await(began);
  const second = yield* Effect.forkChild(compiled.call([x]));
  yield* Effect.yieldNow;
  yield* Fiber.interrupt(first);
  assert.deepEqual(yield* values((yield* Fiber.join(second))[0]), [0, 2]);
  assert.deepEqual(yield* compiled.stats, { cached: 1, compiled: 2 });
});

effectTest("a placeholder that the function computes is an error", function* () {
  const compiled = yield* Tensor.compile(([x]) => Effect.as(Tensor.toNumberArray(x), [x]));
  const error = yield* Effect.flip(compiled.call([yield* ones(1)]));
  assert.equal(error._tag, "TensorError");
  assert.equal((yield* compiled.stats).cached, 0);
});

effectTest("a program draws anew at each call", function* () {
  const compiled = yield* Tensor.compile(([x]) =>
    Effect.gen(function* () {
      const noise = yield* Tensor.randn(x.shape);
      return [yield* Tensor.add(x, noise), noise, yield* Tensor.dropout(x)];
    }),
  );
  const x = yield* Tensor.ones([256]);
  const first = yield* Effect.forEach(yield* compiled.call([x]), values);
  const second = yield* Effect.forEach(yield* compiled.call([x]), values);
  assert.notDeepEqual(first[0], second[0]);
  assert.notDeepEqual(first[2], second[2]);
  assert.deepEqual(
    first[0],
    first[1].map((value) => Math.fround(value + 1)),
  );
});

effectTest("scalars have the slots after those of tensors", function* () {
  const x = yield* f32([1, 2, 3]);
  const input = yield* Tensor.makeInput(0, x);
  const [factor, shift] = [yield* Tensor.makeScalarInput(1, "f32"), yield* Tensor.makeScalarInput(2, "f32")];
  const program = yield* Tensor.freezeProgram([yield* Tensor.add(yield* Tensor.mul(input, factor), shift)]);
  assert.deepEqual(
    program.outputs.map(({ shape, dtype }) => [[...shape], dtype]),
    [[[3], "f32"]],
  );
  const call = (scalars) => Effect.flatMap(Tensor.runProgram(program, [x], scalars), ([y]) => values(y));
  assert.deepEqual(yield* call([2, 1]), [3, 5, 7]);
  assert.deepEqual(yield* call([-1, 0]), [-1, -2, -3]);
  assert.equal((yield* Effect.flip(call([1])))._tag, "TensorError");
});

effectTest("a slot is that of a tensor or of a number", function* () {
  const x = yield* f32([1, 2, 3]);
  const [input, other] = [yield* Tensor.makeInput(0, x), yield* Tensor.makeInput(1, x)];
  const [among, next] = [yield* Tensor.makeScalarInput(0, "f32"), yield* Tensor.makeScalarInput(1, "f32")];
  const both = yield* Effect.flip(Tensor.freezeProgram([yield* Tensor.mul(input, among)]));
  assert.match(both.message, /slot 0 is that of a tensor and of a number/);
  assert.equal(both.backend.reason, "compilation-failed");
  const apart = [yield* Tensor.neg(other), yield* Tensor.mul(among, next)];
  const program = yield* Tensor.freezeProgram([yield* Tensor.mul(x, next)]);
  assert.match((yield* Effect.flip(Tensor.freezeProgram(apart))).message, /slot 1 is that of a tensor and of a number/);
  // That slot is of a number alone, but a tensor is given for it.
  const error = yield* Effect.flip(Tensor.runProgram(program, [x, x], [2]));
  assert.match(error.message, /slot 1 is that of a number, and there are 2 tensors/);
  assert.deepEqual(yield* values((yield* Tensor.runProgram(program, [x], [2]))[0]), [2, 4, 6]);
  // Gradients are made of the same placeholders.
  const loss = yield* Tensor.sum(yield* Tensor.mul(yield* Tensor.square(other), next));
  const gradients = yield* Gradient.grad(loss, [other]);
  assert.match((yield* Effect.flip(Tensor.freezeProgram(gradients))).message, /slot 1/);
});

effectTest("the scalars of a call are numbers", function* () {
  const program = yield* Tensor.freezeProgram([yield* Tensor.neg(yield* Tensor.makeScalarInput(0, "f32"))]);
  assert.deepEqual(yield* values((yield* Tensor.runProgram(program, [], [NaN]))[0]), [NaN]);
  for (const wrong of ["7", 7n, undefined, null, true, {}, Symbol("x")]) {
    const error = yield* Effect.flip(Tensor.runProgram(program, [], [wrong]));
    assert.equal(error._tag, "TensorError");
    assert.match(error.message, /scalar 0 is .*, expected a number/);
  }
});

effectTest("a placeholder of one trace is none of another's", function* () {
  let leaked;
  const first = yield* Tensor.compile(([x]) => ((leaked = x), relu([x])));
  const x = yield* ones(2);
  yield* first.call([x]);
  const second = yield* Tensor.compile(([y]) => Effect.map(Tensor.add(y, leaked), (sum) => [sum]));
  const error = yield* Effect.flip(second.call([x]));
  assert.equal(error._tag, "TensorError");
  assert.match(error.message, /placeholder of another trace/);
  assert.match((yield* Effect.flip(Tensor.freezeProgram([leaked]))).message, /placeholder of another trace/);
  // Its shape and its dtype are free, and so are placeholders that are made by hand.
  const shaped = yield* Tensor.compile(() => Effect.map(Tensor.onesLike(leaked), (y) => [y]));
  assert.deepEqual(yield* values((yield* shaped.call([]))[0]), [1, 1]);
  const input = yield* Tensor.makeInput(0, x);
  const doubled = yield* Tensor.compile(([y]) => Effect.map(Tensor.add(y, input), (sum) => [sum]));
  assert.deepEqual(yield* values((yield* doubled.call([x]))[0]), [2, 2]);
});

effectTest("a binding must be of its placeholder's shape and dtype", function* () {
  const input = yield* Tensor.makeInput(0, yield* ones(2));
  const program = yield* Tensor.freezeProgram([yield* Tensor.neg(input)]);
  for (const wrong of [yield* ones(3), yield* i64([1, 2])]) {
    const error = yield* Effect.flip(Tensor.runProgram(program, [wrong]));
    assert.match(error.message, /binding 0 is/);
  }
  assert.match((yield* Effect.flip(Tensor.runProgram(program, []))).message, /0.*1|1.*0/);
});

effectTest("results stay as they are when the program runs again", function* () {
  const input = yield* Tensor.makeInput(0, yield* ones(2));
  const program = yield* Tensor.freezeProgram([yield* Tensor.neg(input)]);
  const kept = [];
  for (let at = 0; at < 8; at++) kept.push((yield* Tensor.runProgram(program, [yield* f32([at, at + 1])]))[0]);
  for (let at = 0; at < 8; at++) assert.deepEqual(yield* values(kept[at]), [-at || -0, -at - 1]);
});

effectTest("optimize false gives the same, and constant weights too", function* () {
  const [weight] = yield* Tensor.compute([yield* Tensor.randn([4, 4])]);
  const body = ([x]) =>
    Effect.gen(function* () {
      return [yield* Tensor.gelu(yield* Tensor.matmul(x, weight))];
    });
  const x = yield* Tensor.randn([2, 4]);
  const [input] = yield* Tensor.compute([x]);
  const expected = yield* values((yield* Tensor.compute(yield* body([input])))[0]);
  for (const options of [{ optimize: false }, { constantWeights: true }, { optimize: true, constantWeights: false }]) {
    const compiled = yield* Tensor.compile(body, options);
    const found = yield* values((yield* compiled.call([input]))[0]);
    found.forEach((value, at) => assert.ok(Math.abs(value - expected[at]) < 1e-5));
  }
});

effectTest("an executable tells what it is made of, and nobody changes that", function* () {
  const input = yield* Tensor.makeInput(0, yield* Tensor.ones([8, 8]));
  const { handle } = yield* Tensor.freezeProgram([yield* Tensor.exp(yield* Tensor.matmul(input, input))]);
  const { diagnostics } = handle;
  assert.ok(diagnostics.semanticNodesBeforeOptimization > 0);
  assert.ok(diagnostics.instructions.length > 0 && diagnostics.commandCount > 0);
  assert.equal(diagnostics.memory.outputBytes, 256);
  for (const { phase, nanoseconds } of diagnostics.compilePhases) assert.ok(phase.length > 0 && nanoseconds >= 0);
  assert.ok(
    Object.isFrozen(diagnostics.compilePhases) && Object.isFrozen(diagnostics.memory) && Object.isFrozen(handle),
  );
  assert.equal(handle.state, undefined);
});

effectTest(
  "a function that calls itself while it is traced is an error",
  function* () {
    let again;
    again = yield* Tensor.compile(([x]) => again.call([x]));
    const x = yield* ones(2);
    const error = yield* Effect.flip(again.call([x]));
    assert.equal(error._tag, "TensorError");
    assert.match(error.message, /compile: a function calls itself while it is traced/);
    assert.deepEqual(yield* again.stats, { cached: 0, compiled: 1 });
    const forked = yield* Tensor.compile(([x]) => Effect.flatMap(Effect.forkChild(forked.call([x])), Fiber.join));
    assert.match((yield* Effect.flip(forked.call([x]))).message, /calls itself/);
  },
  { timeout: 20_000 },
);

effectTest(
  "functions that call each other while they are traced are an error",
  function* () {
    const x = yield* ones(2);
    const pair = {};
    const calling = (name) => () => Effect.andThen(Effect.yieldNow, pair[name].call([x]));
    pair.one = yield* Tensor.compile(calling("two"));
    pair.two = yield* Tensor.compile(calling("one"));
    assert.match((yield* Effect.flip(pair.one.call([x]))).message, /calls itself/);
    // Each is traced by a fiber of its own, and would wait for the other.
    const both = [pair.one, pair.two].map((compiled) => Effect.flip(compiled.call([x])));
    for (const error of yield* Effect.all(both, { concurrency: "unbounded" }))
      assert.match(error.message, /calls itself/);
  },
  { timeout: 20_000 },
);

effectTest("a function may call another one while it is traced", function* () {
  const inner = yield* Tensor.compile(relu);
  const weight = yield* f32([-1, 2]);
  const outer = yield* Tensor.compile(([x]) =>
    Effect.flatMap(Effect.all([inner.call([weight]), inner.call([weight])], { concurrency: 2 }), ([[first]]) =>
      Effect.map(Tensor.add(x, first), (sum) => [sum]),
    ),
  );
  assert.deepEqual(yield* values((yield* outer.call([weight]))[0]), [-1, 4]);
});

effectTest("a trace again after one that has failed is no lack of room", function* () {
  const said = [];
  const logger = Logger.make(({ message }) => said.push(String(message)));
  let attempts = 0;
  const compiled = yield* Tensor.compile(([x]) => (++attempts === 1 ? Effect.fail("first") : relu([x])));
  const x = yield* ones(1);
  yield* Effect.gen(function* () {
    yield* Effect.flip(compiled.call([x]));
    yield* compiled.call([x]);
  }).pipe(Effect.provide(Logger.layer([logger])));
  assert.deepEqual(said, []);
});

effectTest("signatures tell runtimes, placements, dtypes and shapes apart", function* () {
  const runtime = yield* Runtime.Runtime;
  const of = (...tensors) => Tensor.signatureOf(tensors, runtime);
  const [x, y] = [yield* ones(2), yield* Tensor.ones([2, 1])];
  assert.equal(of(x), of(yield* ones(2)));
  const all = [
    of(),
    of(x),
    of(y),
    of(x, x),
    of(yield* i64([1, 2])),
    Tensor.signatureOf([x], { ...runtime, identity: {} }),
  ];
  assert.equal(new Set(all).size, all.length);
});

effectTest("programs can be cached by hand", function* () {
  const cache = Tensor.makeProgramCache(1);
  const trace = Effect.gen(function* () {
    return yield* Tensor.freezeProgram([yield* Tensor.ones([1])]);
  });
  const first = yield* Tensor.cachedProgram(cache, "one", () => trace);
  assert.equal(yield* Tensor.cachedProgram(cache, "one", () => trace), first);
  yield* Tensor.cachedProgram(cache, "two", () => trace);
  assert.deepEqual(yield* cache.stats, { cached: 1, compiled: 2 });
  assert.equal(cache.capacity, 1);
  assert.throws(() => Tensor.makeProgramCache(0), RangeError);
  const exit = yield* Effect.exit(Tensor.cachedProgram(cache, "three", () => Effect.die("defect")));
  assert.ok(Exit.isFailure(exit));
  assert.equal((yield* cache.stats).cached, 1);
});
