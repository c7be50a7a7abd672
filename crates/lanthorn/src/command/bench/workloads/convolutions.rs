//! Convolutions and pooling, as in the first stage of a residual network.

use lanthorn_ir::{Lazy, TensorType, ops, transform};
use lanthorn_runtime::Device;

use super::{Make, Program, f32s};
use crate::bench::Workload;
use crate::failure::Result;

const BATCH: usize = 8;
const CHANNELS: usize = 64;
const SIDE: usize = 56;

pub const ALL: &[(&str, Make)] = &[
    ("conv2d_f32", |device, name| convolution(device, name, 1, false)),
    ("conv2d_depthwise_f32", |device, name| convolution(device, name, CHANNELS, false)),
    ("conv2d_grad_f32", |device, name| convolution(device, name, 1, true)),
    ("max_pool2d_f32", max_pool),
];

/// Three by three, padded by one; with the gradients of image and weight for a cotangent of the result's size.
fn convolution(device: &Device, name: &'static str, groups: usize, gradients: bool) -> Result<Workload> {
    let image = f32s(&[BATCH, CHANNELS, SIDE, SIDE]);
    let weight = f32s(&[CHANNELS, CHANNELS / groups, 3, 3]);
    let products = BATCH * CHANNELS / groups * CHANNELS * SIDE * SIDE * 9;
    let flops = 2.0 * products as f64 * if gradients { 3.0 } else { 1.0 };
    let operands: &[TensorType] = &[image.clone(), weight, image];
    let program = Program { name, target: None, flops, bytes: 0.0, operands };
    program.of_many(device, |v| {
        let y = ops::conv2d(&Lazy, &v[0], &v[1], None, &[1], &[1], &[1], groups, false)?;
        if !gradients {
            return Ok(vec![y]);
        }
        let gradients = transform::vjp(std::slice::from_ref(&y), &v[2..], &v[..2])?;
        Ok(gradients.into_iter().flatten().chain([y]).collect())
    })
}

/// Three by three, every second window.
fn max_pool(device: &Device, name: &'static str) -> Result<Workload> {
    let image = f32s(&[BATCH, CHANNELS, 2 * SIDE, 2 * SIDE]);
    let bytes = image.bytes() as f64;
    let program = Program { name, target: None, flops: 0.0, bytes, operands: &[image] };
    program.of(device, |v| ops::max_pool2d(&Lazy, &v[0], &[3], &[2], &[1], &[1], false))
}
