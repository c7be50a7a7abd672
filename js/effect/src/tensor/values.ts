/** Elements of tensors as JavaScript holds them. */

import { Effect } from "effect";
import { elementsOf } from "lanthorn/raw";

import * as Runtime from "../runtime.js";
import { withElements } from "./compute.js";
import { ask, failure, guarded, type Any, type Concrete, type TensorError, type TypedArray } from "./core.js";

const read = (op: string, tensor: Concrete) =>
  Effect.map(
    ask(op, (runtime) => runtime.readback(tensor)),
    (bytes) => elementsOf(tensor.dtype, bytes) as TypedArray,
  );

/**
 * The elements in row-major order; a node of a graph is computed first.
 *
 * `f16` and `bf16` are widened to `Float32Array`, and `i64` is `BigInt64Array`. Interrupting it stops the work.
 */
export const toTypedArray = (self: Any): Effect.Effect<TypedArray, TensorError, Runtime.Runtime> =>
  withElements("toTypedArray", [self], ([tensor]) => read("toTypedArray", tensor as Concrete));

/** The elements as numbers, as `toTypedArray`. Fails for `i64`, of which not every number is one of JavaScript's. */
export const toNumberArray = guarded(
  "toNumberArray",
  (self: Any): Effect.Effect<Array<number>, TensorError, Runtime.Runtime> => {
    if (self.dtype === "i64") {
      return failure("toNumberArray", "the dtype is i64, whose elements are bigints; use toTypedArray, or cast first");
    }
    return withElements("toNumberArray", [self], ([tensor]) =>
      Effect.map(read("toNumberArray", tensor as Concrete), (elements) => Array.from(elements as Iterable<number>)),
    );
  },
);
