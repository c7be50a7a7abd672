/** Why a tensor cannot be sent: `structuredClone` and `postMessage` read all of an object, and so its engine. */

import { errorOf } from "./errors.js";

const ADVICE = "send its elements, of toTypedArray, and its shape; where a copy is wanted, use clone";

/** An engine's own property that such calls read first, and no other code does. */
const SENT: PropertyDescriptor = {
  enumerable: true,
  get() {
    throw errorOf("unsupported", "structuredClone", `a tensor stays in the thread that has made it; ${ADVICE}`);
  },
};

/** What belongs to a thread. Fields of classes that extend this come after its own. */
export abstract class Unsendable {
  constructor() {
    Object.defineProperty(this, "sent", SENT);
  }
}
