//! Loops of many steps: flat memory and a constant number of executables.

use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{DType, TensorType};
use lanthorn_session::session::Stats;

use super::support::{Face, float, int2};

/// Runs `step` and asserts that nothing grows after it has settled.
fn stays_flat(
    face: &mut Face,
    steps: usize,
    settled: usize,
    mut step: impl FnMut(&mut Face, usize),
) -> Stats {
    let mut first = Stats::default();
    for at in 0..steps {
        step(face, at);
        let stats = face.session.stats();
        if at == settled {
            first = stats;
        }
        if at > settled {
            let seen = (stats.handles, stats.cells, stats.engine.executables, stats.engine.live_bytes);
            let kept = (first.handles, first.cells, first.engine.executables, first.engine.live_bytes);
            assert_eq!(seen, kept, "step {at}");
        }
    }
    face.session.stats()
}

/// SGD with a momentum of elementary ops, a moving batch, dropout and a decaying rate.
fn training_step(face: &mut Face, state: &[lanthorn_session::Handle; 4], step: usize, reads: bool) {
    let [w, momentum, data, seen] = *state;
    let batch = face.op(
        "narrow",
        &[data],
        &[Attribute::Int(0), Attribute::Int((step % 4) as i64), Attribute::Int(1)],
    );
    let key = face.session.random_key().unwrap();
    let kept = {
        let tensors = [Some(batch), Some(key)];
        let id = lanthorn_ir::ops::table::id_of("dropout").unwrap();
        face.session.op(id, &tensors, &[Attribute::Float(0.25)]).unwrap()[0]
    };
    let product = face.op("mul", &[kept, w], &[]);
    let error = face.op("sub_scalar", &[product], &float(1.0));
    let square = face.op("square", &[error], &[]);
    let loss = face.op("mean", &[square], &[]);
    face.session.set_grad(w, None).unwrap();
    face.backward(loss);
    face.session.enter_no_grad();
    let grad = face.session.grad(w).unwrap().unwrap();
    face.assign(momentum, "mul_scalar", &[momentum], &float(0.9));
    face.assign(momentum, "add", &[momentum, grad], &[]);
    let update = face.op("mul_scalar", &[momentum], &float(0.01 / (1.0 + 0.001 * step as f64)));
    face.assign(w, "sub", &[w, update], &[]);
    // One row of what was seen is overwritten, at a place that moves.
    let row = face.op("select", &[seen], &int2(0, (step % 4) as i64));
    face.session.copy(row, loss).unwrap();
    face.session.leave_no_grad().unwrap();
    if reads {
        assert!(face.read(loss)[0].is_finite());
    }
    face.release(&[batch, key, kept, product, error, square, loss, grad, update, row]);
}

fn training_state(face: &mut Face) -> [lanthorn_session::Handle; 4] {
    let w = face.session.random(&TensorType::new(DType::F32, [3]), uniform()).unwrap();
    face.session.requires_grad(w, true).unwrap();
    let momentum = face.op("zeros_like", &[w], &[]);
    let data = face.f32(&[4, 3], &[0.5; 12]);
    let seen = face.f32(&[4], &[0.0; 4]);
    [w, momentum, data, seen]
}

fn uniform() -> lanthorn_session::random::Distribution {
    lanthorn_session::random::Distribution::Uniform { low: -1.0, high: 1.0 }
}

#[test]
fn ten_thousand_training_steps_that_read_the_loss() {
    let mut face = Face::new();
    let state = training_state(&mut face);
    let stats = stays_flat(&mut face, 10_000, 8, |face, step| training_step(face, &state, step, true));
    assert!(stats.engine.executables <= 3, "{stats:?}");
    assert!(stats.programs <= 10_001, "{stats:?}");
    let read = face.read(state[0]);
    assert!(read.iter().all(|w| (w - 1.5).abs() < 1.5), "{read:?}");
    assert!(face.read(state[3]).iter().all(|loss| *loss > 0.0));
}

#[test]
fn training_steps_that_read_nothing() {
    let mut face = Face::new();
    let state = training_state(&mut face);
    let stats = stays_flat(&mut face, 2_000, 8, |face, step| training_step(face, &state, step, false));
    assert!(stats.engine.executables <= 3, "{stats:?}");
}

#[test]
fn a_sum_of_detached_losses_does_not_keep_their_graphs() {
    let mut face = Face::new();
    let state = training_state(&mut face);
    let mut total = face.f32(&[], &[0.0]);
    stays_flat(&mut face, 1_000, 8, |face, step| {
        let square = face.op("square", &[state[0]], &[]);
        let loss = face.op("mean", &[square], &[]);
        let detached = face.session.detach(loss).unwrap();
        let next = face.op("add", &[total, detached], &[]);
        face.release(&[square, loss, detached, total]);
        total = next;
        training_step(face, &state, step, false);
    });
    assert!(face.read(total)[0] > 1.0);
}

#[test]
fn a_chain_that_nobody_reads_is_computed_now_and_then() {
    let mut face = Face::new();
    let mut x = face.f32(&[2], &[1.0, 2.0]);
    let counter = face.f32(&[], &[0.0]);
    for _ in 0..20_000 {
        let next = face.op("neg", &[x], &[]);
        face.release(&[x]);
        x = next;
        face.assign(counter, "add_scalar", &[counter], &float(1.0));
    }
    let stats = face.session.stats();
    assert!(stats.commits >= 4 && stats.engine.executables <= 6, "{stats:?}");
    assert_eq!((face.read(x), face.read(counter)), (vec![1.0, 2.0], vec![20_000.0]));
}

#[test]
fn updates_of_a_variable_that_nobody_reads_are_computed_now_and_then() {
    let mut face = Face::new();
    let w = face.variable(&[1], &[1.0]);
    for _ in 0..1_000 {
        face.no_grad(|face| face.assign(w, "mul_scalar", &[w], &float(0.999)));
    }
    assert!(face.session.stats().commits >= 10);
    let expected = 0.999f64.powi(1_000);
    assert!((face.read(w)[0] - expected).abs() < 1e-4);
}

#[test]
fn random_tensors_repeat_by_seed_and_differ_by_draw() {
    let mut face = Face::new();
    let ty = TensorType::new(DType::F32, [100]);
    let draw = |face: &mut Face| {
        let x = face.session.random(&ty, uniform()).unwrap();
        let first = face.read(x);
        assert_eq!(face.read(x), first);
        first
    };
    face.session.seed(7).unwrap();
    let (first, second) = (draw(&mut face), draw(&mut face));
    assert_ne!(first, second);
    assert!(first.iter().all(|x| (-1.0..1.0).contains(x)));
    face.session.set_random_state([7, 1]);
    assert_eq!(draw(&mut face), second);
    assert_eq!(face.session.random_state(), [7, 2]);
    // Philox on the host gives the same bits.
    let words = lanthorn_ir::philox::Philox::new(7, 0, 0);
    let unit = |at: usize| f64::from(words.word(at as u64) >> 8) / f64::from(1 << 24);
    assert!(first.iter().enumerate().all(|(at, x)| *x == unit(at) * 2.0 - 1.0));
}

#[test]
fn first_values_lie_as_wide_as_the_shape_says() {
    use lanthorn_session::random::{Fan, Spread};
    let mut face = Face::new();
    let shape = [40, 30, 2];
    let ty = TensorType::new(DType::F32, shape);
    let mut widest = |distribution| {
        let x = face.session.random(&ty, distribution).unwrap();
        face.read(x).into_iter().fold(0.0, |most: f64, value| most.max(value.abs()))
    };
    // sqrt(6 / ((1 + slope^2) fan)) and sqrt(6 / (fan in + fan out)).
    for (spread, bound) in [
        (Spread::Kaiming { slope: 0.0, fan: Fan::In }, (6.0_f64 / 60.0).sqrt()),
        (Spread::Kaiming { slope: 2.0, fan: Fan::Out }, (6.0_f64 / (5.0 * 80.0)).sqrt()),
        (Spread::Xavier { gain: 3.0 }, 3.0 * (6.0_f64 / 140.0).sqrt()),
    ] {
        let found = widest(spread.uniform(&shape).unwrap());
        assert!(found <= bound && found > 0.99 * bound, "{found}, expected just below {bound}");
    }
    assert!(Spread::Xavier { gain: 1.0 }.normal(&[3]).is_err());
}
