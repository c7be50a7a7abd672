/** Functions of tensors that are traced once for each signature of their inputs, and run again as one program. */

import { Effect } from "effect";

import * as Runtime from "../runtime.js";
import { cachedProgram, makeProgramCache, signatureOf, type CompiledProgram, type CompileStats } from "./cache.js";
import { withElements } from "./compute.js";
import {
  ask,
  build,
  failure,
  found,
  notTensors,
  type Any,
  type Built,
  type Concrete,
  type DType,
  type Lazy,
  type TensorError,
} from "./core.js";

/** Options of `compile`. */
export interface CompileOptions extends Runtime.ExecutableCompileOptions {
  /** How many programs are kept; 32 by default. What is no whole number above 0 is a defect, a `RangeError`. */
  readonly cacheCapacity?: number;
}

/** A compiled function. */
export interface CompiledFn<E = never, R = never> {
  /** Runs the program of the inputs' signature, which is traced if there is none. */
  readonly call: (inputs: ReadonlyArray<Any>) => Effect.Effect<Array<Concrete>, TensorError | E, Runtime.Runtime | R>;
  /** How many programs there are, and how often one was traced. */
  readonly stats: Effect.Effect<CompileStats>;
  /** Lets go of the programs; the count of traces stays. */
  readonly clear: Effect.Effect<void>;
}

/**
 * A placeholder of an input's shape and dtype, which a program binds to the tensor at `slot`.
 *
 * Use it with `freezeProgram` and `runProgram` to trace by hand. A placeholder has no elements: computing it fails.
 */
export const makeInput = (slot: number, exemplar: Any): Built => inputOf(undefined, slot, exemplar);

/** A placeholder for the program of one trace alone, or for any. */
const inputOf = (trace: object | undefined, slot: number, exemplar: Any): Built =>
  build("makeInput", () => ({
    op: "input",
    inputs: [exemplar],
    attributes: { slot, shape: exemplar.shape, dtype: exemplar.dtype, ...(trace !== undefined && { trace }) },
  }));

/** Placeholders of tensors for the program of one trace, which `freeze` compiles on behalf of a function. */
export const traced = (
  op: string,
  inputs: ReadonlyArray<Any>,
): Effect.Effect<
  {
    readonly placeholders: ReadonlyArray<Lazy>;
    readonly freeze: (
      roots: ReadonlyArray<Any>,
      options?: Runtime.ExecutableCompileOptions,
      updates?: Runtime.CompileRequest["updates"],
    ) => ReturnType<typeof freezeProgram>;
  },
  TensorError,
  Runtime.Runtime
> => {
  const trace = {};
  return Effect.map(
    Effect.forEach(inputs, (input, slot) => inputOf(trace, slot, input)),
    (placeholders) => ({ placeholders, freeze: (roots, options, updates) => frozen(op, roots, options, { trace, updates }) }),
  );
};

/** Parts of a request that are not for programs. */
type Inner = Pick<Runtime.CompileRequest, "trace" | "updates">;

/**
 * A placeholder of rank 0, which a program binds to a number.
 *
 * Numbers have the slots after those of the tensors: with two tensors, the first number has slot 2. Use it for what changes
 * at each call, such as a learning rate.
 */
export const makeScalarInput = (slot: number, dtype: DType): Built =>
  build("makeScalarInput", { op: "scalarInput", inputs: [], attributes: { slot, dtype } });

/** What results are, as their nodes say. */
export const outputsOf = (roots: ReadonlyArray<Any>): CompiledProgram["outputs"] =>
  Object.freeze(roots.map(({ shape, dtype, placement }) => Object.freeze({ shape, dtype, placement })));

/** Compiles roots, whose placeholders are the inputs, into one program. */
export const freezeProgram = (
  roots: ReadonlyArray<Any>,
  options?: Runtime.ExecutableCompileOptions,
): Effect.Effect<CompiledProgram, TensorError, Runtime.Runtime> => frozen("freezeProgram", roots, options, {});

const frozen = (
  op: string,
  roots: ReadonlyArray<Any>,
  options: Runtime.ExecutableCompileOptions | undefined,
  { trace, updates }: { readonly [K in keyof Inner]?: Inner[K] | undefined },
): Effect.Effect<CompiledProgram, TensorError, Runtime.Runtime> =>
  Effect.map(
    ask(op, (runtime) =>
      runtime.compile({
        roots,
        ...(options !== undefined && { options: settingsOf(options) }),
        ...(trace !== undefined && { trace }),
        ...(updates !== undefined && { updates }),
      }),
    ),
    (handle) => Object.freeze({ handle, outputs: outputsOf(roots) }),
  );

/** The options that a backend knows. */
function settingsOf({ optimize, constantWeights }: Runtime.ExecutableCompileOptions): Runtime.ExecutableCompileOptions {
  return { ...(optimize !== undefined && { optimize }), ...(constantWeights !== undefined && { constantWeights }) };
}

/**
 * Runs a program on the tensors of its slots, and on the numbers after them.
 *
 * Nodes of graphs are computed first. Random numbers are drawn anew. Fails for a tensor of another shape or dtype than its
 * placeholder. Interrupting it stops the work, and nothing has changed then.
 */
export const runProgram = (
  program: CompiledProgram,
  inputs: ReadonlyArray<Any>,
  scalars: ReadonlyArray<number> = [],
): Effect.Effect<Array<Concrete>, TensorError, Runtime.Runtime> => ran("runProgram", program, inputs, scalars);

/**
 * As `runProgram`, on behalf of a function; the inputs of the slots `taken` are given up once the call has begun, also if it
 * fails later.
 */
export const ran = (
  op: string,
  program: CompiledProgram,
  inputs: ReadonlyArray<Any>,
  scalars: ReadonlyArray<number>,
  taken: ReadonlyArray<number> = [],
): Effect.Effect<Array<Concrete>, TensorError, Runtime.Runtime> =>
  withElements(op, inputs, (bindings) =>
    Effect.map(
      ask(op, (runtime) => runtime.execute(program.handle, { bindings, scalars, taken, runtimeValues: {} })),
      (results) => [...results],
    ),
  );

/**
 * A function that is traced on placeholders at the first call with inputs of a signature, and runs as one program then.
 *
 * Use it for what runs many times. A signature is the runtime with shapes, dtypes and placements of the inputs. `build` runs
 * only while it is traced, so that numbers which change belong into inputs. Calls of one signature at the same time share one
 * trace, one that fails is not kept, and the least recently used program makes room for a new one.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const layer = yield* Tensor.compile(([x, weight]) =>
 *     Effect.gen(function*() {
 *       return [yield* Tensor.relu(yield* Tensor.matmul(x, weight))]
 *     }))
 *   const [output] = yield* layer.call([yield* Tensor.ones([2, 3]), yield* Tensor.ones([3, 4])])
 *   return yield* Tensor.toNumberArray(output) // eight times 3
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const compile = <E = never, R = never>(
  build: (inputs: ReadonlyArray<Lazy>) => Effect.Effect<ReadonlyArray<Any>, E, R>,
  options: CompileOptions = {},
): Effect.Effect<CompiledFn<E, R>> =>
  Effect.sync(() => {
    const cache = makeProgramCache(options.cacheCapacity);
    const trace = Effect.fnUntraced(function* (inputs: ReadonlyArray<Any>) {
      const { placeholders, freeze } = yield* traced("compile", inputs);
      return yield* freeze(yield* build(placeholders), options);
    });
    return {
      call: Effect.fnUntraced(function* (inputs: ReadonlyArray<Any>) {
        if (typeof build !== "function") return yield* failure("compile", `got ${found(build)}, expected a function`);
        const wrong = notTensors(inputs);
        if (wrong !== undefined) return yield* failure("compile", wrong);
        const runtime = yield* Runtime.Runtime;
        const program = yield* cachedProgram(cache, signatureOf(inputs, runtime), () => trace(inputs));
        return yield* ran("compile", program, inputs, []);
      }),
      stats: cache.stats,
      clear: cache.clear,
    };
  });
