/** Linear attention of several heads, whose state is of one size however long a text is. */
import { Effect } from "effect";

import type * as Runtime from "../runtime.js";
import * as Tensor from "../tensor.js";
import { build, checkOptions, fault, type Model, type ModelError, type Params } from "./definition.js";
import { checkName, checkSizes, firstWeight } from "./layers.js";

/** Steps that a short convolution sees, the own one included. */
const KERNEL = 4;
/** What is added to squared lengths, so that a query or key of 0 stays 0. */
const LENGTH_EPS = 1e-6;

/** Settings of `kimiDeltaAttention`. */
export interface KimiDeltaAttentionOptions {
  /** What is added to the mean squares of the heads' outputs when these are normalised; 1e-5 if left out. */
  readonly normEps?: number;
}

/**
 * Kimi Delta Attention of `[batch, length, embedDim]` (Kimi Team 2025, "Kimi Linear", section 4), of the same shape. Each
 * position sees itself and what came before alone, and learns their order from convolutions and decay: it needs no
 * embedding of positions. Its cost is linear in the length, and under `Model.inference` that of a token does not depend on how
 * many came before it: a text has a state of one size.
 *
 * Queries, keys and values are projections, each followed by a causal convolution over 4 steps and `silu`; queries and keys
 * are of length 1. They go through `Tensor.kdaChunk` with
 *
 * - `logDecay = -exp(decay.scale) softplus(x decay.down decay.up + decay.bias)`, a scale for each head,
 * - `beta = sigmoid(x beta)`, one for each head.
 *
 * Each head's output is normalised by its mean square, scaled by `norm`, and multiplied by `sigmoid(x gate.down gate.up)`
 * before the last projection. The ranks of `decay` and `gate` are `headDim = embedDim / numHeads`.
 *
 * Parameters: `<name>.q.weight [embedDim, embedDim]` and `<name>.q.conv [embedDim, 4]`, then the same of `k` and `v`;
 * `<name>.decay.down [embedDim, headDim]`, `<name>.decay.up [headDim, embedDim]`, `<name>.decay.scale [numHeads]`,
 * `<name>.decay.bias [embedDim]`; `<name>.beta.weight [embedDim, numHeads]`; `<name>.gate.down [embedDim, headDim]`,
 * `<name>.gate.up [headDim, embedDim]`; `<name>.norm.weight [headDim]`; `<name>.wo.weight [embedDim, embedDim]`.
 *
 * First decays are those of Mamba 2 (Dao and Gu 2024): `exp(decay.scale)` is from 1 to 16, `softplus(decay.bias)` from 0.001
 * to 0.1.
 *
 * Fails with `ModelError` for heads that do not divide `embedDim`.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Model, Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const model = yield* Model.kimiDeltaAttention("attention", 16, 2)
 *   const output = yield* model.execute(yield* model.init, yield* Tensor.randn([1, 10, 16]))
 *   assert.deepEqual(output.shape, [1, 10, 16])
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const kimiDeltaAttention = (
  name: string,
  embedDim: number,
  numHeads: number,
  options: KimiDeltaAttentionOptions = {},
): Effect.Effect<Model, ModelError> =>
  Effect.gen(function*() {
    const op = "kimiDeltaAttention";
    yield* checkOptions("kimiDeltaAttention", options);
    const { normEps = 1e-5 } = options;
    yield* checkName(op, name);
    yield* checkSizes(op, { embedDim, numHeads });
    if (embedDim % numHeads !== 0) {
      return yield* fault(op, `embedDim ${embedDim} is not divisible by numHeads ${numHeads}`);
    }
    if (!(normEps > 0 && normEps < Infinity)) {
      return yield* fault(op, `normEps is ${normEps}, expected a number above 0`);
    }
    const headDim = embedDim / numHeads;
    const projected = (part: string) => [
      { name: `${name}.${part}.weight`, shape: [embedDim, embedDim] },
      { name: `${name}.${part}.conv`, shape: [embedDim, KERNEL] },
    ];
    return build({
      parameters: [
        ...projected("q"),
        ...projected("k"),
        ...projected("v"),
        { name: `${name}.decay.down`, shape: [embedDim, headDim] },
        { name: `${name}.decay.up`, shape: [headDim, embedDim] },
        { name: `${name}.decay.scale`, shape: [numHeads] },
        { name: `${name}.decay.bias`, shape: [embedDim] },
        { name: `${name}.beta.weight`, shape: [embedDim, numHeads] },
        { name: `${name}.gate.down`, shape: [embedDim, headDim] },
        { name: `${name}.gate.up`, shape: [headDim, embedDim] },
        { name: `${name}.norm.weight`, shape: [headDim] },
        { name: `${name}.wo.weight`, shape: [embedDim, embedDim] },
      ],
      init: firstValues(embedDim, numHeads),
      forward: (params, input) =>
        Effect.gen(function*() {
          const [qWeight, qConv, kWeight, kConv, vWeight, vConv, ...others] = params as Parts;
          const [decayDown, decayUp, decayScale, decayBias, betaWeight, gateDown, gateUp, norm, woWeight] = others;
          const [batch, length, width] = input.shape;
          if (input.shape.length !== 3 || batch === undefined || length === undefined || width !== embedDim) {
            return yield* fault(op, `${name}: the input is of shape [${input.shape}], expected [batch, length, ${embedDim}]`);
          }
          /** `[batch, heads, length, head]` of `[batch, length, embedDim]`. */
          const heads = (x: Tensor.Any) =>
            Effect.flatMap(Tensor.reshape(x, [batch, length, numHeads, headDim]), Tensor.transpose([0, 2, 1, 3]));
          const mixed = (weight: Tensor.Any, conv: Tensor.Any) =>
            Effect.gen(function*() {
              const near = yield* Tensor.shortConv1d(yield* Tensor.matmul(input, weight), conv);
              return yield* heads(yield* Tensor.silu(near));
            });
          const query = yield* ofLengthOne(yield* mixed(qWeight, qConv));
          const key = yield* ofLengthOne(yield* mixed(kWeight, kConv));
          const value = yield* mixed(vWeight, vConv);

          const lowRank = (down: Tensor.Any, up: Tensor.Any) =>
            Effect.flatMap(Tensor.matmul(input, down), Tensor.matmul(up));
          const speed = yield* Tensor.softplus(yield* Tensor.add(yield* lowRank(decayDown, decayUp), decayBias));
          const rate = yield* Tensor.neg(yield* Tensor.exp(yield* Tensor.reshape(decayScale, [numHeads, 1, 1])));
          const logDecay = yield* Tensor.mul(rate, yield* heads(speed));
          const beta = yield* Tensor.transpose(yield* Tensor.sigmoid(yield* Tensor.matmul(input, betaWeight)), [0, 2, 1]);

          const attended = yield* Tensor.kdaChunk(query, key, value, logDecay, beta);
          const normed = yield* Tensor.transpose(yield* Tensor.rmsNorm(attended, norm, normEps), [0, 2, 1, 3]);
          const gate = yield* Tensor.sigmoid(yield* lowRank(gateDown, gateUp));
          const gated = yield* Tensor.mul(yield* Tensor.reshape(normed, [batch, length, embedDim]), gate);
          return yield* Tensor.matmul(gated, woWeight);
        }),
    });
  });

type Six = readonly [Tensor.Any, Tensor.Any, Tensor.Any, Tensor.Any, Tensor.Any, Tensor.Any];
/** The parameters in their order. */
type Parts = readonly [...Six, ...Six, Tensor.Any, Tensor.Any, Tensor.Any];

/** First values of the parameters. */
function firstValues(
  embedDim: number,
  numHeads: number,
): Effect.Effect<Params, Tensor.TensorError, Runtime.Runtime> {
  const headDim = embedDim / numHeads;
  return Effect.gen(function*() {
    const square = firstWeight([embedDim, embedDim], embedDim);
    const conv = firstWeight([embedDim, KERNEL], KERNEL);
    const down = firstWeight([embedDim, headDim], embedDim);
    const up = firstWeight([headDim, embedDim], headDim);
    const scale = yield* Tensor.log(yield* Tensor.uniform([numHeads], { min: 1, max: 16 }));
    const speed = yield* Tensor.exp(yield* Tensor.uniform([embedDim], { min: Math.log(0.001), max: Math.log(0.1) }));
    // What softplus makes the speed of.
    const bias = yield* Tensor.log(yield* Tensor.expm1(speed));
    return [
      ...(yield* Effect.all([square, conv, square, conv, square, conv, down, up])),
      scale,
      bias,
      yield* firstWeight([embedDim, numHeads], embedDim),
      ...(yield* Effect.all([down, up])),
      yield* Tensor.ones([headDim]),
      yield* square,
    ];
  });
}

/** Vectors along the last axis, divided by their lengths: the mean square is 1 by the number of elements. */
function ofLengthOne(x: Tensor.Any): Effect.Effect<Tensor.Lazy, Tensor.TensorError, Runtime.Runtime> {
  return Effect.gen(function*() {
    const size = x.shape.at(-1) as number;
    const normed = yield* Tensor.rmsNorm(x, undefined, LENGTH_EPS / size);
    return yield* Tensor.mul(normed, yield* Tensor.constantLike(normed, 1 / Math.sqrt(size)));
  });
}
