// Files of other writers: GGUF, torch, ZIP and tar. Those of torch and the archives are the ones that the tests in Rust read.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import {
  create,
  loadGguf,
  loadGgufAsync,
  loadTar,
  loadTarAsync,
  loadTorch,
  loadTorchAsync,
  loadZip,
  loadZipAsync,
  nn,
  Tensor,
} from "../dist/node.js";

const folder = mkdtempSync(join(tmpdir(), "lanthorn-archives-"));
after(() => rmSync(folder, { recursive: true }));
const ofTorch = (name) => new URL(`../../../crates/io/src/torch/fixtures/${name}`, import.meta.url);
const ofArchive = (name) => new URL(`../../../crates/io/src/archive/fixtures/${name}`, import.meta.url);

/** A GGUF file, field by field. */
function gguf() {
  const parts = [];
  const u32 = (x) => parts.push(Buffer.from(Uint32Array.of(x).buffer));
  const u64 = (x) => parts.push(Buffer.from(BigUint64Array.of(BigInt(x)).buffer));
  const text = (x) => (u64(Buffer.byteLength(x)), parts.push(Buffer.from(x)));
  parts.push(Buffer.from("GGUF"));
  u32(3), u64(3), u64(6);
  text("general.architecture"), u32(8), text("tiny");
  text("tiny.block_count"), u32(4), u32(2);
  text("tiny.eps"), u32(6), parts.push(Buffer.from(Float32Array.of(0.5).buffer));
  text("tiny.large"), u32(10), u64(2n ** 60n);
  text("tokenizer.ggml.tokens"), u32(9), u32(8), u64(2), text("a"), text("ß");
  text("tiny.flag"), u32(7), parts.push(Buffer.of(1));
  // Sizes innermost first; types F32, Q8_0, I32.
  text("plain"), u32(2), u64(3), u64(2), u32(0), u64(0);
  text("packed"), u32(2), u64(32), u64(2), u32(8), u64(32);
  text("ids"), u32(1), u64(2), u32(26), u64(128);
  const header = Buffer.concat(parts);
  const data = Buffer.alloc(136);
  Buffer.from(Float32Array.of(1, 2, 3, 4, 5, 6).buffer).copy(data);
  for (const [row, scale] of [[0, 0x3800], [1, 0xc000]]) {
    data.writeUInt16LE(scale, 32 + 34 * row);
    for (let at = 0; at < 32; at++) data.writeInt8(at - 16, 34 + 34 * row + at);
  }
  Buffer.from(Int32Array.of(7, -8).buffer).copy(data, 128);
  return Buffer.concat([header, Buffer.alloc((32 - (header.length % 32)) % 32), data]);
}

test("a GGUF file gives tensors, packed ones as f32, and typed metadata", async () => {
  const path = join(folder, "tiny.gguf");
  writeFileSync(path, gguf());
  for (const { tensors, metadata, encodings } of [loadGguf(path), await loadGgufAsync(path)]) {
    assert.deepEqual(Object.keys(tensors), ["plain", "packed", "ids"]);
    assert.deepEqual(tensors.plain.tolist(), [[1, 2, 3], [4, 5, 6]]);
    assert.deepEqual([tensors.packed.dtype, tensors.packed.shape], ["f32", [2, 32]]);
    const expected = [0.5, -2].map((scale) => Array.from({ length: 32 }, (_, at) => scale * (at - 16)));
    assert.deepEqual(tensors.packed.tolist(), expected);
    assert.deepEqual([tensors.ids.dtype, tensors.ids.tolist()], ["i32", [7, -8]]);
    assert.deepEqual(encodings, { packed: "Q8_0" });
    assert.deepEqual(metadata, {
      "general.architecture": "tiny",
      "tiny.block_count": 2,
      "tiny.eps": 0.5,
      "tiny.large": String(2n ** 60n),
      "tokenizer.ggml.tokens": ["a", "ß"],
      "tiny.flag": true,
    });
  }
  writeFileSync(path, gguf().subarray(0, 200));
  assert.throws(() => loadGguf(path), (error) => error.kind === "format" && error.message.includes(path));
});

test("a file of torch gives the tensors of its state, and its numbers and texts", async () => {
  const { tensors, metadata } = loadTorch(ofTorch("state.pt"));
  assert.deepEqual(tensors.weight.tolist(), [[0, 1, 2], [3, 4, 5]]);
  assert.deepEqual(tensors.turned.tolist(), [[0, 3], [1, 4], [2, 5]]);
  assert.deepEqual(tensors.tail.tolist(), [[5, 7], [9, 11]]);
  assert.deepEqual([tensors.half.dtype, tensors.brain.dtype, tensors.ids.dtype, tensors.mask.dtype], ["f16", "bf16", "i64", "bool"]);
  assert.deepEqual([tensors.ids.tolist(), tensors.mask.tolist(), tensors.scalar.item()], [[2n ** 40n, -1n], [1, 0, 1], 0.1]);
  assert.deepEqual([tensors.empty.shape, metadata], [[0, 4], {}]);
  const checkpoint = await loadTorchAsync(ofTorch("checkpoint.pt"));
  assert.deepEqual(Object.keys(checkpoint.tensors).sort(), ["3", "model.weight", "optimizer.0.m"]);
  assert.equal(checkpoint.metadata.step, "7");
  const layer = new nn.Linear(3, 2, { bias: false });
  layer.loadStateDict({ weight: checkpoint.tensors["model.weight"] });
  assert.deepEqual(layer.forward(Tensor.ones(1, 3)).tolist(), [[3, 12]]);
});

test("nothing of a file of torch is run", async () => {
  const asks = { kind: "format", message: /asks for `__builtin__.print`.*nothing is run/ };
  assert.throws(() => loadTorch(ofTorch("evil.pt")), asks);
  await assert.rejects(loadTorchAsync(ofTorch("evil.pt")), asks);
  assert.throws(() => loadTorch(ofTorch("overlapping.pt")), /its elements overlap/);
  assert.throws(() => loadTorch(ofTorch("make.py")), /no end of a ZIP archive/);
  assert.throws(() => loadTorch(ofTorch("none.pt")), { kind: "io" });
  assert.throws(() => loadTorch(5), { kind: "io", message: /the path is 5/ });
});

test("entries of archives are bytes", async () => {
  const text = (tensor) => Buffer.from(tensor.toArray()).toString();
  for (const entries of [loadZip(ofArchive("plain.zip")), loadTar(ofArchive("pax.tar")), loadTar(ofArchive("gnu.tar")),
    await loadZipAsync(ofArchive("wide.zip")), await loadTarAsync(ofArchive("gnu.tar"))]) {
    const long = `folder/${"long".repeat(40)}.bin`;
    assert.deepEqual(Object.keys(entries), ["one.txt", long, "empty", "süß"]);
    assert.equal(text(entries["one.txt"]), "first");
    assert.deepEqual([entries[long].dtype, entries[long].shape, entries.empty.shape], ["u8", [768], [0]]);
    assert.equal(entries[long].toArray()[700], 700 % 256);
  }
  assert.throws(() => loadZip(ofArchive("deflated.zip")), { kind: "format", message: /`one.txt`: it is compressed/ });
  assert.throws(() => loadTar(ofArchive("plain.zip")), { kind: "format" });
});

test("a signal stops a read, and a runtime reads for itself", async (t) => {
  const stopped = AbortSignal.abort(new Error("enough"));
  await assert.rejects(loadTorchAsync(ofTorch("state.pt"), { signal: stopped }), /enough/);
  await assert.rejects(loadZipAsync(ofArchive("plain.zip"), { signal: 5 }), /signal/);
  const pg = create();
  t.after(() => pg.dispose());
  const { tensors } = pg.loadTorch(ofTorch("state.pt"));
  assert.equal(tensors.weight.add(pg.Tensor.ones(2, 3)).sum().item(), 21);
  assert.throws(() => tensors.weight.add(Tensor.ones(2, 3)), { name: "ForeignHandleError" });
});
