// A network that learns exclusive or: one program for every face of the class API. `lanthorn` is the module to use, of
// Node or of a page; `print` takes each line. Numbers are read with `await`, which a page needs and Node allows.

const SHOWN = new Set([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1500, 2000]);
const RATE = 0.01;
const BETA1 = 0.9;
const BETA2 = 0.999;

export async function xor({ Tensor, manualSeed, noGrad }, print) {
  const x = Tensor.fromData([0, 0, 0, 1, 1, 0, 1, 1], [4, 2]);
  const y = Tensor.fromData([0, 1, 1, 0], [4, 1]);

  manualSeed(7);
  const w1 = Tensor.rand([2, 8], { low: -1, high: 1, requiresGrad: true });
  const w2 = Tensor.rand([8, 1], { low: -1, high: 1, requiresGrad: true });
  const b1 = Tensor.zeros([8], true);
  const b2 = Tensor.zeros([1], true);
  const parameters = [w1, b1, w2, b2].map((value) => ({ value, m: Tensor.zeros(value.shape), v: Tensor.zeros(value.shape) }));
  const rate = Tensor.fromData([RATE], []);

  for (let step = 1; step <= 2000; step++) {
    const hidden = x.matmul(w1).add(b1).tanh();
    const loss = hidden.matmul(w2).add(b2).sub(y).square().mean();
    loss.backward();

    noGrad(() => {
      const bias1 = Tensor.fromData([1 - BETA1 ** step], []);
      const bias2 = Tensor.fromData([1 - BETA2 ** step], []);
      for (const { value, m, v } of parameters) {
        const next = value.adamw(value.grad, m, v, rate, bias1, bias2, BETA1, BETA2, 1e-8, 0);
        [value, m, v].forEach((tensor, at) => tensor.copy_(next[at]));
        value.grad = null;
      }
    });

    if (SHOWN.has(step)) print(`${step} ${(await loss.item()).toExponential(8).replace("+", "")}`);
  }
}
