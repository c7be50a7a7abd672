// Padding, truncation, special tokens and what is refused.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Effect, Option } from "effect";

import { ALWAYS, BERT, CORPUS, failure, fixture, folder, lesson, MODELS, run, strictConfig, Tokenizer } from "./support.mjs";

const load = (changes = {}) => run(Tokenizer.fromJson(BERT, { ...strictConfig, ...changes }));
const bert = await load();

test("the constructors are the values they stand for", () => {
  assert.deepEqual(Tokenizer.strictConfig, {
    padding: Tokenizer.paddingNone,
    truncation: Tokenizer.truncationNone,
    specialTokens: "Never",
  });
  assert.deepEqual(Tokenizer.paddingNone, { _tag: "None" });
  assert.deepEqual(Tokenizer.paddingLongest(7), { _tag: "Longest", padId: 7 });
  assert.deepEqual(Tokenizer.paddingMaxLength(5, 7), { _tag: "MaxLength", maxLength: 5, padId: 7 });
  assert.deepEqual(Tokenizer.truncationNone, { _tag: "None" });
  assert.deepEqual(Tokenizer.truncationMaxLength(3), { _tag: "MaxLength", maxLength: 3 });
  assert.deepEqual(Tokenizer.trainFiles(["a"]), { _tag: "Files", paths: ["a"] });
  assert.deepEqual(Tokenizer.trainTexts(["a"]), { _tag: "Texts", texts: ["a"] });
  assert.deepEqual(Tokenizer.trainProgressNone, { _tag: "None" });
  const report = () => Effect.void;
  assert.deepEqual(Tokenizer.trainProgressReport(9, report), { _tag: "Report", everyBytes: 9, report });
});

test("a tokenizer is told from other values and can be piped", () => {
  assert.ok(Tokenizer.isTokenizer(bert));
  for (const other of [undefined, null, 1, "tokenizer", {}, { encode() {} }]) assert.ok(!Tokenizer.isTokenizer(other));
  assert.equal(bert.pipe((tokenizer) => tokenizer.vocabSize), bert.vocabSize);
});

test("tokens and ids are looked up", () => {
  assert.deepEqual(bert.tokenToId("[CLS]"), Option.some(2));
  assert.deepEqual(bert.idToToken(2), Option.some("[CLS]"));
  assert.deepEqual(bert.tokenToId("no such token"), Option.none());
  for (const id of [bert.vocabSize, 4294967295, 4294967296, -1, 1.5, Number.NaN]) assert.deepEqual(bert.idToToken(id), Option.none());
  const { vocab } = JSON.parse(BERT).model;
  assert.equal(bert.vocabSize, Object.keys(vocab).length);
});

test("rows that differ need padding, and no row is cut by it", async () => {
  const texts = ["nation", "the brave men"];
  const ragged = await failure(bert.encodeBatch(texts));
  assert.equal(ragged.op, "encodeBatch");
  assert.match(ragged.message, /^batch: text 0 has \d+ tokens and another \d+; padding makes them equally long$/);
  const { data, shape } = await run(bert.encodeBatch(["nation", "nation"]));
  assert.deepEqual([...data.slice(0, shape[1])], [...data.slice(shape[1])]);

  const short = await load({ padding: Tokenizer.paddingMaxLength(3, 0) });
  assert.match((await failure(short.encodeBatch(texts))).message, /text \d has \d+ tokens, and texts are to be filled up to 3/);
  const cut = await load({ padding: Tokenizer.paddingMaxLength(3, 0), truncation: Tokenizer.truncationMaxLength(3) });
  assert.deepEqual((await run(cut.encodeBatch(texts))).shape, [2, 3]);
  // A text alone and a concatenation are not filled up.
  assert.deepEqual((await run(short.encode("", { addSpecialTokens: false }))).shape, [0]);
  assert.deepEqual((await run(short.encodeBatchConcat(["", ""]))).shape, [4]);
});

test("a batch of no texts has no shape, and a concatenation of none is empty", async () => {
  assert.match((await failure(bert.encodeBatch([]))).message, /it has no texts/);
  assert.deepEqual(await run(bert.encodeBatchConcat([])), { data: new Uint32Array(0), shape: [0], dtype: "u32" });
  assert.deepEqual(await run(bert.decodeBatch([])), []);
  assert.equal(await run(bert.decode([])), "");
});

test("every model is cut to the first ids, and those of the template stay", async () => {
  for (const model of MODELS) {
    const whole = await run(Tokenizer.train(lesson(model), ALWAYS));
    const path = join(folder, `cut-${model}.json`);
    await run(whole.save(path));
    const { data } = await run(whole.encode(CORPUS));
    for (const most of [1, 5, data.length - 1, data.length, data.length + 1]) {
      const cut = await run(Tokenizer.fromFile(path, { ...ALWAYS, truncation: Tokenizer.truncationMaxLength(most) }));
      const found = await run(cut.encode(CORPUS));
      assert.deepEqual(found.data, data.slice(0, most));
      const twice = await run(cut.encodeBatchConcat([CORPUS, CORPUS]));
      assert.deepEqual([...twice.data], [...found.data, ...found.data]);
    }
  }
  const cut = await load({ truncation: Tokenizer.truncationMaxLength(4) });
  const { data } = await run(cut.encode("the brave men, living and dead"));
  assert.deepEqual([data.length, data[0], data[3]], [4, 2, 3]);
  assert.equal((await run(cut.encode("the brave men, living", { addSpecialTokens: false }))).data.length, 4);
});

test("special tokens in a text are tokens or text, by every model", async () => {
  for (const model of MODELS) {
    const changes = { specialTokens: ["<stop>", "halt"], vocabSize: 400 };
    const always = await run(Tokenizer.train(lesson(model, changes), ALWAYS));
    const never = await run(Tokenizer.train(lesson(model, changes), strictConfig));
    const special = ["<stop>", "halt"].map((name) => always.tokenToId(name).value);
    for (const text of ["<stop>", "halt", "the brave <stop> men", "the halt"]) {
      const has = async (tokenizer) => [...(await run(tokenizer.encode(text))).data].some((id) => special.includes(id));
      assert.deepEqual([await has(always), await has(never)], [true, false], `${model}: ${text}`);
    }
    const plain = (tokenizer) => run(tokenizer.encode("the brave men"));
    assert.deepEqual(await plain(always), await plain(never));
  }
  // What is put around a text is no part of it.
  const { data } = await run(bert.encode("[SEP]"));
  assert.deepEqual([data[0], data.at(-1), [...data].filter((id) => id === 3).length], [2, 3, 1]);
});

test("special tokens are kept or skipped in texts", async () => {
  const always = await load({ specialTokens: "Always" });
  const ids = await run(always.encode("nation [SEP]"));
  assert.equal(await run(always.decode(ids)), "[CLS] nation [SEP] [SEP]");
  assert.equal(await run(always.decode(ids, { skipSpecialTokens: false })), "[CLS] nation [SEP] [SEP]");
  assert.equal(await run(always.decode(ids, { skipSpecialTokens: true })), "nation");
  const many = [ids, ids.data, [...ids.data], []];
  assert.deepEqual(await run(always.decodeBatch(many, { skipSpecialTokens: true })), ["nation", "nation", "nation", ""]);
  assert.deepEqual(await run(always.decodeBatch([[2], [3]])), ["[CLS]", "[SEP]"]);
  // As many as are handed to a thread.
  const long = Array.from({ length: 1000 }, () => ids);
  assert.deepEqual(await run(always.decodeBatch(long)), long.map(() => "[CLS] nation [SEP] [SEP]"));
});

test("ids that are none are refused", async () => {
  for (const [id, pattern] of [
    [bert.vocabSize, /^ids: there is no token \d+; ids go from 0 to \d+$/],
    [4294967295, /there is no token 4294967295/],
    [-1, /^ids.*\[1\] is -1, expected the id of a token/],
    [1.5, /\[1\] is 1\.5/],
    [Number.NaN, /\[1\] is NaN/],
    [2 ** 40, /\[1\] is 1099511627776/],
    ["2", /\[1\] is the text "2", expected/],
  ]) {
    const { op, message } = await failure(bert.decode([2, id]));
    assert.equal(op, "decode");
    assert.match(message, pattern);
    assert.match((await failure(bert.decodeBatch([[1], [2, id]]))).message, pattern);
  }
});

test("what is no tokenizer is refused by name", async () => {
  for (const [json, pattern] of [
    ["", /^tokenizer\.json: the file is empty/],
    ["{", /^tokenizer\.json: it is not JSON/],
    ["{}", /there is no `model` in it/],
    ['{"model": {"type": "None"}}', /it is not a tokenizer/],
    [BERT.replace(/"the":\d+/, '"the":999999'), /ids up to 999999; ids must be numbered without large gaps/],
    [BERT.replace('"[CLS]":2', '"[CLS]":999999'), /`added_tokens` gives `\[CLS\]` the id 2, where its id would be 999999/],
  ]) {
    const error = await failure(Tokenizer.fromJson(json, strictConfig));
    assert.deepEqual([error._tag, error.op, error.kind], ["TokenizerError", "fromJson", "format"]);
    assert.match(error.message, pattern);
  }
  const missing = join(folder, "missing.json");
  const error = await failure(Tokenizer.fromFile(missing, strictConfig));
  assert.deepEqual([error.op, error.kind], ["fromFile", "io"]);
  assert.equal(error.message, `${missing}: cannot read it: No such file or directory`);
  const path = join(folder, "bad.json");
  writeFileSync(path, '{"model": 1}');
  assert.ok((await failure(Tokenizer.fromFile(path, strictConfig))).message.startsWith(path));
});

test("what cannot be followed is refused before it is tried", async () => {
  for (const [changes, pattern] of [
    [{ truncation: Tokenizer.truncationMaxLength(2) }, /texts are to be cut to 2 tokens; at least 3 are needed/],
    [{ truncation: Tokenizer.truncationMaxLength(-1) }, /truncation\.maxLength is -1, expected a whole number/],
    [{ truncation: Tokenizer.truncationMaxLength(1.5) }, /truncation\.maxLength is 1\.5/],
    [{ padding: Tokenizer.paddingLongest(-1) }, /padding\.padId is -1/],
    [{ padding: Tokenizer.paddingMaxLength(Number.NaN, 0) }, /padding\.maxLength is NaN/],
    [{ specialTokens: "Sometimes" }, /specialTokens is the text "Sometimes", expected "Never" or "Always"/],
  ]) {
    assert.match((await failure(Tokenizer.fromJson(BERT, { ...strictConfig, ...changes }))).message, pattern);
  }
  const huge = await load({ padding: Tokenizer.paddingMaxLength(4294967295, 0) });
  assert.match((await failure(huge.encodeBatch(["a", "b"]))).message, /2\^31 ids in all are possible/);
  assert.match((await failure(bert.encodeBatch(["a", 1]))).message, /^texts\[1\] is 1, expected a text$/);
  assert.equal((await failure(bert.encode(undefined))).op, "encode");
});

test("a configuration counts as it was when the tokenizer was made", async () => {
  const config = { ...strictConfig, truncation: { _tag: "MaxLength", maxLength: 4 } };
  const tokenizer = await run(Tokenizer.fromJson(BERT, config));
  config.truncation.maxLength = 3;
  assert.equal((await run(tokenizer.encode("the brave men, living"))).data.length, 4);
});

test("what a file says of padding and truncation is kept and not followed", async () => {
  const asked = { ...JSON.parse(BERT) };
  asked.truncation = { direction: "Right", max_length: 4, strategy: "LongestFirst", stride: 0 };
  asked.padding = { strategy: { Fixed: 32 }, direction: "Right", pad_to_multiple_of: null, pad_id: 0, pad_type_id: 0, pad_token: "[PAD]" };
  const tokenizer = await run(Tokenizer.fromJson(JSON.stringify(asked), strictConfig));
  const text = "the brave men, living and dead";
  assert.deepEqual(await run(tokenizer.encode(text)), await run(bert.encode(text)));
  const path = join(folder, "asked.json");
  await run(tokenizer.save(path));
  const { truncation, padding } = JSON.parse(readFileSync(path, "utf8"));
  assert.deepEqual({ truncation, padding }, { truncation: asked.truncation, padding: asked.padding });
});

test("a file is written whole or not at all", async () => {
  const path = join(folder, "saved.json");
  await run(bert.save(path));
  const again = await run(Tokenizer.fromFile(path, strictConfig));
  assert.deepEqual(await run(again.encode(CORPUS)), await run(bert.encode(CORPUS)));
  const nowhere = join(folder, "no such folder", "saved.json");
  const error = await failure(bert.save(nowhere));
  assert.deepEqual([error.op, error.kind], ["save", "io"]);
  assert.match(error.message, /no such folder/);
  mkdirSync(join(folder, "occupied.json"));
  assert.equal((await failure(bert.save(join(folder, "occupied.json")))).op, "save");
  assert.ok(!existsSync(nowhere));
});

test("templates and messages that are none are refused", async () => {
  const refuses = async (pattern, ...args) => {
    const error = await failure(bert.applyChatTemplate(...args));
    assert.equal(error.op, "applyChatTemplate");
    assert.match(error.message, pattern);
  };
  await refuses(/the chat template is no Jinja: line 1/, "{% for %}", []);
  await refuses(/refuses the messages: no system/, "{{ raise_exception('no system') }}", [{ role: "system" }]);
  await refuses(/BigInt/, "", [{ role: "user", content: 1n }]);
  await refuses(/^messages is an object of class Object, expected a list of messages$/, "", { role: "user" });
  await refuses(/takes more than 2000000 steps/, "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}", []);
  // A variable cannot take the place of the messages.
  const options = { variables: { messages: [], add_generation_prompt: true, name: "x" } };
  const template = "{{ messages | length }}{{ add_generation_prompt }}{{ name }}";
  assert.equal(await run(bert.applyChatTemplate(template, [{ role: "user", content: null }], options)), "1Falsex");
  assert.equal(await run(bert.applyChatTemplate("{{ add_generation_prompt }}", [], { addGenerationPrompt: true })), "True");
});

test("an Effect does nothing until it runs, and may run twice", async () => {
  const path = join(folder, "lazy.json");
  const loaded = Tokenizer.fromFile(path, strictConfig);
  const saved = bert.save(path);
  assert.ok(!existsSync(path));
  await run(saved);
  assert.notEqual(await run(loaded), await run(loaded));
  assert.ok(existsSync(fixture("tokenizers/tokenizer.json")));
});
