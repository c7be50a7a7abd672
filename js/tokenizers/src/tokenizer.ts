/** A tokenizer: text to ids and back. */

import { Effect, Option, Pipeable } from "effect";
import { loneAt } from "lanthorn/raw";

import { jsonOf, listOf, nameOf, optionsOf, refuse, switchOf, textOf } from "./arguments.js";
import { isWord, settingsOf, type Settings, type TokenizerConfig } from "./config.js";
import type { TokenizerError } from "./errors.js";
import { raw, run, type Native } from "./native.js";

/** What marks a tokenizer: see {@link isTokenizer}. */
export const TokenizerTypeId: unique symbol = Symbol.for("@lanthorn/tokenizers/Tokenizer") as never;

/** The type of {@link TokenizerTypeId}. */
export type TokenizerTypeId = typeof TokenizerTypeId;

/** Ids in memory of the caller's, who may write to it. */
export interface TokenIds {
  /** The ids, row after row. */
  readonly data: Uint32Array;
  /** `[ids]` for a text and for a concatenation, `[texts, ids]` for a batch. */
  readonly shape: ReadonlyArray<number>;
  readonly dtype: "u32";
}

/** Ids to be decoded. The shape of `TokenIds` does not matter: they are one list. */
export type TokenIdInput = TokenIds | Uint32Array | ReadonlyArray<number>;

/** How a text is encoded. */
export interface EncodeOptions {
  /** Whether the tokenizer's template puts its tokens around the text, such as `[CLS]` and `[SEP]`; true by default. */
  readonly addSpecialTokens?: boolean | undefined;
}

/** How ids are decoded. */
export interface DecodeOptions {
  /** Whether special tokens are left out of the text; false by default. */
  readonly skipSpecialTokens?: boolean | undefined;
}

/** A message of a conversation. A template gets it as JSON, fields in their order. */
export interface ChatMessage {
  /** Who speaks: `system`, `user`, `assistant`, or what else the template knows. */
  readonly role: string;
  readonly content?: unknown | undefined;
  readonly [field: string]: unknown;
}

/** What a chat template is given beside the messages. */
export interface ChatTemplateOptions {
  /** Whether the text ends with what begins the assistant's reply: `add_generation_prompt`; false by default. */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Further variables, such as `bos_token` and `tools`; a template gets them as JSON. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * A tokenizer. It never changes, so it may do any number of things at a time.
 *
 * ```ts
 * import * as Tokenizer from "@lanthorn/tokenizers";
 * import { Effect } from "effect";
 *
 * const program = Effect.gen(function* () {
 *   const tokenizer = yield* Tokenizer.train(
 *     {
 *       source: Tokenizer.trainTexts(["the lamp and the lantern", "a lamp, the lamps"]),
 *       model: "BPE",
 *       vocabSize: 270,
 *       minFrequency: 2,
 *       specialTokens: ["<|end|>"],
 *       progress: Tokenizer.trainProgressNone,
 *     },
 *     Tokenizer.strictConfig,
 *   );
 *   const ids = yield* tokenizer.encode("the lamps – naïve");
 *   const text = yield* tokenizer.decode(ids);
 *   return [ids.shape, text, tokenizer.tokenToId("<|end|>")];
 * });
 * console.log(await Effect.runPromise(program));
 * ```
 */
export interface Tokenizer extends Pipeable.Pipeable {
  readonly [TokenizerTypeId]: TokenizerTypeId;
  /** How many rows an embedding needs: the largest id and one. */
  readonly vocabSize: number;
  /**
   * The ids of a text, cut as the configuration says. It may be empty, and of any length where the tokenizer splits words at
   * white space; a word may have 2 MiB, and a text 8 MiB where it may be one word or its rules look at all of it.
   */
  readonly encode: (text: string, options?: EncodeOptions) => Effect.Effect<TokenIds, TokenizerError>;
  /**
   * The ids of texts, a row for each, cut and filled up as the configuration says; the template is applied. It is an error
   * if there are no texts, or if rows differ in length and are not filled up.
   */
  readonly encodeBatch: (texts: ReadonlyArray<string>) => Effect.Effect<TokenIds, TokenizerError>;
  /** The ids of texts one after the other, each cut as the configuration says; the template is applied. */
  readonly encodeBatchConcat: (texts: ReadonlyArray<string>) => Effect.Effect<TokenIds, TokenizerError>;
  /** The text of ids. One that is not in the vocabulary is an error. */
  readonly decode: (ids: TokenIdInput, options?: DecodeOptions) => Effect.Effect<string, TokenizerError>;
  /** The texts of several lists of ids. */
  readonly decodeBatch: (
    ids: ReadonlyArray<TokenIdInput>,
    options?: DecodeOptions,
  ) => Effect.Effect<ReadonlyArray<string>, TokenizerError>;
  /**
   * A conversation as the text that a model wants, by its template: Jinja as Hugging Face's `apply_chat_template` runs
   * it. Encode the text with `addSpecialTokens: false` by a tokenizer of policy `"Always"`.
   *
   * ```ts
   * import * as Tokenizer from "@lanthorn/tokenizers";
   * import { Effect } from "effect";
   *
   * const words = {
   *   source: Tokenizer.trainTexts(["Hello?"]),
   *   model: "WordLevel",
   *   vocabSize: 10,
   *   minFrequency: 1,
   *   specialTokens: ["<|user|>"],
   *   progress: Tokenizer.trainProgressNone,
   * } as const;
   * const program = Effect.gen(function* () {
   *   const tokenizer = yield* Tokenizer.train(words, { ...Tokenizer.strictConfig, specialTokens: "Always" });
   *   const template = "{% for m in messages %}<|{{ m.role }}|> {{ m.content | trim }}{{ end }}{% endfor %}";
   *   return yield* tokenizer.applyChatTemplate(template, [{ role: "user", content: " Hello? " }], { variables: { end: "." } });
   * });
   * console.log(await Effect.runPromise(program)); // <|user|> Hello?.
   * ```
   */
  readonly applyChatTemplate: (
    template: string,
    messages: ReadonlyArray<ChatMessage>,
    options?: ChatTemplateOptions,
  ) => Effect.Effect<string, TokenizerError>;
  /** The id of a token, by its name in the vocabulary. Throws a `TokenizerError` for what is no text. */
  readonly tokenToId: (token: string) => Option.Option<number>;
  /** The name of a token in the vocabulary. Throws a `TokenizerError` for what is no number. */
  readonly idToToken: (id: number) => Option.Option<string>;
  /** Writes a `tokenizer.json`, all of it or nothing. The configuration is not part of it. */
  readonly save: (path: string) => Effect.Effect<void, TokenizerError>;
}

/** True for a tokenizer of this package. */
export const isTokenizer = (value: unknown): value is Tokenizer =>
  typeof value === "object" && value !== null && TokenizerTypeId in value;

/**
 * The tokenizer of a `tokenizer.json`.
 *
 * It fails if the file cannot be read or is no tokenizer, and if its template leaves no room for a text in the
 * configuration's `maxLength`.
 */
export const fromFile = (path: string, config: TokenizerConfig): Effect.Effect<Tokenizer, TokenizerError> =>
  open("fromFile", config, (job, { json }) => raw.load(job, nameOf("fromFile", "path", path), json));

/** The tokenizer of the text of a `tokenizer.json`; as {@link fromFile}. */
export const fromJson = (json: string, config: TokenizerConfig): Effect.Effect<Tokenizer, TokenizerError> =>
  open("fromJson", config, (job, settings) => raw.parse(job, textOf("fromJson", "json", json), settings.json));

/** The tokenizer that `start` gives. */
export const open = (
  op: string,
  config: TokenizerConfig,
  start: (job: number, settings: Settings) => Promise<Native>,
): Effect.Effect<Tokenizer, TokenizerError> =>
  Effect.suspend(() => {
    let settings: Settings;
    const native = run(op, (job) => {
      settings = settingsOf(op, config);
      return start(job, settings);
    });
    return Effect.map(native, (native) => make(native, settings));
  });

function make(native: Native, { padding }: Settings): Tokenizer {
  const encode = (
    op: string,
    given: () => readonly [texts: ReadonlyArray<string>, add: boolean],
    [fill, length, id]: Settings["padding"],
  ) =>
    run(op, (job) => {
      const [texts, add] = given();
      return raw.encode(job, native, texts, add ? 1 : 0, fill, length, id);
    });
  const batch = (op: string, texts: ReadonlyArray<string>) => () =>
    [listOf(op, "texts", texts, "texts", textOf), true] as const;
  const asList = ([ids]: readonly [ArrayBuffer, number, number]): TokenIds => {
    const data = new Uint32Array(ids);
    return { data, shape: [data.length], dtype: "u32" };
  };
  const decode = (op: string, start: () => ReadonlyArray<Uint32Array>, options: DecodeOptions | undefined) =>
    run(op, (job) => {
      const lists = start();
      const lengths = Uint32Array.from(lists, (list) => list.length);
      const { skipSpecialTokens } = optionsOf(op, options);
      const skip = switchOf(op, "skipSpecialTokens", skipSpecialTokens, false) ? 1 : 0;
      return raw.decode(job, native, bytesOf(concat(lists)), bytesOf(lengths), skip);
    });

  return Object.assign(Object.create(Pipeable.Prototype) as Pipeable.Pipeable, {
    [TokenizerTypeId]: TokenizerTypeId as TokenizerTypeId,
    vocabSize: raw.vocab_size(native),
    encode: (text: string, options?: EncodeOptions) =>
      Effect.map(
        encode(
          "encode",
          () => {
            const { addSpecialTokens } = optionsOf("encode", options);
            return [[textOf("encode", "text", text)], switchOf("encode", "addSpecialTokens", addSpecialTokens, true)];
          },
          ONE_LIST,
        ),
        asList,
      ),
    encodeBatch: (texts: ReadonlyArray<string>) =>
      Effect.map(
        encode("encodeBatch", batch("encodeBatch", texts), padding),
        ([ids, rows, columns]): TokenIds => ({ data: new Uint32Array(ids), shape: [rows, columns], dtype: "u32" }),
      ),
    encodeBatchConcat: (texts: ReadonlyArray<string>) =>
      Effect.map(encode("encodeBatchConcat", batch("encodeBatchConcat", texts), ONE_LIST), asList),
    decode: (ids: TokenIdInput, options?: DecodeOptions) =>
      Effect.map(
        decode("decode", () => [wordsOf("decode", "ids", ids)], options),
        ([text]) => text as string,
      ),
    decodeBatch: (batch: ReadonlyArray<TokenIdInput>, options?: DecodeOptions) =>
      decode("decodeBatch", () => listOf("decodeBatch", "ids", batch, "lists of ids", wordsOf), options),
    applyChatTemplate: (template: string, messages: ReadonlyArray<ChatMessage>, options?: ChatTemplateOptions) =>
      run("applyChatTemplate", (job) => {
        const op = "applyChatTemplate";
        const { variables = {}, addGenerationPrompt } = optionsOf(op, options);
        const source = textOf(op, "template", template);
        if (!Array.isArray(messages)) refuse(op, "messages", messages, "a list of messages");
        const [said, further] = [jsonOf(op, "messages", messages), jsonOf(op, "variables", variables)];
        const begins = switchOf(op, "addGenerationPrompt", addGenerationPrompt, false);
        return raw.chat(job, source, said, further, begins ? 1 : 0);
      }),
    tokenToId: (token: string) => {
      const name = textOf("tokenToId", "token", token);
      // A token is whole characters.
      const id = loneAt(name) < 0 ? raw.id(native, name) : -1;
      return id < 0 ? Option.none() : Option.some(id);
    },
    idToToken: (id: number) => {
      if (typeof id !== "number") refuse("idToToken", "id", id, "a number");
      return isWord(id) ? Option.fromUndefinedOr(raw.token(native, id)) : Option.none();
    },
    save: (path: string) => run("save", (job) => raw.save(job, native, nameOf("save", "path", path))),
  });
}

const ONE_LIST: Settings["padding"] = [0, 0, 0];

/** The ids of an input; throws for what is no id. */
function wordsOf(op: string, name: string, given: unknown): Uint32Array {
  const isObject = typeof given === "object" && given !== null;
  const ids: unknown = isObject && !Array.isArray(given) && "data" in given ? given.data : given;
  if (ids instanceof Uint32Array) return ids;
  const isList = Array.isArray(ids) || (ArrayBuffer.isView(ids) && !(ids instanceof DataView));
  if (!isList) refuse(op, name, ids, "a list of ids, a Uint32Array, or what encoding gives");
  const list = ids as readonly unknown[];
  const words = new Uint32Array(list.length);
  for (let at = 0; at < words.length; at++) {
    const id = list[at];
    if (!isWord(id)) refuse(op, `${name}[${at}]`, id, "the id of a token: a whole number from 0 on");
    words[at] = id as number;
  }
  return words;
}

function concat(lists: ReadonlyArray<Uint32Array>): Uint32Array {
  if (lists.length === 1) return lists[0] as Uint32Array;
  const all = new Uint32Array(lists.reduce((length, list) => length + list.length, 0));
  let at = 0;
  for (const list of lists) {
    all.set(list, at);
    at += list.length;
  }
  return all;
}

const bytesOf = (words: Uint32Array) => new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
