//! Matrix products, large and narrow.

use lanthorn_ir::{DType, Lazy, TensorType, ops};
use lanthorn_runtime::Device;

use super::{Make, Program, f32s};
use crate::bench::Workload;
use crate::failure::Result;

/// The width of the narrow products.
const WIDE: usize = 4096;

pub const ALL: &[(&str, Make)] = &[
    ("matmul_f32_256", |device, name| square(device, name, 256, DType::F32)),
    ("matmul_f32_512", |device, name| square(device, name, 512, DType::F32)),
    ("matmul_f32_1024", |device, name| square(device, name, 1024, DType::F32)),
    ("matmul_f32_2048", |device, name| square(device, name, 2048, DType::F32)),
    ("matmul_bf16_1024", |device, name| square(device, name, 1024, DType::BF16)),
    ("gemv_f32_4096", |device, name| narrow(device, name, 1, 2.0)),
    ("skinny_f32_8x4096", |device, name| narrow(device, name, 8, 2.5)),
];

/// `[n, n] x [n, n]` into fresh memory.
fn square(device: &Device, name: &'static str, n: usize, dtype: DType) -> Result<Workload> {
    let ty = TensorType::new(dtype, [n, n]);
    // The peer has bf16 instructions on some processors and emulates them on others.
    let target = Some(if dtype == DType::F32 { 1.1 } else { 50.0 });
    let flops = 2.0 * (n as f64).powi(3);
    let program = Program { name, target, flops, bytes: 0.0, operands: &[ty.clone(), ty] };
    program.of(device, |v| ops::matmul(&Lazy, &v[0], &v[1]))
}

/// A few rows times `[4096, 4096]`; the matrix times a vector for one.
fn narrow(device: &Device, name: &'static str, rows: usize, target: f64) -> Result<Workload> {
    let matrix = f32s(&[WIDE, WIDE]);
    let vector = if rows == 1 { f32s(&[WIDE]) } else { f32s(&[rows, WIDE]) };
    let bytes = matrix.bytes() as f64;
    let flops = 2.0 * (rows * WIDE * WIDE) as f64;
    let program = Program { name, target: Some(target), flops, bytes, operands: &[matrix, vector] };
    program.of(device, |v| match rows {
        1 => ops::matmul(&Lazy, &v[0], &v[1]),
        _ => ops::matmul(&Lazy, &v[1], &v[0]),
    })
}
