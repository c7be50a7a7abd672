//! Pooling.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::{Layer, Pass};

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolKind {
    Max,
    /// Its mean; padding counts as 0.
    Average,
}

/// Over which windows a [`Pool`] goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Windows {
    /// Windows of this size, one for each spatial axis. An empty stride is the kernel.
    Sliding { kernel: Vec<usize>, stride: Vec<usize>, padding: Vec<usize> },
    /// As many windows along each spatial axis, of sizes as equal as they can be.
    Adaptive(Vec<usize>),
    /// The whole image, and its axes go: `[n, c, ..]` to `[n, c]`.
    Global,
}

/// The largest element or the mean of windows of `x [n, c, ..]`, over as many axes as the kernel has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub kind: PoolKind,
    pub windows: Windows,
}

impl Pool {
    /// Windows of that size side by side.
    pub fn new(kind: PoolKind, kernel: &[usize]) -> Pool {
        let windows = Windows::Sliding { kernel: kernel.to_vec(), stride: Vec::new(), padding: vec![0] };
        Pool { kind, windows }
    }

    /// Sliding windows that lie that far apart; others stay as they are.
    pub fn stride(mut self, size: usize) -> Pool {
        if let Windows::Sliding { stride, .. } = &mut self.windows {
            *stride = vec![size];
        }
        self
    }

    /// So much padding around the images of sliding windows.
    pub fn padding(mut self, size: usize) -> Pool {
        if let Windows::Sliding { padding, .. } = &mut self.windows {
            *padding = vec![size];
        }
        self
    }

    /// So many windows along each axis.
    pub fn adaptive(kind: PoolKind, size: &[usize]) -> Pool {
        Pool { kind, windows: Windows::Adaptive(size.to_vec()) }
    }

    /// Of the whole image.
    pub fn global(kind: PoolKind) -> Pool {
        Pool { kind, windows: Windows::Global }
    }
}

impl Layer for Pool {
    fn apply<B: Builder>(&self, b: &B, _: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let axes = |count: usize| {
            let fail = || Error::shape("pool", format!("windows have {count} axes, expected 1 to 3"));
            if (1..=3).contains(&count) { Ok(count) } else { Err(fail()) }
        };
        match (&self.windows, self.kind) {
            (Windows::Sliding { kernel, stride, padding }, PoolKind::Max) => {
                let pool = [ops::max_pool1d, ops::max_pool2d, ops::max_pool3d][axes(kernel.len())? - 1];
                pool(b, x, kernel, stride, padding, &[], false)
            }
            (Windows::Sliding { kernel, stride, padding }, PoolKind::Average) => {
                let pool = [ops::avg_pool1d, ops::avg_pool2d, ops::avg_pool3d][axes(kernel.len())? - 1];
                pool(b, x, kernel, stride, padding, false, true, None)
            }
            (Windows::Adaptive(size), PoolKind::Max) => {
                let pools = [ops::adaptive_max_pool1d, ops::adaptive_max_pool2d, ops::adaptive_max_pool3d];
                pools[axes(size.len())? - 1](b, x, size)
            }
            (Windows::Adaptive(size), PoolKind::Average) => {
                let pools = [ops::adaptive_avg_pool1d, ops::adaptive_avg_pool2d, ops::adaptive_avg_pool3d];
                pools[axes(size.len())? - 1](b, x, size)
            }
            (Windows::Global, kind) => {
                let pooled = match kind {
                    PoolKind::Max => ops::global_max_pool(b, x)?,
                    PoolKind::Average => ops::global_avg_pool(b, x)?,
                };
                ops::flatten(b, &pooled, 1, -1)
            }
        }
    }
}
