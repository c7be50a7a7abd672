// Layers that keep running state while a text is written, against the same forward pass over the whole text.
import assert from "node:assert/strict";

import { Model, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";

import { assertClose, assertFault, effect, fixedParams, ids, values } from "./learning.mjs";

const [VOCABULARY, WIDTH, HEADS] = [12, 8, 2];

/** A layer that is a convolution over three steps. */
const convolution = (name) =>
  Model.define({
    parameters: [{ name: `${name}.conv`, shape: [WIDTH, 3] }],
    init: Effect.map(Tensor.randn([WIDTH, 3]), (weight) => [weight]),
    forward: ([weight], input) => Tensor.shortConv1d(input, weight),
  });

/** A layer that is the delta rule of rows to themselves, with one factor for all tokens. */
const recurrence = Model.define({
  parameters: [],
  forward: (_, input) =>
    Effect.gen(function* () {
      const [batch, length, width] = input.shape;
      const heads = yield* Tensor.reshape(input, [batch, 1, length, width]);
      const beta = yield* Tensor.full([batch, 1, length], 0.5);
      const decay = yield* Tensor.neg(yield* Tensor.abs(heads));
      return yield* Tensor.reshape(yield* Tensor.kdaChunk(heads, heads, heads, decay, beta), input.shape);
    }),
});

const layers = {
  kimi: (name) => Model.kimiDeltaAttention(name, WIDTH, HEADS),
  attention: (name) => Model.multiHeadAttention(name, WIDTH, HEADS, { causal: true, rope: 100 }),
  convolution,
  recurrence: () => recurrence,
};

/** A language model of such layers. */
const language = (...kinds) =>
  Effect.gen(function* () {
    const blocks = [];
    for (const [at, kind] of kinds.entries()) blocks.push(yield* Model.residual(yield* layers[kind](`${kind}${at}`)));
    return yield* Model.chain(
      yield* Model.embedding("token", VOCABULARY, WIDTH),
      ...blocks,
      yield* Model.linear("head", WIDTH, VOCABULARY),
    );
  });

/** Parameters that make texts vary. */
const lively = (model) =>
  Effect.gen(function* () {
    const doubled = yield* Effect.forEach(yield* fixedParams(model), (param) => Tensor.add(param, param));
    return yield* Tensor.compute(doubled);
  });

/** The logits after a text, without a cache. */
const forward = (model, params, tokens) =>
  Effect.gen(function* () {
    const output = yield* model.forward(params, yield* ids(tokens));
    return (yield* values(output)).slice(-VOCABULARY);
  });

const text = (length, seed) => Array.from({ length }, (_, at) => (7 * at * at + 5 * at + seed) % VOCABULARY);
const best = (logits) => logits.reduce((best, value, at) => (value > logits[best] ? at : best), 0);

const MIXED = ["kimi", "attention", "convolution", "kimi"];
const models = { kimi: ["kimi"], recurrence: ["recurrence"], convolution: ["convolution"], mixed: MIXED };

for (const [name, kinds] of Object.entries(models)) {
  for (const prefillChunk of [1, 3, 8]) {
    effect(`${name}: in chunks of ${prefillChunk}, logits are those of the whole forward pass`, function* () {
      const model = yield* language(...kinds);
      const params = yield* lively(model);
      const program = yield* Model.inference(model, params, { maxTokens: 64, blockSize: 4, prefillChunk });
      for (const length of [1, 7, 9]) {
        const session = yield* program.generation();
        const tokens = text(length, length);
        let { seq, logits } = yield* session.add(yield* ids(tokens));
        for (let step = 0; step < 6; step++) {
          const found = yield* values(logits);
          assertClose(found, yield* forward(model, params, tokens), 2e-5, `${tokens.length} tokens`);
          const token = (best(found) + step) % VOCABULARY;
          tokens.push(token);
          [logits] = yield* session.step([{ seq, token }]);
        }
        assert.equal(yield* seq.cursor(), length + 6);
        yield* session.close();
      }
    });
  }

  effect(`${name}: a ragged batch in any order is each text alone`, function* () {
    const model = yield* language(...kinds);
    const params = yield* lively(model);
    const program = yield* Model.inference(model, params, { maxTokens: 96, blockSize: 4, prefillChunk: 5, decodeBatch: 4 });
    const session = yield* program.generation();
    const texts = [1, 11, 6].map((length) => text(length, length));
    const seqs = [];
    for (const tokens of texts) seqs.push((yield* session.add(yield* ids(tokens))).seq);
    for (const [step, order] of [[0, 1, 2], [2, 0], [1], [2, 1, 0], [1, 2]].entries()) {
      const entries = order.map((at) => ({ seq: seqs[at], token: (3 * at + step) % VOCABULARY }));
      const rows = yield* session.step(entries);
      for (const [place, at] of order.entries()) {
        texts[at].push(entries[place].token);
        assertClose(yield* values(rows[place]), yield* forward(model, params, texts[at]), 2e-5, `text ${at} in step ${step}`);
      }
      if (step === 1) {
        // A text that comes later takes the place of one that is over.
        yield* seqs[1].finish();
        texts[1] = text(4, 3);
        seqs[1] = (yield* session.add(yield* ids(texts[1]))).seq;
      }
    }
  });
}

effect("sessions draw the same texts one by one and at once", function* () {
  const model = yield* language(...MIXED);
  const program = yield* Model.inference(model, yield* lively(model), { maxTokens: 96, blockSize: 4, prefillChunk: 3 });
  const written = (prompt) =>
    Effect.gen(function* () {
      const session = yield* program.generation();
      const sampling = (counter) => ({ temperature: 1, seed: 5, counter });
      const { seq, token } = yield* session.addSampled(yield* ids(prompt), sampling(0));
      const tokens = [token];
      for (let at = 1; at < 6; at++) tokens.push((yield* session.stepSampled([{ seq, token: tokens.at(-1), sampling: sampling(at) }]))[0]);
      yield* session.close();
      return tokens;
    });
  const prompts = [[1, 2], [3, 4], [1, 2, 3, 4, 5]];
  const alone = yield* Effect.forEach(prompts, written);
  assert.deepEqual(yield* Effect.all(prompts.map(written), { concurrency: "unbounded" }), alone);
  assert.ok(new Set(alone.map(String)).size > 1);
});

/** A program of `length` tokens of each of at most `batch` sequences, traced by hand. */
const compiled = (model, params, length, request = {}) =>
  Effect.gen(function* () {
    const inputs = [];
    for (const [slot, param] of params.entries()) inputs.push(yield* Tensor.makeInput(slot, param));
    const tokenSlot = params.length;
    const tokens = yield* Tensor.makeInput(tokenSlot, yield* ids(Array(length).fill(0)));
    const state = { maxTokens: 64, blockSize: 4, kvDtype: "f32", batch: 2, lastTokenRow: true, tokenSlot, ...request };
    return yield* Tensor.compileDecodeProgram([yield* model.forward(inputs, tokens)], state);
  });

const poolOf = (program, change = {}) => {
  const { layers, kvHeads, headDim, maxTokens, blockSize, kvDtype, ...others } = { ...program, ...change };
  return Tensor.makeKvPool(layers, kvHeads, headDim, maxTokens, blockSize, kvDtype, others);
};

effect("a program tells what its layers keep, and what a call writes of it", function* () {
  const model = yield* language(...MIXED);
  const params = yield* lively(model);
  const program = yield* compiled(model, params, 4);
  const { layers, kdaLayers, kdaHeads, kdaHeadDim, kdaValueDim, convLayers, convChannels, convKernel, sequences } = program;
  const head = WIDTH / HEADS;
  assert.deepEqual([layers, kdaLayers, kdaHeads, kdaHeadDim, kdaValueDim], [1, 2, HEADS, head, head]);
  // The convolutions are not all alike; the largest sizes are told.
  assert.deepEqual([convLayers, convChannels, convKernel, sequences], [7, WIDTH, 4, 16]);
  const state = 4 * (2 * HEADS * head * head + 7 * 3 * WIDTH);
  const row = 2 * WIDTH * 4;
  const { stateBytes, transactionBytes } = program.handle.diagnostics.memory;
  assert.deepEqual([stateBytes, transactionBytes], [64 * row + 2 * 16 * state, 2 * (4 * row + state)]);

  const alone = yield* compiled(yield* language("kimi"), yield* lively(yield* language("kimi")), 4, { sequences: 3 });
  assert.deepEqual([alone.layers, alone.kvHeads, alone.headDim, alone.sequences], [0, 0, 0, 3]);
  assert.equal(alone.handle.state.kdaLayers, 1);
});

effect("a call that fails leaves the state of its sequences", function* () {
  const model = yield* language("kimi", "attention");
  const params = yield* lively(model);
  const [piece, step] = [yield* compiled(model, params, 4), yield* compiled(model, params, 1)];
  const pool = yield* poolOf(piece);
  const [sequence, fresh] = [yield* Tensor.makeKvSequence(pool), yield* Tensor.makeKvSequence(pool)];
  const tokens = [3, 1, 4];
  yield* Tensor.runDecodeProgram(piece, params, sequence, tokens);
  const goesOn = function* (token) {
    const [logits] = yield* Tensor.runDecodeProgram(step, params, sequence, [token]);
    tokens.push(token);
    assertClose(yield* values(logits), yield* forward(model, params, tokens), 2e-5, `${tokens.length} tokens`);
  };
  // A token that the table does not have.
  yield* Effect.flip(Tensor.runDecodeProgram(piece, params, sequence, [1, 100]));
  yield* goesOn(5);
  // Logits of which nothing can be drawn: the program has run to its end.
  const broken = yield* Tensor.compute(yield* Effect.forEach(params, ({ shape }) => Tensor.full(shape, NaN)));
  const sampling = { temperature: 1, seed: 1 };
  const both = Tensor.runBatchedDecodeProgramSampled(step, broken, [sequence, fresh], [[1], [2]], [sampling, sampling]);
  assertFault(yield* Effect.flip(both), "TensorError", /NaN/);
  yield* Effect.flip(Tensor.runDecodeProgramSampled(piece, broken, sequence, [1, 2, 3], sampling));
  assert.deepEqual([yield* Tensor.kvSequenceCursor(sequence), yield* Tensor.kvSequenceCursor(fresh)], [4, 0]);
  yield* goesOn(9);
  yield* goesOn(2);
});

effect("there is room for the state of so many texts, and a text that is over makes room", function* () {
  const model = yield* language("kimi");
  const params = yield* lively(model);
  const program = yield* Model.inference(model, params, { maxTokens: 64, blockSize: 4, sequences: 2 });
  const session = yield* program.generation();
  const a = yield* session.add(yield* ids([1, 2, 3]));
  const b = yield* session.add(yield* ids([4, 5]));
  const full = yield* Effect.flip(session.add(yield* ids([6])));
  assertFault(full, "TensorError", /the running state of 2 sequences, 1 more are needed and 0 are free/);
  yield* b.seq.finish();
  const c = yield* session.add(yield* ids([6]));
  assertClose(yield* values(c.logits), yield* forward(model, params, [6]), 2e-5);
  const [row] = yield* session.step([{ seq: a.seq, token: 7 }]);
  assertClose(yield* values(row), yield* forward(model, params, [1, 2, 3, 7]), 2e-5);
  yield* session.close();
  const next = yield* program.generation();
  for (const prompt of [[1], [2]]) yield* next.add(yield* ids(prompt));
  const wrong = yield* Effect.flip(Model.inference(model, params, { maxTokens: 64, blockSize: 4, sequences: 0 }));
  assertFault(wrong, "InferenceError", /sequences is 0, expected a positive integer/);
});

effect("texts that begin alike share nothing, and say the same", function* () {
  const model = yield* language(...MIXED);
  const params = yield* lively(model);
  const program = yield* compiled(model, params, 8);
  const pool = yield* poolOf(program);
  const tokens = text(8, 1);
  for (let round = 0; round < 2; round++) {
    const sequence = yield* Tensor.makeKvSequence(pool);
    assert.equal(yield* Tensor.kvPrefillMatch(sequence, tokens), 0);
    const [logits] = yield* Tensor.runDecodeProgram(program, params, sequence, tokens);
    assertClose(yield* values(logits), yield* forward(model, params, tokens), 2e-5, `round ${round}`);
  }
});

effect("a pool of other sizes is refused, by the size", function* () {
  const model = yield* language("kimi", "attention");
  const params = yield* lively(model);
  const program = yield* compiled(model, params, 2);
  for (const [change, message] of [
    [{ kdaLayers: 2 }, /kdaLayers of the pool is 2, expected 1/],
    [{ kdaHeads: 3 }, /kdaHeads of the pool is 3, expected 2/],
    [{ kdaHeadDim: 8 }, /kdaHeadDim of the pool is 8, expected 4/],
    [{ kdaValueDim: 2 }, /kdaValueDim of the pool is 2, expected 4/],
    [{ convLayers: 0 }, /convLayers of the pool is 0, expected 3/],
    [{ convChannels: 7 }, /convChannels of the pool is 7, expected 8/],
    [{ convKernel: 3 }, /convKernel of the pool is 3, expected 4/],
    [{ sequences: 5 }, /sequences of the pool is 5, expected 16/],
    [{ layers: 0 }, /layers of the pool is 0, expected 1/],
    [{ blockSize: 8 }, /blockSize of the pool is 8, expected 4/],
    [{ kvDtype: "f16" }, /kvDtype of the pool is f16, expected f32/],
  ]) {
    const sequence = yield* Tensor.makeKvSequence(yield* poolOf(program, change));
    const error = yield* Effect.flip(Tensor.runDecodeProgram(program, params, sequence, [1]));
    assertFault(error, "TensorError", message);
  }
  // The seven sizes alone are those of a pool for as many sequences as a program takes by itself.
  const { layers, kvHeads, headDim, kdaLayers, kdaHeads, kdaHeadDim, kdaValueDim, convLayers, convChannels, convKernel } = program;
  const state = { kdaLayers, kdaHeads, kdaHeadDim, kdaValueDim, convLayers, convChannels, convKernel };
  const pool = yield* Tensor.makeKvPool(layers, kvHeads, headDim, 64, 4, "f32", state);
  yield* Tensor.runDecodeProgram(program, params, yield* Tensor.makeKvSequence(pool), [1, 2]);
  const wide = yield* Effect.flip(compiled(model, params, 2, { kvDtype: "f64" }));
  assertFault(wide, "TensorError", /a cache of f64 does not fit the model/);
});

effect("what a recurrence begins with, and what else mixes tokens, is refused by name", function* () {
  const tokens = yield* Model.embedding("token", VOCABULARY, WIDTH);
  const layer = (forward) => Model.define({ parameters: [], forward });
  const turned = yield* layer((_, input) =>
    Effect.gen(function* () {
      // Channels in the place of tokens.
      const weight = yield* Tensor.ones([input.shape[1], 2]);
      const mixed = yield* Tensor.shortConv1d(yield* Tensor.transpose(input, [0, 2, 1]), weight);
      return yield* Tensor.transpose(mixed, [0, 2, 1]);
    }),
  );
  const summed = yield* layer((_, input) => Tensor.cumsum(input, 1));
  for (const [model, message] of [
    [yield* Model.chain(tokens, turned), /short_conv1d cannot be cached: an operand is f32\[1, 8, \d\], expected \[1, \d, \.\.\]/],
    [yield* Model.chain(tokens, yield* recurrence, summed), /cumsum brings different tokens together/],
  ]) {
    const params = yield* model.init;
    for (const change of [{}, { prefillChunk: 1 }]) {
      const fault = yield* Effect.flip(Model.inference(model, params, { maxTokens: 16, blockSize: 4, ...change }));
      assertFault(fault, "InferenceError", message);
    }
  }
});
