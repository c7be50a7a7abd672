// What the fixtures do not say: constructors, both ways to call, dtypes, parts, lists, and values that are particular to here.
import { Runtime, Tensor } from "@lanthorn/effect";
import { Cause, Effect, Exit } from "effect";
import assert from "node:assert/strict";

import { assertClose, assertValues, effectTest, f32, f64, i64, values } from "./support.mjs";

const flip = Effect.flip;

effectTest("constructors give shape, dtype and elements", function* () {
  assert.deepEqual(yield* values(yield* Tensor.zeros([2, 3])), [0, 0, 0, 0, 0, 0]);
  const ones = yield* Tensor.ones([2], { dtype: "f64" });
  assert.equal(ones.dtype, "f64");
  assert.deepEqual(yield* values(yield* Tensor.full([2], 7, { dtype: "i64" })), [7n, 7n]);
  assert.deepEqual(yield* values(yield* Tensor.arange(3)), [0, 1, 2]);
  assert.deepEqual(yield* values(yield* Tensor.arange(1, 8, { step: 3 })), [1, 4, 7]);
  assert.deepEqual(yield* values(yield* Tensor.arange(3, undefined, { dtype: "u32" })), [0, 1, 2]);
  assert.deepEqual(yield* values(yield* Tensor.linspace(0, 1, 5)), [0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(yield* values(yield* Tensor.linspace(3, 9, 1)), [3]);
  assert.deepEqual(yield* values(yield* Tensor.eye(2)), [1, 0, 0, 1]);
  assert.deepEqual((yield* Tensor.constant(4)).shape, []);
  assert.deepEqual(yield* values(yield* Tensor.constant(4, { dtype: "u8" })), [4]);
});

effectTest("like-constructors take shape and dtype", function* () {
  const x = yield* f64([1, 2, 3, 4], [2, 2]);
  for (const [made, expected] of [
    [yield* Tensor.zerosLike(x), 0],
    [yield* Tensor.onesLike(x), 1],
    [yield* Tensor.fullLike(x, 9), 9],
  ]) {
    assert.deepEqual([made.dtype, [...made.shape]], ["f64", [2, 2]]);
    assert.deepEqual(yield* values(made), Array(4).fill(expected));
  }
  const two = yield* Tensor.constantLike(x, 2);
  assert.deepEqual([two.dtype, two.shape.length, two.placement], ["f64", 0, x.placement]);
});

effectTest("random numbers have their distribution", function* () {
  const normal = yield* values(yield* Tensor.randn([10_000], { dtype: "f64" }));
  const mean = normal.reduce((a, b) => a + b, 0) / normal.length;
  const variance = normal.reduce((a, b) => a + (b - mean) ** 2, 0) / normal.length;
  assert.ok(Math.abs(mean) < 0.05 && Math.abs(variance - 1) < 0.1, `${mean} ${variance}`);
  const even = yield* values(yield* Tensor.uniform([10_000], { min: -2, max: 3 }));
  assert.ok(even.every((x) => x >= -2 && x < 3) && Math.min(...even) < -1.9 && Math.max(...even) > 2.9);
  for (const dtype of ["f16", "bf16"]) assert.equal((yield* Tensor.randn([3], { dtype })).dtype, dtype);
});

effectTest("typed arrays tell the dtype, and are copied", function* () {
  for (const [data, dtype] of [
    [new Float32Array([1]), "f32"],
    [new Float64Array([1]), "f64"],
    [new BigInt64Array([1n]), "i64"],
    [new Uint8Array([1]), "u8"],
    [new Uint32Array([1]), "u32"],
  ]) {
    const tensor = yield* Tensor.fromTypedArray(data);
    assert.equal(tensor.dtype, dtype);
    const back = yield* Tensor.toTypedArray(tensor);
    assert.ok(back instanceof data.constructor);
    assert.deepEqual(back, data);
  }
  if (globalThis.Float16Array !== undefined) {
    const half = yield* Tensor.fromTypedArray(new globalThis.Float16Array([1.5, -2]));
    assert.equal(half.dtype, "f16");
    assert.deepEqual(yield* Tensor.toTypedArray(half), new Float32Array([1.5, -2]));
  }
  const data = new Float32Array([1, 2]);
  const tensor = yield* Tensor.fromTypedArray(data.subarray(1));
  data[1] = 5;
  assert.deepEqual(yield* values(tensor), [2]);
  const wrong = yield* flip(Tensor.fromTypedArray(data, [3]));
  assert.match(wrong.message, /fromTypedArray: the shape \[3\] has 3 elements, and the data 2/);
  const other = yield* flip(Tensor.fromTypedArray(new Int16Array(2)));
  assert.match(other.message, /Int16Array, expected a Float32Array/);
});

effectTest("half types are read as Float32Array, and i64 is no list of numbers", function* () {
  const x = yield* f32([1.5, -2, 3.140625, Infinity]);
  for (const dtype of ["f16", "bf16"]) {
    const half = yield* Tensor.cast(x, dtype);
    assert.equal(half.dtype, dtype);
    const elements = yield* Tensor.toTypedArray(half);
    assert.ok(elements instanceof Float32Array);
    assert.deepEqual([...elements], [1.5, -2, 3.140625, Infinity]);
    assert.deepEqual(yield* Tensor.toNumberArray(half), [1.5, -2, 3.140625, Infinity]);
  }
  const error = yield* flip(Tensor.toNumberArray(yield* i64([1])));
  assert.equal(error._tag, "TensorError");
  assert.match(error.message, /i64/);
});

effectTest("data comes first, or last in a pipe", function* () {
  const x = yield* f64([4, 5, 6, 7], [2, 2]);
  const y = yield* f64([2, 3]);
  const pairs = [
    [Tensor.sub(x, y), x.pipe(Tensor.sub(y))],
    [Tensor.matmul(x, y), x.pipe(Tensor.matmul(y))],
    [Tensor.sum(x, { dims: [0] }), x.pipe(Tensor.sum({ dims: [0] }))],
    [Tensor.sum(x), x.pipe(Tensor.sum())],
    [Tensor.pow(x, 2), x.pipe(Tensor.pow(2))],
    [Tensor.cast(x, "f32"), x.pipe(Tensor.cast("f32"))],
    [Tensor.reshape(x, [4]), x.pipe(Tensor.reshape([4]))],
    [Tensor.transpose(x, [1, 0]), x.pipe(Tensor.transpose([1, 0]))],
    [Tensor.slice(x, { start: [1] }), x.pipe(Tensor.slice({ start: [1] }))],
    [Tensor.unsqueeze(x, 0), x.pipe(Tensor.unsqueeze(0))],
    [Tensor.softmax(x), x.pipe(Tensor.softmax())],
    [Tensor.clamp(x, { max: 5 }), x.pipe(Tensor.clamp({ max: 5 }))],
    [Tensor.argmax(x, 1), x.pipe(Tensor.argmax(1))],
    [Tensor.norm(x, { ord: 1 }), x.pipe(Tensor.norm({ ord: 1 }))],
    [Tensor.triu(x), x.pipe(Tensor.triu())],
  ];
  for (const [first, last] of pairs) assert.deepEqual(yield* values(yield* first), yield* values(yield* last));

  const index = yield* i64([1]);
  assert.deepEqual(
    yield* values(yield* x.pipe(Tensor.take(index, { dim: 1 }))),
    yield* values(yield* Tensor.take(x, index, { dim: 1 })),
  );
  const mask = yield* Tensor.gt(x, yield* Tensor.constantLike(x, 5));
  const zero = yield* Tensor.zerosLike(x);
  assert.equal(mask.dtype, "u8");
  assert.deepEqual(yield* values(yield* mask.pipe(Tensor.where(x, zero))), [0, 0, 6, 7]);
  assert.deepEqual(yield* values(yield* Tensor.where(mask, x, zero)), [0, 0, 6, 7]);
  const image = yield* f64([1, 2, 3, 4], [1, 1, 4]);
  const kernel = yield* f64([1, 1], [1, 1, 2]);
  assert.deepEqual(yield* values(yield* image.pipe(Tensor.conv1d(kernel, { stride: 2 }))), [3, 7]);
});

effectTest("two dtypes are an error that names both, but for a float of rank 0", function* () {
  const x = yield* f32([1, 2]);
  for (const make of [Tensor.add, Tensor.maximum, Tensor.eq, Tensor.matmul, Tensor.remainder]) {
    const error = yield* flip(make(x, yield* f64([1, 2])));
    assert.equal(error._tag, "TensorError");
    assert.equal(error.backend.reason, "unsupported-dtype");
    assert.equal(error.backend.phase, "graph");
    assert.match(error.message, /f32/);
    assert.match(error.message, /f64/);
  }
  assert.match((yield* flip(Tensor.where(yield* Tensor.gt(x, x), x, yield* f64([1])))).message, /dtype/);
  assert.match((yield* flip(Tensor.add(x, yield* i64([1, 2])))).message, /f32.*i64|i64.*f32/);
  assert.match((yield* flip(Tensor.concat([x, yield* f64([1])]))).message, /f32.*f64|f64.*f32/);
  // A scalar of floats follows, and does not lead.
  const half = yield* Tensor.cast(x, "bf16");
  const scaled = yield* Tensor.mul(half, yield* Tensor.constant(2));
  assert.equal(scaled.dtype, "bf16");
  assert.deepEqual(yield* values(scaled), [2, 4]);
  assert.equal((yield* Tensor.mul(yield* Tensor.constant(2, { dtype: "f64" }), half)).dtype, "bf16");
  // But no integer, and not between two scalars.
  yield* flip(Tensor.add(x, yield* Tensor.constant(1, { dtype: "i64" })));
  yield* flip(Tensor.add(yield* Tensor.constant(1), yield* Tensor.constant(1, { dtype: "f64" })));
});

effectTest("results have dtypes of the vocabulary alone", function* () {
  const { capabilities } = yield* Runtime.Runtime;
  const x = yield* f64([1, 0, 3, 4], [2, 2]);
  const flags = yield* Tensor.lt(x, yield* Tensor.constantLike(x, 2));
  const made = {
    u8: [
      flags,
      yield* Tensor.logicalNot(x),
      yield* Tensor.logicalAnd(flags, flags),
      yield* Tensor.logicalOr(flags, x),
      yield* Tensor.any(x),
      yield* Tensor.all(flags, { dims: [0] }),
    ],
    i64: [yield* Tensor.argmax(x, 0), yield* Tensor.argmin(x, -1)],
  };
  for (const [dtype, tensors] of Object.entries(made)) {
    for (const tensor of tensors) {
      assert.equal(tensor.dtype, dtype);
      assert.ok(capabilities.dtypes.includes(tensor.dtype));
    }
  }
  assert.deepEqual(yield* values(flags), [1, 1, 0, 0]);
  assert.deepEqual(yield* values(yield* Tensor.logicalOr(x, flags)), [1, 1, 1, 1]);
  assert.deepEqual(yield* values(yield* Tensor.logicalOr(flags, yield* Tensor.zerosLike(x))), [1, 1, 0, 0]);
  assert.deepEqual(yield* values(yield* Tensor.logicalAnd(x, flags)), [1, 0, 0, 0]);
  assert.deepEqual(yield* values(yield* Tensor.all(flags, { dims: [1], keepdims: true })), [1, 0]);
  assert.deepEqual(yield* values(yield* Tensor.add(flags, flags)), [2, 2, 0, 0]);
});

effectTest("halves are rounded away from zero", function* () {
  const x = yield* f64([
    -2.5,
    -1.5,
    -0.5,
    -0.2,
    0.49999999999999994,
    0.5,
    1.5,
    2.5,
    2.7,
    Infinity,
    -Infinity,
    NaN,
    2 ** 52 + 1,
  ]);
  const expected = [-3, -2, -1, -0, 0, 1, 2, 3, 3, Infinity, -Infinity, NaN, 2 ** 52 + 1];
  yield* assertValues(yield* Tensor.round(x), expected, 0);
});

effectTest("softmax over several axes sums to 1 over them", function* () {
  const x = yield* f64([1, 2, 3, 4, 5, 6, 7, 8], [2, 2, 2]);
  const y = yield* Tensor.softmax(x, { dims: [0, 2] });
  assert.deepEqual([...y.shape], [2, 2, 2]);
  yield* assertValues(yield* Tensor.sum(y, { dims: [0, 2] }), [1, 1], 1e-12);
  yield* assertValues(yield* Tensor.exp(yield* Tensor.logSoftmax(x, { dims: [0, 2] })), yield* values(y), 1e-12);
  yield* assertValues(yield* Tensor.sum(yield* Tensor.softmax(x), { dims: [-1] }), [1, 1, 1, 1], 1e-12);
});

effectTest("parts of a tensor", function* () {
  const x = yield* Tensor.arange(7, undefined, { dtype: "f64" });
  const shapes = (parts) => parts.map((part) => part.shape[0]);
  const thirds = yield* Tensor.split(x, 3);
  assert.deepEqual(shapes(thirds), [3, 3, 1]);
  assert.deepEqual(yield* values(thirds[1]), [3, 4, 5]);
  assert.deepEqual(shapes(yield* Tensor.split(x, [2, 0, 5])), [2, 0, 5]);
  assert.deepEqual(shapes(yield* Tensor.chunk(x, 3)), [3, 3, 1]);
  assert.deepEqual(shapes(yield* Tensor.chunk(x, 10)), Array(7).fill(1));
  const matrix = yield* Tensor.reshape(yield* Tensor.arange(6), [2, 3]);
  const columns = yield* Tensor.split(matrix, 2, { dim: -1 });
  assert.deepEqual(
    columns.map((part) => [...part.shape]),
    [
      [2, 2],
      [2, 1],
    ],
  );
  assert.deepEqual(yield* values(columns[1]), [2, 5]);
  for (const wrong of [
    Tensor.split(x, 0),
    Tensor.split(x, [3, 3]),
    Tensor.split(x, 2, { dim: 1 }),
    Tensor.chunk(x, 0.5),
  ]) {
    assert.equal((yield* flip(wrong))._tag, "TensorError");
  }
  const sliced = yield* Tensor.slice(matrix, { start: [0, 1], end: [-1, 3] });
  assert.deepEqual(
    [[...sliced.shape], yield* values(sliced)],
    [
      [1, 2],
      [1, 2],
    ],
  );
  assert.deepEqual(yield* values(yield* Tensor.slice(x, { stride: [3] })), [0, 3, 6]);
  assert.deepEqual(yield* values(yield* Tensor.slice(x, {})), [0, 1, 2, 3, 4, 5, 6]);
  assert.match((yield* flip(Tensor.slice(x, { start: [0, 0] }))).message, /names? 2 axes/);
  assert.deepEqual(yield* values(yield* Tensor.flip(x, [])), [0, 1, 2, 3, 4, 5, 6]);
});

effectTest("linear has a weight of inputs by outputs, linearRows of outputs by inputs", function* () {
  const x = yield* f64([1, 2, 3], [1, 3]);
  const weight = yield* f64([1, 2, 3, 4, 5, 6], [3, 2]);
  const bias = yield* f64([10, 20]);
  assert.deepEqual(yield* values(yield* Tensor.linear(x, weight, bias)), [32, 48]);
  const rows = yield* Tensor.transpose(weight, [1, 0]);
  assert.deepEqual(yield* values(yield* Tensor.linearRows(x, rows, bias)), [32, 48]);
  assert.deepEqual(yield* values(yield* Tensor.linearRows(x, rows)), [22, 28]);
});

effectTest("indexes are i64 or u32", function* () {
  const x = yield* f64([1, 2, 3, 4, 5, 6], [3, 2]);
  for (const make of [
    (data, shape) => i64(data, shape),
    (data, shape) => Tensor.fromTypedArray(Uint32Array.from(data), shape),
  ]) {
    assert.deepEqual(yield* values(yield* Tensor.take(x, yield* make([2, 0]))), [5, 6, 1, 2]);
    assert.deepEqual(
      yield* values(yield* Tensor.gather(x, yield* make([1, 0, 0, 1], [2, 2]), { dim: 1 })),
      [2, 1, 3, 4],
    );
    const base = yield* Tensor.zeros([3], { dtype: "f64" });
    const added = yield* Tensor.scatterAdd(base, yield* make([1, 1, 2]), yield* f64([10, 20, 30]));
    assert.deepEqual(yield* values(added), [0, 30, 30]);
    assert.deepEqual(yield* values(yield* Tensor.embedding(yield* make([1, 1]), { weight: x })), [3, 4, 3, 4]);
    assert.deepEqual(yield* values(yield* Tensor.oneHot(yield* make([0, 2]), 3)), [1, 0, 0, 0, 0, 1]);
  }
  const outside = yield* flip(Effect.flatMap(Tensor.take(x, yield* i64([3])), values));
  assert.equal(outside.backend.reason, "execution-failed");
});

effectTest("attention: causal and windowed", function* () {
  // Equal scores: a token is the mean of those that it sees.
  const q = yield* Tensor.zeros([1, 1, 4, 2], { dtype: "f64" });
  const v = yield* f64([1, 2, 3, 4], [1, 1, 4, 1]);
  const at = (options) => Effect.flatMap(Tensor.scaledDotProductAttention(q, q, v, options), values);
  assertClose(yield* at(), [2.5, 2.5, 2.5, 2.5], 1e-12);
  assertClose(yield* at({ causal: true }), [1, 1.5, 2, 2.5], 1e-12);
  assertClose(yield* at({ causal: true, window: 2 }), [1, 1.5, 2.5, 3.5], 1e-12);
  assertClose(yield* at({ causal: true, window: 1 }), [1, 2, 3, 4], 1e-12);
  yield* flip(at({ window: 0 }));
});

effectTest("positions: learned and rotary", function* () {
  const table = yield* f64([1, 2, 3, 4, 5, 6], [3, 2]);
  assert.deepEqual(yield* values(yield* Tensor.positionEmbedding(table, 2)), [1, 2, 3, 4]);
  assert.match((yield* flip(Tensor.positionEmbedding(table, 4))).message, /3 rows for 4 positions/);
  const x = yield* f64([1, 0, 1, 0, 1, 0, 1, 0], [1, 2, 4]);
  const [a, b] = [Math.cos(1), Math.sin(1)];
  // Position 0 stays; at 1 the first pair turns by 1, the second by 1 / 100.
  const [c, d] = [Math.cos(0.01), Math.sin(0.01)];
  yield* assertValues(yield* Tensor.rotaryEmbedding(x, 2, 10000), [1, 0, 1, 0, a - b, 0, b + a, 0], 1e-12);
  const pairs = yield* Tensor.rotaryEmbedding(x, 2, 10000, { layout: "InterleavedPairs" });
  yield* assertValues(pairs, [1, 0, 1, 0, a, b, c, d], 1e-12);
  assert.match((yield* flip(Tensor.rotaryEmbedding(x, 3, 10000))).message, /of size 2, and there are 3 positions/);
});

effectTest("dropout keeps the mean, and p is checked", function* () {
  const x = yield* Tensor.ones([10_000]);
  const kept = yield* values(yield* Tensor.dropout(x, { p: 0.25 }));
  const zeros = kept.filter((value) => value === 0).length;
  assert.ok(zeros > 2200 && zeros < 2800, `${zeros}`);
  assertClose([...new Set(kept)].sort(), [0, 4 / 3], 1e-6);
  assert.deepEqual(yield* values(yield* Tensor.dropout(yield* f64([1, 2]), { p: 0 })), [1, 2]);
  for (const p of [-0.1, 1, 1.5, NaN]) assert.match((yield* flip(Tensor.dropout(x, { p }))).message, /p must be/);
});

effectTest("tensors without elements", function* () {
  const none = yield* Tensor.zeros([0, 3]);
  assert.deepEqual(yield* values(none), []);
  assert.deepEqual(yield* values(yield* Tensor.sum(none)), [0]);
  assert.deepEqual(yield* values(yield* Tensor.sum(none, { dims: [0] })), [0, 0, 0]);
  const product = yield* Tensor.matmul(none, yield* Tensor.ones([3, 2]));
  assert.deepEqual([...product.shape], [0, 2]);
  const joined = yield* Tensor.concat([none, yield* Tensor.ones([1, 3])]);
  assert.deepEqual(yield* values(joined), [1, 1, 1]);
  assert.deepEqual(yield* values(yield* Tensor.fromTypedArray(new Float32Array(0))), []);
  assert.deepEqual(yield* values(yield* Tensor.matmul(yield* Tensor.ones([1, 0]), yield* Tensor.ones([0, 2]))), [0, 0]);
});

effectTest("errors name the operation, what was found and what would be right", function* () {
  const x = yield* Tensor.ones([2, 3]);
  const error = yield* flip(Tensor.matmul(x, x));
  assert.equal(error.op, "matmul");
  assert.match(error.message, /\[2, 3\]/);
  const { reason, backend, operation, phase } = error.backend;
  assert.deepEqual([reason, backend, operation, phase], ["unsupported-layout", "cpu", "matmul", "graph"]);
  for (const wrong of [
    Tensor.reshape(x, [4, 2]),
    Tensor.sum(x, { dims: [2] }),
    Tensor.transpose(x, [0, 0]),
    Tensor.broadcastTo(x, [3, 3]),
    Tensor.zeros([-1]),
    Tensor.arange(0, 1, { step: 0 }),
    Tensor.full([1], 0.5, { dtype: "i64" }),
  ]) {
    assert.equal((yield* flip(wrong))._tag, "TensorError");
  }
  const singular = yield* f64([1, 2, 2, 4], [2, 2]);
  assert.match((yield* flip(Effect.flatMap(Tensor.inverse(singular), values))).message, /singular/);
});

effectTest("arguments of other types than the signatures say are errors, not defects", function* () {
  const x = yield* Tensor.ones([2, 3]);
  for (const wrong of [
    Tensor.zeros("abc"),
    Tensor.zeros(["2"]),
    Tensor.zeros([0.5]),
    Tensor.zeros([2], { dtype: "f31" }),
    Tensor.full([2], "1"),
    Tensor.randn([2], { dtype: "i64" }),
    Tensor.randn(null),
    Tensor.reshape(x, null),
    Tensor.transpose(x, [0, undefined]),
    Tensor.sum(x, { dims: ["0"] }),
    Tensor.sum(x, { keepdims: "yes" }),
    Tensor.cast(x, "float"),
    Tensor.pow(x, "2"),
    Tensor.elu(x, { alpha: "1" }),
    Tensor.add(x, 1),
    Tensor.concat([x, 3]),
    Tensor.makeInput(-1, x),
    Tensor.makeScalarInput(0, "u9"),
  ]) {
    const exit = yield* Effect.exit(wrong);
    assert.ok(Exit.isFailure(exit) && Cause.hasFails(exit.cause), String(exit));
  }
});

effectTest("only the dtypes of programs are dtypes, where one is asked for", function* () {
  const x = yield* f32([1, 2, 3, 4], [2, 2]);
  const of = [
    (dtype) => Tensor.cast(x, dtype),
    (dtype) => Tensor.zeros([2], { dtype }),
    (dtype) => Tensor.full([2], 1, { dtype }),
    (dtype) => Tensor.randn([2], { dtype }),
    (dtype) => Tensor.uniform([2], { dtype }),
    (dtype) => Tensor.arange(0, 3, { dtype }),
    (dtype) => Tensor.eye(2, { dtype }),
    (dtype) => Tensor.makeScalarInput(0, dtype),
  ];
  // The engine has all of these but the last ones.
  for (const dtype of ["f8e4m3", "i8", "i16", "i32", "u16", "u64", "bool", "float32", "f9", 3, {}]) {
    for (const make of of) {
      const error = yield* Effect.flip(make(dtype));
      assert.equal(error.backend.reason, "unsupported-dtype", `${error.message}`);
      assert.match(error.message, /expected one of f32, f64, f16, bf16, i64, u8, u32$/);
    }
  }
});

effectTest("a graph is deep without harm", function* () {
  let x = yield* Tensor.zeros([1]);
  const one = yield* Tensor.ones([1]);
  for (let at = 0; at < 5000; at++) x = yield* Tensor.add(x, one);
  assert.deepEqual(yield* values(x), [5000]);
});
