/** Linear maps and embeddings. */

import { settingsOf, type Ids } from "../create.js";
import type { DTypeName } from "../dtype.js";
import { Tensor, type Reading } from "../tensor.js";
import { Module, parameter } from "./module.js";

/** What layers with weights take. */
export interface LayerOptions {
  /** Whether something is added; true if left out. */
  bias?: boolean | undefined;
  /** The dtype of the parameters; `f32` if left out. */
  dtype?: DTypeName | undefined;
}

/** The slope of Kaiming's rule at which weights are uniform within `1 / sqrt(fan in)`: torch's default. */
const SLOPE = Math.sqrt(5);

/** A weight `[outputs, inputs, window..]`, uniform within `1 / sqrt(fan in)`. */
export function weightOf<R extends Reading>(shape: readonly number[], dtype: DTypeName | undefined): Tensor<R> {
  return parameter(Tensor.kaimingUniform<R>(shape, { a: SLOPE, dtype }));
}

/** Values uniform within `1 / sqrt(fanIn)`. */
export function within<R extends Reading>(shape: readonly number[], fanIn: number, dtype: DTypeName | undefined): Tensor<R> {
  const bound = 1 / Math.sqrt(Math.max(fanIn, 1));
  return parameter(Tensor.rand<R>(shape, { low: -bound, high: bound, dtype }));
}

/** `x W^T + b` of `x [.., inputs]`: `weight [outputs, inputs]`, `bias [outputs]`, uniform within `1 / sqrt(inputs)`. */
export class Linear<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R>;
  bias: Tensor<R> | null;

  constructor(inputs: number, outputs: number, options: LayerOptions = {}) {
    super();
    const { bias = true, dtype } = settingsOf("Linear", options, ["bias", "dtype"]);
    this.weight = weightOf([outputs, inputs], dtype);
    this.bias = bias ? within([outputs], inputs, dtype) : null;
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.linear(this.weight, this.bias ?? undefined);
  }
}

/** `x W y + b`: `weight [outputs, first, second]`, `bias [outputs]`. */
export class Bilinear<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R>;
  bias: Tensor<R> | null;

  constructor(first: number, second: number, outputs: number, options: LayerOptions = {}) {
    super();
    const { bias = true, dtype } = settingsOf("Bilinear", options, ["bias", "dtype"]);
    this.weight = within([outputs, first, second], first, dtype);
    this.bias = bias ? within([outputs], first, dtype) : null;
  }

  forward(x: Tensor<R>, y: Tensor<R>): Tensor<R> {
    return x.bilinear(y, this.weight, this.bias ?? undefined);
  }
}

/** What an embedding takes. */
export interface EmbeddingOptions {
  /** The id whose row stays 0 and gets no gradient. */
  paddingIdx?: number | undefined;
  dtype?: DTypeName | undefined;
}

/** Rows of a table by ids, tensors or plain lists: `weight [rows, width]`, normal with deviation 1. */
export class Embedding<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R>;
  readonly paddingIdx: number | undefined;

  constructor(rows: number, width: number, options: EmbeddingOptions = {}) {
    super();
    const { paddingIdx, dtype } = settingsOf("Embedding", options, ["paddingIdx", "dtype"]);
    const table = Tensor.randn<R>([rows, width], { dtype });
    if (paddingIdx !== undefined) table.set([paddingIdx], 0);
    this.weight = parameter(table);
    this.paddingIdx = paddingIdx;
  }

  forward(ids: Tensor<R> | Ids): Tensor<R> {
    if (this.paddingIdx === undefined) return this.weight.embedding(ids);
    return this.weight.paddedEmbedding(ids, this.paddingIdx);
  }
}

/** All axes from `start` to `end` as one. */
export class Flatten<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly start = 1,
    readonly end = -1,
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.flatten(this.start, this.end);
  }
}

/** One axis as several. */
export class Unflatten<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly axis: number,
    readonly sizes: readonly number[],
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.unflatten(this.axis, this.sizes);
  }
}

/** What comes in. */
export class Identity<R extends Reading = "sync"> extends Module<R> {
  forward(x: Tensor<R>): Tensor<R> {
    return x;
  }
}
