// The examples of the Effect API, with few steps: they learn, go on from checkpoints, and write.
import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

import { Effect, Stream } from "effect";

import { effect, folder } from "./learning.mjs";

const example = (name) => import(new URL(`../../../examples/node/effect-${name}.mjs`, import.meta.url));
const book = readFileSync(new URL("../../../examples/data/pride_and_prejudice.txt", import.meta.url), "utf8");
const text = book.slice(0, 30_000);

effect("exclusive or is learned", function* () {
  const { train } = yield* Effect.promise(() => example("xor"));
  let told = 0;
  const { losses, answers } = yield* train(3000, () => Effect.sync(() => told++));
  assert.equal(told, losses.length);
  assert.ok(losses.at(-1) < 0.05, `${losses.at(-1)}`);
  assert.deepEqual(answers.map(Math.round), [0, 1, 1, 0]);
});

effect("a GPT learns a novel and writes on", function* () {
  const { train, generate } = yield* Effect.promise(() => example("nano-gpt"));
  const told = [];
  const sizes = { width: 32, heads: 2, layers: 1, vocabulary: 300 };
  const trained = yield* train(text, 40, ({ step }) => Effect.sync(() => told.push(step)), sizes);
  const { losses, tokenizer } = trained;
  assert.equal(told.length, 40);
  assert.equal(tokenizer.vocabSize, 300);
  assert.ok(losses.at(-1) < losses[0] - 0.7, `${losses[0]} to ${losses.at(-1)}`);
  const pieces = yield* Stream.runCollect(generate(trained, "It is ", 60));
  assert.equal(pieces.length, 60);
  const written = pieces.join("");
  assert.ok(written.length > 30, written);
  // The same seed draws the same text.
  assert.equal((yield* Stream.runCollect(generate(trained, "It is ", 60))).join(""), written);
});

effect("texts of a Parquet file are prepared, trained on from checkpoint to checkpoint, and written on", function* () {
  const { parquetWriteFile } = yield* Effect.promise(() => import("../../../examples/node/node_modules/hyparquet-writer/src/node.js"));
  const path = folder();
  const file = join(path, "texts.parquet");
  const texts = text.split("\n\n").filter((paragraph) => paragraph.length > 20);
  parquetWriteFile({ filename: file, columnData: [{ name: "id", data: texts.map((_, at) => at) }, { name: "text", data: texts, type: "STRING" }] });

  const { prepare, END } = yield* Effect.promise(() => example("fineweb-prepare"));
  const counts = yield* prepare(file, path, 300);
  assert.equal(counts.texts, texts.length);
  assert.equal(statSync(join(path, "train.bin")).size, 2 * counts.train);
  assert.equal(statSync(join(path, "held-out.bin")).size, 2 * counts.heldOut);

  const { bin, modelOf, train } = yield* Effect.promise(() => example("fineweb-train"));
  const sizes = { width: 32, heads: 2, layers: 1 };
  const { tokenizer } = yield* modelOf(path, sizes);
  const tokens = bin(join(path, "train.bin"));
  const end = tokenizer.tokenToId(END).value;
  const first = tokens.subarray(0, tokens.indexOf(end));
  assert.equal(yield* tokenizer.decode([...first]), texts[0]);
  assert.equal(tokens.filter((token) => token === end).length, texts.length - Math.floor(texts.length / 50));

  const begun = yield* train(path, 10, { every: 5, ...sizes });
  assert.equal(begun.losses.length, 10);
  assert.ok(existsSync(join(path, "checkpoint.safetensors")));
  const gone = yield* train(path, 40, { every: 20, ...sizes });
  assert.equal(gone.losses.length, 30);
  assert.ok(gone.losses.at(-1) < begun.losses[0] - 0.5, `${begun.losses[0]} to ${gone.losses.at(-1)}`);
  assert.ok(Math.abs(gone.heldOut - gone.losses.at(-1)) < 1, `${gone.heldOut}`);
  const mixed = yield* train(path, 45, { precision: "mixedBf16", ...sizes });
  assert.equal(mixed.losses.length, 5);
  assert.ok(Math.abs(mixed.losses.at(-1) - gone.losses.at(-1)) < 0.5, `${mixed.losses}`);

  const { generate } = yield* Effect.promise(() => example("fineweb-generate"));
  for (const kvDtype of ["f32", "int8"]) {
    const written = yield* Stream.runCollect(generate(path, "The ", 20, { kvDtype, ...sizes }));
    assert.ok(written.length > 0 && written.length <= 20, `${written.length}`);
  }
});
