// State files: what is written is read again, errors name the file, and the event loop goes on meanwhile.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

import {
  Tensor,
  loadSafetensors,
  loadSafetensorsAsync,
  nn,
  saveSafetensors,
  saveSafetensorsAsync,
} from "../dist/node.js";

const folder = mkdtempSync(join(tmpdir(), "lanthorn-"));
after(() => rmSync(folder, { recursive: true }));

test("tensors of every dtype are read as they were written", () => {
  const path = join(folder, "dtypes.safetensors");
  const names = ["bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"];
  const state = Object.fromEntries(names.map((dtype) => [dtype, new Tensor([[1, 0, 1]], { dtype })]));
  state.scalar = Tensor.scalar(2.5);
  state.empty = Tensor.zeros(0, 3);
  state.view = new Tensor([[1, 2], [3, 4]]).T;
  saveSafetensors(path, state, { epoch: "3", note: "a \"quoted\" Ä" });
  const { tensors, metadata } = loadSafetensors(pathToFileURL(path));
  assert.deepEqual(metadata, { epoch: "3", note: "a \"quoted\" Ä" });
  assert.deepEqual(Object.keys(tensors), Object.keys(state));
  for (const [name, tensor] of Object.entries(tensors)) {
    assert.equal(tensor.dtype, state[name].dtype);
    assert.deepEqual(tensor.shape, state[name].shape);
    assert.deepEqual(tensor.toArray(), state[name].toArray());
  }
});

test("the file is that of the format: a length, a JSON header, elements", () => {
  const path = join(folder, "format.safetensors");
  saveSafetensors(path, { w: new Tensor([1, -2]) });
  const bytes = readFileSync(path);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString());
  assert.deepEqual(header.w, { dtype: "F32", shape: [2], data_offsets: [0, 8] });
  assert.deepEqual([bytes.readFloatLE(8 + length), bytes.readFloatLE(12 + length)], [1, -2]);
});

test("a module's state goes through a file, and loaded tensors can be written to", () => {
  const path = join(folder, "module.safetensors");
  const make = () => new nn.Sequential(new nn.Linear(3, 4), new nn.BatchNorm1d(4));
  const [a, b] = [make(), make()];
  a.forward(Tensor.rand(5, 3));
  saveSafetensors(path, a.stateDict());
  const { tensors } = loadSafetensors(path);
  b.loadStateDict(tensors);
  const x = Tensor.rand(2, 3);
  assert.deepEqual(b.eval().forward(x).toArray(), a.eval().forward(x).toArray());
  tensors["0.bias"].add_(1);
  assert.deepEqual(b.stateDict()["0.bias"].toArray(), a.stateDict()["0.bias"].toArray());
});

test("asynchronous forms give the elements of the call's moment and leave the event loop free", async () => {
  const path = join(folder, "later.safetensors");
  const w = Tensor.full([512, 1024], 3);
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  const saving = saveSafetensorsAsync(path, { w, product: w.matmul(w.T) });
  w.fill_(0);
  await saving;
  const { tensors } = await loadSafetensorsAsync(path);
  clearInterval(timer);
  assert.ok(turns > 0);
  assert.equal(tensors.w.mean().item(), 3);
  assert.equal(tensors.product.select(0, 0).select(0, 0).item(), 9 * 1024);
});

test("errors name the file and leave what was there", async () => {
  const missing = join(folder, "nowhere", "x.safetensors");
  const named = (error) => error.message.includes(missing) && error.kind === "io";
  assert.throws(() => loadSafetensors(missing), named);
  assert.throws(() => saveSafetensors(missing, { w: Tensor.ones(1) }), named);
  await assert.rejects(loadSafetensorsAsync(missing), named);
  await assert.rejects(saveSafetensorsAsync(missing, { w: Tensor.ones(1) }), named);

  const broken = join(folder, "broken.safetensors");
  writeFileSync(broken, "no tensors");
  assert.throws(() => loadSafetensors(broken), (error) => error.kind === "format" && error.message.includes(broken));

  const good = join(folder, "good.safetensors");
  saveSafetensors(good, { w: Tensor.ones(2) });
  const before = readFileSync(good);
  assert.throws(() => saveSafetensors(good, { w: 3 }), { name: "ForeignHandleError" });
  assert.throws(() => saveSafetensors(good, { w: Tensor.ones(1) }, { epoch: 3 }), /metadata epoch is 3, expected text/);
  assert.throws(() => saveSafetensors(good, { __metadata__: Tensor.ones(1) }), { kind: "format" });
  assert.throws(() => saveSafetensors(7, {}), /the path is 7/);
  assert.deepEqual(readFileSync(good), before);
  // Nothing half-written stays behind.
  assert.deepEqual(readdirSync(folder).filter((name) => !name.endsWith(".safetensors")), []);
  assert.ok(existsSync(good));
});

test("a name with half a character is refused", async () => {
  const half = "\u{1F3EE}"[1];
  const path = join(folder, "half.safetensors");
  const whole = /has half a character, the lone surrogate U\+DFEE, at \d+, expected whole ones/;
  const w = Tensor.ones(1);
  for (const [file, tensors, metadata, kind] of [
    [join(folder, `x${half}`), { w }, {}, "io"],
    [path, { [`w${half}`]: w }, {}, "format"],
    [path, { w }, { [half]: "x" }, "format"],
  ]) {
    assert.throws(() => saveSafetensors(file, tensors, metadata), { kind, message: whole });
    await assert.rejects(saveSafetensorsAsync(file, tensors, metadata), { kind, message: whole });
  }
  assert.throws(() => loadSafetensors(`x${half}`), { kind: "io", message: whole });
  await assert.rejects(loadSafetensorsAsync(`x${half}`), { kind: "io", message: whole });
  assert.ok(!existsSync(path));
  // What is no name is a text as any other.
  saveSafetensors(path, { w }, { note: `a${half}` });
  assert.equal(loadSafetensors(path).metadata.note, "a\uFFFD");
});

test("a disposed tensor is refused", () => {
  const w = Tensor.ones(1);
  w.dispose();
  assert.throws(() => saveSafetensors(join(folder, "w.safetensors"), { w }), { name: "InvalidHandleError" });
  assert.ok(!existsSync(join(folder, "w.safetensors")));
});
