/** How a tokenizer encodes: padding, truncation and special tokens, all of them stated. */

import { objectOf, refuse } from "./arguments.js";

/** To what length the rows of a batch are filled up, at the right. A single text and a concatenation are not. */
export type Padding =
  /** Rows are equally long as they are; others are an error. */
  | { readonly _tag: "None" }
  /** Rows become as long as the longest of their batch. */
  | { readonly _tag: "Longest"; readonly padId: number }
  /** Rows become `maxLength` long; one that is longer is an error. */
  | { readonly _tag: "MaxLength"; readonly maxLength: number; readonly padId: number };

/** Rows are not filled up. */
export const paddingNone: Padding = { _tag: "None" };

/**
 * Rows are filled up to the longest of their batch with `padId`, which may be an id that is in no vocabulary.
 *
 * ```ts
 * import * as Tokenizer from "@lanthorn/tokenizers";
 * import { Effect } from "effect";
 *
 * const program = Effect.gen(function* () {
 *   const config = { ...Tokenizer.strictConfig, padding: Tokenizer.paddingLongest(0) };
 *   const tokenizer = yield* Tokenizer.train(
 *     {
 *       source: Tokenizer.trainTexts(["one two three"]),
 *       model: "WordLevel",
 *       vocabSize: 10,
 *       minFrequency: 1,
 *       specialTokens: ["[PAD]"],
 *       progress: Tokenizer.trainProgressNone,
 *     },
 *     config,
 *   );
 *   return yield* tokenizer.encodeBatch(["one two three", "two"]);
 * });
 * const { data, shape } = await Effect.runPromise(program);
 * console.log(shape, data); // [2, 3], the second row filled up
 * ```
 */
export const paddingLongest = (padId: number): Padding => ({ _tag: "Longest", padId });

/** Rows are filled up to `maxLength` ids with `padId`. It cuts nothing: that is {@link truncationMaxLength}'s. */
export const paddingMaxLength = (maxLength: number, padId: number): Padding => ({ _tag: "MaxLength", maxLength, padId });

/** How long a text may become. */
export type Truncation =
  /** As long as it is. */
  | { readonly _tag: "None" }
  /** At most `maxLength` ids. */
  | { readonly _tag: "MaxLength"; readonly maxLength: number };

/** Texts are not cut. */
export const truncationNone: Truncation = { _tag: "None" };

/**
 * Of each text the first ids are kept, `maxLength` in all: those that the tokenizer's template puts around a text are
 * among them and are not cut off.
 */
export const truncationMaxLength = (maxLength: number): Truncation => ({ _tag: "MaxLength", maxLength });

/**
 * Whether the name of a special token in a text is that token (`"Always"`) or text as any other (`"Never"`), so that
 * whoever wrote it cannot end a turn or a document.
 */
export type SpecialTokenPolicy = "Never" | "Always";

/**
 * How a tokenizer encodes. Only this says so: what a `tokenizer.json` says of padding and truncation is kept when it is
 * saved, and not followed.
 */
export interface TokenizerConfig {
  readonly padding: Padding;
  readonly truncation: Truncation;
  readonly specialTokens: SpecialTokenPolicy;
}

/** Nothing is filled up or cut, and no text holds a special token. */
export const strictConfig: TokenizerConfig = {
  padding: paddingNone,
  truncation: truncationNone,
  specialTokens: "Never",
};

const MOST = 2 ** 32 - 1;

/** True for an id, or a number of ids. */
export function isWord(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MOST;
}

/** A checked configuration as the addon takes it. */
export interface Settings {
  readonly json: string;
  /** The numbers of {@link Padding}: 1 to 3, the length, the id. */
  readonly padding: readonly [fill: number, length: number, id: number];
}

/** Throws a `TokenizerError` for a configuration that is none. */
export function settingsOf(op: string, config: TokenizerConfig): Settings {
  const { padding, truncation, specialTokens } = objectOf(op, "config", config);
  if (specialTokens !== "Never" && specialTokens !== "Always") {
    refuse(op, "specialTokens", specialTokens, '"Never" or "Always"');
  }
  objectOf(op, "padding", padding);
  objectOf(op, "truncation", truncation);
  const word = (name: string, value: number): number =>
    isWord(value) ? value : refuse(op, name, value, `a whole number from 0 to ${MOST}`);
  if (truncation._tag !== "None" && truncation._tag !== "MaxLength") {
    refuse(op, "truncation._tag", (truncation as Truncation)._tag, '"None" or "MaxLength"');
  }
  const maxLength = truncation._tag === "None" ? null : word("truncation.maxLength", truncation.maxLength);
  const numbers = (): Settings["padding"] => {
    switch (padding._tag) {
      case "None":
        return [1, 0, 0];
      case "Longest":
        return [2, 0, word("padding.padId", padding.padId)];
      case "MaxLength":
        return [3, word("padding.maxLength", padding.maxLength), word("padding.padId", padding.padId)];
      default:
        return refuse(op, "padding._tag", (padding as Padding)._tag, '"None", "Longest" or "MaxLength"');
    }
  };
  return { json: JSON.stringify([specialTokens === "Always", maxLength]), padding: numbers() };
}
