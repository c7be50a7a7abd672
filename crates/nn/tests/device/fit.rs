//! Steps over several batches, averages, groups, the loop, and precisions, on small networks.

use lanthorn_ir::philox::Philox;
use lanthorn_ir::{DType, ErrorKind};
use lanthorn_nn::optim::{Clip, Decay, Group, Optimizer, Rule, Select};
use lanthorn_nn::sampler::Batches;
use lanthorn_nn::sequential::*;
use lanthorn_nn::trainer::{Callback, EarlyStopping, EpochReport, Every, Fit, Flow, Monitor, Stopped};
use lanthorn_nn::{
    Dataset, Evaluation, HostTensor, LayerConfig, Loss, Metric, Model, Precision, Schedule, Snapshot, Source,
    StepReport, Trainer, TrainerConfig, stack,
};
use lanthorn_runtime::CancelToken;

use crate::device;

fn never() -> CancelToken {
    CancelToken::never()
}

fn noise(shape: &[usize], seed: u64) -> HostTensor {
    let words = Philox::new(seed, 0, 3);
    let count = shape.iter().product::<usize>() as u64;
    HostTensor::from_f32(shape, (0..count).map(|i| 2.0 * words.unit(i) as f32 - 1.0)).unwrap()
}

/// Points of three classes that a line tells apart but for some noise.
fn points(count: usize, seed: u64) -> Dataset {
    let words = Philox::new(seed, 0, 4);
    let inputs = noise(&[count, 4], seed).to_f32().unwrap();
    let mut classes = Vec::new();
    let mut moved = Vec::new();
    for (row, x) in inputs.chunks(4).enumerate() {
        let class = words.below(row as u64, 3);
        classes.push(class as i64);
        moved.extend(x.iter().enumerate().map(|(at, x)| x + if at as u64 == class { 1.0 } else { 0.0 }));
    }
    let inputs = HostTensor::from_f32(&[count, 4], moved).unwrap();
    Dataset::new(inputs, HostTensor::from_i64(&[count], classes).unwrap()).unwrap()
}

fn network() -> Sequential {
    Sequential::new(stack![linear(4, 16), Activation::Gelu, linear(16, 3)]).unwrap()
}

fn config() -> TrainerConfig {
    let schedule = Schedule::Constant { lr: 0.02 };
    TrainerConfig { optimizer: Optimizer::adam(), schedule, seed: 4, ..TrainerConfig::default() }
}

fn trainer(config: TrainerConfig) -> Trainer<Sequential> {
    Trainer::new(&device(), network(), config).unwrap()
}

/// The largest difference between the tensors of two snapshots.
fn distance(x: &Snapshot, y: &Snapshot) -> f64 {
    assert!(x.tensors.keys().eq(y.tensors.keys()));
    let pairs = x.tensors.values().zip(y.tensors.values());
    let each = pairs.flat_map(|(x, y)| x.to_f64().unwrap().into_iter().zip(y.to_f64().unwrap()));
    each.fold(0.0, |most: f64, (x, y)| most.max((x - y).abs()))
}

#[test]
fn several_batches_are_one_large_batch() {
    let data = points(12, 1);
    let regression = Dataset::new(data.inputs().clone(), noise(&[12, 3], 8)).unwrap();
    let mut ignored = data.targets().bytes().to_vec();
    ignored[8 * 5..8 * 9].fill(0xff);
    let ignored = HostTensor::new(data.targets().ty().clone(), ignored).unwrap();
    let ignored = Dataset::new(data.inputs().clone(), ignored).unwrap();
    for (loss, data) in [
        (Loss::Model, &data),
        (Loss::CrossEntropy { label_smoothing: 0.1, axis: -1 }, &data),
        (Loss::cross_entropy(), &ignored),
        (Loss::Mse, &regression),
        (Loss::Huber { delta: 0.5 }, &regression),
    ] {
        let settings = TrainerConfig {
            optimizer: Optimizer::adamw()
                .clip(Clip::Norm(0.5))
                .group(Group::new(Select::Prefix("2.b".into())).frozen()),
            loss,
            precision: Precision::F64,
            ema: Some(0.9),
            ..config()
        };
        let (mut whole, mut parts) = (trainer(settings.clone()), trainer(settings));
        let batches: Vec<Dataset> = [0..4, 4..7, 7..12]
            .into_iter()
            .map(|rows| data.rows(&rows.collect::<Vec<usize>>()).unwrap())
            .collect();
        for _ in 0..5 {
            let x = whole.step(data, &never()).unwrap();
            let y = parts.step_accumulated(&batches, &never()).unwrap();
            assert_eq!((x.step, x.lr), (y.step, y.lr));
            assert!((x.loss - y.loss).abs() < 1e-12, "{loss:?}: {x:?} {y:?}");
            assert!((x.grad_norm - y.grad_norm).abs() < 1e-12, "{loss:?}: {x:?} {y:?}");
        }
        let (x, y) = (whole.snapshot().unwrap(), parts.snapshot().unwrap());
        assert!(distance(&x, &y) < 1e-12, "{loss:?}");
        assert!(distance(&x, &trainer(whole.config().clone()).snapshot().unwrap()) > 1e-3);
    }
}

#[test]
fn held_out_data_that_gives_no_number_end_the_loop_with_their_step() {
    let mut trainer = trainer(config());
    let mut broken = noise(&[3, 4], 9).to_f32().unwrap();
    broken[2] = f32::NAN;
    let broken = HostTensor::from_f32(&[3, 4], broken).unwrap();
    let broken = Dataset::new(broken, HostTensor::from_i64(&[3], [0, 1, 2]).unwrap()).unwrap();
    let fit = Fit { evaluate: Some(Every::Steps(2)), ..Fit::steps(4) };
    let mut batches = Batches::shuffled(points(12, 1), 6, 1).unwrap();
    let error = trainer.fit(&mut batches, &[broken], &fit, &mut (), &never()).unwrap_err();
    let message = "evaluate: step 2: the loss of the evaluation is NaN, which is not finite";
    assert_eq!((error.kind, error.to_string().as_str()), (ErrorKind::Execute, message));
    assert_eq!(trainer.steps_done(), 2);
}

/// The update overflows, or divides nothing by nothing, although loss and gradients are finite.
#[test]
fn an_update_that_is_not_finite_names_its_step_and_changes_nothing() {
    // Gradients of a hundred, but for the third column, which is always 0.
    let inputs = (0..12).map(|at| if at % 3 == 2 { 0.0 } else { 10.0 + at as f32 });
    let inputs = HostTensor::from_f32(&[4, 3], inputs).unwrap();
    let data = Dataset::new(inputs, HostTensor::from_f32(&[4, 1], [0.0; 4]).unwrap()).unwrap();
    let nesterov = Rule::Sgd { momentum: 0.9, dampening: 0.0, nesterov: true };
    for (optimizer, lr) in [
        (Optimizer::sgd(), 3.4e38),
        (Optimizer::momentum(0.9), 3.4e38),
        (Optimizer::new(nesterov), 3.4e38),
        (Optimizer::adamw().weight_decay(1e3), 3.4e38),
        (Optimizer::lion().weight_decay(1e3), 3.4e38),
        // `0 / (sqrt(0) + 0)`, at any rate.
        (Optimizer::new(Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 0.0 }), 1e-3),
    ] {
        let config = TrainerConfig {
            optimizer: optimizer.clone(),
            schedule: Schedule::Constant { lr },
            loss: Loss::Mse,
            ema: Some(0.5),
            seed: 4,
            ..TrainerConfig::default()
        };
        let model = Sequential::new(stack![linear(3, 1)]).unwrap();
        let mut trainer = Trainer::new(&device(), model, config).unwrap();
        let before = trainer.snapshot().unwrap();
        let message = "train: step 1: the update is not finite; the parameters are those of the step before";
        for outcome in
            [trainer.step(&data, &never()), trainer.step_accumulated(&[data.clone(), data.clone()], &never())]
        {
            let outcome = outcome.map_err(|error| (error.kind, error.to_string()));
            assert_eq!(outcome, Err((ErrorKind::Execute, message.to_string())), "{optimizer:?}");
        }
        assert!(trainer.snapshot().unwrap() == before, "{optimizer:?}");
        assert_eq!(trainer.steps_done(), 0);
    }
}

/// Parameters stay finite, for the norm divides by the root of an infinite variance.
#[test]
fn a_state_that_is_not_finite_is_not_kept() {
    let layers = stack![linear(4, 4), batch_norm(4), linear(4, 3)];
    let mut trainer = Trainer::new(&device(), Sequential::new(layers).unwrap(), config()).unwrap();
    let before = trainer.snapshot().unwrap();
    let far = noise(&[6, 4], 2).to_f32().unwrap().into_iter().map(|x| x * 1e30);
    let far = Dataset::new(HostTensor::from_f32(&[6, 4], far).unwrap(), points(6, 1).targets().clone());
    let far = far.unwrap();
    for error in [
        trainer.step(&far, &never()).unwrap_err(),
        trainer.step_accumulated(&[far.clone()], &never()).unwrap_err(),
    ] {
        assert!(
            error.to_string().contains("step 1: the") && error.to_string().contains("not finite"),
            "{error}"
        );
    }
    assert!(trainer.snapshot().unwrap() == before);
}

#[test]
fn a_part_that_is_not_finite_leaves_all_as_it_was() {
    let mut trainer = trainer(config());
    trainer.step(&points(6, 1), &never()).unwrap();
    let before = trainer.snapshot().unwrap();
    let mut broken = noise(&[3, 4], 9).to_f32().unwrap();
    broken[2] = f32::INFINITY;
    let broken = HostTensor::from_f32(&[3, 4], broken).unwrap();
    let broken = Dataset::new(broken, HostTensor::from_i64(&[3], [0, 1, 2]).unwrap()).unwrap();
    let error = trainer.step_accumulated(&[points(6, 2), broken.clone()], &never()).unwrap_err();
    let message = "train: step 2: the loss is not finite; the parameters are those of the step before";
    assert_eq!((error.kind, error.to_string().as_str()), (ErrorKind::Execute, message));
    assert_eq!(trainer.step(&broken, &never()).unwrap_err().to_string(), message);
    let none: [Dataset; 0] = [];
    assert!(trainer.step_accumulated(&none, &never()).unwrap_err().to_string().contains("no batches"));
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let error = trainer.step_accumulated(&[points(6, 2), points(6, 3)], &cancelled).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(trainer.snapshot().unwrap(), before);
    assert_eq!(trainer.step(&points(6, 2), &never()).unwrap().step, 2);
}

#[test]
fn an_average_follows_its_formula_and_is_what_is_evaluated() {
    let (data, share) = (points(16, 1), 0.8);
    let mut averaging = trainer(TrainerConfig { ema: Some(share), precision: Precision::F64, ..config() });
    let mut expected: Vec<Vec<f64>> = averaging.params().values().map(|p| p.to_f64_vec().unwrap()).collect();
    for _ in 0..7 {
        averaging.step(&data, &never()).unwrap();
        for (average, p) in expected.iter_mut().zip(averaging.params().values()) {
            for (average, p) in average.iter_mut().zip(p.to_f64_vec().unwrap()) {
                *average = share * *average + (1.0 - share) * p;
            }
        }
    }
    for (found, expected) in averaging.averaged().values().zip(&expected) {
        let distances = found.to_f64_vec().unwrap().into_iter().zip(expected).map(|(x, y)| (x - y).abs());
        assert!(distances.fold(0.0, f64::max) < 1e-14);
    }
    // A trainer whose parameters are those averages evaluates the same.
    let params = averaging.averaged().try_map(|_, p| HostTensor::from_device(p)).unwrap();
    let plain = TrainerConfig { ema: None, ..averaging.config().clone() };
    let mut plain = Trainer::from_params(&device(), network(), plain, &params).unwrap();
    let evaluate = |trainer: &mut Trainer<Sequential>| trainer.evaluate([&data], &[], &never()).unwrap().loss;
    assert_eq!(evaluate(&mut averaging), evaluate(&mut plain));
    assert_eq!(averaging.predict(data.inputs(), &never()), plain.predict(data.inputs(), &never()));

    let mut restored: Trainer<Sequential> =
        Trainer::restore(&device(), &averaging.snapshot().unwrap()).unwrap();
    restored.step(&data, &never()).unwrap();
    averaging.step(&data, &never()).unwrap();
    assert_eq!(restored.snapshot().unwrap(), averaging.snapshot().unwrap());
}

#[test]
fn frozen_parameters_stay_and_the_others_move() {
    let frozen = Group::new(Select::Prefix("0.".into())).frozen();
    for optimizer in [Optimizer::adamw().decay(Decay::All), Optimizer::momentum(0.9), Optimizer::lion()] {
        let settings =
            TrainerConfig { optimizer: optimizer.group(frozen.clone()), ema: Some(0.5), ..config() };
        let mut trainer = trainer(settings);
        let before = trainer.snapshot().unwrap();
        for _ in 0..3 {
            trainer.step(&points(8, 2), &never()).unwrap();
        }
        let after = trainer.snapshot().unwrap();
        for name in trainer.params().names() {
            let is_same =
                before.tensors[&format!("params/{name}")] == after.tensors[&format!("params/{name}")];
            assert_eq!(is_same, name.starts_with("0."), "{name}");
        }
    }
}

/// Counts what it is told, and stops after so many steps.
#[derive(Default)]
struct Counting {
    steps: Vec<u64>,
    epochs: Vec<(u64, u64)>,
    evaluations: Vec<u64>,
    stop_after: Option<u64>,
}

impl<M: Model> Callback<M> for Counting {
    fn on_step(&mut self, trainer: &Trainer<M>, report: &StepReport) -> lanthorn_ir::Result<Flow> {
        assert_eq!(trainer.steps_done(), report.step);
        self.steps.push(report.step);
        Ok(if self.stop_after == Some(report.step) { Flow::Stop } else { Flow::Continue })
    }

    fn on_epoch(&mut self, _: &Trainer<M>, report: &EpochReport) -> lanthorn_ir::Result<Flow> {
        assert!(report.loss.is_finite());
        self.epochs.push((report.epoch, report.step));
        Ok(Flow::Continue)
    }

    fn on_evaluation(&mut self, _: &Trainer<M>, evaluation: &Evaluation) -> lanthorn_ir::Result<Flow> {
        self.evaluations.push(evaluation.step);
        Ok(Flow::Continue)
    }
}

#[test]
fn a_loop_tells_of_steps_epochs_and_evaluations() {
    let mut batches = Batches::shuffled(points(20, 1), 8, 1).unwrap();
    let held_out = [points(9, 2)];
    let mut counting = Counting::default();
    let fit = Fit { evaluate: Some(Every::Steps(4)), metrics: vec![Metric::Accuracy], ..Fit::epochs(3) };
    let mut trainer = trainer(config());
    let history = trainer.fit(&mut batches, &held_out, &fit, &mut counting, &never()).unwrap();
    // Three batches an epoch, the last one of four examples.
    assert_eq!(counting.steps, (1..=9).collect::<Vec<_>>());
    assert_eq!(counting.epochs, [(1, 3), (2, 6), (3, 9)]);
    assert_eq!(counting.evaluations, [4, 8, 9]);
    assert_eq!(history.stopped, Stopped::Done);
    assert_eq!((history.steps.len(), history.evaluations.len()), (9, 3));
    let best = history.evaluations.iter().map(|found| found.loss).fold(f64::INFINITY, f64::min);
    assert_eq!(history.best.unwrap().loss, best);

    counting = Counting { stop_after: Some(11), ..Counting::default() };
    let fit = Fit { further_batches: 1, ..Fit::epochs(9) };
    let history = trainer.fit(&mut batches, &held_out, &fit, &mut counting, &never()).unwrap();
    assert_eq!((counting.steps, history.stopped), (vec![10, 11], Stopped::ByCallback));
    // Two batches, then the one that was left of the epoch.
    assert_eq!(counting.epochs, [(4, 11)]);
    assert_eq!(counting.evaluations, [11]);

    let fault = |trainer: &mut Trainer<Sequential>, fit: &Fit| {
        let mut batches = Batches::shuffled(points(20, 1), 8, 1).unwrap();
        trainer.fit(&mut batches, &held_out, fit, &mut (), &never()).unwrap_err().to_string()
    };
    assert_eq!(fault(&mut trainer, &Fit::default()), "fit: neither steps nor epochs bound the loop");
    let early = Fit { early_stopping: Some(EarlyStopping::new(2)), ..Fit::steps(99) };
    assert!(fault(&mut trainer, &early).contains("early stopping needs"));
    let unmeasured = EarlyStopping { monitor: Monitor::Metric(Metric::Accuracy), ..EarlyStopping::new(1) };
    let unmeasured =
        Fit { early_stopping: Some(unmeasured), evaluate: Some(Every::Steps(1)), ..Fit::steps(99) };
    assert!(fault(&mut trainer, &unmeasured).contains("Accuracy is watched but not measured"));
}

/// Held-out classes are turned around, so that the better the training, the worse the evaluation.
#[test]
fn early_stopping_waits_and_gives_the_best_back() {
    let data = points(24, 1);
    let turned = data.targets().bytes().chunks(8).map(|class| (i64::from(class[0]) + 1) % 3);
    let turned = HostTensor::from_i64(&[24], turned).unwrap();
    let held_out = Dataset::new(data.inputs().clone(), turned).unwrap().batches(10).unwrap();
    for (ema, monitor) in
        [(None, Monitor::Loss), (Some(0.5), Monitor::Loss), (None, Monitor::Metric(Metric::Accuracy))]
    {
        let settings = TrainerConfig { ema, ..config() };
        let mut batches = Batches::shuffled(data.clone(), 8, 1).unwrap();
        let early_stopping = EarlyStopping { monitor, ..EarlyStopping::new(3) };
        let fit = Fit {
            evaluate: Some(Every::Steps(2)),
            early_stopping: Some(early_stopping),
            metrics: vec![Metric::Accuracy],
            ..Fit::steps(1000)
        };
        let mut stopped = trainer(settings.clone());
        let history = stopped.fit(&mut batches, &held_out, &fit, &mut (), &never()).unwrap();
        assert_eq!(history.stopped, Stopped::Early);
        let best = history.best.unwrap();
        let at = history.evaluations.iter().position(|found| *found == best).unwrap();
        assert_eq!(at + 1 + 3, history.evaluations.len(), "three evaluations after the best");
        assert_eq!(stopped.steps_done(), history.steps.last().unwrap().step);
        let found = stopped.evaluate(&held_out, &[Metric::Accuracy], &never()).unwrap();
        assert_eq!((found.loss, &found.metrics), (best.loss, &best.metrics));
        // A loop that ends while it waits goes on waiting, and from where it is if it keeps that.
        let kept = EarlyStopping { restore_best: false, ..early_stopping };
        let fit = Fit { early_stopping: Some(kept), ..fit };
        let mut batches = Batches::shuffled(data.clone(), 8, 1).unwrap();
        let mut parted = trainer(settings.clone());
        let first = Fit { steps: Some(history.evaluations[at + 1].step), ..fit.clone() };
        let halt = parted.fit(&mut batches, &held_out, &first, &mut (), &never()).unwrap();
        assert_eq!((halt.stopped, halt.waiting.waited), (Stopped::Done, 1));
        let further = Fit { waiting: halt.waiting, ..fit.clone() };
        let rest = parted.fit(&mut batches, &held_out, &further, &mut (), &never()).unwrap();
        assert_eq!((rest.stopped, rest.best, rest.waiting), (Stopped::Early, None, history.waiting));
        assert_eq!(rest.evaluations, history.evaluations[at + 2..]);
        // Without it the loop ends with what it has.
        let mut batches = Batches::shuffled(data.clone(), 8, 1).unwrap();
        let mut other = trainer(settings);
        other.fit(&mut batches, &held_out, &fit, &mut (), &never()).unwrap();
        assert!(other.evaluate(&held_out, &[], &never()).unwrap().loss > best.loss);
    }
}

#[test]
fn a_loop_that_is_stopped_and_resumed_is_the_whole_loop() {
    let net = || {
        let layers = stack![linear(4, 8), batch_norm(8), Activation::Relu, dropout(0.2), linear(8, 3)];
        Sequential::new(layers).unwrap()
    };
    let settings = TrainerConfig { ema: Some(0.9), optimizer: Optimizer::lion(), ..config() };
    let batches = || Batches::shuffled(points(21, 1), 8, 7).unwrap();
    let run = |trainer: &mut Trainer<Sequential>, batches: &mut Batches, steps| {
        let none: [Dataset; 0] = [];
        trainer.fit(batches, &none, &Fit::steps(steps), &mut (), &never()).unwrap().steps
    };
    let (mut whole, mut all) = (Trainer::new(&device(), net(), settings).unwrap(), batches());
    run(&mut whole, &mut all, 4);
    let mut saved = whole.snapshot().unwrap();
    saved.insert("sampler", &all.state()).unwrap();
    let expected = run(&mut whole, &mut all, 13);

    let documents = serde_json::from_str(&serde_json::to_string(&saved.documents).unwrap()).unwrap();
    let saved = Snapshot { documents, tensors: saved.tensors };
    let mut resumed: Trainer<Sequential> = Trainer::restore(&device(), &saved).unwrap();
    let mut rest = batches().restored(saved.get("sampler").unwrap()).unwrap();
    assert_eq!(run(&mut resumed, &mut rest, 13), expected);
    assert_eq!(resumed.snapshot().unwrap(), whole.snapshot().unwrap());
}

/// Cancels what it is told of.
struct Cancelling(CancelToken, u64);

impl<M: Model> Callback<M> for Cancelling {
    fn on_step(&mut self, _: &Trainer<M>, report: &StepReport) -> lanthorn_ir::Result<Flow> {
        if report.step == self.1 {
            self.0.cancel();
        }
        Ok(Flow::Continue)
    }
}

#[test]
fn a_loop_that_is_cancelled_goes_on_as_if_nothing_had_been() {
    let settings = TrainerConfig { optimizer: Optimizer::momentum(0.9), ..config() };
    let batches = || Batches::shuffled(points(21, 1), 8, 7).unwrap();
    let none: [Dataset; 0] = [];
    for further_batches in [0, 1] {
        let fit = Fit { further_batches, ..Fit::steps(9) };
        let (mut whole, mut broken) = (trainer(settings.clone()), trainer(settings.clone()));
        let expected = whole.fit(&mut batches(), &none, &fit, &mut (), &never()).unwrap().steps;
        let (mut rest, cancel) = (batches(), CancelToken::new());
        let mut cancelling = Cancelling(cancel.clone(), 4);
        let error = broken.fit(&mut rest, &none, &fit, &mut cancelling, &cancel).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Cancelled);
        assert!(error.to_string().starts_with("train: step 5: "), "{error}");
        let found = broken.fit(&mut rest, &none, &fit, &mut (), &never()).unwrap().steps;
        assert_eq!(found, expected[4..]);
        assert_eq!(broken.snapshot().unwrap(), whole.snapshot().unwrap());
    }
}

#[test]
fn each_signature_is_compiled_once_and_old_generations_go() {
    let device = device();
    let mut trainer = Trainer::new(&device, network(), config()).unwrap();
    let data = points(20, 1);
    let batches = data.batches(8).unwrap();
    let mut round = || {
        for batch in &batches {
            trainer.step(batch, &never()).unwrap();
        }
        trainer.step_accumulated(&batches, &never()).unwrap();
        trainer.evaluate(&batches, &[Metric::Accuracy], &never()).unwrap();
    };
    round();
    let before = device.stats();
    (0..5).for_each(|_| round());
    let after = device.stats();
    // Steps, first and further gradients, evaluations of two sizes each (no first part of four), and the update.
    assert_eq!((before.compiles, after.compiles), (8, 8));
    assert_eq!((before.live_bytes, before.peak_bytes), (after.live_bytes, after.peak_bytes));
}

#[test]
fn checkpoints_take_less_memory_and_learn_the_same() {
    let run = |checkpointed: bool| {
        let block = || {
            let block =
                stack![linear(32, 32), Activation::Gelu, linear(32, 32), Activation::Tanh, dropout(0.1)];
            if checkpointed { checkpoint(block) } else { chain(block) }
        };
        let mut layers: Vec<LayerConfig> = (0..8).map(|_| block()).collect();
        layers.push(linear(32, 3));
        let device = device();
        let mut trainer = Trainer::new(&device, Sequential::new(layers).unwrap(), config()).unwrap();
        let classes = HostTensor::from_i64(&[512], (0..512).map(|i| i % 3)).unwrap();
        let data = Dataset::new(noise(&[512, 32], 3), classes).unwrap();
        let losses: Vec<f64> = (0..4).map(|_| trainer.step(&data, &never()).unwrap().loss).collect();
        (losses, device.stats().peak_bytes)
    };
    let ((kept, peak), (again, less)) = (run(false), run(true));
    let most = kept.iter().zip(&again).fold(0.0, |most: f64, (x, y)| most.max((x - y).abs()));
    assert!(most < 1e-5, "{kept:?} {again:?}");
    assert!((less as f64) < 0.6 * peak as f64, "{less} bytes with checkpoints, {peak} without");
}

/// A network of every layer that has parameters, on sequences of ids.
fn mixture() -> Sequential {
    Sequential::new(stack![
        embedding(11, 8),
        positions(6, 8),
        residual(stack![layer_norm(8), causal_attention(8, 2), dropout(0.1)]),
        checkpoint(stack![rms_norm(8), lstm(8, 8), gru(8, 8).bidirectional()]),
        reshape(&[1, 6, 16]),
        conv2d(1, 4, 3).same().without_bias(),
        batch_norm(4),
        Activation::Silu,
        max_pool2d(2),
        conv2d(4, 4, 3).same(),
        group_norm(2, 4),
        Activation::Gelu,
        avg_pool2d(3),
        Flatten,
        linear(8, 5),
    ])
    .unwrap()
}

#[test]
fn every_layer_trains_in_mixed_bf16_on_the_cpu_near_f32() {
    let words = Philox::new(2, 0, 5);
    let ids = HostTensor::from_i64(&[8, 6], (0..48).map(|i| words.below(i, 11) as i64)).unwrap();
    let classes = HostTensor::from_i64(&[8], (0..8).map(|i| words.below(100 + i, 5) as i64)).unwrap();
    let data = Dataset::new(ids, classes).unwrap();
    let run = |precision| {
        let settings = TrainerConfig {
            optimizer: Optimizer::adamw(),
            schedule: Schedule::Constant { lr: 5e-3 },
            precision,
            seed: 1,
            ..TrainerConfig::default()
        };
        let mut trainer = Trainer::new(&device(), mixture(), settings).unwrap();
        let losses: Vec<f64> = (0..40).map(|_| trainer.step(&data, &never()).unwrap().loss).collect();
        let kept = trainer.snapshot().unwrap();
        assert!(kept.tensors.values().all(|tensor| tensor.ty().dtype == DType::F32));
        (losses, trainer.evaluate([&data], &[Metric::Accuracy], &never()).unwrap())
    };
    let (single, evaluated) = run(Precision::F32);
    let (mixed, evaluated_mixed) = run(Precision::MixedBf16);
    assert!(single[39] < 0.5 * single[0], "{single:?}");
    assert!((single[0] - mixed[0]).abs() < 0.02 && single[0] != mixed[0], "{} {}", single[0], mixed[0]);
    // Over the run, losses that fall from 1.6 to 0.3 stay within 0.02 of each other.
    let most = single.iter().zip(&mixed).fold(0.0, |most: f64, (x, y)| most.max((x - y).abs()));
    assert!(most < 0.02, "{most}: {single:?} {mixed:?}");
    assert!((evaluated.loss - evaluated_mixed.loss).abs() < 0.02, "{evaluated:?} {evaluated_mixed:?}");
}

#[test]
fn metrics_are_what_their_names_say() {
    // The output is the input, so that all can be counted by hand.
    let mut trainer = Trainer::new(&device(), Sequential::new(stack![Flatten]).unwrap(), config()).unwrap();
    let logits = [
        [3.0, 1.0, 2.0],
        [0.0, 5.0, 1.0],
        [2.0, 1.0, 0.0],
        [1.0, 4.0, 3.0],
        [0.0, 1.0, 2.0],
        [9.0, 0.0, 0.0],
    ];
    let inputs = HostTensor::from_f32(&[6, 3], logits.into_iter().flatten()).unwrap();
    // Found are 0 1 0 1 2 0; the last target does not count.
    let targets = HostTensor::from_i64(&[6], [0, 1, 1, 2, 2, -1]).unwrap();
    let data = Dataset::new(inputs, targets).unwrap();
    let asked = [
        (Metric::Accuracy, 3.0 / 5.0),
        (Metric::TopK(2), 1.0),
        (Metric::TopK(1), 3.0 / 5.0),
        // Right 1 1 1 of found 2 2 1 and of actual 1 2 2.
        (Metric::Precision(3), (0.5 + 0.5 + 1.0) / 3.0),
        (Metric::Recall(3), (1.0 + 0.5 + 0.5) / 3.0),
        (Metric::F1(3), (2.0 / 3.0 + 0.5 + 2.0 / 3.0) / 3.0),
    ];
    let metrics = asked.map(|(metric, _)| metric);
    for rows in [6, 4, 1] {
        let found = trainer.evaluate(data.batches(rows).unwrap(), &metrics, &never()).unwrap();
        for (metric, expected) in asked {
            let value = found.metric(metric).unwrap();
            assert!(
                (value - expected).abs() < 1e-6,
                "{metric:?} in batches of {rows}: {value}, not {expected}"
            );
        }
    }
    let inputs = HostTensor::from_f32(&[4, 1], [1.0, -2.0, 3.0, 0.5]).unwrap();
    let targets = HostTensor::from_f32(&[4, 1], [1.0, 0.0, 1.0, 0.0]).unwrap();
    let data = Dataset::new(inputs, targets).unwrap();
    let asked = [
        (Metric::BinaryAccuracy, 0.75),
        (Metric::MeanSquaredError, (0.0 + 4.0 + 4.0 + 0.25) / 4.0),
        (Metric::MeanAbsoluteError, (0.0 + 2.0 + 2.0 + 0.5) / 4.0),
        (Metric::R2, 1.0 - 8.25 / 1.0),
    ];
    let settings = TrainerConfig { loss: Loss::Mse, ..config() };
    let mut trainer = Trainer::new(&device(), Sequential::new(stack![Flatten]).unwrap(), settings).unwrap();
    for rows in [4, 3] {
        let found = trainer
            .evaluate(data.batches(rows).unwrap(), &asked.map(|(metric, _)| metric), &never())
            .unwrap();
        assert!((found.loss - 8.25 / 4.0).abs() < 1e-6);
        for (metric, expected) in asked {
            let value = found.metric(metric).unwrap();
            assert!(
                (value - expected).abs() < 1e-6,
                "{metric:?} in batches of {rows}: {value}, not {expected}"
            );
        }
    }
    let error = trainer.evaluate([&data], &[Metric::Accuracy], &never()).unwrap_err();
    assert!(error.to_string().contains("expected integers"), "{error}");
    let none: [Dataset; 0] = [];
    assert!(trainer.evaluate(none, &[], &never()).is_err());
    // Classes that do not lie on the last axis are no classes of a metric.
    let settings = TrainerConfig { loss: Loss::CrossEntropy { label_smoothing: 0.0, axis: 1 }, ..config() };
    let mut trainer =
        Trainer::new(&device(), Sequential::new(stack![Activation::Tanh]).unwrap(), settings).unwrap();
    let targets = HostTensor::from_i64(&[2, 5], [0; 10]).unwrap();
    let data = Dataset::new(noise(&[2, 3, 5], 1), targets).unwrap();
    let error = trainer.evaluate([&data], &[Metric::Accuracy], &never()).unwrap_err();
    assert_eq!(error.to_string(), "metric: the targets are of shape [2, 5], expected [2, 3] by the output");
}

#[test]
fn a_checkpoint_of_the_first_form_is_read() {
    let trained = trainer(TrainerConfig { optimizer: Optimizer::adamw(), ..config() });
    let mut saved = trained.snapshot().unwrap();
    let first = r#"{"config":{"optimizer":{"beta1":0.9,"beta2":0.99,"eps":1e-8,"weight_decay":0.2,"decay":"weights",
        "clip_norm":1.0},"schedule":{"cosine":{"peak":0.001,"floor":0.0001,"warmup":5,"total":50}},"seed":7,
        "dtype":"F32"},"step":12}"#;
    saved.documents.insert("trainer".into(), serde_json::from_str(first).unwrap());
    let restored: Trainer<Sequential> = Trainer::restore(&device(), &saved).unwrap();
    let expected = TrainerConfig {
        optimizer: Optimizer::language_model().weight_decay(0.2),
        schedule: Schedule::Cosine { peak: 0.001, floor: 0.0001, warmup: 5, total: 50 },
        seed: 7,
        ..TrainerConfig::default()
    };
    assert_eq!((restored.config(), restored.steps_done()), (&expected, 12));
}

#[test]
fn settings_that_are_no_settings_are_refused() {
    let fault = |settings| Trainer::new(&device(), network(), settings).unwrap_err().to_string();
    let ema = TrainerConfig { ema: Some(1.0), ..config() };
    assert_eq!(fault(ema), "ema: the share is 1, expected 0 to below 1");
    let schedule = Schedule::Stepwise { lr: 0.1, factor: 0.5, every: 0 };
    assert!(fault(TrainerConfig { schedule, ..config() }).starts_with("schedule: the rate changes every 0"));
    let layers = |layers| Sequential::new(layers).unwrap_err().to_string();
    assert_eq!(
        layers(stack![linear(1, 2), residual(stack![group_norm(3, 4)])]),
        "group_norm: 1.0: 3 groups do not divide 4 channels"
    );
    assert!(layers(stack![conv2d(3, 4, 3).groups(2)]).starts_with("conv: 0: 2 groups do not divide"));
    assert!(layers(stack![lstm(3, 4).layers(0)]).starts_with("recurrent: 0: layers is 0"));
    assert!(layers(stack![attention(5, 2)]).contains("2 heads do not divide the width 5"));
    assert!(layers(stack![dropout(1.0)]).contains("the probability is 1"));
    let mut mismatched =
        Trainer::new(&device(), Sequential::new(stack![residual(stack![linear(4, 3)])]).unwrap(), config())
            .unwrap();
    let error = mismatched.step(&points(4, 1), &never()).unwrap_err().to_string();
    assert!(error.starts_with("train: step 1: residual: the layer makes f32[4, 3] of f32[4, 4]"), "{error}");
}
