// An interruption cancels the job of the addon that a fiber waits for, in each call that takes long. Nothing here is timed: the
// job that is to be cancelled waits for others of so much work that they do not end by themselves, or is such work itself.
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import { Cause, Effect, Exit, Fiber } from "effect";
import { load } from "lanthorn/addon";

import { ALWAYS, BERT, CORPUS, folder, lesson, lines, run, strictConfig, Tokenizer } from "./support.mjs";

const bert = await run(Tokenizer.fromJson(BERT, ALWAYS));
/** As many as the addon has threads for what is no training. */
const PLUGS = Math.min(Math.max(availableParallelism(), 2), 8);
const many = Array.from({ length: 300 }, () => CORPUS.repeat(40));

/** The jobs that have begun, and the numbers of those that were cancelled. */
const jobs = [];
const cancelled = [];
{
  const raw = load().tokenizers;
  const { cancel } = raw;
  raw.cancel = (job) => (cancelled.push(job), cancel(job));
  for (const call of ["load", "parse", "train", "encode", "decode", "chat", "save"]) {
    const original = raw[call];
    raw[call] = (job, ...args) => {
      const result = original(job, ...args);
      if (!(result instanceof Promise)) return result;
      // The kind of an error is the first of its lines.
      const end = result.then(() => "fulfilled", (text) => text.split("\n")[0]);
      jobs.push({ call, job, end, stop: () => cancel(job) });
      return result;
    };
  }
}

/** A test that an interruption of work, whose call is that one, cancels its job and no other. */
function interrupts(what, call, work, { runs = false, begun = turn, after = () => {} } = {}) {
  test(`an interruption cancels ${what}`, async () => {
    jobs.length = cancelled.length = 0;
    try {
      if (!runs) for (let at = 0; at < PLUGS; at++) Effect.runFork(bert.encodeBatchConcat(many));
      const fiber = Effect.runFork(work);
      const job = jobs.at(-1);
      assert.equal(job.call, call);
      if (runs) await begun();

      let isOver = false;
      const ended = job.end.then((end) => (assert.equal(isOver, false, "the fiber has ended before its job"), end));
      const interruption = run(Fiber.interrupt(fiber)).then(() => (isOver = true));
      // What is not cancelled would run for long.
      for (let at = 0; at < 5; at++) await turn();
      assert.deepEqual(cancelled, [job.job], "the numbers of the jobs that were cancelled");
      if (!runs) for (const plug of jobs.slice(0, PLUGS)) plug.stop();
      await interruption;
      const exit = await run(Fiber.await(fiber));
      assert.ok(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause), String(exit));
      assert.equal(await ended, "cancelled");
      if (!runs) for (const plug of jobs.slice(0, PLUGS)) assert.equal(await plug.end, "cancelled");
      after();
    } finally {
      for (const { stop } of jobs) stop();
      await Promise.all(jobs.map(({ end }) => end));
    }
  });
}

interrupts("a batch that is encoded", "encode", bert.encodeBatchConcat(many), { runs: true });
const long = Tokenizer.trainTexts([lines(60_000_000).join("")]);
let report;
const reported = new Promise((resolve) => (report = resolve));
interrupts(
  "a training that reads",
  "train",
  Tokenizer.train(
    lesson("Unigram", { source: long, progress: Tokenizer.trainProgressReport(100_000, () => Effect.sync(report)) }),
    strictConfig,
  ),
  { runs: true, begun: () => reported },
);
interrupts("a training without reports", "train", Tokenizer.train(lesson("BPE", { source: long }), strictConfig), { runs: true });

const padded = await run(Tokenizer.fromJson(BERT, { ...ALWAYS, padding: Tokenizer.paddingLongest(0) }));
interrupts("a batch that waits", "encode", padded.encodeBatch([CORPUS, "a"]));
interrupts("a concatenation that waits", "encode", bert.encodeBatchConcat([CORPUS, "a"]));
interrupts("a text that waits", "encode", bert.encode(CORPUS));
interrupts("a list of ids that waits", "decode", bert.decode(Array.from({ length: 1000 }, (_, at) => at % 50)));
interrupts("lists of ids that wait", "decode", bert.decodeBatch([Array.from({ length: 1000 }, (_, at) => at % 50), [1]]));
interrupts("a text of JSON that waits", "parse", Tokenizer.fromJson(BERT, ALWAYS));
const path = join(folder, "tokenizer.json");
writeFileSync(path, BERT);
interrupts("a file that waits", "load", Tokenizer.fromFile(path, ALWAYS));
interrupts("a conversation that waits", "chat", bert.applyChatTemplate("{{ messages[0].role }}", [{ role: "user" }]));
const written = join(folder, "written.json");
interrupts("a save that waits", "save", bert.save(written), { after: () => assert.equal(existsSync(written), false) });
