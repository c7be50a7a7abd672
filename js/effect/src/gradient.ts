/** Gradients of graphs: they are graphs again, so that they can be differentiated, compiled and computed as any other. */

import { Data, Effect } from "effect";

import type * as Runtime from "./runtime.js";
import { ask, build, failure, notTensors } from "./tensor/core.js";
import { TensorError, type Any, type DType, type Lazy } from "./tensor.js";

/**
 * A graph that has no gradient.
 *
 * Handle it with `Effect.catchTag("GradError", ..)`; `reason` says what is wrong, `detail` what was found.
 */
export class GradError extends Data.TaggedError("GradError")<{
  readonly reason: "non-scalar-output" | "non-float-dtype" | "not-differentiable";
  readonly detail: string;
}> {
  override get message(): string {
    return `${this.reason}: ${this.detail}`;
  }
}

type Graded<A> = Effect.Effect<A, GradError | TensorError, Runtime.Runtime>;

const refuse = (reason: GradError["reason"], detail: string) => Effect.fail(new GradError({ reason, detail }));

const isFloat = (dtype: DType) => dtype.startsWith("f") || dtype === "bf16";

/** A failure of the backend for lack of a derivative is one of the graph. */
const differentiated = <A>(effect: Effect.Effect<A, TensorError, Runtime.Runtime>): Graded<A> =>
  Effect.mapError(effect, (error) => {
    const { backend } = error;
    if (backend?.reason !== "unsupported-operation") return error;
    return new GradError({ reason: "not-differentiable", detail: error.message });
  });

/** Fails unless all tensors are of floats. */
const ofFloats = (tensors: ReadonlyArray<readonly [what: string, tensor: Any]>): Effect.Effect<void, GradError> => {
  const wrong = tensors.find(([, { dtype }]) => !isFloat(dtype));
  if (wrong === undefined) return Effect.void;
  return refuse("non-float-dtype", `${wrong[0]} has dtype ${wrong[1].dtype}, expected f32, f64, f16 or bf16`);
};

/**
 * The gradients of a loss of one element with respect to tensors of its graph: nodes, or elements that it was made of.
 *
 * A tensor that the loss does not depend on has a gradient of zeros. Fails for a loss of more elements, for integers, and for
 * operations without a derivative.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Gradient, Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const x = yield* Tensor.arange(3)
 *   const loss = yield* Tensor.sum(yield* Tensor.square(x))
 *   const [gradient] = yield* Gradient.grad(loss, [x])
 *   return yield* Tensor.toNumberArray(gradient) // [0, 2, 4]
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const grad = (loss: Any, wrt: ReadonlyArray<Any>): Graded<Array<Lazy>> => {
  const wrong = notTensors([loss]) ?? notTensors(wrt);
  if (wrong !== undefined) return failure("grad", wrong);
  if (loss.shape.some((size) => size !== 1)) {
    return refuse(
      "non-scalar-output",
      `the loss has shape [${loss.shape.join(", ")}], expected one element; take its sum or mean`,
    );
  }
  const operands = [["the loss", loss] as const, ...wrt.map((tensor, at) => [`tensor ${at}`, tensor] as const)];
  return Effect.andThen(
    ofFloats(operands),
    differentiated(
      Effect.map(
        ask("grad", (runtime) => runtime.grad(loss, wrt)),
        (gradients) => [...gradients],
      ),
    ),
  );
};

/** The same value, through which no gradient flows. */
export const stopGradient = (self: Any): Effect.Effect<Lazy, TensorError, Runtime.Runtime> =>
  build("stopGradient", { op: "stopGradient", inputs: [self] });

/**
 * The same value, whose graph the gradient computes again.
 *
 * Use it where memory is scarce: what lies between checkpoints is not kept.
 */
export const checkpoint = (self: Any): Effect.Effect<Lazy, TensorError, Runtime.Runtime> =>
  build("checkpoint", { op: "checkpoint", inputs: [self] });

const product = (op: "vjp" | "jvp", y: Any, x: Any, v: Any): Graded<Lazy> => {
  const wrong = notTensors([y, x, v]);
  if (wrong !== undefined) return failure(op, wrong);
  return Effect.andThen(
    ofFloats([
      ["y", y],
      ["x", x],
      ["v", v],
    ]),
    differentiated(build(op, { op, inputs: [y, x, v] } as Runtime.NodeRequest)),
  );
};

/** What a direction `v` of `y`'s shape becomes along `x`: the product of `v` and the Jacobian of `y`. */
export const vjp = (y: Any, x: Any, v: Any): Graded<Lazy> => product("vjp", y, x, v);

/** What a direction `v` of `x`'s shape becomes along `y`: the product of the Jacobian of `y` and `v`. */
export const jvp = (y: Any, x: Any, v: Any): Graded<Lazy> => product("jvp", y, x, v);

/**
 * `y` for each slice of `batchedX` along an axis, the first by default, in the place of `x`; stacked along the first axis.
 *
 * Fails where the slices are not of the shape of `x`, and for operations that cannot be batched.
 */
export const vmap = (
  y: Any,
  x: Any,
  batchedX: Any,
  options?: { readonly dim?: number },
): Effect.Effect<Lazy, TensorError, Runtime.Runtime> =>
  build("vmap", () => ({ op: "vmap", inputs: [y, x, batchedX], attributes: { dim: options?.dim ?? 0 } }));
