// Training steps for the benchmarks: one network with Adam, here and in TensorFlow.js. A step gives its loss.
import { compile, noGrad, Tensor } from "../dist/node.js";

const BETA1 = 0.9;
const BETA2 = 0.999;

/** Layers, data and learning rate of a network. */
const NETWORKS = {
  xor: { sizes: [2, 8, 1], batch: 4, rate: 0.01 },
  mlp: { sizes: [784, 512, 512, 10], batch: 128, rate: 1e-3 },
};

/** A compiled step: gradients and Adam's writes are part of the program. */
export function ours(name) {
  const { sizes, batch, rate } = NETWORKS[name];
  const [x, y] = data(name, batch, sizes, (elements, shape) => Tensor.fromData(elements, shape));
  const layers = sizes.slice(1).map((to, at) => {
    const bound = 1 / Math.sqrt(sizes[at]);
    const weight = Tensor.rand([sizes[at], to], { low: -bound, high: bound, requiresGrad: true });
    return { weight, bias: Tensor.zeros([to], true) };
  });
  const states = layers.flatMap(({ weight, bias }) =>
    [weight, bias].map((value) => ({ value, m: Tensor.zeros(value.shape), v: Tensor.zeros(value.shape) })),
  );
  const powers = [BETA1, BETA2].map((beta) => ({ beta, power: Tensor.ones([]) }));
  const lr = Tensor.fromData([rate], []);
  const forward = (input) =>
    layers.reduce((h, { weight, bias }, at) => {
      const z = h.matmul(weight).add(bias);
      return at === layers.length - 1 ? z : name === "xor" ? z.tanh() : z.relu();
    }, input);
  const step = compile((input, target) => {
    const output = forward(input);
    const loss = name === "xor" ? output.sub(target).square().mean() : output.crossEntropy(target);
    loss.backward();
    noGrad(() => {
      const [bias1, bias2] = powers.map(({ beta, power }) => power.mul_(beta).rsubScalar(1));
      for (const { value, m, v } of states) {
        const next = value.adamw(value.grad, m, v, lr, bias1, bias2, BETA1, BETA2, 1e-8, 0);
        [value, m, v].forEach((tensor, at) => tensor.copy_(next[at]));
        value.grad = null;
      }
    });
    return loss;
  }, [x, y]);
  return () => step.run([x, y]);
}

/** The same in TensorFlow.js, with its own optimizer. */
export function theirs(name, tf) {
  const { sizes, batch, rate } = NETWORKS[name];
  const [x, y] = data(name, batch, sizes, (elements, shape) =>
    elements instanceof Int32Array ? tf.oneHot(tf.tensor1d(elements, "int32"), sizes.at(-1)) : tf.tensor(elements, shape),
  );
  const layers = sizes.slice(1).map((to, at) => {
    const bound = 1 / Math.sqrt(sizes[at]);
    return { weight: tf.variable(tf.randomUniform([sizes[at], to], -bound, bound)), bias: tf.variable(tf.zeros([to])) };
  });
  const adam = tf.train.adam(rate, BETA1, BETA2, 1e-8);
  const loss = () => {
    const output = layers.reduce((h, { weight, bias }, at) => {
      const z = tf.add(tf.matMul(h, weight), bias);
      return at === layers.length - 1 ? z : name === "xor" ? tf.tanh(z) : tf.relu(z);
    }, x);
    return name === "xor" ? tf.mean(tf.square(tf.sub(output, y))) : tf.losses.softmaxCrossEntropy(y, output);
  };
  return () => {
    const cost = adam.minimize(loss, true);
    const [value] = cost.dataSync();
    cost.dispose();
    return value;
  };
}

/** Inputs and targets; `make` takes typed arrays and shapes. */
function data(name, batch, sizes, make) {
  if (name === "xor") {
    return [make(Float32Array.of(0, 0, 0, 1, 1, 0, 1, 1), [4, 2]), make(Float32Array.of(0, 1, 1, 0), [4, 1])];
  }
  const inputs = Float32Array.from({ length: batch * sizes[0] }, (_, at) => Math.sin(at * 12.9898) * 0.5 + 0.5);
  const classes = Int32Array.from({ length: batch }, (_, at) => at % sizes.at(-1));
  return [make(inputs, [batch, sizes[0]]), make(classes, [batch])];
}
