//! Checkpoints whose documents are not what anybody meant: every value changed.

use lanthorn_nn::{Gpt, Snapshot, Trainer};
use lanthorn_runtime::CancelToken;
use serde_json::{Value, json};

use crate::{config, device, sampler, tiny};

fn paths(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    found.push(path.clone());
    let mut within = |step: String, value: &Value| {
        path.push(step);
        paths(value, path, found);
        path.pop();
    };
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(at, value)| within(at.to_string(), value)),
        Value::Object(object) => object.iter().for_each(|(name, value)| within(name.clone(), value)),
        _ => {}
    }
}

fn with(mut value: Value, path: &[String], other: Value) -> Value {
    let place = path.iter().fold(&mut value, |value, step| match value {
        Value::Array(list) => &mut list[step.parse::<usize>().unwrap()],
        object => &mut object[step.as_str()],
    });
    *place = other;
    value
}

/// What restores trains or fails, and neither panics.
#[test]
fn documents_of_any_kind_make_a_trainer_or_an_error() {
    let mut trainer = Trainer::new(&device(), Gpt::new(tiny(0.1)).unwrap(), config()).unwrap();
    let batch = sampler().next_batch(2).unwrap();
    trainer.step(&batch, &CancelToken::never()).unwrap();
    let good = trainer.snapshot().unwrap();
    let others = [0, 1, 3, 1 << 31, 1 << 40, 1 << 62, u64::MAX].map(Value::from).into_iter().chain([
        json!(-1),
        json!(1e308),
        json!(1e-300),
        json!(0.5),
        Value::Null,
        json!(true),
        json!("x"),
        json!([]),
        json!([1]),
        json!({}),
    ]);
    let others: Vec<Value> = others.collect();
    // What restores is trained by one of a device, since a program is compiled for each.
    let device = device();
    let (mut restored, mut refused) = (0, 0);
    for name in ["model", "trainer"] {
        let document = &good.documents[name];
        let mut places = Vec::new();
        paths(document, &mut Vec::new(), &mut places);
        for (place, other) in places.iter().flat_map(|place| others.iter().map(move |other| (place, other))) {
            let mut snapshot: Snapshot = good.clone();
            snapshot.documents.insert(name.to_owned(), with(document.clone(), place, other.clone()));
            match Trainer::<Gpt>::restore(&device, &snapshot) {
                Ok(mut trainer) => {
                    restored += 1;
                    let _ = trainer.step(&batch, &CancelToken::never());
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.message.is_empty(), "{place:?} = {other}");
                }
            }
        }
    }
    assert!(restored > 20 && refused > 200, "{restored} {refused}");
}

#[test]
fn a_list_is_no_document() {
    let trainer = Trainer::new(&device(), Gpt::new(tiny(0.0)).unwrap(), config()).unwrap();
    let mut snapshot = trainer.snapshot().unwrap();
    snapshot.documents.insert("trainer".into(), json!([snapshot.documents["trainer"]["config"], 3]));
    let error = Trainer::<Gpt>::restore(&device(), &snapshot).unwrap_err().to_string();
    assert!(error.contains("document `trainer`: a list stands where an object is expected"), "{error}");
}
