// Functions that are traced once and run again: jit, compile and func.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  commit,
  compile,
  DTypeError,
  ForeignHandleError,
  func,
  InvalidHandleError,
  jit,
  JitError,
  manualSeed,
  noGrad,
  stats,
  Tensor,
} from "../dist/node.js";
import { assertClose } from "./support.mjs";

const f32 = (data, shape) => Tensor.fromData(Float32Array.from(data), shape);

test("a jitted function is traced once; results of later calls are new tensors", () => {
  let runs = 0;
  const double = jit((x) => {
    runs++;
    return x.mul(2).add(1);
  });
  const results = [1, 2, 3, 4].map((value) => double(f32([value, value + 1])));
  assert.equal(runs, 1);
  assert.deepEqual(results.map((result) => Array.from(result.toArray())), [[3, 5], [5, 7], [7, 9], [9, 11]]);
  // One result written to is no other's business.
  results[0].add_(100);
  assert.deepEqual(Array.from(results[1].toArray()), [5, 7]);
  const { inputs, outputs, closures, writes, kernels, calls } = double.stats();
  assert.deepEqual({ inputs, outputs, closures, writes, kernels, calls }, {
    inputs: 1, outputs: 1, closures: 0, writes: 0, kernels: 1, calls: 4,
  });
});

test("a replay builds no graph and compiles nothing", () => {
  const f = jit((x) => x.matmul(x).exp().sum());
  const x = f32([0, 1, 2, 3], [2, 2]);
  f(x).dispose();
  const before = stats();
  for (let at = 0; at < 50; at++) f(x).dispose();
  const after = stats();
  assert.equal(after.compiles, before.compiles);
  assert.equal(after.programs, before.programs, "no commits of the session");
  assert.equal(after.calls - before.calls, 50);
  assert.equal(after.kernels - before.kernels, 50 * f.stats().kernels);
  // Meanwhile the collector may have taken tensors of other tests.
  assert.ok(after.handles <= before.handles, `${after.handles} handles after ${before.handles}`);
});

test("lists and objects of tensors go in and come out", () => {
  const f = jit(({ a, b }, [c]) => ({ sum: a.add(b), parts: [c, a.sub(b)], name: "ab" }));
  for (const value of [1, 5]) {
    const result = f({ a: f32([value]), b: f32([2]) }, [f32([9, 9])]);
    assert.equal(result.name, "ab");
    assertClose(result.sum.toArray(), [value + 2]);
    assertClose(result.parts[1].toArray(), [value - 2]);
    assertClose(result.parts[0].toArray(), [9, 9]);
  }
  assert.throws(() => f({ a: f32([1]), c: f32([2]) }, [f32([9, 9])]), /JitError|args\[0\] is an object of a, c/);
  assert.equal(jit((x) => void x.add(1))(f32([1])), undefined);
});

test("tensors from outside are read as they are at each call", () => {
  const w = f32([1, 2]);
  const f = jit((x) => x.mul(w));
  assertClose(f(f32([1, 1])).toArray(), [1, 2]);
  w.copy_(f32([10, 20]));
  assertClose(f(f32([1, 1])).toArray(), [10, 20]);
  // A pending value is computed for the call.
  w.add_(f32([1, 1]));
  assertClose(f(f32([2, 2])).toArray(), [22, 42]);
  // Through a view, too.
  w.select(0, 1).copy_(0);
  assertClose(f(f32([1, 1])).toArray(), [11, 0]);
});

test("writes are replayed on the live tensors", () => {
  const total = f32([0, 0]);
  const count = Tensor.fromData(Int32Array.of(0), []);
  const alias = total.detach();
  const add = jit((x) => {
    total.add_(x);
    count.add_(1);
    return total.mul(10);
  });
  for (const step of [1, 2, 3]) {
    const result = add(f32([step, 1]));
    assertClose(total.toArray(), [(step * (step + 1)) / 2, step]);
    assertClose(result.toArray(), [5 * step * (step + 1), 10 * step]);
    assert.equal(count.item(), step);
  }
  assertClose(alias.toArray(), [6, 3]);
  total.copy_(0);
  add(f32([5, 5]));
  assertClose(alias.toArray(), [5, 5]);
});

test("a function writes to its arguments, views included", () => {
  const base = f32([0, 0, 0, 0]);
  const put = jit((target, value) => void target.copy_(value));
  put(base.slice(0, 0, 2), f32([1, 2]));
  put(base.slice(0, 2, 4), f32([3, 4]));
  assertClose(base.toArray(), [1, 2, 3, 4]);
  const whole = f32([0, 0]);
  put(whole, f32([7, 8]));
  assertClose(whole.toArray(), [7, 8]);
});

function regression(wrap) {
  manualSeed(3);
  const w = Tensor.randn([3, 1], { requiresGrad: true });
  const b = Tensor.fromData([0], [1], { requiresGrad: true });
  const x = Tensor.randn([16, 3]);
  const y = x.matmul(f32([1, -2, 3], [3, 1])).add(0.5);
  const step = wrap((input, target) => {
    const loss = input.matmul(w).add(b).sub(target).square().mean();
    loss.backward();
    noGrad(() => {
      for (const parameter of [w, b]) parameter.sub_(parameter.grad.mul(0.1));
    });
    for (const parameter of [w, b]) parameter.grad = null;
    return loss;
  });
  const losses = [];
  for (let at = 0; at < 60; at++) losses.push(step(x, y).item());
  return { losses, w, b };
}

test("a jitted training step follows the steps that were not jitted", () => {
  const plain = regression((f) => f);
  const jitted = regression(jit);
  assertClose(jitted.losses, plain.losses, 1e-6);
  assertClose(jitted.w.toArray(), plain.w.toArray(), 1e-6);
  assert.ok(jitted.losses[59] < 1e-2 * jitted.losses[0]);
  assert.equal(jitted.w.grad, null);
  // What was trained goes on without the program.
  jitted.w.sum().backward();
  assertClose(jitted.w.grad.toArray(), [1, 1, 1]);
});

test("gradients that a call leaves are there afterwards, and must be as at the trace", () => {
  const w = Tensor.fromData([1, 2], [2], { requiresGrad: true });
  const f = jit((x) => {
    const loss = w.mul(x).sum();
    loss.backward();
    return loss;
  });
  f(f32([3, 4]));
  assertClose(w.grad.toArray(), [3, 4]);
  assert.throws(() => f(f32([5, 6])), (error) => error instanceof JitError && /no gradient.*a gradient now/.test(error));
  w.grad = null;
  f(f32([5, 6]));
  assertClose(w.grad.toArray(), [5, 6]);
  // One that was traced with a gradient adds to it.
  const g = jit((x) => void w.mul(x).sum().backward());
  g(f32([1, 1]));
  g(f32([1, 1]));
  assertClose(w.grad.toArray(), [7, 8]);
});

test("an argument that requires gradients gets its own", () => {
  const f = jit((x) => {
    x.square().sum().backward();
    return x.grad;
  });
  for (const value of [2, 3]) {
    const x = Tensor.fromData([value], [1], { requiresGrad: true });
    assertClose(f(x).toArray(), [2 * value]);
    assertClose(x.grad.toArray(), [2 * value]);
  }
  assert.throws(() => f(f32([1])), /JitError|argument 0 is f32\[1\], expected f32\[1\] that requires gradients/);
});

test("state that is made in the first call is kept", () => {
  let state;
  let runs = 0;
  const momentum = jit((x) => {
    runs++;
    state ??= Tensor.zeros([2]);
    state.mul_(0.5).add_(x);
    return state.add(0);
  });
  assertClose(momentum(f32([1, 2])).toArray(), [1, 2]);
  assertClose(momentum(f32([1, 2])).toArray(), [1.5, 3]);
  assertClose(momentum(f32([1, 2])).toArray(), [1.75, 3.5]);
  assertClose(state.toArray(), [1.75, 3.5]);
  assert.equal(runs, 2);
});

test("state that was made in a call that failed is usable in the next", () => {
  let state;
  let fails = true;
  const f = jit((x) => {
    state ??= Tensor.zeros([2]);
    state.add_(x);
    if (fails) throw new RangeError("mine");
    return state.mul(1);
  });
  assert.throws(() => f(f32([1, 2])), RangeError);
  assertClose(state.toArray(), [0, 0]);
  fails = false;
  assertClose(f(f32([1, 2])).toArray(), [1, 2]);
  assertClose(f(f32([1, 2])).toArray(), [2, 4]);
});

test("what a function makes and writes in each call starts anew", () => {
  const f = jit((x) => {
    const sum = Tensor.zeros([1]);
    for (let at = 0; at < 3; at++) sum.add_(x);
    return sum;
  });
  for (const value of [1, 2, 3]) assertClose(f(f32([value])).toArray(), [3 * value]);
});

test("random numbers are drawn anew, in the session's sequence", () => {
  const draw = (wrap) => {
    manualSeed(11);
    const f = wrap(() => Tensor.rand([3]).add(Tensor.randn([3])));
    return [f(), f(), f()].map((result) => Array.from(result.toArray()));
  };
  const [plain, jitted] = [draw((f) => f), draw(jit)];
  for (let at = 0; at < 3; at++) assertClose(jitted[at], plain[at]);
  assert.notDeepEqual(jitted[0], jitted[1]);
  assert.equal(jit(() => Tensor.rand([1])).stats(), undefined);
});

test("calls that do not match are one clear error", () => {
  const f = jit((x, factor) => x.mul(factor));
  f(f32([1, 2]), 3);
  const fails = (args, pattern) =>
    assert.throws(() => f(...args), (error) => error instanceof JitError && pattern.test(error.message));
  fails([f32([1, 2, 3]), 3], /^jit: args mismatch: argument 0 is f32\[3\], expected f32\[2\]/);
  fails([Tensor.fromData(Int32Array.of(1, 2)), 3], /argument 0 is i32\[2\], expected f32\[2\]/);
  fails([f32([1, 2]), 4], /args\[1\] is 4, expected 3.*pass a tensor/);
  fails([f32([1, 2])], /args is a list of 1, expected one of 2/);
  fails(["x", 3], /args\[0\] is .*expected a Tensor/);
  const gone = f32([1, 2]);
  gone.dispose();
  assert.throws(() => f(gone, 3), InvalidHandleError);
  assert.throws(() => jit(1), JitError);
  // It goes on after all of these.
  assertClose(f(f32([1, 2]), 3).toArray(), [3, 6]);
});

test("one tensor twice is an error where it is not clear what is meant", () => {
  const x = f32([1, 2]);
  assert.throws(() => jit((a, b) => a.add(b))(x, x), /jit: duplicate inputs: arguments 0 and 1/);
  const pure = jit((a, b) => a.add(b));
  pure(x, f32([1, 1]));
  assertClose(pure(x, x).toArray(), [2, 4]);
  const writes = jit((a, b) => void a.add_(b));
  writes(f32([1, 1]), x);
  assert.throws(() => writes(x, x), (error) => error instanceof JitError && /duplicate inputs/.test(error.message));
  assert.throws(() => writes(x, x.detach()), /duplicate inputs/);
  const w = f32([1, 1]);
  const both = jit((a) => void w.add_(a));
  both(x);
  assert.throws(() => both(w), /duplicate inputs/);
  assertClose(x.toArray(), [1, 2]);
});

test("what a call writes takes the place of what was there", () => {
  const size = 4 << 20;
  const state = Tensor.zeros([size]);
  const step = jit((x) => {
    state.add_(x);
  });
  step(f32([1]));
  step(f32([1]));
  const { live_bytes: before, peak_bytes: peak } = stats();
  // So much more that a second copy of the state would be a new peak.
  const ballast = Tensor.zeros([Math.ceil((peak - before) / 4)]);
  commit([ballast]);
  const full = stats().peak_bytes;
  for (let at = 0; at < 3; at++) step(f32([1]));
  assert.ok(stats().peak_bytes - full < size * 4, "a second copy of the state was made");
  assert.equal(state.slice(0, size - 1, size).item(), 5);
});

test("elements that somebody else holds are not written over", () => {
  const state = f32([1, 2, 3, 4]);
  const double = jit(() => {
    state.mul_(2);
  });
  double();
  const view = state.detach();
  const kept = state.add(0);
  const before = state.toArray();
  double();
  assert.deepEqual(Array.from(kept.toArray()), [2, 4, 6, 8]);
  assert.deepEqual(Array.from(before), [2, 4, 6, 8]);
  assert.deepEqual(Array.from(view.toArray()), [4, 8, 12, 16]);
  assert.deepEqual(Array.from(state.toArray()), [4, 8, 12, 16]);
});

test("after a call that failed while it ran, what it writes is as it was", () => {
  const table = f32([1, 2, 3, 4], [4, 1]);
  const step = jit((ids) => {
    table.add_(1);
    return table.embedding(ids).sum();
  });
  const ids = (...list) => Tensor.fromData(Int32Array.from(list));
  step(ids(0, 1));
  assert.throws(() => step(ids(0, 9)).item(), /embedding.*9|9.*embedding/s);
  assert.deepEqual(Array.from(table.toArray()), [2, 3, 4, 5]);
  assert.equal(step(ids(0, 3)).item(), 9);
});

test("what cannot be traced says so, and nothing has changed", () => {
  const w = f32([1, 2]);
  const fails = (fn, pattern) => {
    assert.throws(() => jit(fn)(f32([1, 2])), (error) => error instanceof JitError && pattern.test(error.message));
    assertClose(w.toArray(), [1, 2]);
  };
  fails((x) => (w.add_(x), x.sum().item()), /jit: reading needs values.*while jit traces/);
  fails((x) => (w.add_(x), w.toArray()), /reading needs values/);
  fails(async (x) => x.add(1), /the function is asynchronous/);
  fails(() => manualSeed(1), /seed needs values/);
  fails((x) => (w.requiresGrad = true), /requires_grad changes a tensor that is there before the call/);
  assert.throws(() => jit((x) => x.nonzero())(f32([1, 2])));
  assert.throws(() => jit(() => { throw new RangeError("mine"); })(), RangeError);
  assert.throws(() => jit((x) => x.add(f32([1, 2, 3])))(f32([1, 2])), /add/);
  // The session is not left in the middle of a trace.
  assertClose(w.add(1).toArray(), [2, 3]);
});

test("a placeholder or a traced tensor that is kept says what it is", () => {
  let kept, traced;
  const f = jit((x) => {
    kept = x;
    traced = x.add(1);
    return traced;
  });
  f(f32([1]));
  assert.throws(() => kept.toArray(), InvalidHandleError);
  assert.throws(() => traced.toArray(), /argument of a function that is being traced/);
});

test("a jitted function inside of another is a part of it", () => {
  const inner = jit((x) => x.mul(2));
  const outer = jit((x) => inner(x).add(1));
  for (const value of [1, 2]) assertClose(outer(f32([value])).toArray(), [2 * value + 1]);
  assertClose(inner(f32([5])).toArray(), [10]);
});

test("compile traces samples and runs nothing", () => {
  const w = f32([1]);
  let state;
  const compiled = compile((x) => {
    state ??= Tensor.zeros([1]);
    state.add_(x);
    w.add_(1);
    return state.mul(w);
  }, [f32([100])]);
  assertClose(w.toArray(), [1]);
  assertClose(state.toArray(), [0]);
  assertClose(compiled.run([f32([2])]).toArray(), [4]);
  assertClose(compiled.run([f32([3])]).toArray(), [15]);
  assert.equal(compiled.stats().calls, 2);
  assert.equal(compiled.stats().closures, 2);
  assert.throws(() => compiled.run(f32([3])), JitError);
  assert.throws(() => compiled.run([f32([3, 4])]), /args mismatch/);
  assert.throws(() => compile((x) => x, f32([1])), JitError);
  compiled.dispose();
  compiled.dispose();
  assert.throws(() => compiled.run([f32([3])]), InvalidHandleError);
  assert.throws(() => compiled.stats(), InvalidHandleError);
});

test("a call away from the event loop gives the same", async () => {
  const total = f32(new Float32Array(1 << 16), [256, 256]);
  const f = compile((x) => {
    total.add_(x);
    return [x.matmul(x).sum(), x.add(1)];
  }, [Tensor.ones([256, 256])]);
  const [sum, more] = await f.runAsync([Tensor.ones([256, 256])]);
  assert.equal(sum.item(), 256 ** 3);
  assert.equal(more.toArray()[7], 2);
  assert.equal(total.toArray()[9], 1);
  const small = jit((x) => x.add(1));
  assertClose((await small.runAsync([f32([1, 2])])).toArray(), [2, 3]);
  await assert.rejects(small.runAsync([f32([1])]), JitError);
  await assert.rejects(small.runAsync([f32([1, 2])], { signal: 5 }), DTypeError);
});

test("an aborted call changes nothing", async () => {
  const w = Tensor.ones([512, 512]);
  const f = compile((x) => {
    for (let at = 0; at < 20; at++) w.copy_(w.matmul(x).mul(1 / 512));
    return w.sum();
  }, [Tensor.ones([512, 512])]);
  const x = Tensor.ones([512, 512]);
  const abort = new AbortController();
  const running = f.runAsync([x], { signal: abort.signal });
  setTimeout(() => abort.abort(new Error("enough")), 5);
  await assert.rejects(running, /enough/);
  assert.equal(w.sum().item(), 512 * 512);
  await assert.rejects(f.runAsync([x], { signal: AbortSignal.abort(new Error("early")) }), /early/);
  const sum = await f.runAsync([x]);
  assert.ok(Math.abs(sum.item() - 512 * 512) < 1);
});

test("two calls in flight that write one tensor: the second says so", async () => {
  const w = Tensor.ones([256, 256]);
  const f = compile((x) => void w.copy_(w.matmul(x)), [Tensor.ones([256, 256])]);
  const x = Tensor.eye(256);
  const calls = await Promise.allSettled([f.runAsync([x]), f.runAsync([x])]);
  assert.equal(calls[0].status, "fulfilled");
  assert.match(String(calls[1].reason), /written while the call ran; await the call first/);
});

test("func adds its graph to the caller's, and gradients pass", () => {
  let runs = 0;
  const f = func((x, y) => {
    runs++;
    return x.mul(y).add(x.detach());
  });
  f(f32([1, 2]), f32([3, 4]));
  const x = Tensor.fromData([1, 2], [2], { requiresGrad: true });
  const y = Tensor.fromData([3, 4], [2], { requiresGrad: true });
  const before = stats();
  const z = f(x, y).square().sum();
  assert.equal(stats().calls, before.calls, "nothing runs yet");
  z.backward();
  const out = [4, 10];
  assert.equal(runs, 1);
  assertClose(x.grad.toArray(), [2 * out[0] * 3, 2 * out[1] * 4]);
  assertClose(y.grad.toArray(), [2 * out[0] * 1, 2 * out[1] * 2]);
  assert.throws(() => noGrad(() => f(x, y)).sum().backward(), /no leaf tensors require grad/);
  // A first call with gradients off takes none from later ones.
  const square = func((a) => a.mul(a));
  noGrad(() => square(x));
  x.grad = null;
  square(x).sum().backward();
  assertClose(x.grad.toArray(), [2, 4]);
});

test("func uses tensors from outside only if it is told so, and writes to none", () => {
  const w = Tensor.fromData([2, 3], [2], { requiresGrad: true });
  assert.throws(() => func((x) => x.mul(w))(f32([1, 1])), (error) =>
    error instanceof JitError && /no argument; pass it, or set allowImplicit/.test(error.message));
  const f = func((x) => x.mul(w), { allowImplicit: true });
  f(f32([1, 1])).sum().backward();
  assertClose(w.grad.toArray(), [1, 1]);
  noGrad(() => w.copy_(f32([5, 6])));
  assertClose(f(f32([1, 2])).toArray(), [5, 12]);
  assert.throws(() => func((x) => x.add_(1))(f32([1])), /func: the function writes to its argument 0/);
  assert.throws(() => func((x) => (noGrad(() => w.add_(1)), x), { allowImplicit: true })(f32([1])), /a tensor from outside/);
  assert.throws(() => func((x) => (x.mul(w).sum().backward(), x), { allowImplicit: true })(f32([1, 1])), JitError);
  assert.throws(() => func(() => 3)(), /func: the function gave 3, expected a Tensor/);
  assert.throws(() => func((x) => x, { allowImplicit: 1 }), DTypeError);
  assert.throws(() => f(f32([1, 2, 3])), (error) => error instanceof JitError && /args mismatch/.test(error.message));
  const noise = func((x) => x.add(Tensor.rand([1])));
  assert.notEqual(noise(f32([0])).item(), noise(f32([0])).item());
  // Inside of a jitted function it is a part of it.
  const g = jit((x) => f(x).add(1));
  for (const value of [1, 2]) assertClose(g(f32([value, value])).toArray(), [5 * value + 1, 6 * value + 1]);
});

test("a disposed function lets go of what it kept", () => {
  globalThis.gc?.();
  const before = stats();
  const w = Tensor.ones([1 << 18]);
  const f = jit((x) => x.add(w));
  f(f32([1])).dispose();
  w.dispose();
  const result = f(f32([2]));
  assertClose([result.sum().item()], [3 * (1 << 18)]);
  result.dispose();
  assert.equal(stats().captures, before.captures + 1);
  f.dispose();
  f.dispose();
  assert.throws(() => f(f32([2])), InvalidHandleError);
  globalThis.gc?.();
  const after = stats();
  assert.equal(after.captures, before.captures);
  assert.ok(after.live_bytes < before.live_bytes + (1 << 19), `${after.live_bytes} bytes, before ${before.live_bytes}`);
});

test("an argument of another engine is refused", () => {
  const f = jit((x) => x.add(1));
  const x = f32([1]);
  f(x);
  assert.throws(() => f({ handle: x.handle }), JitError);
  const foreign = new Tensor(x.handle, undefined, { raw: x.session.raw });
  assert.throws(() => f(foreign), ForeignHandleError);
});

test("arguments that are not computed yet are computed with the call", async () => {
  const w = f32([1, 2]);
  const f = jit((x, y) => {
    w.add_(x);
    return w.mul(y);
  });
  f(f32([0, 0]), f32([1, 1]));
  for (const call of [(...args) => f(...args), (...args) => f.runAsync(args)]) {
    w.copy_(f32([1, 2]));
    const pending = f32([1, 1]).mul(2).add(1);
    const view = Tensor.fromData([0, 1, 2, 3], [2, 2]).mul(10).transpose().select(0, 1);
    assertClose((await call(pending, view)).toArray(), [40, 150]);
    assertClose(pending.toArray(), [3, 3]);
    assertClose(w.toArray(), [4, 5]);
  }
});

test("realize in a traced function gives the tensor back: the program computes it", () => {
  let runs = 0;
  const f = jit((x) => (runs++, x.add(1).realize()));
  const given = [[1, 2, 3], [4, 5, 6], [7, 8, 9]].map((values) => f(f32(values)));
  assert.deepEqual(given.map((each) => [...each.toArray()]), [[2, 3, 4], [5, 6, 7], [8, 9, 10]]);
  assert.equal(runs, 1);

  const x = f32([1, 2, 3]).realize();
  const squares = compile((x) => x.square().sum().realize(), [x]);
  assert.equal(squares.run([x]).item(), 14);
  x.copyFrom(f32([4, 5, 6]));
  assert.equal(squares.run([x]).item(), 77);

  const w = f32([1, 2], [2, 1]);
  const pending = w.mul(10);
  const product = jit((x) => x.matmul(pending.realize()));
  assert.deepEqual([1, 3].map((value) => product(f32([value, 1], [1, 2])).item()), [30, 50]);
  const gone = f32([1]);
  gone.dispose();
  assert.throws(() => jit(() => gone.realize())(), { name: "InvalidHandleError", op: "realize" });
});
