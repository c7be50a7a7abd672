/** Functions of each element: arithmetic, comparison, exponentials, rounding. */

import { dual } from "effect/Function";

import {
  binary,
  build,
  optional,
  unary,
  type Any,
  type Binary,
  type Built,
  type DType,
  type Optional,
  type With,
} from "./core.js";

/**
 * `self + other`, broadcast.
 *
 * Use it with two tensors, or in a pipe with the other one. Fails for shapes that do not broadcast and for two dtypes, unless
 * one operand is a float of rank 0, which takes the dtype of the other float.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const a = yield* Tensor.ones([2, 1])
 *   const b = yield* Tensor.arange(3)
 *   const first = yield* Tensor.add(a, b)
 *   const second = yield* a.pipe(Tensor.add(b))
 *   return [first.shape, second.shape] // [[2, 3], [2, 3]]
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const add: Binary = binary("add");
/** `self - other`, broadcast. Fails as `add`. */
export const sub: Binary = binary("sub");
/** `self * other`, broadcast. Fails as `add`. */
export const mul: Binary = binary("mul");
/** `self / other`, broadcast. Fails as `add`. */
export const div: Binary = binary("div");
/** The larger of two elements, broadcast; NaN where one is NaN. Fails as `add`. */
export const maximum: Binary = binary("maximum");
/** The smaller of two elements, broadcast; NaN where one is NaN. Fails as `add`. */
export const minimum: Binary = binary("minimum");
/** What is left of `self` after division by `other`, with the sign of `other`, broadcast. Fails as `add`. */
export const remainder: Binary = binary("remainder");

/** 1 where elements are equal, else 0, in `u8`; broadcast. Fails as `add`. */
export const eq: Binary = binary("eq");
/** 1 where elements differ, else 0, in `u8`; broadcast. Fails as `add`. */
export const ne: Binary = binary("ne");
/** 1 where `self > other`, else 0, in `u8`; broadcast. Fails as `add`. */
export const gt: Binary = binary("gt");
/** 1 where `self < other`, else 0, in `u8`; broadcast. Fails as `add`. */
export const lt: Binary = binary("lt");
/** 1 where `self >= other`, else 0, in `u8`; broadcast. Fails as `add`. */
export const ge: Binary = binary("ge");
/** 1 where `self <= other`, else 0, in `u8`; broadcast. Fails as `add`. */
export const le: Binary = binary("le");
/** 1 where neither element is 0, else 0, in `u8`; broadcast. */
export const logicalAnd: Binary = binary("logicalAnd");
/** 1 where an element is not 0, else 0, in `u8`; broadcast. */
export const logicalOr: Binary = binary("logicalOr");
/** 1 where an element is 0, else 0, in `u8`. */
export const logicalNot: (self: Any) => Built = unary("logicalNot");

/**
 * `a` where the condition is not 0, else `b`; broadcast.
 *
 * Conditions are what comparisons give. In a pipe the condition comes first: `cond.pipe(Tensor.where(a, b))`. Fails where
 * the dtypes of `a` and `b` differ, as `add` does.
 */
export const where: {
  (a: Any, b: Any): (cond: Any) => Built;
  (cond: Any, a: Any, b: Any): Built;
} = dual(3, (cond: Any, a: Any, b: Any) => build("where", { op: "whereCond", inputs: [cond, a, b] }));

/** Bounds of `clamp`. */
export interface ClampOptions {
  readonly min?: number;
  readonly max?: number;
}

/** Elements held between bounds, of which each may be left out. */
export const clamp: Optional<ClampOptions> = optional("clamp", (self, { min, max }: ClampOptions = {}) =>
  build("clamp", {
    op: "clamp",
    inputs: [self],
    attributes: { ...(min !== undefined && { min }), ...(max !== undefined && { max }) },
  }),
);

/**
 * Elements converted to another dtype. Floats become integers by their whole part.
 *
 * Use it where dtypes differ: nothing else converts. Gradients of floats pass through it in their own dtype.
 */
export const cast: With<DType> = dual(2, (self: Any, dtype: DType) =>
  build("cast", { op: "cast", inputs: [self], attributes: { dtype } }),
);

/** `-x`. */
export const neg: (self: Any) => Built = unary("neg");
/** The size of each element without its sign. */
export const abs: (self: Any) => Built = unary("abs");
/** -1, 0 or 1 by sign. */
export const sign: (self: Any) => Built = unary("sign");
/** The square root; NaN below 0. */
export const sqrt: (self: Any) => Built = unary("sqrt");
/** `1 / sqrt(x)`. */
export const rsqrt: (self: Any) => Built = unary("rsqrt");
/** `x * x`. */
export const square: (self: Any) => Built = unary("square");
/** `1 / x`. */
export const reciprocal: (self: Any) => Built = unary("reciprocal");
/** `x` to the power of a number. Fails for an exponent that an integer dtype cannot hold. */
export const pow: With<number> = dual(2, (self: Any, exponent: number) =>
  build("pow", { op: "pow", inputs: [self], attributes: { exponent } }),
);
/** `e^x`. */
export const exp: (self: Any) => Built = unary("exp");
/** `e^x - 1`, exact near 0. */
export const expm1: (self: Any) => Built = unary("expm1");
/** The natural logarithm; NaN below 0. */
export const log: (self: Any) => Built = unary("log");
/** `log(1 + x)`, exact near 0. */
export const log1p: (self: Any) => Built = unary("log1p");
/** The logarithm to base 2. */
export const log2: (self: Any) => Built = unary("log2");
/** The logarithm to base 10. */
export const log10: (self: Any) => Built = unary("log10");
/** The sine of radians. */
export const sin: (self: Any) => Built = unary("sin");
/** The cosine of radians. */
export const cos: (self: Any) => Built = unary("cos");
/** The tangent of radians. */
export const tan: (self: Any) => Built = unary("tan");
/** The hyperbolic sine. */
export const sinh: (self: Any) => Built = unary("sinh");
/** The hyperbolic cosine. */
export const cosh: (self: Any) => Built = unary("cosh");
/** The hyperbolic tangent. */
export const tanh: (self: Any) => Built = unary("tanh");
/** The error function. */
export const erf: (self: Any) => Built = unary("erf");
/** The largest whole number not above `x`. */
export const floor: (self: Any) => Built = unary("floor");
/** The smallest whole number not below `x`. */
export const ceil: (self: Any) => Built = unary("ceil");
/** The nearest whole number; halves go away from zero. */
export const round: (self: Any) => Built = unary("round");
