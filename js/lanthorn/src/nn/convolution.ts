/** Convolutions and their transposes over one to three axes. */

import { settingsOf } from "../create.js";
import { describe } from "../dtype.js";
import { errorOf } from "../errors.js";
import type { Integers } from "../session.js";
import type { Reading, Tensor } from "../tensor.js";
import { expectSizes, uniformWithin, weightOf } from "./checks.js";
import type { LayerOptions } from "./linear.js";
import { Module } from "./module.js";

/** How the window of a convolution moves. A number holds for every axis. */
export interface ConvolutionOptions extends LayerOptions {
  stride?: Integers | undefined;
  /** Zeros at both ends of each axis, or `"same"` for as many as keep the size. */
  padding?: Integers | "same" | undefined;
  dilation?: Integers | undefined;
  groups?: number | undefined;
}

/** How the window of a transposed convolution moves. */
export interface TransposedOptions extends LayerOptions {
  stride?: Integers | undefined;
  padding?: Integers | undefined;
  outputPadding?: Integers | undefined;
  dilation?: Integers | undefined;
  groups?: number | undefined;
}

/** One size for each of `axes` axes. */
function sizesOf(op: string, sizes: Integers, axes: number): number[] {
  if (typeof sizes !== "number" && !Array.isArray(sizes)) {
    throw errorOf("shape", op, `the kernel is ${describe(sizes)}, expected a whole number or ${axes} of them`);
  }
  const list = typeof sizes === "number" ? Array<number>(axes).fill(sizes) : [...(sizes as readonly number[])];
  list.forEach((size, axis) => expectSizes(op, { [`size ${axis} of the kernel`]: size }));
  if (list.length === axes) return list;
  throw errorOf("shape", op, `the kernel has ${list.length} sizes, expected ${axes}`);
}

/** A quotient that must be whole: channels for each group. */
function perGroup(op: string, channels: number, groups: number): number {
  if (Number.isInteger(groups) && groups > 0 && channels % groups === 0) return channels / groups;
  throw errorOf("shape", op, `${describe(groups)} groups do not divide ${channels} channels`);
}

/** `weight [outputs, inputs / groups, kernel..]`, `bias [outputs]`, uniform within `1 / sqrt(fan in)`. */
abstract class Convolution<R extends Reading> extends Module<R> {
  weight: Tensor<R>;
  bias: Tensor<R> | null;
  readonly stride: Integers;
  readonly padding: Integers | "same";
  readonly dilation: Integers;
  readonly groups: number;

  constructor(axes: number, inputs: number, outputs: number, kernel: Integers, options: ConvolutionOptions = {}) {
    super();
    const op = `Conv${axes}d`;
    const known = ["stride", "padding", "dilation", "groups", "bias", "dtype"] as const;
    const { stride = 1, padding = 0, dilation = 1, groups = 1, bias = true, dtype } = settingsOf(op, options, known);
    expectSizes(op, { inputs, outputs });
    const shape = [outputs, perGroup(op, inputs, groups), ...sizesOf(op, kernel, axes)];
    perGroup(op, outputs, groups);
    this.weight = weightOf(shape, dtype);
    const fanIn = shape.slice(1).reduce((product, size) => product * size, 1);
    this.bias = bias ? uniformWithin([outputs], fanIn, dtype) : null;
    this.stride = stride;
    this.padding = padding;
    this.dilation = dilation;
    this.groups = groups;
  }

  protected arguments(): [Tensor<R> | undefined, Integers, Integers, Integers, number, boolean] {
    const isSame = this.padding === "same";
    const padding = this.padding === "same" ? [] : this.padding;
    return [this.bias ?? undefined, this.stride, padding, this.dilation, this.groups, isSame];
  }
}

/** Convolution of `x [batch, inputs, width]`. */
export class Conv1d<R extends Reading = "sync"> extends Convolution<R> {
  constructor(inputs: number, outputs: number, kernel: Integers, options?: ConvolutionOptions) {
    super(1, inputs, outputs, kernel, options);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.conv1d(this.weight, ...this.arguments());
  }
}

/** Convolution of `x [batch, inputs, height, width]`. */
export class Conv2d<R extends Reading = "sync"> extends Convolution<R> {
  constructor(inputs: number, outputs: number, kernel: Integers, options?: ConvolutionOptions) {
    super(2, inputs, outputs, kernel, options);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.conv2d(this.weight, ...this.arguments());
  }
}

/** Convolution of `x [batch, inputs, depth, height, width]`. */
export class Conv3d<R extends Reading = "sync"> extends Convolution<R> {
  constructor(inputs: number, outputs: number, kernel: Integers, options?: ConvolutionOptions) {
    super(3, inputs, outputs, kernel, options);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.conv3d(this.weight, ...this.arguments());
  }
}

/** `weight [inputs, outputs / groups, kernel..]`, `bias [outputs]`, uniform as torch's. */
abstract class Transposed<R extends Reading> extends Module<R> {
  weight: Tensor<R>;
  bias: Tensor<R> | null;
  readonly stride: Integers;
  readonly padding: Integers;
  readonly outputPadding: Integers;
  readonly dilation: Integers;
  readonly groups: number;

  constructor(axes: number, inputs: number, outputs: number, kernel: Integers, options: TransposedOptions = {}) {
    super();
    const op = `ConvTranspose${axes}d`;
    const known = ["stride", "padding", "outputPadding", "dilation", "groups", "bias", "dtype"] as const;
    const settings = settingsOf(op, options, known);
    const { stride = 1, padding = 0, outputPadding = 0, dilation = 1, groups = 1, bias = true, dtype } = settings;
    expectSizes(op, { inputs, outputs });
    const shape = [inputs, perGroup(op, outputs, groups), ...sizesOf(op, kernel, axes)];
    perGroup(op, inputs, groups);
    this.weight = weightOf(shape, dtype);
    const fanIn = shape.slice(1).reduce((product, size) => product * size, 1);
    this.bias = bias ? uniformWithin([outputs], fanIn, dtype) : null;
    this.stride = stride;
    this.padding = padding;
    this.outputPadding = outputPadding;
    this.dilation = dilation;
    this.groups = groups;
  }

  protected arguments(): [Tensor<R> | undefined, Integers, Integers, Integers, Integers, number] {
    return [this.bias ?? undefined, this.stride, this.padding, this.outputPadding, this.dilation, this.groups];
  }
}

/** Transposed convolution of `x [batch, inputs, width]`. */
export class ConvTranspose1d<R extends Reading = "sync"> extends Transposed<R> {
  constructor(inputs: number, outputs: number, kernel: Integers, options?: TransposedOptions) {
    super(1, inputs, outputs, kernel, options);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.convTranspose1d(this.weight, ...this.arguments());
  }
}

/** Transposed convolution of `x [batch, inputs, height, width]`. */
export class ConvTranspose2d<R extends Reading = "sync"> extends Transposed<R> {
  constructor(inputs: number, outputs: number, kernel: Integers, options?: TransposedOptions) {
    super(2, inputs, outputs, kernel, options);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.convTranspose2d(this.weight, ...this.arguments());
  }
}

/** Transposed convolution of `x [batch, inputs, depth, height, width]`. */
export class ConvTranspose3d<R extends Reading = "sync"> extends Transposed<R> {
  constructor(inputs: number, outputs: number, kernel: Integers, options?: TransposedOptions) {
    super(3, inputs, outputs, kernel, options);
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.convTranspose3d(this.weight, ...this.arguments());
  }
}
