// The examples of the Effect API, with few steps: they learn, go on from checkpoints, and write.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

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

/** Writes a Parquet file with a column `text`, some of whose rows may have none. */
function* parquet(filename, data, type = "STRING", name = "text") {
  const { parquetWriteFile } = yield* Effect.promise(() => import("../../../examples/node/node_modules/hyparquet-writer/src/node.js"));
  parquetWriteFile({ filename, columnData: [{ name: "id", data: data.map((_, at) => at) }, { name, data, type }] });
}

effect("texts of a Parquet file are prepared, trained on from checkpoint to checkpoint, and written on", function* () {
  const path = folder();
  const file = join(path, "texts.parquet");
  const texts = text.split("\n\n").filter((paragraph) => paragraph.length > 20);
  yield* parquet(file, texts);

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

effect("a long text is prepared whole, rows without a text are left out", function* () {
  const path = folder();
  const file = join(path, "texts.parquet");
  assert.ok(book.length > 500_000);
  yield* parquet(file, [null, "It was.", book, null, "", "It is."]);
  const { prepare } = yield* Effect.promise(() => example("fineweb-prepare"));
  const counts = yield* prepare(file, path, 300);
  assert.deepEqual([counts.texts, counts.heldOut], [4, 0]);
  const { bin, modelOf } = yield* Effect.promise(() => example("fineweb-train"));
  const { tokenizer } = yield* modelOf(path, { width: 8, heads: 1, layers: 1 });
  const tokens = bin(join(path, "train.bin"));
  assert.equal(tokens.length, counts.train);
  // The end of a text is a token of its own, and is told in the text.
  assert.equal(yield* tokenizer.decode([...tokens]), ["It was.", book, "", "It is."].map((text) => `${text}<|endoftext|>`).join(""));
});

effect("what cannot be prepared is refused, and leaves the files as they were", function* () {
  const { prepare } = yield* Effect.promise(() => example("fineweb-prepare"));
  const path = folder();
  const file = (name) => join(path, name);
  yield* parquet(file("texts.parquet"), ["a", "b"]);
  yield* parquet(file("none.parquet"), [null, null]);
  yield* parquet(file("numbers.parquet"), [1, 2], "INT32");
  // The texts that are learned from are whole; a later row is not.
  yield* parquet(file("mixed.parquet"), [...Array.from({ length: 20_000 }, () => "some text"), { a: 1 }], "JSON");
  yield* parquet(file("columns.parquet"), ["a"], "STRING", "content");
  writeFileSync(file("broken.parquet"), "this is no such file");
  const refused = [
    ["texts.parquet", 65_537, /^the vocabulary is of 65537 tokens, expected at most 65536: tokens are written as 16-bit numbers$/],
    ["texts.parquet", 100, /100 tokens/],
    ["none.parquet", 300, /none\.parquet: the column text has no texts$/],
    ["numbers.parquet", 300, /numbers\.parquet: row 0 of the column text is of type number, expected a text$/],
    ["mixed.parquet", 300, /mixed\.parquet: row 20000 of the column text is of type object, expected a text$/],
    ["columns.parquet", 300, /columns\.parquet: .*text/],
    ["broken.parquet", 300, /broken\.parquet: .+/],
    ["missing.parquet", 300, /missing\.parquet: ENOENT/],
  ];
  for (const name of ["train.bin", "held-out.bin", "tokenizer.json"]) writeFileSync(file(name), "old");
  const before = readdirSync(path).sort();
  for (const [name, vocabulary, message] of refused) {
    const error = yield* Effect.flip(prepare(file(name), path, vocabulary));
    assert.match(error.message, message);
    assert.deepEqual(readdirSync(path).sort(), before);
    for (const kept of ["train.bin", "held-out.bin", "tokenizer.json"]) assert.equal(readFileSync(file(kept), "utf8"), "old");
  }
});

/** Runs an example as a command; gives its exit code and what it prints. */
function* ran(name, ...args) {
  const path = fileURLToPath(new URL(`../../../examples/node/${name}.mjs`, import.meta.url));
  return yield* Effect.promise(
    () =>
      new Promise((resolve) => {
        execFile(process.execPath, [path, ...args], { timeout: 120_000, cwd: folder() }, (error, stdout, stderr) => {
          resolve({ code: error === null ? 0 : error.code, stdout, stderr });
        });
      }),
  );
}

effect("wrong arguments and missing files are told in one line", function* () {
  const path = folder();
  const number = (name, given, least = 1) => `${name} is "${given}", expected a whole number of at least ${least}`;
  const refused = [
    ["effect-fineweb-prepare", [], /usage: effect-fineweb-prepare\.mjs TEXTS\.parquet FOLDER \[VOCABULARY\]/],
    ["effect-fineweb-train", [], /usage: effect-fineweb-train\.mjs FOLDER/],
    ["effect-fineweb-generate", [], /usage: effect-fineweb-generate\.mjs FOLDER/],
    ["effect-fineweb-prepare", [join(path, "none.parquet"), path], /none\.parquet: ENOENT/],
    ["effect-fineweb-prepare", ["x.parquet", path, "1e3"], number("VOCABULARY", "1e3")],
    ["effect-fineweb-train", [path], /tokenizer\.json: cannot read it: No such file/],
    ["effect-fineweb-train", [path, "0"], number("STEPS", "0")],
    ["effect-fineweb-generate", [path, "The "], /tokenizer\.json: cannot read it: No such file/],
    ["effect-fineweb-generate", [path, "The ", "abc"], number("TOKENS", "abc", 0)],
    ["effect-nano-gpt", ["-1"], number("STEPS", "-1")],
    ["effect-nano-gpt", ["5", "abc"], number("TOKENS", "abc", 0)],
    ["effect-xor", ["many"], number("STEPS", "many")],
    ["xor", ["many"], number("STEPS", "many")],
    ["digits", ["0.5"], number("EPOCHS", "0.5")],
    ["nano-gpt", [""], number("STEPS", "")],
  ];
  for (const [name, args, message] of refused) {
    const { code, stdout, stderr } = yield* ran(name, ...args);
    const what = `${name} ${args}: ${stderr}`;
    assert.equal(code, 1, what);
    assert.match(stderr, /^[^\n]+\n$/, what);
    assert.ok(stderr.startsWith(`${name}: `), what);
    if (typeof message === "string") assert.equal(stderr, `${name}: ${message}\n`);
    else assert.match(stderr, message);
    assert.equal(stdout, "", what);
  }
});

effect("without a terminal a training tells of its steps as it goes", function* () {
  const { code, stdout, stderr } = yield* ran("effect-nano-gpt", "3", "2");
  assert.deepEqual([code, stderr], [0, ""]);
  const lines = stdout.split("\n");
  assert.match(lines[0], /^step 1 of 3: loss \d+\.\d{3}$/);
  assert.match(lines[1], /^step 3 of 3: loss \d+\.\d{3}$/);
  assert.match(lines[2], /^It is a truth universally /);

  const { progress } = yield* Effect.promise(() => import("../../../examples/node/command.mjs"));
  const told = [];
  const { log } = console;
  const { isTTY } = process.stderr;
  try {
    process.stderr.isTTY = false;
    console.log = (line) => told.push(line);
    const shown = progress(250);
    for (let step = 1; step <= 250; step++) shown.told(step, step / 2);
    shown.stop();
  } finally {
    console.log = log;
    process.stderr.isTTY = isTTY;
  }
  assert.deepEqual(told, [1, 100, 200, 250].map((step) => `step ${step} of 250: loss ${(step / 2).toFixed(3)}`));
});

effect("a text to go on from that is empty is refused, and no tokens are none", function* () {
  const { prepare } = yield* Effect.promise(() => example("fineweb-prepare"));
  const { train } = yield* Effect.promise(() => example("fineweb-train"));
  const { generate } = yield* Effect.promise(() => example("fineweb-generate"));
  const path = folder();
  yield* parquet(join(path, "texts.parquet"), text.split("\n\n"));
  yield* prepare(join(path, "texts.parquet"), path, 300);
  const sizes = { width: 32, heads: 2, layers: 1 };
  yield* train(path, 1, sizes);
  const error = yield* Effect.flip(Stream.runCollect(generate(path, "", 5, sizes)));
  assert.match(error.message, /^the text to go on from is empty/);
  assert.equal((yield* Stream.runCollect(generate(path, "The ", 0, sizes))).length, 0);
});
