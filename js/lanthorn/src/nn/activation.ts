/** Activations and dropout as modules, for `Sequential`. Each is the op of its name. */

import { Tensor, type Reading } from "../tensor.js";
import { expectSizes, probabilityOf } from "./checks.js";
import { Module, parameter } from "./module.js";

/** A module that applies a function to one tensor. */
export class Activation<R extends Reading = "sync"> extends Module<R> {
  constructor(private readonly _apply: (x: Tensor<any>) => Tensor<any>) {
    super();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return this._apply(x);
  }
}

/** The class of a module that applies an op of one tensor, with the numbers that its constructor is given. */
function activation<A extends unknown[]>(
  apply: (x: Tensor<any>, ...settings: A) => Tensor<any>,
): new <R extends Reading>(...settings: A) => Activation<R> {
  return class<R extends Reading> extends Activation<R> {
    constructor(...settings: A) {
      super((x) => apply(x, ...settings));
    }
  };
}

/** `max(x, 0)`. */
export class ReLU<R extends Reading = "sync"> extends activation((x) => x.relu())<R> {}
/** `min(max(x, 0), 6)`. */
export class ReLU6<R extends Reading = "sync"> extends activation((x) => x.relu6())<R> {}
/** `x` above 0, `slope x` below; the slope is 0.01 if left out. */
export class LeakyReLU<R extends Reading = "sync"> extends activation((x, slope?: number) => x.leakyRelu(slope))<R> {}
/** `x` above 0, `alpha (e^x - 1)` below; alpha is 1 if left out. */
export class ELU<R extends Reading = "sync"> extends activation((x, alpha?: number) => x.elu(alpha))<R> {}
/** ELU with a continuous derivative for every alpha. */
export class CELU<R extends Reading = "sync"> extends activation((x, alpha?: number) => x.celu(alpha))<R> {}
/** The self-normalising ELU. */
export class SELU<R extends Reading = "sync"> extends activation((x) => x.selu())<R> {}
/** `x` times the normal distribution's share below it, or its approximation by `"tanh"`. */
export class GELU<R extends Reading = "sync"> extends activation((x, approximate?: "none" | "tanh") =>
  x.gelu(approximate),
)<R> {}
/** `x sigmoid(x)`. */
export class SiLU<R extends Reading = "sync"> extends activation((x) => x.silu())<R> {}
/** `x tanh(softplus(x))`. */
export class Mish<R extends Reading = "sync"> extends activation((x) => x.mish())<R> {}
/** `1 / (1 + e^-x)`. */
export class Sigmoid<R extends Reading = "sync"> extends activation((x) => x.sigmoid())<R> {}
/** `log(sigmoid(x))`. */
export class LogSigmoid<R extends Reading = "sync"> extends activation((x) => x.logSigmoid())<R> {}
/** The hyperbolic tangent. */
export class Tanh<R extends Reading = "sync"> extends activation((x) => x.tanh())<R> {}
/** `x` held between two numbers, -1 and 1 if left out. */
export class Hardtanh<R extends Reading = "sync"> extends activation((x, low?: number, high?: number) =>
  x.hardtanh(low, high),
)<R> {}
/** A sigmoid of straight lines. */
export class Hardsigmoid<R extends Reading = "sync"> extends activation((x) => x.hardsigmoid())<R> {}
/** `x` times a sigmoid of straight lines. */
export class Hardswish<R extends Reading = "sync"> extends activation((x) => x.hardswish())<R> {}
/** `log(1 + e^(beta x)) / beta`; beta is 1 and the threshold, beyond which it is `x`, 20 if left out. */
export class Softplus<R extends Reading = "sync"> extends activation((x, beta?: number, threshold?: number) =>
  x.softplus(beta, threshold),
)<R> {}
/** `x / (1 + |x|)`. */
export class Softsign<R extends Reading = "sync"> extends activation((x) => x.softsign())<R> {}
/** The softmax along an axis, the last if left out. */
export class Softmax<R extends Reading = "sync"> extends activation((x, axis?: number) => x.softmax(axis))<R> {}
/** The logarithm of the softmax along an axis, the last if left out. */
export class LogSoftmax<R extends Reading = "sync"> extends activation((x, axis?: number) => x.logSoftmax(axis))<R> {}
/** The first half of an axis, the last if left out, times the sigmoid of the second. */
export class GLU<R extends Reading = "sync"> extends activation((x, axis?: number) => x.glu(axis))<R> {}

/** `x` above 0, `weight x` below, where `weight` is learnt: one number, or one for each channel. */
export class PReLU<R extends Reading = "sync"> extends Module<R> {
  weight: Tensor<R>;

  constructor(count = 1, initial = 0.25) {
    super();
    expectSizes("PReLU", { count });
    this.weight = parameter(Tensor.full<R>([count], initial));
  }

  forward(x: Tensor<R>): Tensor<R> {
    return x.prelu(this.weight);
  }
}

/** In training zeros with probability `p`, and the rest times `1 / (1 - p)`; otherwise what comes in. */
export class Dropout<R extends Reading = "sync"> extends Module<R> {
  readonly p: number;

  constructor(p = 0.5) {
    super();
    this.p = probabilityOf("Dropout", p);
  }

  forward(x: Tensor<R>): Tensor<R> {
    if (!this.isTraining || this.p === 0) return x;
    return x.dropout(this.p);
  }
}
