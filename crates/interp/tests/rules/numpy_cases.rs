//! The values that NumPy computed (`tests/fixtures/make_ops.py`), for every test that holds ops against them.

use lanthorn_interp::HostTensor;
use lanthorn_ir::DType;
use lanthorn_ir::ops::table::Attribute;
use serde_json::Value as Json;

const FIXTURES: &str = include_str!("../fixtures/ops.json");

/// An op by name with its operands, and what comes out.
pub struct Case {
    pub op: String,
    pub tensors: Vec<Option<HostTensor>>,
    pub attributes: Vec<Attribute>,
    pub expected: Vec<HostTensor>,
    pub tolerance: f64,
}

/// All of them, in the file's order.
pub fn cases() -> Vec<Case> {
    let cases: Vec<Json> = serde_json::from_str(FIXTURES).unwrap();
    let list = |case: &Json, key: &str| case[key].as_array().unwrap().clone();
    (cases.iter())
        .map(|case| Case {
            op: case["op"].as_str().unwrap().to_string(),
            tensors: list(case, "tensors").iter().map(|t| (!t.is_null()).then(|| tensor(t))).collect(),
            attributes: list(case, "attributes").iter().map(attribute).collect(),
            expected: list(case, "expected").iter().map(tensor).collect(),
            tolerance: case["tolerance"].as_f64().unwrap(),
        })
        .collect()
}

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
