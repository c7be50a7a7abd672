// Functions of Tensor and Loss against values of NumPy, SciPy, mpmath and upstream torch: the cases of the engine's own suite
// (`crates/optest/fixtures`), called through this package.
import { Loss, Tensor } from "@lanthorn/effect";
import { Effect, Exit } from "effect";
import assert from "node:assert/strict";
import { test } from "node:test";

import { cases, difference, elementsOf, tolerances } from "../../lanthorn/test/fixtures.mjs";
import { run, values } from "./support.mjs";

const CLASSES = {
  f64: Float64Array,
  f32: Float32Array,
  i64: BigInt64Array,
  u8: Uint8Array,
  u32: Uint32Array,
  bool: Uint8Array,
};

/** What a dtype of the engine is seen as. */
const seen = (dtype) => (dtype === "bool" ? "u8" : /^(i32|i16|i8|u64|u16)$/.test(dtype) ? "i64" : dtype);

const operandOf = ({ dtype, shape, data }) =>
  Tensor.fromTypedArray(CLASSES[dtype].from(dtype === "bool" ? data.map(Number) : elementsOf({ dtype, data })), shape);

/** Attributes with the numbers that JSON has no words for. */
const SPECIAL = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const numbers = (attributes) =>
  Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, SPECIAL[value] ?? value]));

/** An absent attribute has the table's default. */
const or = (value, other) => value ?? other;
const reduce = ({ axes, keepdim }) => ({ dims: or(axes, []), keepdims: or(keepdim, false) });
const same = (...names) => Object.fromEntries(names.map((name) => [name, (x) => Tensor[camel(name)](...x)]));
const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const reductions = (...names) =>
  Object.fromEntries(names.map((name) => [name, ([x], a) => Tensor[name](x, reduce(a))]));
/** The one number of a list that holds it for each axis, or undefined. */
const single = (value, other) => {
  const list = [value ?? other].flat();
  return list.every((number) => number === list[0]) ? list[0] : undefined;
};
const SKIP = undefined;

const conv =
  (name, rank) =>
  ([x, weight, bias], { stride, padding, dilation, groups, same, output_padding }) => {
    const options = {
      stride: single(stride, 1),
      padding: single(padding, 0),
      dilation: single(dilation, 1),
      groups: or(groups, 1),
    };
    if (output_padding !== undefined) options.outputPadding = single(output_padding, 0);
    if (same || x.shape.length !== rank + 2 || Object.values(options).includes(undefined)) return SKIP;
    const made = Tensor[name](x, weight, options);
    if (bias === undefined) return made;
    const column = Tensor.reshape(bias, [-1, ...Array(rank).fill(1)]);
    return Effect.flatMap(made, (y) => Effect.flatMap(column, (b) => Tensor.add(y, b)));
  };
const pool =
  (name) =>
  ([x], { kernel, stride, padding, dilation, ceil_mode, count_include_pad, divisor }) => {
    if (
      ceil_mode ||
      divisor != null ||
      count_include_pad === false ||
      single(dilation, 1) !== 1 ||
      x.shape.length !== 4
    )
      return SKIP;
    const size = [kernel].flat();
    if (single(padding, 0) === undefined) return SKIP;
    const pair = (list) => (list.length === 1 ? [list[0], list[0]] : list);
    return Tensor[name](x, {
      kernelSize: pair(size),
      padding: single(padding, 0),
      ...(stride?.length > 0 && { stride: pair(stride) }),
    });
  };
const loss =
  (name, options = () => ({})) =>
  ([x, y, ...rest], a) =>
    rest.some((tensor) => tensor !== undefined)
      ? SKIP
      : Loss[name](x, y, { reduction: or(a.reduction, "mean"), ...options(a) });
const classes =
  (name) =>
  ([x, y, weight], { reduction, ignore, label_smoothing, axis }) =>
    weight || label_smoothing || axis != null || (ignore != null && ignore !== -100) || !y.dtype.startsWith("i")
      ? SKIP
      : Loss[name](x, y, { reduction: or(reduction, "mean") });

/** How each op of the cases is called here; undefined for a case that has no counterpart. */
const CALLS = {
  ...same(
    "neg",
    "abs",
    "sign",
    "floor",
    "ceil",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "square",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "erf",
    "sigmoid",
    "relu",
    "silu",
    "mish",
    "logical_not",
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "remainder",
    "eq",
    "ne",
    "gt",
    "lt",
    "ge",
    "le",
    "logical_and",
    "logical_or",
    "where",
    "matmul",
    "dot",
    "inverse",
    "det",
  ),
  ...reductions("sum", "prod", "mean", "max", "min", "logsumexp", "any", "all"),
  pow_scalar: ([x], { y }) => Tensor.pow(x, y),
  clamp: ([x], { low, high }) =>
    Tensor.clamp(x, { ...(low != null && { min: low }), ...(high != null && { max: high }) }),
  softplus: ([x], { beta, threshold }) => (or(beta, 1) === 1 && or(threshold, 20) === 20 ? Tensor.softplus(x) : SKIP),
  leaky_relu: ([x], { slope }) => Tensor.leakyRelu(x, { negativeSlope: or(slope, 0.01) }),
  elu: ([x], { alpha }) => Tensor.elu(x, { alpha: or(alpha, 1) }),
  gelu: ([x], { approximate }) => Tensor.gelu(x, { approximate: or(approximate, "none") }),
  hardtanh: ([x], { low, high }) => (or(low, -1) === -1 && or(high, 1) === 1 ? Tensor.hardtanh(x) : SKIP),
  var: ([x], a) => Tensor.variance(x, { ...reduce(a), correction: or(a.correction, 1) }),
  std: ([x], a) => Tensor.std(x, { ...reduce(a), correction: or(a.correction, 1) }),
  norm: ([x], a) => Tensor.norm(x, { ...reduce(a), ord: or(a.ord, 2) }),
  argmax: ([x], { axis, keepdim }) => (axis == null || keepdim ? SKIP : Tensor.argmax(x, axis)),
  argmin: ([x], { axis, keepdim }) => (axis == null || keepdim ? SKIP : Tensor.argmin(x, axis)),
  cumsum: ([x], { axis }) => Tensor.cumsum(x, axis),
  softmax: ([x], { axis }) => Tensor.softmax(x, { dims: [axis] }),
  log_softmax: ([x], { axis }) => Tensor.logSoftmax(x, { dims: [axis] }),
  reshape: ([x], { shape }) => Tensor.reshape(x, shape),
  permute: ([x], { axes }) => Tensor.transpose(x, axes),
  flatten: ([x], { start, end }) => Tensor.flatten(x, { startDim: or(start, 0), endDim: or(end, -1) }),
  squeeze: ([x], { axes }) => Tensor.squeeze(x, axes === undefined ? undefined : { dims: axes }),
  unsqueeze: ([x], { axis }) => Tensor.unsqueeze(x, axis),
  broadcast_to: ([x], { shape }) => Tensor.broadcastTo(x, shape),
  tile: ([x], { repeats }) => Tensor.tile(x, repeats),
  flip: ([x], { axes }) => (axes === undefined ? SKIP : Tensor.flip(x, axes)),
  pad: ([x], { low, high, value }) =>
    value
      ? SKIP
      : Tensor.pad(
          x,
          low.map((before, at) => [before, high[at]]),
        ),
  triu: ([x], { diagonal }) => Tensor.triu(x, { diagonal: or(diagonal, 0) }),
  tril: ([x], { diagonal }) => Tensor.tril(x, { diagonal: or(diagonal, 0) }),
  concat: (x, { axis }) => (x.length < 2 ? SKIP : Tensor.concat(x, { dim: or(axis, 0) })),
  stack: (x, { axis }) => (x.length < 2 ? SKIP : Tensor.stack(x, { dim: or(axis, 0) })),
  slice: ([x], { axis, start, stop, step }) => {
    const at = axis < 0 ? axis + x.shape.length : axis;
    if (!(at < x.shape.length) || or(step, 1) < 0) return SKIP;
    const place = (value, other) => x.shape.map((size, k) => (k === at ? or(value, other(size)) : other(size)));
    return Tensor.slice(x, {
      start: place(start, () => 0),
      end: place(stop, (size) => size),
      stride: place(step, () => 1),
    });
  },
  index_select: ([x, ids], { axis }) => Tensor.take(x, ids, { dim: axis }),
  gather: ([x, ids], { axis }) => Tensor.gather(x, ids, { dim: axis }),
  scatter_add: ([x, ids, source], { axis }) => Tensor.scatterAdd(x, ids, source, { dim: axis }),
  one_hot: ([ids], { classes, dtype }) =>
    /^b?f\d+$/.test(dtype?.dtype ?? "f32") ? Tensor.oneHot(ids, classes, { dtype: dtype?.dtype ?? "f32" }) : SKIP,
  embedding: ([weight, ids]) => Tensor.embedding(ids, { weight }),
  padded_embedding: ([weight, ids], { padding }) => Tensor.embedding(ids, { weight, paddingIndex: padding }),
  linear: ([x, weight, bias]) => Tensor.linearRows(x, weight, bias),
  solve: ([x, b], { left }) => (left === false ? SKIP : Tensor.solve(x, b)),
  trace: ([x], { offset }) => (offset ? SKIP : Tensor.trace(x)),
  layer_norm: ([x, weight, bias], { eps }) =>
    weight && bias ? Tensor.layerNorm(x, weight, bias, or(eps, 1e-5)) : SKIP,
  rms_norm: ([x, weight], { eps }) => (eps == null ? SKIP : Tensor.rmsNorm(x, weight, eps)),
  rotary_embedding: ([x, positions], { theta, interleaved, axis, width, factor, inverse }) =>
    positions || or(axis, -2) !== -2 || width != null || factor != null || inverse
      ? SKIP
      : Tensor.rotaryEmbedding(x, x.shape.at(-2), or(theta, 10000), {
          layout: interleaved ? "InterleavedPairs" : "HalfSplit",
        }),
  scaled_dot_product_attention: ([q, k, v, ...rest], a) =>
    rest.some((tensor) => tensor !== undefined) ||
    a.dropout_p ||
    a.window_left != null ||
    a.window_right != null ||
    a.softcap != null
      ? SKIP
      : Tensor.scaledDotProductAttention(q, k, v, {
          causal: or(a.is_causal, false),
          ...(a.scale != null && { scale: a.scale }),
        }),
  gated_delta_rule: ([q, k, v, decay, beta, state], { scale }) => {
    if (state !== undefined || decay.shape.length !== 4) return SKIP;
    return Effect.gen(function* () {
      const turned = (x) => Tensor.transpose(x, x.shape.length === 4 ? [0, 2, 1, 3] : [0, 2, 1]);
      const operands = yield* Effect.forEach([q, k, v, decay, beta], turned);
      return yield* turned(yield* Tensor.kdaChunk(...operands, scale == null ? {} : { scale }));
    });
  },
  short_conv1d: ([x, weight, state]) => (state === undefined ? Tensor.shortConv1d(x, weight) : SKIP),
  conv1d: conv("conv1d", 1),
  conv2d: conv("conv2d", 2),
  conv_transpose1d: conv("convTranspose1d", 1),
  conv_transpose2d: conv("convTranspose2d", 2),
  max_pool2d: pool("maxPool2d"),
  avg_pool2d: pool("avgPool2d"),
  mse_loss: loss("mse"),
  l1_loss: loss("l1"),
  huber_loss: loss("huber", ({ delta }) => ({ delta: or(delta, 1) })),
  binary_cross_entropy: loss("binaryCrossEntropy"),
  binary_cross_entropy_with_logits: loss("binaryCrossEntropy", () => ({ fromLogits: true })),
  hinge_loss: loss("hinge"),
  kl_div: ([x, y], { reduction, log_target }) =>
    log_target ? SKIP : Loss.klDiv(x, y, { reduction: or(reduction, "mean") }),
  cross_entropy: classes("crossEntropy"),
  nll_loss: classes("nll"),
  cosine_embedding_loss: ([x, y, targets], { margin, reduction }) =>
    Loss.cosineEmbeddingLoss(x, y, targets, { margin: or(margin, 0), reduction: or(reduction, "mean") }),
};

const TOLERANCE = tolerances();
const isSeen = (tensor) => tensor === null || CLASSES[tensor.dtype] !== undefined;
const chosen = cases().filter(({ op, tensors }) => CALLS[op] !== undefined && tensors.every(isSeen));

test("functions give the values from outside", async (t) => {
  const failures = [];
  const met = new Map();
  await run(
    Effect.gen(function* () {
      for (const row of chosen) {
        const exit = yield* Effect.exit(
          Effect.gen(function* () {
            const operands = [];
            for (const tensor of row.tensors) operands.push(tensor === null ? undefined : yield* operandOf(tensor));
            const call = CALLS[row.op](operands, numbers(row.attributes));
            if (call === SKIP) return undefined;
            const found = yield* call;
            const [expected] = row.expected;
            assert.equal(found.dtype, seen(expected.dtype));
            assert.deepEqual([...found.shape], expected.shape);
            const list = (yield* values(found)).map((x) =>
              expected.dtype === "i64" || found.dtype !== "i64" ? x : Number(x),
            );
            const within = Math.max(row.tolerance, TOLERANCE[expected.dtype] ?? 0);
            return difference(list, elementsOf(expected), within) ?? "agrees";
          }),
        );
        if (Exit.isFailure(exit)) failures.push(`${row.what}: ${String(exit.cause).split("\n")[0]}`);
        else if (exit.value === "agrees") met.set(row.op, (met.get(row.op) ?? 0) + 1);
        else if (exit.value !== undefined) failures.push(`${row.what}: ${exit.value}`);
      }
    }),
  );
  t.diagnostic(`${[...met.values()].reduce((a, b) => a + b, 0)} calls of ${met.size} ops agree`);
  const unmet = Object.keys(CALLS).filter((op) => !met.has(op));
  assert.deepEqual([failures, unmet], [[], []]);
});
