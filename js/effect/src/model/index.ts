/**
 * Models: functions of parameters and an input, made of layers and of each other.
 *
 * Parameters lie outside of a model, in an array in the order of its names.
 */
export { define, ModelError, type Definition, type Model, type ParameterSpec, type Params } from "./definition.js";
export { conv1d, conv2d, embedding, layerNorm, linear, positionEmbedding } from "./layers.js";
export { kimiDeltaAttention, type KimiDeltaAttentionOptions } from "./delta-attention.js";
export { multiHeadAttention, type MultiHeadAttentionOptions } from "./attention.js";
export {
  avgPool2d,
  dropout,
  elu,
  flatten,
  gelu,
  leakyRelu,
  logSoftmax,
  maxPool2d,
  mish,
  relu,
  sigmoid,
  silu,
  softmax,
  softplus,
  tanh,
} from "./activations.js";
export { add, chain, checkpoint, mapInput, merge, residual } from "./compose.js";
export { load, save } from "./files.js";
export { inference, type InferenceConfig, type InferenceProgram } from "./inference.js";
export {
  InferenceError,
  type Generation,
  type GenerationEntry,
  type GenerationSampledEntry,
  type GenerationSeq,
} from "./generation.js";
