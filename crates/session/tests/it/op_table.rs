//! The table from which faces are generated is whole.

use lanthorn_ir::ops::table::OPS;
use serde_json::{Value, json};

#[path = "../../examples/op_table.rs"]
#[allow(dead_code)]
mod example;

#[test]
fn every_op_and_its_docs_are_in_the_json() {
    let table = example::table();
    let ops = table["ops"].as_array().unwrap();
    assert_eq!(ops.len(), OPS.len());
    let mse = ops.iter().find(|op| op["name"] == "mse_loss").unwrap();
    assert_eq!(mse["parameters"][2]["words"], json!(["mean", "sum", "none"]));
    assert_eq!(mse["parameters"][2]["default"], Value::Null);
    let slice = ops.iter().find(|op| op["name"] == "slice").unwrap();
    assert_eq!((&slice["views"], &slice["parameters"][4]["default"]), (&json!(true), &json!(1)));
    assert!(ops.iter().all(|op| op["docs"].as_str().is_some_and(|docs| !docs.is_empty())));
}
