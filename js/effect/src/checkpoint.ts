/**
 * Training that goes on another day: parameters, the optimiser's state and the number of steps in a safetensors file, with
 * the state of a sampler if wanted. What comes back is what went in, bit by bit.
 *
 * Entries: `param:<name>`, `state:<number>` in the order of the optimiser's roots, `meta:step`, and `sampler:<field>`.
 */
import { Data, Effect } from "effect";

import type { Model } from "./model/index.js";
import type * as Runtime from "./runtime.js";
import type * as Sampler from "./sampler.js";
import * as Tensor from "./tensor.js";
import type * as Trainer from "./trainer.js";

/** A file that is no checkpoint of this trainer. */
export class CheckpointError extends Data.TaggedError("CheckpointError")<{
  readonly op: string;
  readonly message: string;
}> {}

/** What `train` of a trainer takes to go on. */
export interface Checkpoint<S> {
  readonly params: ReadonlyArray<Tensor.Concrete>;
  readonly resume: Trainer.Resume<S>;
}

/** A checkpoint with the state of a sampler. */
export interface CheckpointWithSampler<S> extends Checkpoint<S> {
  readonly sampler: Sampler.SamplerState;
}

const STEP = "meta:step";
const MOST = 2 ** 32 - 1;
/** The form of the sampler's entries. */
const VERSION = 1;
const NUMBERS = ["length", "block", "batch", "cursor", "epoch"] as const;

/**
 * Writes what a trainer has come to. Fails with `TensorError` before anything is written where it is not of this trainer.
 *
 * As with `Tensor.save`, an interruption leaves the old file or the new one, whole: training can go on from what is there.
 */
export const save = <S, EL, RL, ED, RD, EO, RO>(
  path: string,
  trainer: Trainer.Trainer<S, EL, RL, ED, RD, EO, RO>,
  trained: Trainer.Trained<S>,
): Effect.Effect<void, Tensor.TensorError, Runtime.Runtime> =>
  Effect.gen(function*() {
    yield* Tensor.save(path, yield* entriesOf("Checkpoint.save", trainer, trained));
  });

/** As `save`, with the state of a sampler. */
export const saveWithSampler = <S, EL, RL, ED, RD, EO, RO>(
  path: string,
  trainer: Trainer.Trainer<S, EL, RL, ED, RD, EO, RO>,
  trained: Trainer.Trained<S>,
  sampler: Sampler.Sampler,
): Effect.Effect<void, Tensor.TensorError, Runtime.Runtime> =>
  Effect.gen(function*() {
    const op = "Checkpoint.saveWithSampler";
    const entries = yield* entriesOf(op, trainer, trained);
    const { config, order, cursor, epoch } = sampler.state();
    for (const [name, value] of Object.entries({ version: VERSION, ...config, cursor, epoch })) {
      entries[`sampler:${name}`] = yield* count(op, name, value);
    }
    entries["sampler:order"] = yield* Tensor.fromTypedArray(order, [order.length]);
    yield* Tensor.save(path, entries);
  });

/** Reads what `save` wrote, or `saveWithSampler`. Fails with `CheckpointError` where the file is not of this trainer. */
export const load = <S, EL, RL, ED, RD, EO, RO>(
  path: string,
  trainer: Trainer.Trainer<S, EL, RL, ED, RD, EO, RO>,
): Effect.Effect<Checkpoint<S>, CheckpointError | Tensor.TensorError, Runtime.Runtime> =>
  opened("load", path, (entries) => checkpointOf(entries, trainer));

/** Reads what `saveWithSampler` wrote. Fails with `CheckpointError` as `load`, or where the sampler's state is none. */
export const loadWithSampler = <S, EL, RL, ED, RD, EO, RO>(
  path: string,
  trainer: Trainer.Trainer<S, EL, RL, ED, RD, EO, RO>,
): Effect.Effect<CheckpointWithSampler<S>, CheckpointError | Tensor.TensorError, Runtime.Runtime> =>
  opened("loadWithSampler", path, (entries) =>
    Effect.gen(function*() {
      const version = yield* entries.number("sampler:version");
      if (version !== VERSION) return yield* entries.fault(`unsupported sampler version ${version}, expected ${VERSION}`);
      const [length, block, batch, cursor, epoch] = yield* Effect.forEach(NUMBERS, (name) => entries.number(`sampler:${name}`));
      const order = yield* entries.vector("sampler:order");
      const config = { length: length as number, block: block as number, batch: batch as number };
      const sampler = { _tag: "SamplerState" as const, config, order, cursor: cursor as number, epoch: epoch as number };
      return { ...(yield* checkpointOf(entries, trainer)), sampler };
    }),
  );

function entriesOf<S, EL, RL, ED, RD, EO, RO>(
  op: string,
  { model, config: { optimizer } }: Trainer.Trainer<S, EL, RL, ED, RD, EO, RO>,
  { params, state, step }: Trainer.Trained<S>,
) {
  return Effect.gen(function*() {
    if (params.length !== model.names.length) {
      const message = `the model has ${model.names.length} parameters, got ${params.length}`;
      return yield* new Tensor.TensorError({ op, message });
    }
    const entries: Record<string, Tensor.Any> = { [STEP]: yield* count(op, "step", step) };
    for (const [at, name] of model.names.entries()) entries[`param:${name}`] = params[at] as Tensor.Any;
    for (const [at, root] of optimizer.stateRoots(state).entries()) entries[`state:${at}`] = root;
    return entries;
  });
}

/** A number as an entry. */
function count(op: string, name: string, value: number) {
  if (!(Number.isInteger(value) && value >= 0 && value <= MOST)) {
    return Effect.fail(new Tensor.TensorError({ op, message: `${name} is ${value}, expected an integer from 0 to ${MOST}` }));
  }
  return Tensor.fromTypedArray(Uint32Array.of(value), []);
}

/** The entries of a file. Those that `take` gives away are kept, and others released when the work is done. */
interface Entries {
  readonly names: ReadonlyArray<string>;
  readonly fault: (message: string) => Effect.Effect<never, CheckpointError>;
  readonly find: (name: string) => Effect.Effect<Tensor.Concrete, CheckpointError>;
  readonly number: (name: string) => Effect.Effect<number, CheckpointError | Tensor.TensorError, Runtime.Runtime>;
  readonly vector: (name: string) => Effect.Effect<Uint32Array, CheckpointError | Tensor.TensorError, Runtime.Runtime>;
  readonly take: (tensors: ReadonlyArray<Tensor.Concrete>) => void;
}

function opened<A>(
  op: string,
  path: string,
  read: (entries: Entries) => Effect.Effect<A, CheckpointError | Tensor.TensorError, Runtime.Runtime>,
): Effect.Effect<A, CheckpointError | Tensor.TensorError, Runtime.Runtime> {
  return Effect.gen(function*() {
    const tensors = new Map(Object.entries(yield* Tensor.load(path)));
    const left = new Set(tensors.values());
    const fault = (message: string) => Effect.fail(new CheckpointError({ op, message: `${path}: ${message}` }));
    const find = (name: string) => {
      const tensor = tensors.get(name);
      return tensor === undefined ? fault(`missing ${name}`) : Effect.succeed(tensor);
    };
    const words = (name: string, rank: number, what: string) =>
      Effect.gen(function*() {
        const tensor = yield* find(name);
        if (tensor.dtype !== "u32" || tensor.shape.length !== rank) {
          const begin = name === STEP ? "invalid " : "";
          return yield* fault(`${begin}${name} is ${tensor.dtype} [${tensor.shape}], expected a u32 ${what}`);
        }
        return (yield* Tensor.toTypedArray(tensor)) as Uint32Array;
      });
    const entries: Entries = {
      names: [...tensors.keys()],
      fault,
      find,
      number: (name) => Effect.map(words(name, 0, "scalar"), ([value]) => value as number),
      vector: (name) => Effect.map(words(name, 1, "vector"), (order) => order.slice()),
      take: (taken) => taken.forEach((tensor) => left.delete(tensor)),
    };
    return yield* Effect.ensuring(read(entries), Effect.suspend(() => Tensor.clearAll(left)));
  });
}

/** Parameters and state, in the order, and of the shapes and dtypes, that the trainer has. */
function checkpointOf<S, EL, RL, ED, RD, EO, RO>(
  entries: Entries,
  { model, config: { optimizer, precision } }: Trainer.Trainer<S, EL, RL, ED, RD, EO, RO>,
) {
  return Effect.gen(function*() {
    const step = yield* entries.number(STEP);
    const params = yield* paramsOf(entries, model, precision === "mixedBf16" ? ["f32"] : ["f32", "f64", "f16", "bf16"]);
    const refused = (error: Tensor.TensorError): Effect.Effect<never, CheckpointError | Tensor.TensorError> => {
      // The optimisers of this package take f32 and f64; one of somebody's own may take more.
      const at = params.findIndex(({ dtype }) => dtype !== "f32" && dtype !== "f64");
      if (at < 0) return Effect.fail(error);
      const found = `param:${model.names[at]} is ${params[at]?.dtype}`;
      return entries.fault(`${found}, which the optimiser does not take: ${error.message}`);
    };
    const first = yield* Effect.catch(optimizer.init(params), refused);
    const roots = yield* rootsOf(entries, model, params, optimizer.stateRoots(first));
    entries.take([...params, ...roots]);
    return { params, resume: { state: optimizer.rebuildState(first, roots), step } };
  });
}

/** The parameters of the model, where the file holds them and no others. */
function paramsOf(entries: Entries, { names, parameters }: Model, dtypes: ReadonlyArray<Tensor.DType>) {
  return Effect.gen(function*() {
    const params: Array<Tensor.Concrete> = [];
    for (const { name, shape } of parameters) {
      const param = yield* entries.find(`param:${name}`);
      if (String(param.shape) !== String(shape)) {
        return yield* entries.fault(`param:${name} is of shape [${param.shape}], expected [${shape}]`);
      }
      if (!dtypes.includes(param.dtype)) {
        return yield* entries.fault(`param:${name} is ${param.dtype}, expected ${dtypes.join(" or ")}`);
      }
      params.push(param);
    }
    const known = new Set(names.map((name) => `param:${name}`));
    const extra = entries.names.find((name) => name.startsWith("param:") && !known.has(name));
    if (extra === undefined) return params;
    return yield* entries.fault(`the model of the trainer has no parameter for the entry ${extra}; is the model another one?`);
  });
}

/** The tensors of a state like `likes`, where the file holds these and no others. */
function rootsOf(
  entries: Entries,
  { names }: Model,
  params: ReadonlyArray<Tensor.Concrete>,
  likes: ReadonlyArray<Tensor.Any>,
) {
  return Effect.gen(function*() {
    const held = entries.names.filter((name) => name.startsWith("state:"));
    const expected = likes.map((_, at) => `state:${at}`);
    const missing = expected.find((name) => !held.includes(name));
    const extra = held.find((name) => !expected.includes(name));
    if (missing !== undefined || extra !== undefined) {
      const begin = missing === undefined ? `unexpected ${extra}` : `missing ${missing}`;
      const counts = `the file holds ${held.length} entries state:*, the optimiser of the trainer expects ${likes.length}`;
      return yield* entries.fault(`${begin}: ${counts}; is the optimiser another one?`);
    }
    const roots: Array<Tensor.Concrete> = [];
    for (const [at, like] of likes.entries()) {
      const root = yield* entries.find(`state:${at}`);
      const isSameShape = String(root.shape) === String(like.shape);
      if (root.dtype !== like.dtype || !isSameShape) {
        const message = `state:${at} is ${root.dtype} [${root.shape}], expected ${like.dtype} [${like.shape}]`;
        // Where dtypes alone differ, the parameter may be the one that is of another run.
        const cause = isSameShape ? params.findIndex(({ dtype }) => dtype === like.dtype) : -1;
        if (cause >= 0) return yield* entries.fault(`${message} as param:${names[cause]} is ${like.dtype}`);
        return yield* entries.fault(`${message}; is the optimiser another one?`);
      }
      roots.push(root);
    }
    return roots;
  });
}
