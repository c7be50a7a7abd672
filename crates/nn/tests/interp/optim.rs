use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::transform::Tape;
use lanthorn_ir::{DType, Lazy, Value};
use lanthorn_nn::optim::{Decay, Moments, StepScalars};
use lanthorn_nn::params::{Init, ParamKind, ParamSpec};
use lanthorn_nn::step::{StepInputs, StepOutputs, training_step};
use lanthorn_nn::{AdamW, AdamWConfig, Gpt, GptConfig, Model, Params};

use crate::support::{distance, inputs, key, scalar, scalars, shaken, tiny};

/// Two steps computed by hand from algorithm 2 of Loshchilov and Hutter.
#[test]
fn adamw_follows_its_paper() {
    let config = AdamWConfig { weight_decay: 0.1, clip_norm: None, ..AdamWConfig::default() };
    let optimizer = AdamW::new(config).unwrap();
    let one = |x: f64| std::iter::once(("w".to_owned(), scalar(x, DType::F64))).collect::<Params<_>>();
    for (kind, decay) in [(ParamKind::Weight, 0.1), (ParamKind::Bias, 0.0)] {
        let specs = [ParamSpec::new("w", &[], Init::Zeros, kind)];
        let mut params = one(0.5);
        let mut moments = Moments { m: one(0.0), v: one(0.0) };
        let (mut p, mut m, mut v) = (0.5, 0.0, 0.0);
        for (t, g) in [(1, 0.3f64), (2, -0.2)] {
            let lr = 0.01 * t as f64;
            let scalars = scalars(&optimizer, t, lr, DType::F64);
            let updated = optimizer.update(&Interp, &specs, &params, &one(g), &moments, &scalars).unwrap();
            (params, moments) = (updated.params, updated.moments);
            m = 0.9 * m + 0.1 * g;
            v = 0.99 * v + 0.01 * g * g;
            let (m_hat, v_hat) = (m / (1.0 - 0.9f64.powi(t as i32)), v / (1.0 - 0.99f64.powi(t as i32)));
            p = p - lr * decay * p - lr * m_hat / (f64::sqrt(v_hat) + 1e-8);
            assert!((params.get("w").unwrap().to_f64()[0] - p).abs() < 1e-14, "{kind:?} {t}");
            assert!((moments.m.get("w").unwrap().to_f64()[0] - m).abs() < 1e-14);
            assert!((moments.v.get("w").unwrap().to_f64()[0] - v).abs() < 1e-14);
        }
    }
}

#[test]
fn decay_groups_choose_by_kind() {
    let moved = |decay| {
        let config = AdamWConfig { weight_decay: 0.5, decay, ..AdamWConfig::default() };
        let optimizer = AdamW::new(config).unwrap();
        let kinds = [ParamKind::Weight, ParamKind::Embedding, ParamKind::Bias, ParamKind::Norm];
        let specs: Vec<ParamSpec> =
            kinds.iter().map(|kind| ParamSpec::new(format!("{kind:?}"), &[], Init::Ones, *kind)).collect();
        let all = |x| specs.iter().map(|s| (s.name.clone(), scalar(x, DType::F64))).collect::<Params<_>>();
        let moments = Moments { m: all(0.0), v: all(0.0) };
        let scalars = scalars(&optimizer, 1, 0.1, DType::F64);
        let updated = optimizer.update(&Interp, &specs, &all(1.0), &all(0.0), &moments, &scalars).unwrap();
        updated.params.values().map(|p| p.to_f64()[0] < 1.0).collect::<Vec<_>>()
    };
    assert_eq!(moved(Decay::Weights), [true, false, false, false]);
    assert_eq!(moved(Decay::WeightsAndEmbeddings), [true, true, false, false]);
    assert_eq!(moved(Decay::All), [true; 4]);
}

#[test]
fn clipping_scales_all_gradients_by_one_factor() {
    let optimizer = AdamW::new(AdamWConfig { clip_norm: Some(1.0), ..AdamWConfig::default() }).unwrap();
    let clipped = |x: f64, y: f64| {
        let grads: Params<Reference> =
            [("a".to_owned(), scalar(x, DType::F64)), ("b".to_owned(), scalar(y, DType::F64))]
                .into_iter()
                .collect();
        let (grads, norm) = optimizer.clipped(&Interp, &grads).unwrap();
        (grads.into_values().map(|g| g.to_f64()[0]).collect::<Vec<_>>(), norm.to_f64()[0])
    };
    let (grads, norm) = clipped(3.0, -4.0);
    assert!((norm - 5.0).abs() < 1e-15 && (grads[0] - 0.6).abs() < 1e-15 && (grads[1] + 0.8).abs() < 1e-15);
    assert_eq!(clipped(0.3, 0.4), (vec![0.3, 0.4], 0.5));
    assert_eq!(clipped(0.0, 0.0), (vec![0.0, 0.0], 0.0));
    assert!(clipped(f64::NAN, 1.0).1.is_nan());
}

#[test]
fn settings_that_are_no_settings_are_refused() {
    let default = AdamWConfig::default();
    for config in [
        AdamWConfig { beta1: 1.0, ..default },
        AdamWConfig { beta2: -0.1, ..default },
        AdamWConfig { eps: f64::NAN, ..default },
        AdamWConfig { weight_decay: f64::INFINITY, ..default },
        AdamWConfig { clip_norm: Some(0.0), ..default },
    ] {
        assert!(AdamW::new(config).is_err(), "{config:?}");
    }
}

/// A step on a tape of the reference backend.
fn eager_step(gpt: &Gpt, optimizer: &AdamW, inputs: &StepInputs<Reference>) -> StepOutputs<Reference> {
    let tape = Tape::new(Interp);
    let constant = |x: &Reference| tape.constant(x.clone());
    let constants = |params: &Params<Reference>| params.map(|_, x| constant(x));
    let inputs = StepInputs {
        params: inputs.params.map(|_, p| tape.watch(p.clone())),
        moments: Moments { m: constants(&inputs.moments.m), v: constants(&inputs.moments.v) },
        state: constants(&inputs.state),
        input: constant(&inputs.input),
        targets: constant(&inputs.targets),
        scalars: StepScalars {
            lr: constant(&inputs.scalars.lr),
            bias1: constant(&inputs.scalars.bias1),
            bias2: constant(&inputs.scalars.bias2),
        },
        key: inputs.key.as_ref().map(constant),
    };
    let out = training_step(&tape, gpt, &gpt.specs(), optimizer, &inputs).unwrap();
    let plain =
        |params: Params<lanthorn_ir::transform::Tracked<Reference>>| params.map(|_, x| x.value().clone());
    StepOutputs {
        params: plain(out.params),
        moments: Moments { m: plain(out.moments.m), v: plain(out.moments.v) },
        state: plain(out.state),
        loss: out.loss.into_value(),
        grad_norm: out.grad_norm.into_value(),
    }
}

/// The graph of a step, as the compiler gets it, evaluated.
fn lazy_step(gpt: &Gpt, optimizer: &AdamW, inputs: &StepInputs<Reference>) -> Vec<Reference> {
    let mut bindings = Vec::new();
    let mut leaf = |x: &Reference| {
        let leaf = Value::leaf(x.ty().clone()).unwrap();
        bindings.push((leaf.clone(), x.clone()));
        leaf
    };
    let inputs = StepInputs {
        params: inputs.params.map(|_, x| leaf(x)),
        moments: Moments { m: inputs.moments.m.map(|_, x| leaf(x)), v: inputs.moments.v.map(|_, x| leaf(x)) },
        state: Params::new(),
        input: leaf(&inputs.input),
        targets: leaf(&inputs.targets),
        scalars: StepScalars {
            lr: leaf(&inputs.scalars.lr),
            bias1: leaf(&inputs.scalars.bias1),
            bias2: leaf(&inputs.scalars.bias2),
        },
        key: inputs.key.as_ref().map(leaf),
    };
    let out = training_step(&Lazy, gpt, &gpt.specs(), optimizer, &inputs).unwrap();
    let mut roots: Vec<Value> = out.params.into_values().collect();
    roots.extend(out.moments.m.into_values().chain(out.moments.v.into_values()));
    roots.extend([out.loss, out.grad_norm]);
    lanthorn_interp::eval(&roots, &bindings).unwrap()
}

#[test]
fn the_graph_of_a_step_gives_what_the_eager_step_gives() {
    let gpt = Gpt::new(GptConfig { dropout: 0.2, ..tiny() }).unwrap();
    let optimizer = AdamW::new(AdamWConfig::default()).unwrap();
    let mut inputs = inputs(&gpt, shaken(&gpt, 2, DType::F64), DType::F64);
    for t in 1..=3 {
        inputs.scalars = scalars(&optimizer, t, 1e-2, DType::F64);
        inputs.key = Some(key(5, t as i64));
        let lazy = lazy_step(&gpt, &optimizer, &inputs);
        let eager = eager_step(&gpt, &optimizer, &inputs);
        let all = (eager.params.values()).chain(eager.moments.m.values()).chain(eager.moments.v.values());
        for (lazy, eager) in lazy.iter().zip(all.chain([&eager.loss, &eager.grad_norm])) {
            assert!(distance(lazy, eager) < 1e-12, "step {t}");
        }
        (inputs.params, inputs.moments) = (eager.params, eager.moments);
    }
}

#[test]
fn a_tiny_gpt_learns_a_batch_by_heart() {
    let gpt = Gpt::new(tiny()).unwrap();
    let optimizer = AdamW::new(AdamWConfig { weight_decay: 0.0, ..AdamWConfig::default() }).unwrap();
    let mut inputs = inputs(&gpt, shaken(&gpt, 2, DType::F64), DType::F64);
    let mut losses = Vec::new();
    for t in 1..=60 {
        inputs.scalars = scalars(&optimizer, t, 2e-2, DType::F64);
        let out = eager_step(&gpt, &optimizer, &inputs);
        losses.push(out.loss.to_f64()[0]);
        (inputs.params, inputs.moments) = (out.params, out.moments);
    }
    assert!(losses[0] > 2.0 && losses[59] < 0.1, "{} to {}", losses[0], losses[59]);
}
