// Arguments that are none: each is a `TokenizerError` of the function that was called, with the argument's name and what was
// found. Half a character in a text, and in a name.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { load } from "lanthorn/addon";

import { ALWAYS, BERT, failure, folder, lesson, run, strictConfig, Tokenizer } from "./support.mjs";

const bert = await run(Tokenizer.fromJson(BERT, ALWAYS));
const path = join(folder, "arguments.json");

/** What nothing here takes, and how errors say what it is. */
const NOTHING = [
  [undefined, "undefined"],
  [null, "null"],
  [5, "5"],
  [true, "true"],
  [5n, "5"],
  [Symbol("x"), "a symbol"],
  [() => "x", "a function"],
  [{}, "an object of class Object"],
  [new Map(), "an object of class Map"],
  [Object.create(null), "an object of class none"],
];

/** What is asked with the argument; `except` are kinds of it that are right. */
const CALLS = [
  ["fromFile", "path", (x) => Tokenizer.fromFile(x, strictConfig), "a text"],
  ["fromJson", "json", (x) => Tokenizer.fromJson(x, strictConfig), "a text"],
  ["encode", "text", (x) => bert.encode(x), "a text"],
  ["encodeBatch", "texts", (x) => bert.encodeBatch(x), "a list of texts"],
  ["encodeBatch", "texts[1]", (x) => bert.encodeBatch(["a", x]), "a text"],
  ["encodeBatchConcat", "texts", (x) => bert.encodeBatchConcat(x), "a list of texts"],
  ["encodeBatchConcat", "texts[0]", (x) => bert.encodeBatchConcat([x]), "a text"],
  ["decode", "ids", (x) => bert.decode(x), "a list of ids, a Uint32Array, or what encoding gives"],
  ["decodeBatch", "ids", (x) => bert.decodeBatch(x), "a list of lists of ids"],
  ["decodeBatch", "ids[1]", (x) => bert.decodeBatch([[1], x]), "a list of ids, a Uint32Array, or what encoding gives"],
  ["applyChatTemplate", "template", (x) => bert.applyChatTemplate(x, []), "a text"],
  ["applyChatTemplate", "messages", (x) => bert.applyChatTemplate("", x), "a list of messages"],
  ["save", "path", (x) => bert.save(x), "a text"],
  ["train", "model", (x) => Tokenizer.train(lesson("BPE", { model: x }), strictConfig), "a text"],
  ["train", "specialTokens", (x) => Tokenizer.train(lesson("BPE", { specialTokens: x }), strictConfig), "a list of texts"],
  ["train", "specialTokens[0]", (x) => Tokenizer.train(lesson("BPE", { specialTokens: [x] }), strictConfig), "a text"],
  ["train", "source.paths", (x) => Tokenizer.train(lesson("BPE", { source: Tokenizer.trainFiles(x) }), strictConfig), "a list of paths"],
  ["train", "source.texts", (x) => Tokenizer.train(lesson("BPE", { source: Tokenizer.trainTexts(x) }), strictConfig), "a list of texts"],
  ["fromJson", "specialTokens", (x) => Tokenizer.fromJson(BERT, { ...strictConfig, specialTokens: x }), '"Never" or "Always"'],
];

for (const [op, name, call, expected] of CALLS) {
  test(`${op} refuses ${name} by name`, async () => {
    for (const [value, found] of NOTHING) {
      const error = await failure(call(value));
      assert.deepEqual([error._tag, error.op, error.kind], ["TokenizerError", op, "format"]);
      assert.equal(error.message, `${name} is ${found}, expected ${expected}`);
    }
  });
}

test("objects that are none are refused by name", async () => {
  const made = (config) => Tokenizer.fromJson(BERT, config);
  for (const [value, found] of NOTHING.filter(([value]) => typeof value !== "object" || value === null)) {
    for (const [op, name, effect] of [
      ["fromJson", "config", made(value)],
      ["fromJson", "padding", made({ ...strictConfig, padding: value })],
      ["fromJson", "truncation", made({ ...strictConfig, truncation: value })],
      ["train", "trainConfig", Tokenizer.train(value, strictConfig)],
      ["train", "progress", Tokenizer.train(lesson("BPE", { progress: value }), strictConfig)],
      ["train", "source", Tokenizer.train(lesson("BPE", { source: value }), strictConfig)],
    ]) {
      const error = await failure(effect);
      assert.deepEqual([error.op, error.message], [op, `${name} is ${found}, expected an object`]);
    }
    if (value === undefined) continue;
    for (const effect of [bert.encode("a", value), bert.decode([1], value), bert.applyChatTemplate("", [], value)]) {
      assert.equal((await failure(effect)).message, `options is ${found}, expected an object`);
    }
  }
  for (const [effect, message] of [
    [made({ ...strictConfig, padding: {} }), 'padding._tag is undefined, expected "None", "Longest" or "MaxLength"'],
    [made({ ...strictConfig, truncation: {} }), 'truncation._tag is undefined, expected "None" or "MaxLength"'],
    [Tokenizer.train(lesson("BPE", { source: {} }), strictConfig), 'source._tag is undefined, expected "Files" or "Texts"'],
    [Tokenizer.train(lesson("BPE", { progress: {} }), strictConfig), 'progress._tag is undefined, expected "None" or "Report"'],
    [
      Tokenizer.train(lesson("BPE", { progress: Tokenizer.trainProgressReport(1, null) }), strictConfig),
      "progress.report is null, expected a function that gives an Effect",
    ],
    [bert.encode("a", { addSpecialTokens: "no" }), 'addSpecialTokens is the text "no", expected true or false'],
    [bert.decode([1], { skipSpecialTokens: 1 }), "skipSpecialTokens is 1, expected true or false"],
    [bert.applyChatTemplate("", [], { addGenerationPrompt: null }), "addGenerationPrompt is null, expected true or false"],
    [bert.applyChatTemplate("", [], { variables: Symbol("x") }), "variables is a symbol, expected what JSON has"],
  ]) {
    assert.equal((await failure(effect)).message, message);
  }
});

test("lookups without an effect throw the same error", () => {
  for (const [value, found] of NOTHING) {
    const error = { _tag: "TokenizerError", op: "tokenToId", message: `token is ${found}, expected a text` };
    assert.throws(() => bert.tokenToId(value), error);
    if (typeof value === "number") continue;
    assert.throws(() => bert.idToToken(value), { op: "idToToken", message: `id is ${found}, expected a number` });
  }
  for (const id of [-1, 1.5, Number.NaN, 2 ** 40]) assert.equal(bert.idToToken(id)._tag, "None");
});

/** The call of another package, which checks nothing: what it is given is named all the same. */
test("the addon's own calls name what they cannot take", () => {
  const raw = load().tokenizers;
  const job = raw.job();
  for (const [call, message] of [
    [() => raw.load(job, undefined, "[true, null]"), "path is undefined, expected a text"],
    [() => raw.parse(job, {}, "[true, null]"), "json is an object, expected a text"],
    [() => raw.parse(job, "", 5), "config is a number, expected a text"],
    [() => raw.train(job, "[]", null, 0, "[true, null]"), "source is null, expected a list of texts"],
    [() => raw.train(job, "[]", ["a", 1n], 0, "[true, null]"), "source[1] is a bigint, expected a text"],
    [() => raw.chat(job, () => 1, "[]", "{}", 0), "template is a function, expected a text"],
    [() => raw.load("x", "x", "[true, null]"), "the number NaN is given, expected a whole one below 2^32"],
  ]) {
    assert.throws(call, (thrown) => thrown === `format\ntokenizer\n${message}`, message);
  }
  assert.throws(() => raw.id({}, "x"), (thrown) => thrown === "invalid_handle\ntokenizer\nthe object is no tokenizer");
});

test("half a character in a text is U+FFFD, and in a name an error", async () => {
  const half = "\u{1F3EE}"[0];
  for (const [given, right] of [
    [`the ${half} brave`, "the \uFFFD brave"],
    [`${half}${half}`, "\uFFFD\uFFFD"],
  ]) {
    assert.deepEqual(await run(bert.encode(given)), await run(bert.encode(right)));
    assert.deepEqual(await run(bert.encodeBatchConcat(["a", given])), await run(bert.encodeBatchConcat(["a", right])));
    const said = bert.applyChatTemplate("{{ messages[0].content }}{{ x }}", [{ role: "user", content: given }], {
      variables: { x: `${given}\\ud800` },
    });
    assert.equal(await run(said), `${right}${right}\\ud800`);
    assert.equal(await run(bert.applyChatTemplate(given, [])), right);
    const taught = (text) => Tokenizer.train(lesson("WordLevel", { source: Tokenizer.trainTexts([text, text]) }), ALWAYS);
    const [one, other] = [await run(taught(given)), await run(taught(right))];
    assert.equal(one.vocabSize, other.vocabSize);
    assert.deepEqual(one.tokenToId("\uFFFD\uFFFD"), other.tokenToId("\uFFFD\uFFFD"));
  }
  // No token has half a character, and one of U+FFFD is another.
  assert.equal(bert.tokenToId(half)._tag, "None");
  const whole = "has half a character, the lone surrogate U+D83C, at 1, expected whole ones";
  for (const [effect, name] of [
    [Tokenizer.fromFile(`x${half}`, strictConfig), "path"],
    [bert.save(`x${half}`), "path"],
    [Tokenizer.train(lesson("BPE", { specialTokens: ["a", `x${half}`] }), strictConfig), "specialTokens[1]"],
    [Tokenizer.train(lesson("BPE", { source: Tokenizer.trainFiles([`x${half}`]) }), strictConfig), "source.paths[0]"],
  ]) {
    const error = await failure(effect);
    assert.deepEqual([error.kind, error.message], ["format", `${name} ${whole}`]);
  }
  assert.ok(!existsSync("x\uFFFD") && !existsSync(path));
});
