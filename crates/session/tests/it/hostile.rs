//! Numbers that nobody should pass: every call gives a result or an error.

use lanthorn_ir::ops::table::OPS;
use lanthorn_runtime::Device;
use lanthorn_session::Raw;
use lanthorn_session::raw::error_number;
use proptest::prelude::*;

use super::support::device;

/// Numbers that are no handle, size, count or place.
fn hostile() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(-1.0),
        Just(0.5),
        Just(-0.0),
        Just(1e300),
        Just(9_007_199_254_740_992.0),
        Just(4_294_967_296.0),
        Just(67_108_864.0),
        any::<f64>(),
    ]
}

/// Mostly small whole numbers, and places of handles that are there.
fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        6 => (0..8u8).prop_map(|number| Word::Number(f64::from(number))),
        4 => (0..16usize).prop_map(Word::Handle),
        1 => hostile().prop_map(Word::Number),
    ]
}

#[derive(Clone, Debug)]
enum Word {
    Number(f64),
    /// One of the handles at hand.
    Handle(usize),
}

#[derive(Clone, Debug)]
struct Call {
    what: u8,
    op: usize,
    words: Vec<Word>,
    scratch: Vec<Word>,
    room: usize,
}

fn call() -> impl Strategy<Value = Call> {
    let words = proptest::collection::vec(word(), 4);
    let scratch = proptest::collection::vec(word(), 0..24);
    let room = prop_oneof![Just(0usize), Just(3), Just(64), Just(4096)];
    (0..28u8, 0..OPS.len() + 2, words, scratch, room).prop_map(|(what, op, words, scratch, room)| Call {
        what,
        op,
        words,
        scratch,
        room,
    })
}

/// A call with the tensors and attributes that the op at hand takes, so that many succeed.
fn sensible(scratch: &mut [f64], op: usize, handles: &[f64]) {
    let Some(op) = OPS.get(op) else { return };
    let (tensors, attributes): (Vec<_>, Vec<_>) = op.parameters.iter().partition(|p| p.kind.is_tensor());
    let mut numbers = vec![tensors.len() as f64];
    numbers
        .extend((0..tensors.len()).map(|at| handles.get(at % handles.len().max(1)).copied().unwrap_or(0.0)));
    for (at, attribute) in attributes.iter().enumerate() {
        use lanthorn_ir::ops::table::Kind;
        numbers.extend_from_slice(match attribute.kind {
            Kind::Ints | Kind::Sizes => &[4.0, 1.0, 1.0],
            Kind::DType => &[5.0, 11.0],
            Kind::Bool => &[3.0, 1.0],
            // "ab,bc", which fits two matrices.
            Kind::Text => &[7.0, 5.0, 97.0, 98.0, 44.0, 98.0, 99.0],
            kind if !kind.words().is_empty() => &[6.0, 1.0],
            Kind::Float | Kind::OptionalFloat => &[1.0, 0.25],
            _ if at == 0 => &[2.0, 0.0],
            _ => &[2.0, 1.0],
        });
    }
    for (place, number) in scratch.iter_mut().zip(numbers) {
        *place = number;
    }
}

struct Calls {
    raw: Raw<Device>,
    handles: Vec<f64>,
    /// The function that was captured last.
    captured: f64,
}

impl Calls {
    fn number(&self, word: &Word) -> f64 {
        match word {
            Word::Number(number) => *number,
            Word::Handle(at) => self.handles.get(at % self.handles.len().max(1)).copied().unwrap_or(0.0),
        }
    }

    fn run(&mut self, call: &Call) {
        let mut scratch = vec![0.0; call.room];
        let numbers: Vec<f64> = call.scratch.iter().map(|word| self.number(word)).collect();
        for (place, number) in scratch.iter_mut().zip(numbers) {
            *place = number;
        }
        let words: Vec<f64> = call.words.iter().map(|word| self.number(word)).collect();
        let [a, b, c, d] = words[..] else { return };
        let scratch = &mut scratch[..];
        let op = call.op as f64;
        if (16..20).contains(&call.what) {
            sensible(scratch, call.op, &self.handles);
        }
        let result = match call.what {
            0 => self.raw.op(scratch, op),
            1 => self.raw.assign(scratch, a, op),
            2 => self.raw.copy(a, b),
            3 => self.raw.create(scratch, a, b, &[1; 16][..(c as usize).min(16)]),
            4 => self.raw.backward(a, b),
            5 => self.raw.grad(a),
            6 => self.raw.set_grad(a, b),
            7 => self.raw.requires_grad(a, b),
            8 => self.raw.detach(a),
            9 => self.raw.no_grad(a),
            10 => self.raw.describe(scratch, a),
            11 => self.raw.random(scratch, a, b, c, d),
            12 => self.raw.seed(a),
            13 => self.raw.release(a),
            14 => self.raw.commit(scratch),
            15 => self.raw.read(a).and_then(|(ty, tensor)| {
                assert_eq!(tensor.to_bytes()?.len(), ty.bytes());
                Ok(0.0)
            }),
            16 | 17 => self.raw.op(scratch, op),
            18 => self.raw.assign(scratch, a, op),
            19 => self.raw.gradients(scratch, a, b),
            20 => self.raw.capture_begin(scratch, a),
            21 => self.raw.capture_end(scratch, a).inspect(|&captured| self.captured = captured),
            22 => self.raw.capture_abort(),
            23 | 24 => self.raw.call(scratch, if b < 4.0 { self.captured } else { a }),
            25 => self.raw.capture_release(a),
            26 => self.raw.capture_stats(scratch, self.captured),
            27 => self.raw.can_run(scratch, op, a),
            _ => self.raw.op(scratch, a),
        };
        match &result {
            Ok(number) => assert!(*number >= 0.0),
            Err(error) => assert!(error_number(error) < 0.0 && !error.message.is_empty()),
        }
        let is_number = self.raw.number(result.clone()) < 0.0;
        assert_eq!(is_number, result.is_err());
        if let (0 | 3 | 5 | 8 | 11 | 16 | 17, Ok(handle)) = (call.what, result)
            && handle > 0.0
            && self.handles.len() < 16
        {
            self.handles.push(handle);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn whatever_is_in_scratch_gives_a_result_or_an_error(calls in proptest::collection::vec(call(), 1..40)) {
        let device = device();
        device.set_memory_limit(Some(64 << 20));
        let mut state = Calls { raw: Raw::new(device), handles: Vec::new(), captured: 0.0 };
        let bytes: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
        for shape in [&[1.0, 4.0][..], &[2.0, 2.0, 2.0]] {
            let mut scratch = shape.to_vec();
            state.handles.push(state.raw.create(&mut scratch, 11.0, 0.0, &bytes).unwrap());
            state.handles.push(state.raw.create(&mut scratch, 11.0, 1.0, &bytes).unwrap());
        }
        for call in &calls {
            state.run(call);
        }
    }
}

#[test]
fn counts_beyond_scratch_are_refused_before_anything_is_allocated() {
    let mut raw = Raw::new(device());
    for count in [4096.0, 1e15, f64::MAX, -3.0, 0.5, f64::NAN] {
        let mut scratch = vec![1.0; 16];
        scratch[0] = count;
        assert!(raw.op(&mut scratch, 0.0).is_err(), "{count}");
        assert!(raw.commit(&mut scratch).is_err());
        assert!(raw.create(&mut scratch, 11.0, 0.0, &[]).is_err());
    }
    assert!(raw.op(&mut [], 0.0).is_err());
    // Sizes whose product overflows, and a rank beyond all bounds.
    let mut scratch = vec![4_294_967_296.0; 8];
    scratch[0] = 3.0;
    assert!(raw.create(&mut scratch, 11.0, 0.0, &[]).is_err());
    let mut scratch = vec![1.0; 200];
    scratch[0] = 100.0;
    assert!(
        raw.create(&mut scratch, 11.0, 0.0, &[0; 4]).unwrap_err().to_string().contains("at most 64 axes")
    );
    // An axis that is broadcast to any size does not fall into that many pieces.
    let id = |name: &str| lanthorn_ir::ops::table::id_of(name).unwrap() as f64;
    let mut scratch = vec![0.0, 4.0, 1.0, 1e12, 0.0];
    let wide = raw.op(&mut scratch, id("zeros")).unwrap();
    let mut scratch = vec![1.0, wide, 2.0, 1.0, 0.0];
    assert!(raw.op(&mut scratch, id("split")).unwrap_err().to_string().contains("pieces"));
    let mut scratch = vec![1.0, wide, 2.0, 1e12, 0.0];
    assert!(raw.op(&mut scratch, id("chunk")).is_err());
    assert_eq!(raw.read(wide).unwrap_err().kind, lanthorn_ir::ErrorKind::OutOfMemory);
}

#[test]
fn results_that_do_not_fit_scratch_leave_no_handles_behind() {
    let mut raw = Raw::new(device());
    let mut scratch = vec![1.0, 8.0];
    let x = raw.create(&mut scratch, 1.0, 0.0, &[1; 8]).unwrap();
    let split = lanthorn_ir::ops::table::id_of("split").unwrap() as f64;
    let mut scratch = vec![1.0, x, 2.0, 1.0, 0.0];
    assert!(raw.op(&mut scratch, split).is_err());
    assert_eq!(raw.session().stats().handles, 1);
    let mut scratch = vec![1.0, x, 2.0, 2.0, 0.0];
    assert_eq!(raw.op(&mut scratch, split).unwrap(), 4.0);
    assert_eq!(raw.describe(&mut scratch, x).unwrap(), 4.0);
    assert_eq!(scratch[..4], [1.0, 0.0, 1.0, 8.0]);
}
