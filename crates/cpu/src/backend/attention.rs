//! Attention: the tiled kernels where they know how, the plain one for windows, soft caps and gradients of masks.

use lanthorn_ir::Result;
use lanthorn_ir::prim::Attention;
use lanthorn_ir::prim::attention::{Mask, Position};
use lanthorn_kernels::attention::{AttentionOptions, Masked, attention, attention_grad};
use lanthorn_kernels::plain::attention as plain;
use lanthorn_kernels::rows::{Cpu, Element, Scratch};

use super::prims::Operands;

/// True for the attention that the tiled kernels know: no window or soft cap, values as wide as keys, the last query at the
/// last key, no gradient of the mask.
pub(super) fn is_tiled(kind: &Attention, q: &[usize], k: &[usize], v: &[usize]) -> bool {
    let attend = kind.attend();
    let stands = attend.position != Position::First || !attend.causal || q.get(1) == k.get(1);
    let wants_mask = matches!(kind, Attention::Grad { mask_grad: true, .. });
    let is_whole = attend.left.is_none() && attend.right.is_none() && attend.softcap.is_none();
    stands && !wants_mask && is_whole && k == v
}

/// The mask, operand `at`.
///
/// # Safety
/// The operands are those of the primitive, the mask dense; a bool is a byte.
unsafe fn mask_of<'a, E: Element>(
    kind: Mask,
    call: &Operands<'a>,
    at: usize,
) -> (plain::Mask<'a, E>, [usize; 4]) {
    // SAFETY: the caller's promise.
    let mask = unsafe {
        match kind {
            Mask::Visible => plain::Mask::Visible(call.slice::<u8>(at)),
            Mask::Additive if call.dtype(at) == call.dtype(0) => plain::Mask::Same(call.slice::<E>(at)),
            Mask::Additive => plain::Mask::Wide(call.slice::<E::Wide>(at)),
        }
    };
    let shape = call.shape(at);
    (mask, [shape[0], shape[1], shape[2], shape[3]])
}

/// The attention of one call of the plain kernel, without its operands' data.
fn of_call<'a, E: Element>(
    attention: &Attention,
    call: &Operands<'a>,
    past: Option<i64>,
) -> Result<plain::Attention<'a, E>> {
    let attend = attention.attend();
    let (q, k, v) = (call.shape(0), call.shape(1), call.shape(2));
    let (first, valid) = match (past, attend.position) {
        (Some(past), _) => plain::places(call.name(), past, q[1], k[1])?,
        (None, Position::First) => (0, k[1]),
        (None, _) => (k[1] as i64 - q[1] as i64, k[1]),
    };
    let tensors = if matches!(attention, Attention::Forward(_)) { 3 } else { 6 };
    let mask_at = tensors + usize::from(past.is_some());
    // SAFETY: the operands are those of the primitive, dense; a bool is a byte.
    unsafe {
        let mask = attend.mask.map(|kind| mask_of(kind, call, mask_at));
        Ok(plain::Attention {
            q: call.slice::<E>(0),
            k: call.slice::<E>(1),
            v: call.slice::<E>(2),
            mask,
            batch: q[0],
            queries: q[1],
            keys: k[1],
            heads: q[2],
            key_heads: k[2],
            width: q[3],
            value_width: v[3],
            scale: attend.scale.0,
            softcap: attend.softcap.map(|cap| cap.0),
            first,
            valid,
            left: attend.left,
            right: if attend.causal { Some(0) } else { attend.right },
        })
    }
}

/// Scratch of the plain kernel.
pub(super) fn plain_scratch_bytes<E: Element>(
    attention: &Attention,
    k: &[usize],
    v: &[usize],
    threads: usize,
) -> usize {
    let backward = matches!(attention, Attention::Grad { .. });
    let each = plain::Attention::<E>::scratch_of(k[1], k[3], v[3], backward);
    (each * threads * size_of::<E::Wide>()).next_multiple_of(64)
}

/// # Safety
/// The operands are those of the primitive, of element type `E`, dense unless it is tiled.
pub(super) unsafe fn run<E: Element>(
    cpu: Cpu,
    kind: &Attention,
    call: &Operands<'_>,
    scratch: Scratch<'_>,
) -> Result<()> {
    let attend = kind.attend();
    // SAFETY: the caller's promise.
    unsafe {
        let past_at = if matches!(kind, Attention::Forward(_)) { 3 } else { 6 };
        let past = if attend.position == Position::Past { Some(call.integer(past_at)?) } else { None };
        if !is_tiled(kind, call.shape(0), call.shape(1), call.shape(2)) {
            return run_plain::<E>(kind, call, past, scratch);
        }
        let options = AttentionOptions { causal: attend.causal, scale: attend.scale.0, past };
        let (q, k, v) = (call.heads::<E>(0), call.heads(1), call.heads(2));
        let (shape, keys) = (call.shape(0), call.shape(1)[1]);
        let full = [shape[0], shape[2], shape[1], keys];
        let mask = attend.mask.map(|kind| mask_of::<E>(kind, call, past_at + usize::from(past.is_some())));
        let mask = mask.map(|(mask, shape)| Masked::new(mask, shape, full));
        match kind {
            Attention::Forward(_) => {
                attention(cpu, q, k, v, mask, &options, call.heads_mut(0), call.slice_mut(1), scratch)
            }
            Attention::Grad { .. } => attention_grad(
                cpu,
                q,
                k,
                v,
                mask,
                call.heads(3),
                call.slice(4),
                call.heads(5),
                &options,
                call.heads_mut(0),
                call.heads_mut(1),
                call.heads_mut(2),
                scratch,
            ),
        }
    }
}

/// # Safety
/// As [`run`], dense.
unsafe fn run_plain<E: Element>(
    kind: &Attention,
    call: &Operands<'_>,
    past: Option<i64>,
    scratch: Scratch<'_>,
) -> Result<()> {
    let attention = of_call::<E>(kind, call, past)?;
    let backward = matches!(kind, Attention::Grad { .. });
    let (workers, scratch) = scratch.workers::<E::Wide>(attention.scratch_len(backward));
    // SAFETY: the caller's promise.
    unsafe {
        if backward {
            let results = [call.slice_mut(0), call.slice_mut(1), call.slice_mut(2)];
            attention.backward([call.slice(3), call.slice(5)], call.slice(4), results, scratch, workers);
        } else {
            attention.forward(call.slice_mut(0), call.slice_mut(1), scratch, workers);
        }
    }
    Ok(())
}
