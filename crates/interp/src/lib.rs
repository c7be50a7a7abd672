//! The reference backend: naive loops over the primitives, for tests.
//!
//! Every backend is held against it, so it is small and obvious: no views, no fusion, one loop a primitive,
//! f64 and 128-bit integer accumulators, one rounding to the output dtype. Compound primitives run by their
//! decomposition, which is their specification. It must never be fast at the price of being plain.

mod indexing;
mod kernels;
mod linalg;
mod random;
mod recurrent;
mod scalar;
mod tensor;

use std::collections::HashMap;

use lanthorn_ir::builder::{Outputs, count_of};
use lanthorn_ir::graph::{Node, Value, ValueKey, topological};
use lanthorn_ir::{Builder, Error, ErrorKind, Prim, Result, TensorType};
use smallvec::SmallVec;

pub use tensor::{Data, HostTensor, Number};

/// The eager builder: runs each primitive as it is applied.
///
/// ```
/// use lanthorn_interp::{HostTensor, Interp};
/// use lanthorn_ir::{DType, ops, transform::Tape};
///
/// let tape = Tape::new(Interp);
/// let x = tape.watch(HostTensor::from_f64(DType::F64, &[], &[3.0])?);
/// let grads = tape.grad(&ops::square(&tape, &x)?, &[x])?;
/// assert_eq!(grads[0].value().to_f64(), [6.0]);
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Interp;

/// Elements of the largest tensor that is computed: some gigabytes on the way, for every element is held apart.
const MOST: usize = 1 << 28;

/// What memory might not hold is an error, not the end of the process.
fn expect_room(op: &str, ty: &TensorType) -> Result<()> {
    let numbers = ty.numel();
    if numbers <= MOST {
        return Ok(());
    }
    let message = format!("{ty} has {numbers} elements; the reference computes at most {MOST}");
    Err(Error::new(ErrorKind::OutOfMemory, op, message))
}

impl Builder for Interp {
    type Value = HostTensor;

    fn apply(&self, prim: Prim, inputs: &[HostTensor]) -> Result<Outputs<HostTensor>> {
        let operands: SmallVec<[&TensorType; 4]> = inputs.iter().map(HostTensor::ty).collect();
        let types = prim.infer(&operands)?;
        types.iter().try_for_each(|ty| expect_room(prim.name(), ty))?;
        let outputs = kernels::run(self, &prim, inputs, &types)?;
        debug_assert!(outputs.iter().map(HostTensor::ty).eq(types.iter()), "{prim} gave other types");
        Ok(outputs)
    }

    fn ty<'a>(&self, value: &'a HostTensor) -> &'a TensorType {
        value.ty()
    }

    fn count(&self, op: &str, value: &HostTensor) -> Result<usize> {
        let found = if value.data().is_empty() { 0 } else { value.data().get(0).int() };
        count_of(op, found)
    }
}

/// The values of `roots`, given those of the leaves (or of any other node).
///
/// ```
/// use lanthorn_interp::{HostTensor, eval};
/// use lanthorn_ir::{DType, Lazy, TensorType, Value, ops, transform};
///
/// let x = Value::leaf(TensorType::new(DType::F32, [2]))?;
/// let loss = ops::sum(&Lazy, &ops::square(&Lazy, &x)?, &[], false)?;
/// let grads = transform::grad(&loss, std::slice::from_ref(&x))?;
/// let values = eval(&grads, &[(x, HostTensor::from_f64(DType::F32, &[2], &[1.0, -3.0])?)])?;
/// assert_eq!(values[0].to_f64(), [2.0, -6.0]);
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
///
/// Errors: a leaf without a value, a value of another type than its leaf, and whatever a primitive reports.
pub fn eval(roots: &[Value], bindings: &[(Value, HostTensor)]) -> Result<Vec<HostTensor>> {
    let mut known: HashMap<ValueKey, HostTensor> = HashMap::new();
    for (value, tensor) in bindings {
        if value.ty() != tensor.ty() {
            let (expected, found) = (value.ty(), tensor.ty());
            return Err(Error::shape("eval", format!("a leaf of {expected} is bound to {found}")));
        }
        known.insert(value.key(), tensor.clone());
    }
    let missing = |value: &Value| {
        Error::new(ErrorKind::InvalidHandle, "eval", format!("the leaf {value:?} has no value"))
    };
    let bound: std::collections::HashSet<ValueKey> = known.keys().copied().collect();
    let is_bound = |node: &Node| (0..node.types().len() as u32).all(|i| bound.contains(&(node.id(), i)));
    for node in topological(roots, is_bound) {
        if is_bound(&node) {
            continue;
        }
        let values = Node::outputs(&node);
        if let Some(leaf) = values.iter().find(|value| value.is_leaf()) {
            return Err(missing(leaf));
        }
        let inputs = node
            .inputs()
            .iter()
            .map(|input| known.get(&input.key()).cloned().ok_or_else(|| missing(input)))
            .collect::<Result<Vec<_>>>()?;
        for (value, output) in values.iter().zip(Interp.apply(node.prim().clone(), &inputs)?) {
            known.entry(value.key()).or_insert(output);
        }
    }
    roots.iter().map(|root| known.get(&root.key()).cloned().ok_or_else(|| missing(root))).collect()
}
