/** The rules by which optimisers move parameters. Each is the op of its name. */

import { settingsOf } from "../create.js";
import { errorOf } from "../errors.js";
import type { Reading, Tensor } from "../tensor.js";
import { expectSettings } from "./checks.js";
import { Optimizer, type Group, type Parameters, type RuleOptions } from "./optimizer.js";

/** Settings of `SGD`. */
export interface SGDOptions extends RuleOptions {
  momentum: number;
  /** The share of a gradient, but the first, that does not enter the velocity. */
  dampening: number;
  nesterov: boolean;
}

/** Gradient descent, with momentum if asked. The learning rate is 0.001 if left out. */
export class SGD<R extends Reading = "sync"> extends Optimizer<SGDOptions, R> {
  constructor(parameters: Parameters<SGDOptions, R>, options: Partial<SGDOptions> = {}) {
    const known = ["lr", "momentum", "dampening", "nesterov", "weightDecay"] as const;
    const standard = { lr: 1e-3, momentum: 0, dampening: 0, nesterov: false, weightDecay: 0 };
    super(parameters, { ...standard, ...given("SGD", options, known) });
  }

  protected override expectGroup(op: string, group: Group<SGDOptions, R>): void {
    super.expectGroup(op, group);
    const { momentum, dampening, nesterov } = group;
    if (nesterov && (momentum <= 0 || dampening !== 0)) {
      throw errorOf("unsupported", op, "Nesterov's form takes a momentum above 0 and no dampening");
    }
  }

  protected kept({ momentum }: Group<SGDOptions, R>): readonly string[] {
    return momentum === 0 ? [] : ["velocity"];
  }

  protected numbers({ dampening }: Group<SGDOptions, R>, step: number): readonly number[] {
    if (dampening === 0) return [];
    return [step === 1 ? 1 : 1 - dampening];
  }

  protected update(
    p: Tensor<R>,
    grad: Tensor<R>,
    [velocity]: readonly Tensor<R>[],
    lr: Tensor<R>,
    [gain]: readonly Tensor<R>[],
    { momentum, nesterov, weightDecay }: Group<SGDOptions, R>,
  ): Tensor<R>[] {
    return p.sgd(grad, lr, velocity, gain, momentum, nesterov, weightDecay);
  }
}

/** Settings of `Adam` and `AdamW`. */
export interface AdamOptions extends RuleOptions {
  /** How much of the means of gradients and of their squares stays at each step. */
  betas: readonly [number, number];
  eps: number;
}

/** What `Adam`, `AdamW` and `LAMB` share. @internal */
export abstract class Adaptive<R extends Reading> extends Optimizer<AdamOptions, R> {
  /** The op of a step. */
  protected abstract readonly rule: "adam" | "adamw" | "lamb";

  protected kept(): readonly string[] {
    return ["m", "v"];
  }

  protected numbers({ betas }: Group<AdamOptions, R>, step: number): readonly number[] {
    return betas.map((beta) => 1 - beta ** step);
  }

  protected update(
    p: Tensor<R>,
    grad: Tensor<R>,
    [m, v]: readonly [Tensor<R>, Tensor<R>],
    lr: Tensor<R>,
    [bias1, bias2]: readonly [Tensor<R>, Tensor<R>],
    { betas: [beta1, beta2], eps, weightDecay }: Group<AdamOptions, R>,
  ): Tensor<R>[] {
    return p[this.rule](grad, m, v, lr, bias1, bias2, beta1, beta2, eps, weightDecay);
  }
}

/** The names of `AdamOptions`. */
const ADAM_NAMES = ["lr", "betas", "eps", "weightDecay"] as const;
const ADAM = { lr: 1e-3, betas: [0.9, 0.999] as const, eps: 1e-8 };

/** Adam (Kingma and Ba 2015); weight decay, 0 if left out, is part of the gradient. */
export class Adam<R extends Reading = "sync"> extends Adaptive<R> {
  protected readonly rule = "adam";

  constructor(parameters: Parameters<AdamOptions, R>, options: Partial<AdamOptions> = {}) {
    super(parameters, { ...ADAM, weightDecay: 0, ...given("Adam", options, ADAM_NAMES) });
  }
}

/** Adam with weight decay of its own (Loshchilov and Hutter 2019), 0.01 if left out. */
export class AdamW<R extends Reading = "sync"> extends Adaptive<R> {
  protected readonly rule = "adamw";

  constructor(parameters: Parameters<AdamOptions, R>, options: Partial<AdamOptions> = {}) {
    super(parameters, { ...ADAM, weightDecay: 0.01, ...given("AdamW", options, ADAM_NAMES) });
  }
}

/** Settings of `Lion`. */
export interface LionOptions extends RuleOptions {
  betas: readonly [number, number];
}

/** Lion (Chen et al. 2023). Its learning rate, 0.0001 if left out, is three to ten times smaller than AdamW's. */
export class Lion<R extends Reading = "sync"> extends Optimizer<LionOptions, R> {
  constructor(parameters: Parameters<LionOptions, R>, options: Partial<LionOptions> = {}) {
    super(parameters, { lr: 1e-4, betas: [0.9, 0.99], weightDecay: 0, ...given("Lion", options, ["lr", "betas", "weightDecay"]) });
  }

  protected kept(): readonly string[] {
    return ["m"];
  }

  protected numbers(): readonly number[] {
    return [];
  }

  protected update(
    p: Tensor<R>,
    grad: Tensor<R>,
    [m]: readonly [Tensor<R>],
    lr: Tensor<R>,
    _: readonly Tensor<R>[],
    { betas: [beta1, beta2], weightDecay }: Group<LionOptions, R>,
  ): Tensor<R>[] {
    return p.lion(grad, m, lr, beta1, beta2, weightDecay);
  }
}

/** The options that are there. Throws for what are no settings. @internal */
export function given<O extends object>(op: string, options: O, known: readonly (keyof O & string)[]): O {
  const settings = settingsOf(op, options, known);
  expectSettings(op, settings);
  return settings;
}
