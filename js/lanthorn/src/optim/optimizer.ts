/**
 * Optimisers. Each step calls the op of the rule (`sgd`, `adam`, `adamw`, `lion`) and writes its results over the
 * parameters and what the rule keeps. Numbers that change from step to step are tensors of rank 0, so that all steps run
 * one program. A step in a function that is traced (`jit`, `compile`) reads them from tensors of the optimiser's, which
 * each call writes before it runs: learning rates and steps go on there too.
 */

import { describe, type Elements } from "../dtype.js";
import { errorOf } from "../errors.js";
import { noGrad, trackTensors } from "../functions.js";
import { expectState, type Module, type StateDict } from "../nn/module.js";
import { within } from "../session.js";
import { respell } from "../spelling.js";
import { Tensor, type Reading } from "../tensor.js";
import { expectTraining } from "../training.js";
import { expectNumbers, expectSettings, listedOf } from "./checks.js";

/** Parameters that share settings; what is left out is as in the optimiser's own options. */
export type ParamGroup<O, R extends Reading = "sync"> = { params: Iterable<Tensor<R>> } & Partial<O>;

/** What an optimiser moves: a module, tensors, or groups of tensors with settings of their own. */
export type Parameters<O, R extends Reading = "sync"> =
  | Module<R>
  | Iterable<Tensor<R>>
  | readonly ParamGroup<O, R>[];

/** A group with all settings and its parameters as a list. */
export type Group<O, R extends Reading = "sync"> = { params: Tensor<R>[] } & O;

/** What every rule knows. */
export interface RuleOptions {
  /** The learning rate. */
  lr: number;
  weightDecay: number;
}

/** What a rule keeps for a parameter. */
export type Slots<R extends Reading = "sync"> = { [name: string]: Tensor<R> };

/** What is saved of an optimiser: numbers by name and, apart from them, tensors. */
export interface OptimizerState<R extends Reading = "sync"> {
  /** The name of the rule, `"Adam"`. Left out, only what it keeps is compared. */
  readonly rule?: string | undefined;
  readonly steps: number;
  readonly groups: readonly { readonly [setting: string]: number | boolean }[];
  /** What the rule keeps, by `place.name`, the place being that of the parameter among all groups. */
  readonly slots: StateDict<R>;
}

/** The base of optimisers; a rule says what it keeps and how one parameter moves. */
export abstract class Optimizer<O extends RuleOptions, R extends Reading = "sync"> {
  /** Settings may be changed between steps, such as `groups[0].lr`. */
  readonly groups: Group<O, R>[] = [];
  /** How many steps were made. */
  steps = 0;
  private readonly slots = new Map<Tensor<R>, Slots<R>>();
  /** The learning rate and the rule's numbers of each group, as traced functions read them. */
  private readonly settings: Tensor<R>[][] = [];

  constructor(
    parameters: Parameters<O, R>,
    private readonly defaults: O,
  ) {
    const list = listedOf(this.op, parameters);
    const isGrouped = list.length > 0 && list.every((one) => typeof one === "object" && one !== null && "params" in one);
    if (isGrouped) for (const group of list as ParamGroup<O, R>[]) this.addParamGroup(group);
    else this.addParamGroup({ params: list } as unknown as ParamGroup<O, R>);
  }

  /** The name of the rule in messages. */
  protected get op(): string {
    return this.constructor.name;
  }

  /** The names of what the rule keeps for each parameter of a group. */
  protected abstract kept(group: Group<O, R>): readonly string[];

  /** The numbers of step `step`, counted from 1, after the learning rate. */
  protected abstract numbers(group: Group<O, R>, step: number): readonly number[];

  /** The parameter and what is kept of it, in the order of `kept`, after a step. */
  protected abstract update(
    parameter: Tensor<R>,
    grad: Tensor<R>,
    kept: readonly Tensor<R>[],
    lr: Tensor<R>,
    numbers: readonly Tensor<R>[],
    group: Group<O, R>,
  ): Tensor<R>[];

  /** Throws for a group that no step could follow; a rule adds what it asks. */
  protected expectGroup(op: string, group: Group<O, R>): void {
    expectSettings(op, group);
  }

  /** Adds parameters with settings of their own. */
  addParamGroup(group: ParamGroup<O, R>): void {
    if (typeof group !== "object" || group === null) {
      throw errorOf("unsupported", this.op, `the group is ${describe(group)}, expected an object with params`);
    }
    const params = listedOf(this.op, group.params) as Tensor<R>[];
    if (params.length === 0) throw errorOf("shape", this.op, "a group has no parameters");
    const known = new Set(this.groups.flatMap((group) => group.params));
    for (const parameter of params) {
      if (!(parameter instanceof Tensor)) {
        throw errorOf("foreign_handle", this.op, `a parameter is ${describe(parameter)}, expected a Tensor`);
      }
      if (known.has(parameter)) throw errorOf("unsupported", this.op, "a parameter is there twice");
      if (!/^(bf16|f\d+)$/.test(parameter.dtype)) {
        throw errorOf("dtype", this.op, `a parameter is ${parameter.dtype}, expected a floating-point type`);
      }
      known.add(parameter);
    }
    for (const name of Object.keys(group)) {
      if (name === "params" || name in this.defaults) continue;
      const names = Object.keys(this.defaults).join(", ");
      throw errorOf("unsupported", this.op, `there is no setting ${name}; the settings are ${names}`);
    }
    const given = Object.fromEntries(Object.entries(group).filter(([, value]) => value !== undefined));
    const whole = { ...this.defaults, ...given, params } as Group<O, R>;
    this.expectGroup(this.op, whole);
    this.groups.push(whole);
    const { session } = params[0] as Tensor<R>;
    const make = () => [0, ...this.numbers(whole, 1)].map((number) => scalar<R>(number));
    this.settings.push(within(session, () => session.collect(undefined, make)));
  }

  /** Every parameter, in the order of the groups. */
  parameters(): Tensor<R>[] {
    return this.groups.flatMap((group) => group.params);
  }

  /** The learning rate of the first group; setting it sets that of all. */
  get lr(): number {
    return (this.groups[0] as Group<O, R>).lr;
  }

  set lr(lr: number) {
    expectNumbers(this.op, { lr });
    for (const group of this.groups) group.lr = lr;
  }

  /** Moves every parameter that has a gradient. An error while `Tensor.training` is off. */
  step(): void {
    expectTraining(`${this.op}.step`);
    const { session } = (this.groups[0] as Group<O, R>).params[0] as Tensor<R>;
    const { isTracing } = session;
    const step = this.steps + 1;
    for (const group of this.groups) this.expectGroup(`${this.op}.step`, group);
    this.quietly(() => {
      this.groups.forEach((group, place) => {
        const kept = this.kept(group);
        // What the rule keeps outlives the step; the rest is let go at its end.
        const moving = group.params.map((parameter) => ({ parameter, slots: this.slotsOf(parameter, kept) }));
        trackTensors(() => {
          const settings = isTracing ? this.settings[place] : this.settingsOf(group, step).map(scalar<R>);
          const [lr, ...numbers] = settings as [Tensor<R>, ...Tensor<R>[]];
          for (const { parameter, slots } of moving) {
            const { grad } = parameter;
            if (grad === null) continue;
            const [moved, ...further] = this.update(parameter, grad, slots, lr, numbers, group);
            parameter.copy_(moved as Tensor<R>);
            further.forEach((value, at) => slots[at]?.copy_(value));
          }
        });
      });
    });
    if (isTracing) session.recurring.push({ begin: () => this.begin(), undo: () => void (this.steps -= 1) });
    else this.steps = step;
  }

  /** What a group's update reads besides tensors, in step `step`. */
  private settingsOf(group: Group<O, R>, step: number): number[] {
    return [group.lr, ...this.numbers(group, step)];
  }

  /** The next step of a traced function. */
  private begin(): void {
    this.steps += 1;
    this.groups.forEach((group, place) => {
      this.settingsOf(group, this.steps).forEach((number, at) => this.settings[place]?.[at]?.copyFrom(number));
    });
  }

  /** Runs `f` without gradients, with the engine of the parameters in the place of the default one. */
  private quietly(f: () => void): void {
    const { session } = (this.groups[0] as Group<O, R>).params[0] as Tensor<R>;
    within(session, () => noGrad(f));
  }

  private slotsOf(parameter: Tensor<R>, names: readonly string[]): Tensor<R>[] {
    let slots = this.slots.get(parameter);
    if (slots === undefined) {
      // They outlive a scope in which the first step is made.
      const zeros = parameter.session.collect(undefined, () => names.map((name) => [name, parameter.zerosLike()] as const));
      slots = Object.fromEntries(zeros);
      this.slots.set(parameter, slots);
    }
    return names.map((name) => (slots as Slots<R>)[name] as Tensor<R>);
  }

  /** Lets the gradients of all parameters go. */
  zeroGrad(): void {
    for (const parameter of this.parameters()) parameter.zeroGrad();
  }

  /** Settings, the number of steps and what the rule keeps. The tensors are the optimiser's own, not copies. */
  stateDict(): OptimizerState<R> {
    const groups = this.groups.map(({ params, ...settings }) => settings as unknown as { [setting: string]: number });
    const slots: StateDict<R> = {};
    this.parameters().forEach((parameter, place) => {
      for (const [name, tensor] of Object.entries(this.slots.get(parameter) ?? {})) slots[`${place}.${name}`] = tensor;
    });
    return { rule: this.op, steps: this.steps, groups, slots };
  }

  /**
   * Goes on from a state that `stateDict` gave, of an optimiser of the same rule with as many groups and parameters. After
   * an error nothing is changed.
   */
  loadStateDict(state: OptimizerState<R>): void {
    this.checked(state)();
  }

  /** Checks a state and changes nothing; the result takes it over. @internal */
  checked(state: OptimizerState<R>): () => void {
    const op = `${this.op}.loadStateDict`;
    const fail = (message: string) => errorOf("shape", op, message);
    expectState(op, state);
    if (!Array.isArray(state.groups)) throw fail(`the groups are ${describe(state.groups)}, expected a list`);
    if (typeof state.slots !== "object" || state.slots === null) throw fail(`the slots are ${describe(state.slots)}, expected an object`);
    if (!(Number.isSafeInteger(state.steps) && state.steps >= 0)) {
      throw fail(`steps is ${describe(state.steps)}, expected a whole number of at least 0`);
    }
    if (state.rule !== undefined && state.rule !== this.op) throw fail(`the state is of ${state.rule}, expected one of ${this.op}`);
    if (state.groups.length !== this.groups.length) {
      throw fail(`the state has ${state.groups.length} groups, expected ${this.groups.length}`);
    }
    for (const settings of state.groups) {
      if (typeof settings !== "object" || settings === null) throw fail(`a group is ${describe(settings)}, expected an object`);
      const unknown = Object.keys(settings).find((name) => !(name in this.defaults));
      if (unknown === undefined) continue;
      throw fail(`the state has a setting ${unknown}, expected those of ${this.op}: ${Object.keys(this.defaults).join(", ")}`);
    }
    // What the rule keeps goes by the settings that are loaded.
    const keptOf = new Map<Tensor<R>, readonly string[]>();
    this.groups.forEach((group, at) => {
      const loaded = { ...group, ...(state.groups[at] as object) };
      this.expectGroup(op, loaded);
      const kept = this.kept(loaded);
      for (const parameter of group.params) keptOf.set(parameter, kept);
    });
    const parameters = this.parameters();
    const found = new Map<Tensor<R>, Slots<R>>();
    for (const [name, tensor] of Object.entries(state.slots)) {
      const [, place = "", slot = ""] = /^(0|[1-9]\d*)\.(.*)$/s.exec(name) ?? [];
      const parameter = place === "" ? undefined : parameters[Number(place)];
      if (parameter === undefined) {
        throw fail(`the state has a parameter ${place || JSON.stringify(name)}, expected ${parameters.length} of them by place, such as 0`);
      }
      const kept = keptOf.get(parameter) ?? [];
      if (!kept.includes(slot)) {
        throw fail(`the state has ${name}, expected ${kept.length === 0 ? "nothing" : kept.join(", ")} of a parameter: it is of another rule`);
      }
      if (!((tensor as unknown) instanceof Tensor)) throw fail(`${name} is ${describe(tensor)}, expected a Tensor`);
      tensor.expectUsable(op, parameter.session);
      parameter.expectUsable(op, parameter.session);
      if (tensor.shape.join() !== parameter.shape.join()) {
        throw fail(`${name} has the shape [${tensor.shape.join(", ")}], expected [${parameter.shape.join(", ")}]`);
      }
      found.set(parameter, { ...found.get(parameter), [slot]: tensor });
    }
    for (const [parameter, slots] of found) {
      const missing = keptOf.get(parameter)?.find((slot) => !Object.hasOwn(slots, slot));
      if (missing !== undefined) throw fail(`the state lacks ${parameters.indexOf(parameter)}.${missing}`);
    }
    return () => {
      this.quietly(() => {
        this.slots.clear();
        for (const [parameter, slots] of found) {
          const copy = () =>
            Object.entries(slots).map(([name, tensor]) => [name, parameter.zerosLike().copy_(tensor)] as const);
          this.slots.set(parameter, Object.fromEntries(parameter.session.collect(undefined, copy)));
        }
      });
      state.groups.forEach((settings, at) => Object.assign(this.groups[at] as object, settings));
      this.steps = state.steps;
    };
  }
}

/** Names in torch's style beside those of JavaScript's. */
export interface Optimizer<O extends RuleOptions, R extends Reading = "sync"> {
  zero_grad: Optimizer<O, R>["zeroGrad"];
  state_dict: Optimizer<O, R>["stateDict"];
  load_state_dict: Optimizer<O, R>["loadStateDict"];
}

respell(Optimizer.prototype, { zero_grad: "zeroGrad", state_dict: "stateDict", load_state_dict: "loadStateDict" });

/** A number as an argument of a program, exact until the op rounds it to the parameter's dtype. */
function scalar<R extends Reading>(value: number): Tensor<R> {
  return Tensor.fromData<R>([value] as unknown as Elements, [], { dtype: "f64" });
}
