/** Linear maps and embeddings. */

import { settingsOf, type Ids } from "../create.js";
import type { DTypeName } from "../dtype.js";
import { Tensor, type Reading } from "../tensor.js";
import { expectSizes, uniformWithin, weightOf } from "./checks.js";
import { Module, parameter } from "./module.js";

/** What layers with weights take. */
export interface LayerOptions {
  /** Whether something is added; true if left out. */
  bias?: boolean | undefined;
  /** The dtype of the parameters; `f32` if left out. */
  dtype?: DTypeName | undefined;
}

/** `x W^T + b` of `x [.., inputs]`: `weight [outputs, inputs]`, `bias [outputs]`, uniform within `1 / sqrt(inputs)`. */
export class Linear<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R>;
  bias: Tensor<R> | null;

  constructor(inputs: number, outputs: number, options: LayerOptions = {}) {
    super();
    expectSizes("Linear", { inputs, outputs });
    const { bias = true, dtype } = settingsOf("Linear", options, ["bias", "dtype"]);
    this.weight = weightOf([outputs, inputs], dtype);
    this.bias = bias ? uniformWithin([outputs], inputs, dtype) : null;
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
    expectSizes("Bilinear", { first, second, outputs });
    const { bias = true, dtype } = settingsOf("Bilinear", options, ["bias", "dtype"]);
    this.weight = uniformWithin([outputs, first, second], first, dtype);
    this.bias = bias ? uniformWithin([outputs], first, dtype) : null;
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
    expectSizes("Embedding", { rows, width });
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
