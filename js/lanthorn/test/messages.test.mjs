// Every error is ours: it names the call, what was found and what would be right.
import assert from "node:assert/strict";
import { test } from "node:test";

import * as lanthorn from "../dist/node.js";

const { create, crossEntropy, grad, jit, LanthornError, manualSeed, nn, noGrad, optim, profile, Tensor, trackTensors } = lanthorn;

const t = () => new Tensor([1]);
const sgd = () => new optim.SGD([new Tensor([1], true)]);
const disposed = () => {
  const x = t();
  x.dispose();
  return x;
};
const loop = [];
loop.push(loop);
const detached = new Float32Array(2);
structuredClone(detached.buffer, { transfer: [detached.buffer] });

/** The call, its name in the error, and what the message says. */
const CASES = [
  [() => optim.learningRate(), "learningRate", /the schedule is undefined, expected/],
  [() => optim.learningRate({}, 1), "learningRate", /the schedule is .*, expected an object of one of constant/],
  [() => optim.learningRate({ constant: { lr: 1 } }, -1), "learningRate", /the step is -1, expected a whole number/],
  [() => optim.learningRate({ warmup: { steps: 1 } }, 1), "learningRate", /the schedule is undefined/],
  [() => new optim.CosineAnnealingLR(sgd(), NaN), "CosineAnnealingLR", /total of cosine is NaN, expected a whole number/],
  [() => new optim.ExponentialLR(sgd()), "ExponentialLR", /rate of exponential is undefined, expected a finite number/],
  [() => new optim.StepLR(null, 1), "StepLR", /got null, expected an optimiser/],
  [() => t().set(0, 1), "set", /the indices are 0, expected a list/],
  [() => noGrad(5), "noGrad", /got 5, expected a function/],
  [() => trackTensors(), "trackTensors", /got undefined, expected a function/],
  [() => profile(), "profile", /got undefined, expected a function/],
  [() => Tensor.where(null, t(), t()), "where", /condition is null, expected a Tensor/],
  [() => Tensor.where(new Tensor([true]), null, 5), "where", /x is null, expected a Tensor or a number/],
  [() => t().index(5), "index", /ids is 5, expected a list of Tensors/],
  [() => t().index([null]), "index", /ids\[0\] is null/],
  [() => t().indexPut(t(), 5), "index_put", /ids is 5, expected a list/],
  [() => t().lstm(), "lstm", /weights is undefined, expected a list/],
  [() => new Tensor(loop), "Tensor", /contains itself/],
  [() => new Tensor(detached), "Tensor", /is detached/],
  [() => new nn.Linear(2, 1).forward([1, 2]), "Linear.forward", /the input is .*Array, expected a Tensor/],
  [() => new nn.ReLU().forward(5), "ReLU.forward", /the input is 5/],
  [() => new nn.MaxPool2d(2).forward(null), "MaxPool2d.forward", /the input is null/],
  [() => new nn.LSTM(1, 1).forward("x"), "LSTM.forward", /the input is the text "x"/],
  [() => new nn.BatchNorm1d(1).forward(5), "BatchNorm1d.forward", /the input is 5/],
  [() => new nn.Conv2d(1, 2), "Conv2d", /the kernel is undefined, expected a whole number or 2/],
  [() => new nn.Conv2d(1, 2, 3n), "Conv2d", /the kernel is 3/],
  [() => new nn.Conv2d(1, 2, [3, -1]), "Conv2d", /size 1 of the kernel is -1/],
  [() => new nn.Sequential([new nn.ReLU()]), "Sequential", /step 0 is .*Array, expected a module or a function/],
  [() => new nn.ModuleList([5]), "ModuleList", /module 0 is 5/],
  [() => crossEntropy(null, [0]), "crossEntropy", /the logits are null, expected a Tensor/],
  [() => nn.mseLoss([1], t()), "mseLoss", /x is .*Array, expected a Tensor/],
  [() => nn.crossEntropyLoss(null, [0]), "crossEntropyLoss", /logits is null/],
  [() => nn.tripletMarginLoss(1, t(), t()), "tripletMarginLoss", /anchor is 1/],
  [() => nn.getParameters(null), "getParameters", /got null, expected a module/],
  [() => nn.getStateDict(), "getStateDict", /got undefined, expected a module/],
  [() => sgd().addParamGroup(), "SGD", /the group is undefined, expected an object with params/],
  [() => sgd().addParamGroup({}), "SGD", /got undefined, expected a module or a list/],
  [() => nn.parameter(), "parameter", /got undefined, expected a Tensor/],
  [() => new optim.Adam(t()), "Adam", /class Tensor, expected a module or a list of Tensors/],
  [() => new optim.Adam(), "Adam", /got undefined, expected a module/],
  [() => new optim.Adam([t()], { betas: 0.9 }), "Adam", /betas is 0.9, expected a list of 2 numbers/],
  [() => new optim.Adam([t()], { betas: [0.9] }), "Adam", /betas is a list of 1/],
  [() => new optim.SGD([t()], { lr: "1" }), "SGD", /lr is the text "1"/],
  [() => optim.clipGradNorm(new nn.Linear(1, 1), 1), "clipGradNorm", /no parameter has a gradient/],
  [() => optim.clipGradNorm([5], 1), "clipGradNorm", /parameter 0 is 5/],
  [() => optim.clipGradValue([t()], "1"), "clipGradValue", /the limit is the text "1"/],
  [() => (sgd().lr = NaN), "SGD", /lr is NaN, expected a finite number/],
  [() => new nn.Dropout("0.5"), "Dropout", /the probability is the text "0.5"/],
  [() => new nn.GroupNorm(3, 4), "GroupNorm", /3 groups do not divide 4 channels/],
  [() => new nn.LayerNorm(4, { eps: null }), "LayerNorm", /eps is null, expected a finite number/],
  [() => new nn.Linear(-1, 2), "Linear", /inputs is -1, expected a whole number/],
  [() => new nn.Embedding(2, 1.5), "Embedding", /width is 1.5/],
  // Calls that are made of others are named themselves.
  [() => disposed().add(1), "add", /released/],
  [() => disposed().add_(1), "add_", /released/],
  [() => disposed().neg(), "neg", /released/],
  [() => t().matmul(disposed()), "matmul", /released/],
  [() => Tensor.concat([disposed()]), "concat", /released/],
  [() => disposed().toArray(), "toArray", /released/],
  [() => disposed().item(), "item", /released/],
  [() => disposed().tolist(), "tolist", /released/],
  [() => disposed().realize(), "realize", /released/],
  [() => disposed().shape, "shape", /released/],
  [() => disposed().grad, "grad", /released/],
  [() => disposed().detach(), "detach", /released/],
  [() => disposed().backward(), "backward", /released/],
  [() => grad(disposed(), [t()]), "grad", /released/],
  [() => jit((x) => x.add(1))(disposed()), "jit", /released/],
  [() => Tensor.rand(-1), "rand", /-1/],
  [() => Tensor.rand(1e18), "rand", /1000000000000000000/],
  [() => Tensor.empty(-1), "empty", /-1/],
  [() => Tensor.fromData([1, 2], [3]), "fromData", /f32\[3\]/],
  [() => new Tensor([1, 2], true).mul(2).backward([1, 2, 3]), "backward", /f32\[3\], expected f32\[2\]/],
  [() => t().fill_(undefined), "fill_", /got undefined/],
  [() => new Tensor([1n]).set([0], 1.5), "set", /1.5/],
  [() => manualSeed("a"), "manualSeed", /the text "a", expected a whole number/],
  [() => manualSeed(5n), "manualSeed", /the seed is 5/],
  [() => new Tensor([[1, 2], [3, 4]]).crossEntropy([[0], [1, 2]]), "cross_entropy", /ragged/],
  [() => t().mT, "mT", /axis/],
  [() => t().view(7), "view", /7/],
];

for (const [call, op, message] of CASES) {
  test(`an error of ours: ${String(call).slice(6)}`, () => {
    assert.throws(call, (error) => {
      assert.ok(error instanceof LanthornError, `${error?.stack}`);
      assert.equal(error.op, op, error.message);
      assert.ok(error.message.startsWith(`${op}: `), error.message);
      assert.ok(error.stack.startsWith(`${error.constructor.name}: ${error.message}`), error.stack);
      assert.match(error.message, message);
      return true;
    });
  });
}

test("asynchronous calls are named too", async () => {
  for (const name of ["toArrayAsync", "itemAsync", "realizeAsync"]) {
    const x = t();
    assert.equal(x.size, 1);
    x.dispose();
    await assert.rejects(async () => x[name](), { kind: "invalid_handle", op: name });
  }
  const run = jit((x) => x);
  await assert.rejects(run.runAsync(t()), { name: "JitError", message: /class Tensor, expected a list of arguments/ });
  await assert.rejects(run.runAsync(), { name: "JitError", message: /undefined, expected a list/ });
});

test("what a function throws inside of another call keeps its name", () => {
  const broken = () => Tensor.zeros([2, 3]).add(Tensor.zeros([4, 3]));
  for (const call of [() => noGrad(broken), () => trackTensors(broken), () => jit(broken)(), () => create().run(broken)]) {
    assert.throws(call, { op: "add", kind: "shape" });
  }
  // A value that cannot be computed is not the fault of the read.
  assert.throws(() => new Tensor([1, 2]).indexSelect(0, [5]).toArray(), (error) => error.op !== "toArray");
});

test("a rate that is set on a group alone is checked by the step", () => {
  const w = new Tensor([1], true);
  const opt = new optim.SGD([w]);
  w.sum().backward();
  opt.groups[0].lr = NaN;
  assert.throws(() => opt.step(), { op: "SGD.step", message: /lr is NaN/ });
  assert.equal(w.item(), 1);
});

test("a module with a back reference has each parameter once", () => {
  class Back extends nn.Module {
    constructor() {
      super();
      this.child = new nn.Linear(1, 1);
      this.child.parent = this;
      this.list = [];
      this.list.push(this.list);
    }
    forward(x) {
      return x;
    }
  }
  const module = new Back();
  assert.deepEqual(Object.keys(module.stateDict()), ["child.weight", "child.bias"]);
  let calls = 0;
  module.apply(() => (calls += 1));
  assert.equal(calls, 2);
});

test("a tensor that is taken for a number is refused, where it would be NaN", () => {
  const x = Tensor.ones(1);
  const refusal = { name: "UnsupportedError", message: /a tensor is taken for a number; use its methods.*item\(\)/ };
  for (const wrong of [() => x * 2, () => x - x, () => -x, () => x > 0, () => Math.sqrt(x), () => Number(x)]) assert.throws(wrong, refusal);
  assert.equal(`${x}`, "Tensor f32[1]");
  assert.equal("the loss is " + x, "the loss is Tensor f32[1]");
  assert.equal(x == null, false);
});
