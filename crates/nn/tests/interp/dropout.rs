use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::DType;
use lanthorn_nn::layers::Dropout;
use lanthorn_nn::{Gpt, GptConfig, Mode, Model, Params};

use crate::support::{ids, key, shaken, tiny};

fn ones(count: usize) -> Reference {
    Reference::from_f64(DType::F32, &[count], &vec![1.0; count]).unwrap()
}

#[test]
fn dropout_drops_its_share_and_keeps_the_mean() {
    let n = 20_000;
    for p in [0.1, 0.5, 0.9] {
        let mode = Mode::train(Some(key(1, 2)));
        let y = Dropout::new(p).unwrap().forward(&Interp, &ones(n), &mode).unwrap().to_f64();
        let kept = 1.0 / (1.0 - p);
        assert!(y.iter().all(|&y| y == 0.0 || (y - kept).abs() < 1e-6 * kept));
        let dropped = y.iter().filter(|&&y| y == 0.0).count() as f64 / n as f64;
        // Five standard deviations of a binomial.
        assert!((dropped - p).abs() < 5.0 * (p * (1.0 - p) / n as f64).sqrt(), "{p}: {dropped}");
    }
}

#[test]
fn places_and_draws_have_masks_of_their_own_and_a_draw_repeats() {
    let dropout = Dropout::new(0.5).unwrap();
    let two = |draw| {
        let mode = Mode::train(Some(key(1, draw)));
        [(); 2].map(|_| dropout.forward(&Interp, &ones(256), &mode).unwrap())
    };
    let ([a, b], [c, _]) = (two(0), two(1));
    assert_ne!(a, b);
    assert_ne!(a, c);
    assert_eq!([a, b], two(0));
}

#[test]
fn evaluation_drops_nothing_and_training_needs_a_key() {
    let dropout = Dropout::new(0.5).unwrap();
    assert_eq!(dropout.forward(&Interp, &ones(9), &Mode::Eval).unwrap(), ones(9));
    let error = dropout.forward(&Interp, &ones(9), &Mode::train(None)).unwrap_err();
    assert_eq!(error.to_string(), "dropout: is random in training and the mode has no key");
    let none = Dropout::new(0.0).unwrap();
    assert_eq!(none.forward(&Interp, &ones(9), &Mode::train(None)).unwrap(), ones(9));
    for p in [-0.1, 1.0, f64::NAN] {
        assert!(Dropout::new(p).is_err(), "{p}");
    }
}

#[test]
fn a_gpt_with_dropout_is_random_in_training_only() {
    let gpt = Gpt::new(GptConfig { dropout: 0.3, ..tiny() }).unwrap();
    assert!(gpt.is_random() && !Gpt::new(tiny()).unwrap().is_random());
    let params = shaken(&gpt, 1, DType::F32);
    let run = |mode| gpt.forward(&Interp, &params, &Params::new(), &ids(&[1, 6], 0, 11), &mode).unwrap().0;
    assert_ne!(run(Mode::train(Some(key(0, 0)))), run(Mode::train(Some(key(0, 1)))));
    assert_eq!(run(Mode::train(Some(key(0, 1)))), run(Mode::train(Some(key(0, 1)))));
    assert_eq!(run(Mode::Eval), run(Mode::Eval));
}
