/** Parameters of models in safetensors files. */
import { Effect } from "effect";

import type * as Runtime from "../runtime.js";
import * as Tensor from "../tensor.js";
import { checkArity, fault, type Model, type ModelError, type Params } from "./definition.js";

/** Writes parameters under the model's names. Lazy ones are computed. Fails with `ModelError` where there are too few or many. */
export const save = (
  model: Model,
  params: Params,
  path: string,
): Effect.Effect<void, ModelError | Tensor.TensorError, Runtime.Runtime> =>
  Effect.gen(function*() {
    yield* checkArity("save", model.names, params);
    yield* Tensor.save(path, Object.fromEntries(model.names.map((name, at) => [name, params[at] as Tensor.Any])));
  });

/**
 * Parameters that a file holds under the model's names; what else it holds is left. Fails with `ModelError` where a name is
 * missing. Shapes are checked where the parameters are used.
 */
export const load = (
  model: Model,
  path: string,
): Effect.Effect<Array<Tensor.Concrete>, ModelError | Tensor.TensorError, Runtime.Runtime> =>
  Effect.gen(function*() {
    const tensors = new Map(Object.entries(yield* Tensor.load(path)));
    const missing = model.names.filter((name) => !tensors.has(name));
    if (missing.length > 0) {
      yield* Tensor.clearAll(tensors.values());
      return yield* fault("load", `${path} lacks ${missing.join(", ")}`);
    }
    const params = model.names.map((name) => tensors.get(name) as Tensor.Concrete);
    for (const name of model.names) tensors.delete(name);
    yield* Tensor.clearAll(tensors.values());
    return params;
  });
