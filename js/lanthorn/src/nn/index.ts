/** Layers, losses, and the modules that hold them. */

export * from "./activation.js";
export * from "./attention.js";
export * from "./containers.js";
export * from "./convolution.js";
export * from "./delta.js";
export * from "./linear.js";
export * from "./loss.js";
export {
  get_parameters,
  get_state_dict,
  getParameters,
  getStateDict,
  Module,
  parameter,
  type Member,
  type StateDict,
} from "./module.js";
export * from "./normalization.js";
export * from "./pool.js";
export * from "./recurrent.js";
import * as activations from "./activation.js";
import * as attention from "./attention.js";
import { expectTensor } from "./checks.js";
import * as convolutions from "./convolution.js";
import * as linear from "./linear.js";
import * as norms from "./normalization.js";
import * as pools from "./pool.js";
import * as recurrent from "./recurrent.js";

// Optimisers too, where other libraries of this kind have them.
export * from "../optim/index.js";

/** Prototypes whose `forward` checks what it is given. */
const GUARDED = new WeakSet<object>();

/** Has the `forward` of a layer say so if it is given no tensor. */
function guard(prototype: object): void {
  const property = Object.getOwnPropertyDescriptor(prototype, "forward");
  if (property === undefined || GUARDED.has(prototype)) return;
  GUARDED.add(prototype);
  const forward = property.value as (this: object, ...inputs: unknown[]) => unknown;
  const value = function (this: object, ...inputs: unknown[]): unknown {
    expectTensor(`${this.constructor.name}.forward`, "the input", inputs[0]);
    return forward.apply(this, inputs);
  };
  Object.defineProperty(prototype, "forward", { ...property, value });
}

for (const layers of [activations, attention, convolutions, linear, norms, pools, recurrent]) {
  for (const layer of Object.values(layers)) {
    // An embedding takes ids in other forms too.
    if (layer === linear.Embedding) continue;
    guard(layer.prototype);
    // The base of a family, which is not among the exports, may hold the `forward` of all.
    guard(Object.getPrototypeOf(layer.prototype) as object);
  }
}
