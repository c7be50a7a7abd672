//! Pointwise kernels on few elements that lie side by side.

use std::sync::Arc;

use lanthorn_compiler::backend::{FlatKernel, MemRef};
use lanthorn_compiler::kernel::{Kernel, KernelKind};
use lanthorn_ir::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use super::address_of;
use crate::region::map::MapKernel;
use crate::region::{GROUP, TILE};

struct Flat {
    map: MapKernel,
    /// Bytes of an element of each input, and of the output.
    inputs: SmallVec<[usize; 2]>,
    output: usize,
}

/// The kernel, if it is one of contiguous operands and its elements fit a tile.
pub(super) fn prepare(kernel: &Kernel) -> Result<Option<Arc<dyn FlatKernel>>> {
    let (KernelKind::Map { domain, body }, [output]) = (&kernel.kind, &kernel.outputs[..]) else {
        return Ok(None);
    };
    let operands = || kernel.inputs.iter().chain(&kernel.outputs);
    let is_flat = operands().all(|operand| {
        let layout = &operand.layout;
        layout.shape == *domain && layout.is_contiguous() && layout.offset == 0
    });
    // A single element would be one that all of the range shows.
    if !is_flat || !(2..=TILE).contains(&lanthorn_ir::layout::numel(domain)) {
        return Ok(None);
    }
    let Some(map) = MapKernel::new(domain, body, &kernel.inputs, &kernel.outputs) else { return Ok(None) };
    let inputs = kernel.inputs.iter().map(|input| input.dtype.size()).collect();
    Ok(Some(Arc::new(Flat { map, inputs, output: output.dtype.size() })))
}

impl FlatKernel for Flat {
    fn run(&self, count: usize, inputs: &[MemRef<'_>], output: MemRef<'_>) -> Result<()> {
        if count > self.map.count() || inputs.len() != self.inputs.len() {
            return Err(Error::new(ErrorKind::Execute, "cpu", "operands and memories differ in number"));
        }
        let target = address_of(&output, count * self.output)?;
        // Whole groups are computed where they lie; the last one may end behind the elements if the memory does not.
        let groups = count.next_multiple_of(GROUP);
        let has_room = |place: &MemRef<'_>, size: usize| place.offset + groups * size <= place.memory.bytes();
        let mut is_roomy = has_room(&output, self.output);
        let mut sources = SmallVec::<[*const u8; 2]>::new();
        for (place, &size) in inputs.iter().zip(&self.inputs) {
            sources.push(address_of(place, count * size)?);
            is_roomy &= has_room(place, size);
        }
        // SAFETY: extents were checked against the memories; aliasing is the trait's contract.
        unsafe { self.map.run_first(count, is_roomy, &sources, target) };
        Ok(())
    }
}
