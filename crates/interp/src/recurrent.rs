//! Recurrences, one step at a time: their definition.

use lanthorn_ir::builder::Outputs;
use lanthorn_ir::prim::Recurrent;
use lanthorn_ir::{Result, TensorType};
use smallvec::smallvec;

use crate::tensor::HostTensor;

pub fn run(
    recurrent: &Recurrent,
    inputs: &[HostTensor],
    types: &[TensorType],
) -> Result<Outputs<HostTensor>> {
    match *recurrent {
        Recurrent::LinearScan { axis, reverse } => {
            let h = linear_scan(&inputs[0], &inputs[1], axis, reverse);
            Ok(smallvec![HostTensor::from_f64(types[0].dtype, &types[0].shape, &h)?])
        }
        Recurrent::DeltaRule { scale, .. } => {
            let (o, state) = delta_rule(scale.0, inputs);
            Ok(smallvec![
                HostTensor::from_f64(types[0].dtype, &types[0].shape, &o)?,
                HostTensor::from_f64(types[1].dtype, &types[1].shape, &state)?,
            ])
        }
        Recurrent::ShortConv { .. } => {
            let (y, state) = short_conv(inputs);
            Ok(smallvec![
                HostTensor::from_f64(types[0].dtype, &types[0].shape, &y)?,
                HostTensor::from_f64(types[1].dtype, &types[1].shape, &state)?,
            ])
        }
    }
}

fn linear_scan(a: &HostTensor, x: &HostTensor, axis: usize, reverse: bool) -> Vec<f64> {
    let shape = x.shape();
    let (steps, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let (a, mut h) = (a.to_f64(), x.to_f64());
    for lane in 0..h.len().checked_div(steps).unwrap_or(0) {
        let at = |step: usize| (lane / inner * steps + step) * inner + lane % inner;
        for step in 1..steps {
            let (from, to) = if reverse { (steps - step, steps - 1 - step) } else { (step - 1, step) };
            h[at(to)] += a[at(to)] * h[at(from)];
        }
    }
    h
}

fn short_conv(inputs: &[HostTensor]) -> (Vec<f64>, Vec<f64>) {
    let (shape, taps) = (inputs[0].shape(), inputs[1].shape()[1]);
    let (batch, steps, channels) = (shape[0], shape[1], shape[2]);
    let (x, weight) = (inputs[0].to_f64(), inputs[1].to_f64());
    let before = inputs.get(2).map(HostTensor::to_f64);
    // Place `at` of a sequence with what came before it.
    let place = |item: usize, at: usize, channel: usize| match at.checked_sub(taps - 1) {
        Some(step) => x[(item * steps + step) * channels + channel],
        None => before.as_ref().map_or(0.0, |state| state[(item * (taps - 1) + at) * channels + channel]),
    };
    let rows = |from: usize, count: usize, element: &dyn Fn(usize, usize, usize) -> f64| -> Vec<f64> {
        let index = |i: usize| (i / channels / count, from + i / channels % count, i % channels);
        (0..batch * count * channels)
            .map(index)
            .map(|(item, at, channel)| element(item, at, channel))
            .collect()
    };
    let y = rows(0, steps, &|item, step, channel| {
        (0..taps).map(|tap| weight[channel * taps + tap] * place(item, step + tap, channel)).sum()
    });
    (y, rows(steps, taps - 1, &place))
}

fn delta_rule(scale: f64, inputs: &[HostTensor]) -> (Vec<f64>, Vec<f64>) {
    let shape = inputs[0].shape();
    let (batch, steps, heads, width) = (shape[0], shape[1], shape[2], shape[3]);
    let value_width = inputs[2].shape()[3];
    let per_channel = inputs[3].shape().len() == 4;
    let [q, k, v, log_decay, beta] = [0, 1, 2, 3, 4].map(|i| inputs[i].to_f64());
    let mut states =
        inputs.get(5).map_or_else(|| vec![0.0; batch * heads * width * value_width], HostTensor::to_f64);
    let mut outputs = vec![0.0; v.len()];
    for sequence in 0..batch * heads {
        let state = &mut states[sequence * width * value_width..][..width * value_width];
        let (item, head) = (sequence / heads, sequence % heads);
        for step in 0..steps {
            let row = (item * steps + step) * heads + head;
            let (q, k) = (&q[row * width..][..width], &k[row * width..][..width]);
            for channel in 0..width {
                let decay = if per_channel { log_decay[row * width + channel] } else { log_decay[row] }.exp();
                state[channel * value_width..][..value_width].iter_mut().for_each(|s| *s *= decay);
            }
            for column in 0..value_width {
                let seen: f64 =
                    (0..width).map(|channel| k[channel] * state[channel * value_width + column]).sum();
                let error = beta[row] * (v[row * value_width + column] - seen);
                (0..width).for_each(|channel| state[channel * value_width + column] += k[channel] * error);
                let read: f64 =
                    (0..width).map(|channel| q[channel] * state[channel * value_width + column]).sum();
                outputs[row * value_width + column] = scale * read;
            }
        }
    }
    (outputs, states)
}
