/** Recurrences over a sequence. */

import { build, failure, guarded, type Any, type Built } from "./core.js";

/** Options of `kdaChunk`. */
export interface KdaChunkOptions {
  /** What outputs are multiplied by; `1 / sqrt(d)` by default. */
  readonly scale?: number;
}

/**
 * The gated delta rule with a decay for each channel of the keys, as in Kimi Delta Attention (Kimi Team 2025, "Kimi Linear",
 * section 3): `[batch, heads, seq, dv]` of `q`, `k` and `logDecay [batch, heads, seq, d]`, `v [batch, heads, seq, dv]` and
 * `beta [batch, heads, seq]`.
 *
 * Each head has a state `S [d, dv]`, 0 at first. A step does `S <- exp(logDecay) S`, `S <- S + beta k (v - S^T k)^T`, and
 * gives `scale S^T q`. Many steps are computed at once, at a cost that is linear in their number. `logDecay` should be at
 * most 0; minus infinity is a reset. Keys are those of length 1 as a rule, with `beta` from 0 to 1.
 *
 * Fails for shapes that do not fit each other, and for dtypes that differ. A decode program keeps `S` of each sequence, and so
 * goes on where the last call ended.
 *
 * ```ts
 * import assert from "node:assert/strict"
 *
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   // One head, two steps, one channel: 2 is written over 1, with nothing forgotten between.
 *   const one = yield* Tensor.ones([1, 1, 2, 1])
 *   const v = yield* Tensor.fromTypedArray(Float32Array.of(1, 2), [1, 1, 2, 1])
 *   const logDecay = yield* Tensor.zerosLike(one)
 *   const output = yield* Tensor.kdaChunk(one, one, v, logDecay, yield* Tensor.ones([1, 1, 2]))
 *   assert.deepEqual(yield* Tensor.toNumberArray(output), [1, 2])
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const kdaChunk = guarded(
  "kdaChunk",
  (q: Any, k: Any, v: Any, logDecay: Any, beta: Any, options: KdaChunkOptions = {}): Built => {
    // The engine has steps before heads, and would tell of shapes that the caller has not given.
    const isSteps = (shape: ReadonlyArray<number>) =>
      shape.length === 3 && shape.every((size, axis) => size === q.shape[axis]);
    const isKeys = ({ shape }: Any) => isSteps(shape.slice(0, -1)) && shape.at(-1) === q.shape.at(-1);
    if (!(isKeys(q) && isKeys(k) && isKeys(logDecay) && isSteps(v.shape.slice(0, -1)) && isSteps(beta.shape))) {
      const given = Object.entries({ q, k, v, logDecay, beta }).map(([name, { shape }]) => `${name} [${shape}]`);
      const keys = "[batch, heads, seq, d] of q, k and logDecay";
      const expected = `${keys}, [batch, heads, seq, dv] of v, [batch, heads, seq] of beta`;
      return failure("kdaChunk", `${given.join(", ")} do not fit; expected ${expected}`);
    }
    const { scale } = options;
    return build("kdaChunk", {
      op: "kdaChunk",
      inputs: [q, k, v, logDecay, beta],
      attributes: scale === undefined ? {} : { scale },
    });
  },
);
