/** Normalisations. */

import { settingsOf } from "../create.js";
import { describe, type DTypeName } from "../dtype.js";
import { errorOf } from "../errors.js";
import type { Integers } from "../session.js";
import { Tensor, type Reading } from "../tensor.js";
import { expectSizes, positiveOf } from "./checks.js";
import { Module, parameter } from "./module.js";

/** What a normalisation takes. */
export interface NormOptions {
  /** Added to the variance. */
  eps?: number | undefined;
  /** Whether there are a gain and, where the norm has one, a shift; true if left out. */
  affine?: boolean | undefined;
  /** Whether there is a shift beside the gain; true if left out. */
  bias?: boolean | undefined;
  dtype?: DTypeName | undefined;
}

/** The names of `NormOptions`. */
const NORM = ["eps", "affine", "bias", "dtype"] as const;

/** A gain of ones. */
function gain<R extends Reading>(shape: readonly number[], { affine = true, dtype }: NormOptions): Tensor<R> | null {
  return affine ? parameter(Tensor.ones<R>(shape, { dtype })) : null;
}

/** A shift of zeros. */
function shift<R extends Reading>(shape: readonly number[], options: NormOptions): Tensor<R> | null {
  const { affine = true, bias = true, dtype } = options;
  return affine && bias ? parameter(Tensor.zeros<R>(shape, { dtype })) : null;
}

/** Mean 0 and variance 1 over the last axes, times `weight` plus `bias` (Ba, Kiros and Hinton 2016). `eps` is 1e-5. */
export class LayerNorm<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R> | null;
  bias: Tensor<R> | null;
  readonly eps: number;
  readonly axes: number;

  constructor(shape: Integers, options: NormOptions = {}) {
    super();
    options = settingsOf("LayerNorm", options, NORM);
    const sizes = typeof shape === "number" ? [shape] : shape;
    if (!Array.isArray(sizes)) throw errorOf("shape", "LayerNorm", `the shape is ${describe(shape)}, expected integers`);
    sizes.forEach((size: unknown, axis) => expectSizes("LayerNorm", { [`size ${axis} of the shape`]: size }));
    this.weight = gain(sizes, options);
    this.bias = shift(sizes, options);
    this.eps = positiveOf("LayerNorm", "eps", options.eps, 1e-5);
    this.axes = sizes.length;
  }

  forward(x: Tensor<R>): Tensor<R> {
    const { weight, bias, eps, axes } = this;
    if (axes === 1) return x.layerNorm(weight ?? undefined, bias ?? undefined, eps);
    // The op works on the last axis: several become one.
    const flat = (tensor: Tensor<R> | null) => tensor?.flatten();
    return x.flatten(-axes, -1).layerNorm(flat(weight), flat(bias), eps).reshape(x.shape);
  }
}

/** `LayerNorm` over the channels of `x [batch, channels, height, width]` at each place. */
export class LayerNorm2d<R extends Reading = "sync"> extends LayerNorm<R> {
  constructor(channels: number, options: NormOptions = {}) {
    super(channels, options);
  }

  override forward(x: Tensor<R>): Tensor<R> {
    if (x.rank !== 4) {
      const message = `x has the shape [${x.shape.join(", ")}], expected [batch, channels, height, width]`;
      throw errorOf("shape", "LayerNorm2d", message);
    }
    return super.forward(x.moveAxis(1, -1)).moveAxis(-1, 1);
  }
}

/** Divided by the root of the mean square over the last axis, times `weight` (Zhang and Sennrich 2019). */
export class RMSNorm<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R> | null;
  readonly eps: number;

  /** `eps` is 1e-6 if left out. */
  constructor(width: number, options: NormOptions = {}) {
    super();
    expectSizes("RMSNorm", { width });
    options = settingsOf("RMSNorm", options, ["eps", "affine", "dtype"]);
    this.weight = gain([width], options);
    this.eps = positiveOf("RMSNorm", "eps", options.eps, 1e-6);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.rmsNorm(this.weight ?? undefined, this.eps);
  }
}

/** Mean 0 and variance 1 over each group of the channels of `x [batch, channels, ..]` (Wu and He 2018). */
export class GroupNorm<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R> | null;
  bias: Tensor<R> | null;
  readonly eps: number;

  constructor(
    readonly groups: number,
    channels: number,
    options: NormOptions = {},
  ) {
    super();
    options = settingsOf("GroupNorm", options, NORM);
    expectSizes("GroupNorm", { groups, channels });
    if (groups < 1 || channels % groups !== 0) {
      throw errorOf("shape", "GroupNorm", `${groups} groups do not divide ${channels} channels`);
    }
    this.weight = gain([channels], options);
    this.bias = shift([channels], options);
    this.eps = positiveOf("GroupNorm", "eps", options.eps, 1e-5);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.groupNorm(this.groups, this.weight ?? undefined, this.bias ?? undefined, this.eps);
  }
}

/** What a batch norm takes. */
export interface BatchNormOptions extends NormOptions {
  /** The share of a batch in the running statistics; 0.1 if left out. */
  momentum?: number | undefined;
}

/**
 * Mean 0 and variance 1 of each channel, times `weight` plus `bias` (Ioffe and Szegedy 2015). Training takes the
 * statistics of the batch and moves `running_mean` and `running_var`; `eval` takes these.
 */
abstract class BatchNorm<R extends Reading> extends Module<R> {
  weight: Tensor<R> | null;
  bias: Tensor<R> | null;
  // State has torch's names, so that its files can be read.
  running_mean: Tensor<R>;
  running_var: Tensor<R>;
  num_batches_tracked: Tensor<R>;
  readonly eps: number;
  readonly momentum: number;
  protected abstract readonly ranks: readonly number[];

  constructor(channels: number, options: BatchNormOptions = {}) {
    super();
    expectSizes(this.constructor.name, { channels });
    options = settingsOf(this.constructor.name, options, [...NORM, "momentum"]);
    this.weight = gain([channels], options);
    this.bias = shift([channels], options);
    this.running_mean = Tensor.zeros<R>([channels], { dtype: options.dtype });
    this.running_var = Tensor.ones<R>([channels], { dtype: options.dtype });
    this.num_batches_tracked = Tensor.zeros<R>([], { dtype: "i64" });
    this.eps = positiveOf(this.constructor.name, "eps", options.eps, 1e-5);
    this.momentum = positiveOf(this.constructor.name, "momentum", options.momentum, 0.1);
  }

  forward(x: Tensor<R>): Tensor<R> {
    if (!this.ranks.includes(x.rank)) {
      const message = `x has the shape ${describe(x.shape.join(", "))}, expected ${this.ranks.join(" or ")} axes`;
      throw errorOf("shape", this.constructor.name, message);
    }
    const { weight, bias, running_mean, running_var, isTraining: training, momentum, eps } = this;
    // Statistics are kept and computed in the dtype of the state.
    const wide = x.dtype === running_mean.dtype ? x : x.cast(running_mean.dtype);
    const arrange = [running_mean, running_var, training, momentum, eps] as const;
    const [y, mean, variance] = wide.batchNorm(weight ?? undefined, bias ?? undefined, ...arrange) as [
      Tensor<R>,
      Tensor<R>,
      Tensor<R>,
    ];
    if (training) {
      running_mean.copyFrom(mean);
      running_var.copyFrom(variance);
      this.num_batches_tracked.add_(1);
    }
    return wide === x ? y : y.cast(x.dtype);
  }
}

/** Batch norm of `x [batch, channels]` or `[batch, channels, width]`. */
export class BatchNorm1d<R extends Reading = "sync"> extends BatchNorm<R> {
  protected readonly ranks = [2, 3];
}

/** Batch norm of `x [batch, channels, height, width]`. */
export class BatchNorm2d<R extends Reading = "sync"> extends BatchNorm<R> {
  protected readonly ranks = [4];
}

/** Batch norm of `x [batch, channels, depth, height, width]`. */
export class BatchNorm3d<R extends Reading = "sync"> extends BatchNorm<R> {
  protected readonly ranks = [5];
}

/** Mean 0 and variance 1 of each channel of each example (Ulyanov et al. 2016). Without gain and shift unless asked. */
abstract class InstanceNorm<R extends Reading> extends Module<R> {
  weight: Tensor<R> | null;
  bias: Tensor<R> | null;
  readonly eps: number;

  constructor(channels: number, options: NormOptions = {}) {
    super();
    expectSizes(this.constructor.name, { channels });
    options = settingsOf(this.constructor.name, options, NORM);
    const { affine = false } = options;
    this.weight = gain([channels], { ...options, affine });
    this.bias = shift([channels], { ...options, affine });
    this.eps = positiveOf(this.constructor.name, "eps", options.eps, 1e-5);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.instanceNorm(this.weight ?? undefined, this.bias ?? undefined, this.eps);
  }
}

/** Instance norm of `x [batch, channels, width]`. */
export class InstanceNorm1d<R extends Reading = "sync"> extends InstanceNorm<R> {}
/** Instance norm of `x [batch, channels, height, width]`. */
export class InstanceNorm2d<R extends Reading = "sync"> extends InstanceNorm<R> {}
/** Instance norm of `x [batch, channels, depth, height, width]`. */
export class InstanceNorm3d<R extends Reading = "sync"> extends InstanceNorm<R> {}
