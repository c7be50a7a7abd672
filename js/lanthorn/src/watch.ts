/** Lets the handles of objects go once the garbage collector has taken the objects. */

import { errorOfText } from "./errors.js";

/** How many new objects wait for `track`: it costs less for several at once. They stay alive so long. */
const BATCH = 32;

/** The raw calls that let handles go. */
export interface Releasing {
  readonly scratch: Float64Array;
  error(): string;
  release(handle: number): number;
  track?(objects: readonly object[]): number;
  sweep?(): number;
}

/** The objects of an engine that stand for handles. */
export class Watch {
  private raw: Releasing;
  /** New objects that nobody watches yet, and their handles. */
  private readonly objects: object[] = [];
  private readonly handles: number[] = [];
  private readonly registry: FinalizationRegistry<number>;
  private flushes = false;

  constructor(raw: Releasing) {
    this.raw = raw;
    if (raw.sweep === undefined) {
      // A stale handle is told by its generation, so that one which was let go may be reported again.
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

  /** Lets a handle go with an object. May overwrite scratch. */
  add(object: object, handle: number): void {
    if (this.raw.track === undefined) {
      this.registry.register(object, handle);
      return;
    }
    this.handles.push(handle);
    if (this.objects.push(object) >= BATCH) {
      this.flush();
    } else if (!this.flushes) {
      this.flushes = true;
      queueMicrotask(() => {
        this.flushes = false;
        this.flush();
      });
    }
  }

  /** Has new objects watched. Overwrites scratch. */
  flush(): void {
    const { objects, handles, raw } = this;
    if (objects.length === 0) return;
    raw.scratch.set(handles);
    const result = raw.track?.(objects) ?? 0;
    objects.length = 0;
    handles.length = 0;
    if (result < 0) throw errorOfText(raw.error());
  }

  /** Forgets the objects of an engine that was closed. */
  close(raw: Releasing): void {
    this.objects.length = 0;
    this.handles.length = 0;
    this.raw = raw;
  }
}
