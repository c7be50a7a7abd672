// Vocabularies, ids and texts held against Python's package `tokenizers`: see crates/io/fixtures/tokenizers/make.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ALWAYS, BERT, ENCODINGS, fixture, folder, lesson, MODELS, run, strictConfig, text, Tokenizer } from "./support.mjs";

const trained = Object.fromEntries(
  await Promise.all(MODELS.map(async (model) => [model, await run(Tokenizer.train(lesson(model), ALWAYS))])),
);
const expected = JSON.parse(text("tokenizers/trained.json"));

/** The model that a tokenizer writes to its file. */
async function modelOf(name, tokenizer) {
  const path = join(folder, `${name}.json`);
  await run(tokenizer.save(path));
  return JSON.parse(readFileSync(path, "utf8")).model;
}

for (const name of MODELS) {
  test(`${name} learns the vocabulary that Python's package learns`, async () => {
    const model = await modelOf(name, trained[name]);
    if (name !== "Unigram") return assert.deepEqual(model, expected[name]);
    // Sums round as they come, and characters that were put back stand in the order of a hash map.
    const pieces = ({ vocab }) => vocab.map(([piece]) => piece).sort();
    assert.deepEqual(pieces(model), pieces(expected[name]));
    const scores = ({ vocab }) => vocab.map(([, score]) => score).sort((a, b) => a - b);
    scores(model).forEach((score, at) => assert.ok(Math.abs(score - scores(expected[name])[at]) < 1e-9));
  });

  test(`${name} gives the ids of Python's package, and the texts of ids`, async () => {
    const tokenizer = trained[name];
    for (const [at, input] of ENCODINGS.texts.entries()) {
      const ids = await run(tokenizer.encode(input));
      assert.deepEqual(ids.shape, [ids.data.length]);
      assert.equal(ids.dtype, "u32");
      assert.ok(ids.data instanceof Uint32Array);
      const wanted = ENCODINGS.ids[name][at];
      if (name !== "Unigram") assert.deepEqual([...ids.data], wanted);
      const names = wanted.map((id) => (name === "Unigram" ? expected.Unigram.vocab[id][0] : nameIn(expected[name], id)));
      assert.deepEqual([...ids.data].map((id) => tokenizer.idToToken(id).value), names);
      assert.equal(await run(tokenizer.decode(ids, { skipSpecialTokens: true })), ENCODINGS.decoded[name][at]);
    }
    const all = await run(tokenizer.encodeBatchConcat(ENCODINGS.texts));
    assert.equal(all.data.length, ENCODINGS.ids[name].flat().length);
  });
}

function nameIn({ vocab }, id) {
  return Object.keys(vocab).find((name) => vocab[name] === id);
}

const singles = ({ inputs, encodings }) =>
  inputs.map(([first, second], at) => ({ first, second, ...encodings[at] })).filter(({ second }) => second === null);
/** What is no padding. */
const own = ({ ids, attention_mask }) => ids.filter((_, at) => attention_mask[at] === 1);

test("a template is applied or not, and texts are cut, as by Python's package", async () => {
  let cases = 0;
  for (const policy of ENCODINGS.policies) {
    const { truncation } = policy.file;
    if (truncation?.direction === "Left") continue;
    const config = {
      ...ALWAYS,
      truncation: truncation ? Tokenizer.truncationMaxLength(truncation.max_length) : Tokenizer.truncationNone,
    };
    const tokenizer = await run(Tokenizer.fromJson(BERT, config));
    for (const single of singles(policy)) {
      const { data } = await run(tokenizer.encode(single.first, { addSpecialTokens: policy.template }));
      assert.deepEqual([...data], own(single), JSON.stringify([policy.file, single.first]));
      cases += 1;
    }
  }
  assert.ok(cases > 30, `${cases} cases`);
});

test("batches are filled up as by Python's package", async () => {
  let cases = 0;
  for (const policy of ENCODINGS.policies) {
    const { truncation, padding } = policy.file;
    const isOurs = truncation?.direction !== "Left" && padding?.direction !== "Left" && !padding?.pad_to_multiple_of;
    if (!isOurs || !policy.template || !padding || singles(policy).length < policy.inputs.length) continue;
    const { strategy, pad_id } = padding;
    const tokenizer = await run(
      Tokenizer.fromFile(fixture("tokenizers/tokenizer.json"), {
        ...ALWAYS,
        truncation: truncation ? Tokenizer.truncationMaxLength(truncation.max_length) : Tokenizer.truncationNone,
        padding: strategy.Fixed ? Tokenizer.paddingMaxLength(strategy.Fixed, pad_id) : Tokenizer.paddingLongest(pad_id),
      }),
    );
    const { data, shape } = await run(tokenizer.encodeBatch(policy.inputs.map(([first]) => first)));
    assert.deepEqual([...data], policy.encodings.flatMap(({ ids }) => ids));
    assert.deepEqual(shape, [policy.inputs.length, policy.encodings[0].ids.length]);
    cases += 1;
  }
  assert.ok(cases > 0, "no case");

  // Of every single text, by the ids that Python's package gives each alone.
  const [first] = ENCODINGS.policies;
  const rows = singles(first).map(own);
  const longest = Math.max(...rows.map((row) => row.length));
  for (const [padding, length, id] of [
    [Tokenizer.paddingLongest(3), longest, 3],
    [Tokenizer.paddingMaxLength(longest + 5, 4294967295), longest + 5, 4294967295],
    [Tokenizer.paddingMaxLength(longest, 0), longest, 0],
  ]) {
    const tokenizer = await run(Tokenizer.fromJson(BERT, { ...ALWAYS, padding }));
    const { data, shape } = await run(tokenizer.encodeBatch(singles(first).map(({ first }) => first)));
    assert.deepEqual(shape, [rows.length, length]);
    assert.deepEqual([...data], rows.flatMap((row) => [...row, ...Array(length - row.length).fill(id)]));
    const joined = await run(tokenizer.encodeBatchConcat(singles(first).map(({ first }) => first)));
    assert.deepEqual([...joined.data], rows.flat());
    assert.deepEqual(joined.shape, [rows.flat().length]);
  }
});

test("conversations become the texts that transformers makes of them", async () => {
  const { conversations, variables, cases } = JSON.parse(text("chat/expected.json"));
  const tokenizer = await run(Tokenizer.fromJson(BERT, strictConfig));
  let [texts, errors] = [0, 0];
  for (const { template, conversation, variables: named, begun, text: wanted, error } of cases) {
    const rendered = tokenizer.applyChatTemplate(text(`chat/${template}.jinja`), conversations[conversation], {
      addGenerationPrompt: begun,
      variables: variables[named],
    });
    if (wanted !== null && wanted !== undefined) {
      assert.equal(await run(rendered), wanted, `${template}, ${conversation}, ${named}`);
      texts += 1;
    } else {
      await assert.rejects(run(rendered), (found) => found._tag === "TokenizerError" && found.message.includes(error ?? ""));
      errors += 1;
    }
  }
  assert.ok(texts >= 100 && errors >= 20, `${texts} texts, ${errors} errors`);
});
