// What runs in the page. Each case takes the package and gives what can be sent back.

import { xor } from "/examples/xor/xor.mjs";

/** The linear regression of a class API's tutorial: y = 2x + 1. */
export async function regression({ Tensor, noGrad, manualSeed }) {
  const x = Tensor.fromData([1, 2, 3, 4, 5], [5, 1]);
  const yTrue = Tensor.fromData([3, 5, 7, 9, 11], [5, 1]);
  manualSeed(1);
  const w = Tensor.randn([1, 1], true);
  const b = Tensor.zeros([1], true);
  const losses = [];
  for (let epoch = 0; epoch < 1000; epoch++) {
    const loss = x.matmul(w).add(b).sub(yTrue).square().mean();
    loss.backward();
    noGrad(() => {
      for (const parameter of [w, b]) {
        parameter.sub_(parameter.grad.mul(0.03));
        parameter.grad = null;
      }
    });
    if (epoch % 100 === 0) losses.push(await loss.item());
  }
  return { w: await w.item(), b: await b.item(), losses };
}

/** The lines that the program for every face prints. */
export async function xorLines(lanthorn) {
  const lines = [];
  await xor(lanthorn, (line) => lines.push(line));
  return lines;
}

/** A fused region: a chain over broadcast operands, and a reduction with a body. */
export async function fused({ Tensor }) {
  const x = Tensor.fromData(ramp(48, -2), [6, 8]);
  const row = Tensor.fromData(ramp(8, 0.5), [8]);
  const y = x.mul(row).tanh().add(x.sigmoid()).exp();
  return [...(await y.toArray()), ...(await y.sub(1).square().sum(1).toArray())];
}

/** A matrix product of odd sizes. */
export async function product({ Tensor }) {
  const a = Tensor.fromData(ramp(17 * 23, -1), [17, 23]);
  const b = Tensor.fromData(ramp(23 * 19, 1), [23, 19]);
  return [...(await a.matmul(b).toArray())];
}

/** Values that are neither whole nor all alike. */
function ramp(count, from) {
  return Array.from({ length: count }, (_, at) => from + Math.sin(at * 1.7) * 0.9);
}

/** The bits of results whose work is cut into tasks: products, sums, a softmax, gradients. */
export async function bits({ Tensor, manualSeed }) {
  manualSeed(3);
  const a = Tensor.randn([300, 200], true);
  const b = Tensor.randn([200, 250]);
  const c = a.matmul(b).softmax(-1);
  const loss = c.mul(c).sum();
  loss.backward();
  const arrays = await Promise.all([c, c.sum(0), a.grad, loss].map((tensor) => tensor.toArray()));
  return arrays.map((array) => [...new Uint32Array(array.buffer)].reduce((hash, word) => (hash * 31 + word) | 0, 7));
}

/** Errors as a page sees them: at once where shapes say so, with the read where numbers do. */
export async function errors({ Tensor, DTypeError, ShapeError }) {
  const told = [];
  const tell = (error) => told.push([error.name, error.kind, error.message]);
  const table = Tensor.fromData([1, 2, 3, 4], [2, 2]);
  try {
    table.matmul(Tensor.fromData([1, 2, 3], [3, 1]));
  } catch (error) {
    tell(error);
  }
  const rows = table.embedding(Tensor.fromData(new BigInt64Array([9n]), [1]));
  await rows.toArray().catch(tell);
  await rows.exp().toArray().catch(tell);
  return { told, after: [...(await table.add(1).toArray())] };
}

/** Steps whose tensors are let go: what the engine holds early and late. */
export async function steps({ Tensor, noGrad, trackTensors }, page, count) {
  const seen = [];
  const x = Tensor.fromData(ramp(64 * 32, 0), [64, 32]);
  const w = Tensor.fromData(ramp(32 * 16, 1), [32, 16], true);
  for (let step = 1; step <= count; step++) {
    const read = trackTensors(() => {
      const loss = x.matmul(w).tanh().square().mean();
      loss.backward();
      noGrad(() => w.sub_(w.grad.mul(0.01)));
      w.grad = null;
      return step % 10 === 0 ? { value: loss.item() } : {};
    });
    await read.value;
    if (step === 100 || step === count) seen.push(await page.usage());
  }
  return seen;
}

/**
 * What the main thread feels while the engine computes for long, in milliseconds: the longest task that the browser
 * reports (from 50 on), the longest stop of the event loop, and the longest gap between frames; and how often it had its
 * turn.
 */
export async function responsiveness({ Tensor }) {
  const tasks = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)));
  observer.observe({ type: "longtask" });
  const a = Tensor.rand([768, 768]);
  await a.mean().item();
  let running = true;
  /** Lets `schedule` call back again and again; gives the longest time in between. */
  const watch = (schedule) => {
    const seen = { longest: 0, count: 0 };
    let last = performance.now();
    const turn = () => {
      const now = performance.now();
      seen.longest = Math.max(seen.longest, now - last);
      last = now;
      seen.count++;
      if (running) schedule(turn);
    };
    schedule(turn);
    return seen;
  };
  const { port1, port2 } = new MessageChannel();
  const loop = watch((turn) => {
    port1.onmessage = turn;
    port2.postMessage(0);
  });
  const frames = watch((turn) => requestAnimationFrame(turn));
  const begin = performance.now();
  let product = a;
  for (let k = 0; k < 20; k++) product = product.matmul(a).mul(1 / 384);
  await product.mean().item();
  running = false;
  const elapsed = performance.now() - begin;
  observer.disconnect();
  port1.close();
  const longestTask = Math.max(0, ...tasks);
  return { longestTask, longestStop: loop.longest, longestGap: frames.longest, turns: loop.count, elapsed };
}

/** Seconds of one product of two matrices of `n` rows, the fastest of several. */
export async function matmulSeconds({ Tensor, commit, trackTensors }, page, n) {
  const a = Tensor.rand([n, n]);
  const b = Tensor.rand([n, n]);
  await Promise.all([a.mean().item(), b.mean().item()]);
  const products = 10;
  let best = Infinity;
  for (let round = 0; round < 6; round++) {
    const begin = performance.now();
    const last = trackTensors(() => {
      // Each commit is a program of one product.
      for (let k = 1; k < products; k++) commit([a.matmul(b)]);
      const product = a.matmul(b);
      commit([product]);
      return product.select(0, 0).select(0, 0);
    });
    await last.item();
    last.dispose();
    best = Math.min(best, (performance.now() - begin) / 1000 / products);
  }
  return best;
}

/** The same by TensorFlow.js, which computes on the main thread. */
export async function peerMatmulSeconds(_lanthorn, _page, n) {
  const script = (src) =>
    new Promise((resolve, reject) => {
      const element = Object.assign(document.createElement("script"), { src, onload: resolve, onerror: reject });
      document.head.append(element);
    });
  const folder = "/peers/node_modules/@tensorflow";
  await script(`${folder}/tfjs-core/dist/tf-core.min.js`);
  await script(`${folder}/tfjs-backend-wasm/dist/tf-backend-wasm.min.js`);
  tf.wasm.setWasmPaths(`${folder}/tfjs-backend-wasm/dist/`);
  await tf.setBackend("wasm");
  const a = tf.randomUniform([n, n]);
  const b = tf.randomUniform([n, n]);
  const products = 10;
  let best = Infinity;
  for (let round = 0; round < 6; round++) {
    const begin = performance.now();
    const made = Array.from({ length: products }, () => tf.matMul(a, b));
    await made[products - 1].data();
    best = Math.min(best, (performance.now() - begin) / 1000 / products);
    tf.dispose(made);
  }
  return best;
}
