// Work beside other work: concurrency, interruption, workers, the end of the process, memory.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { Cause, Effect, Exit, Fiber } from "effect";
import { Tensor } from "lanthorn";
import { load } from "lanthorn/addon";

import { ALWAYS, BERT, CORPUS, failure, folder, lesson, lines, run, strictConfig, Tokenizer } from "./support.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const bert = await run(Tokenizer.fromJson(BERT, ALWAYS));
const bpe = await run(Tokenizer.train(lesson("BPE"), ALWAYS));

test("many things at a time give what each gives alone", async () => {
  const texts = [...lines(20_000), CORPUS, "", ...CORPUS.split("\n")];
  const alone = [];
  for (const text of texts) alone.push(await run(bpe.encode(text)));
  const together = await run(Effect.forEach(texts, (text) => bpe.encode(text), { concurrency: "unbounded" }));
  assert.deepEqual(together, alone);
  const decoded = await run(Effect.forEach(together, (ids) => bpe.decode(ids), { concurrency: 16 }));
  assert.deepEqual(decoded, texts);
  const joined = await run(bpe.encodeBatchConcat(texts));
  assert.deepEqual([...joined.data], alone.flatMap(({ data }) => [...data]));
  const mixed = await run(
    Effect.all(
      [
        Tokenizer.train(lesson("Unigram"), strictConfig),
        Tokenizer.train(lesson("WordPiece"), strictConfig),
        Tokenizer.fromJson(BERT, strictConfig),
        bert.encode(CORPUS.repeat(20)),
        bert.applyChatTemplate("{{ messages[0].role }}", [{ role: "user" }]),
        Effect.flip(Tokenizer.fromJson("{", strictConfig)),
      ],
      { concurrency: "unbounded" },
    ),
  );
  assert.deepEqual(mixed[3].data.length > 1000, true);
  assert.equal(mixed[4], "user");
  assert.equal(mixed[5].op, "fromJson");
});

test("a text of many pieces gives the ids of its lines", async () => {
  const all = lines(400_000);
  const whole = await run(bpe.encode(all.join("")));
  const parts = await run(bpe.encodeBatchConcat(all));
  // A line's end is a token of its own, so that lines are cut where the text may be.
  assert.equal(whole.data.length, parts.data.length);
  assert.deepEqual(whole.data, parts.data);
  assert.equal(await run(bpe.decode(whole)), all.join(""));
});

test("the event loop goes on, and so do other work and computing, while a vocabulary is learnt", async () => {
  const source = Tokenizer.trainTexts(lines(6_000_000));
  let isTrained = false;
  const training = run(Tokenizer.train(lesson("WordPiece", { source, vocabSize: 4000 }), strictConfig)).then((tokenizer) => {
    isTrained = true;
    return tokenizer;
  });
  let turns = 0;
  for (; turns < 20; turns++) await turn();
  const { data } = await run(bert.encode("the brave men, living and dead ".repeat(200)));
  const x = Tensor.ones([64, 64]);
  const product = await x.matmul(x).toArrayAsync();
  assert.deepEqual([isTrained, turns, data.length > 1000, product[0]], [false, 20, true, 64]);
  assert.ok((await training).vocabSize > 1000);
});

test("an interruption stops batches, texts and what still waits", async () => {
  const texts = Array.from({ length: 400 }, () => CORPUS.repeat(40));
  const long = lines(30_000_000).join("");
  for (const work of [
    bert.encodeBatchConcat(texts),
    bpe.encode(long),
    Effect.all([bpe.encode(long), bert.encodeBatchConcat(texts)], { concurrency: 2 }),
    Effect.forEach(Array.from({ length: 64 }), () => bert.encodeBatchConcat(texts.slice(0, 20)), { concurrency: "unbounded" }),
  ]) {
    const fiber = Effect.runFork(work);
    await turn();
    await run(Fiber.interrupt(fiber));
    const exit = await run(Fiber.await(fiber));
    assert.ok(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause), String(exit));
  }
  assert.equal(await run(bpe.decode(await run(bpe.encode("after that")))), "after that");
  const late = await Effect.runPromiseExit(Effect.timeout(bpe.encode(long), 1));
  assert.ok(Exit.isFailure(late));
});

/** Runs a program in a process of its own; gives what it prints. */
async function program(code) {
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", "--input-type=module", "-e", `${PROLOGUE}${code}`], { cwd: root, timeout: 60_000 });
  return stdout.trim();
}

const PROLOGUE = `
import * as Tokenizer from "@lanthorn/tokenizers";
import { Effect } from "effect";
const texts = Array.from({ length: 60000 }, (_, at) => \`lamp\${at * 7919 % 10007} lantern \${at % 113}, and flame\\n\`);
const train = (vocabSize) => Tokenizer.train({ source: Tokenizer.trainTexts(texts), model: "BPE", vocabSize, minFrequency: 2,
  specialTokens: [], progress: Tokenizer.trainProgressNone }, Tokenizer.strictConfig);
`;

test("a process that exits with work in flight ends as it says", async () => {
  assert.equal(await program(`Effect.runFork(train(20000)); setTimeout(() => { console.log("out"); process.exit(0); }, 30);`), "out");
  // In the middle of learning, which nothing stops.
  const learning = `Effect.runFork(train(20000)); setTimeout(() => { console.log("out"); process.exit(0); }, 700);`;
  assert.equal(await program(learning), "out");
  const failing = program(`Effect.runFork(train(20000)); setTimeout(() => process.exit(3), 30);`);
  await assert.rejects(failing, (error) => error.code === 3 && error.signal === null);
});

test("work in flight keeps the process, and an idle tokenizer does not", async () => {
  assert.equal(await program(`train(300).pipe(Effect.map((t) => console.log(t.vocabSize)), Effect.runFork);`), "300");
  assert.equal(await program(`globalThis.kept = await Effect.runPromise(train(300)); console.log("end");`), "end");
});

test("workers have tokenizers of their own and end with work in flight", async () => {
  const code = `${PROLOGUE.replaceAll("import ", "// import ")}`;
  const worker = (body) =>
    new Worker(
      `(async () => {
        const { parentPort } = require("node:worker_threads");
        const Tokenizer = await import("@lanthorn/tokenizers");
        const { Effect } = await import("effect");
        ${code}
        ${body}
      })();`,
      { eval: true },
    );
  const answer = (thread) =>
    new Promise((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
    });
  const threads = Array.from({ length: 4 }, (_, at) =>
    worker(`const t = await Effect.runPromise(train(300 + ${at}));
      const ids = await Effect.runPromise(t.encodeBatchConcat(texts.slice(0, 100)));
      parentPort.postMessage([t.vocabSize, await Effect.runPromise(t.decode(ids)) === texts.slice(0, 100).join("")]);`),
  );
  const answers = await Promise.all(threads.map(answer));
  assert.deepEqual(answers, [0, 1, 2, 3].map((at) => [300 + at, true]));
  await Promise.all(threads.map((thread) => thread.terminate()));

  for (let round = 0; round < 4; round++) {
    const thread = worker(`Effect.runFork(train(20000)); parentPort.postMessage("begun");`);
    assert.equal(await answer(thread), "begun");
    if (round % 2 === 1) await turn();
    assert.equal(await thread.terminate(), 1);
  }
  assert.equal((await run(bpe.encode("still here"))).data.length > 0, true);
});

test("a tokenizer goes when nobody has it any more", async () => {
  const source = Tokenizer.trainTexts(lines(600_000));
  const large = await run(Tokenizer.train(lesson("WordLevel", { source, vocabSize: 12_000, minFrequency: 1 }), strictConfig));
  const path = join(folder, "large.json");
  await run(large.save(path));
  // In a process of its own, whose memory is nobody else's. Each takes several times its file.
  const printed = await program(`
    const load = Tokenizer.fromFile(${JSON.stringify(path)}, Tokenizer.strictConfig);
    const rounds = async (count) => {
      for (let at = 0; at < 10 * count; at++) {
        await Effect.runPromise(load);
        if (at % 10 !== 9) continue;
        globalThis.gc();
        await new Promise(setImmediate);
      }
      return process.memoryUsage().rss;
    };
    const before = await rounds(4);
    console.log(await rounds(10) - before);
  `);
  const each = statSync(path).size;
  assert.ok(Number(printed) < 100 * 4 * each, `100 tokenizers of files of ${each} bytes have left ${printed} bytes`);
});

test("a tokenizer that goes while it works does its work", async () => {
  const work = [];
  for (let at = 0; at < 10; at++) {
    const tokenizer = await run(Tokenizer.fromJson(BERT, strictConfig));
    work.push(run(tokenizer.encodeBatchConcat([CORPUS, CORPUS])));
  }
  globalThis.gc?.();
  const found = await Promise.all(work);
  const expected = await run((await run(Tokenizer.fromJson(BERT, strictConfig))).encodeBatchConcat([CORPUS, CORPUS]));
  for (const ids of found) assert.deepEqual(ids, expected);
});

test("texts of any kind come back", async () => {
  for (const text of ["", "\0", "🏮é東京", "a\r\n\tb", " ".repeat(3000), "x".repeat(70_000)]) {
    assert.equal(await run(bpe.decode(await run(bpe.encode(text)))), text);
  }
  // Half a character of UTF-16 is none of UTF-8.
  assert.equal(await run(bpe.decode(await run(bpe.encode("a\ud800b")))), "a\ufffdb");
  assert.equal((await failure(bpe.decode([1e6]))).op, "decode");
});

test("the addon's functions refuse what they do not take, with a text of three lines", async () => {
  const raw = load().tokenizers;
  const odd = [undefined, null, {}, [], [1], "text", -1, 2 ** 53, Number.NaN, Symbol("a"), new Uint8Array(3), () => {}];
  let refused = 0;
  for (const [name, call] of Object.entries(raw)) {
    for (let at = 0; at < odd.length; at++) {
      // Each argument another odd value.
      const values = Array.from({ length: 7 }, (_, place) => odd[(at + place) % odd.length]);
      try {
        const result = await call(...values);
        assert.ok(["job", "cancel"].includes(name) || result === undefined, `${name} gave ${String(result)}`);
      } catch (error) {
        assert.equal(typeof error, "string", `${name}: ${error}`);
        assert.match(error, /^[a-z_]+\n[^\n]+\n[^]+$/);
        refused += 1;
      }
    }
  }
  assert.ok(refused > 100, `${refused} refused`);
  // One job of a number at a time.
  const job = raw.job();
  const first = raw.parse(job, BERT, "[true,null]");
  assert.throws(() => raw.parse(job, BERT, "[true,null]"), (error) => error.includes("such a job"));
  assert.equal(raw.vocab_size(await first), bert.vocabSize);
});
