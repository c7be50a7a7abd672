/**
 * One engine as the class API sees it: arguments into scratch, errors out of negative numbers, handles let go.
 *
 * It checks only what types demand. Shapes, dtypes, axes and gradients are the engine's business, and so are the errors
 * about them.
 */

import { codeOf, describe, type DTypeName, type Scalar } from "./dtype.js";
import { errorOf, errorOfText, type LanthornError } from "./errors.js";
import type { Raw } from "./raw.js";
import { Tensor } from "./tensor.js";

/** Tags of attributes in scratch. */
const enum Tag {
  None = 0,
  Float = 1,
  Integer = 2,
  Bool = 3,
  Integers = 4,
  DType = 5,
  Word = 6,
  Text = 7,
}

/** How many new tensors wait for `Raw.track`: it costs less for several at once. They stay alive so long. */
const BATCH = 32;

/** A whole number or a list of them, such as axes or sizes. */
export type Integers = number | readonly number[];

/** A session does not care how its tensors are read. */
type AnyTensor = Tensor<any>;

/** An engine and the tensors of it. */
/** What JavaScript does for a traced function at each call, such as telling which step it is. */
export interface Recurring {
  /** Before the call. */
  begin(): void;
  /** After a call that failed or was stopped: as if it had not begun. */
  undo(): void;
}

export class Session {
  raw: Raw;
  /** New tensors whose handles nobody watches yet. */
  private readonly fresh: AnyTensor[] = [];
  private readonly registry: FinalizationRegistry<number>;
  /** The innermost of the scopes that collect tensors. */
  private scope: AnyTensor[] | undefined;
  private flushes = false;
  /** True while a function of this engine is traced. */
  isTracing = false;
  /** What the function that is traced needs of JavaScript at each call. */
  recurring: Recurring[] = [];
  /** Lets captured functions go with their objects. */
  readonly captures: FinalizationRegistry<number>;

  constructor(raw: Raw) {
    this.raw = raw;
    this.captures = new FinalizationRegistry((captured) => raw.capture_release(captured));
    if (raw.sweep === undefined) {
      // A stale handle is told by its generation, so that a tensor which was disposed may be reported again.
      this.registry = new FinalizationRegistry((handle) => raw.release(handle));
    } else {
      // Sweeps run when there is work. This one runs after a collection even if no work comes.
      this.registry = new FinalizationRegistry(() => {
        raw.sweep?.();
        this.registry.register({}, 0);
      });
      this.registry.register({}, 0);
    }
  }

  /** Whether a read gives elements at once. Where it does not, work is not given to a thread either: all of it is. */
  get blocks(): boolean {
    return this.raw.later !== undefined;
  }

  /** Lets go of everything. What is asked of the session afterwards fails. */
  close(): void {
    this.raw.close?.();
    this.fresh.length = 0;
    this.raw = closed(this.raw);
  }

  /** The last call's error. */
  failure(): LanthornError {
    return errorOfText(this.raw.error());
  }

  /** What a raw call gave; throws if that was an error. */
  check(result: number): number {
    if (result < 0) throw this.failure();
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
    if (this.raw.track === undefined) {
      this.registry.register(tensor, tensor.handle);
    } else if (this.fresh.push(tensor) >= BATCH) {
      this.flush();
    } else if (!this.flushes) {
      this.flushes = true;
      queueMicrotask(() => {
        this.flushes = false;
        this.flush();
      });
    }
    return tensor;
  }

  /** Has new tensors watched. Overwrites scratch. */
  flush(): void {
    const { raw, fresh } = this;
    if (fresh.length === 0) return;
    const { scratch } = raw;
    for (let at = 0; at < fresh.length; at++) scratch[at] = (fresh[at] as AnyTensor).handle;
    const result = raw.track?.(fresh) ?? 0;
    fresh.length = 0;
    this.check(result);
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
    return this.wrap(this.raw.op(id));
  }

  binary(op: string, id: number, x: unknown, y: unknown): AnyTensor {
    const first = this.handle(op, x);
    const second = this.handle(op, y);
    const { scratch } = this.raw;
    scratch[0] = 2;
    scratch[1] = first;
    scratch[2] = second;
    return this.wrap(this.raw.op(id));
  }

  /** A tensor and a number. */
  scalar(op: string, id: number, x: unknown, y: Scalar): AnyTensor {
    const handle = this.handle(op, x);
    const { scratch } = this.raw;
    scratch[0] = 1;
    scratch[1] = handle;
    this.putScalar(2, op, y);
    return this.wrap(this.raw.op(id));
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
    const handles = this.handles(op, operands);
    const { scratch } = this.raw;
    scratch[0] = handles.length;
    for (let at = 0; at < handles.length; at++) scratch[at + 1] = handles[at] as number;
    return handles.length + 1;
  }

  putNone(at: number): number {
    this.raw.scratch[at] = Tag.None;
    return at + 1;
  }

  putFloat(at: number, op: string, value: number | undefined): number {
    return value === undefined ? this.putNone(at) : this.put(at, Tag.Float, numberOf(op, value));
  }

  putInteger(at: number, op: string, value: number | undefined): number {
    return value === undefined ? this.putNone(at) : this.put(at, Tag.Integer, numberOf(op, value));
  }

  putBool(at: number, op: string, value: boolean | undefined): number {
    if (value === undefined) return this.putNone(at);
    if (typeof value !== "boolean") throw errorOf("dtype", op, `got ${describe(value)}, expected true or false`);
    return this.put(at, Tag.Bool, value ? 1 : 0);
  }

  /** Integers that `integersOf` gave. */
  putIntegers(at: number, values: Integers | undefined): number {
    if (values === undefined) return this.putNone(at);
    const { scratch } = this.raw;
    scratch[at] = Tag.Integers;
    if (typeof values === "number") {
      scratch[at + 1] = 1;
      scratch[at + 2] = values;
      return at + 3;
    }
    return this.putSizes(at + 1, values);
  }

  /** The count and the numbers of a list that `listOf` gave, without a tag. */
  putSizes(at: number, values: readonly number[]): number {
    const { scratch } = this.raw;
    scratch[at] = values.length;
    // What does not fit is not written; the engine then refuses the count.
    const count = Math.min(values.length, scratch.length - at - 1);
    for (let k = 0; k < count; k++) scratch[at + 1 + k] = values[k] as number;
    return at + 1 + values.length;
  }

  putDType(at: number, dtype: DTypeName | undefined): number {
    return dtype === undefined ? this.putNone(at) : this.put(at, Tag.DType, codeOf(dtype));
  }

  putScalar(at: number, op: string, value: Scalar | undefined): number {
    switch (typeof value) {
      case "undefined":
        return this.putNone(at);
      case "boolean":
        return this.put(at, Tag.Bool, value ? 1 : 0);
      case "bigint":
        if (value > Number.MAX_SAFE_INTEGER || value < Number.MIN_SAFE_INTEGER) {
          throw errorOf("dtype", op, `the scalar ${value} is beyond 2^53 - 1; pass it as a tensor of i64`);
        }
        return this.put(at, Tag.Integer, Number(value));
      case "number":
        return this.put(at, Number.isSafeInteger(value) ? Tag.Integer : Tag.Float, value);
      default:
        throw errorOf("dtype", op, `got ${describe(value)}, expected a Tensor or a number`);
    }
  }

  /** A word by its place in the parameter's list. */
  putWord(at: number, op: string, words: readonly string[], word: string | undefined): number {
    if (word === undefined) return this.putNone(at);
    const place = words.indexOf(word);
    if (place < 0) {
      throw errorOf("unsupported", op, `got ${describe(word)}, expected one of ${words.join(", ")}`);
    }
    return this.put(at, Tag.Word, place);
  }

  /** A text as the bytes of UTF-8. */
  putText(at: number, op: string, text: string | undefined): number {
    if (text === undefined) return this.putNone(at);
    if (typeof text !== "string") throw errorOf("dtype", op, `got ${describe(text)}, expected a string`);
    this.raw.scratch[at] = Tag.Text;
    return this.putSizes(at + 1, Array.from(new TextEncoder().encode(text)));
  }

  private put(at: number, tag: Tag, payload: number): number {
    const { scratch } = this.raw;
    scratch[at] = tag;
    scratch[at + 1] = payload;
    return at + 2;
  }

  /** Writes the result of an op over a tensor. */
  assign<T extends { readonly handle: number }>(target: T, id: number): T {
    this.check(this.raw.assign(target.handle, id));
    return target;
  }

  /** The result of an op that gives one tensor. */
  one(id: number): AnyTensor {
    return this.wrap(this.raw.op(id));
  }

  /** The results of an op that gives several. */
  several(id: number): AnyTensor[] {
    const count = this.check(this.raw.op(id));
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

/** A copy of a list of numbers. A list may have getters, so that it is read once. */
export function listOf(owner: Session, op: string, values: unknown): readonly number[] {
  if (!Array.isArray(values)) throw errorOf("shape", op, `got ${describe(values)}, expected a list of integers`);
  const count = fit(owner, op, values, "integers");
  const copy: number[] = [];
  for (let at = 0; at < count; at++) copy.push(numberOf(op, values[at]));
  return copy;
}

/** A whole number, or a copy of a list of them. */
export function integersOf<T extends Integers | undefined>(owner: Session, op: string, values: T): T {
  if (values === undefined || typeof values === "number") return values;
  return listOf(owner, op, values) as T;
}

/** The length of a list, which must fit into scratch. */
function fit(owner: Session, op: string, list: readonly unknown[], what: string): number {
  const { length } = list;
  const most = owner.raw.scratch.length - 1;
  if (length <= most) return length;
  throw errorOf("shape", op, `the number of ${what} is ${length}, expected at most ${most}`);
}

function numberOf(op: string, value: unknown): number {
  if (typeof value === "number") return value;
  throw errorOf("dtype", op, `got ${describe(value)}, expected a number`);
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
