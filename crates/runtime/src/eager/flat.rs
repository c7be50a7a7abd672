//! The short way of small calls: a function of single elements on few elements that lie side by side.
//!
//! Nothing of such a call depends on shapes but the number of elements. So its kernel is found by function and dtype, at
//! an index that takes no look at the operands, and takes the number when it runs.

use std::sync::{Arc, OnceLock};

use lanthorn_compiler::backend::{FlatKernel, MemRef};
use lanthorn_compiler::single::single;
use lanthorn_ir::expr::{BinaryOp, UnaryOp};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Layout, Prim, Result, TensorType};
use smallvec::SmallVec;

use super::{Eager, EagerTensor};
use crate::storage::Storage;

/// The most elements of a call: what one thread does at once.
const MOST: usize = 512;

const UNARY: usize = UnaryOp::ALL.len();
const BINARY: usize = BinaryOp::ALL.len();
const DTYPES: usize = DType::ALL.len();
const FUNCTIONS: usize = UNARY + BINARY + DTYPES;

/// The kernels of a device by function and dtype of the operands.
pub(crate) struct FlatKernels {
    /// `None` where the backend has none.
    kernels: Box<[OnceLock<Option<Flat>>]>,
}

/// A kernel with the dtype of its result.
struct Flat {
    kernel: Arc<dyn FlatKernel>,
    dtype: DType,
}

impl Default for FlatKernels {
    fn default() -> FlatKernels {
        FlatKernels { kernels: (0..FUNCTIONS * DTYPES).map(|_| OnceLock::new()).collect() }
    }
}

/// Where the kernel of a function of one or two operands stands, and of how many; `None` for one of more.
#[inline]
fn index_of(function: &Elementwise, dtype: DType) -> Option<(usize, usize)> {
    let (function, arity) = match *function {
        Elementwise::Unary(op) => (op as usize, 1),
        Elementwise::Binary(op) => (UNARY + op as usize, 2),
        Elementwise::Cast(to) => (UNARY + BINARY + to as usize, 1),
        Elementwise::Select => return None,
    };
    Some((function * DTYPES + dtype as usize, arity))
}

impl Eager {
    /// Applies a function to operands of one type whose elements lie side by side; `None` for all other calls, which
    /// have not begun then.
    pub(super) fn flat(&self, prim: &Prim, inputs: &[&EagerTensor]) -> Result<Option<EagerTensor>> {
        let (Prim::Elementwise(function), Some(x)) = (prim, inputs.first()) else { return Ok(None) };
        let Some((index, arity)) = index_of(function, x.dtype()) else { return Ok(None) };
        let count = x.ty().numel();
        let is_flat = inputs.len() == arity
            && (1..=MOST).contains(&count)
            && inputs.iter().all(|input| input.layout().is_contiguous() && self.device == *input.device())
            && inputs.iter().skip(1).all(|other| other.ty() == x.ty());
        if !is_flat {
            return Ok(None);
        }
        let Some(place) = self.device.flat().kernels.get(index) else { return Ok(None) };
        let Some(flat) = place.get_or_init(|| self.flat_kernel(prim, arity, x.dtype())) else {
            return Ok(None);
        };
        let mut result = Storage::allocate(&self.device, count * flat.dtype.size())?;
        self.run_flat(&*flat.kernel, count, inputs, &mut result)?;
        Ok(Some(EagerTensor::of_parts(result, flat.dtype, Layout::contiguous(x.shape()))))
    }

    fn run_flat(
        &self,
        kernel: &dyn FlatKernel,
        count: usize,
        inputs: &[&EagerTensor],
        result: &mut Storage,
    ) -> Result<()> {
        let output = MemRef { memory: result.own_memory()?, offset: 0 };
        let start = |input: &EagerTensor| input.layout().offset * input.dtype().size();
        match *inputs {
            [x] => {
                let held = x.storage().hold();
                kernel.run(count, &[MemRef { memory: held.memory()?, offset: start(x) }], output)?
            }
            [x, y] => {
                let (x_held, y_held) = Storage::hold_both(x.storage(), y.storage());
                let second = y_held.as_ref().unwrap_or(&x_held);
                let places = [
                    MemRef { memory: x_held.memory()?, offset: start(x) },
                    MemRef { memory: second.memory()?, offset: start(y) },
                ];
                kernel.run(count, &places, output)?
            }
            // `index_of` knows no others.
            _ => {}
        }
        self.device.counters().count_kernels(1);
        Ok(())
    }

    /// The kernel of a function, made now. Where there is none the general way says why.
    fn flat_kernel(&self, prim: &Prim, arity: usize, dtype: DType) -> Option<Flat> {
        let ty = TensorType::new(dtype, [MOST]);
        let types: SmallVec<[&TensorType; 2]> = (0..arity).map(|_| &ty).collect();
        let results = prim.infer(&types).ok()?;
        if !self.has_kernel(prim, &types, results.len()).ok()? {
            return None;
        }
        let operands: SmallVec<[(DType, Layout); 2]> =
            (0..arity).map(|_| (dtype, Layout::contiguous([MOST]))).collect();
        let kernels = single(prim, &operands).ok()?;
        let ([kernel], [result]) = (&kernels[..], &results[..]) else { return None };
        let kernel = self.device.backend().prepare_flat(kernel).ok()??;
        Some(Flat { kernel, dtype: result.dtype })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_and_dtype_has_a_place_of_its_own() {
        let unary = UnaryOp::ALL.into_iter().map(Elementwise::Unary);
        let binary = BinaryOp::ALL.into_iter().map(Elementwise::Binary);
        let functions = unary.chain(binary).chain(DType::ALL.into_iter().map(Elementwise::Cast));
        let places = functions.flat_map(|f| DType::ALL.map(|dtype| index_of(&f, dtype).unwrap().0));
        let mut places: Vec<usize> = places.collect();
        places.sort_unstable();
        assert_eq!(places, (0..FUNCTIONS * DTYPES).collect::<Vec<_>>());
    }
}
