/** Executables: compiling, calling, and what they say about themselves. */

import { Effect } from "effect";
import { describe, errorOf, type DType as EngineDType } from "lanthorn/raw";

import { ExecutableHandleTypeId, Owned } from "../handles.js";
import type {
  BackendError,
  CompileRequest,
  ConcreteTensorHandle,
  DecodeStateRequest,
  DecodeStateSchema,
  ExecutableDiagnostics,
  ExecutableHandle,
  ExecutionInvocation,
  SamplingOptions,
  TensorHandle,
} from "../runtime.js";
import type { Adapter, Kind } from "./adapter.js";
import { immediate, job } from "./jobs.js";
import { scalarsOf } from "./placeholders.js";

/** What the engine says about an executable. */
interface Said extends ExecutableDiagnostics {
  readonly inputs: ReadonlyArray<unknown>;
  readonly scalars: number;
  readonly outputs: ReadonlyArray<{ readonly dtype: EngineDType; readonly shape: number[] }>;
  readonly state?: Partial<DecodeStateSchema>;
}

/** What calls of an executable need: the slots of its numbers, and what its results are. */
interface Details {
  readonly scalars: ReadonlySet<number>;
  readonly results: ReadonlyArray<Kind>;
}

/** Flags of `GraphRaw.compile`. */
const enum Flag {
  Optimize = 1,
  ConstantWeights = 2,
  Updates = 4,
}

class Executable extends Owned implements ExecutableHandle {
  readonly [ExecutableHandleTypeId]: typeof ExecutableHandleTypeId = ExecutableHandleTypeId;
  declare readonly state?: DecodeStateSchema;
  readonly diagnostics: ExecutableDiagnostics;

  constructor(diagnostics: ExecutableDiagnostics, state: DecodeStateSchema | undefined) {
    super();
    this.diagnostics = diagnostics;
    if (state !== undefined) this.state = state;
    Object.freeze(this);
  }
}

/** A value of JSON that nobody can change. */
function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(value).forEach(frozen);
  return Object.freeze(value);
}

/** The calls of executables. */
export class Programs {
  private readonly adapter: Adapter;
  private readonly details = new WeakMap<object, Details>();

  constructor(adapter: Adapter) {
    this.adapter = adapter;
  }

  compile(request: CompileRequest): Effect.Effect<ExecutableHandle, BackendError> {
    const { adapter } = this;
    return immediate(adapter.failing("compile", "compile", "compile_decode", "decode"), () => {
      const { engine } = adapter;
      const { roots, options, state, trace, updates = [] } = request;
      const flags =
        (options?.optimize === false ? 0 : Flag.Optimize) |
        (options?.constantWeights === true ? Flag.ConstantWeights : 0) |
        (updates.length > 0 ? Flag.Updates : 0);
      const wanted = state === undefined ? undefined : stateRequest(state);
      // Last: getters of the options may call the engine, which overwrites scratch.
      const at = engine.putHandles(adapter.handlesOf("compile", roots));
      // Updates save memory and are no condition: a program of very many roots does without.
      const fits = at + 1 + 2 * updates.length <= engine.raw.scratch.length;
      if (updates.length > 0) engine.putSizes(at, fits ? updates.flat() : []);
      const handle = engine.check(
        wanted === undefined ? engine.raw.compile(flags) : engine.raw.compile_decode(wanted),
      );
      const text = engine.raw.executable(handle);
      if (typeof text === "number") {
        engine.raw.release(handle);
        engine.check(text);
      }
      const { inputs, scalars: __, outputs, state: geometry, ...diagnostics } = JSON.parse(text as string) as Said;
      if (geometry !== undefined) this.checkRoom(inputs.length - 1, geometry.length as number);
      const schema = state && (frozen({ tokenSlot: TOKEN_SLOT, ...state, ...geometry }) as DecodeStateSchema);
      const executable = adapter.adopt(new Executable(frozen(diagnostics), schema), handle);
      this.details.set(executable, {
        scalars: scalarsOf(roots, trace, inputs),
        // What a decode program gives depends on the sequences of the call.
        results: state === undefined ? outputs.map(({ dtype, shape }) => adapter.kindOf(dtype, shape)) : [],
      });
      return executable;
    });
  }

  /** Throws where the new tokens of a sequence do not fit into scratch beside the tensors of a call, as `place` puts them. */
  private checkRoom(tensors: number, length: number): void {
    // Lists of tensors, of as many scalars, of none taken, of one sequence and of its tokens, each behind its count.
    const most = this.adapter.engine.raw.scratch.length - 2 * (1 + tensors) - 1 - 2 - 1;
    if (length <= most) return;
    const found = `a sequence has ${length} new tokens in a call`;
    throw errorOf("shape", "compile", `${found}, expected at most ${most} beside ${tensors} tensors`);
  }

  compute(roots: ReadonlyArray<TensorHandle>): Effect.Effect<ReadonlyArray<ConcreteTensorHandle>, BackendError> {
    const { adapter } = this;
    const { engine } = adapter;
    return job<number[], ReadonlyArray<ConcreteTensorHandle>>(
      engine,
      adapter.failing("execute", "compute"),
      () => {
        engine.putHandles(adapter.handlesOf("compute", roots));
        return engine.raw.compute();
      },
      (handles) => adapter.concretes(handles),
      (handles) => adapter.drop(handles),
    );
  }

  execute(
    executable: ExecutableHandle,
    invocation: ExecutionInvocation,
  ): Effect.Effect<ReadonlyArray<ConcreteTensorHandle>, BackendError> {
    const { adapter } = this;
    const { bindings, taken = [] } = invocation;
    return job<number[], ReadonlyArray<ConcreteTensorHandle>>(
      adapter.engine,
      adapter.failing("execute", "execute", "decode"),
      () => {
        const begun = adapter.engine.raw.execute(this.place("execute", executable, invocation));
        if (typeof begun !== "number") {
          for (const slot of taken) adapter.registry.forget(bindings[slot]);
        }
        return begun;
      },
      (handles) => adapter.concretes(handles, this.details.get(executable)?.results),
      (handles) => adapter.drop(handles),
    );
  }

  executeSampled(
    executable: ExecutableHandle,
    invocation: ExecutionInvocation,
    options: ReadonlyArray<SamplingOptions>,
  ): Effect.Effect<ReadonlyArray<number>, BackendError> {
    const { adapter } = this;
    const { raw } = adapter.engine;
    return job<number[], ReadonlyArray<number>>(
      adapter.engine,
      adapter.failing("execute", "executeDecode", "execute_sampled", "execute", "decode"),
      () => {
        const draws = JSON.stringify(options);
        return raw.execute_sampled(this.place("executeDecode", executable, invocation), draws);
      },
      (tokens) => tokens,
      () => undefined,
    );
  }

  /** Puts the arguments of a call into scratch; gives the handle of the executable. */
  private place(operation: string, executable: ExecutableHandle, invocation: ExecutionInvocation): number {
    const { engine, registry } = this.adapter;
    const { state } = invocation;
    const scalars = Array.from(invocation.scalars);
    const taken = Array.from(invocation.taken ?? []);
    const handle = registry.handleOf(operation, executable);
    const bindings = this.adapter.handlesOf(operation, invocation.bindings);
    // The engine makes the tensor of the tokens; what comes after it keeps its slot.
    const { tokenSlot } = executable.state ?? {};
    if (tokenSlot !== undefined && tokenSlot < bindings.length) bindings.splice(tokenSlot, 0, 0);
    const sequences = this.adapter.handlesOf(operation, state?.sequences ?? []);
    for (const slot of this.details.get(executable)?.scalars ?? []) {
      if (slot >= bindings.length) continue;
      throw errorOf(
        "execute",
        operation,
        `slot ${slot} is that of a number, and there are ${bindings.length} tensors; numbers have the slots after those of the tensors`,
      );
    }
    const wrong = scalars.findIndex((value) => typeof value !== "number");
    if (wrong >= 0) {
      throw errorOf("execute", operation, `scalar ${wrong} is ${describe(scalars[wrong])}, expected a number`);
    }
    const tokens = Array.from(state?.tokens ?? [], (list) => Array.from(list));
    if (tokens.length !== sequences.length) {
      throw errorOf("shape", operation, `there are ${tokens.length} lists of tokens for ${sequences.length} sequences`);
    }
    // All that the caller has given is read: what reading it may call overwrites scratch.
    let at = engine.putSizes(0, bindings);
    // Programs number scalars after the tensors, the engine by themselves. A graph need not use all that it is given.
    at = engine.putSizes(at, [...bindings.map(() => 0), ...scalars]);
    at = engine.putSizes(at, taken);
    at = engine.putSizes(at, sequences);
    for (const list of tokens) at = engine.putSizes(at, list);
    return handle;
  }
}

/** The slot of the tokens where a request does not say. */
const TOKEN_SLOT = 0;

/** What `GraphRaw.compile_decode` reads. */
function stateRequest(state: DecodeStateRequest): string {
  const { maxTokens, blockSize, kvDtype, window, batch, lastTokenRow = false, tokenSlot = TOKEN_SLOT, sequences } = state;
  return JSON.stringify({ maxTokens, blockSize, kvDtype, window, batch, lastTokenRow, tokenSlot, sequences });
}
