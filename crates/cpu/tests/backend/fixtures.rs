//! Ops by name on the NumPy fixtures, in every dtype that they take.

use std::collections::BTreeSet;

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::ops::table::call;
use lanthorn_ir::{DType, Lazy, TensorType, Value};

use crate::harness::{Eager, Lie, Strided, assert_close, leaf_of, run, tolerance};
use crate::numpy_cases::{Case, cases};

fn cast(tensor: &HostTensor, dtype: DType) -> HostTensor {
    HostTensor::collect(&TensorType::new(dtype, tensor.shape()), tensor.data().iter()).unwrap()
}

impl Case {
    /// The case with its tensors of `from` in `to`.
    fn with(&self, from: DType, to: DType) -> Vec<Option<HostTensor>> {
        let convert = |t: &HostTensor| if t.ty().dtype == from { cast(t, to) } else { t.clone() };
        self.tensors.iter().map(|t| t.as_ref().map(convert)).collect()
    }

    /// Compiled in both ways, and eager in every lie; errors where the reference errs.
    fn check(
        &self,
        tensors: &[Option<HostTensor>],
        what: &str,
        expected: lanthorn_ir::Result<Vec<HostTensor>>,
    ) {
        let arguments: Vec<HostTensor> = tensors.iter().flatten().cloned().collect();
        let widest = arguments.iter().map(|t| tolerance(t.ty().dtype)).fold(self.tolerance, f64::max);
        let within = |t: &HostTensor| widest.max(tolerance(t.ty().dtype));
        let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
        let mut rest = leaves.iter().cloned();
        let handles: Vec<Option<Value>> =
            tensors.iter().map(|t| t.as_ref().map(|_| rest.next().unwrap())).collect();
        let roots = call(&Lazy, &self.op, &handles, &self.attributes);
        for optimize in [false, true] {
            let what = format!("{what}, optimize {optimize}");
            let found = roots.clone().and_then(|roots| run(&leaves, &roots, &arguments, optimize));
            compare(&what, &found, &expected, &within);
        }
        for lie in Lie::ALL {
            let what = format!("{what}, eager, {lie:?}");
            let operands: Vec<Option<Strided>> =
                tensors.iter().map(|t| t.as_ref().map(|t| Strided::new(t, lie))).collect();
            let found = call(&Eager, &self.op, &operands, &self.attributes);
            let found = found.map(|found| found.iter().map(Strided::tensor).collect::<Vec<_>>());
            compare(&what, &found, &expected, &within);
        }
    }
}

fn compare(
    what: &str,
    found: &lanthorn_ir::Result<Vec<HostTensor>>,
    expected: &lanthorn_ir::Result<Vec<HostTensor>>,
    within: &dyn Fn(&HostTensor) -> f64,
) {
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            assert_eq!(found.len(), expected.len(), "{what}");
            for (found, expected) in found.iter().zip(expected) {
                assert_close(what, found, expected, within(expected));
            }
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(e)) => panic!("{what}: the cpu gives a value, the reference errs: {e}"),
        (Err(e), Ok(_)) => panic!("{what}: {e}"),
    }
}

#[test]
fn ops_give_the_values_of_numpy() {
    let mut met = BTreeSet::new();
    for (number, case) in cases().iter().enumerate() {
        let what = format!("case {number}, {}", case.op);
        case.check(&case.tensors, &what, Ok(case.expected.clone()));
        met.insert(case.op.clone());
    }
    assert!(met.len() > 90, "only {} ops have a fixture", met.len());
}

fn in_dtypes(from: DType, dtypes: &[DType], least: usize) {
    let mut values = 0;
    for (number, case) in cases().iter().enumerate() {
        if !case.tensors.iter().flatten().any(|t| t.ty().dtype == from) {
            continue;
        }
        for &to in dtypes {
            let tensors = case.with(from, to);
            let what = format!("case {number}, {} in {to}", case.op);
            let expected = call(&Interp, &case.op, &tensors, &case.attributes);
            values += expected.is_ok() as usize;
            case.check(&tensors, &what, expected);
        }
    }
    assert!(values >= least, "only {values} cases had a value");
}

#[test]
fn ops_of_floats_agree_in_every_float_type() {
    in_dtypes(DType::F64, &[DType::F32, DType::F16, DType::BF16], 300);
}

#[test]
fn ops_of_floats_agree_in_integers_where_they_take_them() {
    use DType::*;
    in_dtypes(DType::F64, &[Bool, U8, U16, U32, U64, I8, I16, I32, I64], 100);
}

#[test]
fn ops_of_integers_agree_in_every_integer_type() {
    use DType::*;
    in_dtypes(DType::I64, &[Bool, U8, U16, U32, U64, I8, I16, I32], 20);
}
