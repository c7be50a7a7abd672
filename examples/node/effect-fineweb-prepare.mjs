// Makes flat files of tokens out of the texts of a Parquet file, such as those of FineWeb, for effect-fineweb-train.mjs.
//
//     node examples/node/effect-fineweb-prepare.mjs TEXTS.parquet FOLDER [VOCABULARY]
//
// Writes tokenizer.json, train.bin and held-out.bin, all of them or none: 16-bit numbers in the machine's order of bytes, each
// text followed by the token <|endoftext|>. The last one of each 50 texts is held out. Rows without a text are left out.
import { mkdir, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { argv } from "node:process";

import * as Tokenizer from "@lanthorn/tokenizers";
import { Console, Effect, Option, Stream } from "effect";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

import { command, count, Refusal } from "./command.mjs";

export const END = "<|endoftext|>";
/** Rows that are read at once. */
const PORTION = 1000;
/** Texts out of which the tokenizer learns, at most. */
const LEARNED = 20_000;
const HELD_OUT = 50;
/** Tokens are written as 16-bit numbers. */
const MOST_TOKENS = 2 ** 16;

/** What is read of a Parquet file; a failure is told with its name. */
const reading = (file, read) => {
  const refusal = (error) => (error instanceof Refusal ? error : new Refusal(`${file}: ${error.message}`));
  return Effect.tryPromise({ try: read, catch: refusal });
};

/** The column `text` of a Parquet file, in portions of so many rows; rows without a text are left out. */
export const texts = (file) =>
  Stream.unwrap(
    reading(file, async () => {
      const buffer = await asyncBufferFromFile(file);
      const metadata = await parquetMetadataAsync(buffer);
      const rows = Number(metadata.num_rows);
      return Stream.unfold(0, (rowStart) =>
        reading(file, async () => {
          if (rowStart >= rows) return undefined;
          const rowEnd = Math.min(rowStart + PORTION, rows);
          const found = await parquetReadObjects({ file: buffer, metadata, columns: ["text"], compressors, rowStart, rowEnd });
          const wrong = found.findIndex(({ text }) => text != null && typeof text !== "string");
          if (wrong >= 0) {
            const type = typeof found[wrong].text;
            throw new Refusal(`${file}: row ${rowStart + wrong} of the column text is of type ${type}, expected a text`);
          }
          return [found.flatMap(({ text }) => text ?? []), rowEnd];
        }),
      );
    }),
  );

/** Prepares a file; gives the numbers of texts and of tokens. */
export const prepare = (file, folder, vocabSize = 4096) =>
  Effect.gen(function* () {
    if (vocabSize > MOST_TOKENS) {
      const expected = `expected at most ${MOST_TOKENS}: tokens are written as 16-bit numbers`;
      return yield* Effect.fail(new Refusal(`the vocabulary is of ${vocabSize} tokens, ${expected}`));
    }
    const learned = (yield* Stream.runCollect(Stream.take(texts(file), Math.ceil(LEARNED / PORTION)))).flat();
    if (learned.length === 0) return yield* Effect.fail(new Refusal(`${file}: the column text has no texts`));
    const tokenizer = yield* Tokenizer.train(
      {
        source: Tokenizer.trainTexts(learned),
        model: "BPE",
        vocabSize,
        minFrequency: 2,
        specialTokens: [END],
        progress: Tokenizer.trainProgressNone,
      },
      Tokenizer.strictConfig,
    );
    const end = Option.getOrThrow(tokenizer.tokenToId(END));
    const counts = { texts: 0, train: 0, heldOut: 0 };
    yield* Effect.promise(() => mkdir(folder, { recursive: true }));
    const [train, heldOut] = [yield* part(join(folder, "train.bin")), yield* part(join(folder, "held-out.bin"))];
    yield* Stream.runForEach(texts(file), (portion) =>
      Effect.gen(function* () {
        for (const text of portion) {
          const held = ++counts.texts % HELD_OUT === 0;
          const { data } = yield* tokenizer.encode(text);
          const tokens = new Uint16Array(data.length + 1);
          tokens.set(data);
          tokens[data.length] = end;
          yield* Effect.promise(() => (held ? heldOut : train).append(tokens));
          counts[held ? "heldOut" : "train"] += tokens.length;
        }
      }),
    );
    yield* tokenizer.save(join(folder, "tokenizer.json"));
    for (const { keep } of [train, heldOut]) yield* Effect.promise(keep);
    return counts;
  }).pipe(Effect.scoped);

/** A file that is written beside its place, and taken there when it is kept; otherwise it goes with the scope. */
const part = (path) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => open(`${path}.part`, "w")),
      (handle) => Effect.promise(() => handle.close().then(() => rm(`${path}.part`, { force: true }))),
    ),
    (handle) => ({
      append: (tokens) => handle.appendFile(new Uint8Array(tokens.buffer)),
      keep: () => rename(`${path}.part`, path),
    }),
  );

const program = Effect.gen(function* () {
  const [, , file, folder, vocabulary] = argv;
  if (folder === undefined) throw new Refusal("usage: effect-fineweb-prepare.mjs TEXTS.parquet FOLDER [VOCABULARY]");
  const counts = yield* prepare(file, folder, count("VOCABULARY", vocabulary ?? "4096"));
  yield* Console.log(`${counts.texts} texts: ${counts.train} tokens to train on, ${counts.heldOut} held out`);
});

await command(import.meta.url, () => Effect.runPromise(program));
