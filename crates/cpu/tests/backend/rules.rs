//! Every primitive's case of the reference's own tests: forward, and the derivatives that its rules make.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::{DType, Lazy, Result, TensorType, Value, ops, transform};

use crate::cases::{self, Case};
use crate::harness::{assert_close, leaf_of, run, tolerance};

fn in_dtype(case: &Case, dtype: DType) -> Vec<HostTensor> {
    let convert = |t: &HostTensor| match t.ty().dtype {
        DType::F64 => HostTensor::collect(&TensorType::new(dtype, t.shape()), t.data().iter()).unwrap(),
        _ => t.clone(),
    };
    case.inputs.iter().map(convert).collect()
}

/// The outputs and the gradients of their sum with respect to the float inputs.
fn with_gradients(case: &Case, leaves: &[Value]) -> Result<Vec<Value>> {
    let mut roots = (case.f)(leaves)?;
    let mut total: Option<Value> = None;
    for output in roots.iter().filter(|output| output.ty().dtype.is_float()) {
        // Slow to turn, so that rounding on the way does not make a different slope.
        let small = ops::mul_scalar(&Lazy, &ops::cast(&Lazy, output, DType::F64)?, 0.1)?;
        let weighted = ops::sum(&Lazy, &ops::sin(&Lazy, &small)?, &[], false)?;
        total = Some(match total {
            Some(total) => ops::add(&Lazy, &total, &weighted)?,
            None => weighted,
        });
    }
    let floats: Vec<Value> = leaves.iter().filter(|leaf| leaf.ty().dtype.is_float()).cloned().collect();
    if let Some(total) = total {
        roots.extend(transform::grad(&total, &floats)?);
    }
    Ok(roots)
}

fn check(dtype: DType) {
    let (mut met, mut skipped) = (0, Vec::new());
    for case in cases::all() {
        let arguments = in_dtype(&case, dtype);
        let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
        // Some cases name f64 in their attributes, or take statistics, which are f32 beside half types.
        let Ok(roots) = with_gradients(&case, &leaves) else {
            skipped.push(case.name);
            continue;
        };
        let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
        let expected = eval(&roots, &bindings).unwrap();
        // A gradient sums what was rounded on the way, and normals are of f32.
        let precision = if case.name == "noise" && dtype == DType::F64 { DType::F32 } else { dtype };
        let within = 4.0 * tolerance(precision);
        for optimize in [false, true] {
            let what = format!("{} in {dtype}, optimize {optimize}", case.name);
            let found = run(&leaves, &roots, &arguments, optimize).unwrap_or_else(|e| panic!("{what}: {e}"));
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_close(&format!("{what}, result {at}"), found, expected, within);
            }
        }
        met += 1;
    }
    assert!(skipped.len() <= 10, "skipped {skipped:?}");
    assert!(met > 100, "only {met} cases");
}

#[test]
fn primitives_and_their_derivatives_agree_in_f64() {
    check(DType::F64);
}

#[test]
fn primitives_and_their_derivatives_agree_in_f32() {
    check(DType::F32);
}

#[test]
fn primitives_and_their_derivatives_agree_in_f16() {
    check(DType::F16);
}

#[test]
fn primitives_and_their_derivatives_agree_in_bf16() {
    check(DType::BF16);
}
