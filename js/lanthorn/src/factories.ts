/** What makes a tensor of a shape, of a distribution or of elements. Ops of the table that make one are `Operations`. */

import {
  create,
  finish,
  optionsOf,
  random,
  randomKey,
  shapeOf,
  type KaimingOptions,
  type NormalOptions,
  type Options,
  type ShapeArguments,
  type TensorOptions,
  type UniformOptions,
  type XavierOptions,
} from "./create.js";
import { describe, dtypeOf, type ElementsLike, type Scalar } from "./dtype.js";
import { errorOf, nameErrors } from "./errors.js";
import { session, type Integers } from "./session.js";
import { Idioms } from "./idioms.js";
import type { Reading, Tensor } from "./tensor.js";

/** Static methods that make tensors. A shape is a list, or sizes one by one. */
export abstract class Factories<R extends Reading> extends Idioms<R> {
  /** A tensor of elements in row-major order. Typed arrays give their dtype, plain numbers `f32`. */
  static fromData<R extends Reading = "sync">(
    data: ElementsLike,
    shape?: readonly number[],
    options?: Options,
  ): Tensor<R> {
    const owner = session();
    return owner.wrap(create(owner, "fromData", data, shape, optionsOf("fromData", options)));
  }

  /** A tensor to be written to. Its elements are 0: memory of other tensors is never shown. */
  static empty<R extends Reading = "sync">(...shape: ShapeArguments): Tensor<R> {
    return Factories.zeros(...shape);
  }

  /** Uniform values, between 0 and 1 if `low` and `high` are not given. */
  static rand<R extends Reading = "sync">(...shape: ShapeArguments<UniformOptions | boolean>): Tensor<R> {
    return random("rand", shape);
  }

  /** Normal values, of mean 0 and standard deviation 1 if `mean` and `std` are not given. */
  static randn<R extends Reading = "sync">(...shape: ShapeArguments<NormalOptions | boolean>): Tensor<R> {
    return random("randn", shape);
  }

  /** As `rand`. */
  static uniform<R extends Reading = "sync">(...shape: ShapeArguments<UniformOptions | boolean>): Tensor<R> {
    return random("rand", shape);
  }

  /** As `randn`. */
  static normal<R extends Reading = "sync">(...shape: ShapeArguments<NormalOptions | boolean>): Tensor<R> {
    return random("randn", shape);
  }

  /** Uniform values of the variance `2 / ((1 + a^2) fan)` for a weight `[outputs, inputs, ..]` (He et al. 2015). */
  static kaimingUniform<R extends Reading = "sync">(...shape: ShapeArguments<KaimingOptions>): Tensor<R> {
    return random("kaimingUniform", shape);
  }

  /** Normal values of the variance `2 / ((1 + a^2) fan)` for a weight `[outputs, inputs, ..]` (He et al. 2015). */
  static kaimingNormal<R extends Reading = "sync">(...shape: ShapeArguments<KaimingOptions>): Tensor<R> {
    return random("kaimingNormal", shape);
  }

  /** Uniform values of the variance `2 gain^2 / (fan in + fan out)` for a weight (Glorot and Bengio 2010). */
  static xavierUniform<R extends Reading = "sync">(...shape: ShapeArguments<XavierOptions>): Tensor<R> {
    return random("xavierUniform", shape);
  }

  /** Normal values of the variance `2 gain^2 / (fan in + fan out)` for a weight (Glorot and Bengio 2010). */
  static xavierNormal<R extends Reading = "sync">(...shape: ShapeArguments<XavierOptions>): Tensor<R> {
    return random("xavierNormal", shape);
  }

  /** Uniform values between -b and b for `b = 1 / sqrt(number of elements)`. */
  static scaledUniform<R extends Reading = "sync">(...shape: ShapeArguments<TensorOptions | boolean>): Tensor<R> {
    const owner = session();
    const [sizes, options] = shapeOf<TensorOptions | boolean>(owner, "scaledUniform", shape);
    const { dtype, requiresGrad } = optionsOf("scaledUniform", options);
    const count = sizes.reduce((product, size) => product * size, 1);
    const bound = count > 0 ? 1 / Math.sqrt(count) : 1;
    return random<R>("rand", [sizes, { dtype, requiresGrad, low: -bound, high: bound }]);
  }

  /** As `xavierUniform`. */
  static glorotUniform<R extends Reading = "sync">(...shape: ShapeArguments<XavierOptions>): Tensor<R> {
    return random("xavierUniform", shape);
  }

  /** As `xavierNormal`. */
  static glorotNormal<R extends Reading = "sync">(...shape: ShapeArguments<XavierOptions>): Tensor<R> {
    return random("xavierNormal", shape);
  }

  /** Integers from `low` up to and without `high`, each as likely, of `i64` if no dtype is given. */
  static randint<R extends Reading = "sync">(
    low: number,
    high: number,
    shape: Integers,
    options?: Options,
  ): Tensor<R> {
    const settings = optionsOf("randint", options);
    const [sizes] = shapeOf(session(), "randint", [shape]);
    return finish(randomKey<R>().randint(sizes, low, high, settings.dtype), settings);
  }

  /** The numbers from 0 up to and without `n` in random order, of `i64` if no dtype is given. */
  static randperm<R extends Reading = "sync">(n: number, options?: TensorOptions): Tensor<R> {
    const { dtype } = optionsOf("randperm", options);
    const order = randomKey<R>().randperm(n);
    return dtype === undefined ? order : order.cast(dtype);
  }

  /** `start, start + step, ...` up to and without `stop`; `arange(stop)` begins at 0. Of `i64`, or `f32` if a number is not whole. */
  static override arange<R extends Reading = "sync">(stop: Scalar, options?: Options): Tensor<R>;
  static override arange<R extends Reading = "sync">(start: Scalar, stop: Scalar, step?: Scalar, options?: Options): Tensor<R>;
  static override arange<R extends Reading = "sync">(
    first: Scalar,
    second?: Scalar | Options,
    step?: Scalar,
    options?: Options,
  ): Tensor<R> {
    const isOne = second === undefined || typeof second === "object";
    const [start, stop, given] = isOne ? [0, first, second as Options] : [first, second, options];
    const settings = optionsOf("arange", given);
    const isWhole = [start, stop, step ?? 1].every((number) => Number.isInteger(Number(number)));
    return super.arange(start, stop, step, { ...settings, dtype: settings.dtype ?? (isWhole ? "i64" : "f32") });
  }

  /** A constant of that shape. Of `f32`, `i64` or `bool` by what the value is, if no dtype is given, as `new Tensor`. */
  static override full<R extends Reading = "sync">(shape: Integers, value: Scalar, options?: Options): Tensor<R> {
    const settings = optionsOf("full", options);
    return super.full(shape, value, { ...settings, dtype: settings.dtype ?? dtypeOf([value]) });
  }

  /** A constant of no axes, of a dtype as `full` has it. */
  static override scalar<R extends Reading = "sync">(value: Scalar, options?: Options): Tensor<R> {
    const settings = optionsOf("scalar", options);
    return super.scalar(value, { ...settings, dtype: settings.dtype ?? dtypeOf([value]) });
  }

  /** The key of the next draw, for ops that take one, such as `dropout`. */
  static randomKey<R extends Reading = "sync">(): Tensor<R> {
    return randomKey();
  }

  /** As `concat`, under torch's name. */
  static cat<R extends Reading = "sync">(values: readonly Tensor<R>[], axis?: number): Tensor<R> {
    return Factories.concat(values, axis);
  }

  /** `x` where the condition holds, else `y`; either may be a number. */
  static where<R extends Reading = "sync">(
    condition: Tensor<R>,
    x: Tensor<R> | Scalar,
    y: Tensor<R> | Scalar,
  ): Tensor<R> {
    for (const [name, value] of [["condition", condition], ["x", x], ["y", y]] as const) {
      const isNumber = name !== "condition" && ["number", "bigint", "boolean"].includes(typeof value);
      if (isNumber || (typeof value === "object" && value !== null && "handle" in value)) continue;
      const expected = name === "condition" ? "a Tensor" : "a Tensor or a number";
      throw errorOf("foreign_handle", "where", `${name} is ${describe(value)}, expected ${expected}`);
    }
    const other = typeof x === "object" ? x : typeof y === "object" ? y : undefined;
    if (other === undefined) {
      throw errorOf("dtype", "where", "both values are numbers, expected a Tensor among them to give the dtype");
    }
    const tensor = (value: Tensor<R> | Scalar) =>
      typeof value === "object" ? value : Factories.full<R>([], value, { dtype: other.dtype });
    return condition.where(tensor(x), tensor(y));
  }

  /** As `manualSeed`. */
  static manualSeed(seed: number): void {
    const owner = session();
    if (!(Number.isSafeInteger(seed) && seed >= 0)) {
      throw errorOf("unsupported", "manualSeed", `the seed is ${describe(seed)}, expected a whole number from 0 to 2^53 - 1`);
    }
    owner.check(owner.raw.seed(seed));
  }

  static readonly manual_seed = Factories.manualSeed;
  static readonly from_data = Factories.fromData;
  static readonly kaiming_uniform = Factories.kaimingUniform;
  static readonly kaiming_normal = Factories.kaimingNormal;
  static readonly xavier_uniform = Factories.xavierUniform;
  static readonly xavier_normal = Factories.xavierNormal;
  static readonly scaled_uniform = Factories.scaledUniform;
  static readonly glorot_uniform = Factories.glorotUniform;
  static readonly glorot_normal = Factories.glorotNormal;
  static readonly random_key = Factories.randomKey;
}

nameErrors(Factories);
