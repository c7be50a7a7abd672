// Layers, losses and optimisers against the values of upstream torch that `nn-cases.py` has written, and modules.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { LanthornError, Tensor, grad, jit, manualSeed, nn, noGrad, optim, stats } from "../dist/node.js";
import { assertClose } from "./support.mjs";

const cases = JSON.parse(readFileSync(new URL("./nn-cases.json", import.meta.url), "utf8"));
const TOLERANCE = 1e-5;

const tensorOf = ({ data, shape, dtype }) => Tensor.fromData(data, shape, { dtype });
const near = (found, expected, what) => {
  assert.deepEqual(found.shape, expected.shape, `${what}: shape`);
  assertClose(found.toArray(), expected.data, TOLERANCE, what);
};
/** The outputs of a layer as a flat list of tensors. */
const flat = (out) => (out instanceof Tensor ? [out] : out.flatMap(flat));

for (const [at, given] of cases.layers.entries()) {
  test(`${given.layer}(${given.arguments.map((a) => JSON.stringify(a)).join(", ")}) is torch's, ${at}`, () => {
    const module = new nn[given.layer](...given.arguments);
    const state = Object.fromEntries(Object.entries(given.state).map(([name, value]) => [name, tensorOf(value)]));
    module.loadStateDict(state);
    module.train(given.training);
    const inputs = given.inputs.map(tensorOf);
    inputs.forEach((x, k) => {
      if (given.inputGrads[k] !== null) x.requiresGrad = true;
    });
    const out = flat(module.forward(...inputs));
    assert.equal(out.length, given.outputs.length);
    out.forEach((tensor, k) => near(tensor, given.outputs[k], `output ${k}`));
    const weighted = out.map((tensor, k) => tensor.mul(tensorOf(given.weights[k])).sum());
    weighted.reduce((a, b) => a.add(b)).backward();
    given.inputGrads.forEach((grad, k) => {
      if (grad !== null) near(inputs[k].grad, grad, `gradient of input ${k}`);
    });
    const parameters = Object.fromEntries(module.namedParameters());
    assert.deepEqual(Object.keys(parameters).sort(), Object.keys(given.grads).sort());
    for (const [name, grad] of Object.entries(given.grads)) near(parameters[name].grad, grad, `gradient of ${name}`);
    for (const [name, value] of Object.entries(given.after)) near(module.stateDict()[name], value, `${name} afterwards`);
  });
}

for (const { optimizer, options, start, grads, values } of cases.optimizers) {
  test(`three steps of ${optimizer} ${JSON.stringify(options)} are torch's`, () => {
    const parameter = tensorOf(start).requiresGrad_();
    const rule = new optim[optimizer]([parameter], options);
    grads.forEach((grad, step) => {
      parameter.grad = tensorOf(grad);
      rule.step();
      near(parameter, values[step], `step ${step}`);
    });
  });
}

test("groups have settings of their own, and a wrong one is named", () => {
  const [a, b] = [1, 2].map((value) => Tensor.full([2], value, true));
  const rule = new optim.SGD([{ params: [a], lr: 0.5 }, { params: [b] }], { lr: 0.1 });
  a.sum().add(b.sum()).backward();
  rule.step();
  assertClose(a.toArray(), [0.5, 0.5]);
  assertClose(b.toArray(), [1.9, 1.9]);
  rule.zeroGrad();
  assert.equal(a.grad, null);
  assert.throws(() => new optim.SGD([{ params: [a], rate: 1 }]), /no setting rate; the settings are lr, momentum/);
  assert.throws(() => new optim.SGD([a, a]), /twice/);
  assert.throws(() => new optim.SGD([]), /no parameters/);
  assert.throws(() => new optim.SGD([3]), /a parameter is 3, expected a Tensor/);
  assert.throws(() => new optim.Adam([a], { lr: -1 }), /lr is -1/);
});

test("steps of an optimiser run one program, also with another learning rate", () => {
  manualSeed(3);
  const net = new nn.Sequential(new nn.Linear(2, 4), new nn.Tanh(), new nn.Linear(4, 1));
  const rule = new optim.AdamW(net, { lr: 0.01 });
  const x = Tensor.rand([8, 2]);
  const step = (at) => {
    rule.zeroGrad();
    const loss = net.forward(x).square().mean();
    loss.backward();
    rule.lr = 0.01 / (at + 1);
    rule.step();
    return loss.item();
  };
  for (let at = 0; at < 4; at++) step(at);
  const before = stats();
  for (let at = 4; at < 20; at++) step(at);
  assert.equal(stats().compiles, before.compiles);
});

test("an optimiser goes on from its saved state", () => {
  const make = () => {
    const parameter = new Tensor([1, -2, 3], true);
    return { parameter, rule: new optim.Adam([parameter], { lr: 0.1 }) };
  };
  const step = ({ parameter, rule }) => {
    rule.zeroGrad();
    parameter.square().sum().backward();
    rule.step();
  };
  const whole = make();
  for (let at = 0; at < 6; at++) step(whole);
  const first = make();
  for (let at = 0; at < 3; at++) step(first);
  const second = make();
  second.parameter.copyFrom(first.parameter);
  second.rule.loadStateDict(first.rule.stateDict());
  for (let at = 0; at < 3; at++) step(second);
  assert.deepEqual(second.parameter.toArray(), whole.parameter.toArray());
});

test("schedules are the engine's", () => {
  const rule = new optim.SGD([new Tensor([1], true)], { lr: 1 });
  const rates = (scheduler, count) =>
    Array.from({ length: count }, () => {
      const { lr } = rule;
      scheduler.step();
      return lr;
    });
  assertClose(rates(new optim.StepLR(rule, 2, 0.5), 5), [1, 1, 0.5, 0.5, 0.25]);
  rule.lr = 1;
  assertClose(rates(new optim.ExponentialLR(rule, 0.9), 3), [1, 0.9, 0.81]);
  rule.lr = 1;
  assertClose(rates(new optim.CosineAnnealingLR(rule, 4), 6), [1, 0.853553, 0.5, 0.146447, 0, 0]);
  rule.lr = 1;
  assertClose(rates(new optim.LinearLR(rule, 0.5, 1, 2), 4), [0.5, 0.75, 1, 1]);
  const warm = { warmup: { steps: 2, then: { constant: { lr: 4 } } } };
  assert.equal(optim.learningRate(warm, 0), 2);
  assert.equal(optim.learningRate(warm, 7), 4);
  assert.throws(() => optim.learningRate({ constant: { lr: -1 } }, 0), /a learning rate is -1/);
  assert.throws(() => optim.learningRate({ wave: {} }, 0), /wave/);
});

test("gradients are clipped by norm and by value", () => {
  const [a, b] = [new Tensor([3, 0], true), new Tensor([4], true)];
  const backward = () => {
    a.grad = b.grad = null;
    a.square().sum().add(b.square().sum()).div(2).backward();
  };
  backward();
  assert.equal(optim.clipGradNorm([a, b], 10).item(), 5);
  assert.deepEqual([...a.grad.toArray(), ...b.grad.toArray()], [3, 0, 4]);
  optim.clipGradNorm([a, b], 1);
  assertClose([...a.grad.toArray(), ...b.grad.toArray()], [0.6, 0, 0.8]);
  backward();
  optim.clipGradValue([a, b], 3.5);
  assert.deepEqual([...a.grad.toArray(), ...b.grad.toArray()], [3, 0, 3.5]);
  a.grad = b.grad = null;
  assert.throws(() => optim.clipGradNorm([a, b], 1), /no parameter has a gradient/);
});

class Net extends nn.Module {
  body = [new nn.Linear(2, 3), { norm: new nn.LayerNorm(3) }];
  scale = nn.parameter(Tensor.ones([3]));
  offset = Tensor.zeros([3]);
  _cache = Tensor.ones([7]);
  drop = new nn.Dropout(0.5);

  forward(x) {
    return this.drop.forward(this.body[1].norm.forward(this.body[0].forward(x)).mul(this.scale).add(this.offset));
  }
}

test("a module finds its parameters, state and children", () => {
  const net = new Net();
  const names = ["body.0.weight", "body.0.bias", "body.1.norm.weight", "body.1.norm.bias", "scale"];
  assert.deepEqual(net.namedParameters().map(([name]) => name), names);
  assert.deepEqual(Object.keys(net.stateDict()), [...names, "offset"]);
  assert.deepEqual(Array.from(net.namedChildren(), ([name]) => name), ["body.0", "body.1.norm", "drop"]);
  assert.equal(net.modules().length, 4);
  assert.match(String(net), /^Net\n  body\.0\.weight \[3, 2\]/);
  net.eval();
  assert.equal(net.drop.training, false);
  const x = Tensor.ones(2, 2);
  assert.deepEqual(net.forward(x).toArray(), net.forward(x).toArray());
  assert.ok(net.train().drop.training);
  net.requiresGrad_(false);
  assert.equal(net.parameters().length, 5);
  assert.ok(net.parameters().every(({ requiresGrad }) => !requiresGrad));
  const seen = [];
  net.apply((module) => seen.push(module.constructor.name));
  assert.deepEqual(seen, ["Linear", "LayerNorm", "Dropout", "Net"]);
});

test("dropout zeroes its share in training and scales the rest", () => {
  manualSeed(1);
  const drop = new nn.Dropout(0.25);
  const kept = drop.forward(Tensor.ones(10_000)).toArray();
  const zeros = kept.filter((x) => x === 0).length;
  assert.ok(Math.abs(zeros - 2500) < 200, `${zeros} zeros`);
  assert.ok(kept.every((x) => x === 0 || Math.abs(x - 4 / 3) < 1e-6));
  assert.throws(() => new nn.Dropout(1), /probability is 1/);
});

test("tied parameters stay tied when state is loaded", () => {
  class Tied extends nn.Module {
    embed = new nn.Embedding(4, 3);
    head = new nn.Linear(3, 4, { bias: false });
    constructor() {
      super();
      this.head.weight = this.embed.weight;
    }
    forward(ids) {
      return this.head.forward(this.embed.forward(ids));
    }
  }
  const [a, b] = [new Tied(), new Tied()];
  assert.equal(a.parameters().length, 1);
  assert.deepEqual(Object.keys(a.stateDict()), ["embed.weight", "head.weight"]);
  b.loadStateDict(a.stateDict());
  assert.equal(b.head.weight, b.embed.weight);
  noGrad(() => b.embed.weight.fill_(2));
  assert.deepEqual(b.head.weight.toArray(), new Float32Array(12).fill(2));
  assert.deepEqual(b.forward([1]).toArray(), new Float32Array(4).fill(12));
});

test("state that does not fit is refused by name, and nothing is changed", () => {
  const layer = new nn.Linear(2, 2);
  const before = layer.weight.toArray();
  const { weight, bias } = new nn.Linear(2, 2).stateDict();
  assert.throws(() => layer.loadStateDict({ weight }), /the state lacks bias/);
  assert.throws(() => layer.loadStateDict({ weight, bias, other: bias }), /the module has no other/);
  assert.throws(() => layer.loadStateDict({ weight, bias: weight }), (error) => {
    assert.ok(error instanceof LanthornError);
    return /bias has the shape \[2, 2\], expected \[2\]/.test(error.message);
  });
  assert.deepEqual(layer.weight.toArray(), before);
  layer.loadStateDict({ weight }, { strict: false });
  assert.deepEqual(layer.weight.toArray(), weight.toArray());
});

test("first values are torch's: uniform within 1 / sqrt(fan in), Glorot for attention", () => {
  manualSeed(5);
  const widest = (tensor) => Math.max(...tensor.toArray().map(Math.abs));
  const bounded = (tensor, bound) => {
    assert.ok(widest(tensor) <= bound && widest(tensor) > 0.9 * bound, `${widest(tensor)}, expected up to ${bound}`);
  };
  const linear = new nn.Linear(64, 50);
  bounded(linear.weight, 1 / 8);
  bounded(linear.bias, 1 / 8);
  const convolution = new nn.Conv2d(8, 64, 3);
  bounded(convolution.weight, 1 / Math.sqrt(72));
  bounded(convolution.bias, 1 / Math.sqrt(72));
  bounded(new nn.LSTM(3, 25).weight_ih_l0, 1 / 5);
  const attention = new nn.MultiheadAttention(16, 2);
  bounded(attention.in_proj_weight, Math.sqrt(6 / 64));
  assert.equal(widest(attention.out_proj.bias), 0);
  const std = Tensor.kaimingNormal([100, 50], { mode: "fanOut" }).std().item();
  assert.ok(Math.abs(std - Math.sqrt(2 / 100)) < 0.005, `${std}`);
});

test("unknown settings are refused by name, and torch's style of names is taken", () => {
  assert.equal(new nn.Embedding(3, 2, { padding_idx: 1 }).paddingIdx, 1);
  assert.equal(new optim.AdamW([Tensor.ones([1], true)], { weight_decay: 0.5 }).groups[0].weightDecay, 0.5);
  const x = Tensor.ones([1, 1, 4, 4]);
  for (const make of [
    () => new nn.Linear(2, 2, { foo: 1 }),
    () => new nn.Conv2d(1, 1, 3, { foo: 1 }),
    () => new nn.ConvTranspose1d(1, 1, 3, { foo: 1 }),
    () => new nn.LayerNorm(2, { foo: 1 }),
    () => new nn.BatchNorm2d(2, { foo: 1 }),
    () => new nn.LSTM(2, 2, { foo: 1 }),
    () => new nn.GRUCell(2, 2, { foo: 1 }),
    () => new nn.MultiheadAttention(2, 2, { foo: 1 }),
    () => new nn.MaxPool2d(2, { foo: 1 }).forward(x),
    () => nn.mseLoss(x, x, { foo: 1 }),
    () => new optim.SGD([Tensor.ones([1], true)], { foo: 1 }),
  ]) {
    assert.throws(make, /there is no option foo; the options are/);
  }
});

test("gradients of gradients are exact, and nothing is accumulated", () => {
  const x = new Tensor([2, -1], true);
  const cube = x.mul(x).mul(x).sum();
  const [first] = grad(cube, [x]);
  assert.deepEqual(first.tolist(), [12, 3]);
  const [second] = grad(first.sum(), [x]);
  assert.deepEqual(second.tolist(), [12, -6]);
  const [third] = grad(second.sum(), [x]);
  assert.deepEqual(third.tolist(), [6, 6]);
  assert.equal(x.grad, null);
  // A penalty on the size of a gradient.
  grad(x.square().sum(), [x])[0].square().sum().backward();
  assert.deepEqual(x.grad.tolist(), [16, -8]);
  const other = new Tensor([1], true);
  assert.throws(() => grad(cube, [other]), /tensor 0 did not lead to the loss/);
  assert.throws(() => grad(cube, [Tensor.ones(1)]), /tensor 0 is no leaf that requires grad/);
});

test("an optimiser in a compiled step counts its steps, follows its learning rate, and undoes a step that was stopped", async () => {
  for (const make of [
    (w) => new optim.Adam([w], { lr: 0.1 }),
    (w) => new optim.AdamW([w], { lr: 0.1, weightDecay: 0.1 }),
    (w) => new optim.SGD([w], { lr: 0.05, momentum: 0.9, dampening: 0.5 }),
    (w) => new optim.Lion([w], { lr: 0.02 }),
  ]) {
    const data = Array.from({ length: 6 }, (_, at) => Tensor.fromData([at - 2, 1, 3 - at, 0.5 * at], [2, 2]));
    const train = (wrap) => {
      const w = Tensor.fromData([0.5, -1, 2, 0.25], [2, 2], true);
      const rule = make(w);
      const step = wrap((x) => {
        rule.zeroGrad();
        const loss = x.matmul(w).square().mean();
        loss.backward();
        rule.step();
        rule.zeroGrad();
        return loss;
      });
      return { w, rule, step };
    };
    const plain = train((f) => f);
    const compiled = train((f) => jit(f));
    for (const [at, x] of data.entries()) {
      if (at === 3) for (const { rule } of [plain, compiled]) rule.lr *= 0.5;
      if (at === 4) {
        const stopped = AbortSignal.abort();
        await assert.rejects(compiled.step.runAsync([x], { signal: stopped }), { name: "AbortError" });
        assert.throws(() => compiled.step(Tensor.ones([3, 2])), /args mismatch/);
        assert.equal(compiled.rule.steps, 4);
      }
      const [right, found] = [plain.step(x).item(), compiled.step(x).item()];
      assert.ok(Math.abs(found - right) <= 1e-5 * Math.abs(right), `step ${at + 1}: ${found} for ${right}`);
    }
    assert.equal(compiled.rule.steps, 6);
    assert.deepEqual([...compiled.w.toArray()].map((x) => x.toFixed(5)), [...plain.w.toArray()].map((x) => x.toFixed(5)));
  }
});

test("numbers that are left out where nothing is drawn or learned yet are torch's", () => {
  const x = new Tensor([-1, 2]);
  assertClose(new nn.LeakyReLU().forward(x).toArray(), [-0.01, 2]);
  assertClose(new nn.PReLU().forward(x).toArray(), [-0.25, 2]);
  assertClose(new nn.Hardtanh().forward(x).toArray(), [-1, 1]);
  const dropped = new nn.Dropout().forward(Tensor.ones(10_000)).toArray();
  assert.ok(dropped.every((value) => value === 0 || value === 2));
  const kept = dropped.filter((value) => value === 2).length;
  assert.ok(Math.abs(kept - 5000) < 300, `${kept} of 10,000 are kept`);
});
