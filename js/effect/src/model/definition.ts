/** What a model is: names, first values and a forward graph. Models hold no parameters and have no state. */
import { Data, Effect } from "effect";
import { describe } from "lanthorn/raw";

import { isRecord } from "../record.js";
import type * as Runtime from "../runtime.js";
import * as Tensor from "../tensor.js";

/** A model that cannot be built, or parameters that are not its own. */
export class ModelError extends Data.TaggedError("ModelError")<{
  readonly op: string;
  readonly message: string;
}> {}

/** A parameter's name, by which files know it, and its shape. */
export interface ParameterSpec {
  readonly name: string;
  readonly shape: ReadonlyArray<number>;
}

/** The parameters of a model in the order of its names. */
export type Params = ReadonlyArray<Tensor.Any>;

/**
 * A function of parameters and an input, with names for the parameters and first values of theirs.
 *
 * `forward` builds the graph: for composition, gradients and whatever else is computed with it. `execute` computes the
 * output by a program that it compiles once for each shape and dtype; `stats` and `clear` are about these programs.
 */
export interface Model {
  readonly parameters: ReadonlyArray<ParameterSpec>;
  readonly names: ReadonlyArray<string>;
  /** First values, lazy: each computation of them draws anew. */
  readonly init: Effect.Effect<Params, ModelError | Tensor.TensorError, Runtime.Runtime>;
  readonly forward: (
    params: Params,
    input: Tensor.Any,
  ) => Effect.Effect<Tensor.Lazy, ModelError | Tensor.TensorError, Runtime.Runtime>;
  readonly execute: (
    params: Params,
    input: Tensor.Any,
  ) => Effect.Effect<Tensor.Concrete, ModelError | Tensor.TensorError, Runtime.Runtime>;
  readonly stats: Effect.Effect<Tensor.CompileStats>;
  readonly clear: Effect.Effect<void>;
}

/** What `define` makes a model of. A model with parameters and no `init` takes its parameters from files. */
export interface Definition {
  readonly parameters: ReadonlyArray<ParameterSpec>;
  readonly init?: Effect.Effect<Params, Tensor.TensorError, Runtime.Runtime>;
  readonly forward: Model["forward"];
}

/**
 * A model of one's own. Fails with `ModelError` where a name is empty or stands twice, or a shape is none.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import { Model, Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const scale = Model.define({
 *   parameters: [{ name: "scale.weight", shape: [3] }],
 *   init: Effect.map(Tensor.ones([3]), (weight) => [weight]),
 *   forward: ([weight], input) => Tensor.mul(input, weight!)
 * })
 * assert.ok((await Effect.runPromise(scale)).names[0] === "scale.weight")
 * ```
 */
export const define = (definition: Definition): Effect.Effect<Model, ModelError> =>
  Effect.gen(function*() {
    const names = new Set<string>();
    const wrong = notDefinition(definition);
    if (wrong !== undefined) return yield* fault("define", wrong);
    for (const { name, shape } of definition.parameters) {
      if (name === "") return yield* fault("define", "a parameter's name is empty");
      if (names.has(name)) return yield* fault("define", `duplicate parameter name ${name}`);
      if (!shape.every((size) => Number.isInteger(size) && size >= 0)) {
        return yield* fault("define", `the shape of ${name} is [${shape}], expected integers of at least 0`);
      }
      names.add(name);
    }
    return build(definition);
  });

/** What is wrong with what should be a definition; undefined for nothing. */
function notDefinition(definition: unknown): string | undefined {
  if (!isRecord(definition)) return `got ${describe(definition)}, expected an object with parameters and forward`;
  const { parameters, forward } = definition;
  if (!Array.isArray(parameters)) return `the parameters are ${describe(parameters)}, expected a list of name and shape`;
  const wrong = parameters.findIndex((one) => !isRecord(one) || typeof one["name"] !== "string" || !Array.isArray(one["shape"]));
  if (wrong >= 0) return `parameter ${wrong} is ${describe(parameters[wrong])}, expected an object with name and shape`;
  return typeof forward === "function" ? undefined : `forward is ${describe(forward)}, expected a function`;
}

/** What is wrong with what should be a model; undefined for nothing. */
export function notModel(model: unknown): string | undefined {
  if (Effect.isEffect(model)) return "an effect, expected the model that it gives (yield* it)";
  const isModel = isRecord(model) && Array.isArray(model["parameters"]) && typeof model["forward"] === "function";
  return isModel ? undefined : `${describe(model)}, expected a model`;
}

/** Fails for options that are none. */
export function checkOptions(op: string, options: unknown): Effect.Effect<void, ModelError> {
  return isRecord(options) ? Effect.void : fault(op, `the options are ${describe(options)}, expected an object`);
}

/** A model of a definition whose names are known to differ. */
export function build({ parameters, init, forward }: Definition): Model {
  const names = parameters.map(({ name }) => name);
  const checked: Model["forward"] = (params, input) =>
    Effect.andThen(checkArity("forward", names, params), () => forward(params, input));
  let compiled: Tensor.CompiledFn<ModelError | Tensor.TensorError, Runtime.Runtime> | undefined;
  const program = Effect.suspend(() => {
    if (compiled !== undefined) return Effect.succeed(compiled);
    const traced = Tensor.compile((inputs) =>
      Effect.map(checked(inputs.slice(0, -1), inputs.at(-1) as Tensor.Any), (output) => [output]),
    );
    return Effect.map(traced, (made) => (compiled ??= made));
  });
  return {
    parameters,
    names,
    init: Effect.gen(function*() {
      if (init === undefined && names.length > 0) {
        return yield* fault("init", `the model defines no first values of [${names.join(", ")}]; load them from a file`);
      }
      const params = init === undefined ? [] : yield* init;
      yield* checkArity("init", names, params);
      return params;
    }),
    forward: checked,
    execute: (params, input) =>
      Effect.gen(function*() {
        yield* checkArity("execute", names, params);
        const [output] = yield* (yield* program).call([...params, input]);
        return output as Tensor.Concrete;
      }),
    stats: Effect.suspend(() => compiled?.stats ?? Effect.succeed({ cached: 0, compiled: 0 })),
    clear: Effect.suspend(() => compiled?.clear ?? Effect.void),
  };
}

/** Fails unless there is a tensor for each name. */
export function checkArity(op: string, names: ReadonlyArray<string>, params: Params): Effect.Effect<void, ModelError> {
  if (params.length === names.length) return Effect.void;
  return fault(op, `the model has ${names.length} parameters, got ${params.length}; they are [${names.join(", ")}]`);
}

export function fault(op: string, message: string): Effect.Effect<never, ModelError> {
  return Effect.fail(new ModelError({ op, message }));
}
