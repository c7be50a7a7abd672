// Optimisers that look at a whole parameter, and several optimisers as one: against the formulas in plain numbers.
import assert from "node:assert/strict";
import { test } from "node:test";

import { jit, nn, optim, Tensor } from "../dist/node.js";
import { assertClose } from "./support.mjs";

const START = [0.5, -1, 2, 0.25, -0.75, 1.5];
const GRADS = [[0.1, -0.2, 0.3, 0.4, -0.5, 0.6], [1, 2, -1, 0.5, 0.25, -2], [0.01, 0.02, 0.03, -0.04, 0.05, 0.06]];
const norm = (x) => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));

/** Three steps of an optimiser beside those of `reference`, which gives the elements after each. */
function compare(make, reference) {
  const parameter = new Tensor([START.slice(0, 3), START.slice(3)], true);
  const rule = make([parameter]);
  let expected = [...START];
  GRADS.forEach((grad, at) => {
    parameter.grad = Tensor.fromData(grad, [2, 3]);
    rule.step();
    expected = reference(expected, grad, at + 1);
    assertClose(parameter.toArray(), expected, 1e-5, `step ${at + 1}`);
  });
  return rule;
}

for (const options of [{ lr: 0.5, trust: 0.1, weightDecay: 0.05 }, { lr: 0.5, momentum: 0.8, nesterov: true, trust: 1 },
  { lr: 0.1, momentum: 0, trust: 0, weightDecay: 0 }, { lr: 10 }]) {
  test(`LARS ${JSON.stringify(options)} is that of the paper`, () => {
    const { lr, momentum = 0.9, nesterov = false, trust = 1e-3, weightDecay = 1e-4 } = options;
    let velocity = START.map(() => 0);
    const reference = (p, g) => {
      const rate = trust === 0 ? 1 : (trust * norm(p)) / (norm(g) + weightDecay * norm(p));
      const step = g.map((value, at) => lr * rate * (value + weightDecay * p[at]));
      velocity = velocity.map((value, at) => momentum * value + step[at]);
      return p.map((value, at) => value - (nesterov ? step[at] + momentum * velocity[at] : velocity[at]));
    };
    compare((params) => new optim.LARS(params, options), reference);
  });
}

for (const options of [{ lr: 0.1 }, { lr: 0.05, betas: [0.7, 0.9], eps: 0.01, weightDecay: 0.2 }]) {
  test(`LAMB ${JSON.stringify(options)} is that of the paper`, () => {
    const { lr, betas: [b1, b2] = [0.9, 0.999], eps = 1e-6, weightDecay = 0 } = options;
    let [m, v] = [START.map(() => 0), START.map(() => 0)];
    const reference = (p, g, step) => {
      m = m.map((value, at) => b1 * value + (1 - b1) * g[at]);
      v = v.map((value, at) => b2 * value + (1 - b2) * g[at] ** 2);
      const update = p.map((value, at) => m[at] / (1 - b1 ** step) / (Math.sqrt(v[at] / (1 - b2 ** step)) + eps) + weightDecay * value);
      return p.map((value, at) => value - lr * (norm(p) / norm(update)) * update[at]);
    };
    compare((params) => new optim.LAMB(params, options), reference);
  });
}

test("Muon moves each singular value by the iterations of Newton and Schulz", () => {
  // Of diagonal matrices the elements of the diagonal are the singular values, each of which the iterations move by itself.
  const diagonal = (values, rows) => Array.from({ length: rows }, (_, row) => values.map((value, column) => (row === column ? value : 0)));
  const iterated = (x) => {
    for (let at = 0; at < 5; at++) x = 3.4445 * x - 4.775 * x ** 3 + 2.0315 * x ** 5;
    return x;
  };
  for (const nesterov of [true, false]) {
    for (const [rows, turned] of [[2, false], [4, false], [4, true]]) {
      const turn = (matrix) => (turned ? matrix.t() : matrix);
      let p = [3, -2];
      const parameter = turn(new Tensor(diagonal(p, rows))).clone().requiresGrad_();
      const rule = new optim.Muon([parameter], { lr: 0.1, momentum: 0.9, weightDecay: 0.3, nesterov });
      let velocity = [0, 0];
      for (const grad of [[1, 0.5], [-0.25, 4], [0.125, 1]]) {
        parameter.grad = turn(new Tensor(diagonal(grad, rows))).clone();
        rule.step();
        velocity = velocity.map((value, at) => 0.9 * value + 0.1 * grad[at]);
        const direction = nesterov ? velocity.map((value, at) => 0.9 * value + 0.1 * grad[at]) : velocity;
        const scale = turned ? 1 : Math.sqrt(rows / 2);
        p = p.map((value, at) => value * (1 - 0.1 * 0.3) - 0.1 * scale * iterated(direction[at] / norm(direction)));
        assertClose(turn(parameter).toArray(), diagonal(p, rows).flat(), 1e-5);
      }
    }
  }
  const kernel = Tensor.rand(4, 2, 3, 3).requiresGrad_();
  kernel.grad = Tensor.rand(4, 2, 3, 3);
  new optim.Muon([kernel]).step();
  assert.throws(() => new optim.Muon([Tensor.ones(3, true)]), { name: "ShapeError", message: /shape \[3\], expected two axes or more; .*OptimizerGroup/ });
  assert.throws(() => new optim.Muon([kernel], { nsSteps: 1.5 }), /nsSteps is 1.5, expected a whole number/);
  assert.throws(() => new optim.LARS([kernel], { trust: -1 }), /trust is -1/);
});

test("a group of optimisers steps them all, and its state goes on", () => {
  const make = () => {
    const net = new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 1));
    const [matrices, vectors] = [2, 1].map((rank) => net.parameters().filter((parameter) => parameter.rank === rank));
    return { net, group: new optim.OptimizerGroup(new optim.Muon(matrices, { lr: 0.02 }), new optim.AdamW(vectors, { lr: 0.05 })) };
  };
  const x = Tensor.rand(16, 3);
  const train = ({ net, group }) => {
    group.zeroGrad();
    const loss = net.forward(x).sub(x.sum(1, true)).square().mean();
    loss.backward();
    group.step();
    return loss.item();
  };
  const first = make();
  const losses = Array.from({ length: 60 }, () => train(first));
  assert.ok(losses.at(-1) < 0.2 * losses[0], `${losses[0]} to ${losses.at(-1)}`);
  assert.deepEqual([first.group.parameters().length, first.group.groups.length, first.group.lr], [4, 2, 0.02]);
  const second = make();
  second.net.loadStateDict(first.net.stateDict());
  second.group.loadStateDict(first.group.stateDict());
  assert.equal(train(second), train(first));
  assert.deepEqual(second.net.parameters().map((p) => p.tolist()), first.net.parameters().map((p) => p.tolist()));
  const schedule = new optim.StepLR(first.group, 1, 0.5);
  schedule.step();
  assert.deepEqual(schedule.lastLr, [0.01, 0.025]);
  first.group.lr = 0.1;
  assert.deepEqual(first.group.groups.map(({ lr }) => lr), [0.1, 0.1]);

  const w = Tensor.ones(2, 2, true);
  assert.throws(() => new optim.OptimizerGroup(), /got no optimisers/);
  assert.throws(() => new optim.OptimizerGroup(new optim.SGD([w]), new optim.SGD([w])), /a parameter of optimiser 1 is one of another/);
  assert.throws(() => new optim.OptimizerGroup([new optim.SGD([w])]), /optimiser 0 is .*Array, expected an optimiser/);
  assert.throws(() => first.group.loadStateDict({ optimizers: [] }), /has 0 optimisers, expected those of 2/);
  assert.throws(() => first.group.loadStateDict(undefined), /the state is undefined/);
});

test("steps of these rules are traced, and run one program", () => {
  for (const make of [(p) => new optim.LARS(p, { lr: 0.1 }), (p) => new optim.LAMB(p), (p) => new optim.Muon(p)]) {
    const [w, copy] = [0, 1].map(() => new Tensor([[1, 2], [3, 4]], true));
    const [rule, other] = [make([w]), make([copy])];
    const x = new Tensor([[1, -1], [0.5, 2]]);
    const step = jit((input) => {
      rule.zeroGrad();
      const loss = input.matmul(w).square().sum();
      loss.backward();
      rule.step();
      return loss;
    });
    for (let at = 0; at < 4; at++) {
      other.zeroGrad();
      const loss = x.matmul(copy).square().sum();
      loss.backward();
      other.step();
      assertClose([step(x).item()], [loss.item()], 1e-4);
    }
    assertClose(w.toArray(), copy.toArray(), 1e-4);
    assert.equal(rule.steps, 4);
  }
});

test("LayerNorm2d is a LayerNorm over the channels", () => {
  const x = Tensor.randn(2, 3, 4, 5);
  const norm = new nn.LayerNorm2d(3);
  const inner = new nn.LayerNorm(3);
  const expected = inner.forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2);
  assertClose(norm.forward(x).toArray(), expected.toArray(), 1e-6);
  const mean = norm.forward(x).mean(1).toArray();
  assert.ok(mean.every((value) => Math.abs(value) < 1e-5));
  assert.deepEqual(Object.keys(norm.stateDict()), ["weight", "bias"]);
  assert.throws(() => norm.forward(Tensor.zeros(2, 3)), { name: "ShapeError", message: /\[2, 3\], expected \[batch, channels, height, width\]/ });
});

test("gatedDeltaRule is the method of its name", () => {
  const [q, k, v] = [1, 2, 3].map(() => Tensor.randn(1, 4, 2, 3));
  const [decay, beta] = [Tensor.rand(1, 4, 2).neg(), Tensor.rand(1, 4, 2)];
  const state = Tensor.randn(1, 2, 3, 3);
  const before = state.tolist();
  const [output, last] = nn.gatedDeltaRule(q, k, v, decay, beta, state);
  const [expected] = q.gatedDeltaRule(k, v, decay, beta, state);
  assert.deepEqual(output.tolist(), expected.tolist());
  assert.deepEqual(state.tolist(), before);
  // Step by step it is the same.
  let carried = state;
  for (let at = 0; at < 4; at++) {
    const part = (x) => x.narrow(1, at, 1);
    const [one, next] = nn.gatedDeltaRule(part(q), part(k), part(v), part(decay), part(beta), carried);
    assertClose(one.toArray(), part(output).toArray(), 1e-5);
    carried = next;
  }
  assertClose(carried.toArray(), last.toArray(), 1e-5);
  assert.throws(() => nn.gatedDeltaRule(5), { op: "gatedDeltaRule", message: /q is 5, expected a Tensor/ });
});

test("settings that are left out are those of torch, and of the papers where torch has no such rule", () => {
  const parameter = Tensor.ones([2, 2], true);
  const adam = { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8 };
  for (const [rule, expected] of Object.entries({
    SGD: { lr: 1e-3, momentum: 0, dampening: 0, nesterov: false, weightDecay: 0 },
    Adam: { ...adam, weightDecay: 0 },
    AdamW: { ...adam, weightDecay: 0.01 },
    Lion: { lr: 1e-4, betas: [0.9, 0.99], weightDecay: 0 },
  })) {
    const [{ params, ...settings }] = new optim[rule]([parameter]).groups;
    assert.deepEqual(settings, expected, rule);
    assert.deepEqual(params, [parameter]);
  }
  // What they come to: a gradient of 2 moves by the rate alone.
  parameter.grad = Tensor.full([2, 2], 2);
  new optim.SGD([parameter]).step();
  assertClose(parameter.toArray(), [0.998, 0.998, 0.998, 0.998], 1e-6);
  new optim.Adam([parameter]).step();
  assertClose(parameter.toArray(), [0.997, 0.997, 0.997, 0.997], 1e-6);
});

test("settings are looked at wherever they come from: options, groups, loaded states, and what was set between steps", () => {
  const rules = {
    SGD: { lr: NaN, momentum: -1, dampening: NaN, nesterov: 1, weightDecay: Infinity },
    Adam: { lr: "1", betas: [0.9, 1], eps: NaN, weightDecay: -1 },
    AdamW: { betas: "xx", eps: Infinity },
    Lion: { betas: [NaN, 0.5] },
    LARS: { momentum: NaN, nesterov: null, trust: NaN },
    LAMB: { betas: [0.9], eps: -1 },
    Muon: { momentum: Infinity, nesterov: "no", nsSteps: 1e9, eps: NaN },
  };
  for (const [name, bad] of Object.entries(rules)) {
    for (const [setting, value] of Object.entries(bad)) {
      const refused = { name: "ShapeError", message: new RegExp(`${name}.*(${setting}|a beta) is `) };
      const parameter = new Tensor([[1, 2], [3, 4]], true);
      assert.throws(() => new optim[name]([parameter], { [setting]: value }), refused);
      assert.throws(() => new optim[name]([{ params: [parameter], [setting]: value }]), refused);
      const rule = new optim[name]([parameter]);
      parameter.square().sum().backward();
      rule.step();
      const [before, state] = [parameter.tolist(), rule.stateDict()];
      assert.throws(() => rule.loadStateDict({ ...state, steps: 9, groups: [{ ...state.groups[0], [setting]: value }] }), refused);
      assert.equal(rule.steps, 1);
      rule.groups[0][setting] = value;
      assert.throws(() => rule.step(), refused);
      assert.deepEqual([parameter.tolist(), rule.steps], [before, 1]);
    }
  }
  const sgd = new optim.SGD([Tensor.ones(2, true)], { momentum: 0.9 });
  assert.throws(() => sgd.addParamGroup({ params: [Tensor.ones(2, true)], nesterov: true, dampening: 0.5 }), /Nesterov's form takes/);
  const muon = new optim.Muon([Tensor.ones(2, 2, true)]);
  assert.throws(() => muon.addParamGroup({ params: [Tensor.ones(2, true)] }), /shape \[2\], expected two axes/);
  assert.equal(sgd.groups.length + muon.groups.length, 2);
  assert.throws(() => new optim.SGD([Tensor.ones(2, true)], { lr: 1n }), /lr is 1, expected a finite number/);
});

test("a state of which one part is refused changes nothing of an optimiser or a group of them", () => {
  const [a, b] = [0, 1].map(() => new Tensor([[1, 2], [3, 4]], true));
  const [sgd, adam] = [new optim.SGD([a], { lr: 0.1 }), new optim.Adam([b], { lr: 0.2 })];
  b.square().sum().backward();
  adam.step();
  const group = new optim.OptimizerGroup(sgd, adam);
  const [first, second] = group.stateDict().optimizers;
  const other = { ...first, steps: 7, groups: [{ ...first.groups[0], lr: 5 }] };
  const wrong = { ...second, slots: { ...second.slots, "0.m": Tensor.ones(1) } };
  assert.throws(() => group.loadStateDict({ optimizers: [other, wrong] }), /0\.m has the shape \[1\], expected \[2, 2\]/);
  assert.deepEqual([sgd.steps, sgd.lr, adam.steps], [0, 0.1, 1]);
  group.loadStateDict({ optimizers: [other, second] });
  assert.deepEqual([sgd.steps, sgd.lr, adam.steps], [7, 5, 1]);
  const { "0.m": m, "0.v": v } = second.slots;
  for (const name of ["-0.m", "0x0.m", "00.m", ".m", " 0.m", "0.m.more", "1.m", "__proto__"]) {
    assert.throws(() => adam.loadStateDict({ ...second, slots: Object.fromEntries([[name, m], ["0.v", v]]) }), /the state has/);
  }
});
