// Generated from the engine's op table by scripts/generate-ops.mjs; change the table instead.

import { finish, idsOf, optionsOf, shapeOf, tensorsOf, type Ids, type Options, type ShapeArguments } from "../create.js";
import type { DTypeName, Scalar } from "../dtype.js";
import { integersOf, session, type Integers, type Session } from "../session.js";
import type { Reading, Tensor } from "../tensor.js";

/** The ops of the table as methods. */
export abstract class Operations<R extends Reading> {
  /** @internal */
  abstract readonly session: Session;
  /** @internal */
  abstract readonly handle: number;

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

  /** The hyperbolic sine. */
  sinh(): Tensor<R> {
    return this.session.unary("sinh", 17, this);
  }

  /** The hyperbolic cosine. */
  cosh(): Tensor<R> {
    return this.session.unary("cosh", 18, this);
  }

  /** The angle in `-pi/2..pi/2` of that sine; NaN outside of `-1..1`. */
  asin(): Tensor<R> {
    return this.session.unary("asin", 19, this);
  }

  /** The angle in `0..pi` of that cosine; NaN outside of `-1..1`. */
  acos(): Tensor<R> {
    return this.session.unary("acos", 20, this);
  }

  /** The angle in `-pi/2..pi/2` of that tangent. */
  atan(): Tensor<R> {
    return this.session.unary("atan", 21, this);
  }

  /** The inverse of the hyperbolic sine. */
  asinh(): Tensor<R> {
    return this.session.unary("asinh", 22, this);
  }

  /** The inverse of the hyperbolic cosine; NaN below 1. */
  acosh(): Tensor<R> {
    return this.session.unary("acosh", 23, this);
  }

  /** The inverse of the hyperbolic tangent; infinite at -1 and 1, NaN beyond. */
  atanh(): Tensor<R> {
    return this.session.unary("atanh", 24, this);
  }

  /** `1 / (1 + e^-x)`. */
  sigmoid(): Tensor<R> {
    return this.session.unary("sigmoid", 25, this);
  }

  /** The error function. */
  erf(): Tensor<R> {
    return this.session.unary("erf", 26, this);
  }

  /** `max(x, 0)`. */
  relu(): Tensor<R> {
    return this.session.unary("relu", 27, this);
  }

  /** `x * sigmoid(x)`. */
  silu(): Tensor<R> {
    return this.session.unary("silu", 28, this);
  }

  /** Logical not, of `bool`. */
  logicalNot(): Tensor<R> {
    return this.session.unary("logical_not", 29, this);
  }

  /** True where `x` is neither NaN nor infinite. */
  isfinite(): Tensor<R> {
    return this.session.unary("isfinite", 30, this);
  }

  /** `x + y`. */
  add(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("add", 31, this, y);
    return this.session.scalar("add_scalar", 47, this, y);
  }

  /** `x - y`. */
  sub(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("sub", 32, this, y);
    return this.session.scalar("sub_scalar", 48, this, y);
  }

  /** `x * y`. */
  mul(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("mul", 33, this, y);
    return this.session.scalar("mul_scalar", 50, this, y);
  }

  /** `x / y`; integers truncate towards zero. */
  div(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("div", 34, this, y);
    return this.session.scalar("div_scalar", 51, this, y);
  }

  /** The remainder with the sign of `x` (torch `fmod`); `remainder` has that of `y`. */
  rem(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("rem", 35, this, y);
    return this.session.scalar("rem_scalar", 52, this, y);
  }

  /** `x^y`. */
  pow(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("pow", 36, this, y);
    return this.session.scalar("pow_scalar", 53, this, y);
  }

  /** The larger element; NaN propagates. */
  maximum(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("maximum", 37, this, y);
    return this.session.scalar("maximum_scalar", 54, this, y);
  }

  /** The smaller element; NaN propagates. */
  minimum(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("minimum", 38, this, y);
    return this.session.scalar("minimum_scalar", 55, this, y);
  }

  /** `x == y` as `bool`. */
  eq(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("eq", 39, this, y);
    return this.session.scalar("eq_scalar", 56, this, y);
  }

  /** `x != y` as `bool`. */
  ne(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("ne", 40, this, y);
    return this.session.scalar("ne_scalar", 57, this, y);
  }

  /** `x < y` as `bool`. */
  lt(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("lt", 41, this, y);
    return this.session.scalar("lt_scalar", 58, this, y);
  }

  /** `x <= y` as `bool`. */
  le(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("le", 42, this, y);
    return this.session.scalar("le_scalar", 59, this, y);
  }

  /** `x > y` as `bool`. */
  gt(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("gt", 43, this, y);
    return this.session.scalar("gt_scalar", 60, this, y);
  }

  /** `x >= y` as `bool`. */
  ge(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("ge", 44, this, y);
    return this.session.scalar("ge_scalar", 61, this, y);
  }

  /** Logical and, of `bool`. */
  logicalAnd(y: Tensor<R>): Tensor<R> {
    return this.session.binary("logical_and", 45, this, y);
  }

  /** Logical or, of `bool`. */
  logicalOr(y: Tensor<R>): Tensor<R> {
    return this.session.binary("logical_or", 46, this, y);
  }

  /** `x + y`. */
  addScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("add_scalar", [this]);
    owner.putScalar(at, "add_scalar", y);
    return owner.one(47);
  }

  /** `x - y`. */
  subScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("sub_scalar", [this]);
    owner.putScalar(at, "sub_scalar", y);
    return owner.one(48);
  }

  /** `y - x`. */
  rsubScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("rsub_scalar", [this]);
    owner.putScalar(at, "rsub_scalar", y);
    return owner.one(49);
  }

  /** `x * y`. */
  mulScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("mul_scalar", [this]);
    owner.putScalar(at, "mul_scalar", y);
    return owner.one(50);
  }

  /** `x / y`. */
  divScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("div_scalar", [this]);
    owner.putScalar(at, "div_scalar", y);
    return owner.one(51);
  }

  /** The remainder of `x / y` with the sign of `x`. */
  remScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("rem_scalar", [this]);
    owner.putScalar(at, "rem_scalar", y);
    return owner.one(52);
  }

  /** `x^y`; the square is a product. */
  powScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("pow_scalar", [this]);
    owner.putScalar(at, "pow_scalar", y);
    return owner.one(53);
  }

  /** The larger of `x` and `y`. */
  maximumScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("maximum_scalar", [this]);
    owner.putScalar(at, "maximum_scalar", y);
    return owner.one(54);
  }

  /** The smaller of `x` and `y`. */
  minimumScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("minimum_scalar", [this]);
    owner.putScalar(at, "minimum_scalar", y);
    return owner.one(55);
  }

  /** `x == y` as `bool`. */
  eqScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("eq_scalar", [this]);
    owner.putScalar(at, "eq_scalar", y);
    return owner.one(56);
  }

  /** `x != y` as `bool`. */
  neScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("ne_scalar", [this]);
    owner.putScalar(at, "ne_scalar", y);
    return owner.one(57);
  }

  /** `x < y` as `bool`. */
  ltScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("lt_scalar", [this]);
    owner.putScalar(at, "lt_scalar", y);
    return owner.one(58);
  }

  /** `x <= y` as `bool`. */
  leScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("le_scalar", [this]);
    owner.putScalar(at, "le_scalar", y);
    return owner.one(59);
  }

  /** `x > y` as `bool`. */
  gtScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("gt_scalar", [this]);
    owner.putScalar(at, "gt_scalar", y);
    return owner.one(60);
  }

  /** `x >= y` as `bool`. */
  geScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("ge_scalar", [this]);
    owner.putScalar(at, "ge_scalar", y);
    return owner.one(61);
  }

  /** `x * x`. */
  square(): Tensor<R> {
    return this.session.unary("square", 62, this);
  }

  /** The tangent, of radians. */
  tan(): Tensor<R> {
    return this.session.unary("tan", 63, this);
  }

  /** `2^x`. */
  exp2(): Tensor<R> {
    return this.session.unary("exp2", 64, this);
  }

  /** The logarithm to base 2. */
  log2(): Tensor<R> {
    return this.session.unary("log2", 65, this);
  }

  /** The logarithm to base 10. */
  log10(): Tensor<R> {
    return this.session.unary("log10", 66, this);
  }

  /** True where `x` is NaN. */
  isnan(): Tensor<R> {
    return this.session.unary("isnan", 67, this);
  }

  /** True where `x` is infinite. */
  isinf(): Tensor<R> {
    return this.session.unary("isinf", 68, this);
  }

  /** `x` where `condition`, else `y`; all three broadcast. */
  where(x: Tensor<R>, y: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("where", [this, x, y]);
    return owner.one(69);
  }

  /** `x` converted to `dtype`; `x` itself if it has that dtype already. */
  cast(dtype: DTypeName): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cast", [this]);
    owner.putDType(at, dtype);
    return owner.one(70);
  }

  /**
   * `min(max(x, low), high)`; a bound that is absent does not bind, and one that is NaN makes all NaN. At a bound the
   * whole gradient passes.
   */
  clamp(low?: Scalar, high?: Scalar): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("clamp", [this]);
    at = owner.putScalar(at, "clamp", low);
    owner.putScalar(at, "clamp", high);
    return owner.one(71);
  }

  /** A constant of the shape and dtype of `x`. */
  fullLike(value: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("full_like", [this]);
    owner.putScalar(at, "full_like", value);
    return owner.one(72);
  }

  /** Zeros of the shape and dtype of `x`. */
  zerosLike(): Tensor<R> {
    return this.session.unary("zeros_like", 73, this);
  }

  /** Ones of the shape and dtype of `x`. */
  onesLike(): Tensor<R> {
    return this.session.unary("ones_like", 74, this);
  }

  /**
   * The angle of the point with ordinate `x` and abscissa `y`, in `-pi..pi`, of floats. The derivative at the
   * origin is 0, as in torch.
   */
  atan2(y: Tensor<R>): Tensor<R> {
    return this.session.binary("atan2", 75, this, y);
  }

  /** `sqrt(x^2 + y^2)` without overflow, of floats. The derivative at the origin is 0. */
  hypot(y: Tensor<R>): Tensor<R> {
    return this.session.binary("hypot", 76, this, y);
  }

  /** The size of `x` with the sign of `y`, that of a zero or NaN included; of floats. */
  copysign(y: Tensor<R>): Tensor<R> {
    return this.session.binary("copysign", 77, this, y);
  }

  /** `x` times 2 to the `y`, of integers; 0 for a `y` below 0 or from the width on, as in torch. */
  shiftLeft(y: Tensor<R>): Tensor<R> {
    return this.session.binary("shift_left", 78, this, y);
  }

  /**
   * `x` over 2 to the `y`, rounded down, of integers; for a `y` below 0 or from the width on -1 or 0 by the sign of
   * `x`, as in torch.
   */
  shiftRight(y: Tensor<R>): Tensor<R> {
    return this.session.binary("shift_right", 79, this, y);
  }

  /** Bitwise and, of integers or `bool`. */
  bitwiseAnd(y: Tensor<R>): Tensor<R> {
    return this.session.binary("bitwise_and", 80, this, y);
  }

  /** Bitwise or, of integers or `bool`. */
  bitwiseOr(y: Tensor<R>): Tensor<R> {
    return this.session.binary("bitwise_or", 81, this, y);
  }

  /** Bitwise exclusive or, of integers or `bool`. */
  bitwiseXor(y: Tensor<R>): Tensor<R> {
    return this.session.binary("bitwise_xor", 82, this, y);
  }

  /** All bits inverted, of integers or `bool`. */
  bitwiseNot(): Tensor<R> {
    return this.session.unary("bitwise_not", 83, this);
  }

  /** Logical exclusive or, of `bool`. */
  logicalXor(y: Tensor<R>): Tensor<R> {
    return this.session.binary("logical_xor", 84, this, y);
  }

  /**
   * The remainder of the quotient rounded down, `x - floor(x / y) y`, with the sign of `y` (torch `remainder`, NumPy
   * `mod`). Integers: 0 where `y` is 0; floats: NaN.
   */
  remainder(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("remainder", 85, this, y);
    return this.session.scalar("remainder_scalar", 86, this, y);
  }

  /** `x - floor(x / y) y` for a number `y`; see `remainder`. */
  remainderScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("remainder_scalar", [this]);
    owner.putScalar(at, "remainder_scalar", y);
    return owner.one(86);
  }

  /** The quotient rounded down. Integers: 0 where `y` is 0; floats: the infinity or NaN of `x / y`. The derivative is 0. */
  floorDivide(y: Tensor<R> | Scalar): Tensor<R> {
    if (typeof y === "object") return this.session.binary("floor_divide", 87, this, y);
    return this.session.scalar("floor_divide_scalar", 88, this, y);
  }

  /** The quotient by a number, rounded down; see `floor_divide`. */
  floorDivideScalar(y: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("floor_divide_scalar", [this]);
    owner.putScalar(at, "floor_divide_scalar", y);
    return owner.one(88);
  }

  /** The quotient rounded towards 0. Integers: 0 where `y` is 0. The derivative is 0. */
  truncDivide(y: Tensor<R>): Tensor<R> {
    return this.session.binary("trunc_divide", 89, this, y);
  }

  /** The part after the point, `x - trunc(x)`, with the sign of `x`. */
  frac(): Tensor<R> {
    return this.session.unary("frac", 90, this);
  }

  /** Degrees as radians. */
  deg2rad(): Tensor<R> {
    return this.session.unary("deg2rad", 91, this);
  }

  /** Radians as degrees. */
  rad2deg(): Tensor<R> {
    return this.session.unary("rad2deg", 92, this);
  }

  /** `log(e^x + e^y)`, exact for large operands; of floats. */
  logaddexp(y: Tensor<R>): Tensor<R> {
    return this.session.binary("logaddexp", 93, this, y);
  }

  /** `log2(2^x + 2^y)`; see `logaddexp`. */
  logaddexp2(y: Tensor<R>): Tensor<R> {
    return this.session.binary("logaddexp2", 94, this, y);
  }

  /** `x + weight (y - x)`, computed from the nearer end (torch `lerp`); all three broadcast. */
  lerp(y: Tensor<R>, weight: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("lerp", [this, y, weight]);
    return owner.one(95);
  }

  /** `x + value * (y * z)`; all broadcast. */
  addcmul(y: Tensor<R>, z: Tensor<R>, value?: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("addcmul", [this, y, z]);
    owner.putScalar(at, "addcmul", value);
    return owner.one(96);
  }

  /** `x + value * (y / z)`, of floats; all broadcast. */
  addcdiv(y: Tensor<R>, z: Tensor<R>, value?: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("addcdiv", [this, y, z]);
    owner.putScalar(at, "addcdiv", value);
    return owner.one(97);
  }

  /**
   * `x` with NaN replaced by `nan` and the infinities by `posinf` and `neginf`, which are the largest and the smallest
   * finite numbers of the dtype where absent. The derivative is 0 where a number was replaced. Integers stay.
   */
  nanToNum(nan?: number, posinf?: number, neginf?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("nan_to_num", [this]);
    at = owner.putFloat(at, "nan_to_num", nan);
    at = owner.putFloat(at, "nan_to_num", posinf);
    owner.putFloat(at, "nan_to_num", neginf);
    return owner.one(98);
  }

  /** True where `x` is plus infinity, of floats. */
  isposinf(): Tensor<R> {
    return this.session.unary("isposinf", 99, this);
  }

  /** True where `x` is minus infinity, of floats. */
  isneginf(): Tensor<R> {
    return this.session.unary("isneginf", 100, this);
  }

  /** True where the sign bit is set: below 0, and at -0 and NaN of negative sign. */
  signbit(): Tensor<R> {
    return this.session.unary("signbit", 101, this);
  }

  /**
   * True where `|x - y| <= atol + rtol |y|`, or both are the same infinity, or, with `equal_nan`, both are NaN; of
   * floats.
   */
  isclose(y: Tensor<R>, rtol?: number, atol?: number, equalNan?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("isclose", [this, y]);
    at = owner.putFloat(at, "isclose", rtol);
    at = owner.putFloat(at, "isclose", atol);
    owner.putBool(at, "isclose", equalNan);
    return owner.one(102);
  }

  /** 0 below 0, 1 above, `at_zero` at 0; NaN stays. The derivative in `x` is 0, in `at_zero` 1 where `x` is 0. */
  heaviside(atZero: Tensor<R>): Tensor<R> {
    return this.session.binary("heaviside", 103, this, atZero);
  }

  /** The larger element; where one is NaN, the other (torch `fmax`). At a tie the derivative goes to `x`. */
  fmax(y: Tensor<R>): Tensor<R> {
    return this.session.binary("fmax", 104, this, y);
  }

  /** The smaller element; where one is NaN, the other (torch `fmin`). At a tie the derivative goes to `x`. */
  fmin(y: Tensor<R>): Tensor<R> {
    return this.session.binary("fmin", 105, this, y);
  }

  /** `x * 2^y`, of floats. */
  ldexp(y: Tensor<R>): Tensor<R> {
    return this.session.binary("ldexp", 106, this, y);
  }

  /** `1 - erf(x)`, exact in the upper tail. */
  erfc(): Tensor<R> {
    return this.session.unary("erfc", 107, this);
  }

  /** `e^(x^2) erfc(x)`. */
  erfcx(): Tensor<R> {
    return this.session.unary("erfcx", 108, this);
  }

  /** `log(erfcx(x))`, finite where `erfcx` overflows. */
  logErfcx(): Tensor<R> {
    return this.session.unary("log_erfcx", 109, this);
  }

  /** The inverse of `erf`; infinite at -1 and 1, NaN beyond. */
  erfinv(): Tensor<R> {
    return this.session.unary("erfinv", 110, this);
  }

  /** The inverse of `erfc`; infinite at 0 and 2, NaN beyond. */
  erfcinv(): Tensor<R> {
    return this.session.unary("erfcinv", 111, this);
  }

  /** `Phi(x)`, the distribution function of the standard normal distribution, exact in the lower tail. */
  ndtr(): Tensor<R> {
    return this.session.unary("ndtr", 112, this);
  }

  /** `log(Phi(x))`, finite far down the tail: -804.608 at -40. */
  logNdtr(): Tensor<R> {
    return this.session.unary("log_ndtr", 113, this);
  }

  /** The quantile of a probability: the inverse of `ndtr`; infinite at 0 and 1, NaN beyond. */
  ndtri(): Tensor<R> {
    return this.session.unary("ndtri", 114, this);
  }

  /** The quantile of a probability given by its logarithm: the inverse of `log_ndtr`; NaN above 0. */
  ndtriExp(): Tensor<R> {
    return this.session.unary("ndtri_exp", 115, this);
  }

  /** `log |Gamma(x)|`; infinite at 0 and the negative whole numbers. */
  lgamma(): Tensor<R> {
    return this.session.unary("lgamma", 116, this);
  }

  /** The derivative of `lgamma`; minus infinity at 0, NaN at the negative whole numbers. */
  digamma(): Tensor<R> {
    return this.session.unary("digamma", 117, this);
  }

  /** The modified Bessel function of the first kind, of order 0. */
  i0(): Tensor<R> {
    return this.session.unary("i0", 118, this);
  }

  /** `e^-|x| I0(x)`. The derivative at the kink 0 is 0. */
  i0e(): Tensor<R> {
    return this.session.unary("i0e", 119, this);
  }

  /** The modified Bessel function of the first kind, of order 1. */
  i1(): Tensor<R> {
    return this.session.unary("i1", 120, this);
  }

  /** `e^-|x| I1(x)`. */
  i1e(): Tensor<R> {
    return this.session.unary("i1e", 121, this);
  }

  /**
   * The derivative of order `n` of `digamma`; `n = 0` is `digamma` itself. Infinite at 0 and the negative whole numbers;
   * NaN for an `n` above a million.
   */
  polygamma(n: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("polygamma", [this]);
    owner.putInteger(at, "polygamma", n);
    return owner.one(122);
  }

  /**
   * The logarithm of the multivariate gamma function of dimension `p`, `p (p-1) / 4 log(pi) + sum of lgamma(x - i/2)`
   * over `i` in `0..p`.
   *
   * Errors: `p` of 0 or above 10,000.
   */
  mvlgamma(p: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("mvlgamma", [this]);
    owner.putInteger(at, "mvlgamma", p);
    return owner.one(123);
  }

  /** `x log(y)`, and 0 where `x` is 0 whatever the logarithm, unless `y` is NaN. */
  xlogy(y: Tensor<R>): Tensor<R> {
    return this.session.binary("xlogy", 124, this, y);
  }

  /** `x log(1 + y)`, and 0 where `x` is 0 whatever the logarithm, unless `y` is NaN. */
  xlog1py(y: Tensor<R>): Tensor<R> {
    return this.session.binary("xlog1py", 125, this, y);
  }

  /** The entropy term `-x log(x)`: 0 at 0, minus infinity below. The derivative is infinite at 0 and NaN below, as in torch. */
  entr(): Tensor<R> {
    return this.session.unary("entr", 126, this);
  }

  /**
   * `log(x / (1 - x))`, the inverse of the sigmoid; infinite at 0 and 1, NaN beyond with NaN for derivative. With `eps`, `x` is first clamped to
   * `eps..1 - eps`; there the derivative is 0.
   */
  logit(eps?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("logit", [this]);
    owner.putFloat(at, "logit", eps);
    return owner.one(127);
  }

  /** `sin(pi x) / (pi x)`, and 1 at 0, smooth there in all derivatives. */
  sinc(): Tensor<R> {
    return this.session.unary("sinc", 128, this);
  }

  /** `log(1 + e^(beta x)) / beta`, and `x` itself where `beta x` is above `threshold`. */
  softplus(beta?: number, threshold?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("softplus", [this]);
    at = owner.putFloat(at, "softplus", beta);
    owner.putFloat(at, "softplus", threshold);
    return owner.one(129);
  }

  /** `log(sigmoid(x))`, computed as `-log(1 + e^-x)`. */
  logSigmoid(): Tensor<R> {
    return this.session.unary("log_sigmoid", 130, this);
  }

  /** `x` where positive, else `slope * x`. */
  leakyRelu(slope?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("leaky_relu", [this]);
    owner.putFloat(at, "leaky_relu", slope);
    return owner.one(131);
  }

  /**
   * `x` where positive, else `weight * x` (He et al. 2015), for `weight [channels]`, one for each place of axis 1 of
   * `x`, or `[1]`, one for all.
   */
  prelu(weight: Tensor<R>): Tensor<R> {
    return this.session.binary("prelu", 132, this, weight);
  }

  /** `x` where positive, else `alpha * (e^x - 1)` (Clevert et al. 2015). */
  elu(alpha?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("elu", [this]);
    owner.putFloat(at, "elu", alpha);
    return owner.one(133);
  }

  /**
   * `x` where positive, else `alpha * (e^(x / alpha) - 1)` (Barron 2017).
   *
   * Errors: `alpha` of 0.
   */
  celu(alpha?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("celu", [this]);
    owner.putFloat(at, "celu", alpha);
    return owner.one(134);
  }

  /**
   * `1.0507 x` where positive, else `1.7581 (e^x - 1)`: the linear unit that keeps mean 0 and variance 1 (Klambauer et
   * al. 2017).
   */
  selu(): Tensor<R> {
    return this.session.unary("selu", 135, this);
  }

  /** The Gaussian error linear unit `x * Phi(x)`. */
  gelu(approximate?: "none" | "tanh"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("gelu", [this]);
    owner.putWord(at, "gelu", ["none","tanh"], approximate);
    return owner.one(136);
  }

  /** `x` held between `low` and `high`; at the bounds and outside the derivative is 0. */
  hardtanh(low?: number, high?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("hardtanh", [this]);
    at = owner.putFloat(at, "hardtanh", low);
    owner.putFloat(at, "hardtanh", high);
    return owner.one(137);
  }

  /** `min(max(x, 0), 6)` (Krizhevsky 2010); the derivative at 0 and 6 is 0. */
  relu6(): Tensor<R> {
    return this.session.unary("relu6", 138, this);
  }

  /** `min(max(x + 3, 0), 6) / 6`: the sigmoid in straight lines. */
  hardsigmoid(): Tensor<R> {
    return this.session.unary("hardsigmoid", 139, this);
  }

  /** `x * hardsigmoid(x)` (Howard et al. 2019). */
  hardswish(): Tensor<R> {
    return this.session.unary("hardswish", 140, this);
  }

  /** `x / (1 + |x|)`. */
  softsign(): Tensor<R> {
    return this.session.unary("softsign", 141, this);
  }

  /** `x * tanh(log(1 + e^x))` (Misra 2019). */
  mish(): Tensor<R> {
    return this.session.unary("mish", 142, this);
  }

  /** `x - tanh(x)`. */
  tanhshrink(): Tensor<R> {
    return this.session.unary("tanhshrink", 143, this);
  }

  /** `x` drawn towards 0 by `lambd` (torch's name; `lambda` is a word of Python), and 0 where `|x| <= lambd`. */
  softshrink(lambd?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("softshrink", [this]);
    owner.putFloat(at, "softshrink", lambd);
    return owner.one(144);
  }

  /** `x`, and 0 where `|x| <= lambd`. */
  hardshrink(lambd?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("hardshrink", [this]);
    owner.putFloat(at, "hardshrink", lambd);
    return owner.one(145);
  }

  /** `x` where above `threshold`, else `value`; NaN stays. */
  threshold(threshold: number, value: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("threshold", [this]);
    at = owner.putFloat(at, "threshold", threshold);
    owner.putFloat(at, "threshold", value);
    return owner.one(146);
  }

  /**
   * `first * sigmoid(second)` of the two halves along an axis (Dauphin et al. 2016): `[.., 2 n, ..] -> [.., n, ..]`.
   *
   * Errors: an axis of odd size.
   */
  glu(axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("glu", [this]);
    owner.putInteger(at, "glu", axis);
    return owner.one(147);
  }

  /** `x * sigmoid(1.702 x)`, an approximation of GELU (Hendrycks and Gimpel 2016). */
  quickGelu(): Tensor<R> {
    return this.session.unary("quick_gelu", 148, this);
  }

  /**
   * A structural constant of rank 0; a float rounds to `dtype`.
   *
   * Errors: for an integer dtype, a number that is not whole or out of its range.
   */
  static scalar<R extends Reading = "sync">(value: Scalar, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("scalar", options);
    let at = owner.putTensors("scalar", []);
    at = owner.putScalar(at, "scalar", value);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(149), settings);
  }

  /**
   * A constant of that shape.
   *
   * Errors: for an integer dtype, a number that is not whole or out of its range (torch truncates a fraction).
   */
  static full<R extends Reading = "sync">(shape: Integers, value: Scalar, options?: Options): Tensor<R> {
    const owner = session();
    shape = integersOf(owner, "full", shape);
    const settings = optionsOf("full", options);
    let at = owner.putTensors("full", []);
    at = owner.putIntegers(at, shape);
    at = owner.putScalar(at, "full", value);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(150), settings);
  }

  /** Zeros of that shape. */
  static zeros<R extends Reading = "sync">(...shape: ShapeArguments): Tensor<R> {
    const owner = session();
    const [sizes, options] = shapeOf(owner, "zeros", shape);
    const settings = optionsOf("zeros", options);
    let at = owner.putTensors("zeros", []);
    at = owner.putIntegers(at, sizes);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(151), settings);
  }

  /** Ones of that shape. */
  static ones<R extends Reading = "sync">(...shape: ShapeArguments): Tensor<R> {
    const owner = session();
    const [sizes, options] = shapeOf(owner, "ones", shape);
    const settings = optionsOf("ones", options);
    let at = owner.putTensors("ones", []);
    at = owner.putIntegers(at, sizes);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(152), settings);
  }

  /** `0, 1, ..., len - 1`, shape `[len]`. */
  static iota<R extends Reading = "sync">(len: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("iota", options);
    let at = owner.putTensors("iota", []);
    at = owner.putInteger(at, "iota", len);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(153), settings);
  }

  /**
   * `start, start + step, ...` up to and without `stop`. Of an integer dtype it is exact to the last bit.
   *
   * Errors: a step of 0; bounds that are not finite; for an integer dtype, a number that is not whole, or a value out
   * of the dtype's range.
   */
  static arange<R extends Reading = "sync">(start: Scalar, stop: Scalar, step?: Scalar, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("arange", options);
    let at = owner.putTensors("arange", []);
    at = owner.putScalar(at, "arange", start);
    at = owner.putScalar(at, "arange", stop);
    at = owner.putScalar(at, "arange", step);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(154), settings);
  }

  /** `steps` evenly spaced numbers of a float dtype from `start` to `stop`, both included; half types compute in f32. */
  static linspace<R extends Reading = "sync">(start: number, stop: number, steps: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("linspace", options);
    let at = owner.putTensors("linspace", []);
    at = owner.putFloat(at, "linspace", start);
    at = owner.putFloat(at, "linspace", stop);
    at = owner.putInteger(at, "linspace", steps);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(155), settings);
  }

  /**
   * `ids [..]` to `[.., classes]`, 1 where the class is the id and 0 elsewhere. An id outside
   * `0..classes` gives zeros.
   */
  oneHot(classes: number, dtype?: DTypeName): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("one_hot", [this]);
    at = owner.putInteger(at, "one_hot", classes);
    owner.putDType(at, dtype);
    return owner.one(156);
  }

  /** The identity matrix `[n, n]`. */
  static eye<R extends Reading = "sync">(n: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("eye", options);
    let at = owner.putTensors("eye", []);
    at = owner.putInteger(at, "eye", n);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(157), settings);
  }

  /** A `bool` mask `[rows, columns]`, true where `column <= row + diagonal`. */
  static lowerTriangle<R extends Reading = "sync">(rows: number, columns: number, diagonal?: number): Tensor<R> {
    const owner = session();
    let at = owner.putTensors("lower_triangle", []);
    at = owner.putInteger(at, "lower_triangle", rows);
    at = owner.putInteger(at, "lower_triangle", columns);
    owner.putInteger(at, "lower_triangle", diagonal);
    return owner.one(158);
  }

  /** `x [.., rows, columns]` with zeros above the given diagonal. */
  tril(diagonal?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("tril", [this]);
    owner.putInteger(at, "tril", diagonal);
    return owner.one(159);
  }

  /** `x [.., rows, columns]` with zeros below the given diagonal. */
  triu(diagonal?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("triu", [this]);
    owner.putInteger(at, "triu", diagonal);
    return owner.one(160);
  }

  /** The same elements in row-major order under another shape; one size may be -1 and is worked out. */
  reshape(shape: Integers): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "reshape", shape);
    const at = owner.putTensors("reshape", [this]);
    owner.putIntegers(at, shape);
    return owner.one(161);
  }

  /** Axes `start..=end` merged into one. */
  flatten(start?: number, end?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("flatten", [this]);
    at = owner.putInteger(at, "flatten", start);
    owner.putInteger(at, "flatten", end);
    return owner.one(162);
  }

  /** Output axis `i` is input axis `axes[i]`. */
  permute(axes: Integers): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "permute", axes);
    const at = owner.putTensors("permute", [this]);
    owner.putIntegers(at, axes);
    return owner.one(163);
  }

  /** Swaps two axes. */
  transpose(first?: number, second?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("transpose", [this]);
    at = owner.putInteger(at, "transpose", first);
    owner.putInteger(at, "transpose", second);
    return owner.one(164);
  }

  /** Moves an axis to another place; the others keep their order. */
  moveAxis(from: number, to: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("move_axis", [this]);
    at = owner.putInteger(at, "move_axis", from);
    owner.putInteger(at, "move_axis", to);
    return owner.one(165);
  }

  /** NumPy broadcasting to `shape`. */
  broadcastTo(shape: Integers): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "broadcast_to", shape);
    const at = owner.putTensors("broadcast_to", [this]);
    owner.putIntegers(at, shape);
    return owner.one(166);
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
    return owner.one(167);
  }

  /** `length` elements of an axis from `start`; unlike `slice()` a range that leaves the axis is an error. */
  narrow(axis: number, start: number, length: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("narrow", [this]);
    at = owner.putInteger(at, "narrow", axis);
    at = owner.putInteger(at, "narrow", start);
    owner.putInteger(at, "narrow", length);
    return owner.one(168);
  }

  /** One element of an axis, which goes away. */
  select(axis: number, index: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("select", [this]);
    at = owner.putInteger(at, "select", axis);
    owner.putInteger(at, "select", index);
    return owner.one(169);
  }

  /** Consecutive pieces of an axis with the given sizes, which must add up to its size. */
  splitSizes(sizes: Integers, axis?: number): Tensor<R>[] {
    const owner = this.session;
    sizes = integersOf(owner, "split_sizes", sizes);
    let at = owner.putTensors("split_sizes", [this]);
    at = owner.putIntegers(at, sizes);
    owner.putInteger(at, "split_sizes", axis);
    return owner.several(170);
  }

  /** Pieces of `size` elements of an axis; the last one may be smaller. */
  split(size: number, axis?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("split", [this]);
    at = owner.putInteger(at, "split", size);
    owner.putInteger(at, "split", axis);
    return owner.several(171);
  }

  /** At most `count` pieces of equal size; the last one may be smaller. */
  chunk(count: number, axis?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("chunk", [this]);
    at = owner.putInteger(at, "chunk", count);
    owner.putInteger(at, "chunk", axis);
    return owner.several(172);
  }

  /** One or more values end to end along an axis. */
  static concat<R extends Reading = "sync">(values: readonly Tensor<R>[], axis?: number): Tensor<R> {
    const owner = session();
    const at = owner.putTensors("concat", values);
    owner.putInteger(at, "concat", axis);
    return owner.one(173);
  }

  /** One or more values of one shape along a new axis. */
  static stack<R extends Reading = "sync">(values: readonly Tensor<R>[], axis?: number): Tensor<R> {
    const owner = session();
    const at = owner.putTensors("stack", values);
    owner.putInteger(at, "stack", axis);
    return owner.one(174);
  }

  /** Drops the given axes where their size is 1; all axes of size 1 if the list is empty. */
  squeeze(axes?: Integers): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "squeeze", axes);
    const at = owner.putTensors("squeeze", [this]);
    owner.putIntegers(at, axes);
    return owner.one(175);
  }

  /** A new axis of size 1 at `axis` of the result. */
  unsqueeze(axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("unsqueeze", [this]);
    owner.putInteger(at, "unsqueeze", axis);
    return owner.one(176);
  }

  /** Reverses the given axes; all if the list is empty. */
  flip(axes?: Integers): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "flip", axes);
    const at = owner.putTensors("flip", [this]);
    owner.putIntegers(at, axes);
    return owner.one(177);
  }

  /** The value `repeats[i]` times end to end along axis `i`; more repeats than axes add leading axes. */
  repeat(repeats: Integers): Tensor<R> {
    const owner = this.session;
    repeats = integersOf(owner, "repeat", repeats);
    const at = owner.putTensors("repeat", [this]);
    owner.putIntegers(at, repeats);
    return owner.one(178);
  }

  /** Each element of an axis `times` times in a row. */
  repeatInterleave(times: number, axis: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("repeat_interleave", [this]);
    at = owner.putInteger(at, "repeat_interleave", times);
    owner.putInteger(at, "repeat_interleave", axis);
    return owner.one(179);
  }

  /** Elements moved by `shift` places along an axis, those past the end to its start. */
  roll(shift: number, axis: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("roll", [this]);
    at = owner.putInteger(at, "roll", shift);
    owner.putInteger(at, "roll", axis);
    return owner.one(180);
  }

  /**
   * The sum over axes; 0 over no elements. Integers and `bool` are summed in i64, which wraps; floats keep their
   * dtype.
   */
  sum(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "sum", axes);
    let at = owner.putTensors("sum", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "sum", keepdim);
    return owner.one(181);
  }

  /**
   * The product over axes; 1 over no elements. Integers and `bool` are multiplied in i64, which wraps; floats keep
   * their dtype.
   */
  prod(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "prod", axes);
    let at = owner.putTensors("prod", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "prod", keepdim);
    return owner.one(182);
  }

  /** The largest element over axes; NaN propagates. No elements are an error. Elements that tie share the gradient. */
  max(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "max", axes);
    let at = owner.putTensors("max", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "max", keepdim);
    return owner.one(183);
  }

  /** The smallest element over axes; NaN propagates. No elements are an error. Elements that tie share the gradient. */
  min(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "min", axes);
    let at = owner.putTensors("min", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "min", keepdim);
    return owner.one(184);
  }

  /** The mean over axes, of a float or complex operand; half types compute in f32. */
  mean(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "mean", axes);
    let at = owner.putTensors("mean", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "mean", keepdim);
    return owner.one(185);
  }

  /** The variance over axes, with divisor `n - correction`; half types compute in f32. */
  var(axes?: Integers, correction?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "var", axes);
    let at = owner.putTensors("var", [this]);
    at = owner.putIntegers(at, axes);
    at = owner.putFloat(at, "var", correction);
    owner.putBool(at, "var", keepdim);
    return owner.one(186);
  }

  /**
   * The standard deviation over axes, with divisor `n - correction`. Where all elements are equal its derivative is
   * taken to be 0 (torch gives NaN).
   */
  std(axes?: Integers, correction?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "std", axes);
    let at = owner.putTensors("std", [this]);
    at = owner.putIntegers(at, axes);
    at = owner.putFloat(at, "std", correction);
    owner.putBool(at, "std", keepdim);
    return owner.one(187);
  }

  /**
   * The `ord`-norm over axes, `sum(|x|^ord)^(1/ord)`: 2 is Euclidean, infinity the largest and minus infinity the
   * smallest magnitude, 0 the number of elements that are not 0 (torch `linalg.vector_norm`). Half types compute in
   * f32. Where the norm has no derivative, as at 0, it is taken to be 0.
   */
  norm(axes?: Integers, keepdim?: boolean, ord?: number): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "norm", axes);
    let at = owner.putTensors("norm", [this]);
    at = owner.putIntegers(at, axes);
    at = owner.putBool(at, "norm", keepdim);
    owner.putFloat(at, "norm", ord);
    return owner.one(188);
  }

  /**
   * The i64 index of the first largest element along an axis, or in row-major order over all elements; NaN counts as
   * largest.
   */
  argmax(axis?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("argmax", [this]);
    at = owner.putInteger(at, "argmax", axis);
    owner.putBool(at, "argmax", keepdim);
    return owner.one(189);
  }

  /**
   * The i64 index of the first smallest element along an axis, or in row-major order over all elements; NaN counts as
   * smallest.
   */
  argmin(axis?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("argmin", [this]);
    at = owner.putInteger(at, "argmin", axis);
    owner.putBool(at, "argmin", keepdim);
    return owner.one(190);
  }

  /** `log(sum(exp(x)))` over axes, shifted by the maximum; minus infinity over no elements. Half types compute in f32. */
  logsumexp(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "logsumexp", axes);
    let at = owner.putTensors("logsumexp", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "logsumexp", keepdim);
    return owner.one(191);
  }

  /** True where any element over the axes is not 0 (NaN is not), as `bool`; false over no elements. */
  any(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "any", axes);
    let at = owner.putTensors("any", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "any", keepdim);
    return owner.one(192);
  }

  /** True where no element over the axes is 0 (NaN is not), as `bool`; true over no elements. */
  all(axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "all", axes);
    let at = owner.putTensors("all", [this]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "all", keepdim);
    return owner.one(193);
  }

  /** The mean of `x` weighted by `weight`, which broadcasts: `sum(x * weight) / sum(weight)`. */
  weightedMean(weight: Tensor<R>): Tensor<R> {
    return this.session.binary("weighted_mean", 194, this, weight);
  }

  /**
   * `c64[..]` as `f32[.., 2]` (c128 as f64), real and imaginary part along a new last axis; a view, which costs no copy. (To
   * sessions it is a tensor of its own: writing to one does not change the other.)
   */
  asReal(): Tensor<R> {
    return this.session.unary("as_real", 195, this);
  }

  /** `f32[.., 2]` as `c64[..]` (f64 as c128); a view where the parts lie side by side. */
  asComplex(): Tensor<R> {
    return this.session.unary("as_complex", 196, this);
  }

  /** `re + i im` of two f32 or two f64 tensors, which broadcast. */
  complex(im: Tensor<R>): Tensor<R> {
    return this.session.binary("complex", 197, this, im);
  }

  /** The number of that magnitude and angle in radians; f32 or f64, which broadcast. */
  polar(angle: Tensor<R>): Tensor<R> {
    return this.session.binary("polar", 198, this, angle);
  }

  /** The real part; `x` itself if it is real. */
  real(): Tensor<R> {
    return this.session.unary("real", 199, this);
  }

  /** The imaginary part of a complex tensor. */
  imag(): Tensor<R> {
    return this.session.unary("imag", 200, this);
  }

  /** The complex conjugate; `x` itself if it is real. */
  conj(): Tensor<R> {
    return this.session.unary("conj", 201, this);
  }

  /** The angle in radians, in `[-pi, pi]`; of a real float 0, pi where negative, NaN where NaN. */
  angle(): Tensor<R> {
    return this.session.unary("angle", 202, this);
  }

  /**
   * The matrix product `[batch.., m, k] x [batch.., k, n]`; batch axes broadcast, an operand of rank 1 is a
   * row on the left and a column on the right and its axis goes away, as in NumPy and torch.
   */
  matmul(y: Tensor<R>): Tensor<R> {
    return this.session.binary("matmul", 203, this, y);
  }

  /** `matmul` with the accumulated result rounded once to `out`. */
  matmulAs(y: Tensor<R>, out: DTypeName): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("matmul_as", [this, y]);
    owner.putDType(at, out);
    return owner.one(204);
  }

  /**
   * `x [.., in]` times `weight [out, in]` transposed, plus `bias [out]`: `[.., out]`. Leading axes fold into
   * the rows of one product.
   */
  linear(weight: Tensor<R>, bias?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("linear", [this, weight, bias]);
    return owner.one(205);
  }

  /** The inner product of the last axes, `[.., n] x [.., n] -> [..]`; half types accumulate in f32. */
  dot(y: Tensor<R>): Tensor<R> {
    return this.session.binary("dot", 206, this, y);
  }

  /** The outer product `[m] x [n] -> [m, n]`. */
  outer(y: Tensor<R>): Tensor<R> {
    return this.session.binary("outer", 207, this, y);
  }

  /** The product of two matrices, `[m, k] x [k, n] -> [m, n]`; nothing broadcasts. */
  mm(y: Tensor<R>): Tensor<R> {
    return this.session.binary("mm", 208, this, y);
  }

  /** Products of two batches of matrices, `[b, m, k] x [b, k, n] -> [b, m, n]`; nothing broadcasts. */
  bmm(y: Tensor<R>): Tensor<R> {
    return this.session.binary("bmm", 209, this, y);
  }

  /** A matrix times a vector, `[m, k] x [k] -> [m]`. */
  mv(y: Tensor<R>): Tensor<R> {
    return this.session.binary("mv", 210, this, y);
  }

  /**
   * `beta * input + alpha * x y` for matrices `x [m, k]`, `y [k, n]`; `input` broadcasts to `[m, n]` and is left out,
   * NaN and all, if `beta` is 0.
   */
  addmm(x: Tensor<R>, y: Tensor<R>, beta?: Scalar, alpha?: Scalar): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("addmm", [this, x, y]);
    at = owner.putScalar(at, "addmm", beta);
    owner.putScalar(at, "addmm", alpha);
    return owner.one(211);
  }

  /** `addmm` for batches `x [b, m, k]`, `y [b, k, n]`. */
  baddbmm(x: Tensor<R>, y: Tensor<R>, beta?: Scalar, alpha?: Scalar): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("baddbmm", [this, x, y]);
    at = owner.putScalar(at, "baddbmm", beta);
    owner.putScalar(at, "baddbmm", alpha);
    return owner.one(212);
  }

  /** Sums of products over the last axes, `[x.., n] x [y.., n] -> [x.., y..]`; a value of rank 0 scales the other. */
  inner(y: Tensor<R>): Tensor<R> {
    return this.session.binary("inner", 213, this, y);
  }

  /**
   * Sums of products along one axis, counted after the shapes have broadcast, of complex operands with the conjugate of
   * `x`; half types accumulate in f32 (torch `linalg.vecdot`).
   */
  vecdot(y: Tensor<R>, axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("vecdot", [this, y]);
    owner.putInteger(at, "vecdot", axis);
    return owner.one(214);
  }

  /**
   * Sums of products over pairs of axes, `axes_x[i]` of `x` with `axes_y[i]` of `y`; the result has the other axes of
   * `x`, then those of `y`. No axes at all give the outer product.
   */
  tensordot(y: Tensor<R>, axesX: Integers, axesY: Integers): Tensor<R> {
    const owner = this.session;
    axesX = integersOf(owner, "tensordot", axesX);
    axesY = integersOf(owner, "tensordot", axesY);
    let at = owner.putTensors("tensordot", [this, y]);
    at = owner.putIntegers(at, axesX);
    owner.putIntegers(at, axesY);
    return owner.one(215);
  }

  /**
   * The product of two or more matrices, in the order of least work (Cormen et al., "Introduction to Algorithms",
   * section 14.2). The first may be a row of rank 1, the last a column of rank 1, whose axis goes away.
   */
  static multiDot<R extends Reading = "sync">(matrices: readonly Tensor<R>[]): Tensor<R> {
    const owner = session();
    owner.putTensors("multi_dot", matrices);
    return owner.one(216);
  }

  /** `out[.., o] = x W_o y + bias_o` for `x [.., m]`, `y [.., n]` of one batch, `weight [o, m, n]` and `bias [o]`. */
  bilinear(y: Tensor<R>, weight: Tensor<R>, bias?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("bilinear", [this, y, weight, bias]);
    return owner.one(217);
  }

  /**
   * Sums of products by labels, as in NumPy and torch: `"bij,bjk->bik"` is a batch of matrix products. Each operand has a
   * term of letters, one an axis; `...` stands for any further axes, aligned at their last and broadcast; an axis of
   * size 1 broadcasts. A letter twice in a term takes the diagonal. Without `->` the result has the ellipsis and then,
   * in the order of the alphabet with capitals first, the letters that occur once. Spaces are free.
   *
   * Of more than two operands, those are multiplied first that shrink the most. Half types accumulate in f32 and round
   * once.
   */
  static einsum<R extends Reading = "sync">(operands: readonly Tensor<R>[], equation: string): Tensor<R> {
    const owner = session();
    const at = owner.putTensors("einsum", operands);
    owner.putText(at, "einsum", equation);
    return owner.one(218);
  }

  /**
   * Distances `[.., m, n]` in the `p`-norm between the rows of `x [.., m, d]` and of `y [.., n, d]`; batches broadcast.
   * Differences are taken before they are squared, so that near rows lose no digits; half types compute in f32. The
   * gradient at distance 0 is 0, as in torch.
   */
  cdist(y: Tensor<R>, p?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cdist", [this, y]);
    owner.putFloat(at, "cdist", p);
    return owner.one(219);
  }

  /**
   * The covariance matrix `[v, v]` of `v` variables in rows of observations, `x [v, n]`; of one variable, `x [n]`, its
   * variance. `fweights` (integers `[n]`) say how often an observation was made, `aweights` (floats `[n]`) how much it
   * counts; the divisor is the number of observations less `correction`, as in NumPy and torch. Half types compute in
   * f32.
   */
  cov(correction?: number, fweights?: Tensor<R>, aweights?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cov", [this, fweights, aweights]);
    owner.putInteger(at, "cov", correction);
    return owner.one(220);
  }

  /**
   * The correlation coefficients `[v, v]` of `v` variables in rows, `x [v, n]`, clipped to `-1..=1`; 1 for one variable
   * `x [n]`.
   */
  corrcoef(): Tensor<R> {
    return this.session.unary("corrcoef", 221, this);
  }

  /**
   * `l` with `x = l l^T`, or the upper `u` with `x = u^T u`, of `x [.., n, n]`. Of a matrix that is not symmetric the
   * symmetric part is taken, so the gradient is symmetric, as in torch.
   *
   * Errors: a matrix that is not positive definite, when the op runs.
   */
  cholesky(upper?: boolean): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cholesky", [this]);
    owner.putBool(at, "cholesky", upper);
    return owner.one(222);
  }

  /** `a^-1 right` from the Cholesky factor of `a`, with `right [.., n, k]` and `factor [.., n, n]`; batches broadcast. */
  choleskySolve(factor: Tensor<R>, upper?: boolean): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cholesky_solve", [this, factor]);
    owner.putBool(at, "cholesky_solve", upper);
    return owner.one(223);
  }

  /** `a^-1` from the Cholesky factor of `a`, `[.., n, n]`. */
  choleskyInverse(upper?: boolean): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cholesky_inverse", [this]);
    owner.putBool(at, "cholesky_inverse", upper);
    return owner.one(224);
  }

  /**
   * `[p, l, u]` with `x = p l u` for `x [.., m, n]`: a permutation `p [.., m, m]`, the unit lower triangle
   * `l [.., m, k]` and the upper triangle `u [.., k, n]`, where `k = min(m, n)`; partial pivoting.
   */
  lu(): Tensor<R>[] {
    const owner = this.session;
    owner.putTensors("lu", [this]);
    return owner.several(225);
  }

  /**
   * `[lu, pivots]` of `x [.., m, n]`, packed as LAPACK's getrf does: the unit lower triangle below the diagonal, the
   * upper one on and above it; i32 pivots `[.., min(m, n)]` count from 1.
   *
   * Errors: a zero on the diagonal of the upper triangle, when the op runs; `lu` takes such a matrix.
   */
  luFactor(): Tensor<R>[] {
    const owner = this.session;
    owner.putTensors("lu_factor", [this]);
    return owner.several(226);
  }

  /** `[p, l, u]` from what `lu_factor` gives, as `lu` gives them. */
  luUnpack(pivots: Tensor<R>): Tensor<R>[] {
    const owner = this.session;
    owner.putTensors("lu_unpack", [this, pivots]);
    return owner.several(227);
  }

  /**
   * `a^-1 right` from what `lu_factor` gives for square `a`, with `right [.., n, k]`. `left = false` solves
   * `x a = right`, `adjoint` takes `a^T` for `a`.
   */
  luSolve(pivots: Tensor<R>, right: Tensor<R>, left?: boolean, adjoint?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("lu_solve", [this, pivots, right]);
    at = owner.putBool(at, "lu_solve", left);
    owner.putBool(at, "lu_solve", adjoint);
    return owner.one(228);
  }

  /**
   * `[q, r]` with `x = q r` for `x [.., m, n]`: `q [.., m, k]` with orthonormal columns and `r [.., k, n]` upper
   * triangular, `k = min(m, n)`, or `k = m` in the mode `complete`. Signs are LAPACK's.
   *
   * Differentiable where the first `k` columns are independent; not `q` of the complete mode if `m > n`.
   */
  qr(mode?: "reduced" | "complete"): Tensor<R>[] {
    const owner = this.session;
    const at = owner.putTensors("qr", [this]);
    owner.putWord(at, "qr", ["reduced","complete"], mode);
    return owner.several(229);
  }

  /**
   * `[values, vectors]` of the symmetric `x [.., n, n]`: ascending eigenvalues `[.., n]` and eigenvectors in columns.
   * In each vector the first component whose magnitude exceeds 7/8 of the largest is positive. With a `triangle` named,
   * only that one is read and has a gradient; else the symmetric part counts, and of a symmetric matrix that is torch's.
   *
   * Vectors of equal eigenvalues are any basis of their space; a derivative within it counts as 0. The vectors'
   * derivative is as large as the gap between eigenvalues is small.
   */
  eigh(triangle?: "both" | "lower" | "upper"): Tensor<R>[] {
    const owner = this.session;
    const at = owner.putTensors("eigh", [this]);
    owner.putWord(at, "eigh", ["both","lower","upper"], triangle);
    return owner.several(230);
  }

  /** The ascending eigenvalues `[.., n]` of the symmetric `x [.., n, n]`; see `eigh`. */
  eigvalsh(triangle?: "both" | "lower" | "upper"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("eigvalsh", [this]);
    owner.putWord(at, "eigvalsh", ["both","lower","upper"], triangle);
    return owner.one(231);
  }

  /**
   * `[u, s, vt]` with `x = u diag(s) vt` for `x [.., m, n]`: descending singular values `s [.., k]`, `k = min(m, n)`,
   * and orthonormal columns of `u [.., m, k]` and rows of `vt [.., k, n]`; with `full_matrices` both are completed to
   * bases, `[.., m, m]` and `[.., n, n]`. Signs are settled in the columns of `u` as in `eigh`.
   *
   * Vectors of equal singular values are any basis of their space; a derivative within it counts as 0, as does that of
   * the completed part.
   */
  svd(fullMatrices?: boolean): Tensor<R>[] {
    const owner = this.session;
    const at = owner.putTensors("svd", [this]);
    owner.putBool(at, "svd", fullMatrices);
    return owner.several(232);
  }

  /** The descending singular values `[.., min(m, n)]` of `x [.., m, n]`; the gradient is finite at equal ones too. */
  svdvals(): Tensor<R> {
    return this.session.unary("svdvals", 233, this);
  }

  /**
   * `y` with `x y = right`, or `y x = right` if not `left`, for `x [.., n, n]` and `right [.., n, k]`; batches
   * broadcast. A `right` of rank 1, or of the shape of `x` without its last axis, holds vectors.
   *
   * Errors: a singular matrix, when the op runs.
   */
  solve(right: Tensor<R>, left?: boolean): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("solve", [this, right]);
    owner.putBool(at, "solve", left);
    return owner.one(234);
  }

  /**
   * As `solve` for a triangular `x`, of which only that triangle is read, and not its diagonal if `unitriangular`.
   * A zero on the diagonal gives infinities, as in torch.
   */
  solveTriangular(right: Tensor<R>, upper: boolean, left?: boolean, unitriangular?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("solve_triangular", [this, right]);
    at = owner.putBool(at, "solve_triangular", upper);
    at = owner.putBool(at, "solve_triangular", left);
    owner.putBool(at, "solve_triangular", unitriangular);
    return owner.one(235);
  }

  /** `solve_triangular` with the operands of torch's older function; `transpose` takes `x^T` for `x`. */
  triangularSolve(x: Tensor<R>, upper?: boolean, transpose?: boolean, unitriangular?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("triangular_solve", [this, x]);
    at = owner.putBool(at, "triangular_solve", upper);
    at = owner.putBool(at, "triangular_solve", transpose);
    owner.putBool(at, "triangular_solve", unitriangular);
    return owner.one(236);
  }

  /**
   * `x^-1` of `x [.., n, n]`; `solve` is better where the inverse would be multiplied.
   *
   * Errors: a singular matrix, when the op runs.
   */
  inverse(): Tensor<R> {
    return this.session.unary("inverse", 237, this);
  }

  /**
   * The `y` of least `|x y - right|` for `x [.., m, n]` of full rank and `right [.., m, k]` (or vectors, as in
   * `solve`), by QR; of many such, if `m < n`, the shortest. `pinv` takes matrices of any rank.
   *
   * Errors: a matrix without full rank, when the op runs.
   */
  lstsq(right: Tensor<R>): Tensor<R> {
    return this.session.binary("lstsq", 238, this, right);
  }

  /**
   * The Moore-Penrose inverse `[.., n, m]` of `x [.., m, n]`: singular values up to `rtol` of the largest count as 0; by
   * default `max(m, n)` times the dtype's epsilon. Differentiable at constant rank.
   *
   * Errors: a negative `rtol`.
   */
  pinv(rtol?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("pinv", [this]);
    owner.putFloat(at, "pinv", rtol);
    return owner.one(239);
  }

  /** The determinant `[..]` of `x [.., n, n]`. Its gradient is the matrix of cofactors, of singular matrices too. */
  det(): Tensor<R> {
    return this.session.unary("det", 240, this);
  }

  /**
   * `[sign, log |det|]`, both `[..]`, of the determinant of `x [.., n, n]`; `[0, -inf]` if it is zero, where the
   * gradient is not finite.
   */
  slogdet(): Tensor<R>[] {
    const owner = this.session;
    owner.putTensors("slogdet", [this]);
    return owner.several(241);
  }

  /** The logarithm `[..]` of the determinant of `x [.., n, n]`: `-inf` if that is zero, NaN if negative. */
  logdet(): Tensor<R> {
    return this.session.unary("logdet", 242, this);
  }

  /**
   * The i64 rank `[..]` of `x [.., m, n]`: how many singular values exceed both `atol` and `rtol` times the largest. By
   * default `rtol` is `max(m, n)` times the dtype's epsilon where no `atol` is given, else 0.
   *
   * Errors: a negative tolerance.
   */
  matrixRank(atol?: number, rtol?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("matrix_rank", [this]);
    at = owner.putFloat(at, "matrix_rank", atol);
    owner.putFloat(at, "matrix_rank", rtol);
    return owner.one(243);
  }

  /**
   * `x [.., n, n]` to a whole power by repeated squaring; a negative one inverts first.
   *
   * Errors: a negative power of a singular matrix, when the op runs.
   */
  matrixPower(exponent: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("matrix_power", [this]);
    owner.putInteger(at, "matrix_power", exponent);
    return owner.one(244);
  }

  /** `e^x`, the exponential series of `x [.., n, n]`, by scaling and squaring. */
  matrixExp(): Tensor<R> {
    return this.session.unary("matrix_exp", 245, this);
  }

  /**
   * A norm of the matrices in two `axes`, by default the last: `"fro"`, `"nuc"` (the sum of singular values), `"2"` and `"-2"` (the largest
   * and smallest of them), `"1"` and `"-1"` (the largest and smallest sum of a column's absolute values), `"inf"` and
   * `"-inf"` (of a row's). The gradient of the Frobenius norm at zero is 0, as in torch; half types compute in f32,
   * norms of singular values take f32 and f64 only.
   *
   * Errors: the smallest of no numbers; the largest of none is 0, as in torch.
   */
  matrixNorm(ord?: "fro" | "nuc" | "1" | "-1" | "2" | "-2" | "inf" | "-inf", axes?: Integers, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "matrix_norm", axes);
    let at = owner.putTensors("matrix_norm", [this]);
    at = owner.putWord(at, "matrix_norm", ["fro","nuc","1","-1","2","-2","inf","-inf"], ord);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "matrix_norm", keepdim);
    return owner.one(246);
  }

  /**
   * The condition number `[..]` of `x` in a norm: `"2"` (the default: the largest singular value by the smallest, of
   * `x [.., m, n]`) or `"-2"`; any other of `matrix_norm` is the norm of `x [.., n, n]` times that of its inverse,
   * infinite if there is none.
   */
  cond(ord?: "fro" | "nuc" | "1" | "-1" | "2" | "-2" | "inf" | "-inf"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cond", [this]);
    owner.putWord(at, "cond", ["fro","nuc","1","-1","2","-2","inf","-inf"], ord);
    return owner.one(247);
  }

  /**
   * The Vandermonde matrix `[.., n, columns]` of `x [.., n]`: powers `0, 1, ..` along rows, or falling ones if not
   * `increasing`; square by default.
   */
  vander(columns?: number, increasing?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("vander", [this]);
    at = owner.putInteger(at, "vander", columns);
    owner.putBool(at, "vander", increasing);
    return owner.one(248);
  }

  /**
   * Matrices along the diagonal of one, zeros elsewhere: `[m1, n1], [m2, n2], .. -> [sum m, sum n]`. A vector counts as a
   * row, a value of rank 0 as one element.
   */
  static blockDiag<R extends Reading = "sync">(matrices: readonly Tensor<R>[]): Tensor<R> {
    const owner = session();
    owner.putTensors("block_diag", matrices);
    return owner.one(249);
  }

  /** Rows of `table [rows, width]` by `ids [..]`: `[.., width]`. An id out of range is an error when the op runs. */
  embedding(ids: Tensor<R> | Ids): Tensor<R> {
    const owner = this.session;
    owner.putTensors("embedding", [this, idsOf(owner, "embedding", ids)]);
    return owner.one(250);
  }

  /** The sum of `grad [.., width]` rows by `ids [..]`: `[rows, width]`; the transpose of `embedding`. */
  embeddingGrad(ids: Tensor<R> | Ids, rows: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("embedding_grad", [this, idsOf(owner, "embedding_grad", ids)]);
    owner.putInteger(at, "embedding_grad", rows);
    return owner.one(251);
  }

  /** The given places `ids [n]` of one axis, in their order. */
  indexSelect(axis: number, ids: Tensor<R> | Ids): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("index_select", [this, idsOf(owner, "index_select", ids)]);
    owner.putInteger(at, "index_select", axis);
    return owner.one(252);
  }

  /**
   * Along one axis, the element that `ids` names: `out[.., i, ..] = x[.., ids[.., i, ..], ..]`. `ids` has the rank of
   * `x` and no other axis larger than that of `x` (torch `gather`). An id out of range, also a negative one, is an error
   * when the op runs.
   */
  gather(axis: number, ids: Tensor<R> | Ids): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("gather", [this, idsOf(owner, "gather", ids)]);
    owner.putInteger(at, "gather", axis);
    return owner.one(253);
  }

  /**
   * As `gather`, where `x` and `ids` broadcast against each other off the axis (NumPy `take_along_axis`, torch
   * `take_along_dim`). An id out of range, also a negative one, is an error when the op runs.
   */
  takeAlongAxis(ids: Tensor<R> | Ids, axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("take_along_axis", [this, idsOf(owner, "take_along_axis", ids)]);
    owner.putInteger(at, "take_along_axis", axis);
    return owner.one(254);
  }

  /**
   * The elements of `x` in row-major order at `ids [..]`, of the shape of `ids` (torch `take`). Ids count from the end
   * where negative; out of range they are an error when the op runs.
   */
  take(ids: Tensor<R> | Ids): Tensor<R> {
    const owner = this.session;
    owner.putTensors("take", [this, idsOf(owner, "take", ids)]);
    return owner.one(255);
  }

  /**
   * `x` indexed by several integer tensors at once, which broadcast against each other: one for each of `axes`, or for
   * the leading axes where the list is empty. The axes of the ids stand where the indexed axes did if these are
   * neighbours in ascending order, else in front (NumPy and torch advanced indexing). Ids count from the end where
   * negative; out of range they are an error when the op runs. For a `bool` mask see `masked_select`.
   */
  index(ids: readonly (Tensor<R> | Ids)[], axes?: Integers): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "index", axes);
    const at = owner.putTensors("index", [this, ...tensorsOf("index", "ids", ids).map((ids) => idsOf(owner, "index", ids))]);
    owner.putIntegers(at, axes);
    return owner.one(256);
  }

  /**
   * `x` with `values` written to the places that `index` of the same ids reads; `values` broadcast to its result. Of
   * several values for one place the last one stays, or all are added to what is there if `accumulate` (torch
   * `index_put`).
   */
  indexPut(values: Tensor<R>, ids: readonly (Tensor<R> | Ids)[], axes?: Integers, accumulate?: boolean): Tensor<R> {
    const owner = this.session;
    axes = integersOf(owner, "index_put", axes);
    let at = owner.putTensors("index_put", [this, values, ...tensorsOf("index_put", "ids", ids).map((ids) => idsOf(owner, "index_put", ids))]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "index_put", accumulate);
    return owner.one(257);
  }

  /**
   * Where each of `values` would be inserted into the ascending `sorted [.., n]` to keep it so, as i64: before equal
   * elements, or behind them if `right` (torch `searchsorted`, NumPy `searchsorted`). `sorted` is of rank 1, or has the
   * leading axes of `values`. NaN counts as largest.
   */
  searchsorted(values: Tensor<R>, right?: boolean): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("searchsorted", [this, values]);
    owner.putBool(at, "searchsorted", right);
    return owner.one(258);
  }

  /**
   * The number of the bin of each value between the ascending `edges [n]`, as i64: 0 below the first edge, `n` above the
   * last. A value on an edge belongs below it, or above it if `right` (torch `bucketize`).
   */
  bucketize(edges: Tensor<R>, right?: boolean): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("bucketize", [this, edges]);
    owner.putBool(at, "bucketize", right);
    return owner.one(259);
  }

  /** True where an element of `x` equals one of `elements`, which may be of any shape; NaN equals nothing. */
  isin(elements: Tensor<R>): Tensor<R> {
    return this.session.binary("isin", 260, this, elements);
  }

  /**
   * As `embedding`, but no derivative flows to the row `padding` of the table, which counts from the end where
   * negative (torch `embedding` with `padding_idx`).
   */
  paddedEmbedding(ids: Tensor<R> | Ids, padding: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("padded_embedding", [this, idsOf(owner, "padded_embedding", ids)]);
    owner.putInteger(at, "padded_embedding", padding);
    return owner.one(261);
  }

  /**
   * The elements of two axes at which the second's place is the first's plus `offset`, on a new last axis; by default the
   * diagonal of the last two, `[.., rows, columns] -> [.., n]` (torch `linalg.diagonal`; NumPy and torch `diagonal` take
   * the first two by default).
   */
  diagonal(offset?: number, first?: number, second?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("diagonal", [this]);
    at = owner.putInteger(at, "diagonal", offset);
    at = owner.putInteger(at, "diagonal", first);
    owner.putInteger(at, "diagonal", second);
    return owner.one(262);
  }

  /**
   * `x [.., n]` on a diagonal of new axes `first` and `second` of the result, 0 elsewhere; see `diagonal` (torch
   * `diag_embed`).
   */
  diagEmbed(offset?: number, first?: number, second?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("diag_embed", [this]);
    at = owner.putInteger(at, "diag_embed", offset);
    at = owner.putInteger(at, "diag_embed", first);
    owner.putInteger(at, "diag_embed", second);
    return owner.one(263);
  }

  /** The matrix with `x [n]` on a diagonal, or the diagonal of the matrix `x` (NumPy and torch `diag`). */
  diag(offset?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("diag", [this]);
    owner.putInteger(at, "diag", offset);
    return owner.one(264);
  }

  /** The sum of a diagonal of the last two axes, `[.., rows, columns] -> [..]`; see `sum` for its dtype. */
  trace(offset?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("trace", [this]);
    owner.putInteger(at, "trace", offset);
    return owner.one(265);
  }

  /** As `repeat`, but fewer repeats than axes repeat the last axes (NumPy and torch `tile`). */
  tile(repeats: Integers): Tensor<R> {
    const owner = this.session;
    repeats = integersOf(owner, "tile", repeats);
    const at = owner.putTensors("tile", [this]);
    owner.putIntegers(at, repeats);
    return owner.one(266);
  }

  /** Swaps two axes (NumPy `swapaxes`); the same as `transpose`. */
  swapAxes(first: number, second: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("swap_axes", [this]);
    at = owner.putInteger(at, "swap_axes", first);
    owner.putInteger(at, "swap_axes", second);
    return owner.one(267);
  }

  /** Moves axes `from[i]` to `to[i]`; the others keep their order (torch `movedim`, NumPy `moveaxis`). */
  moveAxes(from: Integers, to: Integers): Tensor<R> {
    const owner = this.session;
    from = integersOf(owner, "move_axes", from);
    to = integersOf(owner, "move_axes", to);
    let at = owner.putTensors("move_axes", [this]);
    at = owner.putIntegers(at, from);
    owner.putIntegers(at, to);
    return owner.one(268);
  }

  /** NumPy broadcasting to `shape`, of which -1 keeps the size of an axis (torch `expand`). */
  expand(shape: Integers): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "expand", shape);
    const at = owner.putTensors("expand", [this]);
    owner.putIntegers(at, shape);
    return owner.one(269);
  }

  /** An axis split into several of the given sizes, of which one may be -1 and is worked out (torch `unflatten`). */
  unflatten(axis: number, sizes: Integers): Tensor<R> {
    const owner = this.session;
    sizes = integersOf(owner, "unflatten", sizes);
    let at = owner.putTensors("unflatten", [this]);
    at = owner.putInteger(at, "unflatten", axis);
    owner.putIntegers(at, sizes);
    return owner.one(270);
  }

  /** `x` with at least one axis. */
  atleast1d(): Tensor<R> {
    return this.session.unary("atleast_1d", 271, this);
  }

  /** `x` with at least two axes; a new one goes in front. */
  atleast2d(): Tensor<R> {
    return this.session.unary("atleast_2d", 272, this);
  }

  /** `x` with at least three axes: `[n]` becomes `[1, n, 1]` and `[m, n]` becomes `[m, n, 1]` (NumPy, torch). */
  atleast3d(): Tensor<R> {
    return this.session.unary("atleast_3d", 273, this);
  }

  /** Values side by side: along axis 1, or axis 0 for values of rank 1 (NumPy, torch). */
  static hstack<R extends Reading = "sync">(values: readonly Tensor<R>[]): Tensor<R> {
    const owner = session();
    owner.putTensors("hstack", values);
    return owner.one(274);
  }

  /** Values of at least two axes one below another, along axis 0 (NumPy, torch). */
  static vstack<R extends Reading = "sync">(values: readonly Tensor<R>[]): Tensor<R> {
    const owner = session();
    owner.putTensors("vstack", values);
    return owner.one(275);
  }

  /** Values of at least three axes one behind another, along axis 2 (NumPy, torch). */
  static dstack<R extends Reading = "sync">(values: readonly Tensor<R>[]): Tensor<R> {
    const owner = session();
    owner.putTensors("dstack", values);
    return owner.one(276);
  }

  /**
   * Exactly `count` pieces of an axis, of which the first ones are one element longer where it does not divide (torch
   * `tensor_split`, NumPy `array_split`).
   */
  tensorSplit(count: number, axis?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("tensor_split", [this]);
    at = owner.putInteger(at, "tensor_split", count);
    owner.putInteger(at, "tensor_split", axis);
    return owner.several(277);
  }

  /**
   * The pieces of an axis between `places`, which count from the end where negative and are clamped: one more than there
   * are places (torch `tensor_split` and NumPy `split` with indices).
   */
  splitAt(places: Integers, axis?: number): Tensor<R>[] {
    const owner = this.session;
    places = integersOf(owner, "split_at", places);
    let at = owner.putTensors("split_at", [this]);
    at = owner.putIntegers(at, places);
    owner.putInteger(at, "split_at", axis);
    return owner.several(278);
  }

  /**
   * Every element of an axis, which goes away: as many values as its size, none where that is 0 (torch `unbind`, NumPy
   * `unstack`).
   *
   * Errors: an axis of more than 2^20 elements.
   */
  unbind(axis?: number): Tensor<R>[] {
    const owner = this.session;
    const at = owner.putTensors("unbind", [this]);
    owner.putInteger(at, "unbind", axis);
    return owner.several(279);
  }

  /** Turns the plane of two axes by `turns` quarters from `first` towards `second` (NumPy, torch `rot90`). */
  rot90(turns?: number, first?: number, second?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("rot90", [this]);
    at = owner.putInteger(at, "rot90", turns);
    at = owner.putInteger(at, "rot90", first);
    owner.putInteger(at, "rot90", second);
    return owner.one(280);
  }

  /**
   * Elements moved by `shifts[i]` places along `axes[i]`, those past the end to its start; by one shift in row-major order
   * where no axes are given (torch, NumPy `roll`).
   */
  rollAxes(shifts: Integers, axes?: Integers): Tensor<R> {
    const owner = this.session;
    shifts = integersOf(owner, "roll_axes", shifts);
    axes = integersOf(owner, "roll_axes", axes);
    let at = owner.putTensors("roll_axes", [this]);
    at = owner.putIntegers(at, shifts);
    owner.putIntegers(at, axes);
    return owner.one(281);
  }

  /**
   * Each of `values`, of rank 0 or 1, spread over the grid of all: value `i` varies along axis `i`, or, if `xy`, the first
   * two axes are swapped (torch `meshgrid` with `indexing` "ij" or "xy").
   */
  static meshgrid<R extends Reading = "sync">(values: readonly Tensor<R>[], xy?: boolean): Tensor<R>[] {
    const owner = session();
    const at = owner.putTensors("meshgrid", values);
    owner.putBool(at, "meshgrid", xy);
    return owner.several(282);
  }

  /** The cross product along an axis of size 3; the operands broadcast (torch `linalg.cross`, NumPy `cross`). */
  cross(y: Tensor<R>, axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cross", [this, y]);
    owner.putInteger(at, "cross", axis);
    return owner.one(283);
  }

  /**
   * The Kronecker product: `x` with each element replaced by its product with all of `y`; a shorter operand gets leading
   * axes of size 1 (NumPy, torch `kron`).
   */
  kron(y: Tensor<R>): Tensor<R> {
    return this.session.binary("kron", 284, this, y);
  }

  /**
   * `x` with `source[.., i, ..]` written to `[.., ids[.., i, ..], ..]`, where `i` runs over `axis`. `ids` has the rank of
   * `x` and no other axis larger than that of `x`; `source` is at least as large as `ids`, or of rank 0. Of several
   * elements for one place the last along the axis stays (torch `scatter`, which leaves that open). An id out of range,
   * also a negative one, is an error when the op runs.
   */
  scatter(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("scatter", [this, idsOf(owner, "scatter", ids), source]);
    owner.putInteger(at, "scatter", axis);
    return owner.one(285);
  }

  /**
   * As `scatter`, but every element is added to what is at its place; half types accumulate in f32 (torch
   * `scatter_add`).
   */
  scatterAdd(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("scatter_add", [this, idsOf(owner, "scatter_add", ids), source]);
    owner.putInteger(at, "scatter_add", axis);
    return owner.one(286);
  }

  /**
   * As `scatter`, but the elements of one place are combined with each other and, if `include_self`, with what is
   * there; places that no id names keep their element (torch `scatter_reduce`). Derivatives of the extrema are shared
   * evenly at ties; those of the product are exact at zeros.
   */
  scatterReduce(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>, reduce?: "sum" | "prod" | "mean" | "amax" | "amin", includeSelf?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("scatter_reduce", [this, idsOf(owner, "scatter_reduce", ids), source]);
    at = owner.putInteger(at, "scatter_reduce", axis);
    at = owner.putWord(at, "scatter_reduce", ["sum","prod","mean","amax","amin"], reduce);
    owner.putBool(at, "scatter_reduce", includeSelf);
    return owner.one(287);
  }

  /**
   * `x` with `alpha` times the slices of `source` along `axis` added to the slices that `ids [n]` name; an id may stand
   * several times (torch `index_add`).
   */
  indexAdd(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>, alpha?: Scalar): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("index_add", [this, idsOf(owner, "index_add", ids), source]);
    at = owner.putInteger(at, "index_add", axis);
    owner.putScalar(at, "index_add", alpha);
    return owner.one(288);
  }

  /**
   * `x` with the slices of `source` along `axis` in place of those that `ids [n]` name, of several for one place the last
   * (torch `index_copy`).
   */
  indexCopy(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("index_copy", [this, idsOf(owner, "index_copy", ids), source]);
    owner.putInteger(at, "index_copy", axis);
    return owner.one(289);
  }

  /** `x` with `value` in the slices along `axis` that `ids [n]` name (torch `index_fill`). */
  indexFill(axis: number, ids: Tensor<R> | Ids, value: Scalar): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("index_fill", [this, idsOf(owner, "index_fill", ids)]);
    at = owner.putInteger(at, "index_fill", axis);
    owner.putScalar(at, "index_fill", value);
    return owner.one(290);
  }

  /** `x` with `value` where the `bool` mask is true, which broadcasts to `x` (torch `masked_fill`). */
  maskedFill(mask: Tensor<R>, value: Scalar): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("masked_fill", [this, mask]);
    owner.putScalar(at, "masked_fill", value);
    return owner.one(291);
  }

  /**
   * `x` with the elements of `source` in row-major order put where the `bool` mask, which broadcasts to `x`, is true
   * (torch `masked_scatter`). Fewer elements than true places are an error when the op runs.
   */
  maskedScatter(mask: Tensor<R>, source: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("masked_scatter", [this, mask, source]);
    return owner.one(292);
  }

  /**
   * How often each of `0..size` occurs among the integers `x`, of any shape: i64 `[size]`, or the sums of `weights`, of
   * the shape of `x`, in their dtype. Values from `size` on are not counted; a negative one is an error when the op runs.
   * Without `size`, which only computed tensors allow, the result reaches to the largest value (torch `bincount`).
   */
  bincount(weights?: Tensor<R>, size?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("bincount", [this, weights]);
    owner.putInteger(at, "bincount", size);
    return owner.one(293);
  }

  /**
   * How many elements of `x`, of any shape, fall into each of `bins` equal parts of `low..=high`, in its dtype; elements
   * outside and NaN are not counted. Where `low` equals `high` the range is that of the finite elements, and where these are
   * all equal it is one to both sides of them (torch `histc`, which refuses infinities and NaN then).
   */
  histc(bins?: number, low?: number, high?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("histc", [this]);
    at = owner.putInteger(at, "histc", bins);
    at = owner.putFloat(at, "histc", low);
    owner.putFloat(at, "histc", high);
    return owner.one(294);
  }

  /**
   * The coordinates of the elements that are not 0, in row-major order: i64 `[n, rank]`. With `size`, `[size, rank]`, where
   * missing rows hold `fill` (torch `nonzero`, `nonzero_static`). NaN is not 0.
   *
   * Errors: in a graph, no `size`.
   */
  nonzero(size?: number, fill?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("nonzero", [this]);
    at = owner.putInteger(at, "nonzero", size);
    owner.putInteger(at, "nonzero", fill);
    return owner.one(295);
  }

  /**
   * See `nonzero`, whose missing rows hold -1 here (NumPy `argwhere`).
   *
   * Errors: in a graph, no `size`.
   */
  argwhere(size?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("argwhere", [this]);
    owner.putInteger(at, "argwhere", size);
    return owner.one(296);
  }

  /**
   * The elements of `x` where the `bool` mask is true, in row-major order, `[n]`; both broadcast. With `size`, `[size]`,
   * where missing elements are `fill` (torch `masked_select`).
   *
   * Errors: in a graph, no `size`.
   */
  maskedSelect(mask: Tensor<R>, size?: number, fill?: Scalar): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("masked_select", [this, mask]);
    at = owner.putInteger(at, "masked_select", size);
    owner.putScalar(at, "masked_select", fill);
    return owner.one(297);
  }

  /**
   * The different elements of `x` in ascending order, or its different slices along `axis` in the order of their elements;
   * then for each element (slice) the i64 number of its equal among them, and i64 how often each occurs. With `size` the
   * first and the last result have that many entries, and missing ones hold `fill` and 0. Each NaN is an element of its
   * own (torch `unique` with `return_inverse` and `return_counts`).
   *
   * Errors: in a graph, no `size`.
   */
  unique(axis?: number, size?: number, fill?: Scalar): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("unique", [this]);
    at = owner.putInteger(at, "unique", axis);
    at = owner.putInteger(at, "unique", size);
    owner.putScalar(at, "unique", fill);
    return owner.several(298);
  }

  /**
   * As `unique`, but only equal neighbours become one, and the order stays (torch `unique_consecutive`).
   *
   * Errors: in a graph, no `size`.
   */
  uniqueConsecutive(axis?: number, size?: number, fill?: Scalar): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("unique_consecutive", [this]);
    at = owner.putInteger(at, "unique_consecutive", axis);
    at = owner.putInteger(at, "unique_consecutive", size);
    owner.putScalar(at, "unique_consecutive", fill);
    return owner.several(299);
  }

  /**
   * Each slice of an axis as often in a row as `counts [n]` says, which are not negative. With `size` the axis has that
   * size, cut or filled with the last slice (torch `repeat_interleave` with `output_size`); a negative count is not seen then.
   *
   * Errors: in a graph, no `size`; without one, a negative count.
   */
  repeatCounts(counts: Tensor<R>, axis: number, size?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("repeat_counts", [this, counts]);
    at = owner.putInteger(at, "repeat_counts", axis);
    owner.putInteger(at, "repeat_counts", size);
    return owner.one(300);
  }

  /**
   * The sum of each element and all before it on the axis; integers and `bool` give i64, which wraps. Half types
   * accumulate in f32 (torch `cumsum`).
   */
  cumsum(axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cumsum", [this]);
    owner.putInteger(at, "cumsum", axis);
    return owner.one(301);
  }

  /**
   * The product of each element and all before it on the axis; integers and `bool` give i64, which wraps. Half types
   * accumulate in f32; derivatives are exact at zeros (torch `cumprod`).
   */
  cumprod(axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("cumprod", [this]);
    owner.putInteger(at, "cumprod", axis);
    return owner.one(302);
  }

  /**
   * The largest of each element and all before it on the axis, and its i64 place, the last of several; from a NaN on
   * everything is NaN (torch `cummax`).
   */
  cummax(axis: number): Tensor<R>[] {
    const owner = this.session;
    const at = owner.putTensors("cummax", [this]);
    owner.putInteger(at, "cummax", axis);
    return owner.several(303);
  }

  /**
   * The smallest of each element and all before it on the axis, and its i64 place, the last of several; from a NaN on
   * everything is NaN (torch `cummin`).
   */
  cummin(axis: number): Tensor<R>[] {
    const owner = this.session;
    const at = owner.putTensors("cummin", [this]);
    owner.putInteger(at, "cummin", axis);
    return owner.several(304);
  }

  /**
   * `log(sum(exp(x)))` over each element and all before it on the axis, without overflow; half types compute in f32
   * (torch `logcumsumexp`).
   */
  logcumsumexp(axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("logcumsumexp", [this]);
    owner.putInteger(at, "logcumsumexp", axis);
    return owner.one(305);
  }

  /**
   * Differences of neighbours on an axis, taken `times` over: each makes the axis one shorter. `before` and `after` are
   * joined to the axis first. `bool` gives where neighbours differ (torch and NumPy `diff`).
   */
  diff(before?: Tensor<R>, after?: Tensor<R>, times?: number, axis?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("diff", [this, before, after]);
    at = owner.putInteger(at, "diff", times);
    owner.putInteger(at, "diff", axis);
    return owner.one(306);
  }

  /**
   * The integral along an axis by trapezoids, at places `x`, of the shape of `y` or of its axis, or `spacing` apart (torch
   * `trapezoid`, NumPy `trapezoid`). One element or none gives 0.
   */
  trapezoid(x?: Tensor<R>, spacing?: number, axis?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("trapezoid", [this, x]);
    at = owner.putFloat(at, "trapezoid", spacing);
    owner.putInteger(at, "trapezoid", axis);
    return owner.one(307);
  }

  /** As `trapezoid`, summed up to each place but the first: the axis becomes one shorter (torch `cumulative_trapezoid`). */
  cumulativeTrapezoid(x?: Tensor<R>, spacing?: number, axis?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("cumulative_trapezoid", [this, x]);
    at = owner.putFloat(at, "cumulative_trapezoid", spacing);
    owner.putInteger(at, "cumulative_trapezoid", axis);
    return owner.one(308);
  }

  /**
   * The elements of an axis in order, and their i64 places in it. Equal elements keep their order; NaN counts as largest
   * (torch `sort` with `stable`).
   */
  sort(axis?: number, descending?: boolean): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("sort", [this]);
    at = owner.putInteger(at, "sort", axis);
    owner.putBool(at, "sort", descending);
    return owner.several(309);
  }

  /** The i64 places of the elements of an axis in their order; see `sort` (torch `argsort` with `stable`). */
  argsort(axis?: number, descending?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("argsort", [this]);
    at = owner.putInteger(at, "argsort", axis);
    owner.putBool(at, "argsort", descending);
    return owner.one(310);
  }

  /** The elements of axis 0 in order; see `sort` (torch `msort`). */
  msort(): Tensor<R> {
    return this.session.unary("msort", 311, this);
  }

  /**
   * The `k` largest or smallest elements of an axis, and their i64 places, in order; of equal elements the first come
   * first. `sorted` is what torch takes, and the order is the same without it (torch `topk`).
   */
  topk(k: number, axis?: number, largest?: boolean, sorted?: boolean): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("topk", [this]);
    at = owner.putInteger(at, "topk", k);
    at = owner.putInteger(at, "topk", axis);
    at = owner.putBool(at, "topk", largest);
    owner.putBool(at, "topk", sorted);
    return owner.several(312);
  }

  /** The `k`-th smallest element of an axis, counted from 1, and its i64 place (torch `kthvalue`). */
  kthvalue(k: number, axis?: number, keepdim?: boolean): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("kthvalue", [this]);
    at = owner.putInteger(at, "kthvalue", k);
    at = owner.putInteger(at, "kthvalue", axis);
    owner.putBool(at, "kthvalue", keepdim);
    return owner.several(313);
  }

  /**
   * The median of an axis, or of all elements, and its i64 place (among all elements in row-major order); of an even
   * number the lower of the middle two. NaN if any element is (torch `median`). The derivative flows to the element that
   * was chosen.
   */
  median(axis?: number, keepdim?: boolean): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("median", [this]);
    at = owner.putInteger(at, "median", axis);
    owner.putBool(at, "median", keepdim);
    return owner.several(314);
  }

  /** As `median`, of the elements that are not NaN; NaN if there are none (torch `nanmedian`). */
  nanmedian(axis?: number, keepdim?: boolean): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("nanmedian", [this]);
    at = owner.putInteger(at, "nanmedian", axis);
    owner.putBool(at, "nanmedian", keepdim);
    return owner.several(315);
  }

  /**
   * The quantiles of an axis, or of all elements, at `q`, of rank 0 or 1 and in 0..=1, interpolated linearly between the
   * two nearest elements: `[keepdim axes]`, after an axis of the size of `q` where that has rank 1. NaN where an element
   * or `q` is NaN, and for a `q` out of range. Between an infinity and a number lies the infinity. Half types compute in f32 (torch and NumPy `quantile`).
   */
  quantile(q: Tensor<R>, axis?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("quantile", [this, q]);
    at = owner.putInteger(at, "quantile", axis);
    owner.putBool(at, "quantile", keepdim);
    return owner.one(316);
  }

  /** As `quantile`, of the elements that are not NaN; NaN if there are none (torch `nanquantile`). */
  nanquantile(q: Tensor<R>, axis?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("nanquantile", [this, q]);
    at = owner.putInteger(at, "nanquantile", axis);
    owner.putBool(at, "nanquantile", keepdim);
    return owner.one(317);
  }

  /**
   * The most frequent element of an axis and the i64 place of its last occurrence; of several the smallest (torch
   * `mode`). Each NaN counts by itself. The derivative flows to the element that was chosen.
   */
  mode(axis?: number, keepdim?: boolean): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("mode", [this]);
    at = owner.putInteger(at, "mode", axis);
    owner.putBool(at, "mode", keepdim);
    return owner.several(318);
  }

  /** `exp(x) / sum(exp(x))` along an axis. */
  softmax(axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("softmax", [this]);
    owner.putInteger(at, "softmax", axis);
    return owner.one(319);
  }

  /** `x - log(sum(exp(x)))` along an axis. */
  logSoftmax(axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("log_softmax", [this]);
    owner.putInteger(at, "log_softmax", axis);
    return owner.one(320);
  }

  /**
   * `softmax(scale * query key^T + mask) value`, of `query [batch.., heads, tq, head_dim]`,
   * `key [batch.., kv_heads, tk, head_dim]` and `value [batch.., kv_heads, tk, value_dim]`, as
   * `torch.nn.functional.scaled_dot_product_attention`. Batch axes broadcast; `kv_heads` divides `heads`. `scale` is
   * `1 / sqrt(head_dim)` where absent. A query that sees no key gives 0. Half types compute in f32.
   *
   * - `is_causal`: query `i` sees keys `0..=i`, as in torch. With `past` (an integer of rank 0) query `i` stands at
   *   `past + i` and only the first `past + tq` keys count. (`attention` lets the last query stand at the last key.)
   * - `attn_mask`: `bool`, true where a query sees a key, or numbers that are added to the scores; broadcasts to
   *   `[batch.., heads, tq, tk]`. It has a gradient where it is numbers.
   * - `window_left`, `window_right`: a query at position `p` sees keys `p - left ..= p + right` (Child et al. 2019).
   * - `softcap`: scores `x` become `cap * tanh(x / cap)` before any mask.
   * - `alibi_slopes [heads]` or `[batch, heads]`: `-slope * |position - key|` is added (Press et al. 2022).
   * - `query_lengths`, `key_lengths [batch]`: what lies behind a length is not seen, and gives 0.
   * - `dropout_p`: probabilities are dropped, by `dropout_key` (`u64[2]`) and `stream`.
   */
  scaledDotProductAttention(key: Tensor<R>, value: Tensor<R>, isCausal?: boolean, scale?: number, past?: Tensor<R>, attnMask?: Tensor<R>, dropoutP?: number, dropoutKey?: Tensor<R>, windowLeft?: number, windowRight?: number, softcap?: number, alibiSlopes?: Tensor<R>, queryLengths?: Tensor<R>, keyLengths?: Tensor<R>, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("scaled_dot_product_attention", [this, key, value, past, attnMask, dropoutKey, alibiSlopes, queryLengths, keyLengths]);
    at = owner.putBool(at, "scaled_dot_product_attention", isCausal);
    at = owner.putFloat(at, "scaled_dot_product_attention", scale);
    at = owner.putFloat(at, "scaled_dot_product_attention", dropoutP);
    at = owner.putInteger(at, "scaled_dot_product_attention", windowLeft);
    at = owner.putInteger(at, "scaled_dot_product_attention", windowRight);
    at = owner.putFloat(at, "scaled_dot_product_attention", softcap);
    owner.putInteger(at, "scaled_dot_product_attention", stream);
    return owner.one(321);
  }

  /**
   * `softmax(scale * q k^T) v` in the layout `[batch, seq, heads, head_dim]`, which the kernels use; `k` and `v` may have
   * fewer heads, dividing those of `q`. `scale` is `1 / sqrt(head_dim)` where absent. With `causal`, a query sees
   * no key after its own position, the last query standing at the last key. With `past` (an integer of rank 0)
   * query `i` stands at position `past + i` and only the first `past + tq` keys count. See
   * `scaled_dot_product_attention` for masks and windows.
   */
  attention(k: Tensor<R>, v: Tensor<R>, causal?: boolean, scale?: number, past?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("attention", [this, k, v, past]);
    at = owner.putBool(at, "attention", causal);
    owner.putFloat(at, "attention", scale);
    return owner.one(322);
  }

  /**
   * The forward of a multi-head attention layer, as `torch.nn.MultiheadAttention` with `batch_first`:
   * `query [batch, tq, embed]`, `key [batch, tk, kdim]`, `value [batch, tk, vdim]` to `[output [batch, tq, embed]]`, and
   * with `need_weights` also the probabilities, `[batch, tq, tk]` averaged over heads or
   * `[batch, heads, tq, tk]`.
   *
   * - Projections are `in_proj_weight [3 embed, embed]`, the three packed, or, where key or value have other widths,
   *   `q_proj_weight [embed, embed]`, `k_proj_weight [embed, kdim]`, `v_proj_weight [embed, vdim]`.
   *   `in_proj_bias [3 embed]`; `out_proj_weight [embed, embed]`, `out_proj_bias [embed]`.
   * - `key_padding_mask [batch, tk]` and `attn_mask` (`[tq, tk]`, `[batch * heads, tq, tk]` or
   *   `[batch, heads, tq, tk]`): `bool`, **true where a key is hidden**, as in torch (the opposite of
   *   `scaled_dot_product_attention`), or numbers that are added to the scores.
   * - `is_causal`: query `i` sees keys `0..=i`.
   * - `bias_k`, `bias_v [1, 1, embed]` are one more key; `add_zero_attn` adds one of zeros. No mask hides these.
   * - `dropout_p`: probabilities are dropped, by `dropout_key` (`u64[2]`) and `stream`; the returned ones are too.
   */
  multiHeadAttention(key: Tensor<R>, value: Tensor<R>, numHeads: number, inProjWeight: Tensor<R> | undefined, inProjBias: Tensor<R> | undefined, outProjWeight: Tensor<R>, outProjBias?: Tensor<R>, qProjWeight?: Tensor<R>, kProjWeight?: Tensor<R>, vProjWeight?: Tensor<R>, biasK?: Tensor<R>, biasV?: Tensor<R>, keyPaddingMask?: Tensor<R>, attnMask?: Tensor<R>, addZeroAttn?: boolean, isCausal?: boolean, needWeights?: boolean, averageAttnWeights?: boolean, dropoutP?: number, dropoutKey?: Tensor<R>, stream?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("multi_head_attention", [this, key, value, inProjWeight, inProjBias, outProjWeight, outProjBias, qProjWeight, kProjWeight, vProjWeight, biasK, biasV, keyPaddingMask, attnMask, dropoutKey]);
    at = owner.putInteger(at, "multi_head_attention", numHeads);
    at = owner.putBool(at, "multi_head_attention", addZeroAttn);
    at = owner.putBool(at, "multi_head_attention", isCausal);
    at = owner.putBool(at, "multi_head_attention", needWeights);
    at = owner.putBool(at, "multi_head_attention", averageAttnWeights);
    at = owner.putFloat(at, "multi_head_attention", dropoutP);
    owner.putInteger(at, "multi_head_attention", stream);
    return owner.several(323);
  }

  /**
   * `h_t = a_t h_(t-1) + x_t` along an axis, for `a` and `x` that broadcast: the associative linear recurrence of state
   * space models (Martin and Cundy 2018). `initial` is what stands before the first step, of the result's shape
   * without the axis, or 0. With `reverse` the recurrence runs from the last step back. Half types carry the
   * state in f32.
   */
  linearScan(x: Tensor<R>, initial?: Tensor<R>, axis?: number, reverse?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("linear_scan", [this, x, initial]);
    at = owner.putInteger(at, "linear_scan", axis);
    owner.putBool(at, "linear_scan", reverse);
    return owner.one(324);
  }

  /**
   * The gated delta rule (Yang et al. 2024, "Gated Delta Networks"): `[output [batch, seq, value_heads, dv],
   * state [batch, value_heads, d, dv]]` of `q`, `k [batch, seq, heads, d]`, `v [batch, seq, value_heads, dv]`,
   * `log_decay` and `beta [batch, seq, value_heads]`. A `log_decay [batch, seq, value_heads, d]` decays each channel of
   * the keys by itself, as in Kimi Delta Attention (2025). `heads` divides `value_heads`. From `state` or 0, each step
   * does
   *
   * `S <- exp(log_decay) S`, `S <- S + beta k (v - S^T k)^T`, `output = scale S^T q`.
   *
   * `scale` is `1 / sqrt(d)` where absent. `log_decay` should be at most 0; -inf is a reset. All computing and the
   * state are in the wide type (f32 for half types), in which `log_decay` and `beta` may be given too. A `state` that
   * is handed on continues the sequence exactly; it is not written to. `chunk` is how many steps the
   * decomposition, and so the derivative, takes at once; the result does not depend on it but for rounding.
   */
  gatedDeltaRule(k: Tensor<R>, v: Tensor<R>, logDecay: Tensor<R>, beta: Tensor<R>, state?: Tensor<R>, scale?: number, chunk?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("gated_delta_rule", [this, k, v, logDecay, beta, state]);
    at = owner.putFloat(at, "gated_delta_rule", scale);
    owner.putInteger(at, "gated_delta_rule", chunk);
    return owner.several(325);
  }

  /**
   * Linear attention (Katharopoulos et al. 2020) of `query` and `key [batch.., tq or tk, d]`, to which the caller has
   * applied the feature map (`elu(x) + 1`, say), and `value [batch.., tk, dv]`: `q (k^T v)`, and with `normalize`
   * divided by `q (k^T 1)`, where a divisor of 0 gives 0. With `is_causal`, query `i` sees keys `0..=i` and there are as
   * many queries as keys. The cost is linear in the length. Half types compute in f32.
   */
  linearAttention(key: Tensor<R>, value: Tensor<R>, isCausal?: boolean, normalize?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("linear_attention", [this, key, value]);
    at = owner.putBool(at, "linear_attention", isCausal);
    owner.putBool(at, "linear_attention", normalize);
    return owner.one(326);
  }

  /**
   * One step of a long short-term memory (Hochreiter and Schmidhuber 1997), as `torch.lstm_cell`: `[h', c']` of
   * `x [.., input]`, `h` and `c [.., hidden]`. Gates in the weights' rows: input, forget, candidate, output.
   */
  lstmCell(h: Tensor<R>, c: Tensor<R>, weightIh: Tensor<R>, weightHh: Tensor<R>, biasIh?: Tensor<R>, biasHh?: Tensor<R>): Tensor<R>[] {
    const owner = this.session;
    owner.putTensors("lstm_cell", [this, h, c, weightIh, weightHh, biasIh, biasHh]);
    return owner.several(327);
  }

  /**
   * One step of a gated recurrent unit (Cho et al. 2014), as `torch.gru_cell`: `h'` of `x [.., input]` and
   * `h [.., hidden]`. Gates in the weights' rows: reset, update, candidate; the reset gate acts behind the
   * recurrent product.
   */
  gruCell(h: Tensor<R>, weightIh: Tensor<R>, weightHh: Tensor<R>, biasIh?: Tensor<R>, biasHh?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("gru_cell", [this, h, weightIh, weightHh, biasIh, biasHh]);
    return owner.one(328);
  }

  /**
   * `tanh(weight_ih x + bias_ih + weight_hh h + bias_hh)` of `x [.., input]` and `h [.., hidden]`, as
   * `torch.rnn_tanh_cell`.
   */
  rnnTanhCell(h: Tensor<R>, weightIh: Tensor<R>, weightHh: Tensor<R>, biasIh?: Tensor<R>, biasHh?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("rnn_tanh_cell", [this, h, weightIh, weightHh, biasIh, biasHh]);
    return owner.one(329);
  }

  /**
   * `max(0, weight_ih x + bias_ih + weight_hh h + bias_hh)` of `x [.., input]` and `h [.., hidden]`, as
   * `torch.rnn_relu_cell`.
   */
  rnnReluCell(h: Tensor<R>, weightIh: Tensor<R>, weightHh: Tensor<R>, biasIh?: Tensor<R>, biasHh?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("rnn_relu_cell", [this, h, weightIh, weightHh, biasIh, biasHh]);
    return owner.one(330);
  }

  /**
   * Layers of long short-term memory over a sequence, as `torch.lstm`: `[output [seq, batch, directions hidden],
   * h [layers directions, batch, hidden], c]` of `x [seq, batch, input]`. `h0` and `c0` are 0 where absent. `weights`
   * are, for each layer and in it each direction, `weight_ih`, `weight_hh` and with `has_biases` `bias_ih`, `bias_hh`.
   * `batch_first` puts the batch first in `x` and the output. `dropout` acts between layers, by `dropout_key`
   * (`u64[2]`) and the streams from `stream` on.
   */
  lstm(h0: Tensor<R> | undefined, c0: Tensor<R> | undefined, dropoutKey: Tensor<R> | undefined, weights: readonly Tensor<R>[], hasBiases?: boolean, numLayers?: number, bidirectional?: boolean, batchFirst?: boolean, dropout?: number, stream?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("lstm", [this, h0, c0, dropoutKey, ...tensorsOf("lstm", "weights", weights)]);
    at = owner.putBool(at, "lstm", hasBiases);
    at = owner.putInteger(at, "lstm", numLayers);
    at = owner.putBool(at, "lstm", bidirectional);
    at = owner.putBool(at, "lstm", batchFirst);
    at = owner.putFloat(at, "lstm", dropout);
    owner.putInteger(at, "lstm", stream);
    return owner.several(331);
  }

  /** Layers of gated recurrent units over a sequence, as `torch.gru`: `[output, h]`. Operands as for `lstm`. */
  gru(h0: Tensor<R> | undefined, dropoutKey: Tensor<R> | undefined, weights: readonly Tensor<R>[], hasBiases?: boolean, numLayers?: number, bidirectional?: boolean, batchFirst?: boolean, dropout?: number, stream?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("gru", [this, h0, dropoutKey, ...tensorsOf("gru", "weights", weights)]);
    at = owner.putBool(at, "gru", hasBiases);
    at = owner.putInteger(at, "gru", numLayers);
    at = owner.putBool(at, "gru", bidirectional);
    at = owner.putBool(at, "gru", batchFirst);
    at = owner.putFloat(at, "gru", dropout);
    owner.putInteger(at, "gru", stream);
    return owner.several(332);
  }

  /** Layers of tanh cells over a sequence, as `torch.rnn_tanh`: `[output, h]`. Operands as for `lstm`. */
  rnnTanh(h0: Tensor<R> | undefined, dropoutKey: Tensor<R> | undefined, weights: readonly Tensor<R>[], hasBiases?: boolean, numLayers?: number, bidirectional?: boolean, batchFirst?: boolean, dropout?: number, stream?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("rnn_tanh", [this, h0, dropoutKey, ...tensorsOf("rnn_tanh", "weights", weights)]);
    at = owner.putBool(at, "rnn_tanh", hasBiases);
    at = owner.putInteger(at, "rnn_tanh", numLayers);
    at = owner.putBool(at, "rnn_tanh", bidirectional);
    at = owner.putBool(at, "rnn_tanh", batchFirst);
    at = owner.putFloat(at, "rnn_tanh", dropout);
    owner.putInteger(at, "rnn_tanh", stream);
    return owner.several(333);
  }

  /** Layers of relu cells over a sequence, as `torch.rnn_relu`: `[output, h]`. Operands as for `lstm`. */
  rnnRelu(h0: Tensor<R> | undefined, dropoutKey: Tensor<R> | undefined, weights: readonly Tensor<R>[], hasBiases?: boolean, numLayers?: number, bidirectional?: boolean, batchFirst?: boolean, dropout?: number, stream?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("rnn_relu", [this, h0, dropoutKey, ...tensorsOf("rnn_relu", "weights", weights)]);
    at = owner.putBool(at, "rnn_relu", hasBiases);
    at = owner.putInteger(at, "rnn_relu", numLayers);
    at = owner.putBool(at, "rnn_relu", bidirectional);
    at = owner.putBool(at, "rnn_relu", batchFirst);
    at = owner.putFloat(at, "rnn_relu", dropout);
    owner.putInteger(at, "rnn_relu", stream);
    return owner.several(334);
  }

  /** `(x - y)^2`. */
  mseLoss(y: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("mse_loss", [this, y]);
    owner.putWord(at, "mse_loss", ["mean","sum","none"], reduction);
    return owner.one(335);
  }

  /** `|x - y|`; the derivative at 0 is 0. */
  l1Loss(y: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("l1_loss", [this, y]);
    owner.putWord(at, "l1_loss", ["mean","sum","none"], reduction);
    return owner.one(336);
  }

  /** `d^2 / 2` for `d = |x - y| <= delta`, else `delta * (d - delta / 2)` (Huber 1964). */
  huberLoss(y: Tensor<R>, delta?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("huber_loss", [this, y]);
    at = owner.putFloat(at, "huber_loss", delta);
    owner.putWord(at, "huber_loss", ["mean","sum","none"], reduction);
    return owner.one(337);
  }

  /**
   * `d^2 / (2 beta)` for `d = |x - y| < beta`, else `d - beta / 2` (Girshick 2015): the Huber loss over its `delta`.
   * With `beta` of 0 the loss `l1_loss`.
   */
  smoothL1Loss(y: Tensor<R>, beta?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("smooth_l1_loss", [this, y]);
    at = owner.putFloat(at, "smooth_l1_loss", beta);
    owner.putWord(at, "smooth_l1_loss", ["mean","sum","none"], reduction);
    return owner.one(338);
  }

  /**
   * Binary cross-entropy `-(y log(x) + (1 - y) log(1 - x))` of probabilities `x` against `targets` in `[0, 1]`, times
   * `weight`, which broadcasts. The logarithms are held above -100, as in torch, so that a certain and wrong prediction
   * costs 100; the slope there is 1e12. NaN for an `x` outside of `[0, 1]`.
   */
  binaryCrossEntropy(targets: Tensor<R>, weight?: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("binary_cross_entropy", [this, targets, weight]);
    owner.putWord(at, "binary_cross_entropy", ["mean","sum","none"], reduction);
    return owner.one(339);
  }

  /**
   * Binary cross-entropy of `logits` against `targets` in `[0, 1]`, `log(1 + e^x) - x y`, exact for large logits and
   * smooth at 0. `weight` multiplies the losses, `pos_weight` the term of the positive class; both broadcast.
   */
  binaryCrossEntropyWithLogits(targets: Tensor<R>, reduction?: "mean" | "sum" | "none", weight?: Tensor<R>, posWeight?: Tensor<R>): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("binary_cross_entropy_with_logits", [this, targets, weight, posWeight]);
    owner.putWord(at, "binary_cross_entropy_with_logits", ["mean","sum","none"], reduction);
    return owner.one(340);
  }

  /** `max(0, 1 - x y)` for `targets` of -1 and 1; the derivative at the kink is 0. */
  hingeLoss(targets: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("hinge_loss", [this, targets]);
    owner.putWord(at, "hinge_loss", ["mean","sum","none"], reduction);
    return owner.one(341);
  }

  /** `log(1 + e^(-x y))` for `targets` of -1 and 1. */
  softMarginLoss(targets: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("soft_margin_loss", [this, targets]);
    owner.putWord(at, "soft_margin_loss", ["mean","sum","none"], reduction);
    return owner.one(342);
  }

  /** For `targets` of 1 the input (a distance), for -1 `max(0, margin - x)`. */
  hingeEmbeddingLoss(targets: Tensor<R>, margin?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("hinge_embedding_loss", [this, targets]);
    at = owner.putFloat(at, "hinge_embedding_loss", margin);
    owner.putWord(at, "hinge_embedding_loss", ["mean","sum","none"], reduction);
    return owner.one(343);
  }

  /**
   * The Poisson likelihood's `e^x - x y`, or `x - y log(x + eps)` unless `log_input`. With `full`, Stirling's
   * `y log(y) - y + log(2 pi y) / 2` is added where `y` is above 1.
   */
  poissonNllLoss(targets: Tensor<R>, logInput?: boolean, full?: boolean, eps?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("poisson_nll_loss", [this, targets]);
    at = owner.putBool(at, "poisson_nll_loss", logInput);
    at = owner.putBool(at, "poisson_nll_loss", full);
    at = owner.putFloat(at, "poisson_nll_loss", eps);
    owner.putWord(at, "poisson_nll_loss", ["mean","sum","none"], reduction);
    return owner.one(344);
  }

  /**
   * The normal likelihood's `(log(v) + (x - y)^2 / v) / 2` for the variance `v = max(variance, eps)`, which broadcasts.
   * With `full`, `log(2 pi) / 2` is added.
   */
  gaussianNllLoss(targets: Tensor<R>, variance: Tensor<R>, full?: boolean, eps?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("gaussian_nll_loss", [this, targets, variance]);
    at = owner.putBool(at, "gaussian_nll_loss", full);
    at = owner.putFloat(at, "gaussian_nll_loss", eps);
    owner.putWord(at, "gaussian_nll_loss", ["mean","sum","none"], reduction);
    return owner.one(345);
  }

  /**
   * The pinball loss `max(q (y - x), (q - 1) (y - x))` (Koenker and Bassett 1978): its minimum over `x` is the
   * `q`-quantile of `y`. `x` is `[.., levels]`, `quantiles [levels]`, and `targets` broadcast to `x`.
   */
  quantileLoss(targets: Tensor<R>, quantiles: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("quantile_loss", [this, targets, quantiles]);
    owner.putWord(at, "quantile_loss", ["mean","sum","none"], reduction);
    return owner.one(346);
  }

  /**
   * Cross-entropy of class `logits` against `targets`, in the wide dtype. The classes lie along `axis`: the last by
   * default, 1 for torch's `[batch, classes, ..]`.
   *
   * Integer targets have the shape of the logits without that axis. Targets equal to `ignore` give loss 0 and do not
   * count in the mean; a target out of range is an error when the op runs. Float targets are probabilities of the
   * shape and dtype of the logits. `weight [classes]` multiplies the terms of each class; the mean of integer targets
   * divides by the weights of the targets. `label_smoothing` mixes the targets with the uniform distribution (Szegedy
   * et al. 2016).
   */
  crossEntropy(targets: Tensor<R> | Ids, reduction?: "mean" | "sum" | "none", ignore?: number, weight?: Tensor<R>, labelSmoothing?: number, axis?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("cross_entropy", [this, idsOf(owner, "cross_entropy", targets), weight]);
    at = owner.putWord(at, "cross_entropy", ["mean","sum","none"], reduction);
    at = owner.putInteger(at, "cross_entropy", ignore);
    at = owner.putFloat(at, "cross_entropy", labelSmoothing);
    owner.putInteger(at, "cross_entropy", axis);
    return owner.one(347);
  }

  /**
   * The negative log-likelihood `-weight[target] * x[target]` of log-probabilities `x` with their classes along `axis`:
   * the last by default, 1 for torch's `[batch, classes, ..]`. Targets, `ignore`, `weight` and the mean are those of
   * `cross_entropy`.
   */
  nllLoss(targets: Tensor<R> | Ids, reduction?: "mean" | "sum" | "none", ignore?: number, weight?: Tensor<R>, axis?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("nll_loss", [this, idsOf(owner, "nll_loss", targets), weight]);
    at = owner.putWord(at, "nll_loss", ["mean","sum","none"], reduction);
    at = owner.putInteger(at, "nll_loss", ignore);
    owner.putInteger(at, "nll_loss", axis);
    return owner.one(348);
  }

  /**
   * The Kullback-Leibler divergence's terms `y (log(y) - x)` of log-probabilities `x` against probabilities
   * `targets`, or against log-probabilities with `log_target`. The mean is over elements; torch's `batchmean` is the
   * sum over the batch size.
   */
  klDiv(targets: Tensor<R>, reduction?: "mean" | "sum" | "none", logTarget?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("kl_div", [this, targets]);
    at = owner.putWord(at, "kl_div", ["mean","sum","none"], reduction);
    owner.putBool(at, "kl_div", logTarget);
    return owner.one(349);
  }

  /**
   * The binary cross-entropy of `logits [.., classes]` against `targets` of 0 and 1, in the mean over the classes and
   * times `weight [classes]`: losses `[..]`.
   */
  multilabelSoftMarginLoss(targets: Tensor<R>, weight?: Tensor<R>, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("multilabel_soft_margin_loss", [this, targets, weight]);
    owner.putWord(at, "multilabel_soft_margin_loss", ["mean","sum","none"], reduction);
    return owner.one(350);
  }

  /**
   * `x y / (max(|x|, eps) max(|y|, eps))` of vectors along `axis`; `x` and `y` broadcast. The derivative of the size
   * of a vector shorter than `eps` is 0.
   */
  cosineSimilarity(y: Tensor<R>, axis?: number, eps?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("cosine_similarity", [this, y]);
    at = owner.putInteger(at, "cosine_similarity", axis);
    owner.putFloat(at, "cosine_similarity", eps);
    return owner.one(351);
  }

  /**
   * The `p`-norm of `x - y + eps` along the last axis; `x` and `y` broadcast. The derivative at distance 0 is 0.
   *
   * Errors: a `p` below 0.
   */
  pairwiseDistance(y: Tensor<R>, p?: number, eps?: number, keepdim?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("pairwise_distance", [this, y]);
    at = owner.putFloat(at, "pairwise_distance", p);
    at = owner.putFloat(at, "pairwise_distance", eps);
    owner.putBool(at, "pairwise_distance", keepdim);
    return owner.one(352);
  }

  /**
   * `1 - cos(x, y)` where the target is 1, `max(0, cos(x, y) - margin)` where it is -1, for vectors along the last axis:
   * `x`, `y` `[.., n]`, targets `[..]`. As in torch, 1e-12 is added to the square of each size.
   */
  cosineEmbeddingLoss(y: Tensor<R>, targets: Tensor<R>, margin?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("cosine_embedding_loss", [this, y, targets]);
    at = owner.putFloat(at, "cosine_embedding_loss", margin);
    owner.putWord(at, "cosine_embedding_loss", ["mean","sum","none"], reduction);
    return owner.one(353);
  }

  /** `max(0, -target (x - y) + margin)` for targets of -1 and 1: 1 asks that `x` ranks above `y`. */
  marginRankingLoss(y: Tensor<R>, targets: Tensor<R>, margin?: number, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("margin_ranking_loss", [this, y, targets]);
    at = owner.putFloat(at, "margin_ranking_loss", margin);
    owner.putWord(at, "margin_ranking_loss", ["mean","sum","none"], reduction);
    return owner.one(354);
  }

  /**
   * `max(0, d(anchor, positive) - d(anchor, negative) + margin)` for the `pairwise_distance` `d` along the last axis
   * (Schroff et al. 2015). With `swap` the negative's distance is the smaller one of those to the anchor and the
   * positive.
   */
  tripletMarginLoss(positive: Tensor<R>, negative: Tensor<R>, margin?: number, p?: number, eps?: number, swap?: boolean, reduction?: "mean" | "sum" | "none"): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("triplet_margin_loss", [this, positive, negative]);
    at = owner.putFloat(at, "triplet_margin_loss", margin);
    at = owner.putFloat(at, "triplet_margin_loss", p);
    at = owner.putFloat(at, "triplet_margin_loss", eps);
    at = owner.putBool(at, "triplet_margin_loss", swap);
    owner.putWord(at, "triplet_margin_loss", ["mean","sum","none"], reduction);
    return owner.one(355);
  }

  /**
   * Uniform values in `[low, high)`, of a float dtype; `low` itself where both are equal.
   *
   * Errors: a range that is empty or not finite.
   */
  uniform(shape: Integers, low?: number, high?: number, dtype?: DTypeName, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "uniform", shape);
    let at = owner.putTensors("uniform", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "uniform", low);
    at = owner.putFloat(at, "uniform", high);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "uniform", stream);
    return owner.one(356);
  }

  /**
   * Normal values of that mean and standard deviation, of a float dtype.
   *
   * Errors: a deviation that is negative or not finite, a mean that is not finite.
   */
  normal(shape: Integers, mean?: number, std?: number, dtype?: DTypeName, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "normal", shape);
    let at = owner.putTensors("normal", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "normal", mean);
    at = owner.putFloat(at, "normal", std);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "normal", stream);
    return owner.one(357);
  }

  /** `bool` values, true with probability `p`. */
  bernoulli(shape: Integers, p: number, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "bernoulli", shape);
    let at = owner.putTensors("bernoulli", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "bernoulli", p);
    owner.putInteger(at, "bernoulli", stream);
    return owner.one(358);
  }

  /** Each element 0 with probability `p`, else divided by `1 - p` (Srivastava et al. 2014). */
  dropout(p: number, key: Tensor<R>, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("dropout", [this, key]);
    at = owner.putFloat(at, "dropout", p);
    owner.putInteger(at, "dropout", stream);
    return owner.one(359);
  }

  /**
   * `bool` values, each true with the probability that `p` holds at its place: never for one of 0 or below or NaN, always
   * from 1 on.
   */
  bernoulliLike(p: Tensor<R>, stream?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("bernoulli_like", [this, p]);
    owner.putInteger(at, "bernoulli_like", stream);
    return owner.one(360);
  }

  /** Uniform values in `[low, high)`, of the shape and dtype of `x`. */
  uniformLike(x: Tensor<R>, low?: number, high?: number, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("uniform_like", [this, x]);
    at = owner.putFloat(at, "uniform_like", low);
    at = owner.putFloat(at, "uniform_like", high);
    owner.putInteger(at, "uniform_like", stream);
    return owner.one(361);
  }

  /** Normal values of that mean and standard deviation, of the shape and dtype of `x`. */
  normalLike(x: Tensor<R>, mean?: number, std?: number, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("normal_like", [this, x]);
    at = owner.putFloat(at, "normal_like", mean);
    at = owner.putFloat(at, "normal_like", std);
    owner.putInteger(at, "normal_like", stream);
    return owner.one(362);
  }

  /** Random words, `u32` or `u64`: those of Philox 4x32-10 (Salmon et al. 2011), the same on every device. */
  randomBits(shape: Integers, dtype?: DTypeName, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "random_bits", shape);
    let at = owner.putTensors("random_bits", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "random_bits", stream);
    return owner.one(363);
  }

  /**
   * Whole numbers in `low..high`, of an integer dtype. A number's probability is off by less than 2^-64 for ranges up to
   * 2^31, else by less than 2^-90 (a product in place of a rejection: Lemire 2019, "Fast random integer generation in an
   * interval"), and the numbers are the same on every device.
   */
  randint(shape: Integers, low: Scalar, high: Scalar, dtype?: DTypeName, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "randint", shape);
    let at = owner.putTensors("randint", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putScalar(at, "randint", low);
    at = owner.putScalar(at, "randint", high);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "randint", stream);
    return owner.one(364);
  }

  /** Exponential values of that rate, of a floating-point dtype; none is 0. */
  exponential(shape: Integers, rate?: number, dtype?: DTypeName, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "exponential", shape);
    let at = owner.putTensors("exponential", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "exponential", rate);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "exponential", stream);
    return owner.one(365);
  }

  /** Values of the standard Gumbel distribution, `-log(-log(u))`, of a floating-point dtype. */
  gumbel(shape: Integers, dtype?: DTypeName, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "gumbel", shape);
    let at = owner.putTensors("gumbel", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "gumbel", stream);
    return owner.one(366);
  }

  /**
   * Normal values of that mean and standard deviation, given that they lie in `low..=high`, of a floating-point dtype: the
   * quantile of a uniform probability between those of the bounds (torch `nn.init.trunc_normal_`). Bounds may be infinite.
   * Where both lie on one side, the tail of the other side is drawn and turned over, and probabilities are logarithms, which
   * keeps the digits of a far tail.
   */
  truncatedNormal(shape: Integers, mean?: number, std?: number, low?: number, high?: number, dtype?: DTypeName, stream?: number): Tensor<R> {
    const owner = this.session;
    shape = integersOf(owner, "truncated_normal", shape);
    let at = owner.putTensors("truncated_normal", [this]);
    at = owner.putIntegers(at, shape);
    at = owner.putFloat(at, "truncated_normal", mean);
    at = owner.putFloat(at, "truncated_normal", std);
    at = owner.putFloat(at, "truncated_normal", low);
    at = owner.putFloat(at, "truncated_normal", high);
    at = owner.putDType(at, dtype);
    owner.putInteger(at, "truncated_normal", stream);
    return owner.one(367);
  }

  /**
   * Classes drawn with probabilities `softmax(logits)`, of `logits [.., n]`: i64 `[..]`, or `[.., samples]` (the Gumbel-max
   * trick; Maddison, Tarlow and Minka 2014, "A* sampling"). Devices may differ where two classes are within rounding.
   */
  categorical(logits: Tensor<R>, samples?: number, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("categorical", [this, logits]);
    at = owner.putInteger(at, "categorical", samples);
    owner.putInteger(at, "categorical", stream);
    return owner.one(368);
  }

  /**
   * Classes drawn with probabilities in proportion to `weights [.., n]`, which are not negative: i64 `[.., samples]`. Without
   * `replacement` they are different, in the order of being drawn (Gumbel top-k; Kool, van Hoof and Welling 2019), and at
   * least `samples` weights must not be 0 (torch `multinomial`). Values are not checked: a class of weight 0 is drawn only
   * where no other is left, and the first class where all weights are 0; a negative weight or NaN wins over every other.
   *
   * Errors: no classes; without `replacement`, more samples than classes.
   */
  multinomial(weights: Tensor<R>, samples: number, replacement?: boolean, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("multinomial", [this, weights]);
    at = owner.putInteger(at, "multinomial", samples);
    at = owner.putBool(at, "multinomial", replacement);
    owner.putInteger(at, "multinomial", stream);
    return owner.one(369);
  }

  /** The numbers `0..n` in random order, i64; the same on every device. They are sorted by 64 random bits each. */
  randperm(n: number, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("randperm", [this]);
    at = owner.putInteger(at, "randperm", n);
    owner.putInteger(at, "randperm", stream);
    return owner.one(370);
  }

  /** The slices of `x` along an axis in random order; see `randperm`. */
  permutation(x: Tensor<R>, axis?: number, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("permutation", [this, x]);
    at = owner.putInteger(at, "permutation", axis);
    owner.putInteger(at, "permutation", stream);
    return owner.one(371);
  }

  /**
   * A class for each row of `logits [.., classes]`, drawn with the probabilities `softmax(logits / temperature)`: i32 `[..]`, or
   * `[.., 1]` with `keepdim`. With a `top_k` above 0 only the `top_k` largest logits take part, and all that equal the last of
   * them. A temperature of 0 takes the first largest. Logits that are not finite draw no more than `categorical` does.
   *
   * Errors: no classes; a temperature below 0 or not finite.
   */
  sampleLogits(key: Tensor<R>, temperature?: number, topK?: number, keepdim?: boolean, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("sample_logits", [this, key]);
    at = owner.putFloat(at, "sample_logits", temperature);
    at = owner.putInteger(at, "sample_logits", topK);
    at = owner.putBool(at, "sample_logits", keepdim);
    owner.putInteger(at, "sample_logits", stream);
    return owner.one(372);
  }

  /**
   * 64 bits for each counter of `x` under a `key`, both u64, by Threefry-2x32 of 20 rounds (Salmon et al. 2011). The lower half
   * of a word is the first of its two; the shapes broadcast.
   */
  threefry(key: Tensor<R>): Tensor<R> {
    return this.session.binary("threefry", 373, this, key);
  }

  /** `x`, through which no derivative flows: to every transform it is a constant, as behind torch's `detach`. */
  stopGradient(): Tensor<R> {
    return this.session.unary("stop_gradient", 374, this);
  }

  /**
   * `pool [blocks, size, ..]` with the first `counts[s]` of `rows [batch, seq, ..]` written for each sequence `s`, at
   * positions `starts[s] ..`. Position `p` lies in row `p % size` of block `tables[s, p / size % slots]` (Kwon et al. 2023,
   * "PagedAttention"). `tables [batch, slots]`, `starts [batch]` and `counts [batch]` are i32.
   *
   * Errors: shapes that do not fit; when it runs, a block that the pool does not have, a start below 0.
   */
  pagedUpdate(rows: Tensor<R>, tables: Tensor<R>, starts: Tensor<R>, counts: Tensor<R>): Tensor<R> {
    const owner = this.session;
    owner.putTensors("paged_update", [this, rows, tables, starts, counts]);
    return owner.one(375);
  }

  /**
   * Causal attention of `q [batch, seq, heads, head_dim]` to the `keys` and `values [blocks, size, kv_heads, head_dim]` of
   * their sequences, those at the queries' own positions included: `o` of the shape and dtype of `q`. See `paged_update`
   * for `tables`, `starts` and `counts`; what is beyond a count gives 0. `kv_heads` divides `heads`, `scale` is `1 /
   * sqrt(head_dim)` where absent, and under a `window` a query sees the last so many keys, its own included.
   *
   * Keys and values may be narrower than `q`: floats, or i8 with `key_scales` and `value_scales [blocks, size, kv_heads]`,
   * which multiply them. It computes in f32, or f64 of f64.
   *
   * Errors: shapes or dtypes that do not fit; when it runs, a block that the pool does not have, a start below 0.
   */
  pagedAttention(keys: Tensor<R>, values: Tensor<R>, tables: Tensor<R>, starts: Tensor<R>, counts: Tensor<R>, keyScales?: Tensor<R>, valueScales?: Tensor<R>, scale?: number, window?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("paged_attention", [this, keys, values, tables, starts, counts, keyScales, valueScales]);
    at = owner.putFloat(at, "paged_attention", scale);
    owner.putInteger(at, "paged_attention", window);
    return owner.one(376);
  }

  /** `base` with `source` written over `start..` along an axis; `start` is an integer of rank 0. */
  updateSlice(source: Tensor<R>, start: Tensor<R>, axis: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("update_slice", [this, source, start]);
    owner.putInteger(at, "update_slice", axis);
    return owner.one(377);
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
    return owner.several(378);
  }

  /**
   * One step of gradient descent, `parameter - lr grad`: `[parameter']`. With a `velocity` (Sutskever et al. 2013, as in
   * torch) `velocity' = momentum velocity + gain grad` and `parameter - lr velocity'`, or with `nesterov`
   * `parameter - lr (grad + momentum velocity')`: `[parameter', velocity']`. `gain` is 1 less the dampening, or 1 where
   * absent. `weight_decay parameter` is added to the gradient first. `lr` and `gain` are of rank 0.
   */
  sgd(grad: Tensor<R>, lr: Tensor<R>, velocity?: Tensor<R>, gain?: Tensor<R>, momentum?: number, nesterov?: boolean, weightDecay?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("sgd", [this, grad, lr, velocity, gain]);
    at = owner.putFloat(at, "sgd", momentum);
    at = owner.putBool(at, "sgd", nesterov);
    owner.putFloat(at, "sgd", weightDecay);
    return owner.several(379);
  }

  /**
   * One Adam step (Kingma and Ba 2015, as in torch): `[parameter', m', v']`. As `adamw`, but `weight_decay parameter` is
   * part of the gradient.
   */
  adam(grad: Tensor<R>, m: Tensor<R>, v: Tensor<R>, lr: Tensor<R>, bias1: Tensor<R>, bias2: Tensor<R>, beta1?: number, beta2?: number, eps?: number, weightDecay?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("adam", [this, grad, m, v, lr, bias1, bias2]);
    at = owner.putFloat(at, "adam", beta1);
    at = owner.putFloat(at, "adam", beta2);
    at = owner.putFloat(at, "adam", eps);
    owner.putFloat(at, "adam", weightDecay);
    return owner.several(380);
  }

  /**
   * One Lion step (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2): `[parameter', m']`, where
   * `parameter' = parameter - lr (sign(beta1 m + (1 - beta1) grad) + weight_decay parameter)` and
   * `m' = beta2 m + (1 - beta2) grad`. `lr` is of rank 0.
   */
  lion(grad: Tensor<R>, m: Tensor<R>, lr: Tensor<R>, beta1?: number, beta2?: number, weightDecay?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("lion", [this, grad, m, lr]);
    at = owner.putFloat(at, "lion", beta1);
    at = owner.putFloat(at, "lion", beta2);
    owner.putFloat(at, "lion", weightDecay);
    return owner.several(381);
  }

  /**
   * The Euclidean norm of all tensors laid end to end, of rank 0, in the wide dtype (f32 for half types).
   *
   * Errors: there are no tensors, or one that is not of a floating-point dtype.
   */
  static globalNorm<R extends Reading = "sync">(tensors: readonly Tensor<R>[]): Tensor<R> {
    const owner = session();
    owner.putTensors("global_norm", tensors);
    return owner.one(382);
  }

  /**
   * The tensors scaled so that their joint norm, which is given, becomes at most `limit` (Pascanu, Mikolov and Bengio
   * 2013). Where it is so already, they stay exactly as they are.
   */
  clipByNorm(tensors: readonly Tensor<R>[], limit: number): Tensor<R>[] {
    const owner = this.session;
    const at = owner.putTensors("clip_by_norm", [this, ...tensorsOf("clip_by_norm", "tensors", tensors)]);
    owner.putFloat(at, "clip_by_norm", limit);
    return owner.several(383);
  }

  /**
   * One LARS step (You, Gitman and Ginsburg 2017, "Large Batch Training of Convolutional Networks"): `[parameter']`, or with
   * a `velocity` `[parameter', velocity']`. The layer's own rate `r` is `trust |parameter| / (|grad| + weight_decay
   * |parameter|)`, or 1 where either norm or `trust` is 0. Then `step = lr r (grad + weight_decay parameter)`,
   * `velocity' = momentum velocity + step`, and `parameter' = parameter - velocity'`, with `nesterov`
   * `parameter - (step + momentum velocity')`. `lr` is of rank 0.
   */
  lars(grad: Tensor<R>, lr: Tensor<R>, velocity?: Tensor<R>, momentum?: number, nesterov?: boolean, weightDecay?: number, trust?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("lars", [this, grad, lr, velocity]);
    at = owner.putFloat(at, "lars", momentum);
    at = owner.putBool(at, "lars", nesterov);
    at = owner.putFloat(at, "lars", weightDecay);
    owner.putFloat(at, "lars", trust);
    return owner.several(384);
  }

  /**
   * One LAMB step (You et al. 2020, "Large Batch Optimization for Deep Learning", algorithm 2): `[parameter', m', v']`. With
   * `m' = beta1 m + (1 - beta1) grad` and `v' = beta2 v + (1 - beta2) grad^2`, `u = (m' / bias1) / (sqrt(v' / bias2) + eps)
   * + weight_decay parameter` and `parameter' = parameter - lr r u`, where `r` is `|parameter| / |u|`, or 1 where either norm
   * is 0. `lr`, `bias1 = 1 - beta1^t` and `bias2 = 1 - beta2^t` are of rank 0.
   */
  lamb(grad: Tensor<R>, m: Tensor<R>, v: Tensor<R>, lr: Tensor<R>, bias1: Tensor<R>, bias2: Tensor<R>, beta1?: number, beta2?: number, eps?: number, weightDecay?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("lamb", [this, grad, m, v, lr, bias1, bias2]);
    at = owner.putFloat(at, "lamb", beta1);
    at = owner.putFloat(at, "lamb", beta2);
    at = owner.putFloat(at, "lamb", eps);
    owner.putFloat(at, "lamb", weightDecay);
    return owner.several(385);
  }

  /**
   * One Muon step (Jordan et al. 2024, "Muon: an optimizer for hidden layers", as in torch): `[parameter', velocity']`.
   * `velocity' = momentum velocity + (1 - momentum) grad`, and the update is the matrix of the same directions with singular
   * values of about 1, by `steps` Newton-Schulz iterations, of `velocity'`, or with `nesterov` of `(1 - momentum) grad +
   * momentum velocity'`. Then `parameter' = (1 - lr weight_decay) parameter - lr s update`, where `s` is
   * `sqrt(max(1, rows / columns))`. A parameter of more than two axes is the matrix of its first and all others. `lr` is of
   * rank 0.
   *
   * Errors: a parameter of fewer than two axes, which is no matrix; more than 99 steps.
   */
  muon(grad: Tensor<R>, velocity: Tensor<R>, lr: Tensor<R>, momentum?: number, nesterov?: boolean, weightDecay?: number, steps?: number, eps?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("muon", [this, grad, velocity, lr]);
    at = owner.putFloat(at, "muon", momentum);
    at = owner.putBool(at, "muon", nesterov);
    at = owner.putFloat(at, "muon", weightDecay);
    at = owner.putInteger(at, "muon", steps);
    owner.putFloat(at, "muon", eps);
    return owner.several(386);
  }

  /**
   * `low[i]` elements of `value` before and `high[i]` after axis `i`; a negative number cuts that many elements (torch
   * `pad`).
   *
   * Errors: more cut than there is, or other numbers of sizes than axes.
   */
  pad(low: Integers, high: Integers, value?: Scalar): Tensor<R> {
    const owner = this.session;
    low = integersOf(owner, "pad", low);
    high = integersOf(owner, "pad", high);
    let at = owner.putTensors("pad", [this]);
    at = owner.putIntegers(at, low);
    at = owner.putIntegers(at, high);
    owner.putScalar(at, "pad", value);
    return owner.one(387);
  }

  /**
   * `low[i]` elements before and `high[i]` after axis `i`, mirrored at the edge, which is not repeated; a negative
   * number cuts (torch `pad` with `reflect`, of any axes).
   *
   * Errors: more elements than the axis has besides its edge.
   */
  reflectionPad(low: Integers, high: Integers): Tensor<R> {
    const owner = this.session;
    low = integersOf(owner, "reflection_pad", low);
    high = integersOf(owner, "reflection_pad", high);
    let at = owner.putTensors("reflection_pad", [this]);
    at = owner.putIntegers(at, low);
    owner.putIntegers(at, high);
    return owner.one(388);
  }

  /**
   * The edge `low[i]` times before and `high[i]` times after axis `i`; a negative number cuts (torch `pad` with
   * `replicate`, of any axes).
   *
   * Errors: padding of an empty axis.
   */
  replicationPad(low: Integers, high: Integers): Tensor<R> {
    const owner = this.session;
    low = integersOf(owner, "replication_pad", low);
    high = integersOf(owner, "replication_pad", high);
    let at = owner.putTensors("replication_pad", [this]);
    at = owner.putIntegers(at, low);
    owner.putIntegers(at, high);
    return owner.one(389);
  }

  /**
   * `low[i]` elements of the end before and `high[i]` of the beginning after axis `i`; a negative number cuts (torch
   * `pad` with `circular`, of any axes).
   *
   * Errors: more elements than the axis has.
   */
  circularPad(low: Integers, high: Integers): Tensor<R> {
    const owner = this.session;
    low = integersOf(owner, "circular_pad", low);
    high = integersOf(owner, "circular_pad", high);
    let at = owner.putTensors("circular_pad", [this]);
    at = owner.putIntegers(at, low);
    owner.putIntegers(at, high);
    return owner.one(390);
  }

  /**
   * All windows of `size` places, `dilation` apart, along one axis, each beginning `step` after the one before, as a
   * view: the axis becomes the number of windows, the places within them are a new last axis, `[.., n, .., size]`
   * (torch `Tensor.unfold`, NumPy `sliding_window_view`).
   *
   * Errors: a window that spans more than the axis, or numbers of 0.
   */
  slidingWindow(axis: number, size: number, step?: number, dilation?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("sliding_window", [this]);
    at = owner.putInteger(at, "sliding_window", axis);
    at = owner.putInteger(at, "sliding_window", size);
    at = owner.putInteger(at, "sliding_window", step);
    owner.putInteger(at, "sliding_window", dilation);
    return owner.one(391);
  }

  /**
   * Windows of an image as columns (im2col): `x [n, c, h, w]` to `[n, c kh kw, windows]`, windows in row-major order;
   * `x [c, h, w]` is one image (torch `unfold`).
   *
   * Errors: a kernel that spans more than the padded image.
   */
  unfold(kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "unfold", kernel);
    stride = integersOf(owner, "unfold", stride);
    padding = integersOf(owner, "unfold", padding);
    dilation = integersOf(owner, "unfold", dilation);
    let at = owner.putTensors("unfold", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    owner.putIntegers(at, dilation);
    return owner.one(392);
  }

  /**
   * Columns added up to an image of `size [h, w]` (col2im): `[n, c kh kw, windows]` to `[n, c, h, w]`, the transpose
   * of `unfold`; `[c kh kw, windows]` is one image. Half types accumulate in f32 (torch `fold`).
   *
   * Errors: columns whose sizes are not those that `unfold` gives.
   */
  fold(size: Integers, kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "fold", size);
    kernel = integersOf(owner, "fold", kernel);
    stride = integersOf(owner, "fold", stride);
    padding = integersOf(owner, "fold", padding);
    dilation = integersOf(owner, "fold", dilation);
    let at = owner.putTensors("fold", [this]);
    at = owner.putIntegers(at, size);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    owner.putIntegers(at, dilation);
    return owner.one(393);
  }

  /**
   * The correlation of `x [n, c, l]` with `weight [o, c / groups, k]`, plus `bias [o]`: `[n, o, out]`, where
   * `out = (l + padding before and after - dilation (k - 1) - 1) / stride + 1`; `x [c, l]` is one image. `padding` is
   * one number, or one before and one after; `same` pads to the size of `x`, the odd one after. Sums accumulate in
   * the wide type (torch `conv1d`).
   *
   * Errors: a kernel that spans more than the padded `x`, or groups that do not divide `c` and `o`.
   */
  conv1d(weight: Tensor<R>, bias?: Tensor<R>, stride?: Integers, padding?: Integers, dilation?: Integers, groups?: number, same?: boolean): Tensor<R> {
    const owner = this.session;
    stride = integersOf(owner, "conv1d", stride);
    padding = integersOf(owner, "conv1d", padding);
    dilation = integersOf(owner, "conv1d", dilation);
    let at = owner.putTensors("conv1d", [this, weight, bias]);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    at = owner.putInteger(at, "conv1d", groups);
    owner.putBool(at, "conv1d", same);
    return owner.one(394);
  }

  /**
   * `conv1d` over two axes: `x [n, c, h, w]`, `weight [o, c / groups, kh, kw]`; numbers for one axis count for both,
   * and `padding` may also be of all four ends: before each axis, then after (torch `conv2d`).
   */
  conv2d(weight: Tensor<R>, bias?: Tensor<R>, stride?: Integers, padding?: Integers, dilation?: Integers, groups?: number, same?: boolean): Tensor<R> {
    const owner = this.session;
    stride = integersOf(owner, "conv2d", stride);
    padding = integersOf(owner, "conv2d", padding);
    dilation = integersOf(owner, "conv2d", dilation);
    let at = owner.putTensors("conv2d", [this, weight, bias]);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    at = owner.putInteger(at, "conv2d", groups);
    owner.putBool(at, "conv2d", same);
    return owner.one(395);
  }

  /** `conv1d` over three axes: `x [n, c, d, h, w]`, `weight [o, c / groups, kd, kh, kw]` (torch `conv3d`). */
  conv3d(weight: Tensor<R>, bias?: Tensor<R>, stride?: Integers, padding?: Integers, dilation?: Integers, groups?: number, same?: boolean): Tensor<R> {
    const owner = this.session;
    stride = integersOf(owner, "conv3d", stride);
    padding = integersOf(owner, "conv3d", padding);
    dilation = integersOf(owner, "conv3d", dilation);
    let at = owner.putTensors("conv3d", [this, weight, bias]);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    at = owner.putInteger(at, "conv3d", groups);
    owner.putBool(at, "conv3d", same);
    return owner.one(396);
  }

  /**
   * The transpose of `conv1d` in its operand, plus `bias [o]`: `x [n, c, l]` with `weight [c, o / groups, k]` to
   * `[n, o, out]`, where `out = (l - 1) stride - padding before and after + dilation (k - 1) + output_padding + 1`
   * (torch `conv_transpose1d`).
   *
   * Errors: an `output_padding` that is not below the stride or the dilation, padding that leaves nothing.
   */
  convTranspose1d(weight: Tensor<R>, bias?: Tensor<R>, stride?: Integers, padding?: Integers, outputPadding?: Integers, dilation?: Integers, groups?: number): Tensor<R> {
    const owner = this.session;
    stride = integersOf(owner, "conv_transpose1d", stride);
    padding = integersOf(owner, "conv_transpose1d", padding);
    outputPadding = integersOf(owner, "conv_transpose1d", outputPadding);
    dilation = integersOf(owner, "conv_transpose1d", dilation);
    let at = owner.putTensors("conv_transpose1d", [this, weight, bias]);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, outputPadding);
    at = owner.putIntegers(at, dilation);
    owner.putInteger(at, "conv_transpose1d", groups);
    return owner.one(397);
  }

  /** `conv_transpose1d` over two axes: `x [n, c, h, w]`, `weight [c, o / groups, kh, kw]` (torch `conv_transpose2d`). */
  convTranspose2d(weight: Tensor<R>, bias?: Tensor<R>, stride?: Integers, padding?: Integers, outputPadding?: Integers, dilation?: Integers, groups?: number): Tensor<R> {
    const owner = this.session;
    stride = integersOf(owner, "conv_transpose2d", stride);
    padding = integersOf(owner, "conv_transpose2d", padding);
    outputPadding = integersOf(owner, "conv_transpose2d", outputPadding);
    dilation = integersOf(owner, "conv_transpose2d", dilation);
    let at = owner.putTensors("conv_transpose2d", [this, weight, bias]);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, outputPadding);
    at = owner.putIntegers(at, dilation);
    owner.putInteger(at, "conv_transpose2d", groups);
    return owner.one(398);
  }

  /**
   * `conv_transpose1d` over three axes: `x [n, c, d, h, w]`, `weight [c, o / groups, kd, kh, kw]` (torch
   * `conv_transpose3d`).
   */
  convTranspose3d(weight: Tensor<R>, bias?: Tensor<R>, stride?: Integers, padding?: Integers, outputPadding?: Integers, dilation?: Integers, groups?: number): Tensor<R> {
    const owner = this.session;
    stride = integersOf(owner, "conv_transpose3d", stride);
    padding = integersOf(owner, "conv_transpose3d", padding);
    outputPadding = integersOf(owner, "conv_transpose3d", outputPadding);
    dilation = integersOf(owner, "conv_transpose3d", dilation);
    let at = owner.putTensors("conv_transpose3d", [this, weight, bias]);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, outputPadding);
    at = owner.putIntegers(at, dilation);
    owner.putInteger(at, "conv_transpose3d", groups);
    return owner.one(399);
  }

  /**
   * A causal convolution of each channel by itself, with what came before carried on: `x [n, t, c]` with
   * `weight [c, k]` to `[n, t, c]`, where `out[i] = sum over j of weight[j] x[i - k + 1 + j]`, and the last `k - 1`
   * places as the next `state [n, k - 1, c]`. Without a state, zeros come before. Half types compute in f32 (the short
   * convolution of Kimi Linear and Mamba).
   */
  shortConv1d(weight: Tensor<R>, state?: Tensor<R>): Tensor<R>[] {
    const owner = this.session;
    owner.putTensors("short_conv1d", [this, weight, state]);
    return owner.several(400);
  }

  /**
   * The largest element of each window of `x [n, c, l]` (or `[c, l]`), `[n, c, out]`; padding is -inf, of at most
   * half the window. `out = (l + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded up with `ceil_mode`.
   * NaN is larger than any number; of equal elements the first gets the derivative (torch `max_pool1d`).
   *
   * Errors: windows that do not fit.
   */
  maxPool1d(kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers, ceilMode?: boolean): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "max_pool1d", kernel);
    stride = integersOf(owner, "max_pool1d", stride);
    padding = integersOf(owner, "max_pool1d", padding);
    dilation = integersOf(owner, "max_pool1d", dilation);
    let at = owner.putTensors("max_pool1d", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    owner.putBool(at, "max_pool1d", ceilMode);
    return owner.one(401);
  }

  /** `max_pool1d` over the last two axes, `x [n, c, h, w]` (torch `max_pool2d`). */
  maxPool2d(kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers, ceilMode?: boolean): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "max_pool2d", kernel);
    stride = integersOf(owner, "max_pool2d", stride);
    padding = integersOf(owner, "max_pool2d", padding);
    dilation = integersOf(owner, "max_pool2d", dilation);
    let at = owner.putTensors("max_pool2d", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    owner.putBool(at, "max_pool2d", ceilMode);
    return owner.one(402);
  }

  /** `max_pool1d` over the last three axes, `x [n, c, d, h, w]` (torch `max_pool3d`). */
  maxPool3d(kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers, ceilMode?: boolean): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "max_pool3d", kernel);
    stride = integersOf(owner, "max_pool3d", stride);
    padding = integersOf(owner, "max_pool3d", padding);
    dilation = integersOf(owner, "max_pool3d", dilation);
    let at = owner.putTensors("max_pool3d", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    owner.putBool(at, "max_pool3d", ceilMode);
    return owner.one(403);
  }

  /** `max_pool1d` and where each element was found: its i64 place along the spatial axis. */
  maxPool1dWithIndices(kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers, ceilMode?: boolean): Tensor<R>[] {
    const owner = this.session;
    kernel = integersOf(owner, "max_pool1d_with_indices", kernel);
    stride = integersOf(owner, "max_pool1d_with_indices", stride);
    padding = integersOf(owner, "max_pool1d_with_indices", padding);
    dilation = integersOf(owner, "max_pool1d_with_indices", dilation);
    let at = owner.putTensors("max_pool1d_with_indices", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    owner.putBool(at, "max_pool1d_with_indices", ceilMode);
    return owner.several(404);
  }

  /** `max_pool2d` and where each element was found: its i64 place in the row-major image. */
  maxPool2dWithIndices(kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers, ceilMode?: boolean): Tensor<R>[] {
    const owner = this.session;
    kernel = integersOf(owner, "max_pool2d_with_indices", kernel);
    stride = integersOf(owner, "max_pool2d_with_indices", stride);
    padding = integersOf(owner, "max_pool2d_with_indices", padding);
    dilation = integersOf(owner, "max_pool2d_with_indices", dilation);
    let at = owner.putTensors("max_pool2d_with_indices", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    owner.putBool(at, "max_pool2d_with_indices", ceilMode);
    return owner.several(405);
  }

  /** `max_pool3d` and where each element was found: its i64 place in the row-major volume. */
  maxPool3dWithIndices(kernel: Integers, stride?: Integers, padding?: Integers, dilation?: Integers, ceilMode?: boolean): Tensor<R>[] {
    const owner = this.session;
    kernel = integersOf(owner, "max_pool3d_with_indices", kernel);
    stride = integersOf(owner, "max_pool3d_with_indices", stride);
    padding = integersOf(owner, "max_pool3d_with_indices", padding);
    dilation = integersOf(owner, "max_pool3d_with_indices", dilation);
    let at = owner.putTensors("max_pool3d_with_indices", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putIntegers(at, dilation);
    owner.putBool(at, "max_pool3d_with_indices", ceilMode);
    return owner.several(406);
  }

  /**
   * The mean of each window of `x [n, c, l]` (or `[c, l]`), `[n, c, out]`; sizes as in `max_pool1d`. Padding
   * counts as zeros, or not at all without `count_include_pad`; `divisor` takes the place of the number of
   * elements. Half types compute in f32 (torch `avg_pool1d`).
   *
   * Errors: windows that do not fit.
   */
  avgPool1d(kernel: Integers, stride?: Integers, padding?: Integers, ceilMode?: boolean, countIncludePad?: boolean, divisor?: number): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "avg_pool1d", kernel);
    stride = integersOf(owner, "avg_pool1d", stride);
    padding = integersOf(owner, "avg_pool1d", padding);
    let at = owner.putTensors("avg_pool1d", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putBool(at, "avg_pool1d", ceilMode);
    at = owner.putBool(at, "avg_pool1d", countIncludePad);
    owner.putInteger(at, "avg_pool1d", divisor);
    return owner.one(407);
  }

  /** `avg_pool1d` over the last two axes, `x [n, c, h, w]` (torch `avg_pool2d`). */
  avgPool2d(kernel: Integers, stride?: Integers, padding?: Integers, ceilMode?: boolean, countIncludePad?: boolean, divisor?: number): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "avg_pool2d", kernel);
    stride = integersOf(owner, "avg_pool2d", stride);
    padding = integersOf(owner, "avg_pool2d", padding);
    let at = owner.putTensors("avg_pool2d", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putBool(at, "avg_pool2d", ceilMode);
    at = owner.putBool(at, "avg_pool2d", countIncludePad);
    owner.putInteger(at, "avg_pool2d", divisor);
    return owner.one(408);
  }

  /** `avg_pool1d` over the last three axes, `x [n, c, d, h, w]` (torch `avg_pool3d`). */
  avgPool3d(kernel: Integers, stride?: Integers, padding?: Integers, ceilMode?: boolean, countIncludePad?: boolean, divisor?: number): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "avg_pool3d", kernel);
    stride = integersOf(owner, "avg_pool3d", stride);
    padding = integersOf(owner, "avg_pool3d", padding);
    let at = owner.putTensors("avg_pool3d", [this]);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    at = owner.putIntegers(at, padding);
    at = owner.putBool(at, "avg_pool3d", ceilMode);
    at = owner.putBool(at, "avg_pool3d", countIncludePad);
    owner.putInteger(at, "avg_pool3d", divisor);
    return owner.one(409);
  }

  /**
   * `(sum x^p)^(1/p)` of each window of `x [n, c, l]` (or `[c, l]`), `[n, c, out]`; a window that `ceil_mode` cuts
   * short counts as if its mean went on. An odd `p` of negative sums gives NaN (torch `lp_pool1d`).
   */
  lpPool1d(p: number, kernel: Integers, stride?: Integers, ceilMode?: boolean): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "lp_pool1d", kernel);
    stride = integersOf(owner, "lp_pool1d", stride);
    let at = owner.putTensors("lp_pool1d", [this]);
    at = owner.putFloat(at, "lp_pool1d", p);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    owner.putBool(at, "lp_pool1d", ceilMode);
    return owner.one(410);
  }

  /** `lp_pool1d` over the last two axes, `x [n, c, h, w]` (torch `lp_pool2d`). */
  lpPool2d(p: number, kernel: Integers, stride?: Integers, ceilMode?: boolean): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "lp_pool2d", kernel);
    stride = integersOf(owner, "lp_pool2d", stride);
    let at = owner.putTensors("lp_pool2d", [this]);
    at = owner.putFloat(at, "lp_pool2d", p);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    owner.putBool(at, "lp_pool2d", ceilMode);
    return owner.one(411);
  }

  /** `lp_pool1d` over the last three axes, `x [n, c, d, h, w]` (torch `lp_pool3d`). */
  lpPool3d(p: number, kernel: Integers, stride?: Integers, ceilMode?: boolean): Tensor<R> {
    const owner = this.session;
    kernel = integersOf(owner, "lp_pool3d", kernel);
    stride = integersOf(owner, "lp_pool3d", stride);
    let at = owner.putTensors("lp_pool3d", [this]);
    at = owner.putFloat(at, "lp_pool3d", p);
    at = owner.putIntegers(at, kernel);
    at = owner.putIntegers(at, stride);
    owner.putBool(at, "lp_pool3d", ceilMode);
    return owner.one(412);
  }

  /**
   * The means of `size` pieces of the last axis of `x [n, c, l]` (or `[c, l]`), `[n, c, size]`; piece `i` is
   * `i l / size .. ceil((i + 1) l / size)`. Half types compute in f32 (torch `adaptive_avg_pool1d`).
   *
   * Errors: an empty axis.
   */
  adaptiveAvgPool1d(size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "adaptive_avg_pool1d", size);
    const at = owner.putTensors("adaptive_avg_pool1d", [this]);
    owner.putIntegers(at, size);
    return owner.one(413);
  }

  /** `adaptive_avg_pool1d` over the last two axes, `x [n, c, h, w]` (torch `adaptive_avg_pool2d`). */
  adaptiveAvgPool2d(size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "adaptive_avg_pool2d", size);
    const at = owner.putTensors("adaptive_avg_pool2d", [this]);
    owner.putIntegers(at, size);
    return owner.one(414);
  }

  /** `adaptive_avg_pool1d` over the last three axes, `x [n, c, d, h, w]` (torch `adaptive_avg_pool3d`). */
  adaptiveAvgPool3d(size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "adaptive_avg_pool3d", size);
    const at = owner.putTensors("adaptive_avg_pool3d", [this]);
    owner.putIntegers(at, size);
    return owner.one(415);
  }

  /**
   * The largest elements of `size` pieces of the last axis of `x [n, c, l]` (or `[c, l]`), `[n, c, size]`; pieces
   * as in `adaptive_avg_pool1d`, equal elements and NaN as in `max_pool1d` (torch `adaptive_max_pool1d`).
   *
   * Errors: an empty axis.
   */
  adaptiveMaxPool1d(size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "adaptive_max_pool1d", size);
    const at = owner.putTensors("adaptive_max_pool1d", [this]);
    owner.putIntegers(at, size);
    return owner.one(416);
  }

  /** `adaptive_max_pool1d` over the last two axes, `x [n, c, h, w]` (torch `adaptive_max_pool2d`). */
  adaptiveMaxPool2d(size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "adaptive_max_pool2d", size);
    const at = owner.putTensors("adaptive_max_pool2d", [this]);
    owner.putIntegers(at, size);
    return owner.one(417);
  }

  /** `adaptive_max_pool1d` over the last three axes, `x [n, c, d, h, w]` (torch `adaptive_max_pool3d`). */
  adaptiveMaxPool3d(size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "adaptive_max_pool3d", size);
    const at = owner.putTensors("adaptive_max_pool3d", [this]);
    owner.putIntegers(at, size);
    return owner.one(418);
  }

  /** `adaptive_max_pool1d` and where each element was found: its i64 place along the spatial axis. */
  adaptiveMaxPool1dWithIndices(size: Integers): Tensor<R>[] {
    const owner = this.session;
    size = integersOf(owner, "adaptive_max_pool1d_with_indices", size);
    const at = owner.putTensors("adaptive_max_pool1d_with_indices", [this]);
    owner.putIntegers(at, size);
    return owner.several(419);
  }

  /** `adaptive_max_pool2d` and where each element was found: its i64 place in the row-major image. */
  adaptiveMaxPool2dWithIndices(size: Integers): Tensor<R>[] {
    const owner = this.session;
    size = integersOf(owner, "adaptive_max_pool2d_with_indices", size);
    const at = owner.putTensors("adaptive_max_pool2d_with_indices", [this]);
    owner.putIntegers(at, size);
    return owner.several(420);
  }

  /** `adaptive_max_pool3d` and where each element was found: its i64 place in the row-major volume. */
  adaptiveMaxPool3dWithIndices(size: Integers): Tensor<R>[] {
    const owner = this.session;
    size = integersOf(owner, "adaptive_max_pool3d_with_indices", size);
    const at = owner.putTensors("adaptive_max_pool3d_with_indices", [this]);
    owner.putIntegers(at, size);
    return owner.several(421);
  }

  /**
   * The mean over all spatial axes, `[n, c, ..]` to `[n, c, 1..]`; half types compute in f32 (ONNX
   * `GlobalAveragePool`).
   */
  globalAvgPool(): Tensor<R> {
    return this.session.unary("global_avg_pool", 422, this);
  }

  /**
   * The largest element over all spatial axes, `[n, c, ..]` to `[n, c, 1..]`; equal elements share the derivative
   * (ONNX `GlobalMaxPool`).
   */
  globalMaxPool(): Tensor<R> {
    return this.session.unary("global_max_pool", 423, this);
  }

  /**
   * `x [n, c, spatial..]` with spatial axes of `size` (one number for all, or one each), or `scale` times as long,
   * rounded down. `mode` is `nearest`, `nearest-exact`, `linear` (also `bilinear`, `trilinear`), `bicubic` (two axes) or
   * `area`. Element `i` of `out` stands at `(i + 1/2) n / out - 1/2` of the `n` elements, or at `i (n - 1) / (out - 1)`
   * with `align_corners`, which `linear` and `bicubic` take; the edge goes on beyond the ends. Half types compute in
   * f32 (torch `interpolate` with `recompute_scale_factor`).
   *
   * Errors: empty spatial axes, neither or both of `size` and `scale`, a mode that does not take what is asked.
   */
  interpolate(size?: Integers, scale?: number, mode?: "nearest" | "nearest-exact" | "linear" | "bilinear" | "trilinear" | "bicubic" | "area", alignCorners?: boolean): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "interpolate", size);
    let at = owner.putTensors("interpolate", [this]);
    at = owner.putIntegers(at, size);
    at = owner.putFloat(at, "interpolate", scale);
    at = owner.putWord(at, "interpolate", ["nearest","nearest-exact","linear","bilinear","trilinear","bicubic","area"], mode);
    owner.putBool(at, "interpolate", alignCorners);
    return owner.one(424);
  }

  /**
   * `x [.., c f^2, h, w]` to `[.., c, f h, f w]`: channels become pixels (Shi et al. 2016; torch `pixel_shuffle`).
   *
   * Errors: channels that `f^2` does not divide.
   */
  pixelShuffle(factor: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("pixel_shuffle", [this]);
    owner.putInteger(at, "pixel_shuffle", factor);
    return owner.one(425);
  }

  /**
   * `x [.., c, f h, f w]` to `[.., c f^2, h, w]`: undoes `pixel_shuffle` (torch `pixel_unshuffle`).
   *
   * Errors: heights or widths that `f` does not divide.
   */
  pixelUnshuffle(factor: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("pixel_unshuffle", [this]);
    owner.putInteger(at, "pixel_unshuffle", factor);
    return owner.one(426);
  }

  /**
   * `x [n, c, ..]` with the channels of `groups` groups in turn: channel `i` of group `g` becomes channel
   * `i groups + g` (Zhang et al. 2018, "ShuffleNet"; torch `channel_shuffle`).
   *
   * Errors: groups that do not divide the channels.
   */
  channelShuffle(groups: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("channel_shuffle", [this]);
    owner.putInteger(at, "channel_shuffle", groups);
    return owner.one(427);
  }

  /**
   * A grid for `grid_sample`: every place of an image of `size [n, c, h, w]` (or `[n, c, d, h, w]`) mapped by
   * `theta [n, 2, 3]` (`[n, 3, 4]`), `[n, h, w, 2]`. Places run from -1 to 1 along each axis, between the middles of the
   * first and last element with `align_corners`, else between their outer sides; the last axis of the image comes
   * first (torch `affine_grid`).
   *
   * Errors: a size that does not fit `theta`.
   */
  affineGrid(size: Integers, alignCorners?: boolean): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "affine_grid", size);
    let at = owner.putTensors("affine_grid", [this]);
    at = owner.putIntegers(at, size);
    owner.putBool(at, "affine_grid", alignCorners);
    return owner.one(428);
  }

  /**
   * `x [n, c, h, w]` read at the places of `grid [n, out.., 2]`, `[n, c, out..]` (or `x [n, c, d, h, w]` and
   * `grid [n, out.., 3]`). Places are as in `affine_grid`. `mode` is `nearest` (halves to even), `bilinear` (also
   * `linear`, `trilinear`) or `bicubic` (images); `padding` is `zeros`, `border` or `reflection`. Half types compute in
   * f32 (Jaderberg et al. 2015; torch `grid_sample`).
   *
   * Errors: empty images, or a grid that does not fit.
   */
  gridSample(grid: Tensor<R>, mode: "nearest" | "nearest-exact" | "linear" | "bilinear" | "trilinear" | "bicubic" | "area", padding?: "zeros" | "border" | "reflection", alignCorners?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("grid_sample", [this, grid]);
    at = owner.putWord(at, "grid_sample", ["nearest","nearest-exact","linear","bilinear","trilinear","bicubic","area"], mode);
    at = owner.putWord(at, "grid_sample", ["zeros","border","reflection"], padding);
    owner.putBool(at, "grid_sample", alignCorners);
    return owner.one(429);
  }

  /**
   * Puts the elements of `x [n, c, l]` (or `[c, l]`) where `max_pool1d_with_indices` found them, in zeros of `size`:
   * `[n, c, size]`. Of elements with one index the sum is put (torch `max_unpool1d`).
   *
   * Errors: an index outside the result, when the op runs.
   */
  maxUnpool1d(indices: Tensor<R> | Ids, size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "max_unpool1d", size);
    const at = owner.putTensors("max_unpool1d", [this, idsOf(owner, "max_unpool1d", indices)]);
    owner.putIntegers(at, size);
    return owner.one(430);
  }

  /** `max_unpool1d` of images, `x [n, c, h, w]` (torch `max_unpool2d`). */
  maxUnpool2d(indices: Tensor<R> | Ids, size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "max_unpool2d", size);
    const at = owner.putTensors("max_unpool2d", [this, idsOf(owner, "max_unpool2d", indices)]);
    owner.putIntegers(at, size);
    return owner.one(431);
  }

  /** `max_unpool1d` of volumes, `x [n, c, d, h, w]` (torch `max_unpool3d`). */
  maxUnpool3d(indices: Tensor<R> | Ids, size: Integers): Tensor<R> {
    const owner = this.session;
    size = integersOf(owner, "max_unpool3d", size);
    const at = owner.putTensors("max_unpool3d", [this, idsOf(owner, "max_unpool3d", indices)]);
    owner.putIntegers(at, size);
    return owner.one(432);
  }

  /**
   * `(x - mean) / sqrt(var + eps) * weight + bias` over the last axes, with the biased variance. `weight` and `bias`
   * have the shape of the axes that are normalised, and are 1 and 0 where absent; without both, that is the last axis
   * (Ba et al. 2016; torch `layer_norm`).
   *
   * Errors: a weight or bias whose shape is not that of the last axes.
   */
  layerNorm(weight?: Tensor<R>, bias?: Tensor<R>, eps?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("layer_norm", [this, weight, bias]);
    owner.putFloat(at, "layer_norm", eps);
    return owner.one(433);
  }

  /**
   * `x / sqrt(mean(x^2) + eps) * weight` over the last axes; `weight` has the shape of the axes that are normalised
   * and is 1 where absent, and then that is the last axis (Zhang and Sennrich 2019; torch `rms_norm`).
   *
   * Errors: a weight whose shape is not that of the last axes.
   */
  rmsNorm(weight?: Tensor<R>, eps?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("rms_norm", [this, weight]);
    owner.putFloat(at, "rms_norm", eps);
    return owner.one(434);
  }

  /**
   * `(x - mean) / sqrt(var + eps) * weight + bias` of `x [n, c, ..]` over each of `groups` groups of channels with all
   * further axes, with the biased variance; `weight` and `bias` are `[c]` and 1 and 0 where absent (Wu and He 2018;
   * torch `group_norm`).
   *
   * Errors: groups that do not divide the channels.
   */
  groupNorm(groups: number, weight?: Tensor<R>, bias?: Tensor<R>, eps?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("group_norm", [this, weight, bias]);
    at = owner.putInteger(at, "group_norm", groups);
    owner.putFloat(at, "group_norm", eps);
    return owner.one(435);
  }

  /**
   * `group_norm` with one channel a group: each channel of each image by itself (Ulyanov et al. 2016; torch
   * `instance_norm`).
   *
   * Errors: `x` without a further axis, over which to normalise.
   */
  instanceNorm(weight?: Tensor<R>, bias?: Tensor<R>, eps?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("instance_norm", [this, weight, bias]);
    owner.putFloat(at, "instance_norm", eps);
    return owner.one(436);
  }

  /**
   * `[y, running_mean', running_var']` where `y = (x - mean) / sqrt(var + eps) * weight + bias` of `x [n, c, ..]` along
   * the channels; all other operands are `[c]`. In training, mean and biased variance are those of `x`, and the running
   * ones move towards the mean and the unbiased variance: `(1 - momentum) running + momentum new`. Otherwise the
   * running ones are used and returned (Ioffe and Szegedy 2015; torch `batch_norm`). The derivative passes through all
   * three results; stop it where running statistics are state.
   *
   * Errors: training with a single value a channel.
   */
  batchNorm(weight: Tensor<R> | undefined, bias: Tensor<R> | undefined, runningMean: Tensor<R>, runningVar: Tensor<R>, training?: boolean, momentum?: number, eps?: number): Tensor<R>[] {
    const owner = this.session;
    let at = owner.putTensors("batch_norm", [this, weight, bias, runningMean, runningVar]);
    at = owner.putBool(at, "batch_norm", training);
    at = owner.putFloat(at, "batch_norm", momentum);
    owner.putFloat(at, "batch_norm", eps);
    return owner.several(437);
  }

  /**
   * `x / (k + alpha mean)^beta` of `x [n, c, ..]`, where `mean` is that of the squares of `size` neighbouring channels,
   * those beyond the ends being 0 (Krizhevsky et al. 2012, section 3.3; torch `local_response_norm`).
   *
   * Errors: a size of 0.
   */
  localResponseNorm(size: number, alpha?: number, beta?: number, k?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("local_response_norm", [this]);
    at = owner.putInteger(at, "local_response_norm", size);
    at = owner.putFloat(at, "local_response_norm", alpha);
    at = owner.putFloat(at, "local_response_norm", beta);
    owner.putFloat(at, "local_response_norm", k);
    return owner.one(438);
  }

  /**
   * `x / max(norm, eps)` where `norm` is the `p`-norm along an axis (torch `normalize`).
   *
   * Errors: a `p` that is not above 0.
   */
  normalize(p?: number, axis?: number, eps?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("normalize", [this]);
    at = owner.putFloat(at, "normalize", p);
    at = owner.putInteger(at, "normalize", axis);
    owner.putFloat(at, "normalize", eps);
    return owner.one(439);
  }

  /**
   * `g * v / |v|`, with the Euclidean norm of `v` over all axes but one, along which `g` is given: `[size]` or with the
   * other axes of size 1 (Salimans and Kingma 2016; torch `_weight_norm`).
   *
   * Errors: a `g` of another shape.
   */
  weightNorm(g: Tensor<R>, axis?: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("weight_norm", [this, g]);
    owner.putInteger(at, "weight_norm", axis);
    return owner.one(440);
  }

  /**
   * Rotary position embedding of `x [.., d]` (Su et al. 2021, "RoFormer"): pair `i` of the first `width` elements (all
   * where absent) of the last axis turns by `position * theta^(-2 i / width)`. A pair is elements `i` and
   * `i + width / 2`, or with `interleaved` elements `2 i` and `2 i + 1`.
   *
   * Positions run along `axis`: 0, 1, .. where absent, from a first one if `positions` has rank 0, else `[seq]` or
   * `[batch, seq]`, of which the first axis is that of `x`. With a `factor`, frequencies are scaled as in Llama 3.1 for
   * contexts longer than the `context` of the training, between wavelengths of `context / high` and `context / low`.
   * With `inverse` it turns back. Half types compute in f32.
   *
   * Errors: an odd `width`, or positions of another shape.
   */
  rotaryEmbedding(positions?: Tensor<R>, theta?: number, interleaved?: boolean, axis?: number, width?: number, factor?: number, low?: number, high?: number, context?: number, inverse?: boolean): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("rotary_embedding", [this, positions]);
    at = owner.putFloat(at, "rotary_embedding", theta);
    at = owner.putBool(at, "rotary_embedding", interleaved);
    at = owner.putInteger(at, "rotary_embedding", axis);
    at = owner.putInteger(at, "rotary_embedding", width);
    at = owner.putFloat(at, "rotary_embedding", factor);
    at = owner.putFloat(at, "rotary_embedding", low);
    at = owner.putFloat(at, "rotary_embedding", high);
    at = owner.putInteger(at, "rotary_embedding", context);
    owner.putBool(at, "rotary_embedding", inverse);
    return owner.one(441);
  }

  /**
   * Rows `0 .. length` of a `table [positions, width]`, or from `offset` (an integer of rank 0): `[length, width]`.
   *
   * Errors: more rows than the table has; with an offset that is an error when the op runs.
   */
  positionEmbedding(offset: Tensor<R> | undefined, length: number): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("position_embedding", [this, offset]);
    owner.putInteger(at, "position_embedding", length);
    return owner.one(442);
  }

  /**
   * `[length, width]` with `sin(position / theta^(2 i / width))` at `2 i` and the cosine at `2 i + 1` (Vaswani et al.
   * 2017, section 3.5).
   *
   * Errors: an odd width.
   */
  static sinusoidalPositions<R extends Reading = "sync">(length: number, width: number, theta?: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("sinusoidal_positions", options);
    let at = owner.putTensors("sinusoidal_positions", []);
    at = owner.putInteger(at, "sinusoidal_positions", length);
    at = owner.putInteger(at, "sinusoidal_positions", width);
    at = owner.putFloat(at, "sinusoidal_positions", theta);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(443), settings);
  }

  /**
   * The slopes `[heads]` of attention with linear biases: `2^(-8 i / n)` for `i` in `1..=n` where `n` heads are a power
   * of two, else those of the power below and every second one of the power above (Press et al. 2022, "Train Short,
   * Test Long", and its code).
   *
   * Errors: no heads, or more than `2^24`.
   */
  static alibiSlopes<R extends Reading = "sync">(heads: number, options?: Options): Tensor<R> {
    const owner = session();
    const settings = optionsOf("alibi_slopes", options);
    let at = owner.putTensors("alibi_slopes", []);
    at = owner.putInteger(at, "alibi_slopes", heads);
    owner.putDType(at, settings.dtype);
    return finish(owner.one(444), settings);
  }

  /**
   * The elements of packed `blocks`, rows `u8 [.., bytes]` of whole blocks: `f32 [.., elements]`, bit for bit as ggml
   * unpacks them (`ggml-quants.c` of llama.cpp).
   *
   * Errors: blocks of another dtype, rows that are no whole blocks.
   */
  dequantize(encoding: "Q4_0" | "Q4_1" | "Q5_0" | "Q5_1" | "Q8_0" | "Q2_K" | "Q3_K" | "Q4_K" | "Q5_K" | "Q6_K"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("dequantize", [this]);
    owner.putWord(at, "dequantize", ["Q4_0","Q4_1","Q5_0","Q5_1","Q8_0","Q2_K","Q3_K","Q4_K","Q5_K","Q6_K"], encoding);
    return owner.one(445);
  }

  /**
   * The product of `x [.., inner]` with the transpose of packed weights `blocks u8 [outputs, bytes]`: `[.., outputs]`, in
   * the dtype of `x`. A device may round `x` to 16-bit integers that share a scale, which changes a result by some 1e-5
   * of the sum of its terms without their signs.
   *
   * Derivatives flow to `x` alone. Errors: blocks of another dtype or rank, rows that are no whole blocks or hold another
   * number of elements than `inner`.
   */
  quantizedLinear(blocks: Tensor<R>, encoding: "Q4_0" | "Q4_1" | "Q5_0" | "Q5_1" | "Q8_0" | "Q2_K" | "Q3_K" | "Q4_K" | "Q5_K" | "Q6_K"): Tensor<R> {
    const owner = this.session;
    const at = owner.putTensors("quantized_linear", [this, blocks]);
    owner.putWord(at, "quantized_linear", ["Q4_0","Q4_1","Q5_0","Q5_1","Q8_0","Q2_K","Q3_K","Q4_K","Q5_K","Q6_K"], encoding);
    return owner.one(446);
  }

  /**
   * Each element with probability `p` the value at which SELU saturates, and all moved and scaled so that mean and
   * variance stay (Klambauer et al. 2017; torch `alpha_dropout`). A `p` of 1 gives zeros.
   */
  alphaDropout(p: number, key: Tensor<R>, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("alpha_dropout", [this, key]);
    at = owner.putFloat(at, "alpha_dropout", p);
    owner.putInteger(at, "alpha_dropout", stream);
    return owner.one(447);
  }

  /**
   * Whole channels of `x [n, c, ..]`: each 0 with probability `p`, else divided by `1 - p` (Tompson et al. 2015; torch
   * `dropout1d`, `dropout2d`, `dropout3d`).
   */
  featureDropout(p: number, key: Tensor<R>, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("feature_dropout", [this, key]);
    at = owner.putFloat(at, "feature_dropout", p);
    owner.putInteger(at, "feature_dropout", stream);
    return owner.one(448);
  }

  /** `alpha_dropout` of whole channels of `x [n, c, ..]` (torch `feature_alpha_dropout`). */
  featureAlphaDropout(p: number, key: Tensor<R>, stream?: number): Tensor<R> {
    const owner = this.session;
    let at = owner.putTensors("feature_alpha_dropout", [this, key]);
    at = owner.putFloat(at, "feature_alpha_dropout", p);
    owner.putInteger(at, "feature_alpha_dropout", stream);
    return owner.one(449);
  }

  /** Writes what `neg` gives over this tensor. */
  neg_(): this {
    const owner = this.session;
    owner.putTensors("neg", [this]);
    return owner.assign(this, 0);
  }

  /** Writes what `abs` gives over this tensor. */
  abs_(): this {
    const owner = this.session;
    owner.putTensors("abs", [this]);
    return owner.assign(this, 1);
  }

  /** Writes what `sign` gives over this tensor. */
  sign_(): this {
    const owner = this.session;
    owner.putTensors("sign", [this]);
    return owner.assign(this, 2);
  }

  /** Writes what `floor` gives over this tensor. */
  floor_(): this {
    const owner = this.session;
    owner.putTensors("floor", [this]);
    return owner.assign(this, 3);
  }

  /** Writes what `ceil` gives over this tensor. */
  ceil_(): this {
    const owner = this.session;
    owner.putTensors("ceil", [this]);
    return owner.assign(this, 4);
  }

  /** Writes what `round` gives over this tensor. */
  round_(): this {
    const owner = this.session;
    owner.putTensors("round", [this]);
    return owner.assign(this, 5);
  }

  /** Writes what `trunc` gives over this tensor. */
  trunc_(): this {
    const owner = this.session;
    owner.putTensors("trunc", [this]);
    return owner.assign(this, 6);
  }

  /** Writes what `exp` gives over this tensor. */
  exp_(): this {
    const owner = this.session;
    owner.putTensors("exp", [this]);
    return owner.assign(this, 7);
  }

  /** Writes what `expm1` gives over this tensor. */
  expm1_(): this {
    const owner = this.session;
    owner.putTensors("expm1", [this]);
    return owner.assign(this, 8);
  }

  /** Writes what `log` gives over this tensor. */
  log_(): this {
    const owner = this.session;
    owner.putTensors("log", [this]);
    return owner.assign(this, 9);
  }

  /** Writes what `log1p` gives over this tensor. */
  log1p_(): this {
    const owner = this.session;
    owner.putTensors("log1p", [this]);
    return owner.assign(this, 10);
  }

  /** Writes what `sqrt` gives over this tensor. */
  sqrt_(): this {
    const owner = this.session;
    owner.putTensors("sqrt", [this]);
    return owner.assign(this, 11);
  }

  /** Writes what `rsqrt` gives over this tensor. */
  rsqrt_(): this {
    const owner = this.session;
    owner.putTensors("rsqrt", [this]);
    return owner.assign(this, 12);
  }

  /** Writes what `reciprocal` gives over this tensor. */
  reciprocal_(): this {
    const owner = this.session;
    owner.putTensors("reciprocal", [this]);
    return owner.assign(this, 13);
  }

  /** Writes what `sin` gives over this tensor. */
  sin_(): this {
    const owner = this.session;
    owner.putTensors("sin", [this]);
    return owner.assign(this, 14);
  }

  /** Writes what `cos` gives over this tensor. */
  cos_(): this {
    const owner = this.session;
    owner.putTensors("cos", [this]);
    return owner.assign(this, 15);
  }

  /** Writes what `tanh` gives over this tensor. */
  tanh_(): this {
    const owner = this.session;
    owner.putTensors("tanh", [this]);
    return owner.assign(this, 16);
  }

  /** Writes what `sinh` gives over this tensor. */
  sinh_(): this {
    const owner = this.session;
    owner.putTensors("sinh", [this]);
    return owner.assign(this, 17);
  }

  /** Writes what `cosh` gives over this tensor. */
  cosh_(): this {
    const owner = this.session;
    owner.putTensors("cosh", [this]);
    return owner.assign(this, 18);
  }

  /** Writes what `asin` gives over this tensor. */
  asin_(): this {
    const owner = this.session;
    owner.putTensors("asin", [this]);
    return owner.assign(this, 19);
  }

  /** Writes what `acos` gives over this tensor. */
  acos_(): this {
    const owner = this.session;
    owner.putTensors("acos", [this]);
    return owner.assign(this, 20);
  }

  /** Writes what `atan` gives over this tensor. */
  atan_(): this {
    const owner = this.session;
    owner.putTensors("atan", [this]);
    return owner.assign(this, 21);
  }

  /** Writes what `asinh` gives over this tensor. */
  asinh_(): this {
    const owner = this.session;
    owner.putTensors("asinh", [this]);
    return owner.assign(this, 22);
  }

  /** Writes what `acosh` gives over this tensor. */
  acosh_(): this {
    const owner = this.session;
    owner.putTensors("acosh", [this]);
    return owner.assign(this, 23);
  }

  /** Writes what `atanh` gives over this tensor. */
  atanh_(): this {
    const owner = this.session;
    owner.putTensors("atanh", [this]);
    return owner.assign(this, 24);
  }

  /** Writes what `sigmoid` gives over this tensor. */
  sigmoid_(): this {
    const owner = this.session;
    owner.putTensors("sigmoid", [this]);
    return owner.assign(this, 25);
  }

  /** Writes what `erf` gives over this tensor. */
  erf_(): this {
    const owner = this.session;
    owner.putTensors("erf", [this]);
    return owner.assign(this, 26);
  }

  /** Writes what `relu` gives over this tensor. */
  relu_(): this {
    const owner = this.session;
    owner.putTensors("relu", [this]);
    return owner.assign(this, 27);
  }

  /** Writes what `silu` gives over this tensor. */
  silu_(): this {
    const owner = this.session;
    owner.putTensors("silu", [this]);
    return owner.assign(this, 28);
  }

  /** Writes what `add` gives over this tensor. */
  add_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("add", [this, y]);
      return owner.assign(this, 31);
    }
    owner.putScalar(owner.putTensors("add_scalar", [this]), "add_scalar", y);
    return owner.assign(this, 47);
  }

  /** Writes what `sub` gives over this tensor. */
  sub_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("sub", [this, y]);
      return owner.assign(this, 32);
    }
    owner.putScalar(owner.putTensors("sub_scalar", [this]), "sub_scalar", y);
    return owner.assign(this, 48);
  }

  /** Writes what `mul` gives over this tensor. */
  mul_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("mul", [this, y]);
      return owner.assign(this, 33);
    }
    owner.putScalar(owner.putTensors("mul_scalar", [this]), "mul_scalar", y);
    return owner.assign(this, 50);
  }

  /** Writes what `div` gives over this tensor. */
  div_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("div", [this, y]);
      return owner.assign(this, 34);
    }
    owner.putScalar(owner.putTensors("div_scalar", [this]), "div_scalar", y);
    return owner.assign(this, 51);
  }

  /** Writes what `rem` gives over this tensor. */
  rem_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("rem", [this, y]);
      return owner.assign(this, 35);
    }
    owner.putScalar(owner.putTensors("rem_scalar", [this]), "rem_scalar", y);
    return owner.assign(this, 52);
  }

  /** Writes what `pow` gives over this tensor. */
  pow_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("pow", [this, y]);
      return owner.assign(this, 36);
    }
    owner.putScalar(owner.putTensors("pow_scalar", [this]), "pow_scalar", y);
    return owner.assign(this, 53);
  }

  /** Writes what `maximum` gives over this tensor. */
  maximum_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("maximum", [this, y]);
      return owner.assign(this, 37);
    }
    owner.putScalar(owner.putTensors("maximum_scalar", [this]), "maximum_scalar", y);
    return owner.assign(this, 54);
  }

  /** Writes what `minimum` gives over this tensor. */
  minimum_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("minimum", [this, y]);
      return owner.assign(this, 38);
    }
    owner.putScalar(owner.putTensors("minimum_scalar", [this]), "minimum_scalar", y);
    return owner.assign(this, 55);
  }

  /** Writes what `square` gives over this tensor. */
  square_(): this {
    const owner = this.session;
    owner.putTensors("square", [this]);
    return owner.assign(this, 62);
  }

  /** Writes what `tan` gives over this tensor. */
  tan_(): this {
    const owner = this.session;
    owner.putTensors("tan", [this]);
    return owner.assign(this, 63);
  }

  /** Writes what `exp2` gives over this tensor. */
  exp2_(): this {
    const owner = this.session;
    owner.putTensors("exp2", [this]);
    return owner.assign(this, 64);
  }

  /** Writes what `log2` gives over this tensor. */
  log2_(): this {
    const owner = this.session;
    owner.putTensors("log2", [this]);
    return owner.assign(this, 65);
  }

  /** Writes what `log10` gives over this tensor. */
  log10_(): this {
    const owner = this.session;
    owner.putTensors("log10", [this]);
    return owner.assign(this, 66);
  }

  /** Writes what `clamp` gives over this tensor. */
  clamp_(low?: Scalar, high?: Scalar): this {
    const owner = this.session;
    let at = owner.putTensors("clamp", [this]);
    at = owner.putScalar(at, "clamp", low);
    owner.putScalar(at, "clamp", high);
    return owner.assign(this, 71);
  }

  /** Writes what `atan2` gives over this tensor. */
  atan2_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("atan2", [this, y]);
    return owner.assign(this, 75);
  }

  /** Writes what `hypot` gives over this tensor. */
  hypot_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("hypot", [this, y]);
    return owner.assign(this, 76);
  }

  /** Writes what `copysign` gives over this tensor. */
  copysign_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("copysign", [this, y]);
    return owner.assign(this, 77);
  }

  /** Writes what `shiftLeft` gives over this tensor. */
  shiftLeft_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("shift_left", [this, y]);
    return owner.assign(this, 78);
  }

  /** Writes what `shiftRight` gives over this tensor. */
  shiftRight_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("shift_right", [this, y]);
    return owner.assign(this, 79);
  }

  /** Writes what `bitwiseAnd` gives over this tensor. */
  bitwiseAnd_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("bitwise_and", [this, y]);
    return owner.assign(this, 80);
  }

  /** Writes what `bitwiseOr` gives over this tensor. */
  bitwiseOr_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("bitwise_or", [this, y]);
    return owner.assign(this, 81);
  }

  /** Writes what `bitwiseXor` gives over this tensor. */
  bitwiseXor_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("bitwise_xor", [this, y]);
    return owner.assign(this, 82);
  }

  /** Writes what `bitwiseNot` gives over this tensor. */
  bitwiseNot_(): this {
    const owner = this.session;
    owner.putTensors("bitwise_not", [this]);
    return owner.assign(this, 83);
  }

  /** Writes what `remainder` gives over this tensor. */
  remainder_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("remainder", [this, y]);
      return owner.assign(this, 85);
    }
    owner.putScalar(owner.putTensors("remainder_scalar", [this]), "remainder_scalar", y);
    return owner.assign(this, 86);
  }

  /** Writes what `floorDivide` gives over this tensor. */
  floorDivide_(y: Tensor<R> | Scalar): this {
    const owner = this.session;
    if (typeof y === "object") {
      owner.putTensors("floor_divide", [this, y]);
      return owner.assign(this, 87);
    }
    owner.putScalar(owner.putTensors("floor_divide_scalar", [this]), "floor_divide_scalar", y);
    return owner.assign(this, 88);
  }

  /** Writes what `truncDivide` gives over this tensor. */
  truncDivide_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("trunc_divide", [this, y]);
    return owner.assign(this, 89);
  }

  /** Writes what `frac` gives over this tensor. */
  frac_(): this {
    const owner = this.session;
    owner.putTensors("frac", [this]);
    return owner.assign(this, 90);
  }

  /** Writes what `deg2rad` gives over this tensor. */
  deg2rad_(): this {
    const owner = this.session;
    owner.putTensors("deg2rad", [this]);
    return owner.assign(this, 91);
  }

  /** Writes what `rad2deg` gives over this tensor. */
  rad2deg_(): this {
    const owner = this.session;
    owner.putTensors("rad2deg", [this]);
    return owner.assign(this, 92);
  }

  /** Writes what `logaddexp` gives over this tensor. */
  logaddexp_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("logaddexp", [this, y]);
    return owner.assign(this, 93);
  }

  /** Writes what `logaddexp2` gives over this tensor. */
  logaddexp2_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("logaddexp2", [this, y]);
    return owner.assign(this, 94);
  }

  /** Writes what `lerp` gives over this tensor. */
  lerp_(y: Tensor<R>, weight: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("lerp", [this, y, weight]);
    return owner.assign(this, 95);
  }

  /** Writes what `addcmul` gives over this tensor. */
  addcmul_(y: Tensor<R>, z: Tensor<R>, value?: Scalar): this {
    const owner = this.session;
    const at = owner.putTensors("addcmul", [this, y, z]);
    owner.putScalar(at, "addcmul", value);
    return owner.assign(this, 96);
  }

  /** Writes what `addcdiv` gives over this tensor. */
  addcdiv_(y: Tensor<R>, z: Tensor<R>, value?: Scalar): this {
    const owner = this.session;
    const at = owner.putTensors("addcdiv", [this, y, z]);
    owner.putScalar(at, "addcdiv", value);
    return owner.assign(this, 97);
  }

  /** Writes what `nanToNum` gives over this tensor. */
  nanToNum_(nan?: number, posinf?: number, neginf?: number): this {
    const owner = this.session;
    let at = owner.putTensors("nan_to_num", [this]);
    at = owner.putFloat(at, "nan_to_num", nan);
    at = owner.putFloat(at, "nan_to_num", posinf);
    owner.putFloat(at, "nan_to_num", neginf);
    return owner.assign(this, 98);
  }

  /** Writes what `heaviside` gives over this tensor. */
  heaviside_(atZero: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("heaviside", [this, atZero]);
    return owner.assign(this, 103);
  }

  /** Writes what `fmax` gives over this tensor. */
  fmax_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("fmax", [this, y]);
    return owner.assign(this, 104);
  }

  /** Writes what `fmin` gives over this tensor. */
  fmin_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("fmin", [this, y]);
    return owner.assign(this, 105);
  }

  /** Writes what `ldexp` gives over this tensor. */
  ldexp_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("ldexp", [this, y]);
    return owner.assign(this, 106);
  }

  /** Writes what `erfc` gives over this tensor. */
  erfc_(): this {
    const owner = this.session;
    owner.putTensors("erfc", [this]);
    return owner.assign(this, 107);
  }

  /** Writes what `erfcx` gives over this tensor. */
  erfcx_(): this {
    const owner = this.session;
    owner.putTensors("erfcx", [this]);
    return owner.assign(this, 108);
  }

  /** Writes what `logErfcx` gives over this tensor. */
  logErfcx_(): this {
    const owner = this.session;
    owner.putTensors("log_erfcx", [this]);
    return owner.assign(this, 109);
  }

  /** Writes what `erfinv` gives over this tensor. */
  erfinv_(): this {
    const owner = this.session;
    owner.putTensors("erfinv", [this]);
    return owner.assign(this, 110);
  }

  /** Writes what `erfcinv` gives over this tensor. */
  erfcinv_(): this {
    const owner = this.session;
    owner.putTensors("erfcinv", [this]);
    return owner.assign(this, 111);
  }

  /** Writes what `ndtr` gives over this tensor. */
  ndtr_(): this {
    const owner = this.session;
    owner.putTensors("ndtr", [this]);
    return owner.assign(this, 112);
  }

  /** Writes what `logNdtr` gives over this tensor. */
  logNdtr_(): this {
    const owner = this.session;
    owner.putTensors("log_ndtr", [this]);
    return owner.assign(this, 113);
  }

  /** Writes what `ndtri` gives over this tensor. */
  ndtri_(): this {
    const owner = this.session;
    owner.putTensors("ndtri", [this]);
    return owner.assign(this, 114);
  }

  /** Writes what `ndtriExp` gives over this tensor. */
  ndtriExp_(): this {
    const owner = this.session;
    owner.putTensors("ndtri_exp", [this]);
    return owner.assign(this, 115);
  }

  /** Writes what `lgamma` gives over this tensor. */
  lgamma_(): this {
    const owner = this.session;
    owner.putTensors("lgamma", [this]);
    return owner.assign(this, 116);
  }

  /** Writes what `digamma` gives over this tensor. */
  digamma_(): this {
    const owner = this.session;
    owner.putTensors("digamma", [this]);
    return owner.assign(this, 117);
  }

  /** Writes what `i0` gives over this tensor. */
  i0_(): this {
    const owner = this.session;
    owner.putTensors("i0", [this]);
    return owner.assign(this, 118);
  }

  /** Writes what `i0e` gives over this tensor. */
  i0e_(): this {
    const owner = this.session;
    owner.putTensors("i0e", [this]);
    return owner.assign(this, 119);
  }

  /** Writes what `i1` gives over this tensor. */
  i1_(): this {
    const owner = this.session;
    owner.putTensors("i1", [this]);
    return owner.assign(this, 120);
  }

  /** Writes what `i1e` gives over this tensor. */
  i1e_(): this {
    const owner = this.session;
    owner.putTensors("i1e", [this]);
    return owner.assign(this, 121);
  }

  /** Writes what `polygamma` gives over this tensor. */
  polygamma_(n: number): this {
    const owner = this.session;
    const at = owner.putTensors("polygamma", [this]);
    owner.putInteger(at, "polygamma", n);
    return owner.assign(this, 122);
  }

  /** Writes what `mvlgamma` gives over this tensor. */
  mvlgamma_(p: number): this {
    const owner = this.session;
    const at = owner.putTensors("mvlgamma", [this]);
    owner.putInteger(at, "mvlgamma", p);
    return owner.assign(this, 123);
  }

  /** Writes what `xlogy` gives over this tensor. */
  xlogy_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("xlogy", [this, y]);
    return owner.assign(this, 124);
  }

  /** Writes what `xlog1py` gives over this tensor. */
  xlog1py_(y: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("xlog1py", [this, y]);
    return owner.assign(this, 125);
  }

  /** Writes what `entr` gives over this tensor. */
  entr_(): this {
    const owner = this.session;
    owner.putTensors("entr", [this]);
    return owner.assign(this, 126);
  }

  /** Writes what `logit` gives over this tensor. */
  logit_(eps?: number): this {
    const owner = this.session;
    const at = owner.putTensors("logit", [this]);
    owner.putFloat(at, "logit", eps);
    return owner.assign(this, 127);
  }

  /** Writes what `sinc` gives over this tensor. */
  sinc_(): this {
    const owner = this.session;
    owner.putTensors("sinc", [this]);
    return owner.assign(this, 128);
  }

  /** Writes what `softplus` gives over this tensor. */
  softplus_(beta?: number, threshold?: number): this {
    const owner = this.session;
    let at = owner.putTensors("softplus", [this]);
    at = owner.putFloat(at, "softplus", beta);
    owner.putFloat(at, "softplus", threshold);
    return owner.assign(this, 129);
  }

  /** Writes what `logSigmoid` gives over this tensor. */
  logSigmoid_(): this {
    const owner = this.session;
    owner.putTensors("log_sigmoid", [this]);
    return owner.assign(this, 130);
  }

  /** Writes what `leakyRelu` gives over this tensor. */
  leakyRelu_(slope?: number): this {
    const owner = this.session;
    const at = owner.putTensors("leaky_relu", [this]);
    owner.putFloat(at, "leaky_relu", slope);
    return owner.assign(this, 131);
  }

  /** Writes what `prelu` gives over this tensor. */
  prelu_(weight: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("prelu", [this, weight]);
    return owner.assign(this, 132);
  }

  /** Writes what `elu` gives over this tensor. */
  elu_(alpha?: number): this {
    const owner = this.session;
    const at = owner.putTensors("elu", [this]);
    owner.putFloat(at, "elu", alpha);
    return owner.assign(this, 133);
  }

  /** Writes what `celu` gives over this tensor. */
  celu_(alpha?: number): this {
    const owner = this.session;
    const at = owner.putTensors("celu", [this]);
    owner.putFloat(at, "celu", alpha);
    return owner.assign(this, 134);
  }

  /** Writes what `selu` gives over this tensor. */
  selu_(): this {
    const owner = this.session;
    owner.putTensors("selu", [this]);
    return owner.assign(this, 135);
  }

  /** Writes what `gelu` gives over this tensor. */
  gelu_(approximate?: "none" | "tanh"): this {
    const owner = this.session;
    const at = owner.putTensors("gelu", [this]);
    owner.putWord(at, "gelu", ["none","tanh"], approximate);
    return owner.assign(this, 136);
  }

  /** Writes what `hardtanh` gives over this tensor. */
  hardtanh_(low?: number, high?: number): this {
    const owner = this.session;
    let at = owner.putTensors("hardtanh", [this]);
    at = owner.putFloat(at, "hardtanh", low);
    owner.putFloat(at, "hardtanh", high);
    return owner.assign(this, 137);
  }

  /** Writes what `relu6` gives over this tensor. */
  relu6_(): this {
    const owner = this.session;
    owner.putTensors("relu6", [this]);
    return owner.assign(this, 138);
  }

  /** Writes what `hardsigmoid` gives over this tensor. */
  hardsigmoid_(): this {
    const owner = this.session;
    owner.putTensors("hardsigmoid", [this]);
    return owner.assign(this, 139);
  }

  /** Writes what `hardswish` gives over this tensor. */
  hardswish_(): this {
    const owner = this.session;
    owner.putTensors("hardswish", [this]);
    return owner.assign(this, 140);
  }

  /** Writes what `softsign` gives over this tensor. */
  softsign_(): this {
    const owner = this.session;
    owner.putTensors("softsign", [this]);
    return owner.assign(this, 141);
  }

  /** Writes what `mish` gives over this tensor. */
  mish_(): this {
    const owner = this.session;
    owner.putTensors("mish", [this]);
    return owner.assign(this, 142);
  }

  /** Writes what `tanhshrink` gives over this tensor. */
  tanhshrink_(): this {
    const owner = this.session;
    owner.putTensors("tanhshrink", [this]);
    return owner.assign(this, 143);
  }

  /** Writes what `softshrink` gives over this tensor. */
  softshrink_(lambd?: number): this {
    const owner = this.session;
    const at = owner.putTensors("softshrink", [this]);
    owner.putFloat(at, "softshrink", lambd);
    return owner.assign(this, 144);
  }

  /** Writes what `hardshrink` gives over this tensor. */
  hardshrink_(lambd?: number): this {
    const owner = this.session;
    const at = owner.putTensors("hardshrink", [this]);
    owner.putFloat(at, "hardshrink", lambd);
    return owner.assign(this, 145);
  }

  /** Writes what `threshold` gives over this tensor. */
  threshold_(threshold: number, value: number): this {
    const owner = this.session;
    let at = owner.putTensors("threshold", [this]);
    at = owner.putFloat(at, "threshold", threshold);
    owner.putFloat(at, "threshold", value);
    return owner.assign(this, 146);
  }

  /** Writes what `glu` gives over this tensor. */
  glu_(axis?: number): this {
    const owner = this.session;
    const at = owner.putTensors("glu", [this]);
    owner.putInteger(at, "glu", axis);
    return owner.assign(this, 147);
  }

  /** Writes what `quickGelu` gives over this tensor. */
  quickGelu_(): this {
    const owner = this.session;
    owner.putTensors("quick_gelu", [this]);
    return owner.assign(this, 148);
  }

  /** Writes what `tril` gives over this tensor. */
  tril_(diagonal?: number): this {
    const owner = this.session;
    const at = owner.putTensors("tril", [this]);
    owner.putInteger(at, "tril", diagonal);
    return owner.assign(this, 159);
  }

  /** Writes what `triu` gives over this tensor. */
  triu_(diagonal?: number): this {
    const owner = this.session;
    const at = owner.putTensors("triu", [this]);
    owner.putInteger(at, "triu", diagonal);
    return owner.assign(this, 160);
  }

  /** Writes what `indexPut` gives over this tensor. */
  indexPut_(values: Tensor<R>, ids: readonly (Tensor<R> | Ids)[], axes?: Integers, accumulate?: boolean): this {
    const owner = this.session;
    axes = integersOf(owner, "index_put", axes);
    let at = owner.putTensors("index_put", [this, values, ...tensorsOf("index_put", "ids", ids).map((ids) => idsOf(owner, "index_put", ids))]);
    at = owner.putIntegers(at, axes);
    owner.putBool(at, "index_put", accumulate);
    return owner.assign(this, 257);
  }

  /** Writes what `scatter` gives over this tensor. */
  scatter_(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>): this {
    const owner = this.session;
    const at = owner.putTensors("scatter", [this, idsOf(owner, "scatter", ids), source]);
    owner.putInteger(at, "scatter", axis);
    return owner.assign(this, 285);
  }

  /** Writes what `scatterAdd` gives over this tensor. */
  scatterAdd_(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>): this {
    const owner = this.session;
    const at = owner.putTensors("scatter_add", [this, idsOf(owner, "scatter_add", ids), source]);
    owner.putInteger(at, "scatter_add", axis);
    return owner.assign(this, 286);
  }

  /** Writes what `scatterReduce` gives over this tensor. */
  scatterReduce_(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>, reduce?: "sum" | "prod" | "mean" | "amax" | "amin", includeSelf?: boolean): this {
    const owner = this.session;
    let at = owner.putTensors("scatter_reduce", [this, idsOf(owner, "scatter_reduce", ids), source]);
    at = owner.putInteger(at, "scatter_reduce", axis);
    at = owner.putWord(at, "scatter_reduce", ["sum","prod","mean","amax","amin"], reduce);
    owner.putBool(at, "scatter_reduce", includeSelf);
    return owner.assign(this, 287);
  }

  /** Writes what `indexAdd` gives over this tensor. */
  indexAdd_(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>, alpha?: Scalar): this {
    const owner = this.session;
    let at = owner.putTensors("index_add", [this, idsOf(owner, "index_add", ids), source]);
    at = owner.putInteger(at, "index_add", axis);
    owner.putScalar(at, "index_add", alpha);
    return owner.assign(this, 288);
  }

  /** Writes what `indexCopy` gives over this tensor. */
  indexCopy_(axis: number, ids: Tensor<R> | Ids, source: Tensor<R>): this {
    const owner = this.session;
    const at = owner.putTensors("index_copy", [this, idsOf(owner, "index_copy", ids), source]);
    owner.putInteger(at, "index_copy", axis);
    return owner.assign(this, 289);
  }

  /** Writes what `indexFill` gives over this tensor. */
  indexFill_(axis: number, ids: Tensor<R> | Ids, value: Scalar): this {
    const owner = this.session;
    let at = owner.putTensors("index_fill", [this, idsOf(owner, "index_fill", ids)]);
    at = owner.putInteger(at, "index_fill", axis);
    owner.putScalar(at, "index_fill", value);
    return owner.assign(this, 290);
  }

  /** Writes what `maskedFill` gives over this tensor. */
  maskedFill_(mask: Tensor<R>, value: Scalar): this {
    const owner = this.session;
    const at = owner.putTensors("masked_fill", [this, mask]);
    owner.putScalar(at, "masked_fill", value);
    return owner.assign(this, 291);
  }

  /** Writes what `maskedScatter` gives over this tensor. */
  maskedScatter_(mask: Tensor<R>, source: Tensor<R>): this {
    const owner = this.session;
    owner.putTensors("masked_scatter", [this, mask, source]);
    return owner.assign(this, 292);
  }

  /** Writes what `cumsum` gives over this tensor. */
  cumsum_(axis: number): this {
    const owner = this.session;
    const at = owner.putTensors("cumsum", [this]);
    owner.putInteger(at, "cumsum", axis);
    return owner.assign(this, 301);
  }

  /** Writes what `cumprod` gives over this tensor. */
  cumprod_(axis: number): this {
    const owner = this.session;
    const at = owner.putTensors("cumprod", [this]);
    owner.putInteger(at, "cumprod", axis);
    return owner.assign(this, 302);
  }

  static readonly lower_triangle = Operations.lowerTriangle;

  static readonly multi_dot = Operations.multiDot;

  static readonly block_diag = Operations.blockDiag;

  static readonly global_norm = Operations.globalNorm;

  static readonly sinusoidal_positions = Operations.sinusoidalPositions;

  static readonly alibi_slopes = Operations.alibiSlopes;
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
  full_like: Operations<R>["fullLike"];
  zeros_like: Operations<R>["zerosLike"];
  ones_like: Operations<R>["onesLike"];
  shift_left: Operations<R>["shiftLeft"];
  shift_right: Operations<R>["shiftRight"];
  bitwise_and: Operations<R>["bitwiseAnd"];
  bitwise_or: Operations<R>["bitwiseOr"];
  bitwise_xor: Operations<R>["bitwiseXor"];
  bitwise_not: Operations<R>["bitwiseNot"];
  logical_xor: Operations<R>["logicalXor"];
  remainder_scalar: Operations<R>["remainderScalar"];
  floor_divide: Operations<R>["floorDivide"];
  floor_divide_scalar: Operations<R>["floorDivideScalar"];
  trunc_divide: Operations<R>["truncDivide"];
  nan_to_num: Operations<R>["nanToNum"];
  log_erfcx: Operations<R>["logErfcx"];
  log_ndtr: Operations<R>["logNdtr"];
  ndtri_exp: Operations<R>["ndtriExp"];
  log_sigmoid: Operations<R>["logSigmoid"];
  leaky_relu: Operations<R>["leakyRelu"];
  quick_gelu: Operations<R>["quickGelu"];
  one_hot: Operations<R>["oneHot"];
  move_axis: Operations<R>["moveAxis"];
  broadcast_to: Operations<R>["broadcastTo"];
  split_sizes: Operations<R>["splitSizes"];
  repeat_interleave: Operations<R>["repeatInterleave"];
  weighted_mean: Operations<R>["weightedMean"];
  as_real: Operations<R>["asReal"];
  as_complex: Operations<R>["asComplex"];
  matmul_as: Operations<R>["matmulAs"];
  cholesky_solve: Operations<R>["choleskySolve"];
  cholesky_inverse: Operations<R>["choleskyInverse"];
  lu_factor: Operations<R>["luFactor"];
  lu_unpack: Operations<R>["luUnpack"];
  lu_solve: Operations<R>["luSolve"];
  solve_triangular: Operations<R>["solveTriangular"];
  triangular_solve: Operations<R>["triangularSolve"];
  matrix_rank: Operations<R>["matrixRank"];
  matrix_power: Operations<R>["matrixPower"];
  matrix_exp: Operations<R>["matrixExp"];
  matrix_norm: Operations<R>["matrixNorm"];
  embedding_grad: Operations<R>["embeddingGrad"];
  index_select: Operations<R>["indexSelect"];
  take_along_axis: Operations<R>["takeAlongAxis"];
  index_put: Operations<R>["indexPut"];
  padded_embedding: Operations<R>["paddedEmbedding"];
  diag_embed: Operations<R>["diagEmbed"];
  swap_axes: Operations<R>["swapAxes"];
  move_axes: Operations<R>["moveAxes"];
  atleast_1d: Operations<R>["atleast1d"];
  atleast_2d: Operations<R>["atleast2d"];
  atleast_3d: Operations<R>["atleast3d"];
  tensor_split: Operations<R>["tensorSplit"];
  split_at: Operations<R>["splitAt"];
  roll_axes: Operations<R>["rollAxes"];
  scatter_add: Operations<R>["scatterAdd"];
  scatter_reduce: Operations<R>["scatterReduce"];
  index_add: Operations<R>["indexAdd"];
  index_copy: Operations<R>["indexCopy"];
  index_fill: Operations<R>["indexFill"];
  masked_fill: Operations<R>["maskedFill"];
  masked_scatter: Operations<R>["maskedScatter"];
  masked_select: Operations<R>["maskedSelect"];
  unique_consecutive: Operations<R>["uniqueConsecutive"];
  repeat_counts: Operations<R>["repeatCounts"];
  cumulative_trapezoid: Operations<R>["cumulativeTrapezoid"];
  log_softmax: Operations<R>["logSoftmax"];
  scaled_dot_product_attention: Operations<R>["scaledDotProductAttention"];
  multi_head_attention: Operations<R>["multiHeadAttention"];
  linear_scan: Operations<R>["linearScan"];
  gated_delta_rule: Operations<R>["gatedDeltaRule"];
  linear_attention: Operations<R>["linearAttention"];
  lstm_cell: Operations<R>["lstmCell"];
  gru_cell: Operations<R>["gruCell"];
  rnn_tanh_cell: Operations<R>["rnnTanhCell"];
  rnn_relu_cell: Operations<R>["rnnReluCell"];
  rnn_tanh: Operations<R>["rnnTanh"];
  rnn_relu: Operations<R>["rnnRelu"];
  mse_loss: Operations<R>["mseLoss"];
  l1_loss: Operations<R>["l1Loss"];
  huber_loss: Operations<R>["huberLoss"];
  smooth_l1_loss: Operations<R>["smoothL1Loss"];
  binary_cross_entropy: Operations<R>["binaryCrossEntropy"];
  binary_cross_entropy_with_logits: Operations<R>["binaryCrossEntropyWithLogits"];
  hinge_loss: Operations<R>["hingeLoss"];
  soft_margin_loss: Operations<R>["softMarginLoss"];
  hinge_embedding_loss: Operations<R>["hingeEmbeddingLoss"];
  poisson_nll_loss: Operations<R>["poissonNllLoss"];
  gaussian_nll_loss: Operations<R>["gaussianNllLoss"];
  quantile_loss: Operations<R>["quantileLoss"];
  cross_entropy: Operations<R>["crossEntropy"];
  nll_loss: Operations<R>["nllLoss"];
  kl_div: Operations<R>["klDiv"];
  multilabel_soft_margin_loss: Operations<R>["multilabelSoftMarginLoss"];
  cosine_similarity: Operations<R>["cosineSimilarity"];
  pairwise_distance: Operations<R>["pairwiseDistance"];
  cosine_embedding_loss: Operations<R>["cosineEmbeddingLoss"];
  margin_ranking_loss: Operations<R>["marginRankingLoss"];
  triplet_margin_loss: Operations<R>["tripletMarginLoss"];
  bernoulli_like: Operations<R>["bernoulliLike"];
  uniform_like: Operations<R>["uniformLike"];
  normal_like: Operations<R>["normalLike"];
  random_bits: Operations<R>["randomBits"];
  truncated_normal: Operations<R>["truncatedNormal"];
  sample_logits: Operations<R>["sampleLogits"];
  stop_gradient: Operations<R>["stopGradient"];
  paged_update: Operations<R>["pagedUpdate"];
  paged_attention: Operations<R>["pagedAttention"];
  update_slice: Operations<R>["updateSlice"];
  clip_by_norm: Operations<R>["clipByNorm"];
  reflection_pad: Operations<R>["reflectionPad"];
  replication_pad: Operations<R>["replicationPad"];
  circular_pad: Operations<R>["circularPad"];
  sliding_window: Operations<R>["slidingWindow"];
  conv_transpose1d: Operations<R>["convTranspose1d"];
  conv_transpose2d: Operations<R>["convTranspose2d"];
  conv_transpose3d: Operations<R>["convTranspose3d"];
  short_conv1d: Operations<R>["shortConv1d"];
  max_pool1d: Operations<R>["maxPool1d"];
  max_pool2d: Operations<R>["maxPool2d"];
  max_pool3d: Operations<R>["maxPool3d"];
  max_pool1d_with_indices: Operations<R>["maxPool1dWithIndices"];
  max_pool2d_with_indices: Operations<R>["maxPool2dWithIndices"];
  max_pool3d_with_indices: Operations<R>["maxPool3dWithIndices"];
  avg_pool1d: Operations<R>["avgPool1d"];
  avg_pool2d: Operations<R>["avgPool2d"];
  avg_pool3d: Operations<R>["avgPool3d"];
  lp_pool1d: Operations<R>["lpPool1d"];
  lp_pool2d: Operations<R>["lpPool2d"];
  lp_pool3d: Operations<R>["lpPool3d"];
  adaptive_avg_pool1d: Operations<R>["adaptiveAvgPool1d"];
  adaptive_avg_pool2d: Operations<R>["adaptiveAvgPool2d"];
  adaptive_avg_pool3d: Operations<R>["adaptiveAvgPool3d"];
  adaptive_max_pool1d: Operations<R>["adaptiveMaxPool1d"];
  adaptive_max_pool2d: Operations<R>["adaptiveMaxPool2d"];
  adaptive_max_pool3d: Operations<R>["adaptiveMaxPool3d"];
  adaptive_max_pool1d_with_indices: Operations<R>["adaptiveMaxPool1dWithIndices"];
  adaptive_max_pool2d_with_indices: Operations<R>["adaptiveMaxPool2dWithIndices"];
  adaptive_max_pool3d_with_indices: Operations<R>["adaptiveMaxPool3dWithIndices"];
  global_avg_pool: Operations<R>["globalAvgPool"];
  global_max_pool: Operations<R>["globalMaxPool"];
  pixel_shuffle: Operations<R>["pixelShuffle"];
  pixel_unshuffle: Operations<R>["pixelUnshuffle"];
  channel_shuffle: Operations<R>["channelShuffle"];
  affine_grid: Operations<R>["affineGrid"];
  grid_sample: Operations<R>["gridSample"];
  max_unpool1d: Operations<R>["maxUnpool1d"];
  max_unpool2d: Operations<R>["maxUnpool2d"];
  max_unpool3d: Operations<R>["maxUnpool3d"];
  layer_norm: Operations<R>["layerNorm"];
  rms_norm: Operations<R>["rmsNorm"];
  group_norm: Operations<R>["groupNorm"];
  instance_norm: Operations<R>["instanceNorm"];
  batch_norm: Operations<R>["batchNorm"];
  local_response_norm: Operations<R>["localResponseNorm"];
  weight_norm: Operations<R>["weightNorm"];
  rotary_embedding: Operations<R>["rotaryEmbedding"];
  position_embedding: Operations<R>["positionEmbedding"];
  quantized_linear: Operations<R>["quantizedLinear"];
  alpha_dropout: Operations<R>["alphaDropout"];
  feature_dropout: Operations<R>["featureDropout"];
  feature_alpha_dropout: Operations<R>["featureAlphaDropout"];
  shift_left_: Operations<R>["shiftLeft_"];
  shift_right_: Operations<R>["shiftRight_"];
  bitwise_and_: Operations<R>["bitwiseAnd_"];
  bitwise_or_: Operations<R>["bitwiseOr_"];
  bitwise_xor_: Operations<R>["bitwiseXor_"];
  bitwise_not_: Operations<R>["bitwiseNot_"];
  floor_divide_: Operations<R>["floorDivide_"];
  trunc_divide_: Operations<R>["truncDivide_"];
  nan_to_num_: Operations<R>["nanToNum_"];
  log_erfcx_: Operations<R>["logErfcx_"];
  log_ndtr_: Operations<R>["logNdtr_"];
  ndtri_exp_: Operations<R>["ndtriExp_"];
  log_sigmoid_: Operations<R>["logSigmoid_"];
  leaky_relu_: Operations<R>["leakyRelu_"];
  quick_gelu_: Operations<R>["quickGelu_"];
  index_put_: Operations<R>["indexPut_"];
  scatter_add_: Operations<R>["scatterAdd_"];
  scatter_reduce_: Operations<R>["scatterReduce_"];
  index_add_: Operations<R>["indexAdd_"];
  index_copy_: Operations<R>["indexCopy_"];
  index_fill_: Operations<R>["indexFill_"];
  masked_fill_: Operations<R>["maskedFill_"];
  masked_scatter_: Operations<R>["maskedScatter_"];
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
  full_like: "fullLike",
  zeros_like: "zerosLike",
  ones_like: "onesLike",
  shift_left: "shiftLeft",
  shift_right: "shiftRight",
  bitwise_and: "bitwiseAnd",
  bitwise_or: "bitwiseOr",
  bitwise_xor: "bitwiseXor",
  bitwise_not: "bitwiseNot",
  logical_xor: "logicalXor",
  remainder_scalar: "remainderScalar",
  floor_divide: "floorDivide",
  floor_divide_scalar: "floorDivideScalar",
  trunc_divide: "truncDivide",
  nan_to_num: "nanToNum",
  log_erfcx: "logErfcx",
  log_ndtr: "logNdtr",
  ndtri_exp: "ndtriExp",
  log_sigmoid: "logSigmoid",
  leaky_relu: "leakyRelu",
  quick_gelu: "quickGelu",
  one_hot: "oneHot",
  move_axis: "moveAxis",
  broadcast_to: "broadcastTo",
  split_sizes: "splitSizes",
  repeat_interleave: "repeatInterleave",
  weighted_mean: "weightedMean",
  as_real: "asReal",
  as_complex: "asComplex",
  matmul_as: "matmulAs",
  cholesky_solve: "choleskySolve",
  cholesky_inverse: "choleskyInverse",
  lu_factor: "luFactor",
  lu_unpack: "luUnpack",
  lu_solve: "luSolve",
  solve_triangular: "solveTriangular",
  triangular_solve: "triangularSolve",
  matrix_rank: "matrixRank",
  matrix_power: "matrixPower",
  matrix_exp: "matrixExp",
  matrix_norm: "matrixNorm",
  embedding_grad: "embeddingGrad",
  index_select: "indexSelect",
  take_along_axis: "takeAlongAxis",
  index_put: "indexPut",
  padded_embedding: "paddedEmbedding",
  diag_embed: "diagEmbed",
  swap_axes: "swapAxes",
  move_axes: "moveAxes",
  atleast_1d: "atleast1d",
  atleast_2d: "atleast2d",
  atleast_3d: "atleast3d",
  tensor_split: "tensorSplit",
  split_at: "splitAt",
  roll_axes: "rollAxes",
  scatter_add: "scatterAdd",
  scatter_reduce: "scatterReduce",
  index_add: "indexAdd",
  index_copy: "indexCopy",
  index_fill: "indexFill",
  masked_fill: "maskedFill",
  masked_scatter: "maskedScatter",
  masked_select: "maskedSelect",
  unique_consecutive: "uniqueConsecutive",
  repeat_counts: "repeatCounts",
  cumulative_trapezoid: "cumulativeTrapezoid",
  log_softmax: "logSoftmax",
  scaled_dot_product_attention: "scaledDotProductAttention",
  multi_head_attention: "multiHeadAttention",
  linear_scan: "linearScan",
  gated_delta_rule: "gatedDeltaRule",
  linear_attention: "linearAttention",
  lstm_cell: "lstmCell",
  gru_cell: "gruCell",
  rnn_tanh_cell: "rnnTanhCell",
  rnn_relu_cell: "rnnReluCell",
  rnn_tanh: "rnnTanh",
  rnn_relu: "rnnRelu",
  mse_loss: "mseLoss",
  l1_loss: "l1Loss",
  huber_loss: "huberLoss",
  smooth_l1_loss: "smoothL1Loss",
  binary_cross_entropy: "binaryCrossEntropy",
  binary_cross_entropy_with_logits: "binaryCrossEntropyWithLogits",
  hinge_loss: "hingeLoss",
  soft_margin_loss: "softMarginLoss",
  hinge_embedding_loss: "hingeEmbeddingLoss",
  poisson_nll_loss: "poissonNllLoss",
  gaussian_nll_loss: "gaussianNllLoss",
  quantile_loss: "quantileLoss",
  cross_entropy: "crossEntropy",
  nll_loss: "nllLoss",
  kl_div: "klDiv",
  multilabel_soft_margin_loss: "multilabelSoftMarginLoss",
  cosine_similarity: "cosineSimilarity",
  pairwise_distance: "pairwiseDistance",
  cosine_embedding_loss: "cosineEmbeddingLoss",
  margin_ranking_loss: "marginRankingLoss",
  triplet_margin_loss: "tripletMarginLoss",
  bernoulli_like: "bernoulliLike",
  uniform_like: "uniformLike",
  normal_like: "normalLike",
  random_bits: "randomBits",
  truncated_normal: "truncatedNormal",
  sample_logits: "sampleLogits",
  stop_gradient: "stopGradient",
  paged_update: "pagedUpdate",
  paged_attention: "pagedAttention",
  update_slice: "updateSlice",
  clip_by_norm: "clipByNorm",
  reflection_pad: "reflectionPad",
  replication_pad: "replicationPad",
  circular_pad: "circularPad",
  sliding_window: "slidingWindow",
  conv_transpose1d: "convTranspose1d",
  conv_transpose2d: "convTranspose2d",
  conv_transpose3d: "convTranspose3d",
  short_conv1d: "shortConv1d",
  max_pool1d: "maxPool1d",
  max_pool2d: "maxPool2d",
  max_pool3d: "maxPool3d",
  max_pool1d_with_indices: "maxPool1dWithIndices",
  max_pool2d_with_indices: "maxPool2dWithIndices",
  max_pool3d_with_indices: "maxPool3dWithIndices",
  avg_pool1d: "avgPool1d",
  avg_pool2d: "avgPool2d",
  avg_pool3d: "avgPool3d",
  lp_pool1d: "lpPool1d",
  lp_pool2d: "lpPool2d",
  lp_pool3d: "lpPool3d",
  adaptive_avg_pool1d: "adaptiveAvgPool1d",
  adaptive_avg_pool2d: "adaptiveAvgPool2d",
  adaptive_avg_pool3d: "adaptiveAvgPool3d",
  adaptive_max_pool1d: "adaptiveMaxPool1d",
  adaptive_max_pool2d: "adaptiveMaxPool2d",
  adaptive_max_pool3d: "adaptiveMaxPool3d",
  adaptive_max_pool1d_with_indices: "adaptiveMaxPool1dWithIndices",
  adaptive_max_pool2d_with_indices: "adaptiveMaxPool2dWithIndices",
  adaptive_max_pool3d_with_indices: "adaptiveMaxPool3dWithIndices",
  global_avg_pool: "globalAvgPool",
  global_max_pool: "globalMaxPool",
  pixel_shuffle: "pixelShuffle",
  pixel_unshuffle: "pixelUnshuffle",
  channel_shuffle: "channelShuffle",
  affine_grid: "affineGrid",
  grid_sample: "gridSample",
  max_unpool1d: "maxUnpool1d",
  max_unpool2d: "maxUnpool2d",
  max_unpool3d: "maxUnpool3d",
  layer_norm: "layerNorm",
  rms_norm: "rmsNorm",
  group_norm: "groupNorm",
  instance_norm: "instanceNorm",
  batch_norm: "batchNorm",
  local_response_norm: "localResponseNorm",
  weight_norm: "weightNorm",
  rotary_embedding: "rotaryEmbedding",
  position_embedding: "positionEmbedding",
  quantized_linear: "quantizedLinear",
  alpha_dropout: "alphaDropout",
  feature_dropout: "featureDropout",
  feature_alpha_dropout: "featureAlphaDropout",
  shift_left_: "shiftLeft_",
  shift_right_: "shiftRight_",
  bitwise_and_: "bitwiseAnd_",
  bitwise_or_: "bitwiseOr_",
  bitwise_xor_: "bitwiseXor_",
  bitwise_not_: "bitwiseNot_",
  floor_divide_: "floorDivide_",
  trunc_divide_: "truncDivide_",
  nan_to_num_: "nanToNum_",
  log_erfcx_: "logErfcx_",
  log_ndtr_: "logNdtr_",
  ndtri_exp_: "ndtriExp_",
  log_sigmoid_: "logSigmoid_",
  leaky_relu_: "leakyRelu_",
  quick_gelu_: "quickGelu_",
  index_put_: "indexPut_",
  scatter_add_: "scatterAdd_",
  scatter_reduce_: "scatterReduce_",
  index_add_: "indexAdd_",
  index_copy_: "indexCopy_",
  index_fill_: "indexFill_",
  masked_fill_: "maskedFill_",
  masked_scatter_: "maskedScatter_",
} as const;

for (const [alias, name] of Object.entries(ALIASES)) {
  const value = Operations.prototype[name];
  Object.defineProperty(Operations.prototype, alias, { value, writable: true, configurable: true });
}
