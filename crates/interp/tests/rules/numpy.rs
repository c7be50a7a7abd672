//! Ops, called by name, against values computed by NumPy (`tests/fixtures/make_ops.py`).

use std::collections::BTreeSet;

use lanthorn_interp::Interp;
use lanthorn_ir::ops::table::{OPS, call};

use crate::numpy_cases::{Case, cases};
use crate::support::assert_close;

#[test]
fn ops_give_the_values_of_numpy() {
    let mut met = BTreeSet::new();
    for (number, case) in cases().iter().enumerate() {
        let Case { op, tensors, attributes, expected, tolerance } = case;
        let what = format!("case {number}, {op}");
        let found = call(&Interp, op, tensors, attributes).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.ty(), expected.ty(), "{what}");
            assert_close(&what, &found.to_f64(), &expected.to_f64(), *tolerance);
        }
        met.insert(op.clone());
    }
    let missing: Vec<&str> = OPS.iter().map(|op| op.name).filter(|name| !met.contains(*name)).collect();
    // Scalar forms and trivial ones stand elsewhere; most of the table must be met.
    assert!(met.len() > 90, "only {} ops have a fixture; missing: {missing:?}", met.len());
}
