//! Weights that are packed in blocks, and products with them.
//!
//! Blocks are `u8[.., bytes]`: the last axis is a row of whole blocks as a GGUF file has it, and the encoding, which says
//! how many elements they hold, is an attribute.

use lanthorn_blocks::Encoding;
use smallvec::smallvec;

use serde::{Deserialize, Serialize};

use super::{Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_float};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType};
use crate::ops;

/// Primitives that read packed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Quantized {
    /// `blocks u8[.., bytes] -> f32[.., elements]`, bit for bit as ggml unpacks them.
    Dequantize(Encoding),
    /// `(x [.., inner], blocks u8[outputs, bytes]) -> [.., outputs]`: the product of `x` with the transpose of the
    /// unpacked weights, in the dtype of `x`.
    Linear(Encoding),
}

impl Quantized {
    fn encoding(self) -> Encoding {
        match self {
            Quantized::Dequantize(encoding) | Quantized::Linear(encoding) => encoding,
        }
    }

    /// How many elements the rows of `blocks` hold.
    fn elements(self, blocks: &TensorType) -> Result<usize> {
        let (name, encoding) = (self.name(), self.encoding());
        if !encoding.is_packed() {
            let message =
                format!("{encoding} is not packed, expected an encoding such as Q4_1; cast instead");
            return Err(Error::dtype(name, message));
        }
        if blocks.dtype != DType::U8 {
            return Err(Error::dtype(name, format!("the blocks are {blocks}, expected u8")));
        }
        let whole = |bytes: &&usize| bytes.is_multiple_of(encoding.block_bytes());
        match blocks.shape.last().filter(whole) {
            Some(bytes) => Ok(bytes / encoding.block_bytes() * encoding.block_elements()),
            None => {
                let bytes = encoding.block_bytes();
                let message = format!(
                    "the blocks are {blocks}, expected rows of whole blocks of {bytes} bytes ({encoding})"
                );
                Err(Error::shape(name, message))
            }
        }
    }

    fn apply<B: Builder>(self, b: &B, inputs: &[B::Value]) -> Result<B::Value> {
        b.apply1(Prim::Quantized(self), inputs)
    }

    /// The unpacked weights in the dtype of `x`.
    fn weights<B: Builder>(self, b: &B, x: &B::Value, blocks: &B::Value) -> Result<B::Value> {
        let weights = Quantized::Dequantize(self.encoding()).apply(b, &[blocks.clone()])?;
        ops::cast(b, &weights, b.ty(x).dtype)
    }
}

impl Rules for Quantized {
    fn name(&self) -> &'static str {
        match self {
            Quantized::Dequantize(_) => "dequantize",
            Quantized::Linear(_) => "quantized_linear",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        match self {
            Quantized::Dequantize(_) => {
                expect_arity(name, inputs, 1)?;
                let mut shape = inputs[0].shape.clone();
                let elements = self.elements(inputs[0])?;
                if let Some(last) = shape.last_mut() {
                    *last = elements;
                }
                Ok(smallvec![TensorType { dtype: DType::F32, shape }])
            }
            Quantized::Linear(_) => {
                expect_arity(name, inputs, 2)?;
                let (x, blocks) = (inputs[0], inputs[1]);
                expect_float(name, "x", x)?;
                let inner = self.elements(blocks)?;
                if blocks.rank() != 2 {
                    let found = ShowShape(&blocks.shape);
                    return Err(Error::shape(
                        name,
                        format!("the blocks are {found}, expected [outputs, bytes]"),
                    ));
                }
                if x.shape.last() != Some(&inner) {
                    let found = ShowShape(&x.shape);
                    return Err(Error::shape(
                        name,
                        format!("x is {found}, expected [.., {inner}] for rows of {inner} weights"),
                    ));
                }
                let mut shape = x.shape.clone();
                if let Some(last) = shape.last_mut() {
                    *last = blocks.shape[0];
                }
                Ok(smallvec![TensorType { dtype: x.dtype, shape }])
            }
        }
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let (Quantized::Linear(_), Some(t)) = (self, &cotangents[0]) else { return Ok(at.no_cotangents()) };
        let weights = self.weights(b, &at.inputs[0], &at.inputs[1])?;
        // A vector has no axis for the rows of a product.
        if b.ty(t).rank() == 1 {
            let row = ops::matmul(b, &ops::unsqueeze(b, t, 0)?, &weights)?;
            return Ok(vec![Some(ops::squeeze(b, &row, &[0])?), None]);
        }
        Ok(vec![Some(ops::matmul(b, t, &weights)?), None])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let (Quantized::Linear(_), Some(t)) = (self, &tangents[0]) else { return Ok(vec![None]) };
        Ok(vec![Some(self.apply(b, &[t.clone(), at.inputs[1].clone()])?)])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let values: Vec<B::Value> = inputs.iter().map(|input| input.value.clone()).collect();
        match self {
            Quantized::Linear(_) if inputs[1].mapped => {
                // Each its own weights.
                let x = derived::mapped(b, size, &inputs[0])?;
                let weights = self.weights(b, &x, &values[1])?;
                let weights = ops::transpose(b, &weights, 1, 2)?;
                let shape = ops::shape_of(b, &x);
                let (outputs, inner) = (b.ty(&weights).shape[2], shape[shape.len() - 1]);
                let rows = shape[1..shape.len() - 1].iter().product();
                let product = ops::matmul(b, &ops::reshape_to(b, &x, &[size, rows, inner])?, &weights)?;
                let mut out = shape;
                if let Some(last) = out.last_mut() {
                    *last = outputs;
                }
                Ok(derived::with_axis([ops::reshape_to(b, &product, &out)?]))
            }
            _ => Ok(derived::with_axis([self.apply(b, &values)?])),
        }
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        match self {
            Quantized::Dequantize(_) => Ok(None),
            Quantized::Linear(_) => {
                let weights = self.weights(b, &inputs[0], &inputs[1])?;
                Ok(Some(vec![ops::linear(b, &inputs[0], &weights, None)?]))
            }
        }
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
