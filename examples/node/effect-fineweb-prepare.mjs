// Makes flat files of tokens out of the texts of a Parquet file, such as those of FineWeb, for effect-fineweb-train.mjs.
//
//     node examples/node/effect-fineweb-prepare.mjs TEXTS.parquet FOLDER [VOCABULARY]
//
// Writes tokenizer.json, train.bin and held-out.bin: 16-bit numbers in the machine's order of bytes, each text followed by
// the token <|endoftext|>. The last one of each 50 texts is held out.
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

import * as Tokenizer from "@lanthorn/tokenizers";
import { Console, Effect, Option, Stream } from "effect";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

export const END = "<|endoftext|>";
/** Rows that are read at once. */
const PORTION = 1000;
/** Texts out of which the tokenizer learns, at most. */
const LEARNED = 20_000;
const HELD_OUT = 50;

/** The column `text` of a Parquet file, in portions of so many rows. */
export const texts = (file) =>
  Stream.unwrap(
    Effect.promise(async () => {
      const buffer = await asyncBufferFromFile(file);
      const metadata = await parquetMetadataAsync(buffer);
      const rows = Number(metadata.num_rows);
      return Stream.unfold(0, (rowStart) =>
        Effect.promise(async () => {
          if (rowStart >= rows) return undefined;
          const rowEnd = Math.min(rowStart + PORTION, rows);
          const found = await parquetReadObjects({ file: buffer, metadata, columns: ["text"], compressors, rowStart, rowEnd });
          return [found.map(({ text }) => text), rowEnd];
        }),
      );
    }),
  );

/** Prepares a file; gives the numbers of texts and of tokens. */
export const prepare = (file, folder, vocabSize = 4096) =>
  Effect.gen(function* () {
    yield* Effect.promise(() => mkdir(folder, { recursive: true }));
    const learned = yield* Stream.runCollect(Stream.take(texts(file), Math.ceil(LEARNED / PORTION)));
    const tokenizer = yield* Tokenizer.train(
      {
        source: Tokenizer.trainTexts(learned.flat()),
        model: "BPE",
        vocabSize,
        minFrequency: 2,
        specialTokens: [END],
        progress: Tokenizer.trainProgressNone,
      },
      Tokenizer.strictConfig,
    );
    yield* tokenizer.save(join(folder, "tokenizer.json"));
    const end = Option.getOrThrow(tokenizer.tokenToId(END));
    const counts = { texts: 0, train: 0, heldOut: 0 };
    const bin = (name) =>
      Effect.acquireRelease(
        Effect.promise(() => open(join(folder, name), "w")),
        (handle) => Effect.promise(() => handle.close()),
      );
    const [train, heldOut] = [yield* bin("train.bin"), yield* bin("held-out.bin")];
    const append = (handle, text) =>
      Effect.gen(function* () {
        const { data } = yield* tokenizer.encode(text);
        const tokens = Uint16Array.of(...data, end);
        yield* Effect.promise(() => handle.write(new Uint8Array(tokens.buffer)));
        return tokens.length;
      });
    yield* Stream.runForEach(texts(file), (portion) =>
      Effect.gen(function* () {
        for (const text of portion) {
          const held = ++counts.texts % HELD_OUT === 0;
          counts[held ? "heldOut" : "train"] += yield* append(held ? heldOut : train, text);
        }
      }),
    );
    return counts;
  }).pipe(Effect.scoped);

const program = Effect.gen(function* () {
  const [, , file, folder, vocabulary] = argv;
  if (folder === undefined) return yield* Effect.fail("usage: effect-fineweb-prepare.mjs TEXTS.parquet FOLDER [VOCABULARY]");
  const counts = yield* prepare(file, folder, Number(vocabulary ?? 4096));
  yield* Console.log(`${counts.texts} texts: ${counts.train} tokens to train on, ${counts.heldOut} held out`);
});

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) await Effect.runPromise(program);
