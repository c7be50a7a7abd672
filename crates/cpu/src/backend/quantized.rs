//! Products with packed weights, and the weights unpacked.

use lanthorn_ir::layout::numel;
use lanthorn_ir::prim::Quantized;

use super::prims::Operands;
use crate::quantized::{self, QuantizedPlan, QuantizedShape};
use crate::rows::Scratch;

/// How a product of `x` with the weights in `blocks` is computed, by their shapes.
pub(super) fn plan(kind: &Quantized, x: &[usize], blocks: &[usize]) -> Option<QuantizedPlan> {
    let (Quantized::Linear(encoding), Some((&inner, lead))) = (kind, x.split_last()) else { return None };
    let shape = QuantizedShape { rows: numel(lead), inner, outputs: blocks.first().copied().unwrap_or(0) };
    Some(QuantizedPlan::new(*encoding, shape))
}

/// # Safety
/// Operands are dense and of the types that `infer` has accepted; `x` is f32. `plan` is that of these shapes, and
/// `scratch` holds its bytes.
pub(super) unsafe fn run(
    kind: &Quantized,
    plan: Option<&QuantizedPlan>,
    call: &Operands<'_>,
    scratch: Scratch<'_>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let out = call.slice_mut::<f32>(0).as_mut_ptr();
        match (kind, plan) {
            (Quantized::Dequantize(encoding), _) => {
                let blocks = call.slice::<u8>(0);
                quantized::dequantize(*encoding, blocks.as_ptr(), blocks.len(), out);
            }
            (Quantized::Linear(_), Some(plan)) => {
                plan.run(call.address(0).cast(), call.address(1), out, scratch.into_raw());
            }
            (Quantized::Linear(_), None) => {}
        }
    }
}
