//! How compiling grows with the graph.

use std::time::Instant;

use lanthorn_ir::{Lazy, Value, ops};
use lanthorn_runtime::{Device, Executable, Options};

use super::f32s;
use crate::failure::Result;

/// Seconds that it takes to compile a chain of so many pointwise nodes. No two lengths share a program.
pub fn chain(device: &Device, nodes: usize) -> Result<f64> {
    let x = Value::leaf(f32s(&[64]))?;
    let mut y = x.clone();
    for at in 0..nodes {
        y = match at % 4 {
            0 => ops::sin(&Lazy, &y)?,
            1 => ops::add(&Lazy, &y, &x)?,
            2 => ops::exp(&Lazy, &y)?,
            _ => ops::sub(&Lazy, &x, &y)?,
        };
    }
    device.cache().clear();
    let begin = Instant::now();
    Executable::new(device, &[x], &[y], &Options::default())?;
    Ok(begin.elapsed().as_secs_f64())
}
