/**
 * The mapping table: what each operation of a graph is in the engine's op table.
 *
 * Shapes, dtypes and gradients are the engine's business. What stands here beside names is where conventions differ: flags
 * are `u8` in a graph and `bool` in the engine, absent operands are handle 0, and lists have their order.
 */

import {
  bool,
  DRAW,
  dtype,
  float,
  integer,
  integers,
  none,
  scalar,
  word,
  type Attribute,
  type Engine,
  type OpName,
} from "./adapter/engine.js";
import type { LossReduction, NodeOperationMap } from "./operation-map.js";
import type { TensorHandle } from "./runtime.js";

/** The attributes of an operation. */
type Attributes<K extends keyof NodeOperationMap> = NodeOperationMap[K] extends { readonly attributes: infer A }
  ? A
  : unknown;

/** Makes the handle of a node, or the handles of an operation with several results. */
type PlanOf<A> = (
  engine: Engine,
  operands: ReadonlyArray<number>,
  given: { readonly attributes: A; readonly inputs: ReadonlyArray<TensorHandle> },
) => number | number[];

type Plan<K extends keyof NodeOperationMap> = PlanOf<Attributes<K>>;

/** An op of the engine on the same operands. */
const same =
  (op: OpName): PlanOf<unknown> =>
  (engine, operands) =>
    engine.op(op, operands);

/** An op of the engine on the same operands with attributes in the order of the op table. */
const mapped =
  <A>(op: OpName, attributes: (attributes: A) => ReadonlyArray<Attribute>, absent: ReadonlyArray<0> = []): PlanOf<A> =>
  (engine, operands, given) =>
    engine.op(op, [...operands, ...absent], ...attributes(given.attributes));

const reduction = (op: OpName) =>
  mapped<Attributes<"sum">>(op, ({ dims, keepdims }) => [integers(dims), bool(keepdims)]);
const along = (op: OpName) => mapped<Attributes<"cumsum">>(op, ({ dim }) => [integer(dim)]);
const spread = (op: OpName) =>
  mapped<Attributes<"variance">>(op, ({ dims, keepdims, correction }) => [
    integers(dims),
    float(correction),
    bool(keepdims),
  ]);

const REDUCTIONS: ReadonlyArray<LossReduction> = ["mean", "sum", "none"];
const reduce = (value: LossReduction | undefined) => word(REDUCTIONS, value);

const pairLoss = (op: OpName, absent: ReadonlyArray<0> = []) =>
  mapped<Attributes<"mseLoss">>(op, ({ reduction }) => [reduce(reduction)], absent);

const classLoss =
  (op: OpName, rest: ReadonlyArray<Attribute>): PlanOf<Attributes<"crossEntropy">> =>
  (engine, [x, target], { attributes: { reduction, ignoreIndex } }) =>
    engine.op(op, [x as number, target as number, 0], reduce(reduction), integer(ignoreIndex), ...rest);

const convolution = (op: OpName) =>
  mapped<Attributes<"conv1d">>(
    op,
    ({ stride, padding, dilation, groups }) => [
      integers([stride]),
      integers([padding]),
      integers([dilation]),
      integer(groups),
      none,
    ],
    [0],
  );

const transposedConvolution = (op: OpName) =>
  mapped<Attributes<"convTranspose1d">>(
    op,
    ({ stride, padding, outputPadding, dilation, groups }) => [
      integers([stride]),
      integers([padding]),
      integers([outputPadding]),
      integers([dilation]),
      integer(groups),
    ],
    [0],
  );

const pooling = (op: OpName, rest: ReadonlyArray<Attribute>) =>
  mapped<Attributes<"maxPool2d">>(op, ({ kernelSize, stride, padding }) => [
    integers(kernelSize),
    integers(stride),
    integers([padding]),
    ...rest,
  ]);

/** An op of the engine on flags. */
const logical =
  (op: OpName): PlanOf<unknown> =>
  (engine, operands) =>
    engine.op(
      op,
      operands.map((operand) => engine.cast(operand, "bool")),
    );

/** Halves go away from zero, as in Rust and C; the engine's own op rounds them to even. */
const round: Plan<"round"> = (engine, [x]) => {
  const operand = x as number;
  const even = engine.op("round", [operand]);
  const fraction = engine.op("sub", [operand, engine.op("trunc", [operand])]);
  const isHalf = engine.op("eq_scalar", [engine.op("abs", [fraction])], scalar(0.5));
  // A half plus the fraction, which has the sign of x, is whole and exact.
  return engine.op("where", [isHalf, engine.op("add", [operand, fraction]), even]);
};

const whereCond: Plan<"whereCond"> = (engine, [condition, a, b]) =>
  engine.op("where", [engine.cast(condition as number, "bool"), a as number, b as number]);

const slice: Plan<"slice"> = (engine, [x], { attributes: { ranges }, inputs }) => {
  const { shape } = inputs[0] as TensorHandle;
  let result = x as number;
  ranges.forEach(([start = 0, end, step = 1], axis) => {
    if (start === 0 && step === 1 && (end === undefined || end === shape[axis])) return;
    result = engine.op("slice", [result], integer(axis), integer(start), integer(end), integer(step));
  });
  return result === x ? identity(engine, result, shape) : result;
};

/** A handle of its own for a value. */
const identity = (engine: Engine, x: number, shape: ReadonlyArray<number>) =>
  engine.op("reshape", [x], integers(shape));

const flip: Plan<"flip"> = (engine, [x], { attributes: { dims }, inputs }) =>
  dims.length === 0
    ? identity(engine, x as number, (inputs[0] as TensorHandle).shape)
    : engine.op("flip", [x as number], integers(dims));

const linear: Plan<"linear"> = (engine, [x, weight, bias]) => {
  const product = engine.op("matmul", [x as number, weight as number]);
  return engine.op("add", [product, bias as number]);
};

const embedding: Plan<"embedding"> = (engine, [indexes, weight], { attributes: { paddingIndex } }) => {
  const operands = [weight as number, indexes as number];
  return paddingIndex === undefined
    ? engine.op("embedding", operands)
    : engine.op("padded_embedding", operands, integer(paddingIndex));
};

const attention: Plan<"scaledDotProductAttention"> = (engine, operands, { attributes: { scale, causal, window } }) =>
  engine.op(
    "scaled_dot_product_attention",
    // No `past`, mask, key of dropout, slopes or lengths.
    [...operands, 0, 0, 0, 0, 0, 0],
    bool(causal),
    float(scale),
    none,
    // The window counts the token itself, which the engine's does not.
    integer(window == null ? undefined : window - 1),
    integer(window == null ? undefined : causal ? 0 : window - 1),
    none,
    none,
  );

const kdaChunk: Plan<"kdaChunk"> = (engine, operands, { attributes: { scale } }) => {
  /** Steps before heads, as the engine has them, and back. */
  const turned = (x: number) => engine.op("transpose", [x], integer(1), integer(2));
  // No state before the first step; the one after the last is not asked for.
  const [output] = engine.several("gated_delta_rule", [...operands.map(turned), 0], float(scale), none);
  return turned(output as number);
};

const shortConv1d: Plan<"shortConv1d"> = (engine, operands) => {
  // No steps before the first; those that come before the next are not asked for.
  const [output] = engine.several("short_conv1d", [...operands, 0]);
  return output as number;
};

const positionEmbedding: Plan<"positionEmbedding"> = (engine, [weight], { attributes: { seqLen } }) =>
  engine.op("embedding", [weight as number, engine.positions(seqLen)]);

const rotaryEmbedding: Plan<"rotaryEmbedding"> = (engine, [x], { attributes: { seqLen, theta, layout } }) =>
  engine.op(
    "rotary_embedding",
    [x as number, engine.positions(seqLen)],
    float(theta),
    bool(layout === "InterleavedPairs"),
    // Positions run along the axis before that of the pairs.
    integer(-2),
    ...[none, none, none, none, none, none],
  );

const adamwStep: Plan<"adamwStep"> = (engine, operands, { attributes: { beta1, beta2, eps, weightDecay } }) =>
  engine.several("adamw", operands, float(beta1), float(beta2), float(eps), float(weightDecay));

const sgdStep: Plan<"sgdStep"> = (engine, operands, { attributes, inputs }) => {
  const [param, grad, velocity, first, lr] = operands as [number, number, number, number, number];
  const { momentum, dampening, nesterov, weightDecay } = attributes;
  const settings = [float(momentum), bool(nesterov), float(weightDecay)];
  if (momentum === 0) {
    const [updated] = engine.several("sgd", [param, grad, lr, 0, 0], ...settings) as [number];
    return [updated, identity(engine, velocity, (inputs[2] as TensorHandle).shape)];
  }
  // 1 in the first step, 1 - dampening in others.
  const gain =
    dampening === 0
      ? 0
      : engine.op(
          "add_scalar",
          [engine.op("mul_scalar", [engine.cast(first, (inputs[0] as TensorHandle).dtype)], scalar(dampening))],
          scalar(1 - dampening),
        );
  return engine.several("sgd", [param, grad, lr, velocity, gain], ...settings);
};

/** Operations whose results are taken one by one by the operation of the second name. */
export const OUTPUTS = { adamwStep: "adamwOut", sgdStep: "sgdOut" } as const;

/** The plan of each operation; results of several are taken by the adapter. */
export const OPERATIONS: {
  readonly [K in Exclude<keyof NodeOperationMap, (typeof OUTPUTS)[keyof typeof OUTPUTS]>]: Plan<K>;
} = {
  constant: (engine, _, { attributes }) => engine.op("scalar", [], scalar(attributes.value), dtype(attributes.dtype)),
  zeros: (engine, _, { attributes }) => engine.op("zeros", [], integers(attributes.shape), dtype(attributes.dtype)),
  ones: (engine, _, { attributes }) => engine.op("ones", [], integers(attributes.shape), dtype(attributes.dtype)),
  full: (engine, _, { attributes }) =>
    engine.op("full", [], integers(attributes.shape), scalar(attributes.value), dtype(attributes.dtype)),
  randn: (engine, _, { attributes }) => engine.random(DRAW.normal, attributes.dtype, 0, 1, attributes.shape),
  uniform: (engine, _, { attributes: { dtype, lo, hi, shape } }) => engine.random(DRAW.uniform, dtype, lo, hi, shape),
  arange: (engine, _, { attributes: { start, end, step, dtype: of } }) =>
    engine.op("arange", [], scalar(start), scalar(end), scalar(step), dtype(of)),
  linspace: (engine, _, { attributes: { start, end, steps, dtype: of } }) =>
    engine.op("linspace", [], float(start), float(end), integer(steps), dtype(of)),
  eye: (engine, _, { attributes }) => engine.op("eye", [], integer(attributes.n), dtype(attributes.dtype)),
  fromBytes: (engine, _, { attributes: { dtype, shape, data } }) => engine.create(dtype, shape, data),
  input: (engine, _, { attributes: { slot, dtype, shape } }) => engine.input(slot, dtype, shape),
  scalarInput: (engine, _, { attributes: { slot, dtype } }) => engine.scalarInput(slot, dtype),

  neg: same("neg"),
  abs: same("abs"),
  sign: same("sign"),
  floor: same("floor"),
  ceil: same("ceil"),
  round,
  exp: same("exp"),
  expm1: same("expm1"),
  log: same("log"),
  log1p: same("log1p"),
  log2: same("log2"),
  log10: same("log10"),
  sqrt: same("sqrt"),
  rsqrt: same("rsqrt"),
  square: same("square"),
  reciprocal: same("reciprocal"),
  sin: same("sin"),
  cos: same("cos"),
  tan: same("tan"),
  sinh: same("sinh"),
  cosh: same("cosh"),
  tanh: same("tanh"),
  erf: same("erf"),
  logicalNot: logical("logical_not"),
  pow: mapped("pow_scalar", ({ exponent }) => [scalar(exponent)]),
  cast: mapped("cast", (attributes) => [dtype(attributes.dtype)]),
  clamp: mapped("clamp", ({ min, max }) => [scalar(min), scalar(max)]),
  whereCond,
  add: same("add"),
  sub: same("sub"),
  mul: same("mul"),
  div: same("div"),
  remainder: same("remainder"),
  maximum: same("maximum"),
  minimum: same("minimum"),
  eq: same("eq"),
  ne: same("ne"),
  gt: same("gt"),
  lt: same("lt"),
  ge: same("ge"),
  le: same("le"),
  logicalAnd: logical("logical_and"),
  logicalOr: logical("logical_or"),

  relu: same("relu"),
  sigmoid: same("sigmoid"),
  silu: same("silu"),
  mish: same("mish"),
  softplus: mapped("softplus", () => [none, none]),
  gelu: mapped("gelu", ({ approximate }) => [word(["none", "tanh"], approximate ? "tanh" : "none")]),
  elu: mapped("elu", ({ alpha }) => [float(alpha)]),
  leakyRelu: mapped("leaky_relu", ({ negativeSlope }) => [float(negativeSlope)]),
  dropout: (engine, [x], { attributes: { p } }) => engine.op("dropout", [x as number, engine.key()], float(p), none),

  sum: reduction("sum"),
  prod: reduction("prod"),
  mean: reduction("mean"),
  max: reduction("max"),
  min: reduction("min"),
  logsumexp: reduction("logsumexp"),
  any: reduction("any"),
  all: reduction("all"),
  variance: spread("var"),
  std: spread("std"),
  norm: mapped("norm", ({ dims, keepdims, ord }) => [integers(dims), bool(keepdims), float(ord)]),
  argmax: mapped("argmax", ({ dim }) => [integer(dim), none]),
  argmin: mapped("argmin", ({ dim }) => [integer(dim), none]),
  cumsum: along("cumsum"),
  softmax: along("softmax"),
  logSoftmax: along("log_softmax"),

  reshape: mapped("reshape", ({ shape }) => [integers(shape)]),
  broadcastTo: mapped("broadcast_to", ({ shape }) => [integers(shape)]),
  permute: mapped("permute", ({ dims }) => [integers(dims)]),
  slice,
  flatten: mapped("flatten", ({ startDim, endDim }) => [integer(startDim), integer(endDim)]),
  squeeze: mapped("squeeze", ({ dims }) => [integers(dims)]),
  unsqueeze: along("unsqueeze"),
  flip,
  tile: mapped("tile", ({ reps }) => [integers(reps)]),
  pad: mapped("pad", ({ pads }) => [
    integers(pads.map(([before]) => before)),
    integers(pads.map(([, after]) => after)),
    none,
  ]),
  triu: mapped("triu", ({ diagonal }) => [integer(diagonal)]),
  tril: mapped("tril", ({ diagonal }) => [integer(diagonal)]),
  concat: along("concat"),
  stack: along("stack"),
  indexSelect: along("index_select"),
  gather: along("gather"),
  scatterAdd: along("scatter_add"),
  oneHot: mapped("one_hot", (attributes) => [integer(attributes.depth), dtype(attributes.dtype)]),
  embedding,

  matmul: same("matmul"),
  dot: same("dot"),
  linear,
  linearRows: (engine, [x, weight, bias = 0]) => engine.op("linear", [x as number, weight as number, bias]),
  inverse: same("inverse"),
  det: same("det"),
  solve: (engine, operands) => engine.op("solve", operands, none),
  trace: (engine, operands) => engine.op("trace", operands, none),

  layerNorm: mapped("layer_norm", ({ eps }) => [float(eps)]),
  rmsNorm: (engine, [x, weight = 0], { attributes: { eps } }) =>
    engine.op("rms_norm", [x as number, weight], float(eps)),
  scaledDotProductAttention: attention,
  kdaChunk,
  positionEmbedding,
  rotaryEmbedding,
  conv1d: convolution("conv1d"),
  conv2d: convolution("conv2d"),
  shortConv1d,
  convTranspose1d: transposedConvolution("conv_transpose1d"),
  convTranspose2d: transposedConvolution("conv_transpose2d"),
  maxPool2d: pooling("max_pool2d", [none, none]),
  avgPool2d: pooling("avg_pool2d", [none, none, none]),

  crossEntropy: classLoss("cross_entropy", [none, none]),
  nllLoss: classLoss("nll_loss", [none]),
  mseLoss: pairLoss("mse_loss"),
  l1Loss: pairLoss("l1_loss"),
  hingeLoss: pairLoss("hinge_loss"),
  klDiv: mapped("kl_div", ({ reduction }) => [reduce(reduction), none]),
  binaryCrossEntropy: pairLoss("binary_cross_entropy", [0]),
  binaryCrossEntropyWithLogits: pairLoss("binary_cross_entropy_with_logits", [0, 0]),
  huberLoss: mapped("huber_loss", ({ delta, reduction }) => [float(delta), reduce(reduction)]),
  cosineEmbeddingLoss: mapped("cosine_embedding_loss", ({ margin, reduction }) => [float(margin), reduce(reduction)]),

  stopGradient: same("stop_gradient"),
  checkpoint: (engine, [x]) => engine.checkpoint(x as number),
  vjp: (engine, [y, x, v]) => engine.vjp(y as number, x as number, v as number),
  jvp: (engine, [y, x, v]) => engine.jvp(y as number, x as number, v as number),
  vmap: (engine, [y, x, batched], { attributes: { dim } }) =>
    engine.vmap(y as number, x as number, batched as number, dim),
  adamwStep,
  sgdStep,
};
