/** Ops of the table under names that torch and NumPy users know. */

import { randomKey } from "./create.js";
import { codeOf, describe, type DType, type DTypeName, type Scalar } from "./dtype.js";
import { errorOf, nameErrors, renamed } from "./errors.js";
import { Operations } from "./generated/ops.js";
import { within, type Integers } from "./session.js";
import type { Reading, Tensor } from "./tensor.js";

/** Methods that only give an op of `Operations` another name or form. */
export abstract class Synonyms<R extends Reading> extends Operations<R> {
  abstract readonly shape: readonly number[];

  /** The same elements in another shape; one size may be -1. A list, or sizes one by one. A view where it can be. */
  override reshape(...shape: OneOrMore): Tensor<R> {
    return super.reshape(listed(shape));
  }

  /** As `reshape`. */
  view(...shape: OneOrMore): Tensor<R> {
    return super.reshape(listed(shape));
  }

  /** The axes in another order. A list, or axes one by one. A view. */
  override permute(...axes: OneOrMore): Tensor<R> {
    return super.permute(listed(axes));
  }

  /** Broadcast to a shape, in which -1 keeps a size. A list, or sizes one by one. */
  override expand(...shape: OneOrMore): Tensor<R> {
    return super.expand(listed(shape));
  }

  /** Repeated so often along each axis. A list, or counts one by one. */
  override repeat(...repeats: OneOrMore): Tensor<R> {
    return super.repeat(listed(repeats));
  }

  /** Axes in reverse order, all if none are named. A list, or axes one by one. A copy. */
  override flip(...axes: [axes?: Integers | undefined] | number[]): Tensor<R> {
    return super.flip(axes.length > 0 && axes[0] !== undefined ? listed(axes as OneOrMore) : undefined);
  }

  /** The two axes of a matrix swapped. A view. */
  t(): Tensor<R> {
    return this.transpose(-2, -1);
  }

  /** `x - y`, or with `reverse` `y - x`. */
  override sub(y: Tensor<R> | Scalar, reverse = false): Tensor<R> {
    if (reverse === false) return super.sub(y);
    return this.reversed("sub", y, reverse, (first, second) => first.sub(second));
  }

  /**
   * `x / y`, or with `reverse` `y / x`; integers truncate towards zero. A rounding gives a whole number: `"trunc"` towards
   * zero, `"floor"` downwards.
   */
  override div(y: Tensor<R> | Scalar, rounding?: "trunc" | "floor" | null, reverse = false): Tensor<R> {
    if (rounding === undefined && reverse === false) return super.div(y);
    return this.reversed("div", y, reverse, (first, second) => {
      switch (rounding ?? "none") {
        case "none":
          return first.div(second);
        case "trunc":
          return isFloat(first.dtype) ? first.div(second).trunc() : first.div(second);
        case "floor":
          return first.floorDivide(second);
        default:
          throw errorOf("unsupported", "div", `the rounding is ${describe(rounding)}, expected "trunc", "floor" or null`);
      }
    });
  }

  /** The rest of a division, with the sign of the divisor, as Python's `%`; with `reverse` that of `y` by `x`. */
  mod(y: Tensor<R> | Scalar, reverse = false): Tensor<R> {
    return this.reversed("mod", y, reverse, (first, second) => first.remainder(second));
  }

  /** What `apply` gives of this tensor and `y`, or of `y` and this tensor. */
  private reversed(
    op: string,
    y: Tensor<R> | Scalar,
    reverse: boolean,
    apply: (first: Tensor<R>, second: Tensor<R> | Scalar) => Tensor<R>,
  ): Tensor<R> {
    if (typeof reverse !== "boolean") throw errorOf("dtype", op, `reverse is ${describe(reverse)}, expected true or false`);
    const own = this as unknown as Tensor<R>;
    try {
      if (!reverse) return apply(own, y);
      if (typeof y === "object") {
        this.session.handle(op, y);
        return apply(y, own);
      }
      return apply(within(this.session, () => Operations.full<R>([], y, { dtype: own.dtype })), own);
    } catch (error) {
      throw renamed(error, op);
    }
  }

  /** The axes in reverse order. A view. */
  get T(): Tensor<R> {
    return this.permute(this.shape.map((_, axis) => this.shape.length - 1 - axis));
  }

  /** The last two axes swapped. A view. */
  get mT(): Tensor<R> {
    return this.transpose(-2, -1);
  }

  /** The number of elements. */
  numel(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }

  /** The number of axes. */
  dim(): number {
    return this.shape.length;
  }

  /** The number of axes. */
  get ndim(): number {
    return this.shape.length;
  }

  /** The same values in another dtype. */
  to(dtype: DTypeName): Tensor<R> {
    codeOf(dtype);
    return this.cast(dtype);
  }

  /** As `f32`. */
  float(): Tensor<R> {
    return this.cast("f32");
  }

  /** As `f64`. */
  double(): Tensor<R> {
    return this.cast("f64");
  }

  /** As `f16`. */
  half(): Tensor<R> {
    return this.cast("f16");
  }

  /** As `i32`. */
  int(): Tensor<R> {
    return this.cast("i32");
  }

  /** As `i64`. */
  long(): Tensor<R> {
    return this.cast("i64");
  }

  /** As `bool`: true where not 0. */
  bool(): Tensor<R> {
    return this.cast("bool");
  }

  /** Zeros with probability `p`, and the rest times `1 / (1 - p)`. Without a key, from the next draw. */
  override dropout(p: number, key?: Tensor<R>, stream?: number): Tensor<R> {
    return super.dropout(p, key ?? within(this.session, () => randomKey<R>()), stream);
  }

  /** As `moveAxis`. */
  movedim(from: number, to: number): Tensor<R> {
    return this.moveAxis(from, to);
  }

  /** As `swapAxes`. */
  swapaxes(first: number, second: number): Tensor<R> {
    return this.swapAxes(first, second);
  }

  /** As `clamp`. */
  clip(low?: Scalar, high?: Scalar): Tensor<R> {
    return this.clamp(low, high);
  }

  /** As `inverse`. */
  inv(): Tensor<R> {
    return this.inverse();
  }

  /** As `shiftLeft`. */
  lshift(other: Tensor<R>): Tensor<R> {
    return this.shiftLeft(other);
  }

  /** As `shiftRight`. */
  rshift(other: Tensor<R>): Tensor<R> {
    return this.shiftRight(other);
  }
}

// `sub` and `div` are called often and name themselves.
nameErrors(Synonyms.prototype, ["reversed", "sub", "div"]);

function isFloat(dtype: DType): boolean {
  return /^(bf16|f\d)/.test(dtype);
}

/** Integers given as one list, or one by one. */
export type OneOrMore = [list: Integers] | number[];

/** Integers as one list. */
function listed(given: OneOrMore): Integers {
  const [first] = given;
  return given.length === 1 && first !== undefined ? first : (given as number[]);
}
