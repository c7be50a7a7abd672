//! Prints the table of ops as JSON, from which class methods and type declarations are generated.
//!
//!     cargo run --package lanthorn-session --example op_table

use lanthorn_ir::DType;
use lanthorn_ir::ops::table::{Attribute, OPS, Op, Parameter, Returns};
use lanthorn_session::raw;
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", serde_json::to_string_pretty(&table())?);
    Ok(())
}

/// Everything that a face is generated from. An op's number is its place.
pub fn table() -> Value {
    json!({
        "dtypes": DType::ALL.iter().map(|dtype| json!({
            "name": dtype.name(),
            "code": dtype.code(),
            "bytes": dtype.size(),
        })).collect::<Vec<_>>(),
        "errors": raw::ERROR_KINDS.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "scratch": raw::SCRATCH,
        "stats": raw::STATS,
        "ops": OPS.iter().map(op).collect::<Vec<_>>(),
    })
}

fn op(op: &Op) -> Value {
    json!({
        "name": op.name,
        "category": format!("{:?}", op.category),
        "parameters": op.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "returns": match op.returns {
            Returns::Tensor => "Tensor",
            Returns::Tensors => "Tensors",
        },
        "views": op.gives_views(),
        "docs": op.docs(),
    })
}

/// `default` is there where the parameter may be left out; null says that nothing is taken then.
fn parameter(parameter: &Parameter) -> Value {
    let mut out = json!({ "name": parameter.name, "kind": format!("{:?}", parameter.kind) });
    if let Some(default) = &parameter.default {
        out["default"] = match default {
            Attribute::None => Value::Null,
            Attribute::Bool(value) => json!(value),
            Attribute::Int(value) => json!(value),
            Attribute::Float(value) => json!(value),
            Attribute::Ints(values) => json!(values),
            Attribute::DType(dtype) => json!(dtype.name()),
            Attribute::Text(word) => json!(word),
        };
    }
    if !parameter.kind.words().is_empty() {
        out["words"] = json!(parameter.kind.words());
    }
    out
}
