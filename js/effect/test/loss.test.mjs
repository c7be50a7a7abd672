// What the fixtures do not say of losses: broadcasting, both ways to call, ignored targets, dtypes.
import { Loss, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";
import assert from "node:assert/strict";

import { assertValues, effectTest, f64, i64, values } from "./support.mjs";

effectTest("reductions are the mean by default, the sum, or none", function* () {
  const [x, y] = [yield* f64([1, 2, 4]), yield* f64([1, 0, 1])];
  yield* assertValues(yield* Loss.mse(x, y), [13 / 3]);
  yield* assertValues(yield* Loss.mse(x, y, { reduction: "sum" }), [13]);
  const none = yield* Loss.mse(x, y, { reduction: "none" });
  assert.deepEqual([[...none.shape], yield* values(none)], [[3], [0, 4, 9]]);
  yield* assertValues(yield* Loss.l1(x, y), [5 / 3]);
  yield* assertValues(yield* Loss.huber(x, y), [4 / 3]);
  yield* assertValues(yield* Loss.huber(x, y, { delta: 0.5, reduction: "sum" }), [0.5 * 1.75 + 0.5 * 2.75]);
});

effectTest("data comes first, or last in a pipe", function* () {
  const [x, y] = [yield* f64([0.2, 0.6]), yield* f64([1, 0])];
  for (const name of ["mse", "l1", "huber", "binaryCrossEntropy", "klDiv", "hinge"]) {
    const piped = yield* x.pipe(Loss[name](y, { reduction: "none" }));
    assert.deepEqual(yield* values(piped), yield* values(yield* Loss[name](x, y, { reduction: "none" })));
    assert.deepEqual(yield* values(yield* x.pipe(Loss[name](y))), yield* values(yield* Loss[name](x, y)));
  }
});

effectTest("predictions and targets broadcast", function* () {
  const x = yield* f64([1, 2, 4]);
  const zero = yield* Tensor.constantLike(x, 0);
  assert.deepEqual(yield* values(yield* Loss.mse(x, zero, { reduction: "none" })), [1, 4, 16]);
  assert.deepEqual(yield* values(yield* Loss.mse(zero, x, { reduction: "sum" })), [21]);
  const column = yield* f64([0, 1], [2, 1]);
  assert.deepEqual((yield* Loss.l1(x, column, { reduction: "none" })).shape, [2, 3]);
  assert.equal((yield* Effect.flip(Loss.mse(x, yield* f64([1, 2]))))._tag, "TensorError");
  assert.equal((yield* Effect.flip(Loss.mse(x, yield* i64([1, 2, 3])))).backend.reason, "unsupported-dtype");
});

const crossEntropy = (logits, target) => Math.log(logits.reduce((sum, x) => sum + Math.exp(x), 0)) - logits[target];

effectTest("cross-entropy of classes, of ignored ones, and of logits with further axes", function* () {
  const rows = [
    [2, 1, 0],
    [0, 3, 1],
  ];
  const logits = yield* f64(rows.flat(), [2, 3]);
  const terms = [crossEntropy(rows[0], 0), crossEntropy(rows[1], 1)];
  yield* assertValues(yield* Loss.crossEntropy(logits, yield* i64([0, 1])), [(terms[0] + terms[1]) / 2]);
  yield* assertValues(yield* Loss.crossEntropy(logits, yield* i64([0, 1]), { reduction: "none" }), terms);
  const u32 = yield* Tensor.fromTypedArray(new Uint32Array([0, 1]));
  yield* assertValues(yield* Loss.crossEntropy(logits, u32), [(terms[0] + terms[1]) / 2]);
  yield* assertValues(yield* Tensor.crossEntropy(logits, { target: yield* i64([-100, 1]) }), [terms[1]]);
  yield* assertValues(yield* logits.pipe(Tensor.crossEntropy({ target: yield* i64([0, 2]), ignoreIndex: 2 })), [
    terms[0],
  ]);
  const further = yield* Tensor.reshape(logits, [1, 2, 3]);
  yield* assertValues(yield* Loss.crossEntropy(further, yield* i64([0, 1], [1, 2]), { reduction: "sum" }), [
    terms[0] + terms[1],
  ]);
  const logProbabilities = yield* Tensor.logSoftmax(logits);
  yield* assertValues(yield* Loss.nll(logProbabilities, yield* i64([0, 1])), [(terms[0] + terms[1]) / 2]);
});

effectTest("targets of classes are integers", function* () {
  const logits = yield* f64([1, 2, 3], [1, 3]);
  for (const make of [Loss.crossEntropy, Loss.nll, (x, target) => Tensor.crossEntropy(x, { target })]) {
    assert.match((yield* Effect.flip(make(logits, yield* f64([0])))).message, /f64, expected i64 or u32/);
  }
  const outside = yield* Effect.flip(Effect.flatMap(Loss.crossEntropy(logits, yield* i64([3])), values));
  assert.equal(outside.backend.reason, "execution-failed");
});

effectTest("binary cross-entropy of logits is exact for large ones", function* () {
  const logits = yield* f64([800, -800, 2]);
  const target = yield* f64([1, 1, 0]);
  const expected = [0, 800, Math.log1p(Math.exp(2))];
  yield* assertValues(
    yield* Loss.binaryCrossEntropy(logits, target, { fromLogits: true, reduction: "none" }),
    expected,
  );
});
