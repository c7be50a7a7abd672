//! Recurrent networks: LSTM, GRU and simple cells over whole sequences.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::{Layer, Pass};
use crate::mode::Mode;
use crate::models::check::layer_sizes;
use crate::params::{Init, ParamKind, ParamSpec};

/// The cell of a [`Recurrent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Hochreiter and Schmidhuber 1997.
    Lstm,
    /// Cho et al. 2014.
    Gru,
    /// `tanh` of a linear map of input and state (Elman 1990).
    Tanh,
    /// The same with `max(x, 0)`.
    Relu,
}

impl Cell {
    fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Tanh | Cell::Relu => 1,
        }
    }
}

/// What a [`Recurrent`] gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Every step, `[batch, seq, directions hidden]`.
    #[default]
    Sequence,
    /// What the last layer has at its end, `[batch, directions hidden]`: forward after the last step, backward after
    /// the first.
    Last,
}

/// The sizes of [`Recurrent`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurrentConfig {
    pub cell: Cell,
    pub inputs: usize,
    pub hidden: usize,
    pub layers: usize,
    pub bidirectional: bool,
    pub bias: bool,
    /// Between layers.
    pub dropout: f64,
    pub output: Output,
}

impl RecurrentConfig {
    /// One layer in one direction, with biases, that gives every step.
    pub fn new(cell: Cell, inputs: usize, hidden: usize) -> RecurrentConfig {
        let (layers, bidirectional, bias, dropout) = (1, false, true, 0.0);
        RecurrentConfig {
            cell,
            inputs,
            hidden,
            layers,
            bidirectional,
            bias,
            dropout,
            output: Output::Sequence,
        }
    }

    /// So many layers, each on the one before.
    pub fn layers(self, layers: usize) -> RecurrentConfig {
        RecurrentConfig { layers, ..self }
    }

    /// In both directions; the results lie side by side.
    pub fn bidirectional(self) -> RecurrentConfig {
        RecurrentConfig { bidirectional: true, ..self }
    }

    /// Dropout of that probability between layers.
    pub fn dropout(self, dropout: f64) -> RecurrentConfig {
        RecurrentConfig { dropout, ..self }
    }

    /// The end alone, not every step.
    pub fn last(self) -> RecurrentConfig {
        RecurrentConfig { output: Output::Last, ..self }
    }
}

/// Layers of cells over `x [batch, seq, inputs]`, from a state of zeros.
///
/// Parameters, with torch's names and order of gates: for layer `k` in each direction `NAME.weight_ih_lK
/// [gates hidden, inputs]`, `NAME.weight_hh_lK [gates hidden, hidden]`, `NAME.bias_ih_lK` and `NAME.bias_hh_lK
/// [gates hidden]`; those of the way back end in `_reverse`. All begin uniform within `1 / sqrt(hidden)`.
#[derive(Clone, Debug)]
pub struct Recurrent {
    name: String,
    config: RecurrentConfig,
}

impl Recurrent {
    /// A network.
    ///
    /// Errors: no layer; sizes beyond 32 bits; a dropout outside `[0, 1)`.
    pub fn new(name: &str, config: RecurrentConfig) -> Result<Recurrent> {
        let fail = |message: String| Err(Error::shape("recurrent", format!("{name}: {message}")));
        if config.layers == 0 || config.layers > 10_000 {
            return fail(format!("layers is {}, expected 1 to 10000", config.layers));
        }
        layer_sizes("recurrent", name, &[("inputs", config.inputs), ("hidden", config.hidden)])?;
        if !(0.0..1.0).contains(&config.dropout) {
            return fail(format!("the dropout is {}, expected 0 to below 1", config.dropout));
        }
        Ok(Recurrent { name: name.to_owned(), config })
    }

    fn drops(&self) -> bool {
        self.config.dropout > 0.0 && self.config.layers > 1
    }

    fn directions(&self) -> usize {
        if self.config.bidirectional { 2 } else { 1 }
    }

    /// All steps of the last layer `[batch, seq, directions hidden]` and the last states, `h` and for an LSTM `c`,
    /// `[layers directions, batch, hidden]`; from such states, or from zeros.
    pub fn states<B: Builder>(
        &self,
        b: &B,
        pass: &Pass<'_, B::Value>,
        x: &B::Value,
        initial: [Option<&B::Value>; 2],
    ) -> Result<(B::Value, Vec<B::Value>)> {
        let RecurrentConfig { cell, layers, bidirectional, bias, dropout, .. } = self.config;
        let weights = self
            .specs()
            .iter()
            .map(|spec| pass.params().get(&spec.name).cloned())
            .collect::<Result<Vec<_>>>()?;
        let (key, stream, dropout) = match pass.mode() {
            Mode::Train(draws) if self.drops() => {
                let (key, stream) = draws.next_streams("recurrent", layers as u64 - 1)?;
                (Some(key), stream, dropout)
            }
            _ => (None, 0, 0.0),
        };
        let (key, [h, c], w) = (key.as_ref(), initial, &weights[..]);
        let mut results = match cell {
            Cell::Lstm => ops::lstm(b, x, h, c, key, w, bias, layers, bidirectional, true, dropout, stream),
            Cell::Gru => ops::gru(b, x, h, key, w, bias, layers, bidirectional, true, dropout, stream),
            Cell::Tanh => ops::rnn_tanh(b, x, h, key, w, bias, layers, bidirectional, true, dropout, stream),
            Cell::Relu => ops::rnn_relu(b, x, h, key, w, bias, layers, bidirectional, true, dropout, stream),
        }?;
        if results.is_empty() {
            return Err(Error::unsupported("recurrent", "the network gave no value"));
        }
        let output = results.remove(0);
        Ok((output, results))
    }
}

impl Layer for Recurrent {
    fn specs(&self) -> Vec<ParamSpec> {
        let RecurrentConfig { cell, inputs, hidden, layers, bias, .. } = self.config;
        let rows = cell.gates() * hidden;
        let init = Init::Uniform { bound: 1.0 / (hidden.max(1) as f64).sqrt() };
        let mut specs = Vec::new();
        for layer in 0..layers {
            let width = if layer == 0 { inputs } else { self.directions() * hidden };
            for direction in 0..self.directions() {
                let end = if direction == 1 { "_reverse" } else { "" };
                let mut push = |what: &str, shape: &[usize], kind| {
                    let name = format!("{}.{what}_l{layer}{end}", self.name);
                    specs.push(ParamSpec::new(name, shape, init, kind));
                };
                push("weight_ih", &[rows, width], ParamKind::Weight);
                push("weight_hh", &[rows, hidden], ParamKind::Weight);
                if bias {
                    push("bias_ih", &[rows], ParamKind::Bias);
                    push("bias_hh", &[rows], ParamKind::Bias);
                }
            }
        }
        specs
    }

    fn is_random(&self) -> bool {
        self.drops()
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let (output, states) = self.states(b, pass, x, [None, None])?;
        if self.config.output == Output::Sequence {
            return Ok(output);
        }
        let h = states.first().ok_or_else(|| Error::unsupported("recurrent", "the network gave no state"))?;
        let first = (self.config.layers - 1) * self.directions();
        let ends = (first..first + self.directions()).map(|run| ops::select(b, h, 0, run as isize));
        ops::concat(b, &ends.collect::<Result<Vec<_>>>()?, -1)
    }
}
