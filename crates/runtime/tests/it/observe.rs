//! Costs, profiles, settings, and the op that first gave a number that is not finite.

use std::thread;

use lanthorn_ir::{DType, ErrorKind, Lazy, TensorType, Value, ops};
use lanthorn_runtime::executable::Options;
use lanthorn_runtime::profile::{Span, SpanKind};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor, Executable, Tensor, compile};

use super::device;

fn leaf(shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(DType::F32, shape)).unwrap()
}

fn tensor(device: &Device, elements: &[f32]) -> EagerTensor {
    EagerTensor::from_slice(device, &[elements.len()], elements).unwrap()
}

/// `sum(log(x - x))`.
fn broken(device: &Device, options: &Options) -> Executable {
    let x = leaf(&[3]);
    let log = ops::log(&Lazy, &ops::sub(&Lazy, &x, &x).unwrap()).unwrap();
    Executable::new(device, &[x], &[ops::sum(&Lazy, &log, &[], false).unwrap()], options).unwrap()
}

fn inside(inner: &Span<'_>, outer: &Span<'_>) -> bool {
    inner.thread == outer.thread
        && outer.start <= inner.start
        && inner.start + inner.duration <= outer.start + outer.duration
}

#[test]
fn the_op_that_first_gave_an_infinity_is_named() {
    let device = device();
    let (program, x) = (broken(&device, &Options::default()), tensor(&device, &[1.0, 2.0, 3.0]));
    let found = program.first_non_finite(&[&x]).unwrap().unwrap();
    assert_eq!((found.op, found.result, &found.index[..], found.count), ("log", 0, &[0][..], 3));
    assert_eq!(found.value, f64::NEG_INFINITY);
    assert_eq!((found.operands[0].low, found.operands[0].high), (0.0, 0.0));
    assert_eq!(
        found.into_error().to_string(),
        "log: gave -inf at [0] of result 0, f32[3] (3 of 3 elements are not finite), from operand 0: f32[3] of 0e0 to 0e0"
    );
    // The call itself says nothing unless it is asked to.
    assert!(program.call(&[&x], &CancelToken::never()).unwrap()[0].item().unwrap().is_infinite());
}

#[test]
fn finite_programs_and_masks_have_nothing_at_fault() {
    let device = device();
    let (x, mask) = (leaf(&[2]), Value::leaf(TensorType::new(DType::Bool, [2])).unwrap());
    let hidden = ops::full(&Lazy, &[2], f64::NEG_INFINITY, DType::F32).unwrap();
    let scores = ops::where_(&Lazy, &mask, &x, &hidden).unwrap();
    let y = ops::softmax(&Lazy, &scores, -1).unwrap();
    let program = Executable::new(&device, &[x, mask], &[y], &Options::default()).unwrap();
    let x = tensor(&device, &[1.0, 2.0]);
    let mask = |visible: [bool; 2]| EagerTensor::from_slice(&device, &[2], &visible).unwrap();
    assert_eq!(program.first_non_finite(&[&x, &mask([true, false])]).unwrap(), None);
    // Of a row that sees nothing, softmax makes NaN out of infinities.
    let found = program.first_non_finite(&[&x, &mask([false, false])]).unwrap().unwrap();
    assert!(found.value.is_nan() && found.op != "where", "{found}");
}

#[test]
fn under_the_setting_every_call_names_the_op() {
    let device = device();
    device.set_trace_non_finite(true);
    assert!(device.traces_non_finite());
    let x = tensor(&device, &[1.0, 2.0, 3.0]);
    let fault = |error: lanthorn_ir::Error| (error.kind, error.op.to_string());
    let log = (ErrorKind::Execute, "log".to_string());
    let must_be_finite = Options { finite: vec![0], ..Options::default() };
    for options in [Options::default(), must_be_finite] {
        let error = broken(&device, &options).call(&[&x], &CancelToken::never()).unwrap_err();
        assert_eq!(fault(error), log);
    }
    let eager = Eager::new(&device);
    let zero = ops::sub(&eager, &x, &x).unwrap();
    assert_eq!(fault(ops::log(&eager, &zero).unwrap_err()), log);
    let lazy = Tensor::from_slice(&device, &[2], &[-1f32, 1.0]).unwrap();
    let error = lazy.sqrt().unwrap().exp().unwrap().to_vec::<f32>().unwrap_err();
    assert_eq!(error.op, "sqrt");
    device.set_trace_non_finite(false);
    assert_eq!(ops::log(&eager, &zero).unwrap().to_vec::<f32>().unwrap(), [f32::NEG_INFINITY; 3]);
}

#[test]
fn a_traced_call_keeps_its_donated_arguments() {
    let device = device();
    device.set_trace_non_finite(true);
    let step = compile(|a: &[Tensor]| Ok(vec![(&a[0] * &a[1])?.exp()?])).donate(&[(0, 0)]);
    let w = Tensor::from_slice(&device, &[2], &[1f32, 2.0]).unwrap();
    let rate = |value: f64| Tensor::scalar(&device, value, DType::F32).unwrap();
    let error = step.call(&[&w, &rate(100.0)]).unwrap_err();
    assert_eq!(error.op, "exp");
    assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert!(step.call(&[&w, &rate(0.0)]).is_ok());
}

#[test]
fn a_profile_holds_compilations_runs_and_eager_kernels() {
    let device = device();
    let x = tensor(&device, &[1.0, 2.0, 3.0]);
    let (program, profile) = device
        .profile(|| {
            let program = broken(&device, &Options::default());
            program.call(&[&x], &CancelToken::never())?;
            program.call(&[&x], &CancelToken::never())?;
            ops::exp(&Eager::new(&device), &x)?;
            Ok(program)
        })
        .unwrap();
    let spans: Vec<Span<'_>> = profile.spans().collect();
    let of = |kind| spans.iter().filter(move |span| span.kind == kind);
    let (compiles, runs) = (of(SpanKind::Compile).collect::<Vec<_>>(), of(SpanKind::Run).collect::<Vec<_>>());
    assert_eq!((compiles.len(), runs.len()), (1, 2));
    assert!(of(SpanKind::Pass).any(|pass| pass.name == "regions"));
    assert!(of(SpanKind::Pass).all(|pass| inside(pass, compiles[0])));
    let eager = of(SpanKind::Kernel).find(|kernel| kernel.name == "exp").unwrap();
    assert_eq!(eager.cost.map(|cost| (cost.bytes(), cost.flops)), Some((24, 3)));
    assert!(!runs.iter().any(|run| inside(eager, run)));
    let kernels: Vec<_> = of(SpanKind::Kernel).filter(|kernel| *kernel != eager).collect();
    // Only a program whose kernels the host runs tells of each.
    if device.name() == "cpu" {
        assert_eq!(kernels.len(), 2 * program.kernels().len());
        for run in &runs {
            let within: Vec<_> = kernels.iter().filter(|kernel| inside(kernel, run)).collect();
            assert_eq!(within.len(), program.kernels().len());
            assert!(within.iter().map(|kernel| kernel.duration).sum::<std::time::Duration>() <= run.duration);
        }
        let names: Vec<_> = kernels.iter().filter_map(|kernel| kernel.cost).collect();
        assert!(names.iter().all(|info| program.kernels().contains(info)));
    }
    let table = profile.to_string();
    assert!(table.contains("GFLOP/s") && table.contains("2 runs") && table.contains("exp"), "{table}");
    assert_eq!(device.stop_profile().spans().count(), 0);
}

#[test]
fn nothing_is_recorded_while_no_profile_is_on_and_threads_are_told_apart() {
    let device = device();
    let x = tensor(&device, &[1.0]);
    let exp = |device: &Device| ops::exp(&Eager::new(device), &x).map(|_| ());
    exp(&device).unwrap();
    let ((), profile) = device
        .profile(|| {
            thread::scope(|scope| scope.spawn(|| exp(&device)).join().unwrap())?;
            exp(&device)
        })
        .unwrap();
    let threads: Vec<u32> = profile.spans().map(|span| span.thread).collect();
    assert_eq!(threads, [1, 2]);
    let starts: Vec<_> = profile.spans().map(|span| span.start).collect();
    assert!(starts.is_sorted());
}

#[test]
fn settings_are_read_as_they_were_set() {
    let device = device();
    assert_eq!(device.memory_limit(), None);
    device.set_memory_limit(Some(1 << 16));
    assert_eq!(device.memory_limit(), Some(1 << 16));
    let error = EagerTensor::empty(&device, &TensorType::new(DType::F32, [1 << 16])).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    device.set_memory_limit(None);
    assert!(device.threads() >= 1);
    match device.set_threads(device.threads()) {
        Ok(()) => assert!(device.is_deterministic()),
        Err(error) => assert_eq!((error.kind, &*error.op), (ErrorKind::Unsupported, "set_threads")),
    }
}
