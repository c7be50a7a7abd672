//! Numbers that nobody should pass: every call gives a result or an error.

use lanthorn_graph::{Outcome, Raw};
use lanthorn_ir::ErrorKind;
use lanthorn_ir::ops::table::{Kind, OPS, id_of};
use lanthorn_runtime::CancelToken;
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
    let handle = |at: usize| handles.get(at % handles.len().max(1)).copied().unwrap_or(0.0);
    numbers.extend((0..tensors.len()).map(handle));
    for (at, attribute) in attributes.iter().enumerate() {
        numbers.extend_from_slice(match attribute.kind {
            Kind::Ints | Kind::Sizes => &[4.0, 1.0, 1.0],
            Kind::DType => &[5.0, 11.0],
            Kind::Bool => &[3.0, 1.0],
            Kind::Float | Kind::OptionalFloat => &[1.0, 0.25],
            kind if !kind.words().is_empty() => &[6.0, 1.0],
            _ => {
                if at == 0 {
                    &[2.0, 0.0]
                } else {
                    &[2.0, 1.0]
                }
            }
        });
    }
    for (place, number) in scratch.iter_mut().zip(numbers) {
        *place = number;
    }
}

const DECODE: &str = r#"{"maxTokens":8,"blockSize":4,"kvDtype":"f32","batch":1}"#;
const POOL: &str = r#"{"layers":1,"kvHeads":1,"headDim":2,"maxTokens":8,"blockSize":4,"dtype":"f32"}"#;

struct Calls {
    raw: Raw,
    handles: Vec<f64>,
}

impl Calls {
    fn number(&self, word: &Word) -> f64 {
        match word {
            Word::Number(number) => *number,
            Word::Handle(at) => self.handles.get(at % self.handles.len().max(1)).copied().unwrap_or(0.0),
        }
    }

    fn finish(&mut self, job: lanthorn_ir::Result<lanthorn_graph::Job>) -> lanthorn_ir::Result<f64> {
        let mut job = job?;
        let output = job.run(&CancelToken::never());
        match self.raw.graph().finish(job, output, &CancelToken::never())? {
            Outcome::Handles(handles) => Ok(handles.first().map_or(0.0, |handle| handle.to_f64())),
            Outcome::Bytes(_) | Outcome::Tokens(_) => Ok(0.0),
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
        if (16..20).contains(&call.what) {
            sensible(scratch, call.op, &self.handles);
        }
        let result = match call.what {
            0 => self.raw.create(scratch, a, &[1; 16][..(c as usize).min(16)]),
            1 => self.raw.random(scratch, a, b, c, d),
            2 => self.raw.seed(a),
            3 => self.raw.input(scratch, a, b),
            4 => self.raw.scalar_input(a, b),
            5 => self.raw.positions(a),
            6 => self.raw.describe(scratch, a),
            7 => self.raw.grad(scratch, a),
            8 => self.raw.vjp(a, b, c),
            9 => self.raw.jvp(a, b, c),
            10 => self.raw.vmap(a, b, c, d),
            11 => self.raw.checkpoint(a),
            12 => self.raw.compile(scratch, a),
            13 => self.raw.executable(a).map(|_| 0.0),
            14 => {
                let job = self.raw.begin_execute(scratch, a, (b == 1.0).then_some("[{}]"));
                self.finish(job)
            }
            15 => {
                let job = self.raw.begin_read(a);
                self.finish(job)
            }
            16..20 => self.raw.op(scratch, call.op as f64),
            20 => {
                let job = self.raw.begin_compute(scratch);
                self.finish(job)
            }
            21 => self.raw.release(a),
            22 => self.raw.sequence(a),
            23 => self.raw.prefill_match(scratch, a),
            24 => self.raw.cursor(a),
            25 => self.raw.sample(a, "{}"),
            26 => self.raw.compile_decode(scratch, DECODE),
            27 => self.raw.clear(a),
            _ => self.raw.op(scratch, a),
        };
        match &result {
            Ok(number) => assert!(*number >= 0.0),
            Err(error) => assert!(error_number(error) < 0.0 && !error.message.is_empty()),
        }
        let is_number = self.raw.number(result.clone()) < 0.0;
        assert_eq!(is_number, result.is_err());
        let is_handle = matches!(call.what, 0 | 1 | 3..=5 | 8..=12 | 14 | 16..=20 | 22 | 26);
        if let (true, Ok(handle)) = (is_handle, result)
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
        let mut state = Calls { raw: Raw::new(device), handles: Vec::new() };
        let bytes: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
        for shape in [&[1.0, 4.0][..], &[2.0, 2.0, 2.0]] {
            state.handles.push(state.raw.create(shape, 11.0, &bytes).unwrap());
            state.handles.push(state.raw.input(shape, 0.0, 11.0).unwrap());
        }
        let pool = state.raw.pool(POOL).unwrap();
        state.handles.extend([pool, state.raw.sequence(pool).unwrap()]);
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
        assert!(raw.begin_compute(&scratch).is_err());
        assert!(raw.create(&scratch, 11.0, &[]).is_err());
        assert!(raw.input(&[0.0], count * 1e6, 11.0).is_err());
    }
    // Sizes whose product overflows.
    assert!(
        raw.random(&[3.0, 4_294_967_296.0, 4_294_967_296.0, 4_294_967_296.0], 0.0, 11.0, 0.0, 1.0).is_err()
    );
}

#[test]
fn results_that_do_not_fit_scratch_leave_no_handles_behind() {
    let mut raw = Raw::new(device());
    let x = raw.create(&[1.0, 8.0], 1.0, &[1; 8]).unwrap();
    let split = id_of("split").unwrap() as f64;
    let mut scratch = vec![1.0, x, 2.0, 1.0, 0.0];
    assert_eq!(raw.op(&mut scratch, split).unwrap_err().kind, ErrorKind::Shape);
    assert_eq!(raw.graph().stats().handles, 1);
    let mut scratch = vec![0.0; 8];
    assert_eq!(raw.describe(&mut scratch, x).unwrap(), 4.0);
    assert_eq!(scratch[..4], [1.0, 1.0, 1.0, 8.0]);
}

#[test]
fn the_handle_of_one_thing_is_none_of_another() {
    let mut raw = Raw::new(device());
    let x = raw.input(&[1.0, 2.0], 0.0, 11.0).unwrap();
    let executable = raw.compile(&[1.0, x], 1.0).unwrap();
    let error = raw.describe(&mut [0.0; 8], executable).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidHandle);
    assert_eq!(raw.executable(x).unwrap_err().kind, ErrorKind::InvalidHandle);
    assert_eq!(raw.compile(&[1.0, x], 8.0).unwrap_err().kind, ErrorKind::Unsupported);
    assert!(raw.compile(&[1.0, x, 1.0, 0.0], 5.0).unwrap_err().message.contains("1 numbers, expected pairs"));
    assert!(
        raw.compile(&[1.0, x, 2.0, 0.0, 1.0], 5.0).unwrap_err().message.contains("root 1, and there are 1")
    );
    assert!(raw.compile(&[1.0, x, 2.0, -1.0, 0.0], 5.0).unwrap_err().message.contains("slot is -1"));
    let y = raw.create(&[1.0, 2.0], 11.0, &[0; 8]).unwrap();
    let taking = [1.0, y, 0.0, 1.0, 1.0, 0.0];
    let error = raw.begin_execute(&taking, executable, None).map(drop).unwrap_err();
    assert!(error.message.contains("slot 1 is to be taken, and there are 1 bindings"), "{error}");
    assert_eq!(raw.release(executable).unwrap(), 0.0);
    assert_eq!(raw.release(executable).unwrap_err().kind, ErrorKind::InvalidHandle);
}
