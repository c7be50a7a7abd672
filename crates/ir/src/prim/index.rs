//! Indexing by integer tensors.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, derived, expect_arity, expect_float};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};
use crate::ops;

/// Reads and scatters by index. An index out of range is an error when the op runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Index {
    /// `(table [rows, width], ids [..] i64 or i32) -> [.., width]`.
    Embedding,
    /// `(grad [.., width], ids [..]) -> [rows, width]`: the sum of `grad` rows by id, accumulated in the
    /// wide type.
    EmbeddingGrad { rows: usize },
}

impl Rules for Index {
    fn name(&self) -> &'static str {
        match self {
            Index::Embedding => "embedding",
            Index::EmbeddingGrad { .. } => "embedding_grad",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        expect_arity(name, inputs, 2)?;
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
        };
        Ok(vec![Some(found), None])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
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

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

/// `[.., size * width]` to `[size, .., width]`.
fn split_rows<B: Builder>(b: &B, x: &B::Value, size: usize, width: usize) -> Result<B::Value> {
    let mut shape = ops::shape_of(b, x);
    shape.pop();
    shape.extend([size, width]);
    ops::move_axis(b, &ops::reshape_to(b, x, &shape)?, -2, 0)
}
