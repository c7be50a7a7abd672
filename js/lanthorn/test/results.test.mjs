// Values around tensors: results of functions, states of modules and optimisers, files, and what is shown of a tensor.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import vm from "node:vm";

import * as lanthorn from "../dist/node.js";

const { canRun, compile, create, jit, loadSafetensors, loadSafetensorsAsync, nn, noGrad, optim } = lanthorn;
const { saveSafetensors, saveSafetensorsAsync, Tensor, trackTensors } = lanthorn;

const folder = mkdtempSync(join(tmpdir(), "lanthorn-results-"));

class Out {
  constructor(t) {
    this.t = t;
  }
}

test("trackTensors keeps what its result holds", () => {
  let inner;
  const layer = trackTensors(() => {
    inner = new Tensor([1]);
    return new nn.Sequential(new nn.Linear(2, 1), new nn.BatchNorm1d(1));
  });
  assert.equal(layer.at(1).running_mean.item(), 0);
  assert.equal(layer.forward(new Tensor([[1, 2], [3, 4]])).toArray().length, 2);
  assert.throws(() => inner.toArray(), { kind: "invalid_handle" });
  const map = trackTensors(() => new Map([["a", [new Tensor([1])]], ["b", new Set([new Tensor([2])])]]));
  assert.equal(map.get("a")[0].item() + [...map.get("b")][0].item(), 3);
  let lost;
  assert.throws(() => trackTensors(() => new Out((lost = new Tensor([1])))), { op: "trackTensors", message: /class Out; give them/ });
  assert.throws(() => lost.toArray(), { kind: "invalid_handle" });
  assert.ok(trackTensors(() => new Date()) instanceof Date);
});

test("jit gives Maps and Sets, and says what it cannot give", () => {
  const x = new Tensor([1]);
  const f = jit((x) => new Map([["a", x.add(1)], ["b", new Set([x.mul(5)])]]));
  for (const value of [1, 7]) {
    const given = f(new Tensor([value]));
    assert.equal(given.get("a").item(), value + 1);
    assert.equal([...given.get("b")][0].item(), value * 5);
  }
  const taken = jit((map) => map.get("x").add(1));
  assert.equal(taken(new Map([["x", x]])).item(), 2);
  assert.throws(() => taken(new Map([["y", x]])), { name: "JitError", message: /a Map of y, expected a Map of x/ });
  assert.throws(() => jit((x) => new Out(x.add(1)))(x), { name: "JitError", message: /tensors in an object of class Out/ });
  assert.throws(() => jit(() => new nn.Linear(1, 1))(x), { name: "JitError", message: /class Linear.*make modules outside/ });
  const layer = new nn.Linear(1, 1);
  assert.equal(jit((x) => ({ layer, y: layer.forward(x) }))(x).layer, layer, "one from outside stays as it is");
  const loop = [];
  loop.push(loop);
  assert.throws(() => jit(() => x)(loop), { name: "JitError", message: /contains itself/ });
});

test("counters of a compiled function that is gone name no other call", () => {
  const f = compile((x) => x.add(1), [new Tensor([1])]);
  f.dispose();
  assert.throws(() => f.stats(), { kind: "invalid_handle", op: "stats", message: /has been disposed/ });
});

test("a state of a module is loaded whole or not at all", () => {
  const gone = new Tensor([1]);
  assert.equal(gone.rank, 1);
  gone.dispose();
  for (const bias of [new (create().Tensor)([1]), gone, [1]]) {
    const layer = new nn.Linear(1, 1);
    const before = layer.weight.item();
    assert.throws(() => layer.loadStateDict({ weight: new Tensor([[before + 5]]), bias }), { op: "loadStateDict" });
    assert.equal(layer.weight.item(), before);
  }
  assert.throws(() => new nn.Linear(1, 1).loadStateDict(null), { op: "loadStateDict", message: /the state is null/ });
});

test("an optimiser refuses the state of another one, and goes on", () => {
  const w = new Tensor([1], true);
  const [sgd, adam] = [new optim.SGD([w], { momentum: 0.9 }), new optim.Adam([w])];
  w.sum().backward();
  sgd.step();
  adam.step();
  const state = sgd.stateDict();
  assert.throws(() => adam.loadStateDict(state), { op: "Adam.loadStateDict", message: /the state is of SGD, expected one of Adam/ });
  const { rule: _, ...unnamed } = state;
  assert.throws(() => adam.loadStateDict(unnamed), { message: /a setting momentum, expected those of Adam/ });
  const slots = { "0.velocity": state.slots["0.velocity"] };
  const own = adam.stateDict();
  assert.throws(() => adam.loadStateDict({ ...own, slots }), { message: /0\.velocity, expected m, v of a parameter/ });
  assert.throws(() => adam.loadStateDict({ ...own, slots: { "0.m": own.slots["0.m"] } }), { message: /lacks 0\.v/ });
  assert.throws(() => adam.loadStateDict({}), { message: /the groups are undefined/ });
  adam.step();
  assert.equal(adam.steps, 2);
  adam.loadStateDict(own);
});

test("a file takes a Map, and nothing that it would lose", async () => {
  const path = join(folder, "map.safetensors");
  const map = new Map([["w", new Tensor([1, 2])]]);
  saveSafetensors(path, map, new Map([["k", "v"]]));
  assert.deepEqual([...loadSafetensors(path).tensors.w.toArray()], [1, 2]);
  await saveSafetensorsAsync(path, map);
  assert.deepEqual([...(await loadSafetensorsAsync(path)).tensors.w.toArray()], [1, 2]);
  const a = new Tensor([1]);
  for (const [tensors, metadata, message] of [
    [null, {}, /the tensors are null, expected an object or a Map/],
    [[a], {}, /Array/],
    [new Out(a), {}, /class Out/],
    [{ a: null }, {}, /a is null, expected a Tensor/],
    [{ "\ud800": a }, {}, /has half a character/],
    [{ a }, ["x"], /the metadata are an object of class Array/],
    [{ a }, "xyz", /the metadata are the text "xyz"/],
    [{ a }, null, /the metadata are null/],
    [{ a }, { k: 5 }, /the metadata k is 5, expected text/],
  ]) {
    assert.throws(() => saveSafetensors(path, tensors, metadata), { name: /Error$/, op: "saveSafetensors", message });
    await assert.rejects(saveSafetensorsAsync(path, tensors, metadata), { op: "saveSafetensorsAsync", message });
  }
  saveSafetensors(path, { "\u{1f600}": a });
  for (const [place, message] of [
    ["/tmp/a\0b", /NUL/],
    [new URL("file:///tmp/%E0%A4%A"), /names no file/],
    [new URL("file://otherhost/tmp/x"), /otherhost.*names no file of this machine/],
    [new URL("https://localhost/x"), /names no file/],
    [5, /the path is 5/],
  ]) {
    assert.throws(() => loadSafetensors(place), { kind: "io", op: "loadSafetensors", message });
  }
});

test("files asked for by an aborted signal are neither written nor read", async () => {
  const path = join(folder, "aborted.safetensors");
  const stop = new AbortController();
  const reason = new Error("enough");
  stop.abort(reason);
  const { signal } = stop;
  await assert.rejects(saveSafetensorsAsync(path, { a: new Tensor([1]) }, {}, { signal }), reason);
  assert.throws(() => loadSafetensors(path), { kind: "io" });
  saveSafetensors(path, { a: new Tensor([1]) });
  await assert.rejects(loadSafetensorsAsync(path, { signal }), reason);
  await assert.rejects(loadSafetensorsAsync(path, signal), { op: "loadSafetensorsAsync", message: /\{ signal \}/ });
  const later = new AbortController();
  const loading = loadSafetensorsAsync(path, { signal: later.signal });
  later.abort(reason);
  await assert.rejects(loading, reason);
});

test("gradients are off for the tensors of all runtimes", () => {
  const pg = create();
  const [own, other] = [new Tensor([1], true), new pg.Tensor([1], true)];
  noGrad(() => {
    own.add_(1);
    other.add_(1);
  });
  assert.equal(own.item() + other.item(), 4);
  pg.noGrad(() => assert.throws(() => own.add_(1), /no_grad/));
  assert.throws(() => other.add_(1), /no_grad/, "they are on again");
  pg.dispose();
  noGrad(() => own.add_(1));
});

test("promises of another realm are awaited", async () => {
  const foreign = vm.runInNewContext("(f) => new Promise((resolve) => setTimeout.call(null, () => resolve(f()), 1))", { setTimeout });
  let made;
  const kept = await trackTensors(() => {
    made = new Tensor([1]);
    return foreign(() => made.item());
  });
  assert.equal(kept, 1);
  assert.throws(() => made.toArray(), { kind: "invalid_handle" });
  const w = new Tensor([1], true);
  await noGrad((scope) => foreign(() => scope.run(() => w.add_(1))));
  assert.equal(w.item(), 2);
});

test("a read in flight says that its runtime was disposed", async () => {
  const pg = create();
  const x = pg.Tensor.ones([256, 256]);
  let y = x;
  for (let at = 0; at < 20; at++) y = y.matmul(x).tanh();
  const read = y.toArrayAsync();
  pg.dispose();
  await read.then(
    () => {},
    (error) => assert.deepEqual([error.kind, error.op], ["closed", "toArrayAsync"]),
  );
});

test("console.log shows dtype, shape, device and elements that are there", () => {
  assert.equal(inspect(new Tensor([1, -0, 3])), "Tensor f32[3] on cpu { 1, -0, 3 }");
  assert.equal(inspect(Tensor.fromData(new Int8Array(9)).reshape(3, 3)), "Tensor i8[3, 3] on cpu");
  assert.equal(inspect(new Tensor(new Int8Array(9))), "Tensor i8[9] on cpu { 0, 0, 0, 0, 0, 0, ... }");
  const x = new Tensor([1]).add(1);
  assert.equal(inspect(x), "Tensor f32[1] on cpu");
  x.item();
  assert.equal(inspect(x), "Tensor f32[1] on cpu { 2 }");
  x.add_(1);
  assert.equal(inspect(x), "Tensor f32[1] on cpu", "nothing is computed for it");
  x.dispose();
  assert.equal(inspect(x), "Tensor (disposed)");
});

test("a frozen tensor has a shape", () => {
  assert.deepEqual(Object.freeze(new Tensor([1, 2])).shape, [2]);
});

test("canRun knows methods by all their names", () => {
  for (const op of ["cat", "mod", "clip", "add_", "add", "matmul_".slice(0, 6)]) {
    assert.notEqual(canRun({ op, shape: [2, 2] }).answer, "no", op);
  }
  assert.equal(canRun({ op: "clip", shape: [2] }).answer, "yes");
  assert.equal(canRun({ op: "lshift", shape: [2], dtype: "i32" }).answer, "yes");
  assert.deepEqual(["view", "randn", "copy_"].map((op) => canRun({ op, shape: [2] }).answer), ["unknown", "unknown", "unknown"]);
  for (const op of ["bind", "constructor", "nothing", "nothing_"]) assert.equal(canRun({ op }).answer, "no", op);
  for (const query of [undefined, { op: "add", shape: 5 }, { op: Symbol("a") }]) assert.match(canRun(query).reason, /^canRun: .*expected/);
});

test("names of the inside are not exported", () => {
  for (const name of ["errorOf", "errorOfText", "renamed", "nameErrors", "noGradOf", "commitFor"]) assert.ok(!(name in lanthorn), name);
  for (const name of ["within", "weightOf", "expectProbability", "probabilityOf", "expectState"]) assert.ok(!(name in nn), name);
});

test("a file that is asked not to be written is whole or as it was before", async () => {
  const path = join(folder, "large.safetensors");
  const large = Tensor.ones([4_000_000]).realize();
  saveSafetensors(path, { a: new Tensor([1]) });
  const reason = new Error("enough");
  // At several moments, since no one knows how far the writing is.
  for (const wait of [0, 1, 2, 4, 8]) {
    const stop = new AbortController();
    const saving = saveSafetensorsAsync(path, { large }, {}, { signal: stop.signal });
    await new Promise((resolve) => setTimeout(resolve, wait));
    stop.abort(reason);
    const outcome = await saving.then(() => "large", (error) => (assert.equal(error, reason), "a"));
    assert.deepEqual(Object.keys(loadSafetensors(path).tensors), [outcome], `after ${wait} ms`);
    saveSafetensors(path, { a: new Tensor([1]) });
    const loading = new AbortController();
    const read = loadSafetensorsAsync(path, { signal: loading.signal });
    loading.abort(reason);
    await assert.rejects(read, reason);
  }
  assert.deepEqual(readdirSync(folder).filter((name) => /large/.test(name)), ["large.safetensors"], "nothing is left beside it");
});
