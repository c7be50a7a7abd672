/** Elements by their places. Places are `i64` or `u32`; one out of range is an error when the program runs. */

import { dual } from "effect/Function";

import { build, guarded, isDataFirst, type Any, type Built, type FloatDType } from "./core.js";

interface AlongOptions {
  readonly dim?: number;
}

/** A function of a tensor, places and options that may be left out. */
interface Placed {
  (indexes: Any, options?: AlongOptions): (self: Any) => Built;
  (self: Any, indexes: Any, options?: AlongOptions): Built;
}

/** The slices at places `[n]` of an axis, the first by default. */
export const take: Placed = dual(isDataFirst, (self: Any, indexes: Any, options?: AlongOptions) =>
  build("take", () => ({ op: "indexSelect", inputs: [self, indexes], attributes: { dim: options?.dim ?? 0 } })),
);

/**
 * For each place of `indexes`, which has the rank of the tensor, the element whose place along an axis is the index, and
 * along others its own. The axis is the first by default.
 */
export const gather: Placed = dual(isDataFirst, (self: Any, indexes: Any, options?: AlongOptions) =>
  build("gather", () => ({ op: "gather", inputs: [self, indexes], attributes: { dim: options?.dim ?? 0 } })),
);

/**
 * The tensor with each element of `src` added at the place that `gather` would read. Elements for the same place add up.
 *
 * Fails where `src` and `indexes` differ in shape, or `src` and the tensor in dtype.
 */
export const scatterAdd = (self: Any, indexes: Any, src: Any, options?: AlongOptions): Built =>
  build("scatterAdd", () => ({
    op: "scatterAdd",
    inputs: [self, indexes, src],
    attributes: { dim: options?.dim ?? 0 },
  }));

/** A last axis of `depth` elements, 1 at the index and 0 elsewhere. */
export const oneHot = (indexes: Any, depth: number, options?: { readonly dtype?: FloatDType }): Built =>
  build("oneHot", () => ({ op: "oneHot", inputs: [indexes], attributes: { depth, dtype: options?.dtype ?? "f32" } }));

/**
 * The rows of `weight`, `[rows, width]`, at indexes of any shape: `[.., width]`.
 *
 * No gradient flows to the row `paddingIndex`.
 */
export const embedding = guarded(
  "embedding",
  (indexes: Any, options: { readonly weight: Any; readonly paddingIndex?: number }): Built => {
    const { weight, paddingIndex } = options;
    const attributes = paddingIndex === undefined ? {} : { paddingIndex };
    return build("embedding", { op: "embedding", inputs: [indexes, weight], attributes });
  },
);
