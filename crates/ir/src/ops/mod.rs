//! Ops: plain functions over values that compose primitives; everything users call.
//!
//! Every op is generic over [`Builder`], so it serves the lazy graph and eager execution alike, and needs
//! no rules of its own. Conventions:
//!
//! - Axes are `isize` and may be negative. An empty list of axes means all axes.
//! - Binary ops broadcast like NumPy. Dtypes must be equal, with one exception: a float operand of rank 0
//!   takes the dtype of the other float operand.
//! - Scalars are structural: they become rank-0 constants of the operand's dtype.
//! - Errors name the op, the operand and what would be right; see [`crate::error`].
//!
//! [`table`] lists every op with its parameters and docs, and calls any of them by name.

pub mod activation;
pub mod adaptive;
mod arguments;
pub mod arithmetic;
pub mod arrange;
pub mod attention;
pub mod class_loss;
pub mod complex;
pub mod contract;
pub mod control;
pub mod convolution;
pub mod creation;
pub mod diagonal;
pub mod distance;
pub mod dropout;
pub mod dynamic;
pub mod einsum;
pub mod grid;
pub mod index;
pub mod inner;
pub mod layerwise;
pub mod linalg;
pub mod loss;
pub mod matrix;
pub mod movement;
pub mod multi_head;
pub mod nn;
pub mod normalization;
pub mod padding;
pub mod paged;
pub mod pointwise;
pub mod pool;
pub mod position;
pub mod quantized;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod resample;
pub mod rnn;
pub mod sampling;
pub mod scan;
pub mod scatter;
pub mod similarity;
pub mod sort;
pub mod special;
pub mod state;
pub mod table;
pub mod window;

pub use activation::*;
pub use adaptive::*;
pub use arithmetic::*;
pub use arrange::*;
pub use attention::*;
pub use class_loss::*;
pub use complex::*;
pub use contract::*;
pub use control::*;
pub use convolution::*;
pub use creation::*;
pub use diagonal::*;
pub use distance::*;
pub use dropout::*;
pub use dynamic::*;
pub use einsum::*;
pub use grid::*;
pub use index::*;
pub use layerwise::*;
pub use linalg::*;
pub use loss::*;
pub use matrix::*;
pub use movement::*;
pub use multi_head::*;
pub use nn::*;
pub use normalization::*;
pub use padding::*;
pub use paged::*;
pub use pointwise::*;
pub use pool::*;
pub use position::*;
pub use quantized::*;
pub use random::*;
pub use recurrent::*;
pub use reduce::*;
pub use resample::*;
pub use rnn::*;
pub use sampling::*;
pub use scan::*;
pub use scatter::*;
pub use similarity::*;
pub use sort::*;
pub use special::*;
pub use state::*;
pub use window::*;

use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, TensorType};

/// The shape of a value, as an owned list.
pub(crate) fn shape_of<B: Builder>(b: &B, x: &B::Value) -> Dims {
    b.ty(x).shape.clone()
}

/// Checks that an operand has a real floating-point dtype.
fn require_float(op: &str, operand: &str, ty: &TensorType) -> Result<()> {
    crate::prim::expect_float(op, operand, ty)
}

/// Checks that an operand has an integer dtype.
fn require_int(op: &str, operand: &str, ty: &TensorType) -> Result<()> {
    if ty.dtype.is_int() {
        return Ok(());
    }
    Err(Error::dtype(op, format!("{operand} is {}, expected an integer dtype", ty.dtype)))
}

/// The integer dtype in which positions up to a tensor's size are compared with values of `ids`.
pub(crate) fn position_dtype(ids: DType) -> DType {
    match ids {
        DType::I64 | DType::U64 => DType::I64,
        DType::U32 => DType::U32,
        _ => DType::I32,
    }
}
