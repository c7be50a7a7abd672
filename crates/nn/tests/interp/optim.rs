use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::transform::{Tape, Tracked};
use lanthorn_ir::{DType, Lazy, Value};
use lanthorn_nn::optim::{Clip, Decay, Group, Optimizer, Rule, Select};
use lanthorn_nn::params::{Init, ParamKind, ParamSpec};
use lanthorn_nn::step::{Held, Inputs, StepOutputs, Task};
use lanthorn_nn::{Gpt, GptConfig, Loss, Model, Params, Precision};

use crate::support::{held, inputs, key, scalar, scalars, shaken, tiny};

#[test]
fn decay_chooses_by_kind_and_groups_by_name() {
    let moved = |optimizer: Optimizer| {
        let kinds = [ParamKind::Weight, ParamKind::Embedding, ParamKind::Bias, ParamKind::Norm];
        let specs: Vec<ParamSpec> =
            kinds.iter().map(|kind| ParamSpec::new(format!("{kind:?}"), &[], Init::Ones, *kind)).collect();
        let all = |x| specs.iter().map(|s| (s.name.clone(), scalar(x, DType::F64))).collect::<Params<_>>();
        let slots = optimizer.slots(&specs, |_| Ok(scalar(0.0, DType::F64))).unwrap();
        let scalars = scalars(&optimizer, 1, 0.1, DType::F64);
        let updated = optimizer.update(&Interp, &specs, &all(1.0), &all(0.0), &slots, &scalars).unwrap();
        updated.params.values().map(|p| p.to_f64()[0]).collect::<Vec<_>>()
    };
    let adamw = || Optimizer::adamw().weight_decay(0.5);
    assert_eq!(moved(adamw()), [0.95, 1.0, 1.0, 1.0]);
    assert_eq!(moved(adamw().decay(Decay::WeightsAndEmbeddings)), [0.95, 0.95, 1.0, 1.0]);
    assert_eq!(moved(adamw().decay(Decay::All)), [0.95; 4]);
    let group = |select| Group::new(select).weight_decay(1.0).lr(2.0);
    let named = Select::Names(vec!["Bias".into(), "Norm".into()]);
    assert_eq!(moved(adamw().group(group(named))), [0.95, 1.0, 0.8, 0.8]);
    let first = group(Select::Prefix("Wei".into())).frozen();
    let grouped = adamw().decay(Decay::All).group(first).group(group(Select::Kind(ParamKind::Weight)));
    assert_eq!(moved(grouped), [1.0, 0.95, 0.95, 0.95]);
}

#[test]
fn clipping_scales_all_gradients_by_one_factor() {
    let clipped = |clip, x: f64, y: f64| {
        let optimizer = Optimizer::sgd().clip(clip);
        let grads: Params<Reference> =
            [("a".to_owned(), scalar(x, DType::F64)), ("b".to_owned(), scalar(y, DType::F64))]
                .into_iter()
                .collect();
        let (grads, norm) = optimizer.clipped(&Interp, &grads).unwrap();
        (grads.into_values().map(|g| g.to_f64()[0]).collect::<Vec<_>>(), norm.to_f64()[0])
    };
    let (grads, norm) = clipped(Clip::Norm(1.0), 3.0, -4.0);
    assert!((norm - 5.0).abs() < 1e-15 && (grads[0] - 0.6).abs() < 1e-15 && (grads[1] + 0.8).abs() < 1e-15);
    assert_eq!(clipped(Clip::Norm(1.0), 0.3, 0.4), (vec![0.3, 0.4], 0.5));
    assert_eq!(clipped(Clip::Norm(1.0), 0.0, 0.0), (vec![0.0, 0.0], 0.0));
    assert!(clipped(Clip::Norm(1.0), f64::NAN, 1.0).1.is_nan());
    assert_eq!(clipped(Clip::Value(3.5), 3.0, -4.0), (vec![3.0, -3.5], 5.0));
    assert!(clipped(Clip::Value(3.5), f64::NAN, 1.0).0[0].is_nan());
}

#[test]
fn settings_that_are_no_settings_are_refused() {
    let fault = |optimizer: Optimizer| optimizer.check().unwrap_err().to_string();
    let adamw = |beta1, beta2, eps| Optimizer::new(Rule::AdamW { beta1, beta2, eps });
    assert_eq!(fault(adamw(1.0, 0.9, 1e-8)), "adamw: beta1 is 1, expected 0 to below 1");
    assert_eq!(fault(adamw(0.9, -0.1, 1e-8)), "adamw: beta2 is -0.1, expected 0 to below 1");
    assert_eq!(fault(adamw(0.9, 0.9, f64::NAN)), "adamw: eps is NaN, expected a finite number of at least 0");
    assert_eq!(
        fault(Optimizer::lion().weight_decay(-1.0)),
        "lion: weight_decay is -1, expected a finite number of at least 0"
    );
    assert_eq!(
        fault(Optimizer::sgd().clip(Clip::Norm(0.0))),
        "sgd: clip is 0, expected a finite number above 0"
    );
    assert_eq!(fault(Optimizer::momentum(1.0)), "sgd: momentum is 1, expected 0 to below 1");
    let nesterov = Optimizer::new(Rule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: true });
    assert!(fault(nesterov).contains("Nesterov"));
    let group = Group::new(Select::Kind(ParamKind::Norm));
    assert!(fault(Optimizer::adam().group(group.clone().lr(f64::INFINITY))).starts_with("adam: lr is inf"));
    assert!(
        fault(Optimizer::adam().group(group.weight_decay(-0.5))).starts_with("adam: weight_decay is -0.5")
    );
}

fn task<'a>(gpt: &'a Gpt, specs: &'a [ParamSpec], optimizer: &'a Optimizer) -> Task<'a, Gpt> {
    Task { model: gpt, specs, loss: Loss::Model, precision: Precision::F64, optimizer, ema: None }
}

/// A step on a tape of the reference backend.
fn eager_step(
    task: &Task<'_, Gpt>,
    held: &Held<Reference>,
    inputs: &Inputs<Reference>,
    scalars: &[Reference],
) -> StepOutputs<Reference> {
    let tape = Tape::new(Interp);
    let constant = |x: &Reference| tape.constant(x.clone());
    let mut watched = held.try_map(|x| Ok(constant(x))).unwrap();
    watched.params = held.params.map(|_, p| tape.watch(p.clone()));
    let inputs = Inputs {
        input: constant(&inputs.input),
        targets: constant(&inputs.targets),
        key: inputs.key.as_ref().map(constant),
    };
    let scalars: Vec<_> = scalars.iter().map(constant).collect();
    let out = task.step(&tape, &watched, &inputs, &scalars).unwrap();
    StepOutputs {
        held: out.held.try_map(|x: &Tracked<Reference>| Ok(x.value().clone())).unwrap(),
        loss: out.loss.into_value(),
        grad_norm: out.grad_norm.into_value(),
    }
}

/// The graph of a step, as the compiler gets it, evaluated.
fn lazy_step(
    task: &Task<'_, Gpt>,
    held: &Held<Reference>,
    inputs: &Inputs<Reference>,
    scalars: &[Reference],
) -> Vec<Reference> {
    let mut bindings = Vec::new();
    let mut leaf = |x: &Reference| {
        let leaf = Value::leaf(x.ty().clone()).unwrap();
        bindings.push((leaf.clone(), x.clone()));
        leaf
    };
    let held = held.try_map(|x| Ok(leaf(x))).unwrap();
    let inputs = Inputs {
        input: leaf(&inputs.input),
        targets: leaf(&inputs.targets),
        key: inputs.key.as_ref().map(&mut leaf),
    };
    let scalars: Vec<Value> = scalars.iter().map(&mut leaf).collect();
    let out = task.step(&Lazy, &held, &inputs, &scalars).unwrap();
    let mut roots: Vec<Value> = out.held.values().cloned().collect();
    roots.extend([out.loss, out.grad_norm]);
    lanthorn_interp::eval(&roots, &bindings).unwrap()
}

#[test]
fn the_graph_of_a_step_gives_what_the_eager_step_gives() {
    let gpt = Gpt::new(GptConfig { dropout: 0.2, ..tiny() }).unwrap();
    let (specs, optimizer) = (gpt.specs(), Optimizer::language_model());
    let task = task(&gpt, &specs, &optimizer);
    let mut inputs = inputs(&gpt);
    let mut held = held(&gpt, &optimizer, shaken(&gpt, 2, DType::F64));
    for t in 1..=3 {
        let scalars = scalars(&optimizer, t, 1e-2, DType::F64);
        inputs.key = Some(key(5, t as i64));
        let lazy = lazy_step(&task, &held, &inputs, &scalars);
        let eager = eager_step(&task, &held, &inputs, &scalars);
        for (lazy, eager) in lazy.iter().zip(eager.held.values().chain([&eager.loss, &eager.grad_norm])) {
            assert!(crate::support::distance(lazy, eager) < 1e-12, "step {t}");
        }
        held = eager.held;
    }
}

#[test]
fn a_tiny_gpt_learns_a_batch_by_heart() {
    let gpt = Gpt::new(tiny()).unwrap();
    let (specs, optimizer) = (gpt.specs(), Optimizer::language_model().weight_decay(0.0));
    let task = task(&gpt, &specs, &optimizer);
    let mut held = held(&gpt, &optimizer, shaken(&gpt, 2, DType::F64));
    let mut losses = Vec::new();
    for t in 1..=60 {
        let scalars = scalars(&optimizer, t, 2e-2, DType::F64);
        let out = eager_step(&task, &held, &inputs(&gpt), &scalars);
        losses.push(out.loss.to_f64()[0]);
        held = out.held;
    }
    assert!(losses[0] > 2.0 && losses[59] < 0.1, "{} to {}", losses[0], losses[59]);
}
