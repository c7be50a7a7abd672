// The types of the package, and how they meet what others expect of a tokenizer.
import { Context, Effect, Option } from "effect";
import { expect, test } from "tstyche";

import * as Tokenizer from "@lanthorn/tokenizers";
import type { TokenizerError } from "@lanthorn/tokenizers";

declare const tokenizer: Tokenizer.Tokenizer;
declare const config: Tokenizer.TokenizerConfig;

/** What a chat asks of a tokenizer. */
interface ChatTokenizer<E> {
  readonly applyChatTemplate: (
    template: string,
    messages: ReadonlyArray<{ readonly role: string; readonly content?: unknown; readonly [field: string]: unknown }>,
    options: { readonly addGenerationPrompt?: boolean | undefined; readonly variables?: Readonly<Record<string, unknown>> | undefined },
  ) => Effect.Effect<string, E>;
  readonly encode: (
    text: string,
    options?: { readonly addSpecialTokens?: boolean | undefined },
  ) => Effect.Effect<{ readonly data: Uint32Array }, E>;
  readonly decode: (
    ids: ReadonlyArray<number>,
    options?: { readonly skipSpecialTokens?: boolean | undefined },
  ) => Effect.Effect<string, E>;
  readonly tokenToId: (token: string) => Option.Option<number>;
  readonly idToToken: (id: number) => Option.Option<string>;
}

test("a tokenizer is what a chat needs", () => {
  expect(tokenizer).type.toBeAssignableTo<ChatTokenizer<TokenizerError>>();
});

test("a tokenizer is loaded, or the error is its own", () => {
  expect(Tokenizer.fromFile("a", config)).type.toBe<Effect.Effect<Tokenizer.Tokenizer, TokenizerError>>();
  expect(Tokenizer.fromJson("{}", Tokenizer.strictConfig)).type.toBe<Effect.Effect<Tokenizer.Tokenizer, TokenizerError>>();
  expect(Tokenizer.fromFile).type.not.toBeCallableWith("a");
  expect(new Tokenizer.TokenizerError({ op: "train", message: "no" })._tag).type.toBe<"TokenizerError">();
});

test("a configuration states everything", () => {
  expect(Tokenizer.strictConfig).type.toBe<Tokenizer.TokenizerConfig>();
  expect({ padding: Tokenizer.paddingNone, truncation: Tokenizer.truncationNone }).type.not.toBeAssignableTo<Tokenizer.TokenizerConfig>();
  expect(Tokenizer.paddingNone).type.toBe<Tokenizer.Padding>();
  expect(Tokenizer.paddingLongest(0)).type.toBe<Tokenizer.Padding>();
  expect(Tokenizer.paddingMaxLength(8, 0)).type.toBe<Tokenizer.Padding>();
  expect(Tokenizer.paddingMaxLength).type.not.toBeCallableWith(8);
  expect(Tokenizer.truncationMaxLength(8)).type.toBe<Tokenizer.Truncation>();
  expect<Tokenizer.SpecialTokenPolicy>().type.toBe<"Never" | "Always">();
  expect<Tokenizer.TrainModel>().type.toBe<"BPE" | "WordPiece" | "Unigram" | "WordLevel">();
});

test("methods take and give what they say", () => {
  expect(tokenizer.encode("a", { addSpecialTokens: false })).type.toBe<Effect.Effect<Tokenizer.TokenIds, TokenizerError>>();
  expect(tokenizer.encodeBatch(["a"] as const)).type.toBe<Effect.Effect<Tokenizer.TokenIds, TokenizerError>>();
  expect(tokenizer.encodeBatchConcat).type.not.toBeCallableWith("a");
  expect(tokenizer.decode).type.toBeCallableWith([1, 2]);
  expect(tokenizer.decode).type.toBeCallableWith(new Uint32Array(2), { skipSpecialTokens: true });
  expect(tokenizer.decode).type.not.toBeCallableWith(["a"]);
  expect(tokenizer.decodeBatch([[1], new Uint32Array(1)])).type.toBe<Effect.Effect<ReadonlyArray<string>, TokenizerError>>();
  expect(tokenizer.tokenToId("a")).type.toBe<Option.Option<number>>();
  expect(tokenizer.idToToken(1)).type.toBe<Option.Option<string>>();
  expect(tokenizer.save("a")).type.toBe<Effect.Effect<void, TokenizerError>>();
  expect(tokenizer.applyChatTemplate).type.not.toBeCallableWith("", [{ content: "no role" }]);
  expect(tokenizer.pipe((self) => self.vocabSize)).type.toBe<number>();
  const value: unknown = tokenizer;
  if (Tokenizer.isTokenizer(value)) expect(value).type.toBe<Tokenizer.Tokenizer>();
});

test("a training has the errors and the services of its reports", () => {
  class Log extends Context.Service<Log, { readonly lines: Array<string> }>()("Log") {}
  const lesson = {
    source: Tokenizer.trainFiles(["a"]),
    model: "BPE",
    vocabSize: 300,
    minFrequency: 2,
    specialTokens: [],
  } as const;
  const silent = Tokenizer.train({ ...lesson, progress: Tokenizer.trainProgressNone }, config);
  expect(silent).type.toBe<Effect.Effect<Tokenizer.Tokenizer, TokenizerError>>();
  const progress = Tokenizer.trainProgressReport(1000, (processed, total) =>
    Effect.gen(function* () {
      expect([processed, total]).type.toBe<number[]>();
      const { lines } = yield* Log;
      if (lines.length > 3) yield* Effect.fail("full" as const);
    }),
  );
  expect(progress).type.toBe<Tokenizer.TrainProgress<"full", Log>>();
  const told = Tokenizer.train({ ...lesson, progress }, config);
  expect(told).type.toBe<Effect.Effect<Tokenizer.Tokenizer, TokenizerError | "full", Log>>();
  expect(Tokenizer.train).type.not.toBeCallableWith({ ...lesson, model: "bpe", progress }, config);
});
