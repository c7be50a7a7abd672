//! What the sizes of every model must be.

use lanthorn_ir::{Builder, Error, Result};

/// Refuses sizes of 0 and sizes beyond 32 bits: ids and positions are 32-bit integers, and so no size needs more, and
/// products of two of them fit 64 bits.
pub(super) fn sizes(op: &str, sizes: &[(&str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size == 0 || *size > i32::MAX as usize) {
        None => Ok(()),
        Some((name, size)) => Err(Error::shape(op, format!("{name} is {size}, expected 1 to {}", i32::MAX))),
    }
}

/// Refuses sizes beyond 32 bits in the settings of a layer, which may be 0: sums and products of a few of them by small
/// numbers fit 64 bits.
pub(crate) fn layer_sizes(op: &str, layer: &str, sizes: &[(&str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size > i32::MAX as usize) {
        None => Ok(()),
        Some((name, size)) => {
            Err(Error::shape(op, format!("{layer}: {name} is {size}, expected at most {}", i32::MAX)))
        }
    }
}

/// Refuses a number of layers that no model has.
pub(super) fn layers(op: &str, layers: usize) -> Result<()> {
    if layers > 10_000 {
        return Err(Error::shape(op, format!("layers is {layers}, expected at most 10000")));
    }
    Ok(())
}

/// Refuses a number that is not above 0, or not finite.
pub(super) fn positive(op: &str, name: &str, number: f64) -> Result<()> {
    if !(number > 0.0 && number.is_finite()) {
        return Err(Error::shape(op, format!("{name} is {number}, expected a finite number above 0")));
    }
    Ok(())
}

/// Batch and length of `ids`, which fit the context.
pub(super) fn ids<B: Builder>(op: &str, b: &B, ids: &B::Value, context: usize) -> Result<(usize, usize)> {
    let ty = b.ty(ids);
    match ty.shape[..] {
        [batch, seq] if seq <= context => Ok((batch, seq)),
        [_, seq] => Err(Error::shape(op, format!("{seq} tokens exceed the context of {context}"))),
        _ => Err(Error::shape(op, format!("the ids are {ty}, expected [batch, seq]"))),
    }
}
