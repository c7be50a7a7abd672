/** Modules of modules. */

import { describe } from "../dtype.js";
import { errorOf } from "../errors.js";
import { Tensor, type Reading } from "../tensor.js";
import { Module } from "./module.js";

/** What a `Sequential` runs: a module, or a function of one tensor. */
export type Step<R extends Reading = "sync"> = Module<R> | ((x: Tensor<R>) => Tensor<R>);

/** Runs its steps one after the other: `new Sequential(new Linear(4, 8), new ReLU(), (x) => x.mul(2))`. */
export class Sequential<R extends Reading = "sync"> extends Module<R> {
  readonly _steps: readonly Step<R>[];

  constructor(...steps: readonly Step<R>[]) {
    super();
    steps.forEach((step: unknown, place) => {
      if (step instanceof Module || typeof step === "function") return;
      throw errorOf("unsupported", "Sequential", `step ${place} is ${describe(step)}, expected a module or a function`);
    });
    this._steps = steps;
  }

  protected override *members() {
    // As in torch, a step is named by its place: `0.weight`.
    for (const [at, value] of this._steps.entries()) if (value instanceof Module) yield { name: String(at), value };
  }

  /** The number of steps. */
  get length(): number {
    return this._steps.length;
  }

  /** The step at a place, negative from the end. */
  at(place: number): Step<R> | undefined {
    return this._steps.at(place);
  }

  [Symbol.iterator](): Iterator<Step<R>> {
    return this._steps[Symbol.iterator]();
  }

  forward(x: Tensor<R>): Tensor<R> {
    return this._steps.reduce((x, step) => (step instanceof Module ? (step.forward(x) as Tensor<R>) : step(x)), x);
  }
}

/** A list of modules, named by their places, for models that run them in their own way. */
export class ModuleList<M extends Module<any> = Module> extends Module<any> {
  readonly _modules: M[];

  constructor(modules: Iterable<M> = []) {
    super();
    this._modules = [...modulesOf(modules)];
  }

  protected override *members() {
    for (const [at, value] of this._modules.entries()) yield { name: String(at), value };
  }

  push(...modules: M[]): number {
    return this._modules.push(...modulesOf(modules));
  }

  get length(): number {
    return this._modules.length;
  }

  at(place: number): M | undefined {
    return this._modules.at(place);
  }

  [Symbol.iterator](): Iterator<M> {
    return this._modules[Symbol.iterator]();
  }

  /** A list computes nothing by itself. */
  forward(): never {
    throw new TypeError("ModuleList.forward: a list has no order of its own; call its modules, or use Sequential");
  }
}

/** The modules of a list; an error for what is none. */
function modulesOf<M extends Module<any>>(modules: Iterable<M>): M[] {
  if (typeof (modules as Partial<Iterable<M>> | null)?.[Symbol.iterator] !== "function") {
    throw errorOf("unsupported", "ModuleList", `got ${describe(modules)}, expected a list of modules`);
  }
  return Array.from(modules, (module: unknown, place) => {
    if (module instanceof Module) return module as M;
    throw errorOf("unsupported", "ModuleList", `module ${place} is ${describe(module)}, expected a module`);
  });
}
