//! No op and no primitive is left out.

use std::collections::BTreeSet;

use lanthorn_ir::expr::{BinaryOp, UnaryOp};
use lanthorn_ir::ops::table::OPS;
use lanthorn_ir::prim::Movement;
use lanthorn_ir::{Prim, Value};
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
    // Sessions alone write over values that have a history; the tests of the rules have its cases.
    met.insert("written");
    let missing: Vec<String> = primitives().into_iter().filter(|name| !met.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "no case leads to {missing:?}");
}

/// Movements of one operand whose results are copies all the same, as upstream torch's are.
const COPIES: &[&str] = &[
    "channel_shuffle",
    "flip",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat",
    "repeat_interleave",
    "rot90",
    "tile",
];

/// An op that only moves its first operand is listed among those that give views, so that writing to one writes to
/// the other, or is exempt here.
#[test]
fn every_op_that_only_moves_gives_views() {
    let (mut moves, mut others) = (BTreeSet::new(), BTreeSet::new());
    for case in every().iter().filter(|case| !case.is_eager_only()) {
        let Ok((leaves, roots)) = case.graph(&case.operands()) else { continue };
        let only_moves = leaves.first().is_some_and(|first| roots.iter().all(|root| is_moved(root, first)));
        if only_moves && !roots.is_empty() { &mut moves } else { &mut others }.insert(case.row().name);
    }
    let unlisted: Vec<&&str> = moves
        .difference(&others)
        .filter(|name| !COPIES.contains(*name))
        .filter(|name| !OPS.iter().any(|op| op.name == **name && op.gives_views()))
        .collect();
    assert!(unlisted.is_empty(), "{unlisted:?} only move their operand: add them to VIEWS in ops/table.rs");
}

/// Whether movements that can be views lead from `first` to `value`.
fn is_moved(value: &Value, first: &Value) -> bool {
    let mut at = value.clone();
    while at.key() != first.key() {
        let node = at.node().clone();
        let Prim::Movement(movement) = node.prim() else { return false };
        if matches!(movement, Movement::Pad { .. } | Movement::Concat { .. }) {
            return false;
        }
        at = node.inputs()[0].clone();
    }
    true
}
