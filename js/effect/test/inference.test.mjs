// Generation with a cache against the model's own forward pass over the whole text.
import assert from "node:assert/strict";

import { Model, Runtime, Tensor } from "@lanthorn/effect";
import { Effect, Fiber } from "effect";

import { allValues, assertClose, assertFault, effect, fixedParams, ids, values } from "./learning.mjs";

const VOCABULARY = 12;
const CONTEXT = 24;
const WIDTH = 8;
const HEADS = 2;

/** A language model of a few layers, with a table of positions or with turned queries and keys. */
const gpt = ({ rope, causal = true, layers = 2, heads = () => HEADS } = {}) =>
  Effect.gen(function* () {
    const tokens = yield* Model.embedding("wte", VOCABULARY, WIDTH);
    const begin = rope === undefined ? yield* Model.add(tokens, yield* Model.positionEmbedding("wpe", CONTEXT, WIDTH)) : tokens;
    const blocks = [];
    for (let layer = 0; layer < layers; layer++) {
      const options = { causal, ...(rope === undefined ? {} : { rope }) };
      const attention = yield* Model.multiHeadAttention(`attn${layer}`, WIDTH, heads(layer), options);
      const normed = yield* Model.chain(yield* Model.layerNorm(`ln${layer}`, WIDTH), attention);
      blocks.push(yield* Model.residual(normed));
    }
    return yield* Model.chain(begin, ...blocks, yield* Model.linear("head", WIDTH, VOCABULARY));
  });

/** Parameters that make texts vary: not those of a model that always says the same. */
const lively = (model) =>
  Effect.gen(function* () {
    const params = yield* fixedParams(model);
    const scaled = yield* Effect.forEach(params, (param) => Effect.flatMap(Tensor.constantLike(param, 2), (two) => Tensor.mul(param, two)));
    return yield* Tensor.compute(scaled);
  });

const best = (logits) => logits.reduce((best, value, at) => (value > logits[best] ? at : best), 0);

/** The logits after a text, without a cache. */
const forward = (model, params, tokens) =>
  Effect.gen(function* () {
    const output = yield* model.forward(params, yield* ids(tokens));
    const last = yield* Tensor.slice(output, { start: [0, tokens.length - 1, 0], end: [1, tokens.length, VOCABULARY] });
    return yield* values(last);
  });

/** A text of the likeliest tokens, without a cache. With a window, of what is in it alone. */
const byHand = (model, params, prompt, count, window = Infinity) =>
  Effect.gen(function* () {
    const text = [...prompt];
    for (let at = 0; at < count; at++) text.push(best(yield* forward(model, params, text.slice(-window))));
    return text;
  });

/** The same in a session. */
const cached = (program, prompt, count) =>
  Effect.gen(function* () {
    const session = yield* program.generation();
    const text = [...prompt];
    let { seq, logits } = yield* session.add(yield* ids(prompt));
    for (let at = 0; at < count; at++) {
      text.push(best(yield* values(logits)));
      yield* Tensor.clear(logits);
      if (at < count - 1) [logits] = yield* session.step([{ seq, token: text.at(-1) }]);
    }
    yield* session.close();
    return text;
  });

const bytes = Effect.flatMap(Runtime.Runtime, ({ extensions }) => extensions.diagnostics.externalMemoryBytes);

for (const [name, options] of [
  ["a table of positions", {}],
  ["turned queries and keys", { rope: 100 }],
  ["layers of different heads", { rope: 100, layers: 3, heads: (layer) => [2, 4, 1][layer] }],
]) {
  effect(`texts are those of the whole forward pass, with ${name}`, function* () {
    const model = yield* gpt(options);
    const params = yield* lively(model);
    const program = yield* Model.inference(model, params, { maxTokens: 64, blockSize: 4, prefillChunk: 3 });
    for (const prompt of [[1, 5, 3], [7], [2, 4, 6, 8, 10, 1, 3, 5, 7, 9]]) {
      const expected = yield* byHand(model, params, prompt, 10);
      assert.deepEqual(yield* cached(program, prompt, 10), expected);
    }
  });
}

effect("logits are numbers of one row, and close to those of the whole forward pass", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 64, blockSize: 4 });
  const session = yield* program.generation();
  const text = [1, 5, 3, 8, 2];
  const { seq, logits } = yield* session.add(yield* ids(text));
  assert.deepEqual(logits.shape, [VOCABULARY]);
  assertClose(yield* values(logits), yield* forward(model, params, text), 2e-5);
  for (const token of [4, 9, 0, 7]) {
    text.push(token);
    const [next] = yield* session.step([{ seq, token }]);
    assert.deepEqual(next.shape, [VOCABULARY]);
    assertClose(yield* values(next), yield* forward(model, params, text), 2e-5);
    assert.equal(yield* seq.cursor(), text.length);
  }
});

for (const [kvDtype, tolerance] of [["f16", 2e-2], ["bf16", 6e-2], ["int8", 1e-1]]) {
  effect(`keys and values in ${kvDtype} give nearly the same logits`, function* () {
    const model = yield* gpt();
    const params = yield* fixedParams(model);
    const program = yield* Model.inference(model, params, { maxTokens: 64, blockSize: 4, kvDtype });
    const session = yield* program.generation();
    const text = [1, 5, 3, 8, 2];
    let { seq, logits } = yield* session.add(yield* ids(text));
    for (const token of [4, 9, 0, 7, 6]) {
      assertClose(yield* values(logits), yield* forward(model, params, text), tolerance);
      text.push(token);
      [logits] = yield* session.step([{ seq, token }]);
    }
  });
}

effect("a ragged batch gives what each text gives alone", function* () {
  const model = yield* gpt({ rope: 100 });
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 128, blockSize: 4, decodeBatch: 4 });
  const session = yield* program.generation();
  const texts = [[1, 2, 3], [4, 5, 6, 7, 8], [9, 10]];
  const entries = yield* Effect.forEach(texts, (text) => Effect.flatMap(ids(text), session.add));
  for (const token of [1, 6, 0]) {
    texts.forEach((text) => text.push(token));
    const rows = yield* session.step(entries.map(({ seq }) => ({ seq, token })));
    assert.deepEqual(rows.map(({ shape }) => shape), [[VOCABULARY], [VOCABULARY], [VOCABULARY]]);
    for (const [at, row] of (yield* allValues(rows)).entries()) {
      assertClose(row, yield* forward(model, params, texts[at]), 2e-5, `text ${at}`);
    }
  }
  assert.deepEqual(yield* Effect.forEach(entries, ({ seq }) => seq.cursor()), [6, 8, 5]);
  yield* entries[1].seq.finish();
  assert.equal(yield* session.live(), 2);
  const [row] = yield* session.step([{ seq: entries[2].seq, token: 3 }]);
  assertClose(yield* values(row), yield* forward(model, params, [...texts[2], 3]), 2e-5);
});

effect("a beginning that texts have in common is held once", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  // Room for five blocks: two texts of three blocks each fit where two of them are shared.
  const program = yield* Model.inference(model, params, { maxTokens: 20, blockSize: 4 });
  const session = yield* program.generation();
  const text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0];
  const first = yield* session.add(yield* ids(text));
  const second = yield* session.add(yield* ids([...text.slice(0, 8), 3, 3, 3]));
  assertClose(yield* values(first.logits), yield* forward(model, params, text), 2e-5);
  assertClose(yield* values(second.logits), yield* forward(model, params, [...text.slice(0, 8), 3, 3, 3]), 2e-5);
});

effect("blocks of texts that are over serve new ones, and give way where room is needed", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 12, blockSize: 4 });
  for (const text of [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0], [2, 4, 6, 8, 10, 0, 1, 3, 5, 7, 9, 11], [1, 2, 3, 4, 5, 6, 7, 8, 0]]) {
    const session = yield* program.generation();
    const { seq, logits } = yield* session.add(yield* ids(text));
    assertClose(yield* values(logits), yield* forward(model, params, text), 2e-5);
    yield* seq.finish();
    yield* seq.finish();
    assert.equal(yield* session.live(), 0);
  }
});

effect("a window with turned queries and keys goes on without end", function* () {
  const model = yield* gpt({ rope: 100, layers: 1 });
  const params = yield* lively(model);
  // Room for four blocks: only those out of the window are given back in time.
  const config = { maxTokens: 16, blockSize: 4, attentionWindow: 8 };
  const program = yield* Model.inference(model, params, config);
  const expected = yield* byHand(model, params, [1, 5], 40, 8);
  assert.deepEqual(yield* cached(program, [1, 5], 40), expected);
});

effect("a window within a table of positions counts positions from the beginning", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 48, blockSize: 4, attentionWindow: 8 });
  const session = yield* program.generation();
  const text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0];
  let { seq, logits } = yield* session.add(yield* ids(text));
  for (let at = 0; at < 4; at++) {
    text.push(best(yield* values(logits)));
    [logits] = yield* session.step([{ seq, token: text.at(-1) }]);
  }
  const fresh = yield* session.add(yield* ids(text));
  assertClose(yield* values(fresh.logits), yield* values(logits), 2e-5);
});

effect("sessions at once are as sessions one by one", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 64, blockSize: 4 });
  const prompts = [[1, 2], [3, 4], [1, 2, 3, 4, 5]];
  const alone = yield* Effect.forEach(prompts, (prompt) => cached(program, prompt, 6));
  const together = yield* Effect.all(prompts.map((prompt) => cached(program, prompt, 6)), { concurrency: "unbounded" });
  assert.deepEqual(together, alone);
});

effect("drawn tokens are those of the logits, and the same for the same seed", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 128, blockSize: 4, decodeBatch: 2 });
  const greedy = (counter) => ({ temperature: 0, seed: 1, counter });
  const session = yield* program.generation();
  const expected = yield* byHand(model, params, [1, 5, 3], 4);
  const { seq, token } = yield* session.addSampled(yield* ids([1, 5, 3]), greedy(0));
  const text = [1, 5, 3, token];
  for (let at = 1; at < 4; at++) text.push((yield* session.stepSampled([{ seq, token: text.at(-1), sampling: greedy(at) }]))[0]);
  assert.deepEqual(text, expected);
  const other = yield* session.addSampled(yield* ids([2, 2]), greedy(0));
  const draw = (seed) => ({ temperature: 1.5, topK: 5, topP: 0.95, seed, counter: 3 });
  const pair = (a, b) => [{ seq, token: text.at(-1), sampling: draw(a) }, { seq: other.seq, token: other.token, sampling: draw(b) }];
  const both = yield* session.stepSampled(pair(7, 8));
  assert.equal(both.length, 2);
  assert.ok(both.every((drawn) => Number.isInteger(drawn) && drawn >= 0 && drawn < VOCABULARY));
  const again = yield* program.generation();
  const entry = yield* again.addSampled(yield* ids(text.slice(0, -1)), greedy(0));
  const [same] = yield* again.stepSampled([{ seq: entry.seq, token: text.at(-1), sampling: draw(7) }]);
  assert.equal(same, both[0]);
});

effect("i64 tokens", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 32, blockSize: 4, tokenDtype: "i64" });
  const session = yield* program.generation();
  const { seq, logits } = yield* session.add(yield* Tensor.fromTypedArray(BigInt64Array.of(1n, 5n, 3n), [1, 3]));
  assertClose(yield* values(logits), yield* forward(model, params, [1, 5, 3]), 2e-5);
  const [next] = yield* session.step([{ seq, token: 7 }]);
  assertClose(yield* values(next), yield* forward(model, params, [1, 5, 3, 7]), 2e-5);
});

effect("a batch that has no room changes no text", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 24, blockSize: 4, decodeBatch: 2 });
  const session = yield* program.generation();
  const a = yield* session.add(yield* ids([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0]));
  const b = yield* session.add(yield* ids([2, 4, 6, 8, 10, 0, 1, 3, 5, 7, 9, 11]));
  const fault = yield* Effect.flip(session.step([{ seq: a.seq, token: 1 }, { seq: b.seq, token: 2 }]));
  assert.equal(fault._tag, "TensorError");
  assert.deepEqual([yield* a.seq.cursor(), yield* b.seq.cursor()], [12, 12]);
  const full = yield* program.generation();
  assert.equal((yield* Effect.flip(full.add(yield* ids([5, 5, 5]))))._tag, "TensorError");
  assert.equal(yield* full.live(), 0);
  yield* b.seq.finish();
  const [row] = yield* session.step([{ seq: a.seq, token: 1 }]);
  assertClose(yield* values(row), yield* forward(model, params, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 1]), 2e-5);
});

effect("an interrupted prompt leaves nothing behind", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 24, blockSize: 4, prefillChunk: 1 });
  const session = yield* program.generation();
  const prompt = yield* ids(Array.from({ length: 20 }, (_, at) => at % VOCABULARY));
  const fiber = yield* Effect.forkChild(session.add(prompt));
  yield* Effect.yieldNow;
  yield* Fiber.interrupt(fiber);
  assert.equal(yield* session.live(), 0);
  // All room is there again.
  const { seq } = yield* session.add(yield* ids(Array.from({ length: 24 }, (_, at) => (5 * at) % VOCABULARY)));
  assert.equal(yield* seq.cursor(), 24);
});

effect("parameters are held by inference itself, and let go where it cannot be set up", function* () {
  const model = yield* gpt();
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 16, blockSize: 4 });
  const expected = yield* byHand(model, params, [1, 5], 3);
  yield* Tensor.clearAll(params);
  assert.deepEqual(yield* cached(program, [1, 5], 3), expected);
  const other = yield* gpt({ causal: false });
  const lazy = yield* other.init;
  const before = yield* bytes;
  yield* Effect.flip(Model.inference(other, lazy, { maxTokens: 16, blockSize: 4 }));
  assert.equal(yield* bytes, before);
});

effect("models that cannot be served are refused", function* () {
  const config = { maxTokens: 16, blockSize: 4 };
  const refused = (model, settings = config) => Effect.flatMap(model.init, (params) => Effect.flip(Model.inference(model, params, settings)));
  const flat = yield* Model.chain(yield* Model.embedding("e", VOCABULARY, WIDTH), yield* Model.linear("l", WIDTH, VOCABULARY));
  assertFault(yield* refused(flat), "InferenceError", /attention/);
  assertFault(yield* refused(yield* gpt({ causal: false })), "InferenceError", /causal/);
  const row = yield* Model.define({ parameters: [], forward: (_, input) => Tensor.cast(input, "f32") });
  assertFault(yield* refused(row), "InferenceError", /output must be \[1, 4, vocab\], got \[1,4\]/);
  const model = yield* gpt();
  for (const settings of [null, 7]) {
    assertFault(yield* refused(model, settings), "InferenceError", /the settings are .*, expected an object with maxTokens/);
  }
  assertFault(yield* refused(model, { maxTokens: 64, blockSize: 32 }), "ModelError", /a length of 32 exceeds maxPositions/);
  assertFault(yield* Effect.flip(Model.inference(model, [], config)), "ModelError", /parameters, got 0/);
  for (const [change, message] of [
    [{ maxTokens: 15 }, /maxTokens is 15, expected a multiple of blockSize/],
    [{ blockSize: 0 }, /blockSize is 0/],
    [{ attentionWindow: 17 }, /attentionWindow is 17, expected at most maxTokens/],
    [{ prefillChunk: 0 }, /prefillChunk is 0/],
    [{ decodeBatch: 1.5 }, /decodeBatch is 1.5/],
    [{ kvDtype: "f64" }, /kvDtype is the text "f64", expected f32/],
    [{ kvDtype: Symbol("f32") }, /kvDtype is a symbol/],
    [{ tokenDtype: "u8" }, /tokenDtype is the text "u8", expected u32/],
    [{ maxTokens: {} }, /maxTokens is an object of class Object, expected a positive integer/],
  ]) {
    assertFault(yield* refused(model, { ...config, ...change }), "InferenceError", message);
  }
});

effect("a chunk that no call has room for is refused at once, with the most that there is room for", function* () {
  const model = yield* Model.chain(
    yield* Model.embedding("token", 6, 4),
    yield* Model.multiHeadAttention("attention", 4, 1, { causal: true }),
    yield* Model.linear("head", 4, 6),
  );
  const params = yield* model.init;
  const of = (prefillChunk) => Model.inference(model, params, { maxTokens: 8192, prefillChunk });
  const error = yield* Effect.flip(of(5000));
  assertFault(error, "InferenceError", /5000 new tokens in a call, expected at most \d+ beside \d tensors; prefillChunk is 5000/);
  const most = Number(/at most (\d+)/.exec(error.message)[1]);
  assertFault(yield* Effect.flip(of(most + 1)), "InferenceError", /prefillChunk is/);
  // That many do fit.
  const session = yield* (yield* of(most)).generation();
  const prompt = yield* Tensor.fromTypedArray(new Uint32Array(most), [1, most]);
  yield* session.addSampled(prompt, { temperature: 0, seed: 1 });
  yield* session.close();
});

effect("calls that do not fit are refused", function* () {
  const model = yield* gpt();
  const program = yield* Model.inference(model, yield* model.init, { maxTokens: 32, blockSize: 4, decodeBatch: 2 });
  const session = yield* program.generation();
  const fault = (effect) => Effect.flip(effect);
  const flat = yield* Tensor.fromTypedArray(new Uint32Array(6), [2, 3]);
  assertFault(yield* fault(session.add(flat)), "InferenceError", /expects a prompt of shape \[1, T\]/);
  assertFault(yield* fault(session.add(yield* ids([]))), "InferenceError", /expects a prompt/);
  const wide = yield* Tensor.fromTypedArray(BigInt64Array.of(1n), [1, 1]);
  assertFault(yield* fault(session.add(wide)), "InferenceError", /prompt dtype must be u32/);
  const a = yield* session.add(yield* ids([1, 2, 3]));
  const b = yield* session.add(yield* ids([4, 5]));
  assertFault(yield* fault(session.add(yield* ids([6]))), "InferenceError", /at most decodeBatch, which is 2/);
  assertFault(yield* fault(session.step([])), "InferenceError", /at least one entry/);
  const entry = { seq: a.seq, token: 1 };
  assertFault(yield* fault(session.step([entry, entry])), "InferenceError", /duplicate sequence/);
  assertFault(yield* fault(session.step([{ seq: a.seq, token: -1 }])), "InferenceError", /token of entry 0 is -1/);
  const stranger = yield* program.generation();
  assertFault(yield* fault(stranger.step([entry])), "InferenceError", /not a live sequence/);
  yield* b.seq.finish();
  assertFault(yield* fault(session.step([{ seq: b.seq, token: 1 }])), "InferenceError", /not a live sequence/);
  yield* session.close();
  yield* session.close();
  assert.equal(yield* session.live(), 0);
  assertFault(yield* fault(session.step([entry])), "InferenceError", /closed/);
  assertFault(yield* fault(session.add(yield* ids([1]))), "InferenceError", /closed/);
  assert.equal((yield* values(a.logits)).length, VOCABULARY);
});

effect("what is no prompt, no entry and no sampling is named by what was found", function* () {
  const model = yield* gpt();
  const session = yield* (yield* Model.inference(model, yield* model.init, { maxTokens: 32, blockSize: 4 })).generation();
  const { seq } = yield* session.add(yield* ids([1, 2]));
  const sampling = { seed: 1 };
  const named = (op, effect, message) =>
    Effect.map(Effect.flip(effect), (error) => {
      assertFault(error, "InferenceError", message);
      assert.equal(error.op, op);
    });
  for (const [prompt, message] of [
    [null, /the prompt is null, expected a tensor of shape \[1, T\]/],
    [undefined, /the prompt is undefined/],
    [[1, 2], /the prompt is an object of class Array/],
    [{ shape: [1, 2], dtype: "u32" }, /the prompt is an object of class Object/],
  ]) {
    yield* named("add", session.add(prompt), message);
    yield* named("addSampled", session.addSampled(prompt, sampling), message);
  }
  for (const [entries, message] of [
    [null, /the entries are null, expected a list of seq and token/],
    [seq, /the entries are an object of class Object/],
    [[null], /entry 0 is null, expected seq and token/],
    [[{ seq, token: 1, sampling }, 3], /entry 1 is 3, expected seq and token/],
    [[{ seq: null, token: 1, sampling }], /entry 0 is not a live sequence/],
    [[{ seq, token: "3", sampling }], /the token of entry 0 is the text "3"/],
    [[{ seq, sampling }], /the token of entry 0 is undefined/],
    [[{ seq, token: 2 ** 32, sampling }], /the token of entry 0 is 4294967296, expected a whole number from 0 to 2\^32 - 1/],
  ]) {
    yield* named("step", session.step(entries), message);
    yield* named("stepSampled", session.stepSampled(entries), message);
  }
  const long = yield* (yield* Model.inference(model, yield* model.init, { maxTokens: 32, blockSize: 4, tokenDtype: "i64" })).generation();
  for (const token of [-1n, 2n ** 32n, 2n ** 62n]) {
    const wrong = yield* Tensor.fromTypedArray(BigInt64Array.of(1n, token), [1, 2]);
    yield* named("add", long.add(wrong), /token 1 of the prompt is -?\d+, expected a whole number from 0 to 2\^32 - 1/);
    yield* named("addSampled", long.addSampled(wrong, sampling), /token 1 of the prompt is/);
  }
  const prompt = yield* ids([3]);
  yield* named("addSampled", session.addSampled(prompt, null), /sampling is null, expected options with a seed/);
  yield* named("stepSampled", session.stepSampled([{ seq, token: 1 }]), /sampling of entry 0 is undefined/);
  assert.equal(yield* session.live(), 1);
  assert.equal(yield* seq.cursor(), 2);
});
