/** What a backend offers beside graphs: files, tokens, pools and counters. */

import { Effect } from "effect";
import { expectWhole } from "lanthorn/raw";

import { KvPoolHandleTypeId, KvSequenceHandleTypeId, Owned } from "../handles.js";
import type {
  DecodeRuntime,
  KvPoolHandle,
  KvSequenceHandle,
  PathSafetensors,
  PathSafetensorsLoadArchive,
  RuntimeDiagnostics,
  SamplingRuntime,
} from "../runtime.js";
import type { Adapter } from "./adapter.js";
import { immediate, job } from "./jobs.js";
import type { Programs } from "./programs.js";

class KvPool extends Owned implements KvPoolHandle {
  readonly [KvPoolHandleTypeId]: typeof KvPoolHandleTypeId = KvPoolHandleTypeId;

  constructor() {
    super();
    Object.freeze(this);
  }
}

class KvSequence extends Owned implements KvSequenceHandle {
  readonly [KvSequenceHandleTypeId]: typeof KvSequenceHandleTypeId = KvSequenceHandleTypeId;
  /** A sequence keeps its pool. */
  readonly pool: KvPoolHandle;

  constructor(pool: KvPoolHandle) {
    super();
    this.pool = pool;
    Object.freeze(this);
  }
}

/** Files of safetensors. */
export function pathSafetensors(adapter: Adapter): PathSafetensors {
  const { engine } = adapter;
  return {
    save: (path, { entries, metadata }) =>
      job<object, void>(
        engine,
        adapter.failing("io", "save", "saveSafetensors"),
        () => {
          checkPath("save", path);
          const names = entries.map(({ name }) => name);
          for (const name of names) expectWhole("format", "save", "the name of a tensor", name);
          for (const name of Object.keys(metadata ?? {})) expectWhole("format", "save", "the name of metadata", name);
          const header = JSON.stringify([names, metadata]);
          engine.putHandles(
            adapter.handlesOf(
              "save",
              entries.map(({ tensor }) => tensor),
            ),
          );
          return begun(engine.raw.save_safetensors(path, header));
        },
        () => undefined,
        () => undefined,
      ),
    load: (path) =>
      job<object, PathSafetensorsLoadArchive>(
        engine,
        adapter.failing("io", "load", "loadSafetensors"),
        () => {
          checkPath("load", path);
          return begun(engine.raw.load_safetensors(path));
        },
        (found) => {
          const [header, handles] = found as [string, number[]];
          const [names, metadata] = JSON.parse(header) as [string[], Record<string, string>];
          const tensors = adapter.concretes(handles, [], (at) => [path, `tensor \`${names[at]}\` has the dtype`]);
          return { entries: tensors.map((tensor, at) => ({ name: names[at] as string, tensor })), metadata };
        },
        (found) => adapter.drop((found as [string, number[]])[1] ?? []),
      ),
  };
}

function checkPath(operation: string, path: unknown): void {
  expectWhole("io", operation, "the path", path);
}

/** What a call on files gives. */
function begun(result: unknown): Promise<object> | object | number {
  return (result ?? {}) as Promise<object> | object | number;
}

/** Draws of tokens. */
export function sampling(adapter: Adapter, programs: Programs): SamplingRuntime {
  const { engine } = adapter;
  return {
    sample: (logits, options) =>
      immediate(adapter.failing("execute", "sample"), () =>
        engine.check(engine.raw.sample(adapter.registry.handleOf("sample", logits), JSON.stringify(options))),
      ),
    executeDecode: (executable, invocation, options) => programs.executeSampled(executable, invocation, options),
  };
}

/** Pools of keys and values and their sequences. */
export function decode(adapter: Adapter): DecodeRuntime {
  const { engine, registry } = adapter;
  const { raw } = engine;
  return {
    makePool: (options) =>
      immediate(adapter.failing("execute", "makePool", "pool"), () =>
        adapter.adopt(new KvPool(), engine.check(raw.pool(JSON.stringify(options)))),
      ),
    makeSequence: (pool) =>
      immediate(adapter.failing("execute", "makeSequence", "sequence"), () =>
        adapter.adopt(new KvSequence(pool), engine.check(raw.sequence(registry.handleOf("makeSequence", pool)))),
      ),
    prefillMatch: (sequence, tokens) =>
      immediate(adapter.failing("execute", "prefillMatch"), () => {
        const handle = registry.handleOf("prefillMatch", sequence);
        // Of a prompt that does not fit into scratch the beginning is looked up: sharing less is right all the same.
        engine.putSizes(0, tokens.slice(0, raw.scratch.length - 1));
        return engine.check(raw.prefill_match(handle));
      }),
    sequenceCursor: (sequence) =>
      immediate(adapter.failing("execute", "sequenceCursor", "cursor"), () =>
        engine.check(raw.cursor(registry.handleOf("sequenceCursor", sequence))),
      ),
    releaseSequence: (sequence) =>
      immediate(adapter.failing("execute", "releaseSequence"), () => {
        engine.check(raw.release(registry.clear("releaseSequence", sequence)));
      }),
  };
}

/** Counters. */
export function diagnostics(adapter: Adapter): RuntimeDiagnostics {
  return { externalMemoryBytes: Effect.sync(() => adapter.engine.raw.stats()) };
}
