/** Which placeholders a graph is made of, where a program must know it: numbers' slots, and the traces that tensors' are of. */

import { errorOf } from "lanthorn/raw";

import { Owned } from "../handles.js";

/** What is known of a node. Nodes share it where they can, and it never changes. */
interface Marks {
  /** Slots of placeholders of numbers. */
  readonly scalars: ReadonlySet<number>;
  /** Traces that have made placeholders; those that are made by hand are of none. */
  readonly traces: ReadonlySet<object>;
}

/** Operations that read only the shape and the dtype of their operand. */
const EXEMPLARS: ReadonlySet<string> = new Set(["constant", "zeros", "ones", "full", "input"]);

const NONE: Marks = { scalars: new Set(), traces: new Set() };

const isWithin = <T>(part: ReadonlySet<T>, whole: ReadonlySet<T>) => [...part].every((element) => whole.has(element));

function union(one: Marks, other: Marks): Marks {
  if (isWithin(other.scalars, one.scalars) && isWithin(other.traces, one.traces)) return one;
  if (isWithin(one.scalars, other.scalars) && isWithin(one.traces, other.traces)) return other;
  return {
    scalars: new Set([...one.scalars, ...other.scalars]),
    traces: new Set([...one.traces, ...other.traces]),
  };
}

/** What is known of nodes together. */
function of(nodes: ReadonlyArray<object>): Marks {
  let marks = NONE;
  for (const node of nodes) {
    const found = Owned.marksOf(node) as Marks | undefined;
    if (found !== undefined && found !== marks) marks = union(marks, found);
  }
  return marks;
}

/** Notes what nodes are made of. */
export function note(made: ReadonlyArray<Owned>, operands: ReadonlyArray<object>): void {
  const marks = of(operands);
  if (marks === NONE) return;
  for (const node of made) Owned.mark(node, marks);
}

/** Notes what a node is that an operation has made. */
export function noteNode(node: Owned, op: string, operands: ReadonlyArray<object>, attributes: unknown): void {
  const { slot, trace } = (attributes ?? NOTHING) as { readonly slot?: number; readonly trace?: object };
  if (op === "scalarInput") Owned.mark(node, { ...NONE, scalars: new Set([slot as number]) });
  else if (op === "input" && trace !== undefined) Owned.mark(node, { ...NONE, traces: new Set([trace]) });
  else if (!EXEMPLARS.has(op)) {
    const marks = of(operands);
    if (marks !== NONE) Owned.mark(node, marks);
  }
}

const NOTHING = {};

/**
 * The slots of numbers among the placeholders of a program's roots. Throws where a placeholder is of another trace, which
 * would be bound to what is in its slot here, and where a slot is that of a tensor as well.
 */
export function scalarsOf(
  roots: ReadonlyArray<object>,
  trace: object | undefined,
  tensors: ReadonlyArray<unknown>,
): ReadonlySet<number> {
  const { scalars, traces } = of(roots);
  if ([...traces].some((other) => other !== trace)) {
    throw errorOf(
      "compile",
      "compile",
      "a root is made of a placeholder of another trace; expected those that this trace was called with",
    );
  }
  const both = [...scalars].find((slot) => tensors[slot] != null);
  if (both === undefined) return scalars;
  throw errorOf(
    "compile",
    "compile",
    `slot ${both} is that of a tensor and of a number; numbers have the slots after those of the tensors`,
  );
}
