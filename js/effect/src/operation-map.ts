/** The operations of a graph: for each its operands and its attributes. */

import type { DType, TensorHandle } from "./runtime.js";

/** Operations of those names with the same operands and attributes. */
type Each<Names extends string, Operation> = { readonly [Name in Names]: Operation };

interface Unary {
  readonly inputs: readonly [self: TensorHandle];
}

interface Binary {
  readonly inputs: readonly [self: TensorHandle, other: TensorHandle];
}

interface Reduction extends Unary {
  readonly attributes: { readonly dims: ReadonlyArray<number>; readonly keepdims: boolean };
}

interface AlongDim extends Unary {
  readonly attributes: { readonly dim: number };
}

interface Spread extends Unary {
  readonly attributes: {
    readonly dims: ReadonlyArray<number>;
    readonly keepdims: boolean;
    readonly correction: number;
  };
}

interface Convolution extends Binary {
  readonly attributes: {
    readonly stride: number;
    readonly padding: number;
    readonly dilation: number;
    readonly groups: number;
  };
}

interface TransposedConvolution extends Binary {
  readonly attributes: Convolution["attributes"] & { readonly outputPadding: number };
}

interface Pooling extends Unary {
  readonly attributes: {
    readonly kernelSize: readonly [number, number];
    readonly stride: readonly [number, number];
    readonly padding: number;
  };
}

/** An operation without operands, whose exemplar only says where the result is to lie. */
interface Constant<Attributes> {
  readonly inputs: readonly [] | readonly [exemplar: TensorHandle];
  readonly attributes: Attributes;
}

interface Source<Attributes> {
  readonly inputs: readonly [];
  readonly attributes: Attributes;
}

type Shape = ReadonlyArray<number>;

/** How the terms of a loss are put together. */
export type LossReduction = "mean" | "sum" | "none";

interface PairLoss extends Binary {
  readonly attributes: { readonly reduction: LossReduction };
}

type UnaryNames =
  | "neg"
  | "abs"
  | "sqrt"
  | "exp"
  | "log"
  | "sin"
  | "cos"
  | "tanh"
  | "relu"
  | "erf"
  | "floor"
  | "ceil"
  | "round"
  | "sign"
  | "inverse"
  | "det"
  | "stopGradient"
  | "checkpoint"
  | "square"
  | "rsqrt"
  | "reciprocal"
  | "expm1"
  | "log1p"
  | "log2"
  | "log10"
  | "tan"
  | "sinh"
  | "cosh"
  | "logicalNot"
  | "sigmoid"
  | "silu"
  | "softplus"
  | "mish"
  | "trace";

type BinaryNames =
  | "add"
  | "sub"
  | "mul"
  | "div"
  | "maximum"
  | "minimum"
  | "eq"
  | "gt"
  | "lt"
  | "ge"
  | "le"
  | "matmul"
  | "solve"
  | "ne"
  | "logicalAnd"
  | "logicalOr"
  | "remainder"
  | "dot";

/**
 * Each operation with its operands and attributes. Those of one family stand under the same type; all of them are one op
 * of the engine, or a few where the engine has another convention.
 */
export interface NodeOperationMap
  extends
    Each<UnaryNames, Unary>,
    Each<BinaryNames, Binary>,
    Each<"sum" | "prod" | "mean" | "max" | "min" | "logsumexp" | "any" | "all", Reduction>,
    Each<"argmax" | "argmin" | "cumsum" | "softmax" | "logSoftmax" | "unsqueeze", AlongDim>,
    Each<"variance" | "std", Spread>,
    Each<"conv1d" | "conv2d", Convolution>,
    Each<"convTranspose1d" | "convTranspose2d", TransposedConvolution>,
    Each<"maxPool2d" | "avgPool2d", Pooling>,
    Each<
      "mseLoss" | "l1Loss" | "binaryCrossEntropy" | "binaryCrossEntropyWithLogits" | "klDiv" | "hingeLoss",
      PairLoss
    >,
    Each<"vjp" | "jvp", { readonly inputs: readonly [y: TensorHandle, x: TensorHandle, v: TensorHandle] }> {
  readonly constant: Constant<{ readonly value: number; readonly dtype: DType }>;
  readonly zeros: Constant<{ readonly shape: Shape; readonly dtype: DType }>;
  readonly ones: Constant<{ readonly shape: Shape; readonly dtype: DType }>;
  readonly full: Constant<{ readonly shape: Shape; readonly value: number; readonly dtype: DType }>;
  /**
   * The slot of a tensor in `ExecutionInvocation.bindings`. With `trace` the placeholder is for the program of that
   * `CompileRequest.trace` alone.
   */
  readonly input: Constant<{
    readonly slot: number;
    readonly shape: Shape;
    readonly dtype: DType;
    readonly trace?: object;
  }>;
  readonly randn: Source<{ readonly shape: Shape; readonly dtype: DType }>;
  readonly uniform: Source<{ readonly shape: Shape; readonly lo: number; readonly hi: number; readonly dtype: DType }>;
  readonly arange: Source<{
    readonly start: number;
    readonly end: number;
    readonly step: number;
    readonly dtype: DType;
  }>;
  readonly linspace: Source<{
    readonly start: number;
    readonly end: number;
    readonly steps: number;
    readonly dtype: DType;
  }>;
  readonly eye: Source<{ readonly n: number; readonly dtype: DType }>;
  readonly fromBytes: Source<{ readonly data: Uint8Array; readonly shape: Shape; readonly dtype: DType }>;
  /** Scalars are numbered after the tensors of the same program: the first of two tensors and a scalar has slot 2. */
  readonly scalarInput: Source<{ readonly slot: number; readonly dtype: DType }>;

  readonly gelu: Unary & { readonly attributes: { readonly approximate?: boolean | null } };
  readonly elu: Unary & { readonly attributes: { readonly alpha: number } };
  readonly leakyRelu: Unary & { readonly attributes: { readonly negativeSlope: number } };
  readonly clamp: Unary & { readonly attributes: { readonly min?: number; readonly max?: number } };
  readonly pow: Unary & { readonly attributes: { readonly exponent: number } };
  readonly cast: Unary & { readonly attributes: { readonly dtype: DType } };
  readonly dropout: Unary & { readonly attributes: { readonly p: number } };
  readonly whereCond: { readonly inputs: readonly [condition: TensorHandle, a: TensorHandle, b: TensorHandle] };

  readonly norm: Unary & {
    readonly attributes: { readonly dims: ReadonlyArray<number>; readonly keepdims: boolean; readonly ord: number };
  };

  readonly reshape: Unary & { readonly attributes: { readonly shape: Shape } };
  readonly broadcastTo: Unary & { readonly attributes: { readonly shape: Shape } };
  readonly permute: Unary & { readonly attributes: { readonly dims: ReadonlyArray<number> } };
  /** One `[start, end, stride]` for each leading axis. */
  readonly slice: Unary & { readonly attributes: { readonly ranges: ReadonlyArray<ReadonlyArray<number>> } };
  readonly flatten: Unary & { readonly attributes: { readonly startDim: number; readonly endDim: number } };
  readonly squeeze: Unary & { readonly attributes: { readonly dims: ReadonlyArray<number> } };
  readonly flip: Unary & { readonly attributes: { readonly dims: ReadonlyArray<number> } };
  readonly tile: Unary & { readonly attributes: { readonly reps: ReadonlyArray<number> } };
  readonly pad: Unary & {
    readonly attributes: { readonly pads: ReadonlyArray<readonly [before: number, after: number]> };
  };
  readonly triu: Unary & { readonly attributes: { readonly diagonal: number } };
  readonly tril: Unary & { readonly attributes: { readonly diagonal: number } };
  readonly concat: { readonly inputs: ReadonlyArray<TensorHandle>; readonly attributes: { readonly dim: number } };
  readonly stack: { readonly inputs: ReadonlyArray<TensorHandle>; readonly attributes: { readonly dim: number } };

  readonly indexSelect: {
    readonly inputs: readonly [self: TensorHandle, indexes: TensorHandle];
    readonly attributes: { readonly dim: number };
  };
  readonly gather: NodeOperationMap["indexSelect"];
  readonly scatterAdd: {
    readonly inputs: readonly [self: TensorHandle, indexes: TensorHandle, src: TensorHandle];
    readonly attributes: { readonly dim: number };
  };
  readonly oneHot: {
    readonly inputs: readonly [indexes: TensorHandle];
    readonly attributes: { readonly depth: number; readonly dtype: DType };
  };
  readonly embedding: {
    readonly inputs: readonly [indexes: TensorHandle, weight: TensorHandle];
    readonly attributes: { readonly paddingIndex?: number };
  };

  /** `weight` is `[in, out]`. */
  readonly linear: { readonly inputs: readonly [self: TensorHandle, weight: TensorHandle, bias: TensorHandle] };
  /** `weight` is `[out, in]`. */
  readonly linearRows: {
    readonly inputs:
      | readonly [self: TensorHandle, weight: TensorHandle]
      | readonly [self: TensorHandle, weight: TensorHandle, bias: TensorHandle];
  };
  readonly layerNorm: {
    readonly inputs: readonly [self: TensorHandle, weight: TensorHandle, bias: TensorHandle];
    readonly attributes: { readonly eps: number };
  };
  readonly rmsNorm: {
    readonly inputs: readonly [self: TensorHandle] | readonly [self: TensorHandle, weight: TensorHandle];
    readonly attributes: { readonly eps: number };
  };
  readonly scaledDotProductAttention: {
    readonly inputs: readonly [q: TensorHandle, k: TensorHandle, v: TensorHandle];
    readonly attributes: { readonly scale?: number; readonly causal: boolean; readonly window?: number | null };
  };
  readonly kdaChunk: {
    readonly inputs: readonly [
      q: TensorHandle,
      k: TensorHandle,
      v: TensorHandle,
      logDecay: TensorHandle,
      beta: TensorHandle,
    ];
    readonly attributes: { readonly scale?: number };
  };
  readonly shortConv1d: Binary & { readonly attributes: Record<string, never> };
  readonly positionEmbedding: {
    readonly inputs: readonly [weight: TensorHandle];
    readonly attributes: { readonly seqLen: number };
  };
  readonly rotaryEmbedding: Unary & {
    readonly attributes: {
      readonly seqLen: number;
      readonly theta: number;
      readonly layout: "HalfSplit" | "InterleavedPairs";
    };
  };

  readonly crossEntropy: {
    readonly inputs: readonly [self: TensorHandle, target: TensorHandle];
    readonly attributes: { readonly ignoreIndex: number; readonly reduction?: LossReduction };
  };
  readonly nllLoss: NodeOperationMap["crossEntropy"];
  readonly huberLoss: Binary & { readonly attributes: { readonly delta: number; readonly reduction: LossReduction } };
  readonly cosineEmbeddingLoss: {
    readonly inputs: readonly [a: TensorHandle, b: TensorHandle, targets: TensorHandle];
    readonly attributes: { readonly margin: number; readonly reduction: LossReduction };
  };

  /** `y` for each slice of `batchedX` along `dim` in the place of `x`. */
  readonly vmap: {
    readonly inputs: readonly [y: TensorHandle, x: TensorHandle, batchedX: TensorHandle];
    readonly attributes: { readonly dim: number };
  };

  /**
   * One AdamW step, whose results `adamwOut` takes: the parameter, `m` and `v`. `c1` and `c2` are `1 - beta1^t` and
   * `1 - beta2^t`.
   */
  readonly adamwStep: {
    readonly inputs: readonly [
      param: TensorHandle,
      grad: TensorHandle,
      m: TensorHandle,
      v: TensorHandle,
      lr: TensorHandle,
      c1: TensorHandle,
      c2: TensorHandle,
    ];
    readonly attributes: {
      readonly beta1: number;
      readonly beta2: number;
      readonly eps: number;
      readonly weightDecay: number;
    };
  };
  readonly adamwOut: {
    readonly inputs: readonly [step: TensorHandle];
    readonly attributes: { readonly index: number };
  };
  /**
   * One step of gradient descent, whose results `sgdOut` takes: the parameter and the velocity. `first` is 1 in the first
   * step, of which the gradient is not dampened, and 0 in others.
   */
  readonly sgdStep: {
    readonly inputs: readonly [
      param: TensorHandle,
      grad: TensorHandle,
      velocity: TensorHandle,
      first: TensorHandle,
      lr: TensorHandle,
    ];
    readonly attributes: {
      readonly momentum: number;
      readonly dampening: number;
      readonly nesterov: boolean;
      readonly weightDecay: number;
    };
  };
  readonly sgdOut: NodeOperationMap["adamwOut"];
}
