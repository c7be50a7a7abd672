//! Indexing by integer tensors.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{
    Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_float, expect_same_dtype,
    expect_shape, scatter,
};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};
use crate::ops;

/// How an element that is written meets what is at its place. Half types accumulate in f32 and round once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScatterOp {
    /// Takes its place. Of several elements for one place the last along the axis stays.
    Set,
    Add,
    Mul,
    /// NaN propagates.
    Min,
    /// NaN propagates.
    Max,
}

/// Reads and scatters by index. An index out of range, so any negative one, is an error when the op runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Index {
    /// `(table [rows, width], ids [..] i64 or i32) -> [.., width]`.
    Embedding,
    /// `(grad [.., width], ids [..]) -> [rows, width]`: the sum of `grad` rows by id, accumulated in the
    /// wide type.
    EmbeddingGrad { rows: usize },
    /// `(x, ids) -> out` of the shape of `ids`: `out[.., i, ..] = x[.., ids[.., i, ..], ..]` with `i` on `axis`. `ids`
    /// has the rank of `x` and no axis but `axis` larger than that of `x`.
    Gather { axis: usize },
    /// `(base, ids, source) -> out`: `base` with `source[.., i, ..]` put to `[.., ids[.., i, ..], ..]`. `ids` is as for
    /// `Gather` of `base`, and `source` has its shape.
    Scatter { axis: usize, op: ScatterOp },
}

impl Rules for Index {
    fn name(&self) -> &'static str {
        match self {
            Index::Embedding => "embedding",
            Index::EmbeddingGrad { .. } => "embedding_grad",
            Index::Gather { .. } => "gather",
            Index::Scatter { op: ScatterOp::Set, .. } => "scatter",
            Index::Scatter { op: ScatterOp::Add, .. } => "scatter_add",
            Index::Scatter { op: ScatterOp::Mul, .. } => "scatter_mul",
            Index::Scatter { op: ScatterOp::Min, .. } => "scatter_min",
            Index::Scatter { op: ScatterOp::Max, .. } => "scatter_max",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        expect_arity(name, inputs, if matches!(self, Index::Scatter { .. }) { 3 } else { 2 })?;
        let (data, ids) = (inputs[0], inputs[1]);
        if !ids.dtype.is_int() {
            return Err(Error::dtype(name, format!("ids are {}, expected an integer dtype", ids.dtype)));
        }
        match self {
            Index::Embedding => {
                if data.rank() != 2 {
                    return Err(Error::shape(
                        name,
                        format!("the table has shape {}, expected [rows, width]", ShowShape(&data.shape)),
                    ));
                }
                let mut shape: Dims = ids.shape.clone();
                shape.push(data.shape[1]);
                Ok(smallvec![TensorType { dtype: data.dtype, shape }])
            }
            Index::EmbeddingGrad { rows } => {
                expect_float(name, "the gradient", data)?;
                let rank = data.rank();
                if rank == 0 || data.shape[..rank - 1] != ids.shape[..] {
                    return Err(Error::shape(
                        name,
                        format!(
                            "the gradient has shape {}, expected the ids' {} and one more axis",
                            ShowShape(&data.shape),
                            ShowShape(&ids.shape)
                        ),
                    ));
                }
                Ok(smallvec![TensorType::new(data.dtype, [*rows, data.shape[rank - 1]])])
            }
            Index::Gather { axis } => {
                expect_places(name, data, ids, *axis)?;
                Ok(smallvec![TensorType { dtype: data.dtype, shape: ids.shape.clone() }])
            }
            Index::Scatter { axis, op } => {
                expect_places(name, data, ids, *axis)?;
                let source = inputs[2];
                expect_shape(name, "the source", source, &ids.shape)?;
                expect_same_dtype(name, data, "the source", source)?;
                if *op != ScatterOp::Set && !(data.dtype.is_float() || data.dtype.is_int()) {
                    return Err(Error::dtype(
                        name,
                        format!("the operands are {}, expected a number", data.dtype),
                    ));
                }
                Ok(smallvec![data.clone()])
            }
        }
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let Some(t) = &cotangents[0] else { return Ok(at.no_cotangents()) };
        let ids = &at.inputs[1];
        let found = match self {
            Index::Embedding => {
                let (dtype, rows) = (b.ty(t).dtype, b.ty(&at.inputs[0]).shape[0]);
                let t = ops::cast(b, t, dtype.summed())?;
                ops::cast(b, &ops::embedding_grad(b, &t, ids, rows)?, dtype)?
            }
            Index::EmbeddingGrad { .. } => ops::embedding(b, t, ids)?,
            Index::Gather { axis } => {
                let dtype = b.ty(t).dtype;
                let zeros = ops::zeros(b, &b.ty(&at.inputs[0]).shape, dtype.summed())?;
                let t = ops::cast(b, t, dtype.summed())?;
                ops::cast(b, &scatter::apply(b, *axis, ScatterOp::Add, &zeros, ids, &t)?, dtype)?
            }
            Index::Scatter { axis, op } => return scatter::vjp(b, *axis, *op, at, t),
        };
        Ok(vec![Some(found), None])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        if let Index::Scatter { axis, op } = self {
            return Ok(vec![scatter::jvp(b, *axis, *op, at, tangents)?]);
        }
        let Some(t) = &tangents[0] else { return Ok(vec![None]) };
        let operands = [t.clone(), at.inputs[1].clone()];
        Ok(vec![Some(b.apply1(Prim::Index(self.clone()), &operands)?)])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let (data, ids) = (&inputs[0], &inputs[1]);
        match self {
            Index::Gather { .. } | Index::Scatter { .. } => {
                let operands = derived::all_mapped(b, size, inputs)?;
                let index = match *self {
                    Index::Scatter { axis, op } => Index::Scatter { axis: axis + 1, op },
                    Index::Gather { axis } => Index::Gather { axis: axis + 1 },
                    ref other => other.clone(),
                };
                Ok(derived::with_axis([b.apply1(Prim::Index(index), &operands)?]))
            }
            Index::Embedding if !data.mapped => {
                Ok(derived::with_axis([ops::embedding(b, &data.value, &ids.value)?]))
            }
            Index::Embedding if !ids.mapped => {
                // The new axis rides in the rows: [rows, size * width].
                let rows = b.ty(&data.value).shape[1];
                let table = ops::move_axis(b, &data.value, 0, 1)?;
                let width = b.ty(&table).shape[2];
                let found =
                    ops::embedding(b, &ops::reshape_to(b, &table, &[rows, size * width])?, &ids.value)?;
                Ok(derived::with_axis([split_rows(b, &found, size, width)?]))
            }
            Index::Embedding => {
                let rows = b.ty(&data.value).shape[1];
                let ids = ops::offset_ids(b, self.name(), &ids.value, size, rows)?;
                Ok(derived::with_axis([ops::embedding(b, &derived::fold_axis(b, &data.value)?, &ids)?]))
            }
            Index::EmbeddingGrad { rows } if !ids.mapped => {
                let rank = b.ty(&data.value).rank();
                let width = b.ty(&data.value).shape[rank - 1];
                let grad = ops::move_axis(b, &data.value, 0, rank as isize - 2)?;
                let mut flat = ops::shape_of(b, &grad);
                flat.truncate(rank - 2);
                flat.push(size * width);
                let grad = ops::reshape_to(b, &grad, &flat)?;
                let found = ops::embedding_grad(b, &grad, &ids.value, *rows)?;
                Ok(derived::with_axis([split_rows(b, &found, size, width)?]))
            }
            Index::EmbeddingGrad { rows } => {
                let grad = derived::mapped(b, size, data)?;
                let ids = ops::offset_ids(b, self.name(), &ids.value, size, *rows)?;
                let total = size.checked_mul(*rows).ok_or_else(|| {
                    Error::shape(self.name(), format!("{size} tables of {rows} rows overflow"))
                })?;
                let found = ops::embedding_grad(b, &grad, &ids, total)?;
                Ok(derived::with_axis([derived::unfold_axis(b, &found, size, *rows)?]))
            }
        }
    }

    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(match self {
            Index::Gather { axis } => Some(vec![scatter::gather_rows(b, *axis, &inputs[0], &inputs[1])?]),
            Index::Scatter { axis, op: ScatterOp::Mul } => Some(vec![scatter::product(b, *axis, inputs)?]),
            _ => None,
        })
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// Checks that `ids` names places of `data` along `axis`.
fn expect_places(op: &str, data: &TensorType, ids: &TensorType, axis: usize) -> Result<()> {
    let rank = data.rank();
    if axis >= rank {
        return Err(Error::shape(op, format!("axis {axis} is out of range for {}", ShowShape(&data.shape))));
    }
    let fits = ids.rank() == rank && (0..rank).all(|a| a == axis || ids.shape[a] <= data.shape[a]);
    if fits {
        return Ok(());
    }
    Err(Error::shape(
        op,
        format!(
            "ids have shape {}, expected the {rank} axes of {}, none but axis {axis} larger",
            ShowShape(&ids.shape),
            ShowShape(&data.shape)
        ),
    ))
}

/// `[.., size * width]` to `[size, .., width]`.
fn split_rows<B: Builder>(b: &B, x: &B::Value, size: usize, width: usize) -> Result<B::Value> {
    let mut shape = ops::shape_of(b, x);
    shape.pop();
    shape.extend([size, width]);
    ops::move_axis(b, &ops::reshape_to(b, x, &shape)?, -2, 0)
}
