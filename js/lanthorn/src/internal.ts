/**
 * What other packages of this project build their adapters from: how arguments stand in scratch, how handles are let go,
 * errors, elements and the numbers of ops. For them alone; it changes with the engine.
 */

export { Arguments, integersOf, listOf, type Integers } from "./arguments.js";
export {
  bytesOf,
  codeOf,
  describe,
  elementsOf,
  type DType,
  type Elements,
  type ElementsLike,
  type Scalar,
} from "./dtype.js";
export { errorOf, errorOfText, LanthornError, type ErrorKind } from "./errors.js";
export { DTYPES, FINGERPRINT, OP } from "./generated/table.js";
export { expectWhole, halfOf, loneAt } from "./text.js";
export { Watch, type Releasing } from "./watch.js";
