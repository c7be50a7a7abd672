//! Gather, scatter, scans and sorts, one plain loop each.

use std::cmp::Ordering;

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::expr::BinaryOp;
use lanthorn_ir::prim::{Scan, ScanOp, ScatterOp, Sort};
use lanthorn_ir::{Result, TensorType};
use smallvec::smallvec;

use crate::kernels::{places, position, row_numbers};
use crate::scalar::binary;
use crate::tensor::{HostTensor, Number};

pub fn gathered(axis: usize, x: &HostTensor, ids: &HostTensor, ty: &TensorType) -> Result<HostTensor> {
    let rows = row_numbers("gather", ids, x.shape()[axis])?;
    let read = places(&ty.shape).zip(rows).map(|(mut place, row)| {
        place[axis] = row;
        x.data().get(position(&place, x.shape()))
    });
    HostTensor::collect(ty, read)
}

pub fn scattered(
    name: &str,
    axis: usize,
    op: ScatterOp,
    inputs: &[HostTensor],
    ty: &TensorType,
) -> Result<HostTensor> {
    let (base, ids, source) = (&inputs[0], &inputs[1], &inputs[2]);
    let rows = row_numbers(name, ids, ty.shape[axis])?;
    let mut elements: Vec<Number> = base.data().iter().collect();
    for ((mut place, row), element) in places(ids.shape()).zip(rows).zip(source.data().iter()) {
        place[axis] = row;
        let at = &mut elements[position(&place, &ty.shape)];
        *at = match op {
            ScatterOp::Set => element,
            ScatterOp::Add => binary(BinaryOp::Add, *at, element),
            ScatterOp::Mul => binary(BinaryOp::Mul, *at, element),
            ScatterOp::Min => binary(BinaryOp::Min, *at, element),
            ScatterOp::Max => binary(BinaryOp::Max, *at, element),
        };
    }
    HostTensor::collect(ty, elements.into_iter())
}

/// The row-major positions of each line along `axis`, in its order.
fn lines(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let size = shape[axis];
    let mut first: Vec<usize> = shape.to_vec();
    first[axis] = size.min(1);
    let line = |mut place: lanthorn_ir::layout::Dims| {
        (0..size)
            .map(|at| {
                place[axis] = at;
                position(&place, shape)
            })
            .collect()
    };
    places(&first).map(line).collect()
}

pub fn scanned(scan: &Scan, x: &HostTensor, types: &[TensorType]) -> Result<Outputs<HostTensor>> {
    let Scan::Cumulative { op, axis, reverse } = *scan;
    let mut elements: Vec<Number> = x.data().iter().collect();
    let mut found = vec![Number::Int(0); elements.len()];
    for mut line in lines(x.shape(), axis) {
        if reverse {
            line.reverse();
        }
        let mut total: Option<(Number, usize)> = None;
        for (step, &at) in line.iter().enumerate() {
            let place = if reverse { line.len() - 1 - step } else { step };
            let here = elements[at];
            let joined = match total {
                None => (here, place),
                Some((before, chosen)) => match op {
                    ScanOp::Sum => (binary(BinaryOp::Add, before, here), place),
                    ScanOp::Prod => (binary(BinaryOp::Mul, before, here), place),
                    ScanOp::LogSumExp => (log_add_exp(before.float(), here.float()), place),
                    ScanOp::Max | ScanOp::Min => {
                        let beats = if op == ScanOp::Max { BinaryOp::Ge } else { BinaryOp::Le };
                        let wins = here.float().is_nan() || binary(beats, here, before).bool();
                        if wins { (here, place) } else { (before, chosen) }
                    }
                },
            };
            total = Some(joined);
            elements[at] = joined.0;
            found[at] = Number::Int(joined.1 as i128);
        }
    }
    let mut outputs: Outputs<HostTensor> = smallvec![HostTensor::collect(&types[0], elements.into_iter())?];
    if let Some(ty) = types.get(1) {
        outputs.push(HostTensor::collect(ty, found.into_iter())?);
    }
    Ok(outputs)
}

fn log_add_exp(x: f64, y: f64) -> Number {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    let sum = if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if high.is_infinite() {
        high
    } else {
        high + (low - high).exp().ln_1p()
    };
    Number::Float(sum)
}

/// The order of elements: NaN beyond every number.
fn order(x: Number, y: Number) -> Ordering {
    match (x, y) {
        (Number::Float(x), Number::Float(y)) => {
            x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
        }
        (x, y) => x.int().cmp(&y.int()),
    }
}

pub fn sorted(sort: &Sort, x: &HostTensor, types: &[TensorType]) -> Result<Outputs<HostTensor>> {
    let Sort::Stable { axis, descending } = *sort;
    let elements: Vec<Number> = x.data().iter().collect();
    let (mut values, mut found) = (elements.clone(), vec![Number::Int(0); elements.len()]);
    for line in lines(x.shape(), axis) {
        let mut chosen: Vec<usize> = (0..line.len()).collect();
        chosen.sort_by(|&i, &j| {
            let (x, y) = (elements[line[i]], elements[line[j]]);
            if descending { order(y, x) } else { order(x, y) }
        });
        for (&at, place) in line.iter().zip(chosen) {
            values[at] = elements[line[place]];
            found[at] = Number::Int(place as i128);
        }
    }
    Ok(smallvec![
        HostTensor::collect(&types[0], values.into_iter())?,
        HostTensor::collect(&types[1], found.into_iter())?,
    ])
}
