//! Indexing by integer tensors.

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Optional, Prim, Rules, Types, expect_arity, expect_float};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, ShowShape, TensorType};

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
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn jvp<B: Builder>(
        &self,
        _: &B,
        _: &Applied<'_, B::Value>,
        _: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn batch<B: Builder>(&self, _: &B, _: usize, _: &[Batched<B::Value>]) -> Result<Vec<Batched<B::Value>>> {
        Err(Error::unsupported(self.name(), "PENDING"))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}
