use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::DType;
use lanthorn_nn::optim::{Optimizer, Updated};
use lanthorn_nn::params::{Init, ParamKind, ParamSpec};
use lanthorn_nn::{Params, Schedule};
use serde_json::Value;

use crate::{assert_close, numbers, rows};

fn first() -> [(&'static str, ParamKind, &'static [usize], &'static [f64]); 3] {
    [
        ("w", ParamKind::Weight, &[2, 3], &[0.5, -1.25, 2.0, 0.0, 0.75, -0.5]),
        ("b", ParamKind::Bias, &[3], &[0.25, -0.5, 1.0]),
        ("e", ParamKind::Embedding, &[2, 2], &[1.5, -0.25, 0.125, -2.0]),
    ]
}

/// The gradients of the fixtures.
fn gradient(name: &str, p: &Reference, step: u64) -> Reference {
    let shift = ["w", "b", "e"].iter().position(|found| *found == name).unwrap() as f64;
    let grads: Vec<f64> = p
        .to_f64()
        .iter()
        .zip(0..)
        .map(|(p, i)| 0.3 * p + 0.5 * (0.7 * step as f64 + f64::from(i) + shift).sin())
        .collect();
    Reference::from_f64(DType::F64, p.shape(), &grads).unwrap()
}

fn run(row: &Value) {
    let name = row["name"].as_str().unwrap();
    let optimizer: Optimizer = serde_json::from_value(row["optimizer"].clone()).unwrap();
    assert_eq!(serde_json::to_value(&optimizer).unwrap(), row["optimizer"], "{name}");
    optimizer.check().unwrap();
    let specs: Vec<ParamSpec> = first()
        .iter()
        .map(|(name, kind, shape, _)| ParamSpec::new(*name, shape, Init::Zeros, *kind))
        .collect();
    let value = |shape: &[usize], data: &[f64]| Reference::from_f64(DType::F64, shape, data).unwrap();
    let mut params: Params<Reference> =
        first().iter().map(|(name, _, shape, data)| ((*name).to_owned(), value(shape, data))).collect();
    let zeros = |spec: &ParamSpec| {
        let count = spec.ty(DType::F64).numel();
        Ok(value(&spec.shape, &vec![0.0; count]))
    };
    let mut slots = optimizer.slots(&specs, zeros).unwrap();
    let seen: Vec<u64> = row["steps"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).collect();
    let mut expected = row["params"].as_array().unwrap().iter();
    for step in 1..=*seen.last().unwrap() {
        let moving = specs.iter().filter(|spec| optimizer.moves(spec));
        let grads: Params<Reference> = moving
            .map(|spec| (spec.name.clone(), gradient(&spec.name, params.get(&spec.name).unwrap(), step)))
            .collect();
        let (grads, _) = optimizer.clipped(&Interp, &grads).unwrap();
        let scalars: Vec<Reference> =
            optimizer.scalars(step, row["lr"].as_f64().unwrap()).iter().map(|&x| value(&[], &[x])).collect();
        let updated = optimizer.update(&Interp, &specs, &params, &grads, &slots, &scalars).unwrap();
        Updated { params, slots } = updated;
        if seen.contains(&step) {
            let expected = expected.next().unwrap();
            for (param, found) in params.iter() {
                let what = format!("{name}, {param} after step {step}");
                let tolerance = row["tolerance"].as_f64().unwrap();
                assert_close(&what, &found.to_f64(), &numbers(&expected[param]), tolerance);
            }
        }
    }
}

#[test]
fn forty_steps_of_every_rule_are_torchs() {
    let rows = rows(include_str!("../../fixtures/optim.json"));
    assert!(rows.len() >= 17);
    rows.iter().for_each(run);
}

#[test]
fn thirty_rates_of_every_schedule_are_torchs() {
    let rows = rows(include_str!("../../fixtures/schedules.json"));
    assert!(rows.len() >= 8);
    for row in rows {
        let schedule: Schedule = serde_json::from_value(row["schedule"].clone()).unwrap();
        schedule.check().unwrap();
        let rates = numbers(&row["rates"]);
        let found: Vec<f64> = (0..rates.len() as u64).map(|step| schedule.at(step)).collect();
        assert_close(&format!("{schedule:?}"), &found, &rates, 1e-14);
    }
}
