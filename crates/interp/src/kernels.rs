//! One plain loop for each primitive.

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::layout::{Dims, Layout, contiguous_strides, numel};
use lanthorn_ir::philox::Philox;
use lanthorn_ir::prim::{
    Attention, Contract, Control, Elementwise, Index, Loss, Movement, Norm, Paged, Position, Quantized,
    Random, Reduce, ReduceOp, Source, State, Window,
};
use lanthorn_ir::{DType, Error, ErrorKind, Prim, Result, TensorType};
use smallvec::smallvec;

use crate::scalar::{binary, unary};
use crate::tensor::{HostTensor, Number};
use crate::{Interp, indexing, random, recurrent};
use lanthorn_ir::expr::BinaryOp;

/// Runs one primitive on operands that `infer` has accepted; `types` are its outputs'.
pub fn run(
    b: &Interp,
    prim: &Prim,
    inputs: &[HostTensor],
    types: &[TensorType],
) -> Result<Outputs<HostTensor>> {
    let ty = &types[0];
    // Of several outputs.
    match prim {
        Prim::Scan(scan) => return indexing::scanned(scan, &inputs[0], types),
        Prim::Sort(sort) => return indexing::sorted(sort, &inputs[0], types),
        _ => {}
    }
    if let Prim::Attention(_) = prim {
        check_past(prim.name(), inputs)?;
    }
    if let Prim::Paged(paged) = prim {
        check_tables(prim.name(), paged, inputs)?;
    }
    let output = match prim {
        Prim::Source(source) => source_values(source, ty)?,
        Prim::Elementwise(op) => elementwise(*op, inputs, ty)?,
        Prim::Movement(movement) => moved(movement, inputs, ty)?,
        Prim::Reduce(reduce) => reduced(reduce, &inputs[0], ty)?,
        Prim::Contract(Contract::MatMul { .. }) => matmul(&inputs[0], &inputs[1], ty)?,
        Prim::Index(Index::Gather { axis }) => indexing::gathered(*axis, &inputs[0], &inputs[1], ty)?,
        Prim::Index(Index::Scatter { axis, op }) => indexing::scattered(prim.name(), *axis, *op, inputs, ty)?,
        Prim::Index(index) => indexed(index, &inputs[0], &inputs[1], ty)?,
        Prim::Random(random) => random_values(random, &inputs[0], ty)?,
        Prim::State(State::UpdateSlice { axis }) => update_slice(*axis, inputs, ty)?,
        Prim::Recurrent(recurrent) => return recurrent::run(recurrent, inputs, types),
        Prim::Control(Control::Barrier) => inputs[0].clone(),
        Prim::Complex(_) => HostTensor::from_bytes(ty, &inputs[0].to_bytes())?,
        Prim::Quantized(Quantized::Dequantize(encoding)) => {
            let elements = encoding.unpacked(&inputs[0].to_bytes());
            let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
            HostTensor::from_bytes(ty, &bytes)?
        }
        Prim::Linalg(linalg) => return crate::linalg::run(b, *linalg, inputs, types),
        Prim::Norm(
            Norm::Softmax
            | Norm::SoftmaxGrad
            | Norm::LogSoftmax
            | Norm::LogSoftmaxGrad
            | Norm::LayerNorm { .. }
            | Norm::LayerNormGrad
            | Norm::RmsNorm { .. }
            | Norm::RmsNormGrad,
        )
        | Prim::Attention(Attention::Forward(_) | Attention::Grad { .. })
        | Prim::Loss(Loss::CrossEntropy { .. } | Loss::CrossEntropyGrad { .. })
        | Prim::State(State::AdamW { .. })
        | Prim::Control(Control::Checkpoint { .. } | Control::StopGradient | Control::Written)
        | Prim::Scan(_)
        | Prim::Sort(_)
        | Prim::Quantized(Quantized::Linear(_))
        | Prim::Window(Window::Conv(_))
        | Prim::Position(Position::Rotary(_))
        | Prim::Paged(_) => return prim.decompose_or_fail(b, inputs),
    };
    Ok(smallvec![output])
}

fn execution(op: &str, message: String) -> Error {
    Error::new(ErrorKind::Execute, op, message)
}

/// The decomposition of what reads blocks drops rows without a place; it cannot refuse tables that lead nowhere.
fn check_tables(op: &str, paged: &Paged, inputs: &[HostTensor]) -> Result<()> {
    let [first, second, .., tables, starts, counts] = inputs else { return Ok(()) };
    let (pool, rows) = match paged {
        Paged::Update => (first, second),
        Paged::Attention(_) => (second, first),
    };
    let (blocks, seq) = (pool.shape()[0] as i64, rows.shape()[1] as i64);
    let elements =
        |x: &HostTensor| (0..x.data().len()).map(|at| x.data().get(at).int() as i64).collect::<Vec<i64>>();
    if let Some(block) = elements(tables).into_iter().find(|block| !(0..blocks).contains(block)) {
        return Err(execution(op, format!("a table has block {block}, the pool {blocks} blocks")));
    }
    for (start, count) in elements(starts).into_iter().zip(elements(counts)) {
        if start < 0 || !(0..=seq).contains(&count) || start + count > i64::from(i32::MAX) {
            let message = format!(
                "a sequence starts at {start} and has {count} rows; expected a start from 0 on and 0 to {seq} rows"
            );
            return Err(execution(op, message));
        }
    }
    Ok(())
}

/// Attention's decomposition masks keys; it cannot refuse a number of past keys that the cache has no room for.
fn check_past(op: &str, inputs: &[HostTensor]) -> Result<()> {
    let is_past = |x: &&HostTensor| x.ty().dtype.is_int() && x.ty().rank() == 0;
    let Some(past) = inputs.iter().skip(3).find(is_past) else { return Ok(()) };
    let (past, queries, room) = (past.data().get(0).int(), inputs[0].shape()[1], inputs[1].shape()[1]);
    if (0..=room as i128 - queries as i128).contains(&past) {
        return Ok(());
    }
    let message =
        format!("past is {past} with {queries} queries and room for {room} keys; past + queries must fit");
    Err(execution(op, message))
}

/// All places of a shape in row-major order.
pub(crate) fn places(shape: &[usize]) -> impl Iterator<Item = Dims> + '_ {
    (0..numel(shape)).map(move |flat| {
        let mut place = Dims::from_slice(shape);
        let mut rest = flat;
        for axis in (0..shape.len()).rev() {
            place[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        place
    })
}

/// The row-major position of a place.
pub(crate) fn position(place: &[usize], shape: &[usize]) -> usize {
    contiguous_strides(shape).iter().zip(place).map(|(&stride, &at)| stride as usize * at).sum()
}

fn source_values(source: &Source, ty: &TensorType) -> Result<HostTensor> {
    match source {
        Source::Leaf { ty } => Err(Error::new(
            ErrorKind::InvalidHandle,
            "leaf",
            format!("a leaf of {ty} has no value here; pass it as an operand"),
        )),
        Source::Const { value, .. } => HostTensor::collect(ty, std::iter::once(Number::from(*value))),
        Source::Iota { len, .. } => HostTensor::collect(ty, (0..*len).map(|i| Number::Int(i as i128))),
    }
}

fn elementwise(op: Elementwise, inputs: &[HostTensor], ty: &TensorType) -> Result<HostTensor> {
    let at = |operand: usize, i: usize| inputs[operand].data().get(i);
    HostTensor::collect(
        ty,
        (0..ty.numel()).map(|i| match op {
            Elementwise::Unary(op) => unary(op, at(0, i)),
            Elementwise::Binary(op) => binary(op, at(0, i), at(1, i)),
            Elementwise::Select => at(if at(0, i).bool() { 1 } else { 2 }, i),
            Elementwise::Cast(_) => at(0, i),
        }),
    )
}

fn moved(movement: &Movement, inputs: &[HostTensor], ty: &TensorType) -> Result<HostTensor> {
    let x = &inputs[0];
    let zero = Number::Int(0);
    match movement {
        Movement::Reshape { .. } => Ok(x.with_shape(ty)),
        Movement::Pad { low, interior, .. } => {
            let mut elements = vec![zero; ty.numel()];
            for (place, element) in places(x.shape()).zip(x.data().iter()) {
                let padded: Dims = (0..place.len()).map(|a| low[a] + place[a] * (interior[a] + 1)).collect();
                elements[position(&padded, &ty.shape)] = element;
            }
            HostTensor::collect(ty, elements.into_iter())
        }
        Movement::Concat { axis } => {
            let mut elements = vec![zero; ty.numel()];
            let mut start = 0;
            for x in inputs {
                for (mut place, element) in places(x.shape()).zip(x.data().iter()) {
                    place[*axis] += start;
                    elements[position(&place, &ty.shape)] = element;
                }
                start += x.shape()[*axis];
            }
            HostTensor::collect(ty, elements.into_iter())
        }
        Movement::Permute { .. }
        | Movement::Broadcast { .. }
        | Movement::Slice { .. }
        | Movement::Window(_)
        | Movement::Flip { .. } => {
            let Some(view) = movement.view(&Layout::contiguous(x.shape())) else {
                return Err(Error::unsupported("interp", format!("{movement:?} is not a view")));
            };
            let read = |place: Dims| {
                let steps = place.iter().zip(&view.strides).map(|(&at, &stride)| at as isize * stride);
                x.data().get((view.offset as isize + steps.sum::<isize>()) as usize)
            };
            HostTensor::collect(ty, places(&ty.shape).map(read))
        }
    }
}

fn reduced(reduce: &Reduce, x: &HostTensor, ty: &TensorType) -> Result<HostTensor> {
    // The elements that fold into each output, in row-major order.
    let mut groups: Vec<Vec<Number>> = vec![Vec::new(); ty.numel()];
    for (mut place, element) in places(x.shape()).zip(x.data().iter()) {
        for (at, &size) in place.iter_mut().zip(&ty.shape) {
            *at = (*at).min(size - 1);
        }
        groups[position(&place, &ty.shape)].push(element);
    }
    let is_float = x.ty().dtype.is_float();
    let fold = |op: ReduceOp, group: Vec<Number>| {
        let (start, op) = match op {
            ReduceOp::Sum => (Some(0), BinaryOp::Add),
            ReduceOp::Prod => (Some(1), BinaryOp::Mul),
            ReduceOp::Max => (None, BinaryOp::Max),
            ReduceOp::Min => (None, BinaryOp::Min),
        };
        let start = start.map(|v| if is_float { Number::Float(v as f64) } else { Number::Int(v) });
        let elements = start.into_iter().chain(group);
        elements.reduce(|total, element| binary(op, total, element)).unwrap_or(Number::Int(0))
    };
    // The first element that beats all before it; NaN beats everything and nothing beats NaN.
    let choose = |beats: BinaryOp, group: Vec<Number>| {
        let mut best = 0;
        for (i, &element) in group.iter().enumerate() {
            let wins = binary(beats, element, group[best]).bool() || element.float().is_nan();
            if wins && !group[best].float().is_nan() {
                best = i;
            }
        }
        Number::Int(best as i128)
    };
    HostTensor::collect(
        ty,
        groups.into_iter().map(|group| match reduce {
            Reduce::Fold { op, .. } => fold(*op, group),
            Reduce::ArgMax { .. } => choose(BinaryOp::Gt, group),
            Reduce::ArgMin { .. } => choose(BinaryOp::Lt, group),
        }),
    )
}

fn matmul(x: &HostTensor, y: &HostTensor, ty: &TensorType) -> Result<HostTensor> {
    let rank = ty.rank();
    let (m, k, n) = (ty.shape[rank - 2], x.shape()[rank - 1], ty.shape[rank - 1]);
    // The places of the factors of one element.
    let factors = |flat: usize| {
        let (batch, row, column) = (flat / n / m, flat / n % m, flat % n);
        (0..k).map(move |i| ((batch * m + row) * k + i, (batch * k + i) * n + column))
    };
    if ty.dtype.is_int() {
        let integers = |x: &HostTensor| x.data().iter().map(Number::int).collect::<Vec<i128>>();
        let (x, y) = (integers(x), integers(y));
        let sum = |flat| factors(flat).fold(0, |sum: i128, (i, j)| sum.wrapping_add(x[i].wrapping_mul(y[j])));
        return HostTensor::collect(ty, (0..ty.numel()).map(|flat| Number::Int(sum(flat))));
    }
    let (x, y) = (x.to_f64(), y.to_f64());
    let sum = |flat| factors(flat).map(|(i, j)| x[i] * y[j]).sum();
    HostTensor::collect(ty, (0..ty.numel()).map(|flat| Number::Float(sum(flat))))
}

/// Ids as row numbers.
pub(crate) fn row_numbers(op: &str, ids: &HostTensor, rows: usize) -> Result<Vec<usize>> {
    let check = |id: Number| {
        usize::try_from(id.int())
            .ok()
            .filter(|&id| id < rows)
            .ok_or_else(|| execution(op, format!("the id {} is out of range for {rows} rows", id.int())))
    };
    ids.data().iter().map(check).collect()
}

fn indexed(index: &Index, data: &HostTensor, ids: &HostTensor, ty: &TensorType) -> Result<HostTensor> {
    let width = ty.shape[ty.rank() - 1];
    match index {
        Index::Embedding => {
            let ids = row_numbers("embedding", ids, data.shape()[0])?;
            let read = |flat: usize| data.data().get(ids[flat / width] * width + flat % width);
            HostTensor::collect(ty, (0..ty.numel()).map(read))
        }
        Index::EmbeddingGrad { rows } => {
            let ids = row_numbers("embedding_grad", ids, *rows)?;
            let mut sums = vec![0.0; ty.numel()];
            for (flat, element) in data.data().iter().enumerate() {
                sums[ids[flat / width] * width + flat % width] += element.float();
            }
            HostTensor::collect(ty, sums.into_iter().map(Number::Float))
        }
        Index::Gather { .. } | Index::Scatter { .. } => {
            Err(Error::unsupported("interp", format!("{index:?} is no embedding")))
        }
    }
}

fn random_values(random: &Random, keys: &HostTensor, ty: &TensorType) -> Result<HostTensor> {
    let count = numel(random.shape()).max(1);
    let word = |at: usize| keys.data().get(at).int() as u64;
    HostTensor::collect(
        ty,
        (0..ty.numel()).map(|at| {
            let (seed, draw, i) = (word(at / count * 2), word(at / count * 2 + 1), (at % count) as u64);
            match random {
                Random::Uniform { stream, .. } => Number::Float(random::uniform(seed, draw, *stream, i)),
                Random::Normal { stream, .. } => Number::Float(random::normal(seed, draw, *stream, i)),
                Random::Bits { stream, dtype, .. } => {
                    let words = Philox::new(seed, draw, *stream);
                    Number::Int(match dtype {
                        DType::U64 => i128::from(words.word(2 * i)) | i128::from(words.word(2 * i + 1)) << 32,
                        _ => i128::from(words.word(i)),
                    })
                }
            }
        }),
    )
}

fn update_slice(axis: usize, inputs: &[HostTensor], ty: &TensorType) -> Result<HostTensor> {
    let (base, source) = (&inputs[0], &inputs[1]);
    let start = inputs[2].data().get(0).int();
    let (size, length) = (base.shape()[axis], source.shape()[axis]);
    let start = usize::try_from(start).ok().filter(|start| start + length <= size).ok_or_else(|| {
        execution("update_slice", format!("{length} elements from {start} leave axis {axis} of size {size}"))
    })?;
    let mut elements: Vec<Number> = base.data().iter().collect();
    for (mut place, element) in places(source.shape()).zip(source.data().iter()) {
        place[axis] += start;
        elements[position(&place, &ty.shape)] = element;
    }
    HostTensor::collect(ty, elements.into_iter())
}
