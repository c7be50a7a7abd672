/** Attention of several heads. */
import { Effect } from "effect";
import { describe } from "lanthorn/raw";

import * as Tensor from "../tensor.js";
import { build, checkOptions, fault, type Model, type ModelError } from "./definition.js";
import { checkName, checkSizes, weightAndBias } from "./layers.js";

/** Settings of `multiHeadAttention`. */
export interface MultiHeadAttentionOptions {
  /** Each position attends to itself and to what came before alone. */
  readonly causal?: boolean;
  /** Turns queries and keys by their positions (Su et al. 2021), with this base, 10,000 as a rule. */
  readonly rope?: number;
}

/**
 * Self-attention of `[batch, length, embedDim]` (Vaswani et al. 2017). Queries, keys and values are one product, beside each
 * other in that order, each of all heads.
 *
 * Parameters: `<name>.qkv.weight [embedDim, 3 embedDim]`, `<name>.qkv.bias`, `<name>.wo.weight [embedDim, embedDim]`,
 * `<name>.wo.bias`.
 */
export const multiHeadAttention = (
  name: string,
  embedDim: number,
  numHeads: number,
  options: MultiHeadAttentionOptions = {},
): Effect.Effect<Model, ModelError> =>
  Effect.gen(function*() {
    const op = "multiHeadAttention";
    yield* checkOptions(op, options);
    const { causal = false, rope } = options;
    yield* checkName(op, name);
    yield* checkSizes(op, { embedDim, numHeads });
    if (embedDim % numHeads !== 0) {
      return yield* fault(op, `embedDim ${embedDim} is not divisible by numHeads ${numHeads}`);
    }
    const headDim = embedDim / numHeads;
    if (rope !== undefined && !(typeof rope === "number" && rope > 0 && rope < Infinity)) {
      return yield* fault(op, `rope is ${describe(rope)}, expected a base above 0`);
    }
    if (rope !== undefined && headDim % 2 !== 0) {
      return yield* fault(op, `rope turns pairs, but a head is of the odd size ${headDim}`);
    }
    return build({
      parameters: [
        { name: `${name}.qkv.weight`, shape: [embedDim, 3 * embedDim] },
        { name: `${name}.qkv.bias`, shape: [3 * embedDim] },
        { name: `${name}.wo.weight`, shape: [embedDim, embedDim] },
        { name: `${name}.wo.bias`, shape: [embedDim] },
      ],
      init: Effect.gen(function*() {
        const qkv = yield* weightAndBias([embedDim, 3 * embedDim], embedDim, 3 * embedDim);
        return [...qkv, ...(yield* weightAndBias([embedDim, embedDim], embedDim, embedDim))];
      }),
      forward: (params, input) =>
        Effect.gen(function*() {
          const [qkvWeight, qkvBias, woWeight, woBias] = params as [Tensor.Any, Tensor.Any, Tensor.Any, Tensor.Any];
          const [batch, length, width] = input.shape;
          if (input.shape.length !== 3 || batch === undefined || length === undefined || width !== embedDim) {
            return yield* fault(op, `${name}: the input is of shape [${input.shape}], expected [batch, length, ${embedDim}]`);
          }
          const fused = yield* Tensor.linear(input, qkvWeight, qkvBias);
          /** `[batch, heads, length, head]` of the queries, keys or values. */
          const heads = (part: number) =>
            Effect.gen(function*() {
              const start = [0, 0, part * embedDim];
              const end = [batch, length, (part + 1) * embedDim];
              const own = yield* Tensor.slice(fused, { start, end });
              return yield* Tensor.transpose(yield* Tensor.reshape(own, [batch, length, numHeads, headDim]), [0, 2, 1, 3]);
            });
          const turned = (x: Tensor.Lazy) =>
            rope === undefined ? Effect.succeed(x) : Tensor.rotaryEmbedding(x, length, rope);
          const query = yield* turned(yield* heads(0));
          const key = yield* turned(yield* heads(1));
          const attended = yield* Tensor.scaledDotProductAttention(query, key, yield* heads(2), { causal });
          const beside = yield* Tensor.transpose(attended, [0, 2, 1, 3]);
          return yield* Tensor.linear(yield* Tensor.reshape(beside, [batch, length, embedDim]), woWeight, woBias);
        }),
    });
  });
