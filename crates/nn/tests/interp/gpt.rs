use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::ops::Reduction;
use lanthorn_ir::transform::Tape;
use lanthorn_ir::{DType, Lazy, TensorType, Value};
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::{Gpt, GptConfig, Mode, Model, Params};

use crate::support::{distance, ids, shaken, tiny};

fn leaves(gpt: &Gpt) -> Params<Value> {
    gpt.specs().iter().map(|s| (s.name.clone(), Value::leaf(s.ty(DType::F32)).unwrap())).collect()
}

#[test]
fn logits_have_one_row_a_token() {
    for head in [Head::Tied, Head::Untied] {
        let gpt = Gpt::new(GptConfig { head, ..tiny() }).unwrap();
        for seq in [0, 1, 6] {
            let ids = Value::leaf(TensorType::new(DType::U32, [3, seq])).unwrap();
            let (logits, state) =
                gpt.forward(&Lazy, &leaves(&gpt), &Params::new(), &ids, &Mode::Eval).unwrap();
            assert_eq!(logits.ty(), &TensorType::new(DType::F32, [3, seq, 11]));
            assert!(state.is_empty());
        }
    }
}

/// The published GPT-2 small has 124,439,808 parameters.
#[test]
fn gpt2_small_has_its_published_size() {
    let config = GptConfig { vocab: 50257, context: 1024, layers: 12, width: 768, heads: 12, ..tiny() };
    assert_eq!(Gpt::new(config).unwrap().parameter_count(), 124_439_808);
}

#[test]
fn a_configuration_survives_json() {
    let text = serde_json::to_string(&tiny()).unwrap();
    assert_eq!(serde_json::from_str::<GptConfig>(&text).unwrap(), tiny());
}

#[test]
fn sizes_that_make_no_model_are_refused() {
    let fault = |config| Gpt::new(config).unwrap_err().to_string();
    assert_eq!(fault(GptConfig { heads: 3, ..tiny() }), "self_attention: 3 heads do not divide the width 8");
    assert_eq!(fault(GptConfig { heads: 0, ..tiny() }), "self_attention: 0 heads do not divide the width 8");
    assert_eq!(fault(GptConfig { vocab: 0, ..tiny() }), "gpt: vocab is 0, expected 1 to 2147483647");
    assert!(fault(GptConfig { dropout: 1.0, ..tiny() }).contains("the probability is 1"));
    assert!(fault(GptConfig { norm_eps: f64::NAN, ..tiny() }).contains("norm_eps is NaN"));
}

#[test]
fn more_tokens_than_the_context_are_refused() {
    let gpt = Gpt::new(tiny()).unwrap();
    let ids = Value::leaf(TensorType::new(DType::I32, [1, 7])).unwrap();
    let error = gpt.forward(&Lazy, &leaves(&gpt), &Params::new(), &ids, &Mode::Eval).unwrap_err();
    assert_eq!(error.to_string(), "gpt: 7 tokens exceed the context of 6");
}

#[test]
fn a_token_sees_nothing_behind_itself() {
    let gpt = Gpt::new(tiny()).unwrap();
    let params = shaken(&gpt, 3, DType::F64);
    let logits = |tokens: &[i64]| {
        let ids = Reference::from_i64(DType::I32, &[1, 6], tokens).unwrap();
        gpt.forward(&Interp, &params, &Params::new(), &ids, &Mode::Eval).unwrap().0.to_f64()
    };
    let (x, y) = (logits(&[1, 2, 3, 4, 5, 6]), logits(&[1, 2, 3, 9, 5, 6]));
    assert_eq!(x[..3 * 11], y[..3 * 11]);
    for row in 3..6 {
        assert_ne!(x[row * 11..][..11], y[row * 11..][..11], "row {row}");
    }
}

/// First losses are those of a guess: the published initialisation gives logits near 0.
#[test]
fn the_first_loss_is_that_of_a_guess() {
    let gpt = Gpt::new(tiny()).unwrap();
    let first = lanthorn_nn::params::initial(&gpt.specs(), 8, DType::F64).unwrap();
    let params = first.map(|_, tensor| crate::support::reference(tensor));
    let (input, targets) = (ids(&[4, 6], 1, 11), ids(&[4, 6], 2, 11));
    let mode = Mode::Eval;
    let loss = gpt.loss(&Interp, &params, &Params::new(), &input, &targets, &mode, Reduction::Mean);
    assert!((loss.unwrap().0.to_f64()[0] - 11f64.ln()).abs() < 0.1);
}

#[test]
fn ignored_targets_do_not_count_in_a_sum() {
    let gpt = Gpt::new(tiny()).unwrap();
    let params = shaken(&gpt, 3, DType::F64);
    let loss = |tokens: &[i64], targets: &[i64]| {
        let ids = Reference::from_i64(DType::I32, &[1, tokens.len()], tokens).unwrap();
        let targets = Reference::from_i64(DType::I32, &[1, targets.len()], targets).unwrap();
        let mode = Mode::Eval;
        let loss = gpt.loss(&Interp, &params, &Params::new(), &ids, &targets, &mode, Reduction::Sum);
        loss.unwrap().0.to_f64()[0]
    };
    assert_eq!(loss(&[1, 2, 3, 4], &[5, 6, -1, -1]), loss(&[1, 2], &[5, 6]));
}

/// Every parameter's gradient in a random direction, against central differences in f64.
#[test]
fn gradients_agree_with_finite_differences() {
    for head in [Head::Tied, Head::Untied] {
        let gpt = Gpt::new(GptConfig { head, ..tiny() }).unwrap();
        let params = shaken(&gpt, 5, DType::F64);
        let (input, targets) = (ids(&[2, 6], 1, 11), ids(&[2, 6], 2, 11));
        let loss = |params: &Params<Reference>| {
            let mode = Mode::Eval;
            let loss = gpt.loss(&Interp, params, &Params::new(), &input, &targets, &mode, Reduction::Mean);
            loss.unwrap().0.to_f64()[0]
        };

        let tape = Tape::new(Interp);
        let watched = params.map(|_, p| tape.watch(p.clone()));
        let (x, t) = (tape.constant(input.clone()), tape.constant(targets.clone()));
        let mode = Mode::Eval;
        let traced = gpt.loss(&tape, &watched, &Params::new(), &x, &t, &mode, Reduction::Mean).unwrap().0;
        let wrt: Vec<_> = watched.values().cloned().collect();
        let grads = tape.grad(&traced, &wrt).unwrap();

        for ((name, value), grad) in params.iter().zip(&grads) {
            // The gradient itself is the direction, so that the slope is its norm and far from 0.
            let grad = grad.value().to_f64();
            let norm = grad.iter().map(|g| g * g).sum::<f64>().sqrt();
            assert!(norm > 1e-6, "{name} has a gradient");
            let moved = |step: f64| {
                let mut moved = params.clone();
                let x: Vec<f64> =
                    value.to_f64().iter().zip(&grad).map(|(x, g)| x + step * g / norm).collect();
                moved.insert(name, Reference::from_f64(DType::F64, value.shape(), &x).unwrap());
                loss(&moved)
            };
            let h = 1e-4;
            let slope = (moved(h) - moved(-h)) / (2.0 * h);
            assert!((slope / norm - 1.0).abs() < 1e-5, "{name}: {slope} against {norm}");
        }
        // And a direction that is not the gradient's.
        let random = shaken(&gpt, 99, DType::F64);
        let expected: f64 = (random.values().zip(&grads))
            .map(|(r, g)| r.to_f64().iter().zip(g.value().to_f64()).map(|(r, g)| r * g).sum::<f64>())
            .sum();
        let moved = |step: f64| {
            loss(&params.map(|name, p| {
                let direction = random.get(name).unwrap().to_f64();
                let x: Vec<f64> = p.to_f64().iter().zip(direction).map(|(x, r)| x + step * r).collect();
                Reference::from_f64(DType::F64, p.shape(), &x).unwrap()
            }))
        };
        let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        assert!((slope - expected).abs() < 1e-6 * expected.abs().max(1.0), "{slope} against {expected}");
    }
}

/// The graph that a compiler gets says the same as the tape.
#[test]
fn the_lazy_graph_has_the_tapes_gradients() {
    let gpt = Gpt::new(tiny()).unwrap();
    let params = shaken(&gpt, 6, DType::F64);
    let inputs = crate::support::inputs(&gpt);
    let leaf = |x: &Reference| Value::leaf(x.ty().clone()).unwrap();
    let lazy_params = params.map(|_, p| leaf(p));
    let (x, t) = (leaf(&inputs.input), leaf(&inputs.targets));
    let mode = Mode::Eval;
    let loss = gpt.loss(&Lazy, &lazy_params, &Params::new(), &x, &t, &mode, Reduction::Mean).unwrap().0;
    let wrt: Vec<Value> = lazy_params.values().cloned().collect();
    let grads = lanthorn_ir::transform::grad(&loss, &wrt).unwrap();
    let mut bindings: Vec<_> = wrt.into_iter().zip(params.values().cloned()).collect();
    bindings.extend([(x, inputs.input.clone()), (t, inputs.targets.clone())]);
    let lazy = lanthorn_interp::eval(&grads, &bindings).unwrap();

    let tape = Tape::new(Interp);
    let watched = params.map(|_, p| tape.watch(p.clone()));
    let (x, t) = (tape.constant(inputs.input), tape.constant(inputs.targets));
    let mode = Mode::Eval;
    let loss = gpt.loss(&tape, &watched, &Params::new(), &x, &t, &mode, Reduction::Mean).unwrap().0;
    let wrt: Vec<_> = watched.values().cloned().collect();
    for ((name, lazy), eager) in params.names().zip(&lazy).zip(tape.grad(&loss, &wrt).unwrap()) {
        assert!(distance(lazy, eager.value()) < 1e-12, "{name}");
    }
}
