/** Training: a new vocabulary out of texts. */

import { Effect, Queue, Stream, type Cause } from "effect";

import { listOf, nameOf, objectOf, refuse, textOf } from "./arguments.js";
import { isWord, type TokenizerConfig } from "./config.js";
import { errorOf, type TokenizerError } from "./errors.js";
import { raw } from "./native.js";
import { open, type Tokenizer } from "./tokenizer.js";

/**
 * How a vocabulary is learnt, and with it how a text is split.
 *
 * - `"BPE"` is byte-level, as GPT-2's: every text can be encoded and comes back as it was.
 * - `"WordPiece"` is BERT's: lower case without accents; a token within a word begins with `##`.
 * - `"Unigram"` is as SentencePiece's: white space is one blank, written `▁`.
 * - `"WordLevel"` has whole words and runs of punctuation.
 *
 * All but BPE have a token for what is unknown, `<unk>` for Unigram and `[UNK]` for the others: the first id, unless it is
 * among the special tokens.
 */
export type TrainModel = "BPE" | "WordPiece" | "Unigram" | "WordLevel";

/** Where the texts are. */
export type TrainSource =
  | { readonly _tag: "Files"; readonly paths: ReadonlyArray<string> }
  | { readonly _tag: "Texts"; readonly texts: ReadonlyArray<string> };

/** Files of UTF-8 text, which are read a part at a time and may be larger than memory. */
export const trainFiles = (paths: ReadonlyArray<string>): TrainSource => ({ _tag: "Files", paths });

/** Texts in memory. */
export const trainTexts = (texts: ReadonlyArray<string>): TrainSource => ({ _tag: "Texts", texts });

/** What is done as a training goes on. */
export type TrainProgress<E, R> =
  | { readonly _tag: "None" }
  | {
      readonly _tag: "Report";
      readonly everyBytes: number;
      readonly report: (processed: number, total: number) => Effect.Effect<void, E, R>;
    };

/** Nothing is reported. */
export const trainProgressNone: TrainProgress<never, never> = { _tag: "None" };

/**
 * Runs `report` with the bytes of text that were read and with all of them, in order, about every `everyBytes` bytes and
 * when all are read; never if that is 0. What follows, learning the vocabulary, is not reported. If `report` fails, the
 * training stops and fails as it did.
 *
 * ```ts
 * import * as Tokenizer from "@lanthorn/tokenizers";
 * import { Console, Effect } from "effect";
 *
 * const trained = Tokenizer.train(
 *   {
 *     source: Tokenizer.trainTexts(Array.from({ length: 1000 }, (_, at) => `lamp ${at}, lantern ${at % 7}`)),
 *     model: "Unigram",
 *     vocabSize: 100,
 *     minFrequency: 1,
 *     specialTokens: ["<pad>", "<unk>"],
 *     progress: Tokenizer.trainProgressReport(10_000, (processed, total) => Console.log(`${processed} of ${total} bytes`)),
 *   },
 *   Tokenizer.strictConfig,
 * );
 * console.log((await Effect.runPromise(trained)).vocabSize);
 * ```
 */
export const trainProgressReport = <E, R>(
  everyBytes: number,
  report: (processed: number, total: number) => Effect.Effect<void, E, R>,
): TrainProgress<E, R> => ({ _tag: "Report", everyBytes, report });

/** What is learnt. */
export interface TrainConfig<E, R> {
  readonly source: TrainSource;
  readonly model: TrainModel;
  /** The most tokens of the vocabulary, special ones included. It has fewer where the texts do not give so many. */
  readonly vocabSize: number;
  /** How often a pair of tokens must occur to be merged (BPE, WordPiece), or a word to be used at all. */
  readonly minFrequency: number;
  /** Tokens with a meaning of their own. Their ids are the first, in this order. */
  readonly specialTokens: ReadonlyArray<string>;
  readonly progress: TrainProgress<E, R>;
}

/**
 * Learns a vocabulary. The same texts give the same tokenizer, whatever their order.
 *
 * It fails if a file cannot be read or is no UTF-8, and if the vocabulary has no room for the special tokens and the
 * characters. An interruption stops it while it reads; it lasts until a vocabulary that is being learnt is there.
 */
export const train = <E = never, R = never>(
  trainConfig: TrainConfig<E, R>,
  config: TokenizerConfig,
): Effect.Effect<Tokenizer, TokenizerError | E, R> =>
  Effect.suspend(() => {
    try {
      const { progress } = objectOf("train", "trainConfig", trainConfig);
      return reported(checkedProgress(progress), trainConfig, config);
    } catch (error) {
      return Effect.fail(errorOf("train", error));
    }
  });

function checkedProgress<E, R>(progress: TrainProgress<E, R>): TrainProgress<E, R> {
  const { _tag } = objectOf("train", "progress", progress);
  if (_tag !== "None" && _tag !== "Report") refuse("train", "progress._tag", _tag, '"None" or "Report"');
  if (progress._tag === "None") return progress;
  const { everyBytes, report } = progress;
  if (!Number.isFinite(everyBytes)) refuse("train", "progress.everyBytes", everyBytes, "a finite number of bytes");
  if (typeof report !== "function") refuse("train", "progress.report", report, "a function that gives an Effect");
  return progress;
}

/** A training whose progress goes where it is wanted. */
const reported = <E, R>(
  progress: TrainProgress<E, R>,
  trainConfig: TrainConfig<E, R>,
  config: TokenizerConfig,
): Effect.Effect<Tokenizer, TokenizerError | E, R> => {
  if (progress._tag === "None") return learn(trainConfig, config, undefined);
  return Effect.gen(function* () {
    const reports = yield* Queue.unbounded<readonly [processed: number, total: number], Cause.Done>();
    const learning = learn(trainConfig, config, (processed, total) => {
      Queue.offerUnsafe(reports, [processed, total]);
    });
    const reporting = Stream.runForEach(Stream.fromQueue(reports), ([processed, total]) => progress.report(processed, total));
    // Whichever fails stops the other, and all reports are done before the tokenizer is given.
    const [tokenizer] = yield* Effect.all([Effect.ensuring(learning, Queue.end(reports)), reporting], {
      concurrency: "unbounded",
    });
    return tokenizer;
  });
};

const learn = <E, R>(
  trainConfig: TrainConfig<E, R>,
  config: TokenizerConfig,
  report: ((processed: number, total: number) => void) | undefined,
): Effect.Effect<Tokenizer, TokenizerError> =>
  open("train", config, (job, { json }) => {
    const { source, vocabSize, minFrequency, progress } = trainConfig;
    for (const [name, value] of Object.entries({ vocabSize, minFrequency })) {
      if (!isWord(value)) refuse("train", name, value, "a whole number from 0 on");
    }
    const everyBytes = progress._tag === "Report" ? progress.everyBytes : 0;
    const every = Math.min(Math.max(Math.floor(everyBytes), 0), Number.MAX_SAFE_INTEGER);
    const model = textOf("train", "model", trainConfig.model);
    const specialTokens = listOf("train", "specialTokens", trainConfig.specialTokens, "texts", nameOf);
    const lesson = JSON.stringify([model, vocabSize, minFrequency, specialTokens, every]);
    objectOf("train", "source", source);
    switch (source._tag) {
      case "Files":
        return raw.train(job, lesson, listOf("train", "source.paths", source.paths, "paths", nameOf), 1, json, report);
      case "Texts":
        return raw.train(job, lesson, listOf("train", "source.texts", source.texts, "texts", textOf), 0, json, report);
      default:
        return refuse("train", "source._tag", (source as TrainSource)._tag, '"Files" or "Texts"');
    }
  });
