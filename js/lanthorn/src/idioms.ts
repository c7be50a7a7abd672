/** Methods under which users of torch and polygrad expect something that an op of the table does in another form. */

import { random, randomKey, settingsOf, tensorsOf, type Ids } from "./create.js";
import { describe, type DType, type Scalar } from "./dtype.js";
import { errorOf, nameErrors } from "./errors.js";
import { Operations } from "./generated/ops.js";
import { within, type Integers } from "./session.js";
import { Synonyms, type OneOrMore } from "./synonyms.js";
import { isTraining } from "./training.js";
import type { Reading, Tensor } from "./tensor.js";

/** How `sampleLogits` draws. */
export interface SampleOptions {
  /** What the logits are divided by: below 1 likelier classes become likelier still. 1 if left out. */
  temperature?: number | undefined;
  /** How many of the largest logits take part, and all that equal the last of them. 0, all, if left out. */
  topK?: number | undefined;
  /** Whether the last axis stays, of size 1. */
  keepdim?: boolean | undefined;
}

/** How many elements `pad` puts before and after each axis. */
type Widths = readonly (readonly [before: number, after: number] | null)[];

export abstract class Idioms<R extends Reading> extends Synonyms<R> {
  abstract readonly dtype: DType;
  abstract readonly isView: boolean;

  /** A tensor of its own with the same elements: no write to one reaches the other. Gradients pass. */
  clone(): Tensor<R> {
    return this.cast(this.dtype);
  }

  /** The tensor itself, or where it is a view a copy, whose elements lie in a row. */
  contiguous(): Tensor<R> {
    return this.isView ? this.clone() : (this as unknown as Tensor<R>);
  }

  /** The same elements in another shape, as a view: an error where they would have to be copied, see `reshape`. */
  override view(...shape: OneOrMore): Tensor<R> {
    const view = this.reshape(...shape);
    if (view.isView) return view;
    const [found, wanted] = [this.shape, view.shape].map((sizes) => sizes.join(", "));
    view.dispose();
    const message = `the elements do not lie in a row, so that no view of [${found}] has the shape [${wanted}]; use reshape, which copies`;
    throw errorOf("shape", "view", message);
  }

  /** The two axes of a matrix swapped, of a batch of them the last two. A vector or a number as it is. A view. */
  override t(): Tensor<R> {
    return this.shape.length < 2 ? this.permute(this.shape.map((_, axis) => axis)) : super.t();
  }

  /**
   * The product of two vectors, of a matrix and a vector, or of matrices, also of batches of them: `matmul`. `vecdot` has
   * products of rows.
   *
   * ```ts
   * Tensor.rand(3, 4).dot(Tensor.rand(4, 5)).softmax(-1).shape; // [3, 5]
   * ```
   */
  override dot(y: Tensor<R>): Tensor<R> {
    return this.matmul(y);
  }

  /** A range `[start, stop]` of each axis, null for a whole one. A view. */
  shrink(ranges: readonly (readonly [start: number, stop: number] | null)[]): Tensor<R> {
    const { shape } = this;
    if (!Array.isArray(ranges) || ranges.length !== shape.length) {
      const found = Array.isArray(ranges) ? `a list of ${ranges.length}` : describe(ranges);
      throw errorOf("shape", "shrink", `got ${found}, expected ${shape.length} ranges, one for each axis`);
    }
    const whole = ranges.map((range, axis): readonly [number, number] => {
      const size = shape[axis] as number;
      if (range === null || range === undefined) return [0, size];
      const [start, stop] = Array.isArray(range) && range.length === 2 ? range : [];
      if (Number.isInteger(start) && Number.isInteger(stop) && 0 <= start && start <= stop && stop <= size) return [start, stop];
      const found = Array.isArray(range) ? `[${range.join(", ")}]` : describe(range);
      throw errorOf("shape", "shrink", `the range of axis ${axis} is ${found}, expected [start, stop] within 0 to ${size}, or null`);
    });
    return (this as unknown as Tensor<R>).slice(whole);
  }

  /**
   * Elements put around, 0 if no value is given: `low[i]` before and `high[i]` after axis `i`, fewer than 0 cut off. Also as a
   * pair for each axis, null for none.
   *
   * ```ts
   * Tensor.ones(2, 2).pad([null, [1, 1]]).shape; // [2, 4]
   * ```
   */
  override pad(widths: Widths, value?: Scalar): Tensor<R>;
  override pad(low: Integers, high: Integers, value?: Scalar): Tensor<R>;
  override pad(low: Integers | Widths, high?: Integers | Scalar, value?: Scalar): Tensor<R> {
    if (!isWidths(low)) return super.pad(low, high as Integers, value);
    if (low.length !== this.shape.length) {
      throw errorOf("shape", "pad", `got ${low.length} pairs, expected ${this.shape.length}, one for each axis`);
    }
    const pairs = low.map((pair, axis): readonly number[] => {
      if (pair === null || pair === undefined) return [0, 0];
      if (Array.isArray(pair) && pair.length === 2) return pair;
      const found = Array.isArray(pair) ? `a list of ${pair.length}` : describe(pair);
      throw errorOf("shape", "pad", `the pair of axis ${axis} is ${found}, expected [before, after], or null`);
    });
    const [before, after] = [0, 1].map((side) => pairs.map((pair) => pair[side] as number)) as [number[], number[]];
    return super.pad(before, after, high as Scalar | undefined);
  }

  /** Logical not. What is no `bool` is true where it is not 0, here and in the three that follow. */
  override logicalNot(): Tensor<R> {
    return this.dtype === "bool" ? super.logicalNot() : this.bool().logicalNot();
  }

  /** Logical and. */
  override logicalAnd(y: Tensor<R>): Tensor<R> {
    return this.areTruths("logicalAnd", y) ? super.logicalAnd(y) : this.bool().logicalAnd(y.bool());
  }

  /** Logical or. */
  override logicalOr(y: Tensor<R>): Tensor<R> {
    return this.areTruths("logicalOr", y) ? super.logicalOr(y) : this.bool().logicalOr(y.bool());
  }

  /** Logical exclusive or. */
  override logicalXor(y: Tensor<R>): Tensor<R> {
    return this.areTruths("logicalXor", y) ? super.logicalXor(y) : this.bool().logicalXor(y.bool());
  }

  private areTruths(op: string, y: Tensor<R>): boolean {
    this.session.handle(op, y);
    return this.dtype === "bool" && y.dtype === "bool";
  }

  /** This tensor and others, end to end along an axis, 0 if none is named. */
  cat(others: Tensor<R> | readonly Tensor<R>[], axis = 0): Tensor<R> {
    return within(this.session, () => Operations.concat(this.and("cat", others), axis));
  }

  /** This tensor and others, of one shape, along a new axis, the first if none is named. */
  stack(others: Tensor<R> | readonly Tensor<R>[], axis = 0): Tensor<R> {
    return within(this.session, () => Operations.stack(this.and("stack", others), axis));
  }

  /** This tensor and others as a list. */
  private and(op: string, others: Tensor<R> | readonly Tensor<R>[]): Tensor<R>[] {
    const list = Array.isArray(others) ? (others as readonly Tensor<R>[]) : [others as Tensor<R>];
    return [this as unknown as Tensor<R>, ...tensorsOf(op, "others", list)];
  }

  /** Uniform values between 0 and 1 of this tensor's shape and dtype, from the next draw. */
  randLike(): Tensor<R> {
    return within(this.session, () => random<R>("rand", [this.shape, { dtype: this.dtype }]));
  }

  /** Normal values of this tensor's shape and dtype, from the next draw. */
  randnLike(): Tensor<R> {
    return within(this.session, () => random<R>("randn", [this.shape, { dtype: this.dtype }]));
  }

  /** Broadcast to the shape of another tensor. A view. */
  expandAs(other: Tensor<R>): Tensor<R> {
    this.session.handle("expandAs", other);
    return this.expand(other.shape as number[]);
  }

  /** As `max`. */
  amax(axes?: Integers, keepdim?: boolean): Tensor<R> {
    return this.max(axes, keepdim);
  }

  /** As `min`. */
  amin(axes?: Integers, keepdim?: boolean): Tensor<R> {
    return this.min(axes, keepdim);
  }

  /** As `takeAlongAxis`. */
  takeAlongDim(ids: Tensor<R> | Ids, axis: number): Tensor<R> {
    return this.takeAlongAxis(ids, axis);
  }

  /** In the dtype of another tensor. */
  typeAs(other: Tensor<R>): Tensor<R> {
    this.session.handle("typeAs", other);
    return this.cast(other.dtype);
  }

  /**
   * A class for each row of logits `[.., classes]`, `i32`, drawn with the probabilities `softmax(logits / temperature)` from the next
   * draw. Also in the form of the op: a key, then temperature, `topK`, `keepdim` and a stream.
   *
   * ```ts
   * const logits = new Tensor([[1, 2, 3], [3, 2, 1]]);
   * logits.sampleLogits({ temperature: 0.7, topK: 2 }).shape; // [2]
   * ```
   */
  override sampleLogits(
    options: SampleOptions | Tensor<R> = {},
    temperature?: number,
    topK?: number,
    keepdim?: boolean,
    stream?: number,
  ): Tensor<R> {
    if (typeof options === "object" && options !== null && "handle" in options) {
      return super.sampleLogits(options, temperature, topK, keepdim, stream);
    }
    const known = ["temperature", "topK", "keepdim"] as const;
    const settings = settingsOf<SampleOptions>("sampleLogits", options, known);
    const key = within(this.session, () => randomKey<R>());
    return super.sampleLogits(key, settings.temperature, settings.topK, settings.keepdim);
  }

  /** Zeros with probability `p`, and the rest times `1 / (1 - p)`, by the next draw or `key`. As it is where `Tensor.training` is off. */
  override dropout(p: number, key?: Tensor<R>, stream?: number): Tensor<R> {
    return isTraining() ? super.dropout(p, key, stream) : this.clone();
  }
}

export interface Idioms<R extends Reading> {
  sample_logits: Idioms<R>["sampleLogits"];
  rand_like: Idioms<R>["randLike"];
  randn_like: Idioms<R>["randnLike"];
  type_as: Idioms<R>["typeAs"];
  expand_as: Idioms<R>["expandAs"];
  take_along_dim: Idioms<R>["takeAlongDim"];
  logical_not: Idioms<R>["logicalNot"];
  logical_and: Idioms<R>["logicalAnd"];
  logical_or: Idioms<R>["logicalOr"];
  logical_xor: Idioms<R>["logicalXor"];
}

/** Whether `pad` is given a pair for each axis. */
function isWidths(given: Integers | Widths): given is Widths {
  return Array.isArray(given) && given.some((one) => typeof one === "object");
}

nameErrors(Idioms.prototype, ["and", "areTruths"]);

const ALIASES = {
  sample_logits: "sampleLogits",
  rand_like: "randLike",
  randn_like: "randnLike",
  type_as: "typeAs",
  expand_as: "expandAs",
  take_along_dim: "takeAlongDim",
  logical_not: "logicalNot",
  logical_and: "logicalAnd",
  logical_or: "logicalOr",
  logical_xor: "logicalXor",
} as const;

for (const [alias, name] of Object.entries(ALIASES)) {
  const property = Object.getOwnPropertyDescriptor(Idioms.prototype, name) as PropertyDescriptor;
  Object.defineProperty(Idioms.prototype, alias, property);
}
