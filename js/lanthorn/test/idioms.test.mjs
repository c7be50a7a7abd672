// What users of torch and polygrad write, and what it does there.
import assert from "node:assert/strict";
import { test } from "node:test";

import * as lanthorn from "../dist/node.js";
import { assertClose } from "./support.mjs";

const { compileAsync, create, DeviceError, disposeDefault, func, getDefaultRuntime, jitAsync, JitError, manualSeed, nn, noGrad } = lanthorn;
const { Tensor, resetCounters, ShapeError, stats, UnsupportedError } = lanthorn;

test("a clone has elements of its own, and gradients pass to what it is of", () => {
  const x = new Tensor([[1, 2], [3, 4]], true);
  const copy = x.clone();
  assert.deepEqual([copy.requiresGrad, copy.isLeaf, copy.isView], [true, false, false]);
  copy.mul(copy).sum().backward();
  assert.deepEqual(x.grad.tolist(), [[2, 4], [6, 8]]);
  const plain = new Tensor([1, 2, 3]);
  const other = plain.clone();
  plain.fill_(0);
  assert.deepEqual(other.tolist(), [1, 2, 3]);
  other.slice([[0, 1]]).fill_(9);
  assert.deepEqual([plain.tolist(), other.tolist()], [[0, 0, 0], [9, 2, 3]]);
  for (const dtype of ["bool", "i64", "u8", "f16", "bf16", "f64"]) {
    const given = new Tensor([1, 0], { dtype });
    assert.deepEqual([given.clone().dtype, given.clone().isView], [dtype, false]);
    assert.deepEqual(given.clone().tolist(), given.tolist());
  }
  assert.deepEqual(new Tensor([1, 2]).asComplex().clone().asReal().tolist(), [1, 2]);
  assert.equal(noGrad(() => x.clone()).requiresGrad, false);
});

test("a long chain of views ends with a clone", () => {
  let x = new Tensor([[1, 2], [3, 4]]);
  const turn = () => (x = x.transpose());
  assert.throws(() => { for (;;) turn(); }, { name: "UnsupportedError", message: /clone the tensor first/ });
  x = x.clone();
  for (let at = 0; at < 50; at++) turn();
  assert.deepEqual(x.tolist().flat().sort(), [1, 2, 3, 4]);
});

test("contiguous copies views alone, and view refuses where reshape copies", () => {
  const x = new Tensor([[1, 2, 3], [4, 5, 6]]);
  assert.equal(x.contiguous(), x);
  const turned = x.t().contiguous();
  assert.equal(turned.isView, false);
  turned.fill_(0);
  assert.deepEqual(x.tolist(), [[1, 2, 3], [4, 5, 6]]);
  assert.throws(() => x.t().view(6), { name: "ShapeError", op: "view", message: /no view of \[3, 2\] has the shape \[6\]; use reshape/ });
  assert.deepEqual(x.t().reshape(6).tolist(), [1, 4, 2, 5, 3, 6]);
  x.view(3, 2).fill_(7);
  assert.deepEqual(x.tolist(), [[7, 7, 7], [7, 7, 7]]);
});

test("reshapes that copy and flips are tensors of their own", () => {
  const x = new Tensor([[1, 2], [3, 4]]);
  x.t().reshape(4).fill_(0);
  x.flip().fill_(0);
  x.flip(0).mul_(5);
  assert.deepEqual(x.tolist(), [[1, 2], [3, 4]]);
  x.reshape(4).slice([[0, 1]]).fill_(9);
  assert.deepEqual(x.tolist(), [[9, 2], [3, 4]]);
});

test("results say whether gradients pass, and which tensors are leaves", () => {
  const w = new Tensor([1, 2], true);
  const plain = new Tensor([1, 2]);
  const found = (tensor) => [tensor.requires_grad, tensor.is_leaf];
  assert.deepEqual(found(w), [true, true]);
  assert.deepEqual(found(plain), [false, true]);
  assert.deepEqual(found(w.mul(2)), [true, false]);
  assert.deepEqual(found(w.slice([[0, 1]])), [true, false]);
  assert.deepEqual(found(plain.mul(2)), [false, true]);
  assert.deepEqual(found(w.detach()), [false, true]);
  assert.deepEqual(found(w.argmax()), [false, true]);
  assert.deepEqual(found(noGrad(() => w.mul(2))), [false, true]);
  assert.throws(() => (w.mul(2).requiresGrad = false), /a result of others; detach it/);
  // A result is no parameter of a module that keeps it.
  class Net extends nn.Module {
    weight = w;
    seen = w.mul(2);
    forward(x) { return x; }
  }
  assert.deepEqual(new Net().parameters(), [w]);
  assert.deepEqual(nn.getParameters({ w, seen: w.mul(2) }), [w]);
  assert.equal(w.device, "cpu");
});

test("what requires no gradients becomes a leaf that does, also if it is a view", () => {
  const x = new Tensor([1, 2], true);
  const start = x.clone().detach().requires_grad_();
  assert.deepEqual([start.requiresGrad, start.isLeaf], [true, true]);
  start.square().sum().backward();
  assert.deepEqual(start.grad.tolist(), [2, 4]);
  assert.equal(x.grad, null);
  const own = x.detach().requiresGrad_();
  own.sum().backward();
  assert.deepEqual([own.grad.tolist(), x.grad], [[1, 1], null]);
  noGrad(() => own.fill_(5));
  assert.deepEqual(x.tolist(), [1, 2], "it has elements of its own");
  const table = Tensor.arange(6, { dtype: "f32" }).reshape(2, 3).requires_grad_();
  table.mul(table).sum().backward();
  assert.deepEqual(table.grad.tolist(), [[0, 2, 4], [6, 8, 10]]);
  assert.throws(() => x.slice([[0, 1]]).requiresGrad_(false), /shows elements of one that requires gradients; detach it/);
});

test("an axis of what has none is 0 or -1, as in torch", () => {
  const x = new Tensor(5, true);
  for (const axis of [0, -1]) {
    assert.deepEqual([x.sum(axis).item(), x.softmax(axis).item(), x.cumsum(axis).item()], [5, 1, 5]);
    assert.deepEqual(x.sort(axis).map((part) => [part.shape, Number(part.item())]), [[[], 5], [[], 0]]);
    assert.deepEqual(x.sum(axis, true).shape, []);
  }
  assert.equal(x.sort()[0].item(), 5);
  x.sum(0).mul(3).backward();
  assert.equal(x.grad.item(), 3);
  assert.throws(() => x.sum(1), { name: "ShapeError", message: /axis 1 is out of range for rank 0/ });
  assert.throws(() => x.unsqueeze(2), ShapeError);
});

test("t leaves vectors as they are, and slices take no ranges", () => {
  assert.deepEqual(new Tensor([1, 2]).t().tolist(), [1, 2]);
  assert.equal(new Tensor(3).t().item(), 3);
  assert.deepEqual(new Tensor([[1, 2]]).t().tolist(), [[1], [2]]);
  assert.equal(new Tensor(5).slice([]).item(), 5);
});

test("dot is the product of vectors and of matrices", () => {
  assert.deepEqual(new Tensor([[1, 2], [3, 4]]).dot(new Tensor([[0, 1], [1, 0]])).tolist(), [[2, 1], [4, 3]]);
  assert.equal(new Tensor([1, 2, 3]).dot(new Tensor([4, 5, 6])).item(), 32);
  assert.deepEqual(new Tensor([[1, 2], [3, 4]]).dot(new Tensor([1, 1])).tolist(), [3, 7]);
  const rows = Tensor.rand(3, 4).dot(Tensor.rand(4, 5)).softmax(-1);
  assert.deepEqual(rows.shape, [3, 5]);
  assertClose(rows.sum(1).toArray(), [1, 1, 1]);
  assert.throws(() => Tensor.rand(3, 4).dot(Tensor.rand(3, 4)), { name: "ShapeError", op: "dot" });
  assert.deepEqual(new Tensor([[1, 2], [3, 4]]).vecdot(new Tensor([[1, 1], [1, 1]])).tolist(), [3, 7]);
});

test("shrink takes a range of each axis", () => {
  const x = Tensor.arange(12).reshape(3, 4);
  assert.deepEqual(x.shrink([[1, 3], [0, 2]]).tolist(), [[4n, 5n], [8n, 9n]]);
  assert.deepEqual(x.shrink([null, [3, 4]]).tolist(), [[3n], [7n], [11n]]);
  assert.throws(() => x.shrink([[0, 1]]), { op: "shrink", message: /a list of 1, expected 2 ranges/ });
  assert.throws(() => x.shrink([[0, 4], null]), { op: "shrink", message: /axis 0 is \[0, 4\], expected \[start, stop\] within 0 to 3/ });
  assert.throws(() => x.shrink([[-1, 2], null]), { op: "shrink" });
});

test("samples of logits follow their probabilities, and ties at the last of the largest take part", () => {
  manualSeed(5);
  const count = 20_000;
  const counts = (logits, options) => {
    const drawn = new Tensor(logits).expand(count, logits.length).sampleLogits(options);
    assert.deepEqual([drawn.dtype, drawn.shape], ["i32", [count]]);
    const found = logits.map(() => 0);
    for (const place of drawn.toArray()) found[place] += 1;
    return found;
  };
  // Pearson's statistic: below 16.3 in 999 of 1000 draws with 3 degrees of freedom.
  const statistic = (found, expected) => found.reduce((sum, n, at) => sum + (n - count * expected[at]) ** 2 / (count * expected[at]), 0);
  const softmax = (logits) => {
    const total = logits.reduce((sum, x) => sum + Math.exp(x), 0);
    return logits.map((x) => Math.exp(x) / total);
  };
  const logits = [0, 1, -0.5, 0.3];
  assert.ok(statistic(counts(logits), softmax(logits)) < 16.3);
  assert.ok(statistic(counts(logits, { temperature: 2 }), softmax(logits.map((x) => x / 2))) < 16.3);
  const tied = counts([1, 2, 1, 1, 0], { topK: 2 });
  assert.equal(tied[4], 0);
  const shares = softmax([1, 2, 1, 1]);
  assert.ok(statistic(tied.slice(0, 4), shares) < 16.3, String(tied));
  assert.deepEqual([...new Set(counts([0, 3, 1], { temperature: 0 }).map((n) => n > 0))], [false, true]);
  assert.deepEqual(Tensor.rand(2, 3, 4).sampleLogits({ keepdim: true }).shape, [2, 3, 1]);
  manualSeed(5);
  const first = Tensor.rand(8, 9).sampleLogits().tolist();
  manualSeed(5);
  assert.deepEqual(Tensor.rand(8, 9).sampleLogits().tolist(), first);
  assert.throws(() => new Tensor([1, 2]).sampleLogits({ temperature: -1 }), { op: "sampleLogits", message: /the temperature is -1/ });
  assert.throws(() => new Tensor([1, 2]).sampleLogits({ topP: 1 }), /no option topP; the options are temperature, topK, keepdim/);
  assert.throws(() => new Tensor([1, 2]).sampleLogits({ topK: -1 }), { op: "sampleLogits" });
});

test("threefry gives the known answers", () => {
  const bits = (x, key) => new Tensor(BigUint64Array.of(x)).threefry(new Tensor(BigUint64Array.of(key))).toArray()[0];
  assert.equal(bits(0n, 0n), 0x99ba4efe6b200159n);
  assert.equal(bits(2n ** 64n - 1n, 2n ** 64n - 1n), 0xbb002be71cb996fcn);
  assert.equal(bits(0x85a308d3243f6a88n, 0x0370734413198a2en), 0x483df7a0c4923a9cn);
  assert.throws(() => new Tensor([1]).threefry(new Tensor([1])), { name: "DTypeError", message: /counters are f32, expected u64/ });
});

test("options of polygrad name the device and say what is a parameter", () => {
  assert.equal(new Tensor([1], { isParam: true }).requiresGrad, true);
  assert.equal(Tensor.zeros(2, { is_param: false }).requiresGrad, false);
  assert.equal(Tensor.rand(2, { isParam: true, device: "cpu" }).requiresGrad, true);
  assert.equal(new Tensor([1], { device: "auto" }).device, "cpu");
  assert.throws(() => new Tensor([1], { device: "cuda" }), (error) => {
    return error instanceof DeviceError && /the device is cuda, and this runtime computes on cpu/.test(error.message);
  });
  assert.throws(() => new Tensor([1], { isParam: 1 }), { name: "DTypeError", message: /isParam is 1, expected true or false/ });
  assert.throws(() => new Tensor([1], { isParam: true, requiresGrad: false }), { message: /expected one of them, or both alike/ });
  assert.throws(() => new Tensor([1], { logical: "always" }), /no option logical; the options are/);
  assert.throws(() => new Tensor([1], { dtype: "fp8e4m3fnuz" }), { name: "DTypeError", message: /no dtype fp8e4m3fnuz; one of .*f8e4m3/ });
});

test("a scaled uniform lies within one over the root of its size", () => {
  manualSeed(3);
  const values = Tensor.scaledUniform(20, 20, { requiresGrad: true });
  const elements = values.toArray();
  assert.ok(elements.every((x) => Math.abs(x) <= 1 / 20) && Math.max(...elements) > 0.045 && Math.min(...elements) < -0.045);
  assert.equal(values.requiresGrad, true);
  assert.deepEqual(Tensor.scaled_uniform([0, 2]).shape, [0, 2]);
  assert.equal(Tensor.scaledUniform([2], { dtype: "f64" }).dtype, "f64");
});

test("cat, stack and what is made like a tensor are methods too", (t) => {
  const x = new Tensor([[1, 2]]);
  const y = new Tensor([[3, 4]]);
  assert.deepEqual(x.cat(y).tolist(), [[1, 2], [3, 4]]);
  assert.deepEqual(x.cat([y, x], 1).tolist(), [[1, 2, 3, 4, 1, 2]]);
  assert.deepEqual(x.stack(y, -1).shape, [1, 2, 2]);
  assert.throws(() => x.cat([y, null]), { op: "cat", message: /others\[1\] is null/ });
  assert.throws(() => x.cat(Tensor.ones(1, 3)), { op: "cat", kind: "shape" });
  const half = Tensor.zeros(3, 4, { dtype: "f16" });
  for (const made of [half.randLike(), half.randn_like()]) assert.deepEqual([made.dtype, made.shape], ["f16", [3, 4]]);
  assert.equal(x.type_as(half).dtype, "f16");
  assert.throws(() => x.typeAs("f16"), { name: "ForeignHandleError", op: "typeAs" });
  const pg = create();
  t.after(() => pg.dispose());
  const own = new pg.Tensor([[1, 2]]);
  assert.equal(own.cat(own).session, own.session);
  assert.equal(own.randLike().session, own.session);
});

test("polygrad's words for parameters and distributions", () => {
  const x = Tensor.uniform(4, { low: 2, high: 3 });
  assert.ok(x.toArray().every((value) => value >= 2 && value < 3));
  assert.deepEqual(Tensor.normal([0, 3], { mean: 1 }).shape, [0, 3]);
  assert.equal(x.isParam, false);
  assert.equal(x.is_param_(), x);
  assert.deepEqual([x.is_param, x.requiresGrad, x.mul(2).isParam], [true, true, false]);
  assert.equal(x.isParam_(false).is_param, false);
  const net = { layer: new nn.Linear(2, 1) };
  assert.deepEqual(nn.get_parameters(net), nn.getParameters(net));
  assert.deepEqual(Object.keys(nn.get_state_dict(net)), ["layer.weight", "layer.bias"]);
});

test("updateFrom is seen by programs that were captured before", () => {
  const x = new Tensor([1, 2]);
  const f = lanthorn.jit(() => x.square().sum());
  assert.equal(f().item(), 5);
  assert.equal(x.updateFrom([3, 4]), x);
  assert.equal(f().item(), 25);
  x.update_from(new Tensor([1, 1]));
  assert.equal(f().item(), 2);
});

test("Tensor.training turns off dropout, statistics and steps", () => {
  const x = Tensor.ones(4, 2);
  const norm = new nn.BatchNorm1d(2);
  const optimizer = new nn.SGD(norm.parameters(), { lr: 0.1 });
  assert.equal(Tensor.training, true);
  Tensor.training = false;
  try {
    assert.deepEqual(x.dropout(0.9).tolist(), x.tolist());
    assert.deepEqual(new nn.Dropout(0.9).forward(x).tolist(), x.tolist());
    const y = norm.forward(x);
    assertClose(y.toArray(), Array(8).fill(1), 1e-4);
    assert.deepEqual(norm.running_mean.tolist(), [0, 0]);
    y.sum().backward();
    assert.throws(() => optimizer.step(), { name: "UnsupportedError", op: "SGD.step", message: /TRAINING must be enabled/ });
    assert.throws(() => (Tensor.training = 1), { message: /Tensor.training is 1, expected true or false/ });
  } finally {
    Tensor.training = true;
  }
  norm.forward(x);
  assertClose(norm.running_mean.toArray(), [0.1, 0.1]);
  optimizer.step();
  assert.equal(norm.eval().training, false);
});

test("function, jitAsync and compileAsync are there under polygrad's names", async () => {
  assert.equal(lanthorn.function, func);
  const x = new Tensor([1, 2], true);
  lanthorn.function((y) => y.square().sum())(x).backward();
  assert.deepEqual(x.grad.tolist(), [2, 4]);
  const step = jitAsync((y) => y.mul(2));
  const first = step(new Tensor([1, 2]));
  assert.ok(first instanceof Promise);
  assert.deepEqual((await first).tolist(), [2, 4]);
  assert.deepEqual((await step.runAsync([new Tensor([3, 4])])).tolist(), [6, 8]);
  assert.equal(step.stats().calls, 2);
  await assert.rejects(step(new Tensor([1, 2, 3])), JitError);
  step.dispose();
  await assert.rejects(step(new Tensor([1, 2])), /disposed/);
  assert.throws(() => jitAsync(5), JitError);
  const compiled = await compileAsync((y) => y.add(1), [new Tensor([0, 0])]);
  assert.deepEqual(compiled.run([new Tensor([1, 2])]).tolist(), [2, 3]);
  await assert.rejects(compileAsync((y) => y.item(), [new Tensor([0])]), JitError);
  await assert.rejects(compileAsync((y) => y, 5), JitError);
  const stopped = new AbortController();
  stopped.abort(new Error("enough"));
  await assert.rejects(jitAsync((y) => y).runAsync([x], { signal: stopped.signal }), /enough/);
});

test("a runtime has layers, optimisers, gradients and files of its own", async (t) => {
  const pg = create({ core: "native", device: "auto" });
  t.after(() => pg.dispose());
  assert.deepEqual([pg.core, pg.device], ["native", "cpu"]);
  const net = new pg.nn.Sequential(new pg.nn.Linear(2, 3), new pg.nn.BatchNorm1d(3), new pg.nn.Dropout(0.5), new pg.nn.Linear(3, 2));
  assert.ok(net instanceof nn.Sequential && net instanceof pg.nn.Sequential);
  const x = pg.Tensor.rand(4, 2);
  const sgd = new pg.optim.AdamW(net.parameters(), { lr: 0.1 });
  const before = net.parameters()[0].tolist();
  const loss = pg.crossEntropy(net.forward(x), [0, 1, 0, 1]);
  assert.equal(loss.session, x.session);
  loss.backward();
  pg.nn.clipGradNorm(net.parameters(), 1);
  sgd.step();
  assert.notDeepEqual(net.parameters()[0].tolist(), before);
  const w = new pg.Tensor([3], true);
  const [slope] = pg.grad(w.square().sum(), [w]);
  assert.equal(slope.item(), 6);
  assert.deepEqual(pg.toTypedArrays(w, slope).map(([first]) => first), [3, 6]);
  assert.deepEqual((await pg.toTypedArraysAsync(w)).map(([first]) => first), [3]);
  assert.equal((await pg.jitAsync((y) => y.mul(2))(w)).item(), 6);
  assert.equal((await pg.compileAsync((y) => y.mul(2), [w])).run([w]).item(), 6);
  assert.equal(pg.function((y) => y.mul(2))(w).item(), 6);
  assert.equal(pg.nn, pg.nn);
  assert.equal(pg.nn.crossEntropyLoss(pg.Tensor.zeros(2, 2), [0, 1]).session, x.session);
  class Net extends pg.nn.Module {
    first = new pg.nn.Linear(2, 1);
    forward(y) { return this.first.forward(y); }
  }
  assert.equal(new Net().forward(x).session, x.session);
  assert.throws(() => net.forward(Tensor.rand(4, 2)), lanthorn.ForeignHandleError);
});

test("files of a runtime hold and give its tensors", async (t) => {
  const { mkdtempSync, rmSync } = await import("node:fs");
  const { join } = await import("node:path");
  const folder = mkdtempSync(join((await import("node:os")).tmpdir(), "lanthorn-idioms-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const pg = create();
  t.after(() => pg.dispose());
  const file = join(folder, "x.safetensors");
  pg.saveSafetensors(file, { x: new pg.Tensor([1, 2]) }, { of: "pg" });
  const { tensors, metadata } = pg.loadSafetensors(file);
  assert.deepEqual([tensors.x.add(new pg.Tensor([1, 1])).tolist(), metadata.of], [[2, 3], "pg"]);
  await pg.saveSafetensorsAsync(file, { y: tensors.x });
  assert.deepEqual((await pg.loadSafetensorsAsync(file)).tensors.y.mul(tensors.x).tolist(), [1, 4]);
});

test("create takes the core that there is", () => {
  create({ core: "auto" }).dispose();
  assert.equal(getDefaultRuntime().core, "native");
  assert.throws(() => create({ core: "wasm" }), (error) => error instanceof DeviceError && /the core is wasm, and here it is native/.test(error.message));
  assert.throws(() => create({ kernels: false }), /no option kernels; the options are device, core/);
});

test("counters start again, and what is held stays counted", (t) => {
  const pg = create();
  t.after(() => pg.dispose());
  const x = pg.Tensor.ones(1000);
  x.add(1).toArray();
  assert.ok(pg.stats().calls > 0 && pg.stats().commits > 0);
  pg.resetCounters();
  const { calls, commits, kernels, live_bytes, handles } = pg.stats();
  assert.deepEqual([calls, commits, kernels], [0, 0, 0]);
  assert.ok(live_bytes >= 4000 && handles >= 1);
  x.add(2).toArray();
  assert.equal(pg.stats().commits, 1);
  assert.ok(stats().handles < 1e6);
});

test("the default runtime is let go of, and the next tensor has another one", (t) => {
  const x = Tensor.ones(2);
  const first = getDefaultRuntime();
  disposeDefault();
  assert.throws(() => x.add(1), { kind: "closed" });
  const y = Tensor.ones(2).add(1);
  assert.deepEqual(y.tolist(), [2, 2]);
  assert.notEqual(getDefaultRuntime(), first);
  assert.equal(stats().captures, 0);
  const pg = create();
  t.after(() => pg.dispose());
  assert.throws(() => pg.run(() => disposeDefault()), UnsupportedError);
  assert.deepEqual(y.tolist(), [2, 2]);
});

test("collect lets go of what was collected as garbage", () => {
  let many = Array.from({ length: 200 }, () => Tensor.ones(10));
  const before = stats().handles;
  assert.ok(before >= 200 && many.length === 200);
  many = undefined;
  gc();
  lanthorn.collect();
  assert.ok(stats().handles <= before - 190, `${stats().handles} handles of ${before}`);
  resetCounters();
  assert.equal(stats().programs, 0);
});

test("programs that were kept are forgotten and made again", (t) => {
  const pg = create();
  t.after(() => pg.dispose());
  const f = pg.jit((x) => x.mul(3));
  f(pg.Tensor.ones(5));
  const run = () => pg.Tensor.ones(37).mul(2).exp().sum().item();
  const value = run();
  run();
  pg.resetCounters();
  run();
  assert.equal(pg.stats().compiles, 0);
  pg.clearScheduleCache();
  assert.equal(pg.stats().executables, 0);
  assert.equal(run(), value);
  assert.ok(pg.stats().compiles > 0 && pg.stats().executables > 0);
  assert.deepEqual(f(pg.Tensor.ones(5)).tolist(), [3, 3, 3, 3, 3]);
});

test("pad takes a pair for each axis, as NumPy's and polygrad's", () => {
  const x = new Tensor([[1, 2], [3, 4]]);
  assert.deepEqual(x.pad([[1, 0], [0, 2]]).tolist(), [[0, 0, 0, 0], [1, 2, 0, 0], [3, 4, 0, 0]]);
  assert.deepEqual(x.pad([null, [1, -1]], 9).tolist(), [[9, 1], [9, 3]]);
  assert.deepEqual(x.pad([1, 0], [0, 2]).tolist(), x.pad([[1, 0], [0, 2]]).tolist());
  assert.equal(new Tensor(3).pad([], []).item(), 3);
  const leaf = new Tensor([1, 2], true);
  leaf.pad([[1, 1]], 5).square().sum().backward();
  assert.deepEqual(leaf.grad.tolist(), [2, 4]);
  assert.throws(() => x.pad([[1, 1]]), { name: "ShapeError", op: "pad", message: /got 1 pairs, expected 2/ });
  assert.throws(() => x.pad([[1, 1], [1]]), { name: "ShapeError", op: "pad", message: /the pair of axis 1 is a list of 1/ });
  assert.throws(() => x.pad([1, [1, 1]]), { name: "ShapeError", op: "pad", message: /the pair of axis 0 is 1/ });
});

test("logical functions take every dtype: what is not 0 is true, NaN too", () => {
  const x = new Tensor([6, 0, -1], { dtype: "i32" });
  const y = new Tensor([NaN, -0, 0]);
  const values = (z) => (assert.equal(z.dtype, "bool"), z.tolist());
  assert.deepEqual(values(x.logicalNot()), [0, 1, 0]);
  assert.deepEqual(values(y.logical_not()), [0, 1, 1]);
  assert.deepEqual(values(x.logicalAnd(y)), [1, 0, 0]);
  assert.deepEqual(values(x.logical_or(y)), [1, 0, 1]);
  assert.deepEqual(values(y.logical_xor(x)), [0, 0, 1]);
  assert.deepEqual(values(new Tensor([true, false, true]).logicalXor(x)), [0, 0, 0]);
  assert.throws(() => x.logicalAnd(1), { name: "ForeignHandleError", op: "logicalAnd" });
  assert.equal(lanthorn.canRun({ op: "logicalNot", shape: [3], dtype: "i32" }).answer, "yes");
});

test("dtypes have polygrad's names and torch's", () => {
  const names = { fp8e4m3: "f8e4m3", float8_e4m3fn: "f8e4m3", fp8e5m2: "f8e5m2", float8_e5m2: "f8e5m2", bfloat16: "bf16" };
  for (const [name, dtype] of Object.entries(names)) assert.equal(Tensor.ones(2, { dtype: name }).dtype, dtype);
});

test("a tensor that is to be sent to another thread says what to send instead", () => {
  const refusal = { name: "UnsupportedError", op: "structuredClone", message: /a tensor stays in the thread .*toTypedArray/ };
  const x = Tensor.ones(2);
  assert.throws(() => structuredClone(x), refusal);
  assert.throws(() => structuredClone({ net: [new nn.Linear(1, 1)] }), refusal);
  const { port1, port2 } = new MessageChannel();
  assert.throws(() => port1.postMessage(x), refusal);
  port1.close();
  port2.close();
  assert.deepEqual(structuredClone(x.toTypedArray()), Float32Array.of(1, 1));
});

test("names of torch that are other spellings of ours", () => {
  const x = new Tensor([[1, 5], [7, 2]]);
  assert.deepEqual([x.amax(1).tolist(), x.amin(0).tolist(), x.amax().item()], [[5, 7], [1, 2], 7]);
  assert.deepEqual(new Tensor([3]).expand_as(x).tolist(), [[3, 3], [3, 3]]);
  assert.deepEqual(x.take_along_dim([[1], [0]], 1).tolist(), [[5], [7]]);
  assert.throws(() => x.expandAs([2, 2]), { name: "ForeignHandleError", op: "expandAs" });

  const net = new nn.Sequential(new nn.Linear(2, 1), new nn.ReLU());
  assert.deepEqual(net.named_parameters().map(([name]) => name), ["0.weight", "0.bias"]);
  assert.deepEqual([...net.named_children()].map(([name]) => name), ["0", "1"]);
  const state = Object.fromEntries(Object.entries(net.state_dict()).map(([name, tensor]) => [name, tensor.zerosLike()]));
  net.load_state_dict(state);
  assert.deepEqual(net.forward(x).tolist(), [[0], [0]]);
  for (const optimizer of [new nn.Adam(net, { lr: 1 }), new nn.OptimizerGroup(new nn.SGD(net, { lr: 1 }))]) {
    net.forward(x.add(1)).sub(1).square().sum().backward();
    assert.ok(net.parameters().every(({ grad }) => grad !== null));
    optimizer.zero_grad();
    assert.ok(net.parameters().every(({ grad }) => grad === null));
    optimizer.load_state_dict(optimizer.state_dict());
  }
  assert.ok(net.requires_grad_(false).parameters().every((parameter) => !parameter.requiresGrad));
  // What a class has of its own comes first.
  class Own extends nn.Module {
    stateDict() {
      return { mine: x };
    }
    forward() {}
  }
  assert.deepEqual(Object.keys(new Own().state_dict()), ["mine"]);
});
