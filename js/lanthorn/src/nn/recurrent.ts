/** Recurrent networks and their cells, with torch's names and order of gates; all begin uniform within `1 / sqrt(hidden)`. */

import { settingsOf } from "../create.js";
import type { DTypeName } from "../dtype.js";
import { within } from "../session.js";
import { Tensor, type Reading } from "../tensor.js";
import { expectSizes, probabilityOf, uniformWithin } from "./checks.js";
import { Module } from "./module.js";

/** What a cell takes. */
export interface CellOptions {
  bias?: boolean | undefined;
  dtype?: DTypeName | undefined;
}

/** What a network over a sequence takes. */
export interface RecurrentOptions extends CellOptions {
  /** How many layers lie on each other; 1 if left out. */
  layers?: number | undefined;
  bidirectional?: boolean | undefined;
  /** Whether `x` is `[batch, seq, inputs]`, not `[seq, batch, inputs]`; true if left out. */
  batchFirst?: boolean | undefined;
  /** Between layers, in training. */
  dropout?: number | undefined;
}

/** The names of `RecurrentOptions`. */
const RECURRENT = ["layers", "bidirectional", "batchFirst", "bias", "dropout", "dtype"] as const;

/** Layers of cells over a sequence. The parameters of layer `k` are `weight_ih_lK`, `weight_hh_lK`, `bias_ih_lK`, `bias_hh_lK`. */
abstract class Recurrent<R extends Reading> extends Module<R> {
  [weight: `weight_${string}`]: Tensor<R>;
  [bias: `bias_${string}`]: Tensor<R>;
  readonly layers: number;
  readonly bidirectional: boolean;
  readonly batchFirst: boolean;
  readonly hasBias: boolean;
  readonly dropout: number;
  readonly _names: readonly string[];

  constructor(gates: number, inputs: number, hidden: number, options: RecurrentOptions = {}) {
    super();
    const settings = settingsOf(this.constructor.name, options, RECURRENT);
    const { layers = 1, bidirectional = false, batchFirst = true, bias = true, dropout = 0, dtype } = settings;
    this.layers = layers;
    this.bidirectional = bidirectional;
    this.batchFirst = batchFirst;
    this.hasBias = bias;
    this.dropout = probabilityOf(this.constructor.name, dropout);
    expectSizes(this.constructor.name, { inputs, hidden, layers });
    const rows = gates * hidden;
    const names: string[] = [];
    for (let layer = 0; layer < layers; layer++) {
      const width = layer === 0 ? inputs : hidden * (bidirectional ? 2 : 1);
      for (const end of bidirectional ? ["", "_reverse"] : [""]) {
        const shapes: [what: string, shape: number[]][] = [
          ["weight_ih", [rows, width]],
          ["weight_hh", [rows, hidden]],
        ];
        if (bias) shapes.push(["bias_ih", [rows]], ["bias_hh", [rows]]);
        for (const [what, shape] of shapes) {
          const name = `${what}_l${layer}${end}`;
          names.push(name);
          (this as unknown as { [name: string]: Tensor<R> })[name] = uniformWithin<R>(shape, hidden, dtype);
        }
      }
    }
    this._names = names;
  }

  protected weights(): Tensor<R>[] {
    return this._names.map((name) => (this as unknown as { [name: string]: Tensor<R> })[name] as Tensor<R>);
  }

  /** The dropout of this call and the key of its draws. */
  protected draw(x: Tensor<R>): [p: number, key: Tensor<R> | undefined] {
    const p = this.isTraining && this.layers > 1 ? this.dropout : 0;
    return [p, p > 0 ? within(x.session, () => Tensor.randomKey<R>()) : undefined];
  }
}

/**
 * Long short-term memory (Hochreiter and Schmidhuber 1997). Gives every step of the last layer and the last states
 * `[layers directions, batch, hidden]` of all.
 */
export class LSTM<R extends Reading = "sync"> extends Recurrent<R> {
  constructor(inputs: number, hidden: number, options?: RecurrentOptions) {
    super(4, inputs, hidden, options);
  }

  forward(x: Tensor<R>, state?: readonly [h: Tensor<R>, c: Tensor<R>]): [output: Tensor<R>, state: [Tensor<R>, Tensor<R>]] {
    const [p, key] = this.draw(x);
    const { hasBias, layers, bidirectional, batchFirst } = this;
    const weights = this.weights();
    const [output, h, c] = x.lstm(state?.[0], state?.[1], key, weights, hasBias, layers, bidirectional, batchFirst, p);
    return [output as Tensor<R>, [h as Tensor<R>, c as Tensor<R>]];
  }
}

/** Gated recurrent units (Cho et al. 2014). Gives every step of the last layer and the last states of all. */
export class GRU<R extends Reading = "sync"> extends Recurrent<R> {
  constructor(inputs: number, hidden: number, options?: RecurrentOptions) {
    super(3, inputs, hidden, options);
  }

  forward(x: Tensor<R>, state?: Tensor<R>): [output: Tensor<R>, state: Tensor<R>] {
    const [p, key] = this.draw(x);
    const { hasBias, layers, bidirectional, batchFirst } = this;
    const [output, h] = x.gru(state, key, this.weights(), hasBias, layers, bidirectional, batchFirst, p);
    return [output as Tensor<R>, h as Tensor<R>];
  }
}

/** `tanh`, or `max(x, 0)`, of a linear map of input and state (Elman 1990). */
export class RNN<R extends Reading = "sync"> extends Recurrent<R> {
  readonly nonlinearity: "tanh" | "relu";

  constructor(inputs: number, hidden: number, options: RecurrentOptions & { nonlinearity?: "tanh" | "relu" } = {}) {
    const { nonlinearity = "tanh", ...others } = options;
    super(1, inputs, hidden, others);
    this.nonlinearity = nonlinearity;
  }

  forward(x: Tensor<R>, state?: Tensor<R>): [output: Tensor<R>, state: Tensor<R>] {
    const [p, key] = this.draw(x);
    const { hasBias, layers, bidirectional, batchFirst } = this;
    const op = this.nonlinearity === "tanh" ? x.rnnTanh.bind(x) : x.rnnRelu.bind(x);
    const [output, h] = op(state, key, this.weights(), hasBias, layers, bidirectional, batchFirst, p);
    return [output as Tensor<R>, h as Tensor<R>];
  }
}

/** One step of a network: `weight_ih [gates hidden, inputs]`, `weight_hh [gates hidden, hidden]`, two biases. */
abstract class Cell<R extends Reading> extends Module<R> {
  weight_ih: Tensor<R>;
  weight_hh: Tensor<R>;
  bias_ih: Tensor<R> | null;
  bias_hh: Tensor<R> | null;
  readonly hidden: number;

  constructor(gates: number, inputs: number, hidden: number, options: CellOptions = {}) {
    super();
    const { bias = true, dtype } = settingsOf(this.constructor.name, options, ["bias", "dtype"]);
    expectSizes(this.constructor.name, { inputs, hidden });
    this.weight_ih = uniformWithin([gates * hidden, inputs], hidden, dtype);
    this.weight_hh = uniformWithin([gates * hidden, hidden], hidden, dtype);
    this.bias_ih = bias ? uniformWithin([gates * hidden], hidden, dtype) : null;
    this.bias_hh = bias ? uniformWithin([gates * hidden], hidden, dtype) : null;
    this.hidden = hidden;
  }

  protected weights(): [Tensor<R>, Tensor<R>, Tensor<R> | undefined, Tensor<R> | undefined] {
    return [this.weight_ih, this.weight_hh, this.bias_ih ?? undefined, this.bias_hh ?? undefined];
  }

  /** A state of zeros for `x [.., inputs]`. */
  protected zeros(x: Tensor<R>): Tensor<R> {
    const shape = [...x.shape.slice(0, -1), this.hidden];
    return within(x.session, () => Tensor.zeros<R>(shape, { dtype: x.dtype }));
  }
}

/** One step of an LSTM on `x [batch, inputs]` from a state, or from zeros: the state `[h, c]` afterwards. */
export class LSTMCell<R extends Reading = "sync"> extends Cell<R> {
  constructor(inputs: number, hidden: number, options?: CellOptions) {
    super(4, inputs, hidden, options);
  }

  forward(x: Tensor<R>, state?: readonly [h: Tensor<R>, c: Tensor<R>]): [h: Tensor<R>, c: Tensor<R>] {
    const [h, c] = state ?? [this.zeros(x), this.zeros(x)];
    return x.lstmCell(h, c, ...this.weights()) as [Tensor<R>, Tensor<R>];
  }
}

/** One step of a GRU on `x [batch, inputs]` from a state, or from zeros: the state afterwards. */
export class GRUCell<R extends Reading = "sync"> extends Cell<R> {
  constructor(inputs: number, hidden: number, options?: CellOptions) {
    super(3, inputs, hidden, options);
  }

  forward(x: Tensor<R>, state?: Tensor<R>): Tensor<R> {
    return x.gruCell(state ?? this.zeros(x), ...this.weights());
  }
}

/** One step of `tanh` of a linear map of input and state. */
export class RNNCell<R extends Reading = "sync"> extends Cell<R> {
  constructor(inputs: number, hidden: number, options?: CellOptions) {
    super(1, inputs, hidden, options);
  }

  forward(x: Tensor<R>, state?: Tensor<R>): Tensor<R> {
    return x.rnnTanhCell(state ?? this.zeros(x), ...this.weights());
  }
}
