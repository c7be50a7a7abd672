/** Losses as functions and as modules. Each is the op of its name; `reduction` is `"mean"` if left out. */

import { settingsOf, type Ids } from "../create.js";
import type { Reading, Tensor } from "../tensor.js";
import { expectTensor } from "./checks.js";
import { Module } from "./module.js";

/** What becomes of the losses of single elements. */
export type Reduction = "mean" | "sum" | "none";

/** What every loss takes. */
export interface LossOptions {
  reduction?: Reduction | undefined;
}

/** The square of the difference. */
export function mseLoss<R extends Reading = "sync">(x: Tensor<R>, y: Tensor<R>, options: LossOptions = {}): Tensor<R> {
  const { reduction = "mean" } = settingsOf("mseLoss", options, ["reduction"]);
  expectTensor("mseLoss", "x", x);
  return x.mseLoss(y, reduction);
}

/** `mseLoss` as a module. */
export class MSELoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: LossOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, y: Tensor<R>): Tensor<R> {
    return mseLoss(x, y, this._options);
  }
}

/** The size of the difference. */
export function l1Loss<R extends Reading = "sync">(x: Tensor<R>, y: Tensor<R>, options: LossOptions = {}): Tensor<R> {
  const { reduction = "mean" } = settingsOf("l1Loss", options, ["reduction"]);
  expectTensor("l1Loss", "x", x);
  return x.l1Loss(y, reduction);
}

/** `l1Loss` as a module. */
export class L1Loss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: LossOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, y: Tensor<R>): Tensor<R> {
    return l1Loss(x, y, this._options);
  }
}

/** What `huberLoss` takes. */
export interface HuberOptions extends LossOptions {
  /** 1 if left out. */
  delta?: number | undefined;
}

/** Half the square of a difference up to `delta`, and a line beyond. */
export function huberLoss<R extends Reading = "sync">(x: Tensor<R>, y: Tensor<R>, options: HuberOptions = {}): Tensor<R> {
  const { reduction = "mean", delta } = settingsOf("huberLoss", options, ["reduction", "delta"]);
  expectTensor("huberLoss", "x", x);
  return x.huberLoss(y, delta, reduction);
}

/** `huberLoss` as a module. */
export class HuberLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: HuberOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, y: Tensor<R>): Tensor<R> {
    return huberLoss(x, y, this._options);
  }
}

/** What `smoothL1Loss` takes. */
export interface SmoothL1Options extends LossOptions {
  /** 1 if left out. */
  beta?: number | undefined;
}

/** The Huber loss divided by `beta`. */
export function smoothL1Loss<R extends Reading = "sync">(x: Tensor<R>, y: Tensor<R>, options: SmoothL1Options = {}): Tensor<R> {
  const { reduction = "mean", beta } = settingsOf("smoothL1Loss", options, ["reduction", "beta"]);
  expectTensor("smoothL1Loss", "x", x);
  return x.smoothL1Loss(y, beta, reduction);
}

/** `smoothL1Loss` as a module. */
export class SmoothL1Loss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: SmoothL1Options = {}) {
    super();
  }

  forward(x: Tensor<R>, y: Tensor<R>): Tensor<R> {
    return smoothL1Loss(x, y, this._options);
  }
}

/** What `bceLoss` takes. */
export interface BCEOptions<R extends Reading = "sync"> extends LossOptions {
  /** A factor for each element. */
  weight?: Tensor<R> | undefined;
}

/** The cross entropy between probabilities and targets of 0 to 1. */
export function bceLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R>, options: BCEOptions<R> = {}): Tensor<R> {
  const { reduction = "mean", weight } = settingsOf("bceLoss", options, ["reduction", "weight"]);
  expectTensor("bceLoss", "x", x);
  return x.binaryCrossEntropy(targets, weight, reduction);
}

/** `bceLoss` as a module. */
export class BCELoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: BCEOptions<R> = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return bceLoss(x, targets, this._options);
  }
}

/** What `bceWithLogitsLoss` takes. */
export interface BCEWithLogitsOptions<R extends Reading = "sync"> extends LossOptions {
  /** A factor for each element. */
  weight?: Tensor<R> | undefined;
  /** A factor for targets of 1. */
  posWeight?: Tensor<R> | undefined;
}

/** The cross entropy between logits and targets of 0 to 1. */
export function bceWithLogitsLoss<R extends Reading = "sync">(logits: Tensor<R>, targets: Tensor<R>, options: BCEWithLogitsOptions<R> = {}): Tensor<R> {
  const { reduction = "mean", weight, posWeight } = settingsOf("bceWithLogitsLoss", options, ["reduction", "weight", "posWeight"]);
  expectTensor("bceWithLogitsLoss", "logits", logits);
  return logits.binaryCrossEntropyWithLogits(targets, reduction, weight, posWeight);
}

/** `bceWithLogitsLoss` as a module. */
export class BCEWithLogitsLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: BCEWithLogitsOptions<R> = {}) {
    super();
  }

  forward(logits: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return bceWithLogitsLoss(logits, targets, this._options);
  }
}

/** What `crossEntropyLoss` takes. */
export interface CrossEntropyOptions<R extends Reading = "sync"> extends LossOptions {
  /** A factor for each class. */
  weight?: Tensor<R> | undefined;
  /** A target that counts for nothing. */
  ignoreIndex?: number | undefined;
  /** The share of the targets that goes to all classes; 0 if left out. */
  labelSmoothing?: number | undefined;
  /** Where the classes are: the last axis if left out, 1 for torch's `[batch, classes, ..]`. */
  axis?: number | undefined;
}

/** The cross entropy between logits `[.., classes]` and ids of classes, or their probabilities. */
export function crossEntropyLoss<R extends Reading = "sync">(logits: Tensor<R>, targets: Tensor<R> | Ids, options: CrossEntropyOptions<R> = {}): Tensor<R> {
  const { reduction = "mean", weight, ignoreIndex, labelSmoothing, axis } = settingsOf("crossEntropyLoss", options, ["reduction", "weight", "ignoreIndex", "labelSmoothing", "axis"]);
  expectTensor("crossEntropyLoss", "logits", logits);
  return logits.crossEntropy(targets, reduction, ignoreIndex, weight, labelSmoothing, axis);
}

/** `crossEntropyLoss` as a module. */
export class CrossEntropyLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: CrossEntropyOptions<R> = {}) {
    super();
  }

  forward(logits: Tensor<R>, targets: Tensor<R> | Ids): Tensor<R> {
    return crossEntropyLoss(logits, targets, this._options);
  }
}

/** What `nllLoss` takes. */
export interface NLLOptions<R extends Reading = "sync"> extends LossOptions {
  /** A factor for each class. */
  weight?: Tensor<R> | undefined;
  /** A target that counts for nothing. */
  ignoreIndex?: number | undefined;
  /** Where the classes are: the last axis if left out, 1 for torch's `[batch, classes, ..]`. */
  axis?: number | undefined;
}

/** The negative log-likelihood of ids of classes by log-probabilities `[.., classes]`. */
export function nllLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R> | Ids, options: NLLOptions<R> = {}): Tensor<R> {
  const { reduction = "mean", weight, ignoreIndex, axis } = settingsOf("nllLoss", options, ["reduction", "weight", "ignoreIndex", "axis"]);
  expectTensor("nllLoss", "x", x);
  return x.nllLoss(targets, reduction, ignoreIndex, weight, axis);
}

/** `nllLoss` as a module. */
export class NLLLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: NLLOptions<R> = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R> | Ids): Tensor<R> {
    return nllLoss(x, targets, this._options);
  }
}

/** What `klDivLoss` takes. */
export interface KLDivOptions extends LossOptions {
  /** Whether targets are logarithms. */
  logTarget?: boolean | undefined;
}

/** The divergence of targets from log-probabilities, element by element. */
export function klDivLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R>, options: KLDivOptions = {}): Tensor<R> {
  const { reduction = "mean", logTarget } = settingsOf("klDivLoss", options, ["reduction", "logTarget"]);
  expectTensor("klDivLoss", "x", x);
  return x.klDiv(targets, reduction, logTarget);
}

/** `klDivLoss` as a module. */
export class KLDivLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: KLDivOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return klDivLoss(x, targets, this._options);
  }
}

/** What `poissonNllLoss` takes. */
export interface PoissonNLLOptions extends LossOptions {
  /** Whether `x` holds logarithms; true if left out. */
  logInput?: boolean | undefined;
}

/** The negative log-likelihood of counts under rates, or their logarithms. */
export function poissonNllLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R>, options: PoissonNLLOptions = {}): Tensor<R> {
  const { reduction = "mean", logInput } = settingsOf("poissonNllLoss", options, ["reduction", "logInput"]);
  expectTensor("poissonNllLoss", "x", x);
  return x.poissonNllLoss(targets, logInput, undefined, undefined, reduction);
}

/** `poissonNllLoss` as a module. */
export class PoissonNLLLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: PoissonNLLOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return poissonNllLoss(x, targets, this._options);
  }
}

/** The negative log-likelihood of values under means and variances. */
export function gaussianNllLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R>, variance: Tensor<R>, options: LossOptions = {}): Tensor<R> {
  const { reduction = "mean" } = settingsOf("gaussianNllLoss", options, ["reduction"]);
  expectTensor("gaussianNllLoss", "x", x);
  return x.gaussianNllLoss(targets, variance, undefined, undefined, reduction);
}

/** `gaussianNllLoss` as a module. */
export class GaussianNLLLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: LossOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R>, variance: Tensor<R>): Tensor<R> {
    return gaussianNllLoss(x, targets, variance, this._options);
  }
}

/** The pinball loss of predicted quantiles `[.., quantiles]`. */
export function quantileLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R>, quantiles: Tensor<R>, options: LossOptions = {}): Tensor<R> {
  const { reduction = "mean" } = settingsOf("quantileLoss", options, ["reduction"]);
  expectTensor("quantileLoss", "x", x);
  return x.quantileLoss(targets, quantiles, reduction);
}

/** `quantileLoss` as a module. */
export class QuantileLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: LossOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R>, quantiles: Tensor<R>): Tensor<R> {
    return quantileLoss(x, targets, quantiles, this._options);
  }
}

/** What `hingeEmbeddingLoss` takes. */
export interface HingeEmbeddingOptions extends LossOptions {
  /** 1 if left out. */
  margin?: number | undefined;
}

/** Distances of pairs that belong together (1) or not (-1). */
export function hingeEmbeddingLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R>, options: HingeEmbeddingOptions = {}): Tensor<R> {
  const { reduction = "mean", margin } = settingsOf("hingeEmbeddingLoss", options, ["reduction", "margin"]);
  expectTensor("hingeEmbeddingLoss", "x", x);
  return x.hingeEmbeddingLoss(targets, margin, reduction);
}

/** `hingeEmbeddingLoss` as a module. */
export class HingeEmbeddingLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: HingeEmbeddingOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return hingeEmbeddingLoss(x, targets, this._options);
  }
}

/** What `cosineEmbeddingLoss` takes. */
export interface CosineEmbeddingOptions extends LossOptions {
  /** 0 if left out. */
  margin?: number | undefined;
}

/** The angle of pairs that belong together (1) or not (-1). */
export function cosineEmbeddingLoss<R extends Reading = "sync">(x: Tensor<R>, y: Tensor<R>, targets: Tensor<R>, options: CosineEmbeddingOptions = {}): Tensor<R> {
  const { reduction = "mean", margin } = settingsOf("cosineEmbeddingLoss", options, ["reduction", "margin"]);
  expectTensor("cosineEmbeddingLoss", "x", x);
  return x.cosineEmbeddingLoss(y, targets, margin, reduction);
}

/** `cosineEmbeddingLoss` as a module. */
export class CosineEmbeddingLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: CosineEmbeddingOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, y: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return cosineEmbeddingLoss(x, y, targets, this._options);
  }
}

/** What `marginRankingLoss` takes. */
export interface MarginRankingOptions extends LossOptions {
  /** 0 if left out. */
  margin?: number | undefined;
}

/** Whether `x` ranks above `y` (1) or below (-1). */
export function marginRankingLoss<R extends Reading = "sync">(x: Tensor<R>, y: Tensor<R>, targets: Tensor<R>, options: MarginRankingOptions = {}): Tensor<R> {
  const { reduction = "mean", margin } = settingsOf("marginRankingLoss", options, ["reduction", "margin"]);
  expectTensor("marginRankingLoss", "x", x);
  return x.marginRankingLoss(y, targets, margin, reduction);
}

/** `marginRankingLoss` as a module. */
export class MarginRankingLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: MarginRankingOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, y: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return marginRankingLoss(x, y, targets, this._options);
  }
}

/** What `tripletMarginLoss` takes. */
export interface TripletMarginOptions extends LossOptions {
  /** 1 if left out. */
  margin?: number | undefined;
  /** Which norm; 2 if left out. */
  p?: number | undefined;
}

/** How much nearer an anchor is to a positive than to a negative example. */
export function tripletMarginLoss<R extends Reading = "sync">(anchor: Tensor<R>, positive: Tensor<R>, negative: Tensor<R>, options: TripletMarginOptions = {}): Tensor<R> {
  const { reduction = "mean", margin, p } = settingsOf("tripletMarginLoss", options, ["reduction", "margin", "p"]);
  expectTensor("tripletMarginLoss", "anchor", anchor);
  return anchor.tripletMarginLoss(positive, negative, margin, p, undefined, undefined, reduction);
}

/** `tripletMarginLoss` as a module. */
export class TripletMarginLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: TripletMarginOptions = {}) {
    super();
  }

  forward(anchor: Tensor<R>, positive: Tensor<R>, negative: Tensor<R>): Tensor<R> {
    return tripletMarginLoss(anchor, positive, negative, this._options);
  }
}

/** The logistic loss of targets of 1 and -1. */
export function softMarginLoss<R extends Reading = "sync">(x: Tensor<R>, targets: Tensor<R>, options: LossOptions = {}): Tensor<R> {
  const { reduction = "mean" } = settingsOf("softMarginLoss", options, ["reduction"]);
  expectTensor("softMarginLoss", "x", x);
  return x.softMarginLoss(targets, reduction);
}

/** `softMarginLoss` as a module. */
export class SoftMarginLoss<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly _options: LossOptions = {}) {
    super();
  }

  forward(x: Tensor<R>, targets: Tensor<R>): Tensor<R> {
    return softMarginLoss(x, targets, this._options);
  }
}
