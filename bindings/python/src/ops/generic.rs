//! Every op of the engine's table, by name, without autograd.

use lanthorn_ir::TensorType;
use lanthorn_ir::ops::table::{self, Attribute, Op};
use lanthorn_runtime::EagerTensor;

use super::{Shapes, refuse_gradient};
use crate::cpu;
use crate::error::{Error, Result};
use crate::tensor::{Data, Tensor};

/// The row of the table.
pub fn find(name: &str) -> Result<(usize, &'static Op)> {
    let found = table::id_of(name).and_then(|id| table::OPS.get(id).map(|op| (id, op)));
    found.ok_or_else(|| Error::runtime(format!("there is no op named {name}")))
}

/// Calls an op: tensors and attributes in the order of its parameters.
///
/// Errors: what the op reports; operands of which a gradient is asked for.
pub fn call(id: usize, tensors: &[Option<Tensor>], attributes: &[Attribute]) -> Result<Vec<Tensor>> {
    let name = table::OPS.get(id).map_or("op", |op| op.name);
    let operands: Vec<&Tensor> = tensors.iter().flatten().collect();
    refuse_gradient(name, &operands)?;
    if operands.iter().any(|tensor| tensor.is_meta()) {
        let types: Vec<Option<&TensorType>> =
            tensors.iter().map(|tensor| tensor.as_ref().map(Tensor::ty)).collect();
        let results = table::call_id(&Shapes, id, &types, attributes)?;
        return Ok(results.into_iter().map(|ty| Tensor::new(Data::meta(ty))).collect());
    }
    let concrete = tensors.iter().map(|tensor| tensor.as_ref().map(Tensor::concrete).transpose());
    let eager: Vec<Option<&EagerTensor>> = concrete.collect::<Result<_>>()?;
    let results = table::call_id(cpu(), id, &eager, attributes)?;
    let own = |result: EagerTensor| -> Result<Tensor> {
        // A movement gives a view; a result of an op is a tensor of its own.
        let is_shared = eager.iter().flatten().any(|input| input.storage().is_same(result.storage()));
        let is_whole = result.layout().is_contiguous();
        let result = if is_shared || !is_whole { result.copy()? } else { result };
        Ok(Tensor::new(Data::Concrete(result)))
    };
    results.into_iter().map(own).collect()
}
