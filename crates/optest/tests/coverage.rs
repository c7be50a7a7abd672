//! No op and no primitive is left out.

use std::collections::BTreeSet;

use lanthorn_ir::expr::{BinaryOp, UnaryOp};
use lanthorn_ir::ops::table::OPS;
use lanthorn_optest::cases::every;
use lanthorn_optest::prims::{names, whole};

#[test]
fn every_op_has_a_case() {
    let met: BTreeSet<&str> = every().iter().map(|case| case.row().name).collect();
    let missing: Vec<&str> = OPS.iter().map(|op| op.name).filter(|name| !met.contains(name)).collect();
    assert!(missing.is_empty(), "no case of {missing:?}; write one in crates/optest/fixtures");
}

/// The names in `fn name` of every family: the sources are read, so that a new primitive is asked for too.
fn primitives() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/src/prim");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let bodies = source.split("fn name(&self) -> &'static str {").skip(1);
        for body in bodies.filter_map(|text| text.split("\n    }").next()) {
            found.extend(body.split('"').skip(1).step_by(2).map(str::to_string));
        }
    }
    found.extend(UnaryOp::ALL.map(|op| op.name().to_string()));
    found.extend(BinaryOp::ALL.map(|op| op.name().to_string()));
    assert!(found.len() > 60, "the sources were not read: {found:?}");
    found
}

/// Of each primitive there is an application in the graph of some case or of its derivatives.
#[test]
fn every_primitive_is_met() {
    let mut met = BTreeSet::new();
    for case in every().iter().filter(|case| !case.is_eager_only()) {
        match whole(case) {
            Ok(whole) => met.extend(names(&whole)),
            Err(e) => panic!("{}: {e}", case.name()),
        }
    }
    let missing: Vec<String> = primitives().into_iter().filter(|name| !met.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "no case leads to {missing:?}");
}
