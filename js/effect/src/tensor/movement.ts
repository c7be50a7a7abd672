/** Other shapes of the same elements: reshaping, joining, cutting, padding. */

import { Effect } from "effect";
import { dual } from "effect/Function";

import * as Runtime from "../runtime.js";
import {
  build,
  failure,
  guarded,
  optional,
  type Any,
  type Built,
  type Lazy,
  type Optional,
  type TensorError,
  type With,
} from "./core.js";

/** The same elements in another shape; one size may be -1 for what is left. Fails for another number of elements. */
export const reshape: With<ReadonlyArray<number>> = dual(2, (self: Any, shape: ReadonlyArray<number>) =>
  build("reshape", { op: "reshape", inputs: [self], attributes: { shape } }),
);

/** The axes in another order: axis `i` of the result is axis `dims[i]`. Fails unless each axis is named once. */
export const transpose: With<ReadonlyArray<number>> = dual(2, (self: Any, dims: ReadonlyArray<number>) =>
  build("transpose", { op: "permute", inputs: [self], attributes: { dims } }),
);

/** Options of `slice`: one number for each leading axis. */
export interface SliceOptions {
  /** First places, from the end where negative; 0 by default. */
  readonly start?: ReadonlyArray<number>;
  /** Places after the last, from the end where negative; the sizes by default. */
  readonly end?: ReadonlyArray<number>;
  /** Distances of places; 1 by default. */
  readonly stride?: ReadonlyArray<number>;
}

/** A part of a tensor. Axes that the options do not name are taken whole. */
export const slice: With<SliceOptions> = dual(
  2,
  guarded("slice", (self: Any, { start = [], end = [], stride = [] }: SliceOptions) => {
    const rank = self.shape.length;
    const named = Math.max(start.length, end.length, stride.length);
    if (named > rank)
      return failure("slice", `the options name ${named} axes, and the shape [${self.shape.join(", ")}] has ${rank}`);
    const ranges = self.shape.map((size, axis) => [start[axis] ?? 0, end[axis] ?? size, stride[axis] ?? 1]);
    return build("slice", { op: "slice", inputs: [self], attributes: { ranges } });
  }),
);

/** Options of `flatten`. */
export interface FlattenOptions {
  /** The first of the axes; 0 by default. */
  readonly startDim?: number;
  /** The last of the axes; the last of the tensor by default. */
  readonly endDim?: number;
}

/** Neighbouring axes, all by default, as one. */
export const flatten: Optional<FlattenOptions> = optional("flatten", (self, options: FlattenOptions | undefined) =>
  build("flatten", () => ({
    op: "flatten",
    inputs: [self],
    attributes: { startDim: options?.startDim ?? 0, endDim: options?.endDim ?? -1 },
  })),
);

/** A tensor without axes of size 1: those that `dims` names, or all. Fails for an axis of another size. */
export const squeeze: Optional<{ readonly dims?: ReadonlyArray<number> }> = optional(
  "squeeze",
  (self, options: { readonly dims?: ReadonlyArray<number> } | undefined) =>
    build("squeeze", () => ({ op: "squeeze", inputs: [self], attributes: { dims: options?.dims ?? [] } })),
);

/** A tensor with a new axis of size 1 at that place. */
export const unsqueeze: With<number> = dual(2, (self: Any, dim: number) =>
  build("unsqueeze", { op: "unsqueeze", inputs: [self], attributes: { dim } }),
);

/** A tensor with axes of size 1, and new leading ones, repeated to a shape. Fails for a shape that does not fit. */
export const broadcastTo: With<ReadonlyArray<number>> = dual(2, (self: Any, shape: ReadonlyArray<number>) =>
  build("broadcastTo", { op: "broadcastTo", inputs: [self], attributes: { shape } }),
);

/** An axis, the first by default. */
interface AlongOptions {
  readonly dim?: number;
}

/** Two tensors or more. */
type Several = readonly [Any, Any, ...ReadonlyArray<Any>];

/** Tensors one after the other along an axis, the first by default. Fails where other sizes or dtypes differ. */
export const concat = (tensors: Several, options?: AlongOptions): Built =>
  build("concat", () => ({ op: "concat", inputs: tensors, attributes: { dim: options?.dim ?? 0 } }));

/** Tensors of one shape along a new axis, the first by default. Fails where shapes or dtypes differ. */
export const stack = (tensors: Several, options?: AlongOptions): Built =>
  build("stack", () => ({ op: "stack", inputs: tensors, attributes: { dim: options?.dim ?? 0 } }));

/** Parts of a tensor. */
type Parts = Effect.Effect<Array<Lazy>, TensorError, Runtime.Runtime>;

/** The parts of those sizes along an axis. */
function cut(op: string, self: Any, sizes: ReadonlyArray<number>, axis: number): Parts {
  let from = 0;
  const ranges = sizes.map((size) => [from, (from += size), 1] as const);
  return Effect.forEach(ranges, (range) => {
    const whole = self.shape.map((size, at) => (at === axis ? range : [0, size, 1]));
    return build(op, { op: "slice", inputs: [self], attributes: { ranges: whole } });
  });
}

/** Sizes of `size`, of which the last may be smaller, that add up to `total`. */
function sizesOf(total: number, size: number): ReadonlyArray<number> {
  return Array.from({ length: Math.max(1, Math.ceil(total / size)) }, (_, at) => Math.min(size, total - at * size));
}

/** The axis that a number names, or undefined. */
function axisOf(self: Any, dim: number): number | undefined {
  const axis = dim < 0 ? dim + self.shape.length : dim;
  return Number.isInteger(axis) && self.shape[axis] !== undefined ? axis : undefined;
}

const isCount = (value: number) => Number.isInteger(value) && value > 0;

const noAxis = (op: string, self: Any, dim: number) =>
  failure(op, `there is no axis ${dim} in the shape [${self.shape.join(", ")}]`);

/**
 * Parts along an axis, the first by default: each of a size, the last perhaps smaller, or of sizes one by one.
 *
 * Fails for sizes that do not add up to the axis.
 */
export const split = guarded(
  "split",
  (self: Any, sections: number | ReadonlyArray<number>, options?: AlongOptions): Parts => {
    const dim = options?.dim ?? 0;
    const axis = axisOf(self, dim);
    if (axis === undefined) return noAxis("split", self, dim);
    const size = self.shape[axis] as number;
    if (typeof sections === "number") {
      if (!isCount(sections))
        return failure("split", `the size of a part is ${sections}, expected a whole number above 0`);
      return cut("split", self, sizesOf(size, sections), axis);
    }
    const total = sections.reduce((sum, part) => sum + part, 0);
    if (total !== size || !sections.every((part) => Number.isInteger(part) && part >= 0)) {
      return failure("split", `parts of [${sections.join(", ")}] do not add up to the ${size} of axis ${dim}`);
    }
    return cut("split", self, sections, axis);
  },
);

/** At most that many parts along an axis, the first by default: of one size, the last perhaps smaller. */
export const chunk = guarded("chunk", (self: Any, chunks: number, options?: AlongOptions): Parts => {
  const dim = options?.dim ?? 0;
  const axis = axisOf(self, dim);
  if (axis === undefined) return noAxis("chunk", self, dim);
  if (!isCount(chunks)) return failure("chunk", `the number of parts is ${chunks}, expected a whole number above 0`);
  const size = self.shape[axis] as number;
  return cut("chunk", self, sizesOf(size, Math.max(1, Math.ceil(size / chunks))), axis);
});

/** A tensor repeated along each axis; more numbers than axes add leading ones. */
export const tile = (self: Any, reps: ReadonlyArray<number>): Built =>
  build("tile", { op: "tile", inputs: [self], attributes: { reps } });

/** A tensor with zeros before and after each axis. Fails unless each axis has a pair. */
export const pad = (self: Any, pads: ReadonlyArray<readonly [before: number, after: number]>): Built =>
  build("pad", { op: "pad", inputs: [self], attributes: { pads } });

/** A tensor with the order along axes turned round. */
export const flip = (self: Any, dims: ReadonlyArray<number>): Built =>
  build("flip", { op: "flip", inputs: [self], attributes: { dims } });

/** The diagonal of `triu` and `tril`. */
interface DiagonalOptions {
  /** 0, the default, for the main diagonal; above it where positive. */
  readonly diagonal?: number;
}

const triangle = (op: "triu" | "tril"): Optional<DiagonalOptions> =>
  optional(op, (self, options: DiagonalOptions | undefined) =>
    build(op, () => ({ op, inputs: [self], attributes: { diagonal: options?.diagonal ?? 0 } })),
  );

/** The elements of matrices on and above a diagonal, and 0 elsewhere. */
export const triu: Optional<DiagonalOptions> = triangle("triu");
/** The elements of matrices on and below a diagonal, and 0 elsewhere. */
export const tril: Optional<DiagonalOptions> = triangle("tril");
