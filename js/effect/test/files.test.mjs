// Files of safetensors.
import { Tensor } from "@lanthorn/effect";
import { Effect, Fiber } from "effect";
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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

effectTest("a tensor whose dtype programs do not have is named with its file", function* () {
  const header = JSON.stringify({
    good: { dtype: "F32", shape: [1], data_offsets: [0, 4] },
    "odd one": { dtype: "U16", shape: [2], data_offsets: [4, 8] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const path = file("odd.safetensors");
  writeFileSync(path, Buffer.concat([length, Buffer.from(header), Buffer.alloc(8)]));
  const error = yield* Effect.flip(Tensor.load(path));
  assert.match(error.message, /odd\.safetensors: dtype mismatch: tensor `odd one` has the dtype u16, expected one of f32, f64, f16, bf16/);
  assert.equal(error.backend.reason, "unsupported-dtype");
});

effectTest("a name with half a character is refused", function* () {
  const half = "\u{1F3EE}"[0];
  const path = file("half.safetensors");
  const x = yield* f32([1]);
  for (const effect of [
    Tensor.save(file(`x${half}`), { x }),
    Tensor.save(path, { [`x${half}`]: x }),
    Tensor.save(path, { x }, { metadata: { [`x${half}`]: "y" } }),
    Tensor.load(`x${half}`),
  ]) {
    const error = yield* Effect.flip(effect);
    assert.match(error.message, /has half a character, the lone surrogate U\+D83C, at \d+, expected whole ones/);
  }
  assert.ok(!existsSync(path));
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

effectTest("an interrupted save leaves the old file or the new one, whole, and nothing beside it", function* () {
  const within = file("interrupted");
  mkdirSync(within);
  const path = join(within, "x.safetensors");
  const [old] = yield* Tensor.compute([yield* f32([1, 2, 3])]);
  const size = 6_000_000;
  const [next] = yield* Tensor.compute([yield* Tensor.full([size], 7)]);
  const seen = new Set();
  // Before the job begins, while it writes, and after it; the last one is let go to its end.
  for (const delay of [undefined, 0, 1, 2, 4, 8, 16, 32, 64, 128, 10_000]) {
    yield* Tensor.save(path, { x: old });
    const saving = Tensor.save(path, { x: next });
    const ended = yield* delay === undefined
      ? Effect.flatMap(Effect.forkChild(saving, { startImmediately: true }), Fiber.interrupt)
      : Effect.timeoutOption(saving, delay);
    assert.deepEqual(readdirSync(within), ["x.safetensors"]);
    const { x } = yield* Tensor.load(path);
    const elements = yield* values(x);
    if (elements.length === 3) assert.deepEqual(elements, [1, 2, 3]);
    else assert.ok(elements.length === size && elements.every((element) => element === 7), `after ${delay} ms`);
    // What was not interrupted has written.
    if (ended?._tag === "Some") assert.equal(elements.length, size);
    seen.add(elements.length);
    yield* Tensor.clear(x);
  }
  // An interruption that comes before the first byte leaves the old one.
  assert.deepEqual([...seen].sort(), [3, size]);
});

effectTest("an interrupted load gives back what it has read", function* () {
  const path = file("long.safetensors");
  yield* Tensor.save(path, { x: yield* Tensor.ones([6_000_000]) });
  for (const delay of [0, 1, 4, 16]) yield* Effect.timeoutOption(Tensor.load(path), delay);
  const { x } = yield* Tensor.load(path);
  assert.deepEqual(x.shape, [6_000_000]);
});
