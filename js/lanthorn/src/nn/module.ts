/**
 * Modules: objects that hold tensors and other modules. Parameters are found by walking over an object's own properties,
 * so that a plain class with tensors in it needs no declarations.
 */

import { settingsOf } from "../create.js";
import { describe } from "../dtype.js";
import { errorOf } from "../errors.js";
import { respell } from "../spelling.js";
import { Tensor, type Reading } from "../tensor.js";

/** Tensors by name. A tied one is there under each of its names. */
export type StateDict<R extends Reading = "sync"> = { [name: string]: Tensor<R> };

/** Tensors that are parameters although they require no gradients now, such as frozen ones. */
const PARAMETERS = new WeakSet<Tensor<any>>();

/** Makes a tensor a parameter: it requires gradients, and stays a parameter if that is switched off to freeze it. */
export function parameter<R extends Reading>(tensor: Tensor<R>): Tensor<R> {
  if (!(tensor instanceof Tensor)) {
    throw errorOf("foreign_handle", "parameter", `got ${describe(tensor)}, expected a Tensor`);
  }
  PARAMETERS.add(tensor);
  tensor.requiresGrad = true;
  return tensor;
}

/** Whether a tensor is a parameter: it was made one, or is a leaf that requires gradients. */
function isParameter(tensor: Tensor<any>): boolean {
  return PARAMETERS.has(tensor) || (tensor.requiresGrad && tensor.isLeaf);
}

/** A tensor or a module that an object holds, by name. */
export interface Member {
  readonly name: string;
  readonly value: Tensor<any> | Module<any>;
}

/** The tensors and modules that an object holds itself or in lists and plain objects, by name. */
function* membersOf(owner: object, prefix = "", path: readonly object[] = []): Generator<Member> {
  const entries: Iterable<[unknown, unknown]> = owner instanceof Map ? owner.entries() : Object.entries(owner);
  for (const [key, value] of entries) {
    const name = prefix + String(key);
    if (name.startsWith("_") || typeof value !== "object" || value === null) continue;
    if (value instanceof Tensor || value instanceof Module) yield { name, value };
    else if (Array.isArray(value) || value instanceof Map || Object.getPrototypeOf(value) === Object.prototype) {
      // A list that contains itself holds nothing new there.
      if (!path.includes(value)) yield* membersOf(value, `${name}.`, [...path, owner]);
    }
  }
}

/**
 * The base of layers and models. Tensors among its own properties, lists and plain objects included, are its state, and
 * those of them that require gradients its parameters; modules are its children. What begins with `_` is neither.
 *
 * ```
 * class Net extends nn.Module {
 *   first = new nn.Linear(2, 8);
 *   second = new nn.Linear(8, 1);
 *   forward(x: Tensor) { return this.second.forward(this.first.forward(x).tanh()); }
 * }
 * ```
 */
export abstract class Module<R extends Reading = "sync"> {
  /** Whether dropout is on and running statistics move; `train` and `eval` set it here and below. */
  training = true;

  /** `training`, unless `Tensor.training` is off. */
  protected get isTraining(): boolean {
    return this.training && Tensor.training;
  }

  /** What the module computes. */
  abstract forward(...inputs: any[]): any;

  /** As `forward`. */
  call(...inputs: Parameters<this["forward"]>): ReturnType<this["forward"]> {
    return this.forward(...inputs) as ReturnType<this["forward"]>;
  }

  /** Own tensors and children with their names, in the order of declaration. */
  protected *members(): Generator<Member> {
    yield* membersOf(this);
  }

  /** The modules directly below, with their names. */
  *namedChildren(): Generator<[name: string, module: Module<R>]> {
    for (const { name, value } of this.members()) if (value instanceof Module) yield [name, value];
  }

  /** The modules directly below. */
  children(): Module<R>[] {
    return Array.from(this.namedChildren(), ([, module]) => module);
  }

  /** This module and all below, each once, with their names; that of this one is empty. */
  *namedModules(prefix = "", seen = new Set<Module<R>>()): Generator<[name: string, module: Module<R>]> {
    if (seen.has(this)) return;
    seen.add(this);
    yield [prefix, this];
    for (const [name, module] of this.namedChildren()) {
      yield* module.namedModules(prefix === "" ? name : `${prefix}.${name}`, seen);
    }
  }

  /** This module and all below, each once. */
  modules(): Module<R>[] {
    return Array.from(this.namedModules(), ([, module]) => module);
  }

  /**
   * Every tensor here and below under each of its names. A child that refers back to a module above it, those of `path`,
   * holds nothing there that has no name yet.
   */
  private *namedTensors(prefix = "", path: readonly Module<R>[] = []): Generator<[name: string, tensor: Tensor<R>]> {
    const inner = [...path, this];
    for (const { name, value } of this.members()) {
      if (value instanceof Tensor) yield [prefix + name, value];
      else if (!inner.includes(value)) yield* value.namedTensors(`${prefix}${name}.`, inner);
    }
  }

  /** The parameters here and below by their first name; a tied one comes once. */
  namedParameters(): [name: string, parameter: Tensor<R>][] {
    const seen = new Set<Tensor<R>>();
    const found: [string, Tensor<R>][] = [];
    for (const [name, tensor] of this.namedTensors()) {
      if (seen.has(tensor) || !isParameter(tensor)) continue;
      seen.add(tensor);
      found.push([name, tensor]);
    }
    return found;
  }

  /** The parameters here and below, each once. */
  parameters(): Tensor<R>[] {
    return this.namedParameters().map(([, parameter]) => parameter);
  }

  /** Parameters and other state, such as running statistics, by name. The tensors are the module's own, not copies. */
  stateDict(): StateDict<R> {
    return Object.fromEntries(this.namedTensors());
  }

  /**
   * Writes state over the module's own tensors, which stay the same objects, so that tied ones stay tied and an optimiser
   * goes on with them. With `strict` off, names that only one side has are passed over. After an error nothing is changed.
   *
   * Errors: names that are missing or unknown; another shape.
   */
  loadStateDict(state: StateDict<R>, options: { strict?: boolean } = {}): void {
    const { strict = true } = settingsOf("loadStateDict", options, ["strict"]);
    expectState("loadStateDict", state);
    const own = this.stateDict();
    const fail = (message: string) => errorOf("shape", "loadStateDict", message);
    const missing = Object.keys(own).filter((name) => !Object.hasOwn(state, name));
    const unknown = Object.keys(state).filter((name) => !Object.hasOwn(own, name));
    if (strict && missing.length > 0) throw fail(`the state lacks ${listed(missing)}`);
    if (strict && unknown.length > 0) throw fail(`the module has no ${listed(unknown)}`);
    const pairs = Object.entries(own).filter(([name]) => Object.hasOwn(state, name));
    for (const [name, tensor] of pairs) {
      const given: unknown = state[name];
      if (!(given instanceof Tensor)) throw fail(`${name} is ${describe(given)}, expected a Tensor`);
      given.expectUsable("loadStateDict", tensor.session);
      tensor.expectUsable("loadStateDict", tensor.session);
      const [found, expected] = [given.shape.join(", "), tensor.shape.join(", ")];
      if (found !== expected) throw fail(`${name} has the shape [${found}], expected [${expected}]`);
    }
    for (const [name, tensor] of pairs) tensor.copyFrom(state[name] as Tensor<R>);
  }

  /** Turns training on, or off with `false`, here and below. */
  train(on = true): this {
    for (const module of this.modules()) module.training = on;
    return this;
  }

  /** Turns training off here and below: dropout passes everything, running statistics are used. */
  eval(): this {
    return this.train(false);
  }

  /** Lets the gradients of all parameters go. */
  zeroGrad(): void {
    for (const parameter of this.parameters()) parameter.zeroGrad();
  }

  /** Freezes the parameters (`false`) or lets them move again. */
  requiresGrad_(on = true): this {
    for (const parameter of this.parameters()) {
      PARAMETERS.add(parameter);
      parameter.requiresGrad = on;
    }
    return this;
  }

  /** Calls `f` with every module below and then with this one, as to initialise them. */
  apply(f: (module: Module<R>) => void): this {
    this.applyBelow(f, new Set());
    return this;
  }

  private applyBelow(f: (module: Module<R>) => void, path: ReadonlySet<Module<R>>): void {
    const inner = new Set([...path, this]);
    for (const child of this.children()) if (!inner.has(child)) child.applyBelow(f, inner);
    f(this);
  }

  /** Lets go of all tensors of the module. */
  dispose(): void {
    for (const [, tensor] of this.namedTensors()) tensor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** The names and shapes of the parameters, one a line. */
  toString(): string {
    const lines = this.namedParameters().map(([name, { shape }]) => `  ${name} [${shape.join(", ")}]`);
    return [this.constructor.name, ...lines].join("\n");
  }
}

/** Names in torch's style beside those of JavaScript's. */
export interface Module<R extends Reading = "sync"> {
  named_children: Module<R>["namedChildren"];
  named_modules: Module<R>["namedModules"];
  named_parameters: Module<R>["namedParameters"];
  state_dict: Module<R>["stateDict"];
  load_state_dict: Module<R>["loadStateDict"];
  zero_grad: Module<R>["zeroGrad"];
  requires_grad_: Module<R>["requiresGrad_"];
}

respell(Module.prototype, {
  named_children: "namedChildren",
  named_modules: "namedModules",
  named_parameters: "namedParameters",
  state_dict: "stateDict",
  load_state_dict: "loadStateDict",
  zero_grad: "zeroGrad",
  requires_grad_: "requiresGrad_",
});

/** Throws for what holds no tensors by name. */
export function expectState(op: string, state: unknown): void {
  if (typeof state === "object" && state !== null && !Array.isArray(state)) return;
  throw errorOf("shape", op, `the state is ${describe(state)}, expected an object of tensors by name`);
}

/** Throws for what has no properties. */
function expectObject(op: string, object: unknown): void {
  if (typeof object === "object" && object !== null) return;
  throw errorOf("unsupported", op, `got ${describe(object)}, expected a module, or an object or a list of tensors`);
}

/** Names in a message: the first few. */
function listed(names: readonly string[]): string {
  const more = names.length > 5 ? ` and ${names.length - 5} more` : "";
  return names.slice(0, 5).join(", ") + more;
}

/** The parameters of a module, or the tensors that require gradients in any object, list or nest of them. */
export function getParameters(object: object): Tensor<any>[] {
  expectObject("getParameters", object);
  const tensors = new Set(Object.values(getStateDict(object)));
  return [...tensors].filter(isParameter);
}

/** All tensors of a module, or of any object, list or nest of them, by name. */
export function getStateDict(object: object): StateDict<any> {
  expectObject("getStateDict", object);
  if (object instanceof Module) return object.stateDict();
  const state: StateDict<any> = {};
  for (const { name, value } of membersOf(object)) {
    if (value instanceof Tensor) state[name] = value;
    else for (const [inner, tensor] of Object.entries(value.stateDict())) state[`${name}.${inner}`] = tensor;
  }
  return state;
}

export { getParameters as get_parameters, getStateDict as get_state_dict };
