// Generated from the engine's op table by scripts/generate-ops.mjs; change the table instead.

import { finish, optionsOf, type Options } from "../create.js";
import type { DType, Scalar } from "../dtype.js";
import { integersOf, session, type Integers, type Session } from "../session.js";
import type { Reading, Tensor } from "../tensor.js";

/** The ops of the table as methods. */
export abstract class Operations<R extends Reading> {
  /** @internal */
  abstract readonly session: Session;

  /** `-x`. */
  neg(): Tensor<R> {
    return this.session.unary("neg", 0, this);
  }

  /** `|x|`. */
  abs(): Tensor<R> {
    return this.session.unary("abs", 1, this);
  }

  /** -1, 0 or 1 by sign. */
  sign(): Tensor<R> {
    return this.session.unary("sign", 2, this);
  }

  /** The largest whole number not above `x`. */
  floor(): Tensor<R> {
    return this.session.unary("floor", 3, this);
  }

  /** The smallest whole number not below `x`. */
  ceil(): Tensor<R> {
    return this.session.unary("ceil", 4, this);
  }

  /** The nearest whole number, halves to even. */
  round(): Tensor<R> {
    return this.session.unary("round", 5, this);
  }

  /** The whole part, towards zero. */
  trunc(): Tensor<R> {
    return this.session.unary("trunc", 6, this);
  }

  /** `e^x`. */
  exp(): Tensor<R> {
    return this.session.unary("exp", 7, this);
  }

  /** `e^x - 1`, exact near 0. */
  expm1(): Tensor<R> {
    return this.session.unary("expm1", 8, this);
  }

  /** The natural logarithm. */
  log(): Tensor<R> {
    return this.session.unary("log", 9, this);
  }

  /** `log(1 + x)`, exact near 0. */
  log1p(): Tensor<R> {
    return this.session.unary("log1p", 10, this);
  }

  /** The square root. */
  sqrt(): Tensor<R> {
    return this.session.unary("sqrt", 11, this);
  }

  /** `1 / sqrt(x)`. */
  rsqrt(): Tensor<R> {
    return this.session.unary("rsqrt", 12, this);
  }

  /** `1 / x`. */
  reciprocal(): Tensor<R> {
    return this.session.unary("reciprocal", 13, this);
  }

  /** The sine, of radians. */
  sin(): Tensor<R> {
    return this.session.unary("sin", 14, this);
  }

  /** The cosine, of radians. */
  cos(): Tensor<R> {
    return this.session.unary("cos", 15, this);
  }

  /** The hyperbolic tangent. */
  tanh(): Tensor<R> {
    return this.session.unary("tanh", 16, this);
  }

  /** `1 / (1 + e^-x)`. */
  sigmoid(): Tensor<R> {
    return this.session.unary("sigmoid", 17, this);
  }

  /** The error function. */
  erf(): Tensor<R> {
    return this.session.unary("erf", 18, this);
  }

  /** `max(x, 0)`. */
  relu(): Tensor<R> {
    return this.session.unary("relu", 19, this);
  }

  /** `x * sigmoid(x)`. */
  silu(): Tensor<R> {
    return this.session.unary("silu", 20, this);
  }

  /** Logical not, of `bool`. */
  logicalNot(): Tensor<R> {
    return this.session.unary("logical_not", 21, this);
  }

  /** True where `x` is neither NaN nor infinite. */
  isfinite(): Tensor<R> {
    return this.session.unary("isfinite", 22, this);
  }

  /** `x + y`. */
  add(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("add", 23, this, y);
    return this.session.scalar("add_scalar", 39, this, y);
  }

  /** `x - y`. */
  sub(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("sub", 24, this, y);
    return this.session.scalar("sub_scalar", 40, this, y);
  }

  /** `x * y`. */
  mul(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("mul", 25, this, y);
    return this.session.scalar("mul_scalar", 42, this, y);
  }

  /** `x / y`; integers truncate towards zero. */
  div(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("div", 26, this, y);
    return this.session.scalar("div_scalar", 43, this, y);
  }

  /** The remainder with the sign of `x`. */
  rem(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("rem", 27, this, y);
    return this.session.scalar("rem_scalar", 44, this, y);
  }

  /** `x^y`. */
  pow(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("pow", 28, this, y);
    return this.session.scalar("pow_scalar", 45, this, y);
  }

  /** The larger element; NaN propagates. */
  maximum(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("maximum", 29, this, y);
    return this.session.scalar("maximum_scalar", 46, this, y);
  }

  /** The smaller element; NaN propagates. */
  minimum(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("minimum", 30, this, y);
    return this.session.scalar("minimum_scalar", 47, this, y);
  }

  /** `x == y` as `bool`. */
  eq(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("eq", 31, this, y);
    return this.session.scalar("eq_scalar", 48, this, y);
  }

  /** `x != y` as `bool`. */
  ne(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("ne", 32, this, y);
    return this.session.scalar("ne_scalar", 49, this, y);
  }

  /** `x < y` as `bool`. */
  lt(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("lt", 33, this, y);
    return this.session.scalar("lt_scalar", 50, this, y);
  }

  /** `x <= y` as `bool`. */
  le(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("le", 34, this, y);
    return this.session.scalar("le_scalar", 51, this, y);
  }

  /** `x > y` as `bool`. */
  gt(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("gt", 35, this, y);
    return this.session.scalar("gt_scalar", 52, this, y);
  }

  /** `x >= y` as `bool`. */
  ge(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("ge", 36, this, y);
    return this.session.scalar("ge_scalar", 53, this, y);
  }

  /** Logical and, of `bool`. */
  logicalAnd(y: Tensor<R>): Tensor<R> {
    return this.session.binary("logical_and", 37, this, y);
  }

  /** Logical or, of `bool`. */
  logicalOr(y: Tensor<R>): Tensor<R> {
    return this.session.binary("logical_or", 38, this, y);
  }

  /** `x + y`. */
  addScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("add_scalar", [this]);
    owner.putScalar(at, "add_scalar", y);
    return owner.one(39);
  }

  /** `x - y`. */
  subScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("sub_scalar", [this]);
    owner.putScalar(at, "sub_scalar", y);
    return owner.one(40);
  }

  /** `y - x`. */
  rsubScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("rsub_scalar", [this]);
    owner.putScalar(at, "rsub_scalar", y);
    return owner.one(41);
  }

  /** `x * y`. */
  mulScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("mul_scalar", [this]);
    owner.putScalar(at, "mul_scalar", y);
    return owner.one(42);
  }

  /** `x / y`. */
  divScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("div_scalar", [this]);
    owner.putScalar(at, "div_scalar", y);
    return owner.one(43);
  }

  /** The remainder of `x / y` with the sign of `x`. */
  remScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("rem_scalar", [this]);
    owner.putScalar(at, "rem_scalar", y);
    return owner.one(44);
  }

  /** `x^y`; the square is a product. */
  powScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("pow_scalar", [this]);
    owner.putScalar(at, "pow_scalar", y);
    return owner.one(45);
  }

  /** The larger of `x` and `y`. */
  maximumScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("maximum_scalar", [this]);
    owner.putScalar(at, "maximum_scalar", y);
    return owner.one(46);
  }

  /** The smaller of `x` and `y`. */
  minimumScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("minimum_scalar", [this]);
    owner.putScalar(at, "minimum_scalar", y);
    return owner.one(47);
  }

  /** `x == y` as `bool`. */
  eqScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("eq_scalar", [this]);
    owner.putScalar(at, "eq_scalar", y);
    return owner.one(48);
  }

  /** `x != y` as `bool`. */
  neScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("ne_scalar", [this]);
    owner.putScalar(at, "ne_scalar", y);
    return owner.one(49);
  }

  /** `x < y` as `bool`. */
  ltScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("lt_scalar", [this]);
    owner.putScalar(at, "lt_scalar", y);
    return owner.one(50);
  }

  /** `x <= y` as `bool`. */
  leScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("le_scalar", [this]);
    owner.putScalar(at, "le_scalar", y);
    return owner.one(51);
  }

  /** `x > y` as `bool`. */
  gtScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("gt_scalar", [this]);
    owner.putScalar(at, "gt_scalar", y);
    return owner.one(52);
  }

  /** `x >= y` as `bool`. */
  geScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("ge_scalar", [this]);
    owner.putScalar(at, "ge_scalar", y);
    return owner.one(53);
  }

  /** `x * x`. */
  square(): Tensor<R> {
    return this.session.unary("square", 54, this);
  }

  /** The tangent, of radians. */
  tan(): Tensor<R> {
    return this.session.unary("tan", 55, this);
  }

  /** `2^x`. */
  exp2(): Tensor<R> {
    return this.session.unary("exp2", 56, this);
  }

  /** The logarithm to base 2. */
  log2(): Tensor<R> {
    return this.session.unary("log2", 57, this);
  }

  /** The logarithm to base 10. */
  log10(): Tensor<R> {
    return this.session.unary("log10", 58, this);
  }

  /** `log(1 + e^x)`, computed as `max(x, 0) + log1p(e^-|x|)`. */
  softplus(): Tensor<R> {
    return this.session.unary("softplus", 59, this);
  }

  /** `log(sigmoid(x))`, computed as `-softplus(-x)`. */
  logSigmoid(): Tensor<R> {
    return this.session.unary("log_sigmoid", 60, this);
  }

  /** `x` where positive, else `slope * x`. */
  leakyRelu(slope?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("leaky_relu", [this]);
    owner.putFloat(at, "leaky_relu", slope);
    return owner.one(61);
  }

  /** `x` where positive, else `alpha * (e^x - 1)`. */
  elu(alpha?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("elu", [this]);
    owner.putFloat(at, "elu", alpha);
    return owner.one(62);
  }

  /** The Gaussian error linear unit `x * Phi(x)`. */
  gelu(approximate?: "none" | "tanh"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("gelu", [this]);
    owner.putWord(at, "gelu", ["none","tanh"], approximate);
    return owner.one(63);
  }

  /** True where `x` is NaN. */
  isnan(): Tensor<R> {
    return this.session.unary("isnan", 64, this);
  }

  /** True where `x` is infinite. */
  isinf(): Tensor<R> {
    return this.session.unary("isinf", 65, this);
  }

  /** `x` where `condition`, else `y`; all three broadcast. */
  where(x: Tensor<R>, y: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("where", [this, x, y]);
    return owner.one(66);
  }

  /** `x` converted to `dtype`; `x` itself if it has that dtype already. */
  cast(dtype: DType): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cast", [this]);
    owner.putDType(at, dtype);
    return owner.one(67);
  }

  /** `min(max(x, low), high)`; a bound that is absent does not bind. */
  clamp(low?: Scalar, high?: Scalar): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("clamp", [this]);
    at = owner.putScalar(at, "clamp", low);
    owner.putScalar(at, "clamp", high);
    return owner.one(68);
  }

  /** A constant of the shape and dtype of `x`. */
  fullLike(value: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("full_like", [this]);
    owner.putScalar(at, "full_like", value);
    return owner.one(69);
  }

  /** Zeros of the shape and dtype of `x`. */
  zerosLike(): Tensor<R> {
    return this.session.unary("zeros_like", 70, this);
  }

  /** Ones of the shape and dtype of `x`. */
  onesLike(): Tensor<R> {
    return this.session.unary("ones_like", 71, this);
  }

  /** A structural constant of rank 0. */
  static scalar<R extends Reading = "sync">(value: Scalar, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("scalar", options);
    let at = owner.putTensors("scalar", []);
    at = owner.putScalar(at, "scalar", value);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(72), settings);
  }

  /** A constant of that shape. */
  static full<R extends Reading = "sync">(shape: Integers, value: Scalar, options?: Options): Tensor<R> {
    const owner = session();
    shape = integersOf(owner, "full", shape);
    const settings = optionsOf("full", options);
    let at = owner.putTensors("full", []);
    at = owner.putIntegers(at, shape);
    at = owner.putScalar(at, "full", value);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(73), settings);
  }

  /** Zeros of that shape. */
  static zeros<R extends Reading = "sync">(shape: Integers, options?: Options): Tensor<R> {
    const owner = session();
    shape = integersOf(owner, "zeros", shape);
    const settings = optionsOf("zeros", options);
    let at = owner.putTensors("zeros", []);
    at = owner.putIntegers(at, shape);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(74), settings);
  }

  /** Ones of that shape. */
  static ones<R extends Reading = "sync">(shape: Integers, options?: Options): Tensor<R> {
    const owner = session();
    shape = integersOf(owner, "ones", shape);
    const settings = optionsOf("ones", options);
    let at = owner.putTensors("ones", []);
    at = owner.putIntegers(at, shape);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(75), settings);
  }

  /** `0, 1, ..., len - 1`, shape `[len]`. */
  static iota<R extends Reading = "sync">(len: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("iota", options);
    let at = owner.putTensors("iota", []);
    at = owner.putInteger(at, "iota", len);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(76), settings);
  }

  /**
   * `start, start + step, ...` up to and without `stop`.
   *
   * Errors: a step of 0, or bounds that are not finite.
   */
  static arange<R extends Reading = "sync">(start: Scalar, stop: Scalar, step?: Scalar, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("arange", options);
    let at = owner.putTensors("arange", []);
    at = owner.putScalar(at, "arange", start);
    at = owner.putScalar(at, "arange", stop);
    at = owner.putScalar(at, "arange", step);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(77), settings);
  }

  /** `steps` evenly spaced numbers from `start` to `stop`, both included. */
  static linspace<R extends Reading = "sync">(start: number, stop: number, steps: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("linspace", options);
    let at = owner.putTensors("linspace", []);
    at = owner.putFloat(at, "linspace", start);
    at = owner.putFloat(at, "linspace", stop);
    at = owner.putInteger(at, "linspace", steps);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(78), settings);
  }

  /**
   * `ids [..]` to `[.., classes]`, 1 where the class is the id and 0 elsewhere. An id outside
   * `0..classes` gives zeros.
   */
  oneHot(classes: number, dtype?: DType): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("one_hot", [this]);
    at = owner.putInteger(at, "one_hot", classes);
    owner.putDType(at, dtype);
    return owner.one(79);
  }

  /** The identity matrix `[n, n]`. */
  static eye<R extends Reading = "sync">(n: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("eye", options);
    let at = owner.putTensors("eye", []);
    at = owner.putInteger(at, "eye", n);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(80), settings);
  }

  /** A `bool` mask `[rows, columns]`, true where `column <= row + diagonal`. */
  static lowerTriangle<R extends Reading = "sync">(rows: number, columns: number, diagonal?: number): Tensor<R> {
    const owner = session();
    let at = owner.putTensors("lower_triangle", []);
    at = owner.putInteger(at, "lower_triangle", rows);
    at = owner.putInteger(at, "lower_triangle", columns);
    owner.putInteger(at, "lower_triangle", diagonal);
    return owner.one(81);
  }

  /** `x [.., rows, columns]` with zeros above the given diagonal. */
  tril(diagonal?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("tril", [this]);
    owner.putInteger(at, "tril", diagonal);
    return owner.one(82);
  }

  /** `x [.., rows, columns]` with zeros below the given diagonal. */
  triu(diagonal?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("triu", [this]);
    owner.putInteger(at, "triu", diagonal);
    return owner.one(83);
  }

  /** The same elements in row-major order under another shape; one size may be -1 and is worked out. */
  reshape(shape: Integers): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "reshape", shape);
    const at = owner.putTensors("reshape", [this]);
    owner.putIntegers(at, shape);
    return owner.one(84);
  }

  /** Axes `start..=end` merged into one. */
  flatten(start?: number, end?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("flatten", [this]);
    at = owner.putInteger(at, "flatten", start);
    owner.putInteger(at, "flatten", end);
    return owner.one(85);
  }

  /** Output axis `i` is input axis `axes[i]`. */
  permute(axes: Integers): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "permute", axes);
    const at = owner.putTensors("permute", [this]);
    owner.putIntegers(at, axes);
    return owner.one(86);
  }

  /** Swaps two axes. */
  transpose(first: number, second: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("transpose", [this]);
    at = owner.putInteger(at, "transpose", first);
    owner.putInteger(at, "transpose", second);
    return owner.one(87);
  }

  /** Moves an axis to another place; the others keep their order. */
  moveAxis(from: number, to: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("move_axis", [this]);
    at = owner.putInteger(at, "move_axis", from);
    owner.putInteger(at, "move_axis", to);
    return owner.one(88);
  }

  /** NumPy broadcasting to `shape`. */
  broadcastTo(shape: Integers): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "broadcast_to", shape);
    const at = owner.putTensors("broadcast_to", [this]);
    owner.putIntegers(at, shape);
    return owner.one(89);
  }

  /**
   * Elements `start..stop` by `step` of one axis. Negative bounds count from the end, bounds are clamped,
   * an absent `stop` is the end.
   *
   * Errors: a step below 1 (use `flip` for reversal).
   */
  slice(axis: number, start?: number, stop?: number, step?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("slice", [this]);
    at = owner.putInteger(at, "slice", axis);
    at = owner.putInteger(at, "slice", start);
    at = owner.putInteger(at, "slice", stop);
    owner.putInteger(at, "slice", step);
    return owner.one(90);
  }

  /** `length` elements of an axis from `start`; unlike `slice()` a range that leaves the axis is an error. */
  narrow(axis: number, start: number, length: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("narrow", [this]);
    at = owner.putInteger(at, "narrow", axis);
    at = owner.putInteger(at, "narrow", start);
    owner.putInteger(at, "narrow", length);
    return owner.one(91);
  }

  /** One element of an axis, which goes away. */
  select(axis: number, index: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("select", [this]);
    at = owner.putInteger(at, "select", axis);
    owner.putInteger(at, "select", index);
    return owner.one(92);
  }

  /** Consecutive pieces of an axis with the given sizes, which must add up to its size. */
  splitSizes(sizes: Integers, axis?: number): Tensor<R>[] {
    const owner = this.session;
    sizes = integersOf(owner, "split_sizes", sizes);
    let at = owner.putTensors("split_sizes", [this]);
    at = owner.putIntegers(at, sizes);
    owner.putInteger(at, "split_sizes", axis);
    return owner.several(93);
  }

  /** Pieces of `size` elements of an axis; the last one may be smaller. */
  split(size: number, axis?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("split", [this]);
    at = owner.putInteger(at, "split", size);
    owner.putInteger(at, "split", axis);
    return owner.several(94);
  }

  /** At most `count` pieces of equal size; the last one may be smaller. */
  chunk(count: number, axis?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("chunk", [this]);
    at = owner.putInteger(at, "chunk", count);
    owner.putInteger(at, "chunk", axis);
    return owner.several(95);
  }

  /** One or more values end to end along an axis. */
  static concat<R extends Reading = "sync">(values: readonly Tensor<R>[], axis?: number): Tensor<R> {
    const owner = session();
    const at = owner.putTensors("concat", values);
    owner.putInteger(at, "concat", axis);
    return owner.one(96);
  }

  /** One or more values of one shape along a new axis. */
  static stack<R extends Reading = "sync">(values: readonly Tensor<R>[], axis?: number): Tensor<R> {
    const owner = session();
    const at = owner.putTensors("stack", values);
    owner.putInteger(at, "stack", axis);
    return owner.one(97);
  }

  /** Drops the given axes where their size is 1; all axes of size 1 if the list is empty. */
  squeeze(axes?: Integers): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "squeeze", axes);
    const at = owner.putTensors("squeeze", [this]);
    owner.putIntegers(at, axes);
    return owner.one(98);
  }

  /** A new axis of size 1 at `axis` of the result. */
  unsqueeze(axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("unsqueeze", [this]);
    owner.putInteger(at, "unsqueeze", axis);
    return owner.one(99);
  }

  /** Reverses the given axes; all if the list is empty. */
  flip(axes?: Integers): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "flip", axes);
    const at = owner.putTensors("flip", [this]);
    owner.putIntegers(at, axes);
    return owner.one(100);
  }

  /** `low[i]` elements of `value` before and `high[i]` after axis `i`. */
  pad(low: Integers, high: Integers, value?: Scalar): Tensor<R> {
    const owner = this.session;
    low = integersOf(owner, "pad", low);
    high = integersOf(owner, "pad", high);
    let at = owner.putTensors("pad", [this]);
    at = owner.putIntegers(at, low);
    at = owner.putIntegers(at, high);
    owner.putScalar(at, "pad", value);
    return owner.one(101);
  }

  /** The value `repeats[i]` times end to end along axis `i`; more repeats than axes add leading axes. */
  repeat(repeats: Integers): Tensor<R> {
    const owner = this.session;
    repeats = integersOf(owner, "repeat", repeats);
    const at = owner.putTensors("repeat", [this]);
    owner.putIntegers(at, repeats);
    return owner.one(102);
  }

  /** Each element of an axis `times` times in a row. */
  repeatInterleave(times: number, axis: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("repeat_interleave", [this]);
    at = owner.putInteger(at, "repeat_interleave", times);
    owner.putInteger(at, "repeat_interleave", axis);
    return owner.one(103);
  }

  /** Elements moved by `shift` places along an axis, those past the end to its start. */
  roll(shift: number, axis: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("roll", [this]);
    at = owner.putInteger(at, "roll", shift);
    owner.putInteger(at, "roll", axis);
    return owner.one(104);
  }

  /** The diagonal of the last two axes, `[.., n, n] -> [.., n]`. */
  diagonal(): Tensor<R> {
    return this.session.unary("diagonal", 105, this);
  }

  /** The sum over axes, in the operand's dtype; 0 over no elements. */
  sum(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "sum", axes);
    let at = owner.putTensors("sum", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "sum", keepdim);
    return owner.one(106);
  }

  /** The product over axes, in the operand's dtype; 1 over no elements. */
  prod(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "prod", axes);
    let at = owner.putTensors("prod", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "prod", keepdim);
    return owner.one(107);
  }

  /** The largest element over axes; NaN propagates. No elements are an error. */
  max(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "max", axes);
    let at = owner.putTensors("max", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "max", keepdim);
    return owner.one(108);
  }

  /** The smallest element over axes; NaN propagates. No elements are an error. */
  min(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "min", axes);
    let at = owner.putTensors("min", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "min", keepdim);
    return owner.one(109);
  }

  /** The mean over axes, of a floating-point operand; half types compute in f32. */
  mean(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "mean", axes);
    let at = owner.putTensors("mean", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "mean", keepdim);
    return owner.one(110);
  }

  /** The variance over axes, with divisor `n - correction`; half types compute in f32. */
  var(axes?: Integers, correction?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "var", axes);
    let at = owner.putTensors("var", [this]);
    at = owner.putIntegers(at, axes);
    at = owner.putFloat(at, "var", correction);
    owner.putBool(at, "var", keepdim);
    return owner.one(111);
  }

  /** The standard deviation over axes, with divisor `n - correction`. */
  std(axes?: Integers, correction?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "std", axes);
    let at = owner.putTensors("std", [this]);
    at = owner.putIntegers(at, axes);
    at = owner.putFloat(at, "std", correction);
    owner.putBool(at, "std", keepdim);
    return owner.one(112);
  }

  /** The Euclidean norm over axes; half types compute in f32. */
  norm(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "norm", axes);
    let at = owner.putTensors("norm", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "norm", keepdim);
    return owner.one(113);
  }

  /** The i64 index of the first largest element along an axis. */
  argmax(axis: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("argmax", [this]);
    at = owner.putInteger(at, "argmax", axis);
    owner.putBool(at, "argmax", keepdim);
    return owner.one(114);
  }

  /** The i64 index of the first smallest element along an axis. */
  argmin(axis: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("argmin", [this]);
    at = owner.putInteger(at, "argmin", axis);
    owner.putBool(at, "argmin", keepdim);
    return owner.one(115);
  }

  /** `log(sum(exp(x)))` over axes, shifted by the maximum; half types compute in f32. */
  logsumexp(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "logsumexp", axes);
    let at = owner.putTensors("logsumexp", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "logsumexp", keepdim);
    return owner.one(116);
  }

  /** True where any element over the axes is true, of `bool`. */
  any(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "any", axes);
    let at = owner.putTensors("any", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "any", keepdim);
    return owner.one(117);
  }

  /** True where all elements over the axes are true, of `bool`. */
  all(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "all", axes);
    let at = owner.putTensors("all", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "all", keepdim);
    return owner.one(118);
  }

  /** The mean of `x` weighted by `weight`, which broadcasts: `sum(x * weight) / sum(weight)`. */
  weightedMean(weight: Tensor<R>): Tensor<R> {
    return this.session.binary("weighted_mean", 119, this, weight);
  }

  /**
   * The matrix product `[batch.., m, k] x [batch.., k, n]`; batch axes broadcast, an operand of rank 1 is a
   * row on the left and a column on the right and its axis goes away, as in NumPy and torch.
   */
  matmul(y: Tensor<R>): Tensor<R> {
    return this.session.binary("matmul", 120, this, y);
  }

  /** `matmul` with the accumulated result rounded once to `out`. */
  matmulAs(y: Tensor<R>, out: DType): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("matmul_as", [this, y]);
    owner.putDType(at, out);
    return owner.one(121);
  }

  /**
   * `x [.., in]` times `weight [out, in]` transposed, plus `bias [out]`: `[.., out]`. Leading axes fold into
   * the rows of one product.
   */
  linear(weight: Tensor<R>, bias?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("linear", [this, weight, bias]);
    return owner.one(122);
  }

  /** The inner product of the last axes, `[.., n] x [.., n] -> [..]`; half types accumulate in f32. */
  dot(y: Tensor<R>): Tensor<R> {
    return this.session.binary("dot", 123, this, y);
  }

  /** The outer product `[m] x [n] -> [m, n]`. */
  outer(y: Tensor<R>): Tensor<R> {
    return this.session.binary("outer", 124, this, y);
  }

  /** Rows of `table [rows, width]` by `ids [..]`: `[.., width]`. An id out of range is an error when the op runs. */
  embedding(ids: Tensor<R>): Tensor<R> {
    return this.session.binary("embedding", 125, this, ids);
  }

  /** The sum of `grad [.., width]` rows by `ids [..]`: `[rows, width]`; the transpose of `embedding`. */
  embeddingGrad(ids: Tensor<R>, rows: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("embedding_grad", [this, ids]);
    owner.putInteger(at, "embedding_grad", rows);
    return owner.one(126);
  }

  /** The given places `ids [n]` of one axis, in their order. */
  indexSelect(axis: number, ids: Tensor<R>): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("index_select", [this, ids]);
    owner.putInteger(at, "index_select", axis);
    return owner.one(127);
  }

  /**
   * Along one axis, the element that `ids` names: `out[.., i, ..] = x[.., ids[.., i, ..], ..]`; `ids` has the
   * shape of `x` off that axis (torch `gather`, NumPy `take_along_axis`).
   */
  gather(axis: number, ids: Tensor<R>): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("gather", [this, ids]);
    owner.putInteger(at, "gather", axis);
    return owner.one(128);
  }

  /** `exp(x) / sum(exp(x))` along an axis. */
  softmax(axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("softmax", [this]);
    owner.putInteger(at, "softmax", axis);
    return owner.one(129);
  }

  /** `x - log(sum(exp(x)))` along an axis. */
  logSoftmax(axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("log_softmax", [this]);
    owner.putInteger(at, "log_softmax", axis);
    return owner.one(130);
  }

  /**
   * `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis (biased variance); `weight` and
   * `bias` have shape `[width]` and are 1 and 0 where absent (Ba et al. 2016).
   */
  layerNorm(weight?: Tensor<R>, bias?: Tensor<R>, eps?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("layer_norm", [this, weight, bias]);
    owner.putFloat(at, "layer_norm", eps);
    return owner.one(131);
  }

  /**
   * `x / sqrt(mean(x^2) + eps) * weight` over the last axis; `weight` has shape `[width]` and is 1 where
   * absent (Zhang and Sennrich 2019).
   */
  rmsNorm(weight?: Tensor<R>, eps?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("rms_norm", [this, weight]);
    owner.putFloat(at, "rms_norm", eps);
    return owner.one(132);
  }

  /**
   * `softmax(scale * q k^T) v` for `q [batch, heads, tq, head_dim]` and `k`, `v`
   * `[batch, kv_heads, tk, head_dim]`; `kv_heads` divides `heads`. `scale` is `1 / sqrt(head_dim)` where
   * absent. With `causal`, a query sees no key after its own position, the last query standing at the last
   * key. With `past` (an integer of rank 0) only the first `past + tq` keys count.
   */
  scaledDotProductAttention(k: Tensor<R>, v: Tensor<R>, causal?: boolean, scale?: number, past?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("scaled_dot_product_attention", [this, k, v, past]);
    at = owner.putBool(at, "scaled_dot_product_attention", causal);
    owner.putFloat(at, "scaled_dot_product_attention", scale);
    return owner.one(133);
  }

  /** `scaled_dot_product_attention` in the layout `[batch, seq, heads, head_dim]`, which the kernels use. */
  attention(k: Tensor<R>, v: Tensor<R>, causal?: boolean, scale?: number, past?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("attention", [this, k, v, past]);
    at = owner.putBool(at, "attention", causal);
    owner.putFloat(at, "attention", scale);
    return owner.one(134);
  }

  /**
   * Cross-entropy of class `logits [.., classes]` against integer `targets [..]`, in the wide dtype. Targets
   * equal to `ignore` give loss 0 and do not count in the mean. A target out of range is an error when the
   * op runs.
   */
  crossEntropy(targets: Tensor<R>, reduction?: "mean" | "sum" | "none", ignore?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("cross_entropy", [this, targets]);
    at = owner.putWord(at, "cross_entropy", ["mean","sum","none"], reduction);
    owner.putInteger(at, "cross_entropy", ignore);
    return owner.one(135);
  }

  /** `(x - y)^2`. */
  mseLoss(y: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("mse_loss", [this, y]);
    owner.putWord(at, "mse_loss", ["mean","sum","none"], reduction);
    return owner.one(136);
  }

  /** `|x - y|`. */
  l1Loss(y: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("l1_loss", [this, y]);
    owner.putWord(at, "l1_loss", ["mean","sum","none"], reduction);
    return owner.one(137);
  }

  /** `d^2 / 2` for `d = |x - y| <= delta`, else `delta * (d - delta / 2)` (Huber 1964). */
  huberLoss(y: Tensor<R>, delta?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("huber_loss", [this, y]);
    at = owner.putFloat(at, "huber_loss", delta);
    owner.putWord(at, "huber_loss", ["mean","sum","none"], reduction);
    return owner.one(138);
  }

  /**
   * Binary cross-entropy of `logits` against `targets` in `[0, 1]`, computed as
   * `max(x, 0) - x y + log(1 + e^-|x|)`.
   */
  binaryCrossEntropyWithLogits(targets: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("binary_cross_entropy_with_logits", [this, targets]);
    owner.putWord(at, "binary_cross_entropy_with_logits", ["mean","sum","none"], reduction);
    return owner.one(139);
  }

  /** Uniform values in `[low, high)`. */
  uniform(shape: Integers, low?: number, high?: number, dtype?: DType, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "uniform", shape);
    let at = owner.putTensors("uniform", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "uniform", low);
    at = owner.putFloat(at, "uniform", high);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "uniform", stream);
    return owner.one(140);
  }

  /** Normal values of that mean and standard deviation. */
  normal(shape: Integers, mean?: number, std?: number, dtype?: DType, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "normal", shape);
    let at = owner.putTensors("normal", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "normal", mean);
    at = owner.putFloat(at, "normal", std);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "normal", stream);
    return owner.one(141);
  }

  /** `bool` values, true with probability `p`. */
  bernoulli(shape: Integers, p: number, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "bernoulli", shape);
    let at = owner.putTensors("bernoulli", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "bernoulli", p);
    owner.putInteger(at, "bernoulli", stream);
    return owner.one(142);
  }

  /** Each element 0 with probability `p`, else divided by `1 - p` (Srivastava et al. 2014). */
  dropout(p: number, key: Tensor<R>, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("dropout", [this, key]);
    at = owner.putFloat(at, "dropout", p);
    owner.putInteger(at, "dropout", stream);
    return owner.one(143);
  }

  /** `base` with `source` written over `start..` along an axis; `start` is an integer of rank 0. */
  updateSlice(source: Tensor<R>, start: Tensor<R>, axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("update_slice", [this, source, start]);
    owner.putInteger(at, "update_slice", axis);
    return owner.one(144);
  }

  /**
   * One AdamW step (Loshchilov and Hutter 2019): `[parameter', m', v']`. `lr`, `bias1 = 1 - beta1^t` and
   * `bias2 = 1 - beta2^t` are of rank 0, or of the parameter's shape.
   */
  adamw(grad: Tensor<R>, m: Tensor<R>, v: Tensor<R>, lr: Tensor<R>, bias1: Tensor<R>, bias2: Tensor<R>, beta1?: number, beta2?: number, eps?: number, weightDecay?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("adamw", [this, grad, m, v, lr, bias1, bias2]);
    at = owner.putFloat(at, "adamw", beta1);
    at = owner.putFloat(at, "adamw", beta2);
    at = owner.putFloat(at, "adamw", eps);
    owner.putFloat(at, "adamw", weightDecay);
    return owner.several(145);
  }

  static readonly lower_triangle = Operations.lowerTriangle;
}

/** The names of the table beside those of JavaScript's style. */
export interface Operations<R extends Reading> {
  logical_not: Operations<R>["logicalNot"];
  logical_and: Operations<R>["logicalAnd"];
  logical_or: Operations<R>["logicalOr"];
  add_scalar: Operations<R>["addScalar"];
  sub_scalar: Operations<R>["subScalar"];
  rsub_scalar: Operations<R>["rsubScalar"];
  mul_scalar: Operations<R>["mulScalar"];
  div_scalar: Operations<R>["divScalar"];
  rem_scalar: Operations<R>["remScalar"];
  pow_scalar: Operations<R>["powScalar"];
  maximum_scalar: Operations<R>["maximumScalar"];
  minimum_scalar: Operations<R>["minimumScalar"];
  eq_scalar: Operations<R>["eqScalar"];
  ne_scalar: Operations<R>["neScalar"];
  lt_scalar: Operations<R>["ltScalar"];
  le_scalar: Operations<R>["leScalar"];
  gt_scalar: Operations<R>["gtScalar"];
  ge_scalar: Operations<R>["geScalar"];
  log_sigmoid: Operations<R>["logSigmoid"];
  leaky_relu: Operations<R>["leakyRelu"];
  full_like: Operations<R>["fullLike"];
  zeros_like: Operations<R>["zerosLike"];
  ones_like: Operations<R>["onesLike"];
  one_hot: Operations<R>["oneHot"];
  move_axis: Operations<R>["moveAxis"];
  broadcast_to: Operations<R>["broadcastTo"];
  split_sizes: Operations<R>["splitSizes"];
  repeat_interleave: Operations<R>["repeatInterleave"];
  weighted_mean: Operations<R>["weightedMean"];
  matmul_as: Operations<R>["matmulAs"];
  embedding_grad: Operations<R>["embeddingGrad"];
  index_select: Operations<R>["indexSelect"];
  log_softmax: Operations<R>["logSoftmax"];
  layer_norm: Operations<R>["layerNorm"];
  rms_norm: Operations<R>["rmsNorm"];
  scaled_dot_product_attention: Operations<R>["scaledDotProductAttention"];
  cross_entropy: Operations<R>["crossEntropy"];
  mse_loss: Operations<R>["mseLoss"];
  l1_loss: Operations<R>["l1Loss"];
  huber_loss: Operations<R>["huberLoss"];
  binary_cross_entropy_with_logits: Operations<R>["binaryCrossEntropyWithLogits"];
  update_slice: Operations<R>["updateSlice"];
}

const ALIASES = {
  logical_not: "logicalNot",
  logical_and: "logicalAnd",
  logical_or: "logicalOr",
  add_scalar: "addScalar",
  sub_scalar: "subScalar",
  rsub_scalar: "rsubScalar",
  mul_scalar: "mulScalar",
  div_scalar: "divScalar",
  rem_scalar: "remScalar",
  pow_scalar: "powScalar",
  maximum_scalar: "maximumScalar",
  minimum_scalar: "minimumScalar",
  eq_scalar: "eqScalar",
  ne_scalar: "neScalar",
  lt_scalar: "ltScalar",
  le_scalar: "leScalar",
  gt_scalar: "gtScalar",
  ge_scalar: "geScalar",
  log_sigmoid: "logSigmoid",
  leaky_relu: "leakyRelu",
  full_like: "fullLike",
  zeros_like: "zerosLike",
  ones_like: "onesLike",
  one_hot: "oneHot",
  move_axis: "moveAxis",
  broadcast_to: "broadcastTo",
  split_sizes: "splitSizes",
  repeat_interleave: "repeatInterleave",
  weighted_mean: "weightedMean",
  matmul_as: "matmulAs",
  embedding_grad: "embeddingGrad",
  index_select: "indexSelect",
  log_softmax: "logSoftmax",
  layer_norm: "layerNorm",
  rms_norm: "rmsNorm",
  scaled_dot_product_attention: "scaledDotProductAttention",
  cross_entropy: "crossEntropy",
  mse_loss: "mseLoss",
  l1_loss: "l1Loss",
  huber_loss: "huberLoss",
  binary_cross_entropy_with_logits: "binaryCrossEntropyWithLogits",
  update_slice: "updateSlice",
} as const;

for (const [alias, name] of Object.entries(ALIASES)) {
  const value = Operations.prototype[name];
  Object.defineProperty(Operations.prototype, alias, { value, writable: true, configurable: true });
}
