/** Rules that look at a parameter as a whole: at its norm, or at its directions as a matrix. */

import { errorOf } from "../errors.js";
import type { Reading, Tensor } from "../tensor.js";
import { Optimizer, type Group, type Parameters, type RuleOptions } from "./optimizer.js";
import { Adaptive, given, type AdamOptions } from "./rules.js";

/** Settings of `LARS`. */
export interface LARSOptions extends RuleOptions {
  momentum: number;
  nesterov: boolean;
  /** What the rate of a layer is multiplied by; with 0 all layers move alike. */
  trust: number;
}

/**
 * LARS (You, Gitman and Ginsburg 2017): gradient descent with a rate for each parameter in proportion to its norm over that of its
 * gradient. The learning rate is 0.001, momentum 0.9, weight decay 0.0001, `trust` 0.001 if left out.
 */
export class LARS<R extends Reading = "sync"> extends Optimizer<LARSOptions, R> {
  constructor(parameters: Parameters<LARSOptions, R>, options: Partial<LARSOptions> = {}) {
    const standard = { lr: 1e-3, momentum: 0.9, nesterov: false, weightDecay: 1e-4, trust: 1e-3 };
    super(parameters, { ...standard, ...given("LARS", options, ["lr", "momentum", "nesterov", "weightDecay", "trust"]) });
  }

  protected kept({ momentum }: Group<LARSOptions, R>): readonly string[] {
    return momentum === 0 ? [] : ["velocity"];
  }

  protected numbers(): readonly number[] {
    return [];
  }

  protected update(
    p: Tensor<R>,
    grad: Tensor<R>,
    [velocity]: readonly Tensor<R>[],
    lr: Tensor<R>,
    _: readonly Tensor<R>[],
    { momentum, nesterov, weightDecay, trust }: Group<LARSOptions, R>,
  ): Tensor<R>[] {
    return p.lars(grad, lr, velocity, momentum, nesterov, weightDecay, trust);
  }
}

/**
 * LAMB (You et al. 2020): Adam with a rate for each parameter in proportion to its norm over that of its step. `eps` is 1e-6, weight
 * decay 0 if left out.
 */
export class LAMB<R extends Reading = "sync"> extends Adaptive<R> {
  protected readonly rule = "lamb";

  constructor(parameters: Parameters<AdamOptions, R>, options: Partial<AdamOptions> = {}) {
    const standard = { lr: 1e-3, betas: [0.9, 0.999] as const, eps: 1e-6, weightDecay: 0 };
    super(parameters, { ...standard, ...given("LAMB", options, ["lr", "betas", "eps", "weightDecay"]) });
  }
}

/** Settings of `Muon`. */
export interface MuonOptions extends RuleOptions {
  momentum: number;
  nesterov: boolean;
  /** Newton-Schulz iterations of a step. */
  nsSteps: number;
  /** The least norm by which an update is divided. */
  eps: number;
}

/**
 * Muon (Jordan et al. 2024), as in torch, whose iterations are in bf16 and ours in f32: momentum, whose matrix has all its singular
 * values set to about 1. For parameters of two axes or more; an `OptimizerGroup` gives the others to another rule. The learning rate
 * is 0.001, momentum 0.95, weight decay 0.1 if left out.
 */
export class Muon<R extends Reading = "sync"> extends Optimizer<MuonOptions, R> {
  constructor(parameters: Parameters<MuonOptions, R>, options: Partial<MuonOptions> = {}) {
    const standard = { lr: 1e-3, momentum: 0.95, nesterov: true, weightDecay: 0.1, nsSteps: 5, eps: 1e-7 };
    super(parameters, { ...standard, ...given("Muon", options, ["lr", "momentum", "nesterov", "weightDecay", "nsSteps", "eps"]) });
  }

  protected override expectGroup(op: string, group: Group<MuonOptions, R>): void {
    super.expectGroup(op, group);
    const flat = group.params.find(({ rank }) => rank < 2);
    if (flat === undefined) return;
    const found = `a parameter has the shape [${flat.shape.join(", ")}]`;
    throw errorOf("shape", op, `${found}, expected two axes or more; give it to another rule in an OptimizerGroup`);
  }

  protected kept(): readonly string[] {
    return ["velocity"];
  }

  protected numbers(): readonly number[] {
    return [];
  }

  protected update(
    p: Tensor<R>,
    grad: Tensor<R>,
    [velocity]: readonly [Tensor<R>],
    lr: Tensor<R>,
    _: readonly Tensor<R>[],
    { momentum, nesterov, weightDecay, nsSteps, eps }: Group<MuonOptions, R>,
  ): Tensor<R>[] {
    return p.muon(grad, velocity, lr, momentum, nesterov, weightDecay, nsSteps, eps);
  }
}
