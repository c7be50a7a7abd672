/** Elements out of graphs, and giving them up. */

import { Effect, type Scope } from "effect";
import { describe } from "lanthorn/raw";

import { isCount } from "../record.js";
import * as Runtime from "../runtime.js";
import {
  ask,
  expectTensor,
  failure,
  found,
  guarded,
  isTensor,
  named,
  notTensors,
  TensorError,
  type Any,
  type Concrete,
} from "./core.js";

/**
 * Computes roots in one program, off the event loop.
 *
 * Use one call for all that belongs together: what roots share is computed once, and random numbers are drawn once for all.
 * Each result is a tensor of its own, also that of a root which holds elements already. Interrupting it stops the work;
 * nothing of it runs any more when the fiber ends. Fails for placeholders, and for whatever fails in a kernel.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const x = yield* Tensor.randn([1000])
 *   const [mean, deviation] = yield* Tensor.compute([yield* Tensor.mean(x), yield* Tensor.std(x)])
 *   return [yield* Tensor.toNumberArray(mean), yield* Tensor.toNumberArray(deviation)]
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const compute = <const Roots extends ReadonlyArray<Any>>(
  roots: Roots,
): Effect.Effect<{ -readonly [K in keyof Roots]: Concrete }, TensorError, Runtime.Runtime> =>
  ask("compute", (runtime) => runtime.compute?.(roots) ?? once(runtime, roots)) as Effect.Effect<
    { -readonly [K in keyof Roots]: Concrete },
    TensorError,
    Runtime.Runtime
  >;

/** Computes roots by an executable that is called once. */
const once = (runtime: Runtime.RuntimeService, roots: ReadonlyArray<Any>) =>
  Effect.flatMap(runtime.compile({ roots }), (executable) =>
    runtime.execute(executable, { bindings: [], scalars: [], runtimeValues: {} }),
  );

/** How a token is drawn out of logits. */
export interface SamplingOptions {
  /** What logits are divided by; 1 by default, and 0 takes the most likely token. */
  readonly temperature?: number;
  /** The number of tokens to draw from; all by default. */
  readonly topK?: number;
  /** The probability of the tokens to draw from; all by default. */
  readonly topP?: number;
  /** The same seed and counter give the same token. */
  readonly seed: number;
  /** Which draw of the seed this is; 0 by default. */
  readonly counter?: number;
}

const COUNT = "a whole number from 0 to 2^53 - 1";

/** For each option of sampling whether a value is one, and what is. */
const SAMPLING: {
  readonly [K in keyof Runtime.SamplingOptions]: readonly [isRight: (value: unknown) => boolean, expected: string];
} = {
  temperature: [(value) => Number.isFinite(value) && (value as number) >= 0, "a finite number of at least 0"],
  topK: [isCount, COUNT],
  topP: [(value) => typeof value === "number" && value > 0 && value <= 1, "a number above 0 and at most 1"],
  seed: [isCount, COUNT],
  counter: [isCount, COUNT],
};

/** Sampling options with what was left out. */
export const samplingOf = (
  op: string,
  options: SamplingOptions,
): Effect.Effect<Runtime.SamplingOptions, TensorError> => {
  const { temperature = 1, topK = 0, topP = 1, seed, counter = 0 } = options;
  const whole = { temperature, topK, topP, seed, counter };
  for (const name of Object.keys(whole) as ReadonlyArray<keyof typeof whole>) {
    const [isRight, expected] = SAMPLING[name];
    if (!isRight(whole[name])) return failure(op, `${name} is ${describe(whole[name])}, expected ${expected}`);
  }
  return Effect.succeed(whole);
};

/** A token out of the last row of logits `[.., vocabulary]`, without reading them back. */
export const sample: (
  logits: Concrete,
  options: SamplingOptions,
) => Effect.Effect<number, TensorError, Runtime.Runtime> = guarded(
  "sample",
  (logits: Concrete, options: SamplingOptions) =>
    Effect.flatMap(samplingOf("sample", options), (whole) =>
      ask("sample", (runtime) => runtime.extensions.sampling.sample(logits, whole)),
    ),
);

/**
 * Gives up a tensor's elements; what is done with the tensor afterwards fails with the reason `invalid-handle`.
 *
 * Use it where memory is to be free at once; otherwise the garbage collector does it. Nodes of graphs over the tensor do not
 * hold its memory: to compute, save or compile one of them afterwards fails with `invalid-handle` too, so that what is needed
 * of them is to be computed before. What runs already has its own hold of the elements, as have programs that were compiled
 * over the tensor, and tensors that share its memory, such as another result of one `compute`: each keeps it until it goes.
 *
 * A tensor that was cleared before, or is of another runtime, is left as it is. What is no tensor is a defect, a
 * `TensorError`: nothing can be cleared of it.
 */
export const clear = (self: Concrete): Effect.Effect<void, never, Runtime.Runtime> =>
  Runtime.Runtime.use((runtime) => Effect.ignore(runtime.release(expectTensor("clear", self))));

/** Gives up the elements of several tensors, as `clear`. Nothing is cleared where one of them is no tensor. */
export const clearAll = (tensors: Iterable<Concrete>): Effect.Effect<void, never, Runtime.Runtime> =>
  Effect.suspend(() => Effect.forEach(listed("clearAll", tensors), clear, { discard: true }));

/** Gives up a tensor's elements when the scope closes. Gives the tensor. What is no tensor is a defect, as in `clear`. */
export const clearScoped = <A extends Concrete>(self: A): Effect.Effect<A, never, Runtime.Runtime | Scope.Scope> =>
  Effect.suspend(() => {
    expectTensor("clearScoped", self);
    return Effect.as(
      Effect.addFinalizer(() => clear(self)),
      self,
    );
  });

/** Gives up the elements of several tensors when the scope closes, as `clearScoped`. Gives the tensors. */
export const clearAllScoped = <Tensors extends Iterable<Concrete>>(
  tensors: Tensors,
): Effect.Effect<Tensors, never, Runtime.Runtime | Scope.Scope> =>
  Effect.suspend(() => {
    const list = listed("clearAllScoped", tensors);
    return Effect.as(
      Effect.addFinalizer(() => clearAll(list)),
      tensors,
    );
  });

/** The tensors of an iterable; throws for one that is none, and where something in it is no tensor. */
function listed(op: string, tensors: Iterable<Concrete>): ReadonlyArray<Concrete> {
  let list: ReadonlyArray<Concrete>;
  try {
    list = [...tensors];
  } catch {
    throw new TensorError({ op, message: `${op}: got ${found(tensors)}, expected an iterable of tensors` });
  }
  const wrong = notTensors(list);
  if (wrong !== undefined) throw new TensorError({ op, message: `${op}: ${wrong}` });
  return list;
}

/**
 * Runs `use` on the elements of tensors, of which nodes are computed together, and gives up what was computed.
 */
export const withElements = <A, E, R>(
  op: string,
  tensors: ReadonlyArray<Any>,
  use: (elements: ReadonlyArray<Concrete>) => Effect.Effect<A, E, R>,
): Effect.Effect<A, E | TensorError, R | Runtime.Runtime> => {
  const wrong = notTensors(tensors);
  if (wrong !== undefined) return failure(op, wrong);
  const nodes = tensors.filter((tensor) => !isTensor(tensor));
  if (nodes.length === 0) return use(tensors as ReadonlyArray<Concrete>);
  return Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      restore(named(op, compute(nodes) as Effect.Effect<ReadonlyArray<Concrete>, TensorError, Runtime.Runtime>)),
      (computed) => {
        let next = 0;
        const elements = tensors.map((tensor) => (isTensor(tensor) ? tensor : (computed[next++] as Concrete)));
        return Effect.ensuring(restore(use(elements)), clearAll(computed));
      },
    ),
  );
};
