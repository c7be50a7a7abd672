/** Several optimisers as one. */

import { describe } from "../dtype.js";
import { errorOf } from "../errors.js";
import { respell } from "../spelling.js";
import type { Tensor, Reading } from "../tensor.js";
import { expectNumbers } from "./checks.js";
import { Optimizer, type OptimizerState } from "./optimizer.js";

/**
 * Optimisers of different parameters that step together, such as `Muon` for matrices and `AdamW` for the rest.
 *
 * ```ts
 * const net = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 1));
 * const [matrices, others] = [2, 1].map((rank) => net.parameters().filter((parameter) => parameter.rank === rank));
 * const both = new optim.OptimizerGroup(new optim.SGD(matrices!, { lr: 0.1 }), new optim.AdamW(others!, { lr: 1e-3 }));
 * net.forward(Tensor.rand(2, 4)).square().mean().backward();
 * both.step();
 * both.zeroGrad();
 * ```
 */
export class OptimizerGroup<R extends Reading = "sync"> {
  readonly optimizers: readonly Optimizer<any, R>[];

  constructor(...optimizers: readonly Optimizer<any, R>[]) {
    if (optimizers.length === 0) throw errorOf("shape", "OptimizerGroup", "got no optimisers, expected one or more");
    const seen = new Set<Tensor<R>>();
    optimizers.forEach((optimizer: unknown, place) => {
      if (!(optimizer instanceof Optimizer)) {
        throw errorOf("unsupported", "OptimizerGroup", `optimiser ${place} is ${describe(optimizer)}, expected an optimiser`);
      }
      for (const parameter of (optimizer as Optimizer<any, R>).parameters()) {
        if (seen.has(parameter)) {
          throw errorOf("unsupported", "OptimizerGroup", `a parameter of optimiser ${place} is one of another too, expected it in one`);
        }
        seen.add(parameter);
      }
    });
    this.optimizers = [...optimizers];
  }

  /** The groups of all optimisers. */
  get groups(): Optimizer<any, R>["groups"] {
    return this.optimizers.flatMap(({ groups }) => groups);
  }

  /** Every parameter, in the order of the optimisers. */
  parameters(): Tensor<R>[] {
    return this.optimizers.flatMap((optimizer) => optimizer.parameters());
  }

  /** The learning rate of the first optimiser; setting it sets those of all. */
  get lr(): number {
    return (this.optimizers[0] as Optimizer<any, R>).lr;
  }

  set lr(lr: number) {
    expectNumbers("OptimizerGroup", { lr });
    for (const optimizer of this.optimizers) optimizer.lr = lr;
  }

  /** A step of each. */
  step(): void {
    for (const optimizer of this.optimizers) optimizer.step();
  }

  /** Lets the gradients of all parameters go. */
  zeroGrad(): void {
    for (const optimizer of this.optimizers) optimizer.zeroGrad();
  }

  /** The state of each optimiser, in their order. */
  stateDict(): { readonly optimizers: readonly OptimizerState<R>[] } {
    return { optimizers: this.optimizers.map((optimizer) => optimizer.stateDict()) };
  }

  /** Goes on from a state that `stateDict` gave, of as many optimisers of the same rules. After an error nothing is changed. */
  loadStateDict(state: { readonly optimizers: readonly OptimizerState<R>[] }): void {
    const states: unknown = (state as { optimizers?: unknown } | null | undefined)?.optimizers;
    const count = this.optimizers.length;
    if (!Array.isArray(states) || states.length !== count) {
      const found = Array.isArray(states) ? `has ${states.length} optimisers` : `is ${describe(state)}`;
      throw errorOf("shape", "OptimizerGroup.loadStateDict", `the state ${found}, expected those of ${count} optimisers`);
    }
    const checked = this.optimizers.map((optimizer, place) => optimizer.checked(states[place] as OptimizerState<R>));
    for (const take of checked) take();
  }
}

/** Names in torch's style beside those of JavaScript's. */
export interface OptimizerGroup<R extends Reading = "sync"> {
  zero_grad: OptimizerGroup<R>["zeroGrad"];
  state_dict: OptimizerGroup<R>["stateDict"];
  load_state_dict: OptimizerGroup<R>["loadStateDict"];
}

respell(OptimizerGroup.prototype, { zero_grad: "zeroGrad", state_dict: "stateDict", load_state_dict: "loadStateDict" });
