/** What a backend offers to a program: the service `Runtime`, its handles and its errors. */

import { Context, Data, type Effect, type Pipeable } from "effect";

import type {
  ConcreteTensorHandleTypeId,
  ExecutableHandleTypeId,
  KvPoolHandleTypeId,
  KvSequenceHandleTypeId,
  LazyTensorHandleTypeId,
  TensorHandleTypeId,
} from "./handles.js";
import type { NodeOperationMap } from "./operation-map.js";

export type { NodeOperationMap } from "./operation-map.js";

/** The name of an element type. */
export type DType = "f32" | "f64" | "f16" | "bf16" | "i64" | "u8" | "u32";

/** How keys and values are held: in an element type, or as bytes with a scale for each token and head. */
export type KvDType = DType | "int8";

/** Which backend a service is of. */
export interface BackendInfo {
  readonly name: string;
}

/** Where tensors lie. */
export interface Placement {
  readonly id: string;
  readonly deviceType: string;
  readonly description: string;
  readonly ordinal?: number;
  readonly memorySpace?: string;
}

/** What a backend can do: element types, and features by name, such as `"mixed-bf16"`. */
export interface Capabilities {
  readonly dtypes: ReadonlyArray<DType>;
  readonly features: ReadonlyArray<string>;
}

/**
 * A failure of a backend.
 *
 * Use `reason` to tell failures apart and `phase` to know what was done when it happened. `message` names the operation,
 * what was found and what would be right.
 */
export class BackendError extends Data.TaggedError("BackendError")<{
  readonly reason:
    | "backend-unavailable"
    | "device-unavailable"
    | "unsupported-operation"
    | "unsupported-dtype"
    | "unsupported-layout"
    | "unsupported-placement"
    | "invalid-handle"
    | "foreign-handle"
    | "compilation-failed"
    | "execution-failed"
    | "transfer-failed"
    | "cancelled"
    | "closed-runtime"
    | "io-failed";
  readonly backend: string;
  readonly operation: string;
  readonly phase: "graph" | "autodiff" | "compile" | "execute" | "readback" | "io" | "shutdown";
  readonly message: string;
  readonly details?: unknown;
}> {}

/** A tensor: what is known of it without its elements. It never changes. */
export interface TensorHandle extends Pipeable.Pipeable {
  readonly [TensorHandleTypeId]: typeof TensorHandleTypeId;
  readonly _tag: "LazyTensor" | "Tensor";
  readonly shape: ReadonlyArray<number>;
  readonly dtype: DType;
  readonly device: string;
  readonly placement: Placement;
}

/** A node of a graph; it has no elements. */
export interface LazyTensorHandle extends TensorHandle {
  readonly [LazyTensorHandleTypeId]: typeof LazyTensorHandleTypeId;
  readonly _tag: "LazyTensor";
}

/** Elements that a backend holds. */
export interface ConcreteTensorHandle extends TensorHandle {
  readonly [ConcreteTensorHandleTypeId]: typeof ConcreteTensorHandleTypeId;
  readonly _tag: "Tensor";
}

/** How a graph is compiled. */
export interface ExecutableCompileOptions {
  /** `false` leaves out optional passes; results are the same but for rounding. The default is `true`. */
  readonly optimize?: boolean;
  /** Whether elements of concrete tensors become part of the program, for inference. The default is `false`. */
  readonly constantWeights?: boolean;
}

/** What a decode program is compiled for. */
export interface DecodeStateRequest {
  /** Tokens of all sequences of the pool together. */
  readonly maxTokens: number;
  /** Tokens in a block of the pool. */
  readonly blockSize: number;
  readonly kvDtype: KvDType;
  /** The most tokens that a token attends to, itself included. */
  readonly window?: number;
  /** The most sequences in a call. */
  readonly batch: number;
  /** Whether only the logits of the last token of each sequence are wanted. */
  readonly lastTokenRow?: boolean;
  /** The slot of the tokens among the inputs, whose binding is left out at calls. The default is 0. */
  readonly tokenSlot?: number;
  /**
   * The most sequences with tokens, at a time, of which the pool holds the state of layers that are no attention. The default
   * is its number of blocks, at most 64. It means nothing where no layer keeps state.
   */
  readonly sequences?: number;
}

/**
 * State that layers which are no attention keep of a sequence: the largest sizes of each kind, of which a smaller layer uses a
 * part; 0 where there are none of a kind.
 */
export interface KvRecurrentGeometry {
  /** Recurrences by `kdaChunk`, with a state `[kdaHeads, kdaHeadDim, kdaValueDim]` each. */
  readonly kdaLayers: number;
  readonly kdaHeads: number;
  readonly kdaHeadDim: number;
  readonly kdaValueDim: number;
  /** Convolutions by `shortConv1d`, which keep their last `convKernel - 1` inputs. */
  readonly convLayers: number;
  readonly convChannels: number;
  readonly convKernel: number;
  /** As `DecodeStateRequest.sequences`. */
  readonly sequences?: number;
  /**
   * Heads and their size of each attention, where these differ. Looked at where there are `layers` of them, of which the first
   * has `kvHeads` and `headDim`.
   */
  readonly attention?: ReadonlyArray<readonly [kvHeads: number, headDim: number]>;
}

/** A decode program's request with the geometry of its cache, as its pool must have it. */
export interface DecodeStateSchema extends DecodeStateRequest, KvRecurrentGeometry {
  readonly attention: ReadonlyArray<readonly [kvHeads: number, headDim: number]>;
  /** 0 where no layer keeps state. */
  readonly sequences: number;
  readonly layers: number;
  /** Those of the first attention, as is `headDim`. */
  readonly kvHeads: number;
  readonly headDim: number;
  /** The most new tokens of a sequence in a call. */
  readonly length: number;
  /** The most tokens of a sequence; null for no limit but the pool's. */
  readonly longest: number | null;
}

/** How often an executable runs a kind of instruction. */
export interface ExecutableInstructionDiagnostics {
  readonly kind: string;
  readonly count: number;
}

/** How long a phase of the compiler took. */
export interface ExecutableCompilePhaseDiagnostics {
  readonly phase: string;
  readonly nanoseconds: number;
}

/** Bytes that a call of an executable needs, by what they hold. */
export interface ExecutableMemoryDiagnostics {
  readonly externalBytes: number;
  readonly persistentBytes: number;
  readonly stateBytes: number;
  readonly outputBytes: number;
  readonly workspaceBytes: number;
  readonly transactionBytes: number;
  readonly peakLiveBytes: number;
  readonly packingOverheadBytes: number;
}

/** What an executable is made of. */
export interface ExecutableDiagnostics {
  readonly semanticNodesBeforeOptimization: number;
  readonly semanticNodesAfterOptimization: number;
  readonly instructions: ReadonlyArray<ExecutableInstructionDiagnostics>;
  readonly pipelineCount: number;
  readonly commandCount: number;
  readonly synchronizationCount: number;
  readonly memory: ExecutableMemoryDiagnostics;
  readonly compilePhases?: ReadonlyArray<ExecutableCompilePhaseDiagnostics>;
}

/** A compiled graph; it never changes, and calls may overlap. */
export interface ExecutableHandle {
  readonly [ExecutableHandleTypeId]: typeof ExecutableHandleTypeId;
  readonly state?: DecodeStateSchema;
  readonly diagnostics: ExecutableDiagnostics;
}

/** Roots to compile into one executable; with `state` into one that keeps keys and values. */
export interface CompileRequest {
  readonly roots: ReadonlyArray<TensorHandle>;
  readonly options?: ExecutableCompileOptions;
  readonly state?: DecodeStateRequest;
  /** Slots, each with the root that may be written over its binding where a call takes that. */
  readonly updates?: ReadonlyArray<readonly [slot: number, root: number]>;
  /** Whose placeholders the roots may be made of, beside those of no trace. */
  readonly trace?: object;
}

/** The sequences of a call of a decode program, and the new tokens of each. */
export interface ExecutionStateInvocation {
  readonly sequences: ReadonlyArray<KvSequenceHandle>;
  readonly tokens: ReadonlyArray<ReadonlyArray<number>>;
}

/** The arguments of a call: a tensor for each slot, then the scalars. */
export interface ExecutionInvocation {
  readonly bindings: ReadonlyArray<ConcreteTensorHandle>;
  readonly scalars: ReadonlyArray<number>;
  /** The slots of bindings that are given up once the call has begun, also if it fails later; none if left out. */
  readonly taken?: ReadonlyArray<number>;
  /** Values that a backend asks for by name; this one asks for none. */
  readonly runtimeValues: Readonly<Record<string, number | Uint32Array>>;
  readonly state?: ExecutionStateInvocation;
}

/** Blocks for the keys and values of sequences, and the state of layers that are no attention. */
export interface KvPoolHandle {
  readonly [KvPoolHandleTypeId]: typeof KvPoolHandleTypeId;
}

/** The tokens of one text in a pool. */
export interface KvSequenceHandle {
  readonly [KvSequenceHandleTypeId]: typeof KvSequenceHandleTypeId;
}

/** An operation with its operands and attributes. */
export type NodeRequest<Operation extends keyof NodeOperationMap = keyof NodeOperationMap> = {
  readonly [K in Operation]: { readonly op: K } & NodeOperationMap[K];
}[Operation];

/** A tensor and its name in a file. */
export interface PathSafetensorsSaveEntry {
  readonly name: string;
  readonly tensor: ConcreteTensorHandle;
}

/** A tensor that was read, and its name in the file. */
export interface PathSafetensorsLoadEntry {
  readonly name: string;
  readonly tensor: ConcreteTensorHandle;
}

/** What is written to a file. */
export interface PathSafetensorsSaveArchive {
  readonly entries: ReadonlyArray<PathSafetensorsSaveEntry>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** What a file held. */
export interface PathSafetensorsLoadArchive {
  readonly entries: ReadonlyArray<PathSafetensorsLoadEntry>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Files of safetensors, by path. */
export interface PathSafetensors {
  readonly save: (path: string, archive: PathSafetensorsSaveArchive) => Effect.Effect<void, BackendError>;
  readonly load: (path: string) => Effect.Effect<PathSafetensorsLoadArchive, BackendError>;
}

/** How a token is drawn out of logits. The same seed and counter give the same token. */
export interface SamplingOptions {
  /** 0 takes the most likely token. */
  readonly temperature: number;
  /** The number of tokens to draw from; 0 for all. */
  readonly topK: number;
  /** The probability of the tokens to draw from; 1 for all. */
  readonly topP: number;
  readonly seed: number;
  readonly counter: number;
}

/** Draws tokens without reading logits back. */
export interface SamplingRuntime {
  readonly sample: (logits: ConcreteTensorHandle, options: SamplingOptions) => Effect.Effect<number, BackendError>;
  readonly executeDecode: (
    executable: ExecutableHandle,
    invocation: ExecutionInvocation,
    options: ReadonlyArray<SamplingOptions>,
  ) => Effect.Effect<ReadonlyArray<number>, BackendError>;
}

/** Pools and sequences of decode programs. */
export interface DecodeRuntime {
  readonly makePool: (options: {
    readonly layers: number;
    readonly kvHeads: number;
    readonly headDim: number;
    readonly maxTokens: number;
    readonly blockSize: number;
    readonly dtype: KvDType;
  } & Partial<KvRecurrentGeometry>) => Effect.Effect<KvPoolHandle, BackendError>;
  readonly makeSequence: (pool: KvPoolHandle) => Effect.Effect<KvSequenceHandle, BackendError>;
  /**
   * Shares whole blocks that the pool holds of the beginning of a prompt; gives how many tokens these are. 0 for pools of
   * layers that are no attention, whose state at the end of a block is not kept.
   */
  readonly prefillMatch: (
    sequence: KvSequenceHandle,
    tokens: ReadonlyArray<number>,
  ) => Effect.Effect<number, BackendError>;
  readonly sequenceCursor: (sequence: KvSequenceHandle) => Effect.Effect<number, BackendError>;
  readonly releaseSequence: (sequence: KvSequenceHandle) => Effect.Effect<void, BackendError>;
}

/** What a backend tells about itself. */
export interface RuntimeDiagnostics {
  /** Bytes that the backend holds outside the heap of JavaScript. */
  readonly externalMemoryBytes: Effect.Effect<number>;
}

/** What a backend does. Programs use it through `Tensor` and `Gradient`. */
export interface RuntimeService {
  /** The same object for handles that fit together. */
  readonly identity: object;
  readonly backend: BackendInfo;
  readonly placement: Placement;
  readonly capabilities: Capabilities;
  /** Adds a node to a graph. */
  readonly node: (request: NodeRequest) => Effect.Effect<LazyTensorHandle, BackendError>;
  /** As `node`, at once and without an effect, which costs more than the node. Programs use `node`; a backend may leave it out. */
  readonly nodeNow?: (request: NodeRequest) => LazyTensorHandle | BackendError;
  /** The gradients of a scalar. */
  readonly grad: (
    loss: TensorHandle,
    wrt: ReadonlyArray<TensorHandle>,
  ) => Effect.Effect<ReadonlyArray<LazyTensorHandle>, BackendError>;
  readonly compile: (request: CompileRequest) => Effect.Effect<ExecutableHandle, BackendError>;
  readonly execute: (
    executable: ExecutableHandle,
    invocation: ExecutionInvocation,
  ) => Effect.Effect<ReadonlyArray<ConcreteTensorHandle>, BackendError>;
  /**
   * Compiles, or takes out of the backend's cache, and runs, for roots of one use. A backend may leave it out: programs then
   * use `compile` and `execute`.
   */
  readonly compute?: (
    roots: ReadonlyArray<TensorHandle>,
  ) => Effect.Effect<ReadonlyArray<ConcreteTensorHandle>, BackendError>;
  /** The elements in row-major order. */
  readonly readback: (tensor: ConcreteTensorHandle) => Effect.Effect<ArrayBuffer, BackendError>;
  /** Gives up a tensor's elements. */
  readonly release: (tensor: ConcreteTensorHandle) => Effect.Effect<void, BackendError>;
  readonly extensions: {
    readonly pathSafetensors: PathSafetensors;
    readonly sampling: SamplingRuntime;
    readonly decode: DecodeRuntime;
    readonly diagnostics: RuntimeDiagnostics;
  };
}

/**
 * The backend of a program.
 *
 * Use `yield* Runtime.Runtime` to ask it what it can do, and a backend's layer to provide it.
 */
export class Runtime extends Context.Service<Runtime, RuntimeService>()("@lanthorn/effect/Runtime") {}
