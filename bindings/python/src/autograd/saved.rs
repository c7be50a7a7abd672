//! Tensors that a node keeps for its derivative.

use std::sync::Arc;

use super::node::Node;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A tensor as it was when the op ran. Reading it later fails if the memory has been written meanwhile.
pub struct SavedTensor {
    tensor: Tensor,
    version: u64,
    /// The tensor is output number `n` of the node itself: saved without history, lest the two keep each other alive.
    output: Option<usize>,
}

impl SavedTensor {
    /// Saves an operand.
    pub fn input(tensor: &Tensor) -> SavedTensor {
        SavedTensor { tensor: tensor.clone(), version: tensor.version(), output: None }
    }

    /// Saves an output of the node that is being made.
    pub fn output(tensor: &Tensor, number: usize) -> SavedTensor {
        SavedTensor { tensor: tensor.detach(), version: tensor.version(), output: Some(number) }
    }

    /// The tensor, with its history. `owner` is the node that saved it.
    pub fn unpack(&self, owner: &Arc<Node>) -> Result<Tensor> {
        let version = self.tensor.version();
        if version != self.version {
            let maker = self
                .tensor
                .peek_meta(|meta| meta.grad_fn.as_ref().map(|node| (node.short_name(), meta.output_nr)));
            let maker = match (self.output, maker.flatten()) {
                (Some(number), _) => format!(", which is output {number} of {},", owner.short_name()),
                (None, Some((name, number))) => format!(", which is output {number} of {name},"),
                (None, None) => String::new(),
            };
            let (kind, sizes) =
                (upstream_type(&self.tensor), lanthorn_ir::layout::ShowShape(self.tensor.shape()));
            return Err(Error::runtime(format!(
                "one of the variables needed for gradient computation has been modified by an inplace operation: \
                 [{kind} {sizes}]{maker} is at version {version}; expected version {} instead. Hint: enable anomaly \
                 detection to find the operation that failed to compute its gradient, with \
                 torch.autograd.set_detect_anomaly(True).",
                self.version
            )));
        }
        let Some(number) = self.output else { return Ok(self.tensor.clone()) };
        let restored = self.tensor.detach();
        restored.with_meta(|meta| {
            meta.grad_fn = Some(owner.clone());
            meta.output_nr = number;
        });
        restored.mark_may_require_grad();
        Ok(restored)
    }
}

/// Upstream's name of a tensor's legacy type, such as `torch.FloatTensor`.
fn upstream_type(tensor: &Tensor) -> String {
    format!("torch.{}Tensor", crate::tensor::promote::scalar_type_name(tensor.dtype()))
}
