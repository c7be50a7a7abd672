//! Recurrences over an axis: the linear scan, the gated delta rule and the short convolution, whose state is its last
//! operands. State is a value like any other: never written to, given as an operand and returned as a result.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::delta::Chunks;
use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_finite, expect_float,
    expect_same_dtype, expect_shape,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{F64, KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};
use crate::ops;

/// Recurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Recurrent {
    /// `(a, x) -> h` of one shape with `h_t = a_t h_(t-1) + x_t` along `axis` and 0 before the first step, so that
    /// `a_0` counts for nothing. With `reverse`, `h_t = a_t h_(t+1) + x_t` and 0 behind the last step. Half
    /// types carry the state in f32.
    LinearScan { axis: usize, reverse: bool },
    /// The gated delta rule (Yang et al. 2024, "Gated Delta Networks", equation 10), with a decay for each head or,
    /// as in Kimi Delta Attention (Kimi Team 2025), for each channel of the keys:
    /// `(q [b, t, h, d], k [b, t, h, d], v [b, t, h, dv], log_decay [b, t, h] or [b, t, h, d], beta [b, t, h],
    /// state [b, h, d, dv]?) -> (o [b, t, h, dv], state [b, h, d, dv])`. For each head and step, from a state of 0
    /// where there is no operand:
    ///
    /// `S <- exp(log_decay) S`, `S <- S + beta k (v - S^T k)^T`, `o = scale S^T q`.
    ///
    /// All computing is in the wide type, which is also the type of the state; `log_decay` and `beta` have the type of
    /// `q` or its wide type. The decomposition works on `chunk` steps at once and takes it that `log_decay` is at most
    /// 0 (-inf is a reset): a larger one may overflow sooner than it must.
    DeltaRule { scale: F64, chunk: usize, state: bool },
    /// The causal convolution of each channel by itself (Gu and Dao 2023, "Mamba"; Kimi Team 2025):
    /// `(x [n, t, c], weight [c, k], state [n, k - 1, c]?) -> (y [n, t, c], state [n, k - 1, c])` with
    /// `y_i = sum over j of weight_j x_(i - k + 1 + j)`, where the state is what comes before the first step, 0 without
    /// an operand, and then what comes before the next one. Half types compute in f32.
    ShortConv { state: bool },
}

impl Rules for Recurrent {
    fn name(&self) -> &'static str {
        match self {
            Recurrent::LinearScan { .. } => "linear_scan",
            Recurrent::DeltaRule { .. } => "gated_delta_rule",
            Recurrent::ShortConv { .. } => "short_conv1d",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        match self {
            Recurrent::LinearScan { axis, .. } => {
                expect_arity(name, inputs, 2)?;
                let (a, x) = (inputs[0], inputs[1]);
                expect_float(name, "a", a)?;
                expect_same_dtype(name, a, "x", x)?;
                expect_shape(name, "x", x, &a.shape)?;
                if *axis >= a.rank() {
                    return Err(Error::shape(name, format!("axis {axis} is out of range for {a}")));
                }
                Ok(smallvec![x.clone()])
            }
            Recurrent::DeltaRule { scale, chunk, state } => infer_delta(scale.0, *chunk, *state, inputs),
            Recurrent::ShortConv { state } => infer_short_conv(*state, inputs),
        }
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        match *self {
            Recurrent::LinearScan { axis, reverse } => {
                let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
                // l_t = t_t + a_(t+1) l_(t+1), dx_t = l_t, da_t = l_t h_(t-1)
                let next = neighbours(b, &at.inputs[0], axis, !reverse)?;
                let back = Recurrent::LinearScan { axis, reverse: !reverse };
                let l = b.apply1(Prim::Recurrent(back), &[next, t.clone()])?;
                let mut found = at.no_cotangents();
                if at.wants(0) {
                    let before = neighbours(b, &at.outputs[0], axis, reverse)?;
                    found[0] = Some(ops::mul(b, &l, &before)?);
                }
                found[1] = Some(l);
                Ok(found)
            }
            Recurrent::DeltaRule { .. } | Recurrent::ShortConv { .. } => {
                let graph = derived::decomposition(b, &Prim::Recurrent(*self), at.inputs)?;
                derived::vjp_through(b, &graph, at, cotangents)
            }
        }
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        match *self {
            Recurrent::LinearScan { axis, reverse } => {
                // h'_t = a_t h'_(t-1) + (a'_t h_(t-1) + x'_t)
                let mut drive = tangents[1].clone();
                if let Some(t) = &tangents[0] {
                    let before = neighbours(b, &at.outputs[0], axis, reverse)?;
                    drive = derived::add_optional(b, drive, Some(ops::mul(b, t, &before)?))?;
                }
                let Some(drive) = drive else { return Ok(vec![None]) };
                b.apply1(Prim::Recurrent(*self), &[at.inputs[0].clone(), drive]).map(|t| vec![Some(t)])
            }
            Recurrent::DeltaRule { .. } | Recurrent::ShortConv { .. } => {
                let graph = derived::decomposition(b, &Prim::Recurrent(*self), at.inputs)?;
                derived::jvp_through(b, &graph, at.inputs, tangents)
            }
        }
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        if let Recurrent::ShortConv { .. } = self {
            return batch_short_conv(b, Prim::Recurrent(*self), size, inputs);
        }
        let operands = derived::all_mapped(b, size, inputs)?;
        match *self {
            Recurrent::LinearScan { axis, reverse } => {
                let scan = Recurrent::LinearScan { axis: axis + 1, reverse };
                Ok(derived::with_axis(b.apply(Prim::Recurrent(scan), &operands)?))
            }
            Recurrent::DeltaRule { .. } | Recurrent::ShortConv { .. } => {
                let batch = b.ty(&operands[0]).shape[1];
                let folded = operands.iter().map(|x| derived::fold_axis(b, x)).collect::<Result<Vec<_>>>()?;
                let outputs = b.apply(Prim::Recurrent(*self), &folded)?;
                let outputs = outputs.iter().map(|output| derived::unfold_axis(b, output, size, batch));
                Ok(derived::with_axis(outputs.collect::<Result<Vec<_>>>()?))
            }
        }
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(Some(match *self {
            Recurrent::LinearScan { axis, reverse } => {
                vec![scan_by_doubling(b, &inputs[0], &inputs[1], axis, reverse)?]
            }
            Recurrent::DeltaRule { scale, chunk, .. } => Chunks::run(b, scale.0, chunk, inputs)?,
            Recurrent::ShortConv { .. } => short_conv(b, inputs)?,
        }))
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// The most chunks of one decomposition: an axis may be broadcast to any size, and each chunk is several values.
const MAX_CHUNKS: usize = 1 << 16;

fn infer_delta(scale: f64, chunk: usize, state: bool, inputs: &[&TensorType]) -> Result<Types> {
    let name = "gated_delta_rule";
    expect_arity(name, inputs, 5 + usize::from(state))?;
    let (q, k, v, log_decay, beta) = (inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]);
    expect_float(name, "q", q)?;
    expect_same_dtype(name, q, "k", k)?;
    expect_same_dtype(name, q, "v", v)?;
    let wide = q.dtype.wide();
    expect_finite(name, "the scale", scale, wide)?;
    for (operand, ty) in [("log_decay", log_decay), ("beta", beta)] {
        if ty.dtype != q.dtype && ty.dtype != wide {
            return Err(Error::dtype(
                name,
                format!("{operand} is {}, expected {} as q, or {wide}; cast it", ty.dtype, q.dtype),
            ));
        }
    }
    let fits = q.rank() == 4
        && q.shape == k.shape
        && v.rank() == 4
        && v.shape[..3] == q.shape[..3]
        && beta.shape[..] == q.shape[..3]
        && (log_decay.shape[..] == q.shape[..3] || log_decay.shape == q.shape);
    if !fits {
        let [q, k, v, log_decay, beta] = [q, k, v, log_decay, beta].map(|ty| ShowShape(&ty.shape));
        return Err(Error::shape(
            name,
            format!(
                "q {q}, k {k}, v {v}, log_decay {log_decay}, beta {beta} do not fit; expected [batch, seq, heads, d] twice, \
                 [batch, seq, heads, dv], [batch, seq, heads] with or without d, [batch, seq, heads]"
            ),
        ));
    }
    if chunk == 0 || q.shape[1].div_ceil(chunk) > MAX_CHUNKS {
        return Err(Error::shape(
            name,
            format!("chunks of {chunk} steps do not divide {} steps into 1 to {MAX_CHUNKS}", q.shape[1]),
        ));
    }
    let last = TensorType::new(wide, [q.shape[0], q.shape[2], q.shape[3], v.shape[3]]);
    if state && *inputs[5] != last {
        return Err(Error::shape(name, format!("the state is {}, expected {last}", inputs[5])));
    }
    Ok(smallvec![v.clone(), last])
}

fn infer_short_conv(state: bool, inputs: &[&TensorType]) -> Result<Types> {
    let name = "short_conv1d";
    expect_arity(name, inputs, 2 + usize::from(state))?;
    let (x, weight) = (inputs[0], inputs[1]);
    expect_float(name, "x", x)?;
    expect_same_dtype(name, x, "weight", weight)?;
    if x.rank() != 3 || weight.rank() != 2 || weight.shape[0] != x.shape[2] || weight.shape[1] == 0 {
        let (x, weight) = (ShowShape(&x.shape), ShowShape(&weight.shape));
        let message = format!(
            "x {x} and weight {weight} do not fit; expected [n, t, c] and [c, k] with k of at least 1"
        );
        return Err(Error::shape(name, message));
    }
    let last = TensorType::new(x.dtype, [x.shape[0], weight.shape[1] - 1, x.shape[2]]);
    if state {
        expect_same_dtype(name, x, "state", inputs[2])?;
        expect_shape(name, "state", inputs[2], &last.shape)?;
    }
    Ok(smallvec![x.clone(), last])
}

/// The short convolution as a sum over windows of what came before and `x`, and the last places of both.
pub(crate) fn short_conv<B: Builder>(b: &B, inputs: &[B::Value]) -> Result<Vec<B::Value>> {
    let (x, weight) = (&inputs[0], &inputs[1]);
    let (shape, dtype) = (ops::shape_of(b, x), b.ty(x).dtype);
    let (time, taps) = (shape[1], b.ty(weight).shape[1]);
    let all = match (taps, inputs.get(2)) {
        (1, _) => x.clone(),
        (_, Some(state)) => ops::concat(b, &[state.clone(), x.clone()], 1)?,
        (_, None) => ops::concat(b, &[ops::zeros(b, &[shape[0], taps - 1, shape[2]], dtype)?, x.clone()], 1)?,
    };
    // [n, t, c, k]
    let windows = ops::windows_of(b, &all, &[1], &[taps], &[1], &[1])?;
    let terms = ops::mul(b, &ops::cast(b, &windows, dtype.wide())?, &ops::cast(b, weight, dtype.wide())?)?;
    let y = ops::cast(b, &ops::sum(b, &terms, &[-1], false)?, dtype)?;
    Ok(vec![y, ops::slice_axis(b, &all, 1, time, time + taps - 1, 1)?])
}

/// Many sequences of each element of a batch are more sequences, if all have one weight.
fn batch_short_conv<B: Builder>(
    b: &B,
    prim: Prim,
    size: usize,
    inputs: &[Batched<B::Value>],
) -> Result<Vec<Batched<B::Value>>> {
    if inputs[1].mapped {
        return derived::batch_decomposed(b, &prim, size, inputs);
    }
    let mut operands = Vec::with_capacity(inputs.len());
    let mut batch = 0;
    for (at, input) in inputs.iter().enumerate() {
        if at == 1 {
            operands.push(input.value.clone());
            continue;
        }
        let all = derived::mapped(b, size, input)?;
        batch = b.ty(&all).shape[1];
        operands.push(derived::fold_axis(b, &all)?);
    }
    let outputs = b.apply(prim, &operands)?;
    let outputs = outputs.iter().map(|output| derived::unfold_axis(b, output, size, batch));
    Ok(derived::with_axis(outputs.collect::<Result<Vec<_>>>()?))
}

/// The values one step earlier along `axis` (later, if `later`), with 0 where there is none.
fn neighbours<B: Builder>(b: &B, x: &B::Value, axis: usize, later: bool) -> Result<B::Value> {
    let shape = ops::shape_of(b, x);
    let size = shape[axis];
    if size == 0 {
        return Ok(x.clone());
    }
    let (start, stop) = if later { (1, size) } else { (0, size - 1) };
    let kept = ops::slice_axis(b, x, axis, start, stop, 1)?;
    let mut low = vec![0; shape.len()];
    let mut high = low.clone();
    if later {
        high[axis] = 1
    } else {
        low[axis] = 1
    };
    ops::pad(b, &kept, &low, &high, 0.0)
}

/// The scan in `log2` of its steps (Hillis and Steele 1986) over the associative product
/// `(a, x) (a', x') = (a a', a' x + x')`.
fn scan_by_doubling<B: Builder>(
    b: &B,
    a: &B::Value,
    x: &B::Value,
    axis: usize,
    reverse: bool,
) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let turned = |x: &B::Value| if reverse { ops::flip(b, x, &[axis as isize]) } else { Ok(x.clone()) };
    let mut a = ops::cast(b, &turned(a)?, dtype.wide())?;
    let mut x = ops::cast(b, &turned(x)?, dtype.wide())?;
    let size = b.ty(&x).shape[axis];
    let cut = |x: &B::Value, start: usize, stop: usize| ops::slice_axis(b, x, axis, start, stop, 1);
    let mut step = 1;
    while step < size {
        let (late_a, late_x) = (cut(&a, step, size)?, cut(&x, step, size)?);
        let carried = ops::mul(b, &late_a, &cut(&x, 0, size - step)?)?;
        x = ops::concat(b, &[cut(&x, 0, step)?, ops::add(b, &late_x, &carried)?], axis as isize)?;
        if step * 2 < size {
            let product = ops::mul(b, &late_a, &cut(&a, 0, size - step)?)?;
            a = ops::concat(b, &[cut(&a, 0, step)?, product], axis as isize)?;
        }
        step *= 2;
    }
    ops::cast(b, &turned(&x)?, dtype)
}

/// Sums of all elements up to each along `axis`, without differences, so that -inf stays -inf.
pub(super) fn running_sum<B: Builder>(b: &B, x: &B::Value, axis: usize) -> Result<B::Value> {
    let mut x = x.clone();
    let size = b.ty(&x).shape[axis];
    let mut step = 1;
    while step < size {
        let late = ops::slice_axis(b, &x, axis, step, size, 1)?;
        let early = ops::slice_axis(b, &x, axis, 0, size - step, 1)?;
        let head = ops::slice_axis(b, &x, axis, 0, step, 1)?;
        x = ops::concat(b, &[head, ops::add(b, &late, &early)?], axis as isize)?;
        step *= 2;
    }
    Ok(x)
}
