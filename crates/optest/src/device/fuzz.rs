//! Random calls on a device, against the reference.

use lanthorn_interp::HostTensor;
use lanthorn_ir::ops::table::{Attribute, Category, OPS};
use lanthorn_ir::{DType, ErrorKind, Lazy, Result, Value};

use super::suite::{Tally, agree_within_rounding};
use super::{Device, Eager, Lie, Strided};
use crate::fuzz::{Call, Findings, head};
use crate::sequence::Sequence;

/// [`crate::fuzz::fuzz`], with every call that runs compiled and eagerly on the device too.
pub fn fuzz(device: &Device, seed: u64, more: impl FnMut() -> bool) -> Findings {
    crate::fuzz::fuzz(seed, more, &|call, operands, expected, s, findings| {
        run(device, call, operands, expected, s, findings)
    })
}

fn run(
    device: &Device,
    call: &Call,
    operands: &[HostTensor],
    expected: &Result<Vec<HostTensor>>,
    s: &mut Sequence,
    findings: &mut Findings,
) {
    // What is too large on the way is not tried on a device, where it might just fit.
    if expected.as_ref().is_err_and(|e| e.kind == ErrorKind::OutOfMemory) {
        return;
    }
    let name = OPS[call.op].name;
    let computes =
        |dtype: DType| dtype == DType::Bool || device.floats.contains(&dtype) || device.ints.contains(&dtype);
    if operands.iter().any(|t| !computes(t.ty().dtype)) {
        return;
    }
    // A kernel of attention does not read what a query does not see, where the reference multiplies by 0.
    let finite = |t: &HostTensor| t.to_f64().iter().all(|v| v.is_finite());
    if name.contains("attention") && !operands.iter().all(finite) {
        return;
    }
    let reference = |operands: &[HostTensor]| call.on(&lanthorn_interp::Interp, operands);
    let compiled = || -> Result<Vec<HostTensor>> {
        let leaves = operands.iter().map(|t| Value::leaf(t.ty().clone())).collect::<Result<Vec<_>>>()?;
        let roots = call.on(&Lazy, &leaves)?;
        device.run(&leaves, &roots, operands, true)
    };
    let mut eager = || -> Result<Vec<HostTensor>> {
        let lie = *s.pick(&[Lie::Contiguous, Lie::Sliced, Lie::Flipped, Lie::Transposed, Lie::Offset]);
        let placed: Vec<Strided> = operands.iter().map(|t| device.place(t, lie)).collect();
        let found = call.on(&Eager(*device), &placed)?;
        Ok(found.iter().map(|t| device.fetch(t)).collect())
    };
    for (path, found) in [("compiled", compiled()), ("eager", eager())] {
        match (expected, found) {
            (Err(_), Err(_)) => {}
            (Err(_), Ok(_)) | (Ok(_), Err(_))
                if !is_determined(call, operands, expected.as_ref().map_or(&[], Vec::as_slice)) => {}
            (Err(e), Ok(_)) => {
                let message = head(&e.to_string());
                findings.fault(
                    format!("{name}: {path} gives a value, the reference refuses: {message}"),
                    call.to_string(),
                );
            }
            (Ok(_), Err(e)) => {
                if !(device.may_refuse && matches!(e.kind, ErrorKind::Dtype | ErrorKind::Unsupported)) {
                    findings
                        .fault(format!("{name}: {path} fails: {}", head(&e.to_string())), call.to_string());
                }
            }
            (Ok(_), Ok(_))
                if !is_determined(call, operands, expected.as_ref().map_or(&[], Vec::as_slice)) => {}
            (Ok(expected), Ok(found)) => {
                findings.compared += 1;
                let tally = Tally::default();
                let held = agree_within_rounding(device, name, operands, found, expected, &reference, &tally);
                if let Err(message) = held {
                    let kind = format!("{name}: {path}: {}", head(&message));
                    let shown: Vec<Vec<f64>> = operands.iter().map(HostTensor::to_f64).collect();
                    findings.fault(kind, format!("{call}: {message} of {shown:?}"));
                }
            }
        }
    }
}

/// False where rounding alone decides. A factorization is exact to rounding of the largest element, so of a matrix with
/// 1e30 beside ordinary numbers it says little else, and a rank that counts singular values above 0 counts rounding.
/// Sums, products and recurrences of huge numbers overflow or not by the order in which they are taken.
fn is_determined(call: &Call, operands: &[HostTensor], expected: &[HostTensor]) -> bool {
    let below = |most: f64, t: &HostTensor| t.to_f64().iter().all(|v| v.abs() < most);
    let op = &OPS[call.op];
    match op.category {
        Category::Pointwise | Category::Movement | Category::Creation | Category::Complex => true,
        Category::LinearAlgebra => {
            let counts_rounding =
                |a: &Attribute| matches!(a, Attribute::Float(tolerance) if *tolerance < 1e-12);
            // Reflections that complete a basis turn by the sign of what may be 0 or rounding.
            let turns = |t: &HostTensor| t.to_f64().iter().any(|v| v.abs() < 1e-9);
            operands.iter().all(|t| below(1e6, t))
                && !call.attributes.iter().any(counts_rounding)
                && !(op.name == "svd" && expected.iter().any(turns))
        }
        _ => {
            // Infinities and NaN are carried on alike; those of a recurrence come from growth.
            let ordinary = |v: &f64| !v.is_finite() || v.abs() < 1e15;
            operands.iter().all(|t| t.to_f64().iter().all(ordinary))
                && (!op.name.contains("delta_rule") || expected.iter().all(|t| below(1e15, t)))
        }
    }
}
