/** Products, systems and properties of matrices. Leading axes are a batch, and those of two operands broadcast. */

import { binary, build, unary, type Any, type Binary, type Built } from "./core.js";

/**
 * The matrix product `[.., m, k] x [.., k, n]`.
 *
 * An operand of rank 1 is a row on the left and a column on the right, and its axis goes away. Fails for sizes that do not
 * fit and for two dtypes.
 */
export const matmul: Binary = binary("matmul");

/** The sum of the products of elements along the last axis. */
export const dot: Binary = binary("dot");

/** `self weight + bias`, of `self [.., in]`, `weight [in, out]` and `bias [out]`. */
export const linear = (self: Any, weight: Any, bias: Any): Built =>
  build("linear", { op: "linear", inputs: [self, weight, bias] });

/** As `linear`, of a weight whose rows are the outputs: `weight [out, in]`, and `bias [out]` if there is one. */
export const linearRows = (self: Any, weight: Any, bias?: Any): Built =>
  build("linearRows", { op: "linearRows", inputs: bias === undefined ? [self, weight] : [self, weight, bias] });

/** The sum of the diagonal of matrices. */
export const trace: (self: Any) => Built = unary("trace");

/** The inverse of matrices. A singular one is an error when the program runs. */
export const inverse: (self: Any) => Built = unary("inverse");

/** The determinant of matrices. */
export const det: (self: Any) => Built = unary("det");

/** `x` with `self x = b`, for `b [.., n, k]` or vectors `[.., n]`. A singular matrix is an error when the program runs. */
export const solve: Binary = binary("solve");
