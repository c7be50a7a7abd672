//! Layer lists whose numbers are not what anybody meant: each setting of every fixture, changed.

use lanthorn_ir::{DType, Lazy, Result, TensorType, Value};
use lanthorn_nn::sequential::{LayerConfig, Sequential};
use lanthorn_nn::{Mode, Model, ParamSpec, Params};
use serde_json::{Value as Json, json};

use crate::{rows, shape};

/// The paths to all numbers and switches.
fn leaves(value: &Json, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut within = |step: String, value: &Json| {
        path.push(step);
        leaves(value, path, found);
        path.pop();
    };
    match value {
        Json::Array(list) => list.iter().enumerate().for_each(|(at, value)| within(at.to_string(), value)),
        Json::Object(object) => object.iter().for_each(|(name, value)| within(name.clone(), value)),
        Json::Number(_) | Json::Bool(_) | Json::Null => found.push(path.clone()),
        Json::String(_) => {}
    }
}

fn with(mut value: Json, path: &[String], other: Json) -> Json {
    let place = path.iter().fold(&mut value, |value, step| match value {
        Json::Array(list) => &mut list[step.parse::<usize>().unwrap()],
        object => &mut object[step.as_str()],
    });
    *place = other;
    value
}

/// Builds the model and its forward pass as a graph, which looks at every shape and computes nothing.
fn built(config: Vec<LayerConfig>, input: TensorType) -> Result<usize> {
    let model = Sequential::new(config)?;
    let leaf = |spec: &ParamSpec| Ok((spec.name.clone(), Value::leaf(spec.ty(DType::F32))?));
    let params = model.specs().iter().map(leaf).collect::<Result<Params<Value>>>()?;
    let state = model.state_specs().iter().map(leaf).collect::<Result<Params<Value>>>()?;
    model.forward(&Lazy, &params, &state, &Value::leaf(input)?, &Mode::Eval)?;
    Ok(model.parameter_count())
}

/// Sizes that overflow panic in this profile and would wrap in a released one.
#[test]
fn settings_of_any_size_make_a_model_or_an_error() {
    let others = [0, 1, 3, 1_000_000_007, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX].map(Json::from);
    let others = others.into_iter().chain([
        json!(-1),
        json!(i64::MIN),
        json!(1e308),
        json!(-1e308),
        json!(0.5),
        Json::Null,
        json!(true),
        json!([]),
        json!([0, 0, 0]),
        json!([u64::MAX]),
    ]);
    let others: Vec<Json> = others.collect();
    let (mut parsed, mut refused) = (0, 0);
    for row in rows(include_str!("../../fixtures/layers.json")) {
        let pass = &row["passes"][0];
        let dtype = if pass["integers"].as_bool().unwrap() { DType::I64 } else { DType::F32 };
        let input = TensorType::new(dtype, shape(&pass["input"]));
        let mut paths = Vec::new();
        leaves(&row["config"], &mut Vec::new(), &mut paths);
        for (path, other) in paths.iter().flat_map(|path| others.iter().map(move |other| (path, other))) {
            let config = with(row["config"].clone(), path, other.clone());
            let Ok(config) = serde_json::from_value::<Vec<LayerConfig>>(config) else { continue };
            parsed += 1;
            if let Err(error) = built(config, input.clone()) {
                assert!(!error.message.is_empty(), "{path:?} = {other}");
                refused += 1;
            }
        }
    }
    assert!(parsed > 1000 && refused > 500 && refused < parsed, "{refused} of {parsed} refused");
}

#[test]
fn a_size_that_no_memory_holds_is_named() {
    let refused = |text: &str| {
        let layers: Vec<LayerConfig> = serde_json::from_str(text).unwrap();
        Sequential::new(layers).unwrap_err().to_string()
    };
    let wide = refused(r#"[{"linear": {"inputs": 9223372036854775807, "outputs": 3, "bias": true}}]"#);
    assert_eq!(wide, "linear: 0: inputs is 9223372036854775807, expected at most 2147483647");
    let large = refused(r#"[{"embedding": {"rows": 2147483647, "width": 2147483647}}]"#);
    assert!(large.starts_with("0.weight: ") && large.ends_with("does not fit the address space"), "{large}");
}
