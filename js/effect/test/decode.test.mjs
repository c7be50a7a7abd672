// Decode programs by hand, against the same forward pass without a cache.
import { Runtime, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";
import assert from "node:assert/strict";

import { assertClose, effectTest, f32, values } from "./support.mjs";

const [VOCABULARY, WIDTH, HEADS, BLOCK] = [11, 8, 2, 4];
const HEAD = WIDTH / HEADS;

/** Numbers that look drawn, and are always the same. */
const numbers = (count, from) => Array.from({ length: count }, (_, at) => Math.sin(1.7 * at + from) * 0.8);

/** The weights: a table, three projections and a head. */
const weights = Effect.gen(function* () {
  const lazy = [yield* f32(numbers(VOCABULARY * WIDTH, 1), [VOCABULARY, WIDTH])];
  for (let at = 0; at < 3; at++) lazy.push(yield* f32(numbers(WIDTH * WIDTH, at), [WIDTH, WIDTH]));
  lazy.push(yield* f32(numbers(WIDTH * VOCABULARY, 5), [WIDTH, VOCABULARY]));
  return yield* Tensor.compute(lazy);
});

/** Logits `[1, length, vocabulary]` of tokens `[1, length]`. */
const forward = ([table, q, k, v, head], tokens) =>
  Effect.gen(function* () {
    const length = tokens.shape[1];
    const x = yield* Tensor.embedding(tokens, { weight: table });
    const heads = (weight) =>
      Effect.gen(function* () {
        const split = yield* Tensor.reshape(yield* Tensor.matmul(x, weight), [1, length, HEADS, HEAD]);
        return yield* Tensor.transpose(split, [0, 2, 1, 3]);
      });
    const turned = (y) => Tensor.rotaryEmbedding(y, length, 100);
    const seen = yield* Tensor.scaledDotProductAttention(
      yield* turned(yield* heads(q)),
      yield* turned(yield* heads(k)),
      yield* heads(v),
      {
        causal: true,
      },
    );
    const joined = yield* Tensor.reshape(yield* Tensor.transpose(seen, [0, 2, 1, 3]), [1, length, WIDTH]);
    return yield* Tensor.matmul(yield* Tensor.add(x, joined), head);
  });

const ids = (tokens) => Tensor.fromTypedArray(Uint32Array.from(tokens), [1, tokens.length]);

/** The logits of every token of a text, without a cache. */
const uncached = (parameters, tokens) =>
  Effect.gen(function* () {
    const list = yield* values(yield* forward(parameters, yield* ids(tokens)));
    return tokens.map((_, at) => list.slice(at * VOCABULARY, (at + 1) * VOCABULARY));
  });

const REQUEST = { maxTokens: 64, blockSize: BLOCK, kvDtype: "f32", batch: 1 };

/** A program of `length` tokens for each sequence; tokens are in slot 2, among the weights. */
const compiled = (parameters, length, request = {}) =>
  Effect.gen(function* () {
    const slots = [0, 1, 3, 4, 5];
    const inputs = [];
    for (const [at, weight] of parameters.entries()) inputs.push(yield* Tensor.makeInput(slots[at], weight));
    const tokens = yield* Tensor.makeInput(2, yield* ids(Array(length).fill(0)));
    return yield* Tensor.compileDecodeProgram([yield* forward(inputs, tokens)], {
      ...REQUEST,
      tokenSlot: 2,
      ...request,
    });
  });

const poolOf = (program) => {
  const { layers, kvHeads, headDim, maxTokens, blockSize, kvDtype } = program;
  return Tensor.makeKvPool(layers, kvHeads, headDim, maxTokens, blockSize, kvDtype, program);
};

const rows = (tensor) =>
  Effect.map(values(tensor), (list) =>
    Array.from({ length: list.length / VOCABULARY }, (_, at) => list.slice(at * VOCABULARY, (at + 1) * VOCABULARY)),
  );

effectTest("a program tells the geometry of its cache", function* () {
  const program = yield* compiled(yield* weights, 4, { lastTokenRow: true });
  const { layers, kvHeads, headDim, maxTokens, blockSize, kvDtype, batch, length } = program;
  assert.deepEqual(
    { layers, kvHeads, headDim, maxTokens, blockSize, kvDtype, batch, length },
    { layers: 1, kvHeads: HEADS, headDim: HEAD, maxTokens: 64, blockSize: BLOCK, kvDtype: "f32", batch: 1, length: 4 },
  );
  assert.deepEqual(program.handle.state.layers, 1);
  const { kdaLayers, kdaHeads, kdaHeadDim, kdaValueDim, convLayers, convChannels, convKernel, sequences } = program;
  const state = [kdaLayers, kdaHeads, kdaHeadDim, kdaValueDim, convLayers, convChannels, convKernel, sequences];
  assert.deepEqual(state, Array(8).fill(0));
  assert.ok(Object.isFrozen(program.handle.state));
});

effectTest("pieces and single tokens give the logits of the whole text", function* () {
  const parameters = yield* weights;
  const text = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
  const expected = yield* uncached(parameters, text);
  const piece = yield* compiled(parameters, 4, { lastTokenRow: true });
  const single = yield* compiled(parameters, 1, { lastTokenRow: true });
  const pool = yield* poolOf(piece);
  const sequence = yield* Tensor.makeKvSequence(pool);
  assert.equal(yield* Tensor.kvSequenceCursor(sequence), 0);
  const last = (program, tokens) =>
    Effect.gen(function* () {
      const [logits] = yield* Tensor.runDecodeProgram(program, parameters, sequence, tokens);
      return (yield* rows(logits)).at(-1);
    });
  assertClose(yield* last(piece, text.slice(0, 4)), expected[3], 1e-5, "a piece");
  assertClose(yield* last(piece, text.slice(4, 7)), expected[6], 1e-5, "a shorter piece");
  assert.equal(yield* Tensor.kvSequenceCursor(sequence), 7);
  for (let at = 7; at < text.length; at++)
    assertClose(yield* last(single, [text[at]]), expected[at], 1e-5, `token ${at}`);
  assert.equal(yield* Tensor.kvSequenceCursor(sequence), text.length);
});

effectTest("a batch has a row for each of its sequences", function* () {
  const parameters = yield* weights;
  const program = yield* compiled(parameters, 3, { batch: 3, lastTokenRow: true });
  const pool = yield* poolOf(program);
  const texts = [[1, 2, 3], [4], [5, 6]];
  const sequences = yield* Effect.forEach(texts, () => Tensor.makeKvSequence(pool));
  const [logits] = yield* Tensor.runBatchedDecodeProgram(program, parameters, sequences, texts);
  const found = yield* rows(logits);
  assert.equal(found.length, 3);
  for (const [at, text] of texts.entries())
    assertClose(found[at], (yield* uncached(parameters, text)).at(-1), 1e-5, `text ${at}`);
  // Fewer than the batch, in another order.
  const [again] = yield* Tensor.runBatchedDecodeProgram(program, parameters, [sequences[2]], [[7]]);
  assertClose((yield* rows(again))[0], (yield* uncached(parameters, [5, 6, 7])).at(-1), 1e-5);
});

effectTest("drawn tokens are those of the logits", function* () {
  const parameters = yield* weights;
  const program = yield* compiled(parameters, 2, { batch: 2, lastTokenRow: true });
  const pool = yield* poolOf(program);
  const texts = [[1, 2], [8]];
  const greedy = { temperature: 0, seed: 1 };
  const best = (logits) => logits.indexOf(Math.max(...logits));
  const expected = [];
  for (const text of texts) expected.push(best((yield* uncached(parameters, text)).at(-1)));

  const fresh = Effect.forEach(texts, () => Tensor.makeKvSequence(pool));
  const drawn = yield* Tensor.runBatchedDecodeProgramSampled(program, parameters, yield* fresh, texts, [
    greedy,
    greedy,
  ]);
  assert.deepEqual(drawn, expected);
  const [one] = yield* fresh;
  assert.equal(yield* Tensor.runDecodeProgramSampled(program, parameters, one, texts[0], greedy), expected[0]);

  const [other] = yield* fresh;
  const [logits] = yield* Tensor.runDecodeProgram(program, parameters, other, texts[0]);
  assert.equal(yield* Tensor.sample(logits, greedy), expected[0]);
  const options = { temperature: 2, topK: 5, topP: 0.9, seed: 7 };
  const draws = yield* Effect.forEach(
    Array.from({ length: 40 }, (_, counter) => counter),
    (counter) => Tensor.sample(logits, { ...options, counter }),
  );
  assert.ok(new Set(draws).size > 1 && new Set(draws).size <= 5);
  const again = yield* Effect.forEach([0, 1, 2], (counter) => Tensor.sample(logits, { ...options, counter }));
  assert.deepEqual(again, draws.slice(0, 3));
  const [third] = yield* fresh;
  const sampled = yield* Tensor.runDecodeProgramSampled(program, parameters, third, texts[0], {
    ...options,
    counter: 3,
  });
  assert.equal(sampled, draws[3]);
  const wrong = yield* Effect.flip(
    Tensor.runBatchedDecodeProgramSampled(program, parameters, yield* fresh, texts, [greedy]),
  );
  assert.match(wrong.message, /1 options of sampling for 2 sequences/);
});

effectTest("a beginning that the pool holds is shared", function* () {
  const parameters = yield* weights;
  const program = yield* compiled(parameters, 8, { lastTokenRow: true });
  const pool = yield* poolOf(program);
  const text = [1, 2, 3, 4, 5, 6, 7];
  const first = yield* Tensor.makeKvSequence(pool);
  assert.equal(yield* Tensor.kvPrefillMatch(first, text), 0);
  yield* Tensor.runDecodeProgram(program, parameters, first, text);
  const second = yield* Tensor.makeKvSequence(pool);
  const matched = yield* Tensor.kvPrefillMatch(second, text);
  assert.equal(matched, BLOCK);
  const [logits] = yield* Tensor.runDecodeProgram(program, parameters, second, text.slice(matched));
  assertClose((yield* rows(logits)).at(-1), (yield* uncached(parameters, text)).at(-1), 1e-5);
});

effectTest("a call that fails leaves its sequences as they were", function* () {
  const parameters = yield* weights;
  const program = yield* compiled(parameters, 2, { maxTokens: 8, lastTokenRow: true });
  const pool = yield* poolOf(program);
  const sequence = yield* Tensor.makeKvSequence(pool);
  yield* Tensor.runDecodeProgram(program, parameters, sequence, [1, 2]);
  const run = (tokens, inputs = parameters, from = sequence) =>
    Effect.flip(Tensor.runDecodeProgram(program, inputs, from, tokens));
  for (const wrong of [[], [1, 2, 3]]) assert.equal((yield* run(wrong))._tag, "TensorError");
  yield* run([1], parameters.slice(0, 2));
  assert.equal(yield* Tensor.kvSequenceCursor(sequence), 2);
  yield* Effect.repeat(Tensor.runDecodeProgram(program, parameters, sequence, [1, 2]), { times: 2 });
  const full = yield* run([1, 2]);
  assert.equal(full._tag, "TensorError");
  assert.equal(yield* Tensor.kvSequenceCursor(sequence), 8);

  yield* Tensor.releaseKvSequence(sequence);
  assert.equal((yield* run([1])).backend.reason, "invalid-handle");
  assert.equal((yield* Effect.flip(Tensor.releaseKvSequence(sequence))).backend.reason, "invalid-handle");
  assert.equal((yield* Effect.flip(Tensor.kvSequenceCursor(sequence))).backend.reason, "invalid-handle");
  // Its room is free again.
  const next = yield* Tensor.makeKvSequence(pool);
  yield* Tensor.runDecodeProgram(program, parameters, next, [1, 2]);
});

effectTest("what does not fit together is an error", function* () {
  const parameters = yield* weights;
  const program = yield* compiled(parameters, 2, { lastTokenRow: true });
  const other = yield* Tensor.makeKvPool(2, HEADS, HEAD, 64, BLOCK);
  const stranger = yield* Tensor.makeKvSequence(other);
  assert.equal((yield* Effect.flip(Tensor.runDecodeProgram(program, parameters, stranger, [1])))._tag, "TensorError");
  assert.equal((yield* Effect.flip(Tensor.makeKvSequence({ handle: {} }))).backend.reason, "foreign-handle");
  for (const dtype of ["i64", "u8"]) yield* Effect.flip(Tensor.makeKvPool(1, HEADS, HEAD, 64, BLOCK, dtype));
  for (const size of [0, -1, 1.5]) yield* Effect.flip(Tensor.makeKvPool(1, HEADS, HEAD, size, BLOCK));
  for (const [recurrent, message] of [
    [{ kdaLayers: 2 }, /^makeKvPool: kdaHeads is 0, expected a whole number above 0/],
    [{ kdaLayers: 1, kdaHeads: 1, kdaHeadDim: 2 }, /^makeKvPool: kdaValueDim is 0, expected a whole number above 0/],
    [{ convLayers: 1, convChannels: 2, convKernel: 1 }, /^makeKvPool: convKernel is 1, expected a whole number of at least 2/],
    [{ kdaLayers: 1, kdaHeads: 2 ** 40, kdaHeadDim: 2, kdaValueDim: 2 }, /^makeKvPool: kdaHeads is 1099511627776, expected 1 to/],
    [{ kdaLayers: 1.5 }, /^makeKvPool: kdaLayers is 1.5, expected a whole number of at least 0/],
    [{ sequences: -1 }, /^makeKvPool: sequences is -1, expected a whole number of at least 0/],
    [{ convLayers: 1, convChannels: 2, convKernel: 3, sequences: 0 }, /^makeKvPool: sequences is 0, expected 1 to/],
    [{ convKernel: -1 }, /^makeKvPool: convKernel is -1, expected a whole number of at least 0/],
  ]) {
    assert.match((yield* Effect.flip(Tensor.makeKvPool(1, HEADS, HEAD, 64, BLOCK, "f32", recurrent))).message, message);
  }
  // No attention, so nothing to cache.
  const tokens = yield* Tensor.makeInput(2, yield* ids([0, 0]));
  const plain = yield* Tensor.embedding(tokens, { weight: parameters[0] });
  for (const state of [undefined, null, "state"]) {
    const stateless = yield* Effect.flip(Tensor.compileDecodeProgram([plain], state));
    assert.match(stateless.message, /^compileDecodeProgram: the state is .*, expected an object with maxTokens/);
  }
  const refused = yield* Effect.flip(Tensor.compileDecodeProgram([plain], { ...REQUEST, tokenSlot: 2 }));
  assert.deepEqual([refused.op, refused.backend.phase], ["compileDecodeProgram", "compile"]);
  assert.match(refused.message, /attention/);
  // A decode program is called with sequences, an ordinary one without.
  const service = yield* Runtime.Runtime;
  const bare = yield* Effect.flip(
    service.execute(program.handle, { bindings: parameters, scalars: [], runtimeValues: {} }),
  );
  assert.equal(bare._tag, "BackendError");
});

effectTest("a graph that mixes tokens is refused, also where it was traced for one", function* () {
  const parameters = yield* weights;
  const mixed = {
    sum: (logits) => Tensor.mean(logits, { dims: [1], keepdims: true }),
    softmax: (logits) => Tensor.softmax(logits, { dims: [1] }),
    matmul: (logits) =>
      Effect.gen(function* () {
        const scores = yield* Tensor.matmul(logits, yield* Tensor.transpose(logits, [0, 2, 1]));
        return yield* Tensor.matmul(scores, logits);
      }),
  };
  for (const [name, mix] of Object.entries(mixed)) {
    for (const length of [1, 2, 4]) {
      const slots = [0, 1, 3, 4, 5];
      const inputs = [];
      for (const [at, weight] of parameters.entries()) inputs.push(yield* Tensor.makeInput(slots[at], weight));
      const tokens = yield* Tensor.makeInput(2, yield* ids(Array(length).fill(0)));
      const logits = yield* forward(inputs, tokens);
      const roots = [yield* Tensor.add(logits, yield* mix(logits))];
      const error = yield* Effect.flip(Tensor.compileDecodeProgram(roots, { ...REQUEST, tokenSlot: 2 }));
      assert.deepEqual([error.op, error.backend.phase], ["compileDecodeProgram", "compile"]);
      assert.match(error.message, new RegExp(`^compileDecodeProgram: ${name} brings different tokens together`));
      assert.equal(/was traced for one token/.test(error.message), length === 1);
    }
  }
});

effectTest("what is no token is named, by the function that was called", function* () {
  const parameters = yield* weights;
  const program = yield* compiled(parameters, 2, { lastTokenRow: true });
  const sequence = yield* Tensor.makeKvSequence(yield* poolOf(program));
  const sampling = { seed: 1 };
  for (const token of [2 ** 32, -1, 1.5, NaN]) {
    for (const [op, call] of [
      ["runDecodeProgram", Tensor.runDecodeProgram(program, parameters, sequence, [token])],
      ["runBatchedDecodeProgram", Tensor.runBatchedDecodeProgram(program, parameters, [sequence], [[1, token]])],
      ["runDecodeProgramSampled", Tensor.runDecodeProgramSampled(program, parameters, sequence, [token], sampling)],
      [
        "runBatchedDecodeProgramSampled",
        Tensor.runBatchedDecodeProgramSampled(program, parameters, [sequence], [[token]], [sampling]),
      ],
      ["kvPrefillMatch", Tensor.kvPrefillMatch(sequence, [1, token])],
    ]) {
      const error = yield* Effect.flip(call);
      assert.equal(error.op, op);
      assert.equal(error.message, `${op}: a token is ${token}, expected a whole number from 0 to 2^32 - 1`);
    }
  }
  // The largest id is one, which this vocabulary does not have.
  const beyond = yield* Effect.flip(Tensor.runDecodeProgramSampled(program, parameters, sequence, [2 ** 32 - 1], sampling));
  assert.match(beyond.message, /^runDecodeProgramSampled: embedding: /);
  assert.equal(yield* Tensor.kvSequenceCursor(sequence), 0);
});

for (const kvDtype of ["f16", "bf16", "int8"]) {
  effectTest(`keys and values in ${kvDtype} give nearly the same`, function* () {
    const parameters = yield* weights;
    const text = [3, 1, 4, 1, 5];
    const program = yield* compiled(parameters, 5, { lastTokenRow: true, kvDtype });
    const sequence = yield* Tensor.makeKvSequence(yield* poolOf(program));
    const [logits] = yield* Tensor.runDecodeProgram(program, parameters, sequence, text);
    assertClose((yield* rows(logits)).at(-1), (yield* uncached(parameters, text)).at(-1), 0.05);
  });
}
