//! Recurrent networks: cells and whole sequences, with torch's weights and order of gates.
//!
//! Weights are `weight_ih [gates hidden, input]`, `weight_hh [gates hidden, hidden]` and optional biases
//! `[gates hidden]`. A cell computes in the wide type and rounds its states once.

use super::{
    add, cast, concat, dropout, flip, matmul_as, mul, relu, select, shape_of, sigmoid, slice_axis, stack,
    sub, tanh, transpose, zeros,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::prim::{expect_float, expect_same_dtype, expect_shape};

/// The kinds of cells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
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

/// The weights of one cell.
struct Weights<'a, V> {
    ih: &'a V,
    hh: &'a V,
    bias_ih: Option<&'a V>,
    bias_hh: Option<&'a V>,
}

impl<V> Weights<'_, V> {
    /// Checks all shapes and dtypes against `x [.., input]` and a hidden width.
    fn check<B: Builder<Value = V>>(&self, b: &B, op: &str, cell: Cell, x: &V, hidden: usize) -> Result<()> {
        let ty = b.ty(x);
        expect_float(op, "the input", ty)?;
        let Some(&input) = ty.shape.last() else {
            return Err(Error::shape(op, format!("the input is {ty}, expected [.., features]")));
        };
        let rows = cell.gates().checked_mul(hidden).ok_or_else(|| Error::shape(op, "the sizes overflow"))?;
        for (name, weight, shape) in [
            ("weight_ih", Some(self.ih), &[rows, input][..]),
            ("weight_hh", Some(self.hh), &[rows, hidden]),
            ("bias_ih", self.bias_ih, &[rows]),
            ("bias_hh", self.bias_hh, &[rows]),
        ] {
            if let Some(weight) = weight {
                expect_shape(op, name, b.ty(weight), shape)?;
                expect_same_dtype(op, ty, name, b.ty(weight))?;
            }
        }
        Ok(())
    }
}

/// `x w^T + bias`, wide.
fn project<B: Builder>(b: &B, x: &B::Value, weight: &B::Value, bias: Option<&B::Value>) -> Result<B::Value> {
    let wide = b.ty(x).dtype.wide();
    let y = matmul_as(b, x, &transpose(b, weight, 0, 1)?, wide)?;
    match bias {
        Some(bias) => add(b, &y, &cast(b, bias, wide)?),
        None => Ok(y),
    }
}

/// One step from the input's projection `[.., gates hidden]`, wide: `[h', c']` for an LSTM, else `[h']`.
fn step<B: Builder>(
    b: &B,
    cell: Cell,
    projected: &B::Value,
    h: &B::Value,
    c: Option<&B::Value>,
    weights: &Weights<'_, B::Value>,
) -> Result<Vec<B::Value>> {
    let (dtype, shape) = (b.ty(h).dtype, shape_of(b, h));
    let axis = shape.len() - 1;
    let hidden = shape[axis];
    let recurrent = project(b, h, weights.hh, weights.bias_hh)?;
    let gate = |x: &B::Value, i: usize| slice_axis(b, x, axis, i * hidden, (i + 1) * hidden, 1);
    match (cell, c) {
        (Cell::Lstm, Some(c)) => {
            let all = add(b, projected, &recurrent)?;
            let (input, forget) = (sigmoid(b, &gate(&all, 0)?)?, sigmoid(b, &gate(&all, 1)?)?);
            let (candidate, output) = (tanh(b, &gate(&all, 2)?)?, sigmoid(b, &gate(&all, 3)?)?);
            let kept = mul(b, &forget, &cast(b, c, dtype.wide())?)?;
            let c = add(b, &kept, &mul(b, &input, &candidate)?)?;
            let h = mul(b, &output, &tanh(b, &c)?)?;
            Ok(vec![cast(b, &h, dtype)?, cast(b, &c, dtype)?])
        }
        (Cell::Gru, _) => {
            let of = |i: usize| add(b, &gate(projected, i)?, &gate(&recurrent, i)?);
            let (reset, update) = (sigmoid(b, &of(0)?)?, sigmoid(b, &of(1)?)?);
            let inner = mul(b, &reset, &gate(&recurrent, 2)?)?;
            let candidate = tanh(b, &add(b, &gate(projected, 2)?, &inner)?)?;
            // (1 - z) n + z h = n + z (h - n)
            let moved = mul(b, &update, &sub(b, &cast(b, h, dtype.wide())?, &candidate)?)?;
            Ok(vec![cast(b, &add(b, &candidate, &moved)?, dtype)?])
        }
        (Cell::Tanh | Cell::Relu | Cell::Lstm, _) => {
            let all = add(b, projected, &recurrent)?;
            let h = if cell == Cell::Relu { relu(b, &all)? } else { tanh(b, &all)? };
            Ok(vec![cast(b, &h, dtype)?])
        }
    }
}

/// A cell as an op: checks, then one step.
fn cell_op<B: Builder>(
    b: &B,
    op: &str,
    cell: Cell,
    x: &B::Value,
    h: &B::Value,
    c: Option<&B::Value>,
    weights: Weights<'_, B::Value>,
) -> Result<Vec<B::Value>> {
    let (x_shape, mut shape) = (shape_of(b, x), shape_of(b, h));
    let Some(hidden) = shape.pop() else {
        return Err(Error::shape(op, format!("h is {}, expected [.., hidden]", b.ty(h))));
    };
    weights.check(b, op, cell, x, hidden)?;
    if x_shape[..x_shape.len() - 1] != shape[..] {
        return Err(Error::shape(
            op,
            format!("x is {} and h is {}, expected [.., input] and [.., hidden]", b.ty(x), b.ty(h)),
        ));
    }
    expect_same_dtype(op, b.ty(x), "h", b.ty(h))?;
    if let Some(c) = c {
        expect_shape(op, "c", b.ty(c), &b.ty(h).shape)?;
        expect_same_dtype(op, b.ty(x), "c", b.ty(c))?;
    }
    let projected = project(b, x, weights.ih, weights.bias_ih)?;
    step(b, cell, &projected, h, c, &weights)
}

/// One step of a long short-term memory (Hochreiter and Schmidhuber 1997), as `torch.lstm_cell`: `[h', c']` of
/// `x [.., input]`, `h` and `c [.., hidden]`. Gates in the weights' rows: input, forget, candidate, output.
pub fn lstm_cell<B: Builder>(
    b: &B,
    x: &B::Value,
    h: &B::Value,
    c: &B::Value,
    weight_ih: &B::Value,
    weight_hh: &B::Value,
    bias_ih: Option<&B::Value>,
    bias_hh: Option<&B::Value>,
) -> Result<Vec<B::Value>> {
    let weights = Weights { ih: weight_ih, hh: weight_hh, bias_ih, bias_hh };
    cell_op(b, "lstm_cell", Cell::Lstm, x, h, Some(c), weights)
}

/// One step of a gated recurrent unit (Cho et al. 2014), as `torch.gru_cell`: `h'` of `x [.., input]` and
/// `h [.., hidden]`. Gates in the weights' rows: reset, update, candidate; the reset gate acts behind the
/// recurrent product.
pub fn gru_cell<B: Builder>(
    b: &B,
    x: &B::Value,
    h: &B::Value,
    weight_ih: &B::Value,
    weight_hh: &B::Value,
    bias_ih: Option<&B::Value>,
    bias_hh: Option<&B::Value>,
) -> Result<B::Value> {
    let weights = Weights { ih: weight_ih, hh: weight_hh, bias_ih, bias_hh };
    super::nn::first(cell_op(b, "gru_cell", Cell::Gru, x, h, None, weights)?.into_iter())
}

/// `tanh(weight_ih x + bias_ih + weight_hh h + bias_hh)` of `x [.., input]` and `h [.., hidden]`, as
/// `torch.rnn_tanh_cell`.
pub fn rnn_tanh_cell<B: Builder>(
    b: &B,
    x: &B::Value,
    h: &B::Value,
    weight_ih: &B::Value,
    weight_hh: &B::Value,
    bias_ih: Option<&B::Value>,
    bias_hh: Option<&B::Value>,
) -> Result<B::Value> {
    let weights = Weights { ih: weight_ih, hh: weight_hh, bias_ih, bias_hh };
    super::nn::first(cell_op(b, "rnn_tanh_cell", Cell::Tanh, x, h, None, weights)?.into_iter())
}

/// `max(0, weight_ih x + bias_ih + weight_hh h + bias_hh)` of `x [.., input]` and `h [.., hidden]`, as
/// `torch.rnn_relu_cell`.
pub fn rnn_relu_cell<B: Builder>(
    b: &B,
    x: &B::Value,
    h: &B::Value,
    weight_ih: &B::Value,
    weight_hh: &B::Value,
    bias_ih: Option<&B::Value>,
    bias_hh: Option<&B::Value>,
) -> Result<B::Value> {
    let weights = Weights { ih: weight_ih, hh: weight_hh, bias_ih, bias_hh };
    super::nn::first(cell_op(b, "rnn_relu_cell", Cell::Relu, x, h, None, weights)?.into_iter())
}

/// What a whole sequence is run with.
struct Options<'a, V> {
    layers: usize,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    dropout: f64,
    dropout_key: Option<&'a V>,
    stream: u64,
}

/// The most steps of one sequence: a step is a dozen values, and an axis may be broadcast to any size.
const MAX_STEPS: usize = 1 << 16;

/// Layers of cells over `x [seq, batch, input]`: `[output [seq, batch, directions hidden], h]`, and `c` for an LSTM.
fn sequence<B: Builder>(
    b: &B,
    op: &str,
    cell: Cell,
    x: &B::Value,
    [h0, c0]: [Option<&B::Value>; 2],
    weights: &[B::Value],
    options: &Options<'_, B::Value>,
) -> Result<Vec<B::Value>> {
    let ty = b.ty(x).clone();
    expect_float(op, "x", &ty)?;
    if ty.rank() != 3 {
        return Err(Error::shape(op, format!("x is {ty}, expected three axes: sequence, batch, features")));
    }
    let directions = if options.bidirectional { 2 } else { 1 };
    let each = if options.has_biases { 4 } else { 2 };
    let runs = options.layers.checked_mul(directions);
    let count = runs.and_then(|runs| runs.checked_mul(each));
    let (Some(runs), Some(count)) = (runs.filter(|&runs| runs > 0), count) else {
        return Err(Error::shape(op, format!("num_layers is {}, expected at least 1", options.layers)));
    };
    if weights.len() != count {
        return Err(Error::shape(
            op,
            format!(
                "takes {each} weights for each of {runs} layers and directions, so {count}, got {}",
                weights.len()
            ),
        ));
    }
    let mut x = if options.batch_first { transpose(b, x, 0, 1)? } else { x.clone() };
    let (steps, batch) = (b.ty(&x).shape[0], b.ty(&x).shape[1]);
    if steps > MAX_STEPS {
        return Err(Error::shape(
            op,
            format!("the sequence has {steps} steps, at most {MAX_STEPS} are possible"),
        ));
    }
    let [_, hidden] = b.ty(&weights[1]).shape[..] else {
        return Err(Error::shape(op, format!("weight_hh is {}, expected two axes", b.ty(&weights[1]))));
    };
    let state = |name: &str, given: Option<&B::Value>| match given {
        Some(given) => {
            expect_shape(op, name, b.ty(given), &[runs, batch, hidden])?;
            expect_same_dtype(op, &ty, name, b.ty(given))?;
            Ok(given.clone())
        }
        None => zeros(b, &[runs, batch, hidden], ty.dtype),
    };
    let (h0, c0) = (state("h0", h0)?, state("c0", c0)?);
    let (mut last_h, mut last_c) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for layer in 0..options.layers {
        let mut sides = Vec::with_capacity(directions);
        for direction in 0..directions {
            let run = layer * directions + direction;
            let own = &weights[run * each..][..each];
            let weights = Weights { ih: &own[0], hh: &own[1], bias_ih: own.get(2), bias_hh: own.get(3) };
            weights.check(b, op, cell, &x, hidden)?;
            let backward = direction == 1;
            let read = if backward { flip(b, &x, &[0])? } else { x.clone() };
            // The inputs of all steps are one product.
            let projected = project(b, &read, weights.ih, weights.bias_ih)?;
            let mut h = select(b, &h0, 0, run as isize)?;
            let mut c = select(b, &c0, 0, run as isize)?;
            let mut outputs = Vec::with_capacity(steps);
            for at in 0..steps {
                let mut states =
                    step(b, cell, &select(b, &projected, 0, at as isize)?, &h, Some(&c), &weights)?
                        .into_iter();
                h = states.next().unwrap_or(h);
                c = states.next().unwrap_or(c);
                outputs.push(h.clone());
            }
            let side = match outputs.is_empty() {
                true => zeros(b, &[0, batch, hidden], ty.dtype)?,
                false => stack(b, &outputs, 0)?,
            };
            sides.push(if backward { flip(b, &side, &[0])? } else { side });
            last_h.push(h);
            last_c.push(c);
        }
        x = concat(b, &sides, -1)?;
        if options.dropout != 0.0 && layer + 1 < options.layers {
            let Some(key) = options.dropout_key else {
                return Err(Error::shape(op, "dropout is not 0, so dropout_key (u64[2]) is needed"));
            };
            x = dropout(b, &x, options.dropout, key, options.stream.wrapping_add(layer as u64))?;
        }
    }
    let output = if options.batch_first { transpose(b, &x, 0, 1)? } else { x };
    let mut results = vec![output, stack(b, &last_h, 0)?];
    if cell == Cell::Lstm {
        results.push(stack(b, &last_c, 0)?);
    }
    Ok(results)
}

/// Layers of long short-term memory over a sequence, as `torch.lstm`: `[output [seq, batch, directions hidden],
/// h [layers directions, batch, hidden], c]` of `x [seq, batch, input]`. `h0` and `c0` are 0 where absent. `weights`
/// are, for each layer and in it each direction, `weight_ih`, `weight_hh` and with `has_biases` `bias_ih`, `bias_hh`.
/// `batch_first` puts the batch first in `x` and the output. `dropout` acts between layers, by `dropout_key`
/// (`u64[2]`) and the streams from `stream` on.
pub fn lstm<B: Builder>(
    b: &B,
    x: &B::Value,
    h0: Option<&B::Value>,
    c0: Option<&B::Value>,
    dropout_key: Option<&B::Value>,
    weights: &[B::Value],
    has_biases: bool,
    num_layers: usize,
    bidirectional: bool,
    batch_first: bool,
    dropout: f64,
    stream: u64,
) -> Result<Vec<B::Value>> {
    let options =
        Options { layers: num_layers, has_biases, bidirectional, batch_first, dropout, dropout_key, stream };
    sequence(b, "lstm", Cell::Lstm, x, [h0, c0], weights, &options)
}

/// Layers of gated recurrent units over a sequence, as `torch.gru`: `[output, h]`. Operands as for [`lstm`].
pub fn gru<B: Builder>(
    b: &B,
    x: &B::Value,
    h0: Option<&B::Value>,
    dropout_key: Option<&B::Value>,
    weights: &[B::Value],
    has_biases: bool,
    num_layers: usize,
    bidirectional: bool,
    batch_first: bool,
    dropout: f64,
    stream: u64,
) -> Result<Vec<B::Value>> {
    let options =
        Options { layers: num_layers, has_biases, bidirectional, batch_first, dropout, dropout_key, stream };
    sequence(b, "gru", Cell::Gru, x, [h0, None], weights, &options)
}

/// Layers of tanh cells over a sequence, as `torch.rnn_tanh`: `[output, h]`. Operands as for [`lstm`].
pub fn rnn_tanh<B: Builder>(
    b: &B,
    x: &B::Value,
    h0: Option<&B::Value>,
    dropout_key: Option<&B::Value>,
    weights: &[B::Value],
    has_biases: bool,
    num_layers: usize,
    bidirectional: bool,
    batch_first: bool,
    dropout: f64,
    stream: u64,
) -> Result<Vec<B::Value>> {
    let options =
        Options { layers: num_layers, has_biases, bidirectional, batch_first, dropout, dropout_key, stream };
    sequence(b, "rnn_tanh", Cell::Tanh, x, [h0, None], weights, &options)
}

/// Layers of relu cells over a sequence, as `torch.rnn_relu`: `[output, h]`. Operands as for [`lstm`].
pub fn rnn_relu<B: Builder>(
    b: &B,
    x: &B::Value,
    h0: Option<&B::Value>,
    dropout_key: Option<&B::Value>,
    weights: &[B::Value],
    has_biases: bool,
    num_layers: usize,
    bidirectional: bool,
    batch_first: bool,
    dropout: f64,
    stream: u64,
) -> Result<Vec<B::Value>> {
    let options =
        Options { layers: num_layers, has_biases, bidirectional, batch_first, dropout, dropout_key, stream };
    sequence(b, "rnn_relu", Cell::Relu, x, [h0, None], weights, &options)
}
