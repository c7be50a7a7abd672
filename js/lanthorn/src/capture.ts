/**
 * Functions that are traced once and run again: `jit`, `compile` and `func`.
 *
 * The first call runs the function on placeholders. What it does to tensors is recorded by the engine; later calls run
 * that, and nothing of the function. What the function reads is looked up, what it writes in place is written, and random
 * numbers are drawn, at each call. What it does besides (numbers that it computes, variables that it changes) happens
 * only while it is traced.
 */

import { describe } from "./dtype.js";
import { errorOf } from "./errors.js";
import { settingsOf } from "./create.js";
import { isThenable, runLater, signalOf, throwIfAborted } from "./later.js";
import { build, gather, match, patternOf, valuesOf, type Pattern } from "./pattern.js";
import { currentSession, session, within, type Recurring, type Session } from "./session.js";
import { Tensor, type Abortable } from "./tensor.js";

type AnyTensor = Tensor<any>;

/** What each purpose of `Raw.capture_begin` is called. */
const NAMES = ["jit", "compile", "func", "func"] as const;

const enum Purpose {
  Jit = 0,
  Compile = 1,
  Func = 2,
  FuncWithOutside = 3,
}

/** The counters of a captured function. */
export interface CaptureStats {
  /** Tensors among the arguments. */
  readonly inputs: number;
  /** Tensors in the result. */
  readonly outputs: number;
  /** Tensors from outside that it reads or writes. */
  readonly closures: number;
  /** Tensors and gradients that a call writes. */
  readonly writes: number;
  /** Random draws of a call. */
  readonly draws: number;
  /** Kernels of a call. */
  readonly kernels: number;
  /** Calls so far. */
  readonly calls: number;
}

/** A function that the engine has recorded. */
class Captured {
  readonly owner: Session;
  readonly name: string;
  private readonly id: number;
  private readonly parameters: Pattern;
  private readonly result: Pattern;
  private readonly recurring: readonly Recurring[];
  /** The arguments of the running call. */
  private readonly tensors: AnyTensor[] = [];
  private isDisposed = false;

  constructor(
    owner: Session,
    name: string,
    id: number,
    parameters: Pattern,
    result: Pattern,
    recurring: readonly Recurring[],
  ) {
    this.owner = owner;
    this.name = name;
    this.id = id;
    this.parameters = parameters;
    this.result = result;
    this.recurring = recurring;
    owner.captures.register(this, id, this);
  }

  call(args: readonly unknown[]): unknown {
    const { owner, result } = this;
    this.begin();
    let count: number;
    try {
      this.put(args);
      count = owner.check(owner.raw.capture_call(this.id), this.name);
    } catch (error) {
      this.undo();
      throw error;
    }
    if (result.kind === "tensor") return owner.wrap(owner.raw.scratch[0] as number);
    return this.give(owner.raw.scratch.slice(0, count));
  }

  async callLater(args: readonly unknown[], options: Abortable | undefined): Promise<unknown> {
    const { owner } = this;
    const { raw } = owner;
    const signal = signalOf(this.name, options);
    let hasBegun = false;
    const started = () => {
      this.begin();
      hasBegun = true;
      this.put(args);
      if (raw.capture_later !== undefined) return raw.capture_later(this.id);
      const count = raw.capture_call(this.id);
      return count < 0 ? count : Array.from(raw.scratch.subarray(0, count));
    };
    let handles: readonly number[];
    try {
      handles = await runLater(owner, this.name, signal, started);
    } catch (error) {
      if (hasBegun) this.undo();
      throw error;
    }
    const given = this.give(handles);
    throwIfAborted(signal);
    return given;
  }

  private begin(): void {
    for (const each of this.recurring) each.begin();
  }

  private undo(): void {
    for (const each of this.recurring) each.undo();
  }

  /** Puts the tensors of the arguments into scratch. */
  private put(args: readonly unknown[]): void {
    const { owner, name, tensors } = this;
    if (this.isDisposed) throw errorOf("invalid_handle", name, "the captured function has been disposed");
    tensors.length = 0;
    try {
      const difference = match(this.parameters, args, "args", tensors);
      if (difference !== undefined) throw errorOf("compile", name, `args mismatch: ${difference}`);
      // All before any is put: to look at what stands for a tensor may call ops, which overwrite scratch.
      owner.putTensors(name, tensors);
    } finally {
      tensors.length = 0;
    }
  }

  private give(handles: ArrayLike<number>): unknown {
    let at = 0;
    return build(this.result, () => this.owner.wrap(handles[at++] as number));
  }

  stats(): CaptureStats {
    const { raw } = this.owner;
    if (this.isDisposed) throw errorOf("invalid_handle", "stats", "the captured function has been disposed");
    this.owner.check(raw.capture_stats(this.id), "stats");
    const { scratch } = raw;
    return Object.fromEntries(raw.capture_counters.map((name, at) => [name, scratch[at]])) as unknown as CaptureStats;
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.owner.captures.unregister(this);
    this.owner.check(this.owner.raw.capture_release(this.id));
  }
}

/** The engine that runs a function: that of the first tensor among its arguments, else that where the function was made. */
function ownerOf(name: string, args: readonly unknown[], home: Session | undefined): Session {
  const tensors: AnyTensor[] = [];
  patternOf(name, args, tensors);
  return tensors[0]?.session ?? home ?? session();
}

/** Runs a function on placeholders for the tensors of its arguments. */
function trace(owner: Session, purpose: Purpose, fn: (...args: any[]) => unknown, args: readonly unknown[]): Captured {
  const name = NAMES[purpose];
  const tensors: AnyTensor[] = [];
  const parameters = patternOf(name, args, tensors);
  // What the function makes and writes in its first run is from outside in the second: an optimizer's state.
  for (const isFinal of [0, 1]) {
    owner.flush();
    owner.putTensors(name, tensors);
    const count = owner.check(owner.raw.capture_begin(purpose), name);
    const handles = Array.from(owner.raw.scratch.subarray(0, count));
    const placeholders = handles.map((handle) => new Tensor(handle, undefined, owner));
    const results: AnyTensor[] = [];
    const made: AnyTensor[] = [];
    let result: Pattern;
    owner.isTracing = true;
    owner.recurring = [];
    try {
      let at = 0;
      const run = () => fn(...(build(parameters, () => placeholders[at++] as AnyTensor) as unknown[]));
      const given = within(owner, () => owner.collect(made, run));
      if (isThenable(given)) {
        // Its rejection, if any, is no news: the call fails anyway.
        given.then(undefined, () => {});
        const message = "the function is asynchronous; a traced function must not wait, so make it synchronous";
        throw errorOf("compile", name, message);
      }
      result = patternOf(name, given, results);
      expectSeen(name, result, new Set([...made, ...placeholders]));
      if (purpose >= Purpose.Func && results.length === 0) {
        throw errorOf("compile", name, `the function gave ${describe(given)}, expected a Tensor or a list of them`);
      }
      owner.putTensors(name, results);
    } catch (error) {
      owner.raw.capture_abort();
      placeholders.forEach((placeholder) => placeholder.dispose());
      throw error;
    } finally {
      owner.isTracing = false;
      // They belong to the scope in which the function is traced.
      for (const tensor of made) owner.keep(tensor);
    }
    const id = owner.raw.capture_end(isFinal);
    const failure = id < 0 ? owner.failure() : undefined;
    placeholders.forEach((placeholder) => placeholder.dispose());
    if (failure !== undefined) throw failure;
    if (id > 0) return new Captured(owner, name, id, parameters, result, owner.recurring);
  }
  throw errorOf("compile", name, "the function could not be captured");
}

/**
 * Throws for a result with a tensor of the traced run where no call can put its own: in an object of a class, such as a
 * module that the function has made.
 */
function expectSeen(name: string, result: Pattern, traced: ReadonlySet<AnyTensor>): void {
  for (const value of valuesOf(result)) {
    const held = new Set<AnyTensor>();
    gather(value, held);
    if (![...held].some((tensor) => traced.has(tensor))) continue;
    const advice = "give tensors in lists, plain objects, Maps or Sets, and make modules outside of the function";
    throw errorOf("compile", name, `the result holds tensors in ${describe(value)}, where no call can replace them; ${advice}`);
  }
}

function expectFunction(name: string, fn: unknown): void {
  if (typeof fn !== "function") throw errorOf("compile", name, `got ${describe(fn)}, expected a function`);
}

/** A function that is traced by its first call. */
export interface Jitted<A extends readonly unknown[], R> {
  (...args: A): R;
  /** A call that does not keep the event loop waiting; stops and rejects when the signal is aborted. */
  runAsync(args: A, options?: Abortable): Promise<R>;
  /** Counters; undefined before the first call. */
  stats(): CaptureStats | undefined;
  /** Lets go of the program and of what only it kept. */
  dispose(): void;
  [Symbol.dispose](): void;
}

/**
 * A function that runs as one compiled program. Its first call traces `fn`; every call, the first included, then runs
 * the program: none of `fn`'s JavaScript, and no graph is built.
 *
 * Arguments and results are tensors, or lists, plain objects, Maps and Sets of them. Later calls take tensors of the same shapes and
 * dtypes; what is no tensor must be the same value. `fn` may use other tensors (their values at each call), write in
 * place, call `backward`, and draw random numbers (anew at each call). Results are new tensors without a history of
 * gradients, and a tensor that `fn` writes has none after the call. If `fn` makes tensors that it also writes, it is traced twice in the first call, without a trace of the
 * first run.
 *
 * ```ts
 * const w = Tensor.zeros([2, 1], true);
 * const step = jit((x: Tensor, y: Tensor) => {
 *   const loss = x.matmul(w).sub(y).square().mean();
 *   loss.backward();
 *   noGrad(() => w.sub_(w.grad!.mul(0.1)));
 *   w.grad = null;
 *   return loss;
 * });
 * for (let at = 0; at < 10; at++) step(Tensor.rand([4, 2]), Tensor.ones([4, 1]));
 * ```
 *
 * Throws `JitError` for arguments that do not match, for a tensor that is passed twice where the function writes to it,
 * and for what cannot be traced, such as reading a value.
 */
export function jit<A extends readonly any[], R>(fn: (...args: A) => R): Jitted<A, R> {
  return lazily(Purpose.Jit, fn);
}

/** Options of `func`. */
export interface FuncOptions {
  /** Whether the function may use tensors that are no arguments. */
  allowImplicit?: boolean | undefined;
}

/**
 * A function whose graph is recorded by its first call and added to the caller's graph by each: nothing runs until a
 * result is read, and gradients pass through it. It is pure: it writes to no tensor from outside and calls no `backward`
 * on them, and it uses only its arguments unless `allowImplicit` is set. It gives a tensor, or a list or plain object
 * with tensors.
 */
export function func<A extends readonly any[], R>(
  fn: (...args: A) => R,
  options: FuncOptions = {},
): Jitted<A, R> {
  const { allowImplicit = false } = settingsOf("func", options ?? {}, ["allowImplicit"]);
  if (typeof allowImplicit !== "boolean") {
    throw errorOf("dtype", "func", `allowImplicit is ${describe(allowImplicit)}, expected true or false`);
  }
  return lazily(allowImplicit ? Purpose.FuncWithOutside : Purpose.Func, fn);
}

// Polygrad's name.
export { func as function };

/** A function as `jit` makes it, of which each call gives a promise. */
export interface JittedAsync<A extends readonly unknown[], R> {
  (...args: A): Promise<R>;
  /** A call with options; stops and rejects when the signal is aborted. */
  runAsync(args: A, options?: Abortable): Promise<R>;
  /** Counters; undefined before the first call. */
  stats(): CaptureStats | undefined;
  /** Lets go of the program and of what only it kept. */
  dispose(): void;
  [Symbol.dispose](): void;
}

/**
 * As `jit`, with calls that do not keep the event loop waiting: each gives a promise of the result. The first call traces `fn`, which
 * is JavaScript and not asynchronous, where it is made.
 *
 * ```ts
 * const double = jitAsync((x: Tensor) => x.mul(2));
 * (await double(Tensor.ones([2]))).toArray(); // 2, 2
 * ```
 */
export function jitAsync<A extends readonly any[], R>(fn: (...args: A) => R): JittedAsync<A, R> {
  const { runAsync, stats, dispose } = jit(fn);
  const call = (...args: A) => runAsync(args);
  return Object.assign(call, { runAsync, stats, dispose, [Symbol.dispose]: dispose });
}

/** As `compile`; a fault of the function or the samples rejects the promise. Tracing runs `fn` where it is called. */
export async function compileAsync<A extends readonly any[], R>(fn: (...args: A) => R, samples: A): Promise<Compiled<A, R>> {
  return compile(fn, samples);
}

function lazily<A extends readonly any[], R>(purpose: Purpose, fn: (...args: A) => R): Jitted<A, R> {
  const name = NAMES[purpose];
  expectFunction(name, fn);
  const home = currentSession();
  let captured: Captured | undefined;
  let isDisposed = false;
  const capture = (owner: Session, args: A): Captured => {
    if (isDisposed) throw errorOf("invalid_handle", name, "the captured function has been disposed");
    return (captured ??= trace(owner, purpose, fn, args));
  };
  const call = (...args: A): R => {
    const owner = captured?.owner ?? ownerOf(name, args, home);
    // Inside of another function's trace it is a part of that one.
    if (owner.isTracing && (captured === undefined || purpose < Purpose.Func)) return fn(...args);
    return (captured ?? capture(owner, args)).call(args) as R;
  };
  const dispose = () => {
    isDisposed = true;
    captured?.dispose();
  };
  return Object.assign(call, {
    async runAsync(args: A, options?: Abortable): Promise<R> {
      expectArguments(name, args);
      signalOf(name, options);
      const program = capture(captured?.owner ?? ownerOf(name, args, home), args);
      // A graph is only added to: there is nothing to wait for.
      return (purpose < Purpose.Func ? await program.callLater(args, options) : program.call(args)) as R;
    },
    stats: () => captured?.stats(),
    dispose,
    [Symbol.dispose]: dispose,
  });
}

/** Throws for what is no list of arguments. */
function expectArguments(name: string, args: unknown): void {
  if (Array.isArray(args)) return;
  throw errorOf("compile", name, `args mismatch: run got ${describe(args)}, expected a list of arguments`);
}

/** A compiled function. */
export interface Compiled<A extends readonly unknown[], R> {
  /** Runs the program on tensors of the samples' shapes and dtypes. */
  run(args: A): R;
  /** A run that does not keep the event loop waiting; stops and rejects when the signal is aborted. */
  runAsync(args: A, options?: Abortable): Promise<R>;
  stats(): CaptureStats;
  /** Lets go of the program and of what only it kept. */
  dispose(): void;
  [Symbol.dispose](): void;
}

/**
 * As `jit`, but traced now, on tensors of the shapes and dtypes of `samples`: only these are looked at, and nothing runs.
 *
 * ```ts
 * const compiled = compile((x: Tensor) => x.add(1), [Tensor.fromData([1, 2, 3])]);
 * compiled.run([Tensor.fromData([7, 8, 9])]).toArray(); // 8, 9, 10
 * ```
 */
export function compile<A extends readonly any[], R>(fn: (...args: A) => R, samples: A): Compiled<A, R> {
  expectFunction("compile", fn);
  if (!Array.isArray(samples)) {
    throw errorOf("compile", "compile", `the samples are ${describe(samples)}, expected a list of arguments`);
  }
  const captured = trace(ownerOf("compile", samples, currentSession()), Purpose.Compile, fn, samples);
  const expectList = (args: unknown) => expectArguments("compile", args);
  const dispose = () => captured.dispose();
  return {
    run: (args) => (expectList(args), captured.call(args) as R),
    runAsync: async (args, options) => (expectList(args), (await captured.callLater(args, options)) as R),
    stats: () => captured.stats(),
    dispose,
    [Symbol.dispose]: dispose,
  };
}
