// Training: from files and texts, with reports, saved and loaded, failing and interrupted.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cause, Context, Effect, Exit, Fiber } from "effect";

import { ALWAYS, CORPUS, failure, folder, lesson, lines, MODELS, run, strictConfig, Tokenizer } from "./support.mjs";

const parts = [0, 1, 2].map((at) => join(folder, `part-${at}.txt`));
const LINES = CORPUS.match(/.*\n/g);
// Cut between two lines that are not empty: an empty one is a blank to some models, as it is in the whole text.
const cuts = LINES.flatMap((line, at) => (at > 0 && line !== "\n" && LINES[at - 1] !== "\n" ? [at] : []));
const [first, second] = [cuts[Math.floor(cuts.length / 3)], cuts[Math.floor((2 * cuts.length) / 3)]];
[LINES.slice(0, first), LINES.slice(first, second), LINES.slice(second)].forEach((part, at) => {
  writeFileSync(parts[at], part.join(""));
});

async function jsonOf(tokenizer, name) {
  const path = join(folder, name);
  await run(tokenizer.save(path));
  return readFileSync(path, "utf8");
}

for (const model of MODELS) {
  test(`${model} learns the same from files and texts, and comes back from its file`, async () => {
    const texts = await run(Tokenizer.train(lesson(model), ALWAYS));
    const files = await run(Tokenizer.train(lesson(model, { source: Tokenizer.trainFiles(parts) }), ALWAYS));
    const json = await jsonOf(texts, `texts-${model}.json`);
    assert.equal(await jsonOf(files, `files-${model}.json`), json);
    assert.equal(JSON.parse(json).model.type, model);
    assert.ok(texts.vocabSize <= lesson(model).vocabSize);
    lesson(model).specialTokens.forEach((token, id) => assert.equal(texts.tokenToId(token).value, id));

    const loaded = await run(Tokenizer.fromFile(join(folder, `texts-${model}.json`), ALWAYS));
    const parsed = await run(Tokenizer.fromJson(json, ALWAYS));
    const ids = await run(texts.encode(CORPUS));
    for (const again of [loaded, parsed]) {
      assert.equal(again.vocabSize, texts.vocabSize);
      assert.deepEqual(await run(again.encode(CORPUS)), ids);
      assert.equal(await run(again.decode(ids)), await run(texts.decode(ids)));
    }
    if (model === "BPE") assert.equal(await run(texts.decode(ids)), CORPUS);
  });
}

/** Trains and gives what was reported. */
async function reported(everyBytes, changes) {
  const reports = [];
  const progress = Tokenizer.trainProgressReport(everyBytes, (processed, total) =>
    Effect.sync(() => void reports.push([processed, total])),
  );
  await run(Tokenizer.train(lesson("WordLevel", { ...changes, progress }), strictConfig));
  return reports;
}

test("progress is reported in order, so often as it is asked for, and at the end", async () => {
  const total = Buffer.byteLength(CORPUS);
  const source = Tokenizer.trainTexts(LINES);
  const each = await reported(1, { source });
  // A thread that is overtaken by another has nothing new to report.
  assert.ok(each.length > 1 && each.length <= LINES.length, `${each.length} reports`);
  for (const every of [1, 500, 2000]) {
    const reports = await reported(every, { source });
    assert.deepEqual(reports.at(-1), [total, total]);
    assert.ok(reports.length <= Math.ceil(total / every) + 1, `${reports.length} reports every ${every} bytes`);
    reports.forEach(([processed, all], at) => {
      const before = at === 0 ? 0 : reports[at - 1][0];
      assert.ok(processed > before && processed <= total && all === total);
      assert.ok(at === reports.length - 1 || processed - before >= every);
    });
  }
  assert.deepEqual(await reported(1e12, { source }), [[total, total]]);
  assert.deepEqual(await reported(0, { source }), []);
  assert.deepEqual(await reported(-5, { source }), []);

  const files = await reported(1, { source: Tokenizer.trainFiles(parts) });
  assert.ok(files.length >= 1 && files.length <= 3, `${files.length} reports`);
  assert.deepEqual(files.at(-1), [total, total]);
  // A long text is reported on as it is read.
  const long = await reported(100_000, { source: Tokenizer.trainTexts([lines(1_000_000).join("")]) });
  assert.ok(long.length > 4, `${long.length} reports`);
});

test("a report may need services, take its time and fail, which stops the training", async () => {
  class Log extends Context.Service()("Log") {}
  const log = [];
  const progress = Tokenizer.trainProgressReport(1, (processed) =>
    Effect.gen(function* () {
      yield* Effect.sleep(1);
      (yield* Log).push(processed);
    }),
  );
  const texts = LINES.slice(0, 10);
  const trained = Tokenizer.train(lesson("BPE", { source: Tokenizer.trainTexts(texts), progress }), strictConfig);
  const tokenizer = await run(Effect.provideService(trained, Log, log));
  assert.equal(log.at(-1), Buffer.byteLength(texts.join("")), "all are done before the tokenizer is there");
  assert.ok(Tokenizer.isTokenizer(tokenizer));

  let reports = 0;
  const failing = Tokenizer.trainProgressReport(1, () => (++reports === 3 ? Effect.fail("enough") : Effect.void));
  const big = Tokenizer.trainTexts(lines(4_000_000));
  const exit = await Effect.runPromiseExit(Tokenizer.train(lesson("BPE", { source: big, progress: failing }), strictConfig));
  assert.ok(Exit.isFailure(exit));
  assert.equal(Cause.squash(exit.cause), "enough");
  await sleep(50);
  assert.equal(reports, 3, "nothing is reported after a failure");
});

test("an interruption stops a training that reads", async () => {
  for (const source of [Tokenizer.trainTexts([lines(20_000_000).join("")]), bigFile()]) {
    let last;
    let begun;
    const started = new Promise((resolve) => (begun = resolve));
    const progress = Tokenizer.trainProgressReport(1, (processed, total) =>
      Effect.sync(() => {
        last = { processed, total };
        begun();
      }),
    );
    const fiber = Effect.runFork(Tokenizer.train(lesson("Unigram", { source, progress }), strictConfig));
    await started;
    await run(Fiber.interrupt(fiber));
    const exit = await run(Fiber.await(fiber));
    assert.ok(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause), String(exit));
    const { processed, total } = last;
    assert.ok(processed < total, `${processed} of ${total}`);
    await sleep(50);
    assert.equal(last.processed, processed, "nothing is reported after the interruption");
  }
});

function bigFile() {
  const path = join(folder, "big.txt");
  writeFileSync(path, lines(20_000_000).join(""));
  return Tokenizer.trainFiles([path]);
}

test("an interruption of a vocabulary that is being learnt ends, and so does one before anything has begun", async () => {
  const source = Tokenizer.trainTexts(lines(300_000));
  let begun;
  const read = new Promise((resolve) => (begun = resolve));
  const progress = Tokenizer.trainProgressReport(1e9, () => Effect.sync(begun));
  const fiber = Effect.runFork(Tokenizer.train(lesson("BPE", { source, progress, vocabSize: 5000 }), strictConfig));
  await read;
  await run(Fiber.interrupt(fiber));
  assert.ok(Exit.isFailure(await run(Fiber.await(fiber))));
  const early = Effect.runFork(Tokenizer.train(lesson("BPE", { source }), strictConfig));
  await run(Fiber.interrupt(early));
  assert.ok(Exit.isFailure(await run(Fiber.await(early))));
});

test("what cannot be trained on is refused by name", async () => {
  const refuses = async (pattern, changes, model = "BPE") => {
    const { op, message } = await failure(Tokenizer.train(lesson(model, changes), strictConfig));
    assert.equal(op, "train");
    assert.match(message, pattern);
  };
  const missing = join(folder, "missing.txt");
  await refuses(/missing\.txt: cannot read it: No such file/, { source: Tokenizer.trainFiles([parts[0], missing]) });
  await refuses(/cannot read it: Is a directory/, { source: Tokenizer.trainFiles([folder]) });
  const binary = join(folder, "binary.txt");
  writeFileSync(binary, Buffer.from([99, 97, 102, 0xe9, 32]));
  await refuses(/binary\.txt: byte 3 \(0xE9\) is not UTF-8/, { source: Tokenizer.trainFiles([binary]) });
  const empty = join(folder, "empty.txt");
  writeFileSync(empty, "");
  await refuses(/empty\.txt: it is empty/, { source: Tokenizer.trainFiles([empty]) });
  await refuses(/a vocabulary of 100 tokens was asked for; at least 257 are needed/, { vocabSize: 100 });
  await refuses(/vocabSize is -1, expected a whole number/, { vocabSize: -1 });
  await refuses(/minFrequency is 0\.5, expected a whole number/, { minFrequency: 0.5 });
  await refuses(/the special token `a` is empty or given twice/, { specialTokens: ["a", "a"] });
  await refuses(/there is no model `bpe`; BPE, WordPiece, Unigram, WordLevel would be right/, { model: "bpe" });
  const nothing = Tokenizer.trainProgressReport(Number.POSITIVE_INFINITY, () => Effect.void);
  await refuses(/everyBytes is Infinity, expected a finite number/, { progress: nothing });
  await refuses(/^source\.texts\[1\] is 1, expected a text$/, { source: Tokenizer.trainTexts(["a", 1]) });
  const reports = Tokenizer.trainProgressReport(1, () => Effect.void);
  await refuses(/missing\.txt/, { source: Tokenizer.trainFiles([missing]), progress: reports });
});

test("no texts at all give what needs none", async () => {
  for (const model of MODELS) {
    for (const texts of [[], [""]]) {
      const tokenizer = await run(Tokenizer.train(lesson(model, { source: Tokenizer.trainTexts(texts) }), ALWAYS));
      assert.equal(tokenizer.vocabSize, lesson(model).specialTokens.length + (model === "BPE" ? 256 : 0), model);
      const { data } = await run(tokenizer.encode("anything"));
      assert.equal(data.length > 0, true);
    }
  }
});
