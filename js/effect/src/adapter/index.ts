/**
 * One adapter for all devices: the service `Runtime` over the raw calls of pure graphs that a device's addon gives.
 *
 * Use it to write a backend; programs use a backend's `layer`.
 */

import { Effect } from "effect";
import { errorOf } from "lanthorn/raw";

import { LazyTensor } from "../handles.js";
import { OPERATIONS, OUTPUTS } from "../operations.js";
import type { GraphRaw } from "../raw.js";
import type { BackendInfo, Capabilities, NodeRequest, Placement, RuntimeService, TensorHandle } from "../runtime.js";
import { Adapter, DTYPES, dtypeOf } from "./adapter.js";
import type { Engine } from "./engine.js";
import { decode, diagnostics, pathSafetensors, sampling } from "./extensions.js";
import { failureOf } from "./errors.js";
import { immediate, job } from "./jobs.js";
import { note, noteNode } from "./placeholders.js";
import { Programs } from "./programs.js";

export type { GraphRaw } from "../raw.js";

/** What a backend says about itself. */
export interface AdapterOptions {
  readonly backend: BackendInfo;
  readonly placement: Placement;
  /** Features beside those that every engine has. */
  readonly features?: ReadonlyArray<string>;
}

/** What every engine does. */
const FEATURES = ["mixed-bf16", "safetensors", "kv-cache", "sampling"];

/** A node request whose operands and attributes are not told apart by its operation. */
interface AnyRequest {
  readonly op: string;
  readonly inputs: ReadonlyArray<TensorHandle>;
  readonly attributes?: unknown;
}

type AnyPlan = (engine: Engine, operands: ReadonlyArray<number>, request: AnyRequest) => number | number[];

const PLANS = new Map(Object.entries(OPERATIONS) as ReadonlyArray<[string, AnyPlan]>);
const PICKS: ReadonlySet<string> = new Set(Object.values(OUTPUTS));

/** Nodes of operations, among them those whose several results are taken one by one. */
class Nodes {
  private readonly adapter: Adapter;
  private readonly outputs = new WeakMap<object, ReadonlyArray<LazyTensor>>();

  constructor(adapter: Adapter) {
    this.adapter = adapter;
  }

  make(request: AnyRequest): LazyTensor {
    const { adapter } = this;
    const { op, inputs, attributes } = request;
    if (attributes !== undefined && hasDType(attributes)) dtypeOf(op, attributes.dtype);
    const operands = adapter.handlesOf(op, inputs);
    const plan = PLANS.get(op);
    if (plan === undefined) return this.pick(request);
    const made = adapter.engine.plan(plan, operands, request);
    if (typeof made !== "number") return this.several(made, inputs);
    const node = adapter.lazy(made);
    noteNode(node, op, inputs, attributes);
    return node;
  }

  /** A step, which stands for its first result and keeps the others. */
  private several(made: number[], inputs: ReadonlyArray<TensorHandle>): LazyTensor {
    const { adapter } = this;
    const [first, ...rest] = made.map((handle) => adapter.lazy(handle)) as [LazyTensor, ...LazyTensor[]];
    const step = new LazyTensor(first.shape, first.dtype, first.placement);
    adapter.registry.set(step, made[0] as number);
    this.outputs.set(step, [first, ...rest]);
    note([step, first, ...rest], inputs);
    return step;
  }

  private pick({ op, inputs, attributes }: AnyRequest): LazyTensor {
    if (!PICKS.has(op)) throw errorOf("unsupported", op, "there is no such operation");
    const { index } = attributes as { readonly index: number };
    const output = this.outputs.get(inputs[0] as object)?.[index];
    if (output !== undefined) return output;
    throw errorOf("unsupported", op, `there is no result ${index} of the operand; expected a step of an optimizer`);
  }
}

const hasDType = (attributes: unknown): attributes is { readonly dtype: unknown } =>
  typeof attributes === "object" && attributes !== null && "dtype" in attributes;

/** A runtime over raw calls. Tensors of it are foreign to every other one. */
export function makeRuntime(raw: GraphRaw, options: AdapterOptions): RuntimeService {
  const { backend, placement, features = [] } = options;
  const adapter = new Adapter(raw, backend.name, Object.freeze({ ...placement }));
  const { engine, registry } = adapter;
  const nodes = new Nodes(adapter);
  const programs = new Programs(adapter);
  const nodeNow = (request: NodeRequest) => {
    try {
      return nodes.make(request as AnyRequest);
    } catch (error) {
      return failureOf(backend.name, "graph", request.op, [], error);
    }
  };
  const capabilities: Capabilities = Object.freeze({
    dtypes: Object.freeze([...DTYPES]),
    features: Object.freeze([...FEATURES, ...features]),
  });
  return Object.freeze({
    identity: Object.freeze({ backend: backend.name }),
    backend: Object.freeze({ ...backend }),
    placement: adapter.placement,
    capabilities,
    node: (request: NodeRequest) =>
      Effect.suspend(() => {
        const made = nodeNow(request);
        return made._tag === "BackendError" ? Effect.fail(made) : Effect.succeed(made);
      }),
    nodeNow,
    grad: (loss, wrt) =>
      immediate(adapter.failing("autodiff", "grad"), () => {
        const root = registry.handleOf("grad", loss);
        const variables = adapter.handlesOf("grad", wrt);
        const gradients = engine.made(() => engine.grad(root, variables)) as number[];
        const nodes = gradients.map((handle) => adapter.lazy(handle));
        note(nodes, [loss, ...wrt]);
        return nodes;
      }),
    compile: (request) => programs.compile(request),
    execute: (executable, invocation) => programs.execute(executable, invocation),
    compute: (roots) => programs.compute(roots),
    readback: (tensor) =>
      job<ArrayBuffer, ArrayBuffer>(
        engine,
        adapter.failing("readback", "readback", "read"),
        () => raw.read(registry.handleOf("readback", tensor)),
        (bytes) => bytes,
        () => undefined,
      ),
    release: (tensor) =>
      immediate(adapter.failing("execute", "release"), () => {
        engine.check(raw.clear(registry.clear("release", tensor)));
      }),
    extensions: Object.freeze({
      pathSafetensors: pathSafetensors(adapter),
      sampling: sampling(adapter, programs),
      decode: decode(adapter),
      diagnostics: diagnostics(adapter),
    }),
  } satisfies RuntimeService);
}
