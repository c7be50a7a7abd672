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
 * Parameters that a file holds under the model's names; what else it holds is left. They have the dtypes of the file. Fails
 * with `ModelError` where a name is missing, or a tensor is of another shape than the parameter.
 */
export const load = (
  model: Model,
  path: string,
): Effect.Effect<Array<Tensor.Concrete>, ModelError | Tensor.TensorError, Runtime.Runtime> =>
  Effect.gen(function*() {
    const tensors = new Map(Object.entries(yield* Tensor.load(path)));
    const wrong = faultOf(model, path, tensors);
    if (wrong !== undefined) {
      yield* Tensor.clearAll(tensors.values());
      return yield* fault("load", wrong);
    }
    const params = model.names.map((name) => tensors.get(name) as Tensor.Concrete);
    for (const name of model.names) tensors.delete(name);
    yield* Tensor.clearAll(tensors.values());
    return params;
  });

/** Why the tensors of a file are not the parameters of a model; undefined where they are. */
function faultOf({ names, parameters }: Model, path: string, tensors: ReadonlyMap<string, Tensor.Concrete>) {
  const missing = names.filter((name) => !tensors.has(name));
  if (missing.length > 0) return `${path} lacks ${missing.join(", ")}`;
  for (const { name, shape } of parameters) {
    const found = tensors.get(name)?.shape;
    if (String(found) !== String(shape)) return `${path}: ${name} is of shape [${found}], expected [${shape}]`;
  }
  return undefined;
}
