/** Pooling. Each is the op of its name; a number holds for every axis. */

import { settingsOf } from "../create.js";
import type { Integers } from "../session.js";
import type { Reading, Tensor } from "../tensor.js";
import { Module } from "./module.js";

/** How a window of a pool moves. */
export interface PoolOptions {
  /** The kernel's sizes if left out. */
  stride?: Integers | undefined;
  padding?: Integers | undefined;
  /** Whether a window that only begins inside counts. */
  ceilMode?: boolean | undefined;
}

/** How the window of a maximum moves. */
export interface MaxPoolOptions extends PoolOptions {
  dilation?: Integers | undefined;
}

/** How the window of a mean moves. */
export interface AvgPoolOptions extends PoolOptions {
  /** Whether zeros around the image count; true if left out. */
  countIncludePad?: boolean | undefined;
  /** In place of the number of elements. */
  divisor?: number | undefined;
}

/** The names of `MaxPoolOptions` and `AvgPoolOptions`. */
const MAX = ["stride", "padding", "dilation", "ceilMode"] as const;
const AVG = ["stride", "padding", "ceilMode", "countIncludePad", "divisor"] as const;

/** The largest element of each window of `x [batch, channels, width]`. */
export class MaxPool1d<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly kernel: Integers,
    readonly options: MaxPoolOptions = {},
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    const { stride, padding, dilation, ceilMode } = settingsOf("MaxPool1d", this.options, MAX);
    return x.maxPool1d(this.kernel, stride, padding, dilation, ceilMode);
  }
}

/** The mean of each window of `x [batch, channels, width]`. */
export class AvgPool1d<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly kernel: Integers,
    readonly options: AvgPoolOptions = {},
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    const { stride, padding, ceilMode, countIncludePad, divisor } = settingsOf("AvgPool1d", this.options, AVG);
    return x.avgPool1d(this.kernel, stride, padding, ceilMode, countIncludePad, divisor);
  }
}

/** The largest element of each window of `x [batch, channels, height, width]`. */
export class MaxPool2d<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly kernel: Integers,
    readonly options: MaxPoolOptions = {},
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    const { stride, padding, dilation, ceilMode } = settingsOf("MaxPool2d", this.options, MAX);
    return x.maxPool2d(this.kernel, stride, padding, dilation, ceilMode);
  }
}

/** The mean of each window of `x [batch, channels, height, width]`. */
export class AvgPool2d<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly kernel: Integers,
    readonly options: AvgPoolOptions = {},
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    const { stride, padding, ceilMode, countIncludePad, divisor } = settingsOf("AvgPool2d", this.options, AVG);
    return x.avgPool2d(this.kernel, stride, padding, ceilMode, countIncludePad, divisor);
  }
}

/** The largest element of each window of `x [batch, channels, depth, height, width]`. */
export class MaxPool3d<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly kernel: Integers,
    readonly options: MaxPoolOptions = {},
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    const { stride, padding, dilation, ceilMode } = settingsOf("MaxPool3d", this.options, MAX);
    return x.maxPool3d(this.kernel, stride, padding, dilation, ceilMode);
  }
}

/** The mean of each window of `x [batch, channels, depth, height, width]`. */
export class AvgPool3d<R extends Reading = "sync"> extends Module<R> {
  constructor(
    readonly kernel: Integers,
    readonly options: AvgPoolOptions = {},
  ) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    const { stride, padding, ceilMode, countIncludePad, divisor } = settingsOf("AvgPool3d", this.options, AVG);
    return x.avgPool3d(this.kernel, stride, padding, ceilMode, countIncludePad, divisor);
  }
}

/** The mean of windows that make an image of that size of `x [batch, channels, width]`. */
export class AdaptiveAvgPool1d<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly size: Integers) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.adaptiveAvgPool1d(this.size);
  }
}

/** The largest element of windows that make an image of that size of `x [batch, channels, width]`. */
export class AdaptiveMaxPool1d<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly size: Integers) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.adaptiveMaxPool1d(this.size);
  }
}

/** The mean of windows that make an image of that size of `x [batch, channels, height, width]`. */
export class AdaptiveAvgPool2d<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly size: Integers) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.adaptiveAvgPool2d(this.size);
  }
}

/** The largest element of windows that make an image of that size of `x [batch, channels, height, width]`. */
export class AdaptiveMaxPool2d<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly size: Integers) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.adaptiveMaxPool2d(this.size);
  }
}

/** The mean of windows that make an image of that size of `x [batch, channels, depth, height, width]`. */
export class AdaptiveAvgPool3d<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly size: Integers) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.adaptiveAvgPool3d(this.size);
  }
}

/** The largest element of windows that make an image of that size of `x [batch, channels, depth, height, width]`. */
export class AdaptiveMaxPool3d<R extends Reading = "sync"> extends Module<R> {
  constructor(readonly size: Integers) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.adaptiveMaxPool3d(this.size);
  }
}
