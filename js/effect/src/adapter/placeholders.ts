/** Which placeholders a graph is made of, where a program must know it: numbers' slots, and the traces that tensors' are of. */

import { errorOf } from "lanthorn/raw";

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

/** The placeholders of one adapter's nodes. */
export class Placeholders {
  private readonly marks = new WeakMap<object, Marks>();

  private of(nodes: ReadonlyArray<object>): Marks {
    return nodes.reduce<Marks>((marks, node) => {
      const found = this.marks.get(node);
      return found === undefined || found === marks ? marks : union(marks, found);
    }, NONE);
  }

  /** Notes what nodes are made of. */
  note(made: ReadonlyArray<object>, operands: ReadonlyArray<object>): void {
    const marks = this.of(operands);
    if (marks === NONE) return;
    for (const node of made) this.marks.set(node, marks);
  }

  /** Notes what a node is that an operation has made. */
  noteNode(node: object, op: string, operands: ReadonlyArray<object>, attributes: unknown): void {
    const { slot, trace } = (attributes ?? {}) as { readonly slot?: number; readonly trace?: object };
    if (op === "scalarInput") this.marks.set(node, { ...NONE, scalars: new Set([slot as number]) });
    else if (op === "input" && trace !== undefined) this.marks.set(node, { ...NONE, traces: new Set([trace]) });
    else if (!EXEMPLARS.has(op)) this.note([node], operands);
  }

  /**
   * The slots of numbers among the placeholders of a program's roots. Throws where a placeholder is of another trace, which
   * would be bound to what is in its slot here, and where a slot is that of a tensor as well.
   */
  scalarsOf(
    roots: ReadonlyArray<object>,
    trace: object | undefined,
    tensors: ReadonlyArray<unknown>,
  ): ReadonlySet<number> {
    const { scalars, traces } = this.of(roots);
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
}
