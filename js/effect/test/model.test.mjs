// Models: their layers against NumPy, names, composition, files and programs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { Gradient, Model, Runtime, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";

import { allValues, assertClose, assertFault, effect, f32, fixedParams, folder, ids, values, xorModel } from "./learning.mjs";

const CASES = JSON.parse(readFileSync(new URL("model-cases.json", import.meta.url), "utf8"));
const TYPED = { f32: Float32Array, u32: Uint32Array };
const tensor = ({ shape, dtype, data }) => Tensor.fromTypedArray(TYPED[dtype].from(data), shape);

for (const { layer, arguments: given, params, input, output } of CASES) {
  effect(`${layer} ${JSON.stringify(given)} gives what NumPy gives`, function* () {
    const model = yield* given === null ? Model[layer] : Model[layer](...given);
    const tensors = yield* Effect.forEach(params, tensor);
    assert.deepEqual(model.parameters.map(({ shape }) => shape), params.map(({ shape }) => shape));
    const x = yield* tensor(input);
    const lazy = yield* model.forward(tensors, x);
    assert.deepEqual(lazy.shape, output.shape);
    assertClose(yield* values(lazy), output.data, 2e-6);
    assertClose(yield* values(yield* model.execute(tensors, x)), output.data, 2e-6);
  });
}

effect("parameters are named after their layers", function* () {
  const names = (model) => Effect.map(model, ({ names }) => names);
  assert.deepEqual((yield* xorModel).names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
  assert.deepEqual(yield* names(Model.embedding("e", 3, 2)), ["e.weight"]);
  assert.deepEqual(yield* names(Model.positionEmbedding("p", 3, 2)), ["p.weight"]);
  assert.deepEqual(yield* names(Model.conv2d("c", 2, 4, 3)), ["c.weight", "c.bias"]);
  assert.deepEqual(yield* names(Model.layerNorm("n", 4)), ["n.weight", "n.bias"]);
  const attention = ["a.qkv.weight", "a.qkv.bias", "a.wo.weight", "a.wo.bias"];
  assert.deepEqual(yield* names(Model.multiHeadAttention("a", 8, 2)), attention);
  assert.deepEqual(yield* names(Model.tanh), []);
});

effect("first values are of the shapes that are told, and drawn anew", function* () {
  const model = yield* Model.chain(
    yield* Model.conv1d("c", 4, 100, 25),
    yield* Model.flatten(),
    yield* Model.linear("l", 100, 100),
    yield* Model.layerNorm("n", 100),
  );
  const [first, second] = [yield* Tensor.compute(yield* model.init), yield* Tensor.compute(yield* model.init)];
  assert.deepEqual(first.map(({ shape }) => shape), model.parameters.map(({ shape }) => shape));
  assert.notDeepEqual(yield* values(first[0]), yield* values(second[0]));
  const [conv, convBias, weight, bias, scale, shift] = yield* allValues(first);
  for (const drawn of [conv, weight]) {
    const mean = drawn.reduce((sum, a) => sum + a, 0) / drawn.length;
    const variance = drawn.reduce((sum, a) => sum + a * a, 0) / drawn.length;
    assert.ok(Math.abs(mean) < 0.006, `${mean}`);
    assert.ok(Math.abs(variance - 0.01) < 1e-3, `${variance}`);
  }
  assert.ok([...convBias, ...bias, ...shift].every((a) => a === 0));
  assert.ok(scale.every((a) => a === 1));
  const [padded] = yield* Tensor.compute(yield* (yield* Model.embedding("e", 50, 50, { paddingIndex: 1 })).init);
  const rows = yield* values(padded);
  assert.ok(rows.slice(50, 100).every((a) => a === 0));
  const rest = [...rows.slice(0, 50), ...rows.slice(100)];
  assert.ok(Math.abs(rest.reduce((sum, a) => sum + a * a, 0) / rest.length - 1) < 0.2);
});

effect("the row for padding gets no gradient, others get theirs", function* () {
  const model = yield* Model.embedding("e", 3, 2, { paddingIndex: 1 });
  const params = yield* fixedParams(model);
  const x = yield* Tensor.fromTypedArray(BigInt64Array.of(0n, 1n, 0n, 2n), [4]);
  const [grad] = yield* Gradient.grad(yield* Tensor.sum(yield* model.forward(params, x)), params);
  assert.deepEqual(yield* values(grad), [2, 2, 0, 0, 1, 1]);
});

effect("dropout drops a share and scales the rest", function* () {
  const model = yield* Model.dropout({ p: 0.25 });
  const out = yield* values(yield* model.execute([], yield* Tensor.ones([10_000])));
  assert.ok(out.every((a) => a === 0 || Math.abs(a - 4 / 3) < 1e-6));
  assert.ok(Math.abs(out.filter((a) => a === 0).length - 2500) < 250);
});

effect("a chain is one model after the other, in values and gradients", function* () {
  const model = yield* xorModel;
  const params = yield* fixedParams(model);
  const [w1, b1, w2, b2] = params;
  const x = yield* f32([0, 0, 0, 1, 1, 0, 1, 1], [4, 2]);
  const hidden = yield* Tensor.tanh(yield* Tensor.add(yield* Tensor.matmul(x, w1), b1));
  const byHand = yield* Tensor.sigmoid(yield* Tensor.add(yield* Tensor.matmul(hidden, w2), b2));
  const output = yield* model.forward(params, x);
  assertClose(yield* values(output), yield* values(byHand));
  const grads = yield* allValues(yield* Gradient.grad(yield* Tensor.sum(output), params));
  const expected = yield* allValues(yield* Gradient.grad(yield* Tensor.sum(byHand), params));
  grads.forEach((grad, at) => assertClose(grad, expected[at]));
});

effect("add, merge, residual, mapInput and checkpoint put models together", function* () {
  const [a, b, c] = [yield* Model.linear("a", 2, 2), yield* Model.linear("b", 2, 2), yield* Model.linear("c", 2, 2)];
  const x = yield* f32([0, 1, 1, 0, 2, -1], [3, 2]);
  const all = yield* Model.merge([a, b, c], (x, y, z) => Effect.flatMap(Tensor.mul(x, y), (product) => Tensor.sub(product, z)));
  const params = yield* fixedParams(all);
  const parts = [a, b, c].map((model, at) => model.forward(params.slice(2 * at, 2 * at + 2), x));
  const [ya, yb, yc] = yield* allValues(yield* Effect.all(parts));
  assertClose(yield* values(yield* all.forward(params, x)), ya.map((value, at) => value * yb[at] - yc[at]));
  const sum = yield* Model.add(a, b, c);
  assertClose(yield* values(yield* sum.forward(params, x)), ya.map((value, at) => value + yb[at] + yc[at]));
  assert.deepEqual(sum.names, all.names);
  const own = params.slice(0, 2);
  const xs = yield* values(x);
  assertClose(yield* values(yield* (yield* Model.residual(a)).forward(own, x)), ya.map((value, at) => value + xs[at]));
  const doubled = yield* Model.mapInput(a, (input) => Tensor.add(input, input));
  assertClose(yield* values(yield* doubled.forward(own, x)), yield* values(yield* a.forward(own, yield* Tensor.add(x, x))));
});

effect("a checkpointed model has the same values and gradients", function* () {
  const block = yield* Model.chain(yield* Model.linear("fc", 2, 8), yield* Model.tanh);
  const head = yield* Model.linear("head", 8, 1);
  const plain = yield* Model.chain(block, head);
  const kept = yield* Model.chain(yield* Model.checkpoint(yield* Model.chain(block, yield* Model.relu)), head);
  const relu = yield* Model.chain(block, yield* Model.relu, head);
  assert.deepEqual(kept.names, plain.names);
  const params = yield* fixedParams(plain);
  const x = yield* f32([0, 1, 1, 0, 1, 1, 0, 0.5], [4, 2]);
  const loss = (model) => Effect.flatMap(model.forward(params, x), Tensor.sum);
  assertClose(yield* values(yield* loss(kept)), yield* values(yield* loss(relu)));
  const grads = yield* allValues(yield* Gradient.grad(yield* loss(kept), params));
  const expected = yield* allValues(yield* Gradient.grad(yield* loss(relu), params));
  grads.forEach((grad, at) => assertClose(grad, expected[at]));
});

effect("a model of one's own", function* () {
  const scale = yield* Model.define({
    parameters: [{ name: "scale", shape: [2] }],
    init: Effect.map(Tensor.full([2], 3), (scale) => [scale]),
    forward: ([scale], input) => Tensor.mul(input, scale),
  });
  const model = yield* Model.chain(scale, yield* Model.relu);
  const [output] = yield* Tensor.compute([yield* model.forward(yield* model.init, yield* f32([1, -1]))]);
  assert.deepEqual(yield* values(output), [3, 0]);
  const bare = yield* Model.define({ parameters: [{ name: "w", shape: [1] }], forward: ([w], x) => Tensor.add(x, w) });
  assertFault(yield* Effect.flip(bare.init), "ModelError", /defines no first values of \[w\]/);
  assertFault(yield* Effect.flip((yield* Model.residual(bare)).init), "ModelError", /defines no first values/);
});

effect("execute compiles once for each signature, and forgets on clear", function* () {
  const model = yield* xorModel;
  const params = yield* fixedParams(model);
  assert.deepEqual(yield* model.stats, { cached: 0, compiled: 0 });
  const small = yield* f32([0, 1], [1, 2]);
  const outputs = yield* Effect.all([1, 2, 3].map(() => model.execute(params, small)), { concurrency: "unbounded" });
  const [first, ...others] = yield* allValues(outputs);
  for (const other of others) assert.deepEqual(other, first);
  assert.deepEqual(yield* model.stats, { cached: 1, compiled: 1 });
  yield* model.execute(params, yield* f32([0, 1, 1, 1], [2, 2]));
  assert.deepEqual(yield* model.stats, { cached: 2, compiled: 2 });
  yield* model.clear;
  assert.deepEqual(yield* model.stats, { cached: 0, compiled: 2 });
  assert.deepEqual(yield* values(yield* model.execute(params, small)), first);
});

effect("parameters go to a file and come back", function* () {
  const file = join(folder(), "model.safetensors");
  const model = yield* xorModel;
  const params = yield* fixedParams(model);
  yield* Model.save(model, params, file);
  const loaded = yield* Model.load(model, file);
  assert.deepEqual(yield* allValues(loaded), yield* allValues(params));
  assert.deepEqual(Object.keys(yield* Tensor.load(file)).sort(), [...model.names].sort());
  const part = yield* Model.load(yield* Model.linear("fc2", 8, 1), file);
  assert.deepEqual(yield* allValues(part), yield* allValues(params.slice(2)));
  const lacking = yield* Model.chain(model, yield* Model.linear("fc3", 1, 1));
  assertFault(yield* Effect.flip(Model.load(lacking, file)), "ModelError", /lacks fc3.weight, fc3.bias/);
  assertFault(yield* Effect.flip(Model.save(model, params.slice(1), file)), "ModelError", /4 parameters, got 3/);
});

effect("a file of other shapes is refused by file, parameter and both shapes, and leaves nothing behind", function* () {
  const { extensions } = yield* Runtime.Runtime;
  const bytes = extensions.diagnostics.externalMemoryBytes;
  const file = join(folder(), "shapes.safetensors");
  const model = yield* Model.chain(yield* Model.linear("l", 2, 3), yield* Model.embedding("e", 10, 4));
  yield* Model.save(model, yield* model.init, file);
  const refused = [
    [Model.linear("l", 3, 2), "l.weight", "[2,3]", "[3,2]"],
    [Model.linear("l", 2, 4), "l.weight", "[2,3]", "[2,4]"],
    // Of as many elements, and of fewer rows, with which it would compute.
    [Model.embedding("e", 20, 2), "e.weight", "[10,4]", "[20,2]"],
    [Model.embedding("e", 5, 4), "e.weight", "[10,4]", "[5,4]"],
    [Model.conv1d("l", 2, 3, 1), "l.weight", "[2,3]", "[3,2,1]"],
  ];
  for (const [other, name, found, expected] of refused) {
    const before = yield* bytes;
    const fault = yield* Effect.flip(Model.load(yield* other, file));
    assert.deepEqual([fault._tag, fault.op], ["ModelError", "load"]);
    assert.equal(fault.message, `${file}: ${name} is of shape ${found}, expected ${expected}`);
    assert.equal(yield* bytes, before);
  }
});

effect("the wrong number of parameters is named", function* () {
  const model = yield* xorModel;
  const params = yield* model.init;
  const x = yield* f32([0, 1], [1, 2]);
  assertFault(yield* Effect.flip(model.forward(params.slice(0, 3), x)), "ModelError", /4 parameters, got 3; they are \[fc1.weight, fc1.bias, /);
  assertFault(yield* Effect.flip(model.execute([], x)), "ModelError", /4 parameters, got 0/);
  const wrapped = yield* Model.checkpoint(yield* Model.linear("fc", 2, 2));
  assertFault(yield* Effect.flip(wrapped.forward([], x)), "ModelError", /\[fc.weight, fc.bias\]/);
});

const REFUSED = [
  ["linear", ["", 2, 8], /name is empty/],
  ["linear", ["fc", 0, 8], /inFeatures is 0, expected a positive integer/],
  ["linear", ["fc", 2.5, 8], /inFeatures is 2.5/],
  ["conv1d", ["c", 2, 4, 0], /kernelSize is 0/],
  ["conv2d", ["c", 3, 4, 3, { groups: 2 }], /3 and 4 channels are not divisible into 2 groups/],
  ["conv2d", ["c", 3, 4, 3, { padding: -1 }], /padding is -1/],
  ["embedding", ["e", 3, 2, { paddingIndex: 3 }], /paddingIndex is 3, expected an integer from 0 to 2/],
  ["positionEmbedding", ["p", 0, 2], /maxPositions is 0/],
  ["layerNorm", ["n", []], /normalizedShape is empty/],
  ["layerNorm", ["n", 0], /normalizedShape is 0, expected a positive/],
  ["layerNorm", ["n", 4, { eps: 0 }], /eps is 0/],
  ["multiHeadAttention", ["a", 7, 2], /not divisible/],
  ["multiHeadAttention", ["a", 6, 2, { rope: 10 }], /odd size 3/],
  ["multiHeadAttention", ["a", 8, 2, { rope: 0 }], /rope is 0/],
  ["kimiDeltaAttention", ["", 8, 2], /name is empty/],
  ["kimiDeltaAttention", ["a", 8, 0], /numHeads is 0/],
  ["kimiDeltaAttention", ["a", 7, 2], /embedDim 7 is not divisible by numHeads 2/],
  ["kimiDeltaAttention", ["a", 8, 2, { normEps: 0 }], /normEps is 0/],
  ["dropout", [{ p: 1 }], /\[0, 1\)/],
  ["dropout", [{ p: "0.5" }], /p is the text "0.5", expected a number/],
  ["conv1d", ["c", 2, 4, 3, null], /the options are null, expected an object/],
  ["conv2d", ["c", 2, 4, undefined], /kernelSize is undefined, expected a positive integer/],
  ["conv2d", ["c", 2, 4, [3, 3, 3]], /kernelSize is a list of 3, expected a number or 2/],
  ["embedding", ["e", 3, 2, null], /the options are null/],
  ["layerNorm", ["n", null], /a size of normalizedShape is null/],
  ["layerNorm", ["n", 4, null], /the options are null/],
  ["multiHeadAttention", ["a", 8, 2, null], /the options are null/],
  ["kimiDeltaAttention", ["a", 8, 2, null], /the options are null/],
  ["define", [undefined], /got undefined, expected an object with parameters and forward/],
  ["define", [{ parameters: 3 }], /the parameters are 3, expected a list/],
  ["define", [{ parameters: [{ name: "a" }] }], /parameter 0 is an object of class Object, expected an object with name and shape/],
  ["define", [{ parameters: [] }], /forward is undefined, expected a function/],
  ["merge", [undefined], /got undefined, expected a list of models/],
  ["chain", [Model.linear("fc", 2, 2)], /model 0 is an effect, expected the model that it gives/],
  ["add", [null], /model 0 is null, expected a model/],
  ["dropout", [null], /the options are null, expected an object/],
  ["linear", ["fc", {}, 8], /inFeatures is an object of class Object, expected a positive integer/],
  ["linear", ["fc", Symbol("two"), 8], /inFeatures is a symbol/],
  ["linear", [7, 2, 8], /the name is 7, expected the name of the layer/],
  ["multiHeadAttention", ["a", 8, 2, { rope: "100" }], /rope is the text "100"/],
  ["maxPool2d", [undefined], /the options are undefined, expected an object with kernelSize/],
  ["maxPool2d", [{ kernelSize: "2" }], /kernelSize is the text "2", expected positive integers/],
  ["maxPool2d", [{}], /kernelSize is undefined/],
  ["maxPool2d", [{ kernelSize: 0 }], /kernelSize is 0/],
  ["avgPool2d", [{ kernelSize: 2, stride: [1, 0] }], /stride is 1 by 0/],
  ["avgPool2d", [{ kernelSize: 2, padding: -1 }], /padding is -1/],
];

effect("settings that make no layer are named", function* () {
  for (const [layer, given, message] of REFUSED) {
    const fault = yield* Effect.flip(Model[layer](...given));
    assertFault(fault, "ModelError", message);
    assert.equal(fault.op, layer);
  }
});

effect("what is no model is a defect of functions that take one and cannot fail", function* () {
  for (const wrap of ["checkpoint", "residual", "mapInput"]) {
    const exit = yield* Effect.exit(Model[wrap](Model.linear("fc", 2, 2)));
    const [{ defect }] = exit.cause.reasons;
    assertFault(defect, "ModelError", /^got an effect, expected the model that it gives/);
    assert.equal(defect.op, wrap);
  }
});

effect("models that cannot be put together are named", function* () {
  const fc = yield* Model.linear("fc", 2, 2);
  assertFault(yield* Effect.flip(Model.chain(fc, yield* Model.relu, fc)), "ModelError", /duplicate parameter name fc.weight/);
  assertFault(yield* Effect.flip(Model.add(fc, fc)), "ModelError", /duplicate/);
  assertFault(yield* Effect.flip(Model.chain()), "ModelError", /at least one model/);
  assertFault(yield* Effect.flip(Model.merge([], () => Tensor.zeros([1]))), "ModelError", /at least one model/);
  const forward = (_, x) => Tensor.relu(x);
  const define = (parameters) => Effect.flip(Model.define({ parameters, forward }));
  assertFault(yield* define([{ name: "", shape: [] }]), "ModelError", /name is empty/);
  assertFault(yield* define([{ name: "a", shape: [] }, { name: "a", shape: [] }]), "ModelError", /duplicate/);
  assertFault(yield* define([{ name: "a", shape: [1.5] }]), "ModelError", /shape of a is \[1.5\]/);
});

effect("inputs that do not fit are named", function* () {
  const attention = yield* Model.multiHeadAttention("a", 8, 2);
  const params = yield* attention.init;
  assertFault(yield* Effect.flip(attention.forward(params, yield* f32([1, 2], [1, 2]))), "ModelError", /\[1,2\], expected \[batch, length, 8\]/);
  const delta = yield* Model.kimiDeltaAttention("a", 8, 2);
  assertFault(yield* Effect.flip(delta.forward(yield* delta.init, yield* f32([1, 2], [1, 1, 2]))), "ModelError", /a: .*\[1,1,2\], expected \[batch, length, 8\]/);
  const positions = yield* Model.positionEmbedding("p", 4, 2);
  const fault = yield* Effect.flip(positions.forward(yield* positions.init, yield* ids([0, 0, 0, 0, 0])));
  assertFault(fault, "ModelError", /a length of 5 exceeds maxPositions, which is 4/);
  const norm = yield* Model.layerNorm("n", [2, 3]);
  assertFault(yield* Effect.flip(norm.forward(yield* norm.init, yield* f32([1, 2, 3], [1, 3]))), "ModelError", /expected \[.., 2, 3\]/);
});
