use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::transform::Tape;
use lanthorn_ir::{DType, ops};
use lanthorn_nn::params::matched;
use lanthorn_nn::sequential::{LayerConfig, Sequential, checkpoint};
use lanthorn_nn::{Mode, Model, Params};
use serde_json::Value;

use crate::{assert_close, numbers, rows, shape, tensor, tensors};

fn input(pass: &Value) -> Reference {
    let input = &pass["input"];
    if pass["integers"].as_bool().unwrap() {
        let ids: Vec<i64> = numbers(&input["data"]).iter().map(|&x| x as i64).collect();
        return Reference::from_i64(DType::I64, &shape(input), &ids).unwrap();
    }
    tensor(input)
}

/// The values of the fixture in the model's order: names and shapes must be the model's.
fn in_order(model: &Sequential, what: &str, all: &Value, is_state: bool) -> Params<Reference> {
    let specs = if is_state { model.state_specs() } else { model.specs() };
    matched(what, &specs, DType::F64, tensors(all), Reference::ty).unwrap()
}

fn check(name: &str, model: &Sequential, row: &Value) {
    let params = in_order(model, name, &row["params"], false);
    let mut state = in_order(model, name, &row["state"], true);
    for (at, pass) in row["passes"].as_array().unwrap().iter().enumerate() {
        let what = |value: &str| format!("{name}, pass {at}: {value}");
        let is_train = pass["train"].as_bool().unwrap();
        let mode = || if is_train { Mode::train(None) } else { Mode::Eval };
        let x = input(pass);
        let (y, after) = model.forward(&Interp, &params, &state, &x, &mode()).unwrap();
        assert_eq!(y.shape(), shape(&pass["output"]), "{}", what("output"));
        assert_close(&what("output"), &y.to_f64(), &numbers(&pass["output"]["data"]), 1e-12);
        for (name, value) in in_order(model, name, &pass["state"], true).iter() {
            assert_close(&what(name), &after.get(name).unwrap().to_f64(), &value.to_f64(), 1e-12);
        }
        if !params.is_empty() {
            let tape = Tape::new(Interp);
            let watched = params.map(|_, p| tape.watch(p.clone()));
            let constants = state.map(|_, x| tape.constant(x.clone()));
            let mode = if is_train { Mode::train(None) } else { Mode::Eval };
            let (y, _) = model.forward(&tape, &watched, &constants, &tape.constant(x), &mode).unwrap();
            let weighted = ops::mul(&tape, &y, &tape.constant(tensor(&pass["probe"]))).unwrap();
            let loss = ops::sum(&tape, &weighted, &[], false).unwrap();
            let wrt: Vec<_> = watched.values().cloned().collect();
            let expected = in_order(model, name, &pass["grads"], false);
            for (grad, (name, expected)) in tape.grad(&loss, &wrt).unwrap().iter().zip(expected.iter()) {
                let what = what(&format!("gradient of {name}"));
                assert_close(&what, &grad.value().to_f64(), &expected.to_f64(), 1e-10);
            }
        }
        state = after;
    }
}

#[test]
fn outputs_gradients_and_state_of_every_layer_are_torchs() {
    let rows = rows(include_str!("../../fixtures/layers.json"));
    assert!(rows.len() > 50);
    for row in rows {
        let name = row["name"].as_str().unwrap();
        let config: Vec<LayerConfig> = serde_json::from_value(row["config"].clone()).unwrap();
        assert_eq!(serde_json::to_value(&config).unwrap(), row["config"], "{name}");
        check(name, &Sequential::new(config).unwrap(), &row);
    }
}

/// Names of parameters within a checkpoint begin with its place.
fn renamed(all: &Value) -> Value {
    all.as_object().unwrap().iter().map(|(name, value)| (format!("0.{name}"), value.clone())).collect()
}

#[test]
fn a_checkpoint_changes_neither_outputs_nor_gradients_nor_state() {
    for mut row in rows(include_str!("../../fixtures/layers.json")) {
        let name = format!("{} in a checkpoint", row["name"].as_str().unwrap());
        let config: Vec<LayerConfig> = serde_json::from_value(row["config"].clone()).unwrap();
        let model = Sequential::new(vec![checkpoint(config)]).unwrap();
        for part in ["params", "state"] {
            row[part] = renamed(&row[part]);
        }
        for pass in row["passes"].as_array_mut().unwrap() {
            for part in ["state", "grads"] {
                if pass[part].is_object() {
                    pass[part] = renamed(&pass[part]);
                }
            }
        }
        check(&name, &model, &row);
    }
}
