/** What Node and pages both offer, apart from the class `Tensor` and from how a runtime begins. */

export * as nn from "./nn/index.js";
export * as optim from "./optim/index.js";
export type { Abortable, Nested, NestedElements, Range, Read, Reading } from "./tensor.js";
export type {
  Ids,
  KaimingOptions,
  NormalOptions,
  Options,
  ShapeArguments,
  TensorOptions,
  UniformOptions,
  XavierOptions,
} from "./create.js";
export type { DType, DTypeName, Elements, ElementsLike, Scalar } from "./dtype.js";
export type { Raw } from "./raw.js";
export {
  AsyncRequiredError,
  CancelledError,
  ClosedError,
  CompileError,
  DTypeError,
  DeviceError,
  ForeignHandleError,
  InvalidHandleError,
  JitError,
  LanthornError,
  OutOfMemoryError,
  ShapeError,
  UnsupportedError,
  type ErrorKind,
} from "./errors.js";
export * from "./capture.js";
export {
  clearScheduleCache,
  collect,
  commit,
  commitAsync,
  crossEntropy,
  grad,
  manual_seed,
  manualSeed,
  noGrad,
  resetCounters,
  stats,
  toTypedArrays,
  toTypedArraysAsync,
  trackTensors,
  type NoGradScope,
  type Stats,
} from "./functions.js";
export type { SampleOptions } from "./idioms.js";
export { canRun, getDefaultRuntime, Runtime } from "./runtime.js";
export type { CanRunQuery, Capability, RuntimeOptions, TensorClass } from "./runtime.js";
