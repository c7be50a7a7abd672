// Files of safetensors.
import { Tensor } from "@lanthorn/effect";
import { Effect } from "effect";
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { effectTest, f32, f64, i64, values } from "./support.mjs";

const folder = mkdtempSync(join(tmpdir(), "lanthorn-effect-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const file = (name) => join(folder, name);

effectTest("tensors and metadata go and come back", function* () {
  const path = file("all.safetensors");
  const [weight] = yield* Tensor.compute([yield* f32([1, 2, 3, 4], [2, 2])]);
  const tensors = {
    "model.weight": weight,
    "model.lazy": yield* Tensor.add(weight, weight),
    half: yield* Tensor.cast(weight, "bf16"),
    f16: yield* Tensor.cast(weight, "f16"),
    wide: yield* f64([0.1]),
    ids: yield* i64([-1, 2]),
    u32: yield* Tensor.fromTypedArray(new Uint32Array([7])),
    flags: yield* Tensor.gt(weight, yield* Tensor.constant(2)),
    none: yield* Tensor.zeros([0, 3]),
    scalar: yield* Tensor.constant(5),
    __proto__: undefined,
  };
  const metadata = { framework: "lanthorn", note: 'ä " \\ 日本' };
  yield* Tensor.save(path, tensors, { metadata });
  const archive = yield* Tensor.loadArchive(path);
  assert.deepEqual(archive.metadata, metadata);
  assert.deepEqual(Object.keys(archive.tensors).sort(), Object.keys(tensors).sort());
  for (const [name, tensor] of Object.entries(tensors)) {
    const found = archive.tensors[name];
    assert.equal(found._tag, "Tensor");
    assert.deepEqual([found.dtype, [...found.shape]], [tensor.dtype, [...tensor.shape]], name);
    assert.deepEqual(yield* values(found), yield* values(tensor), name);
  }
  // The tensor that was given is left to its owner.
  assert.deepEqual(yield* values(weight), [1, 2, 3, 4]);
  const plain = yield* Tensor.load(path);
  assert.deepEqual(yield* values(plain["model.lazy"]), [2, 4, 6, 8]);
});

effectTest("a file without metadata, and one without tensors", function* () {
  yield* Tensor.save(file("plain.safetensors"), { x: yield* f32([1]) });
  assert.deepEqual((yield* Tensor.loadArchive(file("plain.safetensors"))).metadata, {});
  yield* Tensor.save(file("empty.safetensors"), {}, { metadata: { a: "b" } });
  assert.deepEqual(yield* Tensor.loadArchive(file("empty.safetensors")), { tensors: {}, metadata: { a: "b" } });
});

effectTest("the name of the metadata is reserved", function* () {
  const error = yield* Effect.flip(Tensor.save(file("never.safetensors"), { __metadata__: yield* f32([1]) }));
  assert.equal(error._tag, "TensorError");
  assert.match(error.message, /__metadata__/);
  assert.ok(!existsSync(file("never.safetensors")));
  const wrong = yield* Effect.flip(Tensor.save(file("never.safetensors"), {}, { metadata: { step: 3 } }));
  assert.match(wrong.message, /metadata step is a number, expected a string/);
});

effectTest("faults name the file, and leave what was there", function* () {
  const path = file("kept.safetensors");
  yield* Tensor.save(path, { x: yield* f32([1]) });
  const before = readFileSync(path);
  const [cleared] = yield* Tensor.compute([yield* f32([2])]);
  yield* Tensor.clear(cleared);
  assert.equal((yield* Effect.flip(Tensor.save(path, { cleared }))).backend.reason, "invalid-handle");
  assert.deepEqual(readFileSync(path), before);

  const missing = yield* Effect.flip(Tensor.load(file("missing.safetensors")));
  assert.deepEqual([missing.op, missing.backend.reason, missing.backend.phase], ["load", "io-failed", "io"]);
  assert.match(missing.message, /missing\.safetensors/);
  writeFileSync(file("none.safetensors"), "this is no such file");
  assert.match((yield* Effect.flip(Tensor.load(file("none.safetensors")))).message, /none\.safetensors/);
  const folderError = yield* Effect.flip(Tensor.save(join(folder, "not", "there.safetensors"), {}));
  assert.equal(folderError.backend.reason, "io-failed");
});
