/**
 * One engine as the class API sees it: arguments into scratch, errors out of negative numbers, handles let go.
 *
 * It checks only what types demand. Shapes, dtypes, axes and gradients are the engine's business, and so are the errors
 * about them.
 */

import { Arguments, fit, methodOf } from "./arguments.js";
import { describe, type Scalar } from "./dtype.js";
import { errorOf, errorOfText, renamed, type LanthornError } from "./errors.js";
import { OP } from "./generated/table.js";
import type { Raw } from "./raw.js";
import { Tensor } from "./tensor.js";
import { Watch } from "./watch.js";

export { integersOf, listOf, type Integers } from "./arguments.js";

/** Names of the ops by their numbers. */
const OPS = Object.keys(OP);

/** A session does not care how its tensors are read. */
type AnyTensor = Tensor<any>;

/** What JavaScript does for a traced function at each call, such as telling which step it is. */
export interface Recurring {
  /** Before the call. */
  begin(): void;
  /** After a call that failed or was stopped: as if it had not begun. */
  undo(): void;
}

/** An engine and the tensors of it. */
export class Session extends Arguments {
  raw: Raw;
  private readonly watched: Watch;
  private closed = false;
  /** The innermost of the scopes that collect tensors. */
  private scope: AnyTensor[] | undefined;
  /** True while a function of this engine is traced. */
  isTracing = false;
  /** What the function that is traced needs of JavaScript at each call. */
  recurring: Recurring[] = [];
  /** Lets captured functions go with their objects. */
  readonly captures: FinalizationRegistry<number>;

  constructor(raw: Raw) {
    super();
    this.raw = raw;
    this.captures = new FinalizationRegistry((captured) => raw.capture_release(captured));
    this.watched = new Watch(raw);
    SESSIONS.add(new WeakRef(this));
  }

  /** Whether a read gives elements at once. Where it does not, work is not given to a thread either: all of it is. */
  get blocks(): boolean {
    return this.raw.later !== undefined;
  }

  /** Whether the session was closed. */
  get isClosed(): boolean {
    return this.closed;
  }

  /** Lets go of everything. What is asked of the session afterwards fails. */
  close(): void {
    this.raw.close?.();
    this.raw = closed(this.raw);
    this.closed = true;
    this.watched.close(this.raw);
  }

  /** The last call's error. A handle that does not hold is the fault of `op`, if that is given. */
  failure(op?: string): LanthornError {
    const error = errorOfText(this.raw.error());
    return op === undefined ? error : (renamed(error, op, true) as LanthornError);
  }

  /** The last call's error as that of an op of the table; `ending` is `_` for the form that writes. */
  private refusal(id: number, ending = ""): LanthornError {
    const op = methodOf(OPS[id] ?? "op") + ending;
    return renamed(this.failure(), op) as LanthornError;
  }

  /** What a raw call gave; throws if that was an error. */
  check(result: number, op?: string): number {
    if (result < 0) throw this.failure(op);
    return result;
  }

  /** The tensor of a handle that a raw call gave. */
  wrap(handle: number): AnyTensor {
    if (handle < 0) throw this.failure();
    return this.watch(new Tensor(handle, undefined, this));
  }

  /** Lets the handle of a new tensor go with it. May overwrite scratch. */
  watch(tensor: AnyTensor): AnyTensor {
    this.scope?.push(tensor);
    this.watched.add(tensor, tensor.handle);
    return tensor;
  }

  /** Has new tensors watched. Overwrites scratch. */
  flush(): void {
    this.watched.flush();
  }

  /** Runs `make` and lists the tensors made meanwhile, in `made`; without a list, no scope owns them. */
  collect<T>(made: AnyTensor[] | undefined, make: () => T): T {
    const outer = this.scope;
    this.scope = made;
    try {
      return make();
    } finally {
      this.scope = outer;
    }
  }

  /** Makes the current scope the owner of a tensor. */
  keep(tensor: AnyTensor): void {
    this.scope?.push(tensor);
  }

  /** The handle of an operand of `op`; throws for what is no tensor of this session. */
  handle(op: string, operand: unknown): number {
    if (operand instanceof Tensor) {
      if (operand.session === (this as Session)) return operand.handle;
      throw errorOf("foreign_handle", op, "an operand belongs to another engine; make it with this one");
    }
    throw errorOf("foreign_handle", op, `an operand is ${describe(operand)}, expected a Tensor`);
  }

  unary(op: string, id: number, x: unknown): AnyTensor {
    const handle = this.handle(op, x);
    const { scratch } = this.raw;
    scratch[0] = 1;
    scratch[1] = handle;
    return this.one(id);
  }

  binary(op: string, id: number, x: unknown, y: unknown): AnyTensor {
    const first = this.handle(op, x);
    const second = this.handle(op, y);
    const { scratch } = this.raw;
    scratch[0] = 2;
    scratch[1] = first;
    scratch[2] = second;
    return this.one(id);
  }

  /** A tensor and a number. */
  scalar(op: string, id: number, x: unknown, y: Scalar): AnyTensor {
    const handle = this.handle(op, x);
    const { scratch } = this.raw;
    scratch[0] = 1;
    scratch[1] = handle;
    this.putScalar(2, op, y);
    return this.one(id);
  }

  /** The handles of a list of operands; null and undefined are none. */
  private handles(op: string, operands: unknown): number[] {
    if (!Array.isArray(operands)) {
      throw errorOf("foreign_handle", op, `got ${describe(operands)}, expected a list of Tensors`);
    }
    const count = fit(this, op, operands, "tensors");
    const handles: number[] = [];
    for (let at = 0; at < count; at++) {
      const operand: unknown = operands[at];
      handles.push(operand === undefined || operand === null ? 0 : this.handle(op, operand));
    }
    return handles;
  }

  /**
   * Puts operands into scratch, first of all arguments. Gives the place after them. What is put after them must have
   * been read from lists and options before: a getter may call ops, which overwrite scratch.
   */
  putTensors(op: string, operands: readonly unknown[]): number {
    return this.putHandles(this.handles(op, operands));
  }

  /** Puts tensors into scratch, all of which must be there. */
  putAll(op: string, tensors: unknown): number {
    if (!Array.isArray(tensors)) {
      throw errorOf("foreign_handle", op, `got ${describe(tensors)}, expected a list of Tensors`);
    }
    const count = fit(this, op, tensors, "tensors");
    return this.putHandles(Array.from({ length: count }, (_, at) => this.handle(op, tensors[at])));
  }

  /** Writes the result of an op over a tensor. */
  assign<T extends { readonly handle: number }>(target: T, id: number): T {
    if (this.raw.assign(target.handle, id) < 0) throw this.refusal(id, "_");
    if (target instanceof Tensor) target.wasWritten();
    return target;
  }

  /** The result of an op that gives one tensor. */
  one(id: number): AnyTensor {
    const handle = this.raw.op(id);
    if (handle < 0) throw this.refusal(id);
    return this.watch(new Tensor(handle, undefined, this));
  }

  /** The results of an op that gives several. */
  several(id: number): AnyTensor[] {
    const count = this.raw.op(id);
    if (count < 0) throw this.refusal(id);
    // Wrapping may overwrite scratch.
    const handles = this.raw.scratch.slice(0, count);
    return Array.from(handles, (handle) => this.wrap(handle));
  }
}

/** Raw calls that fail but for those that let go: what a session has after it was closed. */
function closed(raw: Raw): Raw {
  const known: { readonly [name: string]: unknown } = {
    scratch: new Float64Array(raw.scratch.length),
    device: raw.device,
    counters: [],
    capture_counters: [],
    error: () => "closed\nsession\nthe runtime has been disposed; make another one",
    release: () => 0,
    capture_release: () => 0,
    capture_abort: () => 0,
    no_grad: () => 0,
    later: undefined,
    track: undefined,
    sweep: undefined,
    close: undefined,
  };
  const get = (_: object, name: string) => (name in known ? known[name] : () => -1);
  return new Proxy({}, { get: get as ProxyHandler<object>["get"] & {} }) as Raw;
}

/** Every session that is still held. */
const SESSIONS = new Set<WeakRef<Session>>();

/** The sessions of this process that are not closed. */
export function openSessions(): Session[] {
  const open: Session[] = [];
  for (const reference of SESSIONS) {
    const session = reference.deref();
    if (session === undefined || session.isClosed) SESSIONS.delete(reference);
    else open.push(session);
  }
  return open;
}

let current: Session | undefined;

/** The engine of new tensors, if there is one yet. */
export function currentSession(): Session | undefined {
  return current;
}

/** Runs `f` with `owner` as the engine of new tensors. */
export function within<T>(owner: Session, f: () => T): T {
  const outer = current;
  current = owner;
  try {
    return f();
  } finally {
    current = outer;
  }
}

/** Makes `session` the engine of tensors that are made from now on. */
export function install(session: Session): void {
  current = session;
}

/** The engine of new tensors. */
export function session(): Session {
  if (current === undefined) {
    throw errorOf("closed", "session", "no engine has been started; call `await init()` first");
  }
  return current;
}
