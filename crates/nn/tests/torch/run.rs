use lanthorn_cpu::CpuBackend;
use lanthorn_ir::DType;
use lanthorn_nn::optim::{Decay, Optimizer, Rule};
use lanthorn_nn::{
    Dataset, HostTensor, Metric, Params, Precision, Schedule, Sequential, Snapshot, Trainer, TrainerConfig,
};
use lanthorn_runtime::{CancelToken, Device};
use serde_json::Value;

use crate::{assert_close, numbers, rows, shape};

fn host(tensor: &Value, dtype: DType) -> HostTensor {
    HostTensor::from_f64(dtype, &shape(tensor), numbers(&tensor["data"]).into_iter()).unwrap()
}

fn config(precision: Precision) -> TrainerConfig {
    let rule = Rule::Sgd { momentum: 0.9, dampening: 0.0, nesterov: true };
    TrainerConfig {
        optimizer: Optimizer::new(rule).weight_decay(0.01).decay(Decay::All),
        schedule: Schedule::Exponential { lr: 0.1, rate: 0.95, every: 1 },
        precision,
        ..TrainerConfig::default()
    }
}

struct Run {
    trainer: Trainer<Sequential>,
    data: Dataset,
    losses: Vec<f64>,
    norms: Vec<f64>,
}

/// The fixture's run on the CPU.
fn run(row: &Value, precision: Precision) -> Run {
    let device = Device::new(std::sync::Arc::new(CpuBackend));
    let model = Sequential::new(serde_json::from_value(row["config"].clone()).unwrap()).unwrap();
    let first = row["params"].as_object().unwrap().iter();
    let first: Params<HostTensor> = first.map(|(n, p)| (n.clone(), host(p, precision.kept()))).collect();
    let classes = numbers(&row["classes"]).into_iter().map(|x| x as i64);
    let classes = HostTensor::from_i64(&[12], classes).unwrap();
    let data = Dataset::new(host(&row["images"], precision.kept()), classes).unwrap();
    let batches = data.batches(4).unwrap();
    let mut trainer = Trainer::from_params(&device, model, config(precision), &first).unwrap();
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for step in 0..24 {
        let report = trainer.step(&batches[step % 3], &CancelToken::never()).unwrap();
        losses.push(report.loss);
        norms.push(report.grad_norm);
    }
    Run { trainer, data, losses, norms }
}

#[test]
fn a_network_with_batch_norm_trains_and_evaluates_as_torchs_does() {
    let rows = rows(include_str!("../../fixtures/run.json"));
    let row = &rows[0];
    let Run { mut trainer, data, losses, norms } = run(row, Precision::F64);
    assert_close("losses", &losses, &numbers(&row["losses"]), 1e-11);
    assert_close("norms", &norms, &numbers(&row["norms"]), 1e-10);
    let Snapshot { tensors, .. } = trainer.snapshot().unwrap();
    for (group, part) in [("params", "after"), ("state", "state")] {
        for (name, expected) in row[part].as_object().unwrap() {
            let found = tensors[&format!("{group}/{name}")].to_f64().unwrap();
            assert_close(name, &found, &numbers(&expected["data"]), 1e-10);
        }
    }
    let (never, expected) = (CancelToken::never(), &row["evaluation"]);
    // However the examples are batched.
    for rows in [12, 5, 1] {
        let found = trainer.evaluate(data.batches(rows).unwrap(), &[Metric::Accuracy], &never).unwrap();
        assert_close("loss", &[found.loss], &[expected["loss"].as_f64().unwrap()], 1e-11);
        assert_eq!(found.metric(Metric::Accuracy), expected["accuracy"].as_f64());
    }
    let logits = trainer.predict(data.inputs(), &never).unwrap();
    assert_close("logits", &logits.to_f64().unwrap(), &numbers(&expected["logits"]["data"]), 1e-10);
}

#[test]
fn single_precision_and_mixed_bf16_stay_within_their_distance_of_it() {
    let rows = rows(include_str!("../../fixtures/run.json"));
    let expected = numbers(&rows[0]["losses"]);
    let single = run(&rows[0], Precision::F32);
    assert_close("f32", &single.losses, &expected, 1e-4);
    let mixed = run(&rows[0], Precision::MixedBf16);
    // Losses go from 1.9 to 0.2; each is within 0.04 of its.
    assert_close("mixed bf16", &mixed.losses, &expected, 0.02);
    assert_ne!(mixed.losses, single.losses);
    for tensor in mixed.trainer.snapshot().unwrap().tensors.values() {
        assert_eq!(tensor.ty().dtype, DType::F32, "parameters, velocity and statistics stay in f32");
    }
}
