// What the tests share: fixtures of crates/io, which are what Python's package `tokenizers` gives, and trained tokenizers.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cause, Effect, Exit } from "effect";

import * as Tokenizer from "../dist/index.js";

export { Tokenizer };
export const run = Effect.runPromise;

const fixtures = fileURLToPath(new URL("../../../crates/io/fixtures", import.meta.url));
export const fixture = (name) => join(fixtures, name);
export const text = (name) => readFileSync(fixture(name), "utf8");

export const CORPUS = text("tokenizers/corpus.txt");
/** BERT's kind of tokenizer, with a template: `[CLS]` and `[SEP]` around a text. */
export const BERT = text("tokenizers/tokenizer.json");
export const ENCODINGS = JSON.parse(text("tokenizers/encodings.json"));

export const { strictConfig } = Tokenizer;
export const ALWAYS = { ...strictConfig, specialTokens: "Always" };

/** The settings of crates/io/fixtures/tokenizers/make.py. */
export const LESSONS = {
  BPE: { vocabSize: 400, specialTokens: ["<|end|>"], minFrequency: 2 },
  WordPiece: { vocabSize: 320, specialTokens: ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], minFrequency: 2 },
  Unigram: { vocabSize: 260, specialTokens: ["<pad>", "<unk>"], minFrequency: 1 },
  WordLevel: { vocabSize: 100, specialTokens: ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], minFrequency: 2 },
};
export const MODELS = Object.keys(LESSONS);

/** A training of `model` with those settings, and others in `changes`. */
export const lesson = (model, changes = {}) => ({
  model,
  ...LESSONS[model],
  source: Tokenizer.trainTexts([CORPUS]),
  progress: Tokenizer.trainProgressNone,
  ...changes,
});

/** A folder that goes when the process does. */
export const folder = mkdtempSync(join(tmpdir(), "lanthorn-tokenizers-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** The `TokenizerError` of what must fail. */
export async function failure(effect) {
  const exit = await Effect.runPromiseExit(effect);
  if (Exit.isSuccess(exit)) throw new Error("it has not failed");
  const error = Cause.squash(exit.cause);
  if (!(error instanceof Tokenizer.TokenizerError)) throw error;
  return error;
}

/** Lines of words that differ, about `bytes` of them. */
export function lines(bytes) {
  const found = [];
  for (let at = 0, length = 0; length < bytes; at++) {
    const line = `lamp${(at * 7919) % 10007} lantern ${at % 113}, wick${at % 1009} and flame\n`;
    found.push(line);
    length += line.length;
  }
  return found;
}
