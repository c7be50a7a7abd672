/** Models made of models. Parameters lie beside each other, in the order of the models. */
import { Effect } from "effect";
import { describe } from "lanthorn/raw";

import * as Gradient from "../gradient.js";
import type * as Runtime from "../runtime.js";
import * as Tensor from "../tensor.js";
import { build, fault, ModelError, notModel, type Model, type Params, type ParameterSpec } from "./definition.js";

/** The same model, whose inner values the backward pass computes again rather than keeps (Chen et al. 2016). */
export const checkpoint = (model: Model): Effect.Effect<Model> =>
  wrapped("checkpoint", model, (params, input) => Effect.flatMap(model.forward(params, input), Gradient.checkpoint));

/** The model's output on top of its input (He et al. 2016). */
export const residual = (model: Model): Effect.Effect<Model> =>
  wrapped("residual", model, (params, input) => Effect.flatMap(model.forward(params, input), (output) => Tensor.add(output, input)));

/** The model over what `f` makes of the input. */
export const mapInput = (
  model: Model,
  f: (input: Tensor.Any) => Effect.Effect<Tensor.Any, Tensor.TensorError, Runtime.Runtime>,
): Effect.Effect<Model> =>
  wrapped("mapInput", model, (params, input) => Effect.flatMap(f(input), (mapped) => model.forward(params, mapped)));

/**
 * Several models over one input, their outputs put together by `f`. Fails with `ModelError` where there are none or two
 * have a parameter of the same name.
 */
export const merge = <const M extends ReadonlyArray<Model>>(
  models: M,
  f: (
    ...outputs: { readonly [K in keyof M]: Tensor.Lazy }
  ) => Effect.Effect<Tensor.Lazy, Tensor.TensorError, Runtime.Runtime>,
): Effect.Effect<Model, ModelError> =>
  together("merge", models, (parts, input) =>
    Effect.gen(function*() {
      const outputs: Array<Tensor.Lazy> = [];
      for (const [at, model] of models.entries()) outputs.push(yield* model.forward(parts[at] as Params, input));
      return yield* f(...(outputs as unknown as { readonly [K in keyof M]: Tensor.Lazy }));
    }),
  );

/** The sum of what several models make of one input. Fails with `ModelError` as `merge`. */
export const add = (...models: ReadonlyArray<Model>): Effect.Effect<Model, ModelError> =>
  together("add", models, (parts, input) =>
    Effect.gen(function*() {
      let sum: Tensor.Lazy | undefined;
      for (const [at, model] of models.entries()) {
        const output = yield* model.forward(parts[at] as Params, input);
        sum = sum === undefined ? output : yield* Tensor.add(sum, output);
      }
      return sum as Tensor.Lazy;
    }),
  );

/** One model after the other. Fails with `ModelError` where there are none or two have a parameter of the same name. */
export const chain = (...models: ReadonlyArray<Model>): Effect.Effect<Model, ModelError> =>
  together("chain", models, (parts, input) =>
    Effect.gen(function*() {
      let value = input;
      for (const [at, model] of models.entries()) value = yield* model.forward(parts[at] as Params, value);
      return value as Tensor.Lazy;
    }),
  );

/** A model over another. What is no model is a defect, a `ModelError`. */
function wrapped(op: string, model: Model, forward: Model["forward"]): Effect.Effect<Model> {
  return Effect.sync(() => {
    const wrong = notModel(model);
    if (wrong !== undefined) throw new ModelError({ op, message: `got ${wrong}` });
    return withInit(model.parameters, model.init, forward);
  });
}

/** A model of several: `forward` is given the parameters of each. */
function together(
  op: string,
  models: ReadonlyArray<Model>,
  forward: (
    parts: ReadonlyArray<Params>,
    input: Tensor.Any,
  ) => Effect.Effect<Tensor.Lazy, ModelError | Tensor.TensorError, Runtime.Runtime>,
): Effect.Effect<Model, ModelError> {
  if (!Array.isArray(models as unknown)) return fault(op, `got ${describe(models)}, expected a list of models`);
  for (const [at, model] of models.entries()) {
    const wrong = notModel(model);
    if (wrong !== undefined) return fault(op, `model ${at} is ${wrong}`);
  }
  if (models.length === 0) return fault(op, "there are no models, expected at least one model");
  const parameters = models.flatMap((model) => model.parameters);
  const names = new Set<string>();
  for (const { name } of parameters) {
    if (names.has(name)) return fault(op, `duplicate parameter name ${name}`);
    names.add(name);
  }
  const init = Effect.map(Effect.forEach(models, (model) => model.init), (parts) => parts.flat());
  return Effect.sync(() =>
    withInit(parameters, init, (params, input) => {
      let at = 0;
      const parts = models.map((model) => params.slice(at, (at += model.names.length)));
      return forward(parts, input);
    }),
  );
}

/** As `build`, for a model whose first values are those of others, which may lack them. */
function withInit(parameters: ReadonlyArray<ParameterSpec>, init: Model["init"], forward: Model["forward"]): Model {
  return { ...build({ parameters, forward }), init };
}
