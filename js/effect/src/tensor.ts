/**
 * Tensors: constructors, operations, compiled functions, elements and files.
 *
 * Constructors and operations add nodes to a graph and compute nothing; `compute`, `toTypedArray` and compiled functions
 * do. Operations take tensors of one dtype, but for floats of rank 0. Shapes, dtypes and handles are checked at once: what
 * does not fit is a `TensorError`.
 */

export * from "./tensor/activation.js";
export {
  cachedProgram,
  makeProgramCache,
  signatureOf,
  type CompiledProgram,
  type CompileStats,
  type ProgramCache,
} from "./tensor/cache.js";
export {
  compile,
  freezeProgram,
  makeInput,
  makeScalarInput,
  runProgram,
  type CompiledFn,
  type CompileOptions,
} from "./tensor/compile.js";
export {
  clear,
  clearAll,
  clearAllScoped,
  clearScoped,
  compute,
  sample,
  type SamplingOptions,
} from "./tensor/compute.js";
export * from "./tensor/constructors.js";
export * from "./tensor/convolution.js";
export {
  device,
  dtype,
  isLazyTensor,
  isTensor,
  shape,
  TensorError,
  type Any,
  type Concrete,
  type DType,
  type Lazy,
  type ReduceOptions,
  type TensorOptions,
  type TypedArray,
} from "./tensor/core.js";
export * from "./tensor/decode.js";
export * from "./tensor/files.js";
export * from "./tensor/indexing.js";
export * from "./tensor/linalg.js";
export {
  broadcastTo,
  chunk,
  concat,
  flatten,
  flip,
  pad,
  reshape,
  slice,
  split,
  squeeze,
  stack,
  tile,
  transpose,
  tril,
  triu,
  unsqueeze,
  type SliceOptions,
} from "./tensor/movement.js";
export {
  crossEntropy,
  layerNorm,
  logSoftmax,
  positionEmbedding,
  rmsNorm,
  rotaryEmbedding,
  scaledDotProductAttention,
  softmax,
  type RotaryEmbeddingOptions,
  type ScaledDotProductAttentionOptions,
} from "./tensor/network.js";
export * from "./tensor/pointwise.js";
export * from "./tensor/recurrent.js";
export * from "./tensor/reduction.js";
export * from "./tensor/values.js";
