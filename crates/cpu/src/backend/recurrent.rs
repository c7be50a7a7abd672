//! Recurrences: their operands as the plain kernels take them.

use lanthorn_ir::prim::Recurrent;
use lanthorn_ir::{Error, Result};
use lanthorn_kernels::plain::recurrent::{Beside, DeltaRule, linear_scan};
use lanthorn_kernels::rows::Element;

use super::prims::Operands;

/// # Safety
/// The operands are those of the primitive, dense, of element type `E`.
///
/// # Errors
/// A recurrence that has no kernel.
pub(super) unsafe fn run<E: Element>(recurrent: &Recurrent, call: &Operands<'_>) -> Result<()> {
    match *recurrent {
        Recurrent::LinearScan { axis, reverse } => {
            let shape = call.shape(0);
            let size = |sizes: &[usize]| sizes.iter().product();
            let sizes = [size(&shape[..axis]), shape[axis], size(&shape[axis + 1..])];
            // SAFETY: the caller's promise.
            unsafe { linear_scan::<E>(call.slice(0), call.slice(1), call.slice_mut(0), sizes, reverse) };
        }
        Recurrent::DeltaRule { scale, state, .. } => {
            let shape = call.shape(0);
            let beside = |input: usize| {
                // SAFETY: the caller's promise; `infer` has seen that it is one of the two types.
                unsafe {
                    if call.dtype(input) == call.dtype(0) {
                        Beside::Same(call.slice::<E>(input))
                    } else {
                        Beside::Wide(call.slice::<E::Wide>(input))
                    }
                }
            };
            // SAFETY: the caller's promise.
            unsafe {
                let rule = DeltaRule {
                    q: call.slice::<E>(0),
                    k: call.slice(1),
                    v: call.slice(2),
                    log_decay: beside(3),
                    beta: beside(4),
                    batch: shape[0],
                    steps: shape[1],
                    heads: shape[2],
                    width: shape[3],
                    value_width: call.shape(2)[3],
                    scale: scale.0,
                };
                let last = call.slice_mut::<E::Wide>(1);
                if state {
                    last.copy_from_slice(call.slice(5));
                } else {
                    last.fill(<E::Wide as lanthorn_kernels::rows::Wide>::ZERO);
                }
                rule.run(call.slice_mut(0), last);
            }
        }
        Recurrent::ShortConv { .. } => {
            let message = "the cpu has no kernel for this primitive";
            return Err(Error::unsupported("short_conv1d", message));
        }
    }
    Ok(())
}
