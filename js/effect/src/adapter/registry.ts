/** Which objects stand for which handles of one engine. */

import { describe, errorOf } from "lanthorn/raw";

import { Owned } from "../handles.js";

/** What a cleared object stands for. */
const CLEARED = 0;

/** The objects of one adapter. Those of others are foreign to it. */
export class Registry {
  set(object: Owned, handle: number): void {
    Owned.own(object, this, handle);
  }

  /** The handle of an object; throws for one of another runtime, and for one that was cleared. */
  handleOf(operation: string, object: unknown): number {
    const handle = Owned.handleOf(object, this);
    if (handle === undefined) {
      const found = typeof object === "object" && object !== null ? "one of another runtime" : describe(object);
      throw errorOf("foreign_handle", operation, `a handle is ${found}; expected one that this runtime has made`);
    }
    if (handle === CLEARED) throw errorOf("invalid_handle", operation, "a handle was cleared before; compute it again");
    return handle;
  }

  /** Marks an object whose handle the engine has taken as cleared. */
  forget(object: unknown): void {
    Owned.own(object as Owned, this, CLEARED);
  }

  /** Marks an object as cleared. Gives the handle that it stood for. */
  clear(operation: string, object: object): number {
    const handle = this.handleOf(operation, object);
    Owned.own(object as Owned, this, CLEARED);
    return handle;
  }
}
