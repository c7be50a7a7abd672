/** Attention and the layer of an encoder, with torch's names and shapes; the batch comes first. */

import { settingsOf } from "../create.js";
import { describe, type DTypeName } from "../dtype.js";
import { errorOf } from "../errors.js";
import { within } from "../session.js";
import { Tensor, type Reading } from "../tensor.js";
import { Dropout } from "./activation.js";
import { expectSizes, probabilityOf } from "./checks.js";
import { Linear } from "./linear.js";
import { Module, parameter } from "./module.js";
import { LayerNorm } from "./normalization.js";

/** What a `MultiheadAttention` takes. */
export interface AttentionOptions {
  bias?: boolean | undefined;
  /** Of the attention weights, in training. */
  dropout?: number | undefined;
  dtype?: DTypeName | undefined;
}

/** What one call of a `MultiheadAttention` takes. */
export interface AttentionCall<R extends Reading = "sync"> {
  /** Whether position `i` sees `0..=i` alone. */
  causal?: boolean | undefined;
  /** `bool [queries, keys]`, true where a key is not seen, or numbers that are added to the scores. */
  mask?: Tensor<R> | undefined;
  /** `bool [batch, keys]`, true where a key is padding. */
  keyPaddingMask?: Tensor<R> | undefined;
}

/**
 * Attention of `query [batch, queries, width]` to `key` and `value [batch, keys, width]` in several heads (Vaswani et al.
 * 2017). Parameters: `in_proj_weight [3 width, width]`, `in_proj_bias`, `out_proj.weight`, `out_proj.bias`; the weights
 * uniform as in Glorot and Bengio 2010, the biases 0.
 */
export class MultiheadAttention<R extends Reading = "sync"> extends Module<R> {
  in_proj_weight: Tensor<R>;
  in_proj_bias: Tensor<R> | null;
  out_proj: Linear<R>;
  readonly dropout: number;

  constructor(
    width: number,
    readonly heads: number,
    options: AttentionOptions = {},
  ) {
    super();
    const known = ["bias", "dropout", "dtype"] as const;
    const { bias = true, dropout = 0, dtype } = settingsOf("MultiheadAttention", options, known);
    expectSizes("MultiheadAttention", { width, heads });
    if (!Number.isInteger(heads) || heads < 1 || width % heads !== 0) {
      throw errorOf("shape", "MultiheadAttention", `${heads} heads do not divide the width ${width}`);
    }
    this.dropout = probabilityOf("MultiheadAttention", dropout);
    this.in_proj_weight = parameter(Tensor.xavierUniform<R>([3 * width, width], { dtype }));
    this.in_proj_bias = bias ? parameter(Tensor.zeros<R>([3 * width], { dtype })) : null;
    this.out_proj = new Linear(width, width, { bias, dtype });
    if (this.out_proj.bias !== null) {
      this.out_proj.bias = parameter(Tensor.zeros<R>([width], { dtype }));
    }
  }

  forward(query: Tensor<R>, key: Tensor<R> = query, value: Tensor<R> = key, call: AttentionCall<R> = {}): Tensor<R> {
    const { causal, mask, keyPaddingMask } = call;
    const p = this.isTraining ? this.dropout : 0;
    const none = undefined;
    const [attended] = query.multiHeadAttention(
      ...[key, value, this.heads, this.in_proj_weight, this.in_proj_bias ?? none, this.out_proj.weight] as const,
      ...[this.out_proj.bias ?? none, none, none, none, none, none, keyPaddingMask, mask, false, causal] as const,
      ...[false, true, p, p > 0 ? within(query.session, () => Tensor.randomKey<R>()) : none] as const,
    );
    return attended as Tensor<R>;
  }
}

/** What a `TransformerEncoderLayer` takes. */
export interface EncoderLayerOptions {
  /** The width of the layer between the two linear maps; 2048 if left out. */
  feedForward?: number | undefined;
  /** 0.1 if left out. */
  dropout?: number | undefined;
  activation?: "relu" | "gelu" | undefined;
  /** Whether norms come before attention and map, not after. */
  normFirst?: boolean | undefined;
  eps?: number | undefined;
  dtype?: DTypeName | undefined;
}

/** Self-attention and two linear maps, each with a residual and a norm, of `x [batch, seq, width]` (Vaswani et al. 2017). */
export class TransformerEncoderLayer<R extends Reading = "sync"> extends Module<R> {
  self_attn: MultiheadAttention<R>;
  linear1: Linear<R>;
  linear2: Linear<R>;
  norm1: LayerNorm<R>;
  norm2: LayerNorm<R>;
  readonly drop: Dropout<R>;
  readonly activation: "relu" | "gelu";
  readonly normFirst: boolean;

  constructor(width: number, heads: number, options: EncoderLayerOptions = {}) {
    super();
    const known = ["feedForward", "dropout", "activation", "normFirst", "eps", "dtype"] as const;
    const settings = settingsOf("TransformerEncoderLayer", options, known);
    const { feedForward = 2048, dropout = 0.1, activation = "relu", normFirst = false, eps, dtype } = settings;
    expectSizes("TransformerEncoderLayer", { width, heads, feedForward });
    this.self_attn = new MultiheadAttention(width, heads, { dropout, dtype });
    this.linear1 = new Linear(width, feedForward, { dtype });
    this.linear2 = new Linear(feedForward, width, { dtype });
    this.norm1 = new LayerNorm(width, { eps, dtype });
    this.norm2 = new LayerNorm(width, { eps, dtype });
    this.drop = new Dropout(dropout);
    if (activation !== "relu" && activation !== "gelu") {
      const found = `the activation is ${describe(activation)}`;
      throw errorOf("unsupported", "TransformerEncoderLayer", `${found}, expected "relu" or "gelu"`);
    }
    this.activation = activation;
    this.normFirst = normFirst;
  }

  forward(x: Tensor<R>, call: AttentionCall<R> = {}): Tensor<R> {
    const { norm1, norm2, drop } = this;
    const attended = (x: Tensor<R>) => drop.forward(this.self_attn.forward(x, x, x, call));
    const mapped = (x: Tensor<R>) => {
      const inner = this.linear1.forward(x);
      const active = this.activation === "gelu" ? inner.gelu() : inner.relu();
      return drop.forward(this.linear2.forward(drop.forward(active)));
    };
    if (this.normFirst) {
      x = x.add(attended(norm1.forward(x)));
      return x.add(mapped(norm2.forward(x)));
    }
    x = norm1.forward(x.add(attended(x)));
    return norm2.forward(x.add(mapped(x)));
  }
}
