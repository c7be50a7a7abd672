//! Results have the same bits whatever the number of threads, also when that changes between compiling and
//! running.

#[allow(dead_code)]
#[path = "backend/harness.rs"]
mod harness;

/// What the harness runs on.
fn backend() -> &'static dyn lanthorn_compiler::backend::Backend {
    &lanthorn_cpu::CpuBackend
}

use harness::{Sequence, build, leaf_of, to_bytes};
use lanthorn_compiler::pipeline::Options;
use lanthorn_cpu::pool::pool;
use lanthorn_interp::HostTensor;
use lanthorn_ir::{DType, Lazy, Result, Value, ops, transform};

/// A block with a loss: folds in both orders, products, attention, norms and embeddings, with gradients.
fn block(v: &[Value]) -> Result<Vec<Value>> {
    let [table, ids, w, bias, scale] = v else { panic!("five arguments") };
    let (batch, time, width) = (2, 70, 64);
    let x = ops::embedding(&Lazy, table, ids)?;
    let h = ops::layer_norm(&Lazy, &x, Some(scale), Some(bias), 1e-5)?;
    let h = ops::linear(&Lazy, &h, w, None)?;
    let heads = ops::reshape(&Lazy, &h, &[batch, time, 4, width / 4])?;
    let h = ops::attention(&Lazy, &heads, &heads, &heads, true, None, None)?;
    let h = ops::reshape(&Lazy, &h, &[batch, time, width])?;
    let h = ops::gelu(&Lazy, &ops::add(&Lazy, &h, &x)?, Default::default())?;
    let logits = ops::linear(&Lazy, &h, table, None)?;
    let logits = ops::reshape(&Lazy, &logits, &[batch * time, -1])?;
    let targets = ops::reshape(&Lazy, ids, &[-1])?;
    let loss = ops::cross_entropy(&Lazy, &logits, &targets, ops::Reduction::Mean, None, None, 0.0, -1)?;
    let total =
        ops::add(&Lazy, &loss, &ops::cast(&Lazy, &ops::sum(&Lazy, &logits, &[], false)?, loss.ty().dtype)?)?;
    let mut roots = vec![ops::sum(&Lazy, &logits, &[0], false)?, ops::max(&Lazy, &h, &[-1], false)?];
    roots.extend(transform::grad(&total, &[table.clone(), w.clone(), bias.clone(), scale.clone()])?);
    roots.push(total);
    Ok(roots)
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        let mut s = Sequence::new(41);
        let arguments: Vec<HostTensor> = vec![
            s.within(dtype, &[900, 64], -0.3, 0.3),
            s.ids(DType::I64, &[2, 70], 900),
            s.within(dtype, &[64, 64], -0.2, 0.2),
            s.tensor(dtype, &[64]),
            s.tensor(dtype, &[64]),
        ];
        let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
        let roots = block(&leaves).unwrap();
        for optimize in [false, true] {
            let mut expected: Option<Vec<Vec<u8>>> = None;
            for compiled_for in [1, 2, 5] {
                pool().set_threads(compiled_for);
                let options = Options { optimize, ..Options::default() };
                let program = build(&leaves, &roots, &options).unwrap();
                for threads in [1, 2, 7] {
                    pool().set_threads(threads);
                    let found: Vec<_> = program.run(&arguments).unwrap().iter().map(to_bytes).collect();
                    let expected = expected.get_or_insert_with(|| found.clone());
                    let equal = found.iter().zip(&*expected).all(|(a, b)| a == b);
                    assert!(
                        equal,
                        "{dtype}, optimize {optimize}: compiled for {compiled_for}, run on {threads} threads"
                    );
                }
            }
        }
    }
}
