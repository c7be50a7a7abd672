use lanthorn_ir::{DType, ErrorKind};
use lanthorn_nn::optim::{Group, Select};
use lanthorn_nn::{
    Batch, Gpt, GptConfig, HostTensor, Model, Optimizer, Precision, SamplerState, Schedule, Snapshot,
    StepReport, Trainer, TrainerConfig, WindowSampler,
};
use lanthorn_runtime::{CancelToken, Device};

use crate::{config, device, sampler, tiny, tokens};

fn trainer(device: &Device, dropout: f64, config: TrainerConfig) -> Trainer<Gpt> {
    Trainer::new(device, Gpt::new(tiny(dropout)).unwrap(), config).unwrap()
}

fn run(trainer: &mut Trainer<Gpt>, sampler: &mut WindowSampler, steps: usize) -> Vec<StepReport> {
    (0..steps)
        .map(|_| trainer.step(&sampler.next_batch(4).unwrap(), &CancelToken::never()).unwrap())
        .collect()
}

/// Through text, as a checkpoint does it.
fn through_text(snapshot: &Snapshot) -> Snapshot {
    let documents = serde_json::to_string(&snapshot.documents).unwrap();
    Snapshot { documents: serde_json::from_str(&documents).unwrap(), tensors: snapshot.tensors.clone() }
}

#[test]
fn a_resumed_run_is_the_whole_run_bit_for_bit() {
    for dropout in [0.0, 0.1] {
        let (device, mut sampler) = (device(), sampler());
        let mut whole = trainer(&device, dropout, config());
        let mut expected = run(&mut whole, &mut sampler, 5);
        let mut saved = whole.snapshot().unwrap();
        saved.insert("sampler", &sampler.state()).unwrap();
        expected.extend(run(&mut whole, &mut sampler, 30));

        let device = self::device();
        let restored = through_text(&saved);
        let state: SamplerState = restored.get("sampler").unwrap();
        let mut sampler = WindowSampler::restore(tokens(), 8, state).unwrap();
        let mut resumed: Trainer<Gpt> = Trainer::restore(&device, &restored).unwrap();
        assert_eq!(resumed.steps_done(), 5);
        assert_eq!(run(&mut resumed, &mut sampler, 30), expected[5..]);
        assert_eq!(resumed.snapshot().unwrap(), whole.snapshot().unwrap());
        assert!(sampler.state().epoch > 0, "the run goes on into another epoch");
    }
}

#[test]
fn reports_say_step_and_rate_and_the_loss_falls() {
    let mut trainer = trainer(&device(), 0.0, config());
    let reports = run(&mut trainer, &mut sampler(), 60);
    assert!(reports.iter().map(|report| report.step).eq(1..=60));
    let rates = (0..60).map(|step| config().schedule.at(step));
    assert!(reports.iter().map(|report| report.lr).eq(rates));
    assert!((reports[0].loss - 13f64.ln()).abs() < 0.1, "{}", reports[0].loss);
    assert!(reports[59].loss < 0.85 * reports[0].loss, "{} to {}", reports[0].loss, reports[59].loss);
}

#[test]
fn a_tiny_gpt_learns_a_sentence_by_heart() {
    let text = "the quick brown fox jumps over it";
    let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
    let gpt = GptConfig { vocab: 128, context: 32, layers: 1, width: 32, heads: 2, ..tiny(0.0) };
    let settings = TrainerConfig { schedule: Schedule::Constant { lr: 1e-2 }, ..config() };
    let mut trainer = Trainer::new(&device(), Gpt::new(gpt).unwrap(), settings).unwrap();
    let mut sampler = WindowSampler::new(tokens, 32, 0).unwrap();
    let mut loss = f64::NAN;
    for _ in 0..80 {
        loss = trainer.step(&sampler.next_batch(1).unwrap(), &CancelToken::never()).unwrap().loss;
    }
    assert!(loss < 0.05, "{loss}");
}

#[test]
fn nothing_is_compiled_twice_and_memory_does_not_grow() {
    let device = device();
    let (mut trainer, mut sampler) = (trainer(&device, 0.1, config()), sampler());
    run(&mut trainer, &mut sampler, 2);
    let before = device.stats();
    run(&mut trainer, &mut sampler, 5);
    let after = device.stats();
    assert_eq!((before.compiles, after.compiles), (1, 1));
    assert_eq!((before.live_bytes, before.peak_bytes), (after.live_bytes, after.peak_bytes));
    assert_eq!(before.allocations, after.allocations);
}

#[test]
fn a_loss_that_is_not_finite_names_its_step_and_changes_nothing() {
    let settings = TrainerConfig { schedule: Schedule::Constant { lr: 1e30 }, ..config() };
    let (mut trainer, mut sampler) = (trainer(&device(), 0.0, settings), sampler());
    run(&mut trainer, &mut sampler, 1);
    let before = trainer.snapshot().unwrap();
    let error = trainer.step(&sampler.next_batch(4).unwrap(), &CancelToken::never()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Execute);
    let message = error.to_string();
    assert_eq!(message, "train: step 2: the loss is not finite; the parameters are those of the step before");
    assert_eq!(trainer.snapshot().unwrap(), before);
    assert_eq!(trainer.steps_done(), 1);
}

/// A bold step is computed by another program, which must not be another step.
#[test]
fn a_step_that_is_looked_at_is_the_same_step() {
    let outcome = |lr: f64| {
        let still = Group::new(Select::Names(vec!["ln_f.weight".into()])).lr(lr).frozen();
        let settings = TrainerConfig { optimizer: Optimizer::language_model().group(still), ..config() };
        let (mut trainer, mut sampler) = (trainer(&device(), 0.1, settings), sampler());
        let reports = run(&mut trainer, &mut sampler, 4);
        (reports, trainer.snapshot().unwrap().tensors)
    };
    // What is frozen has no learning rate, yet one of 1e30 makes the whole step one that is looked at.
    assert!(outcome(1.0) == outcome(1e30));
}

#[test]
fn a_learning_rate_that_is_infinite_in_the_dtype_is_refused() {
    let make = |lr, precision| {
        let settings = TrainerConfig { schedule: Schedule::Constant { lr }, precision, ..config() };
        Trainer::new(&device(), Gpt::new(tiny(0.0)).unwrap(), settings)
    };
    let error = make(1e60, Precision::F32).unwrap_err().to_string();
    let expected =
        "schedule: a learning rate is 1e60, which is infinite in f32; at most 3.4e38 would be right";
    assert_eq!(error, expected);
    assert!(make(1e60, Precision::MixedBf16).is_err() && make(1e60, Precision::F64).is_ok());
    // One that grows beyond it is refused when it does.
    let schedule = Schedule::Exponential { lr: 1e-3, rate: 1e30, every: 1 };
    let settings = TrainerConfig { optimizer: Optimizer::lion(), schedule, ..config() };
    let (mut trainer, mut sampler) = (trainer(&device(), 0.0, settings), sampler());
    run(&mut trainer, &mut sampler, 1);
    let mut refused = Ok(());
    while refused.is_ok() {
        refused = trainer.step(&sampler.next_batch(4).unwrap(), &CancelToken::never()).map(|_| ());
    }
    assert!(trainer.steps_done() < 3);
    let finite = |tensor: &HostTensor| tensor.to_f64().unwrap().iter().all(|x| x.is_finite());
    assert!(trainer.snapshot().unwrap().tensors.values().all(finite));
}

#[test]
fn a_traced_trainer_names_the_op_and_learns_the_same() {
    let device = device();
    let mut traced = trainer(&device, 0.1, config());
    device.set_trace_non_finite(true);
    let reports = run(&mut traced, &mut sampler(), 3);
    assert_eq!(reports, run(&mut trainer(&self::device(), 0.1, config()), &mut sampler(), 3));

    let settings = TrainerConfig { schedule: Schedule::Constant { lr: 1e30 }, ..config() };
    let (mut trainer, mut sampler) = (trainer(&device, 0.0, settings), sampler());
    run(&mut trainer, &mut sampler, 1);
    let before = trainer.snapshot().unwrap();
    let error = trainer.step(&sampler.next_batch(4).unwrap(), &CancelToken::never()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("train: step 2: matmul: gave inf at [0, 0] of result 0, f32[32, 48]"),
        "{message}"
    );
    assert!(message.contains("from operand 0: f32[32, 16] of -"), "{message}");
    assert_eq!(trainer.snapshot().unwrap(), before);
}

#[test]
fn a_cancelled_step_changes_nothing_and_can_be_done_again() {
    let (mut trainer, mut sampler) = (trainer(&device(), 0.0, config()), sampler());
    run(&mut trainer, &mut sampler, 1);
    let before = trainer.snapshot().unwrap();
    let batch = sampler.next_batch(4).unwrap();
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let error = trainer.step(&batch, &cancelled).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert!(error.to_string().starts_with("train: step 2: "), "{error}");
    assert_eq!(trainer.snapshot().unwrap(), before);
    assert_eq!(trainer.step(&batch, &CancelToken::never()).unwrap().step, 2);
}

#[test]
fn a_token_that_the_model_does_not_know_changes_nothing() {
    let mut trainer = trainer(&device(), 0.0, config());
    let before = trainer.snapshot().unwrap();
    for (id, target) in [(13, 0), (-1, 0), (0, 13)] {
        let batch = Batch { rows: 1, context: 2, ids: vec![id, 0], targets: vec![target, 0] };
        let error = trainer.step(&batch, &CancelToken::never()).unwrap_err();
        assert!(error.to_string().starts_with("train: step 1: "), "{error}");
        assert_eq!(trainer.snapshot().unwrap(), before, "{id} {target}");
    }
    let batch = Batch { rows: 2, context: 2, ids: vec![0; 3], targets: vec![0; 4] };
    assert_eq!(trainer.step(&batch, &CancelToken::never()).unwrap_err().kind, ErrorKind::Shape);
    let batch = Batch { rows: 1, context: 9, ids: vec![0; 9], targets: vec![0; 9] };
    let error = trainer.step(&batch, &CancelToken::never()).unwrap_err();
    assert_eq!(error.to_string(), "train: step 1: gpt: 9 tokens exceed the context of 8");
}

#[test]
fn evaluation_is_the_mean_over_all_targets_however_they_are_batched() {
    let mut trainer = trainer(&device(), 0.5, config());
    run(&mut trainer, &mut sampler(), 3);
    let (tokens, never) = (tokens(), CancelToken::never());
    let before = trainer.snapshot().unwrap();
    let mut evaluate = |rows, windows| {
        let batches = Batch::covering(&tokens[..53], 8, rows, windows).unwrap();
        trainer.evaluate(batches, &[], &never).unwrap().loss
    };
    let whole = evaluate(1, usize::MAX);
    for rows in [2, 3, 7, 9] {
        let loss = evaluate(rows, usize::MAX);
        assert!((loss - whole).abs() < 1e-5 * whole, "{rows} rows: {loss} and {whole}");
    }
    assert_ne!(evaluate(2, 3), whole);
    assert_eq!(trainer.snapshot().unwrap(), before);

    // The same on the reference backend.
    let (model, params) = before.model::<Gpt>().unwrap();
    let params = params.map(|_, p| {
        let elements = p.to_f64().unwrap();
        lanthorn_interp::HostTensor::from_f64(DType::F64, &p.ty().shape, &elements).unwrap()
    });
    let (mut total, interp) = (0.0, lanthorn_interp::Interp);
    for start in (0..52).step_by(8) {
        let count = (52 - start).min(8);
        let ids = |from: usize| {
            let ids: Vec<i64> = tokens[from..from + count].iter().map(|&token| token.into()).collect();
            lanthorn_interp::HostTensor::from_i64(DType::I32, &[1, count], &ids).unwrap()
        };
        let (mode, state) = (lanthorn_nn::Mode::Eval, lanthorn_nn::Params::new());
        let reduction = lanthorn_ir::ops::Reduction::Sum;
        let loss = model.loss(&interp, &params, &state, &ids(start), &ids(start + 1), &mode, reduction);
        total += loss.unwrap().0.to_f64()[0];
    }
    assert!((total / 52.0 - whole).abs() < 1e-5 * whole, "{} and {whole}", total / 52.0);
}

#[test]
fn a_snapshot_of_something_else_is_refused() {
    let device = device();
    let good = trainer(&device, 0.0, config()).snapshot().unwrap();
    let fault = |snapshot: &Snapshot| Trainer::<Gpt>::restore(&device, snapshot).unwrap_err().to_string();

    let mut bad = good.clone();
    bad.documents.shift_remove("trainer");
    assert_eq!(fault(&bad), "checkpoint: document `trainer`: there is no such document");
    let mut bad = good.clone();
    bad.tensors.shift_remove("optim/v/wpe.weight");
    assert_eq!(fault(&bad), "checkpoint optim/v: there is no wpe.weight, which the model needs");
    let mut bad = good.clone();
    bad.insert("model", &GptConfig { width: 32, ..tiny(0.0) }).unwrap();
    assert!(fault(&bad).contains("expected f32[13, 32]"), "{}", fault(&bad));
    let mut bad = good;
    bad.insert("model", &GptConfig { heads: 5, ..tiny(0.0) }).unwrap();
    assert_eq!(fault(&bad), "self_attention: 5 heads do not divide the width 16");
}

#[test]
fn double_precision_trains_too() {
    let settings = TrainerConfig { precision: Precision::F64, ..config() };
    let mut double = trainer(&device(), 0.0, settings);
    let mut single = trainer(&device(), 0.0, config());
    let (x, y) = (run(&mut double, &mut sampler(), 3), run(&mut single, &mut sampler(), 3));
    assert!(x.iter().zip(&y).all(|(x, y)| (x.loss - y.loss).abs() < 1e-4 && x.loss != y.loss), "{x:?} {y:?}");
}

#[test]
fn a_gpt_trains_in_mixed_bf16_near_f32() {
    let settings = TrainerConfig { precision: Precision::MixedBf16, ..config() };
    let (mut mixed, mut single) = (trainer(&device(), 0.1, settings), trainer(&device(), 0.1, config()));
    let (x, y) = (run(&mut mixed, &mut sampler(), 40), run(&mut single, &mut sampler(), 40));
    let most = x.iter().zip(&y).fold(0.0, |most: f64, (x, y)| most.max((x.loss - y.loss).abs()));
    assert!(most < 0.03 && x[39].loss != y[39].loss, "{most}");
    assert!(x[39].loss < 0.9 * x[0].loss, "{} to {}", x[0].loss, x[39].loss);
    assert!(mixed.params().values().all(|p| p.dtype() == DType::F32));
}
