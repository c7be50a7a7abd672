/** The gated delta rule as a function, as polygrad has it. */

import type { Reading, Tensor } from "../tensor.js";
import { expectTensor } from "./checks.js";

/**
 * `[output, state]` of the gated delta rule (Yang et al. 2024) over a sequence: the method of `q` of that name. From `state`, or 0, which is
 * not written to, each step does `S <- exp(logDecay) S`, `S <- S + beta k (v - S^T k)^T`, `output = S^T q / sqrt(d)`.
 */
export function gatedDeltaRule<R extends Reading = "sync">(
  q: Tensor<R>,
  k: Tensor<R>,
  v: Tensor<R>,
  logDecay: Tensor<R>,
  beta: Tensor<R>,
  state?: Tensor<R>,
): [output: Tensor<R>, state: Tensor<R>] {
  expectTensor("gatedDeltaRule", "q", q);
  return q.gatedDeltaRule(k, v, logDecay, beta, state) as [Tensor<R>, Tensor<R>];
}

export { gatedDeltaRule as gated_delta_rule };
