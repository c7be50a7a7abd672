//! A call stops inside a kernel, whichever it is, and leaves nothing behind that a later call could stumble over.

#[allow(dead_code)]
#[path = "backend/harness.rs"]
mod harness;

/// What the harness runs on.
fn backend() -> &'static dyn lanthorn_compiler::backend::Backend {
    &lanthorn_cpu::CpuBackend
}

use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{Sequence, build, leaf_of, read, to_bytes};
use lanthorn_compiler::pipeline::Options;
use lanthorn_cpu::pool::pool;
use lanthorn_interp::HostTensor;
use lanthorn_ir::{DType, ErrorKind, Lazy, Result, Value, ops, transform};

/// A program by its arguments, long enough that its kernels have several tasks.
struct Case {
    name: &'static str,
    arguments: Vec<HostTensor>,
    roots: fn(&[Value]) -> Result<Vec<Value>>,
}

fn cases() -> Vec<Case> {
    let mut s = Sequence::new(7);
    let mut cases = Vec::new();
    let mut add = |name, arguments, roots| cases.push(Case { name, arguments, roots });
    let (f32s, f64s, half) = (DType::F32, DType::F64, DType::BF16);
    let product: fn(&[Value]) -> Result<Vec<Value>> = |v| Ok(vec![ops::matmul(&Lazy, &v[0], &v[1])?]);
    add("a product", vec![s.tensor(f32s, &[600, 300]), s.tensor(f32s, &[300, 700])], product);
    add("a product of halves", vec![s.tensor(half, &[300, 300]), s.tensor(half, &[300, 700])], product);
    add("a product of few rows", vec![s.tensor(f32s, &[3, 2000]), s.tensor(f32s, &[2000, 1000])], product);
    add("a plain product", vec![s.tensor(f64s, &[90, 90]), s.tensor(f64s, &[90, 90])], product);
    add("a map", vec![s.tensor(f32s, &[300, 500])], |v| Ok(vec![ops::exp(&Lazy, &v[0])?]));
    add("a sum of everything", vec![s.tensor(f32s, &[500, 500])], |v| {
        Ok(vec![ops::sum(&Lazy, &v[0], &[], false)?])
    });
    add("sums of rows and of columns", vec![s.tensor(f32s, &[700, 900])], |v| {
        Ok(vec![ops::sum(&Lazy, &v[0], &[1], false)?, ops::max(&Lazy, &v[0], &[0], false)?])
    });
    add("the places of the largest", vec![s.tensor(f32s, &[1 << 18])], |v| {
        Ok(vec![ops::argmax(&Lazy, &v[0], Some(0), false)?])
    });
    add("scans of one long line", vec![s.tensor(f32s, &[1 << 17])], |v| {
        let mut roots = ops::cummax(&Lazy, &v[0], 0)?;
        roots.extend([ops::cumsum(&Lazy, &v[0], 0)?, ops::logcumsumexp(&Lazy, &v[0], 0)?]);
        Ok(roots)
    });
    add("scans of many lines", vec![s.tensor(f32s, &[400, 300])], |v| {
        Ok(vec![ops::cumsum(&Lazy, &v[0], 0)?, ops::cumprod(&Lazy, &v[0], 1)?])
    });
    add("a sort of one long line", vec![s.tensor(f32s, &[(1 << 20) + 77])], |v| {
        ops::sort(&Lazy, &v[0], 0, true)
    });
    add("sorts of many lines", vec![s.tensor(f64s, &[90, 1000])], |v| ops::sort(&Lazy, &v[0], 0, false));
    add("a recurrence", vec![s.within(f32s, &[1 << 15, 2], -1.0, 1.0), s.tensor(f32s, &[1 << 15, 2])], |v| {
        Ok(vec![ops::linear_scan(&Lazy, &v[0], &v[1], None, 0, false)?])
    });
    let ids = s.ids(DType::I64, &[300, 300], 300);
    add("a gather and a scatter", vec![s.tensor(f32s, &[300, 300]), ids], |v| {
        let gathered = ops::gather(&Lazy, &v[0], 0, &v[1])?;
        Ok(vec![ops::scatter_add(&Lazy, &v[0], 0, &v[1], &gathered)?])
    });
    add("a table and its gradient", vec![s.tensor(f32s, &[500, 128]), s.ids(DType::I32, &[900], 500)], |v| {
        let rows = ops::embedding(&Lazy, &v[0], &v[1])?;
        let total = ops::sum(&Lazy, &ops::square(&Lazy, &rows)?, &[], false)?;
        transform::grad(&total, &v[..1])
    });
    let heads = |s: &mut Sequence| s.tensor(f32s, &[2, 300, 4, 16]);
    let operands = vec![heads(&mut s), heads(&mut s), heads(&mut s)];
    add("attention and its gradient", operands, |v| {
        let o = ops::attention(&Lazy, &v[0], &v[1], &v[2], true, None, None)?;
        let total = ops::sum(&Lazy, &ops::square(&Lazy, &o)?, &[], false)?;
        transform::grad(&total, v)
    });
    add("norms and their gradient", vec![s.tensor(f32s, &[900, 300]), s.tensor(f32s, &[300])], |v| {
        let y = ops::layer_norm(&Lazy, &v[0], Some(&v[1]), Some(&v[1]), 1e-5)?;
        let total = ops::sum(&Lazy, &ops::softmax(&Lazy, &ops::square(&Lazy, &y)?, -1)?, &[], false)?;
        transform::grad(&total, v)
    });
    add("a ramp", vec![s.tensor(f32s, &[1])], |v| {
        let ramp = ops::arange(&Lazy, 0i64, 200_000i64, 1i64, DType::I32)?;
        Ok(vec![ramp, ops::neg(&Lazy, &v[0])?])
    });
    cases
}

#[test]
fn a_call_stops_within_any_kernel_and_the_next_one_is_right() {
    for Case { name, arguments, roots } in cases() {
        let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
        for threads in [1, 2] {
            pool().set_threads(threads);
            let program = build(&leaves, &roots(&leaves).unwrap(), &Options::default()).unwrap();
            let expected: Vec<_> = program.run(&arguments).unwrap().iter().map(to_bytes).collect();
            // Cancels when asked for the n-th time; says how often it was asked.
            let call = |n: usize| {
                let asked = AtomicUsize::new(0);
                let (result, memories) =
                    program.call(&arguments, &|| asked.fetch_add(1, Ordering::Relaxed) >= n);
                (result, memories, asked.into_inner())
            };
            let (result, _, asked) = call(usize::MAX);
            result.unwrap();
            let kernels = program.compiled.plan.kernels.len();
            assert!(asked > kernels + 1, "{name}: {kernels} kernels asked {asked} times");
            assert_eq!(call(usize::MAX).2, asked, "{name}: work is cut by shape and number of threads alone");
            for n in [0, 1, asked / 2, asked - 1] {
                let error = call(n).0.expect_err(name);
                assert_eq!(error.kind, ErrorKind::Cancelled, "{name} on {threads} threads, at {n}: {error}");
            }
            let (result, memories, _) = call(asked);
            result.unwrap();
            for (found, expected) in memories.outputs.iter().zip(&expected) {
                assert!(&read(&**found, expected.len()) == expected, "{name} on {threads} threads");
            }
        }
    }
}
