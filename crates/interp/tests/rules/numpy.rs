//! Ops, called by name, against values computed by NumPy (`tests/fixtures/make_ops.py`).

use std::collections::BTreeSet;

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::DType;
use lanthorn_ir::ops::table::{Attribute, OPS, call};
use serde_json::Value as Json;

use crate::support::assert_close;

const FIXTURES: &str = include_str!("../fixtures/ops.json");

fn tensor(json: &Json) -> HostTensor {
    let dtype = DType::from_name(json["dtype"].as_str().unwrap()).unwrap();
    let list = |key: &str| json[key].as_array().unwrap().clone();
    let shape: Vec<usize> = list("shape").iter().map(|v| v.as_u64().unwrap() as usize).collect();
    let data = list("data");
    if dtype.is_float() {
        let elements: Vec<f64> = data.iter().map(|v| v.as_f64().unwrap()).collect();
        return HostTensor::from_f64(dtype, &shape, &elements).unwrap();
    }
    let int = |v: &Json| v.as_i64().unwrap_or_else(|| v.as_bool().unwrap() as i64);
    HostTensor::from_i64(dtype, &shape, &data.iter().map(int).collect::<Vec<_>>()).unwrap()
}

fn attribute(json: &Json) -> Attribute {
    match json {
        Json::Null => Attribute::None,
        Json::Bool(v) => Attribute::Bool(*v),
        Json::String(v) => Attribute::Text(v.clone()),
        Json::Array(v) => Attribute::Ints(v.iter().map(|v| v.as_i64().unwrap()).collect()),
        Json::Object(v) => Attribute::DType(DType::from_name(v["dtype"].as_str().unwrap()).unwrap()),
        Json::Number(v) => v.as_i64().map_or_else(|| Attribute::Float(v.as_f64().unwrap()), Attribute::Int),
    }
}

#[test]
fn ops_give_the_values_of_numpy() {
    let cases: Vec<Json> = serde_json::from_str(FIXTURES).unwrap();
    let mut met = BTreeSet::new();
    for (number, case) in cases.iter().enumerate() {
        let op = case["op"].as_str().unwrap();
        let tensors: Vec<Option<HostTensor>> =
            case["tensors"].as_array().unwrap().iter().map(|t| (!t.is_null()).then(|| tensor(t))).collect();
        let attributes: Vec<Attribute> =
            case["attributes"].as_array().unwrap().iter().map(attribute).collect();
        let what = format!("case {number}, {op}");
        let found = call(&Interp, op, &tensors, &attributes).unwrap_or_else(|e| panic!("{what}: {e}"));
        let expected: Vec<HostTensor> = case["expected"].as_array().unwrap().iter().map(tensor).collect();
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.ty(), expected.ty(), "{what}");
            let tolerance = case["tolerance"].as_f64().unwrap();
            assert_close(&what, &found.to_f64(), &expected.to_f64(), tolerance);
        }
        met.insert(op.to_string());
    }
    let missing: Vec<&str> = OPS.iter().map(|op| op.name).filter(|name| !met.contains(*name)).collect();
    // Scalar forms and trivial ones stand elsewhere; most of the table must be met.
    assert!(met.len() > 90, "only {} ops have a fixture; missing: {missing:?}", met.len());
}
