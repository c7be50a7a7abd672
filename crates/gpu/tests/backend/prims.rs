//! Primitives: those with shaders of their own, and those that decompose.

use lanthorn_compiler::kernel::KernelKind;
use lanthorn_compiler::pipeline::Options;
use lanthorn_interp::HostTensor;
use lanthorn_ir::builder::Builder;
use lanthorn_ir::expr::F64;
use lanthorn_ir::layout::Dims;
use lanthorn_ir::philox::Philox;
use lanthorn_ir::prim::{Random, Source, State};
use lanthorn_ir::{DType, Lazy, Prim, Value, ops};

use crate::harness::{Eager, Lie, Sequence, Strided, assert_close, build, check, check_prim, leaf_of};

fn key(seed: u64, draw: u64) -> HostTensor {
    HostTensor::new(&[2], vec![seed, draw]).unwrap()
}

#[test]
fn uniforms_equal_the_hosts_bit_for_bit() {
    for (seed, draw, stream) in [(0, 0, 0), (7, 1, 3), (u64::MAX, 1 << 40, u64::MAX / 3), (0xffff_ffff, 5, 1)]
    {
        for n in [1, 3, 4, 5, 1025] {
            let prim = Prim::Random(Random::Uniform { shape: Dims::from_slice(&[n]), stream });
            let operand = Strided::new(&key(seed, draw), Lie::Contiguous);
            let found = Eager.apply(prim, &[operand]).unwrap()[0].tensor();
            let words = Philox::new(seed, draw, stream);
            let expected: Vec<f64> =
                (0..n).map(|i| f64::from(words.word(i as u64) >> 8) / f64::from(1u32 << 24)).collect();
            assert_eq!(found.to_f64(), expected, "seed {seed}, draw {draw}, stream {stream}, {n} elements");
        }
    }
}

#[test]
fn random_programs_draw_as_the_reference_does() {
    let f = |v: &[Value]| {
        let u = ops::uniform(&Lazy, &v[0], &[3, 50], 0.0, 1.0, DType::F32, 5)?;
        let normal = ops::normal(&Lazy, &v[0], &[41], 0.0, 1.0, DType::F32, 6)?;
        let kept = ops::lt_scalar(&Lazy, &u, 0.3)?;
        Ok(vec![ops::mul_scalar(&Lazy, &u, 2.0)?, normal, kept])
    };
    check("random", &f, &[key(9, 2)], 1e-5);
}

#[test]
fn numbers_in_order_agree() {
    for dtype in [DType::F32, DType::I32, DType::U32] {
        for len in [0, 1, 700] {
            check_prim("iota", &Prim::Source(Source::Iota { len, dtype }), &[], 0.0);
        }
    }
}

fn adamw_arguments(shape: &[usize]) -> Vec<HostTensor> {
    let mut s = Sequence::new(18);
    let n = shape.iter().product();
    let mut arguments =
        vec![s.tensor(DType::F32, shape), s.tensor(DType::F32, shape), s.tensor(DType::F32, shape)];
    arguments.push(s.within(DType::F32, shape, 0.0, 1.0));
    for value in [0.1, 0.5, 0.3] {
        arguments.push(HostTensor::from_f64(DType::F32, shape, &vec![value; n]).unwrap());
    }
    arguments
}

#[test]
fn adamw_is_one_region_where_the_device_binds_its_ten_operands() {
    let adamw = State::AdamW { beta1: F64(0.9), beta2: F64(0.99), eps: F64(1e-3), weight_decay: F64(0.1) };
    check_prim("adamw", &Prim::State(adamw), &adamw_arguments(&[7, 30]), 8e-5);
    let mut arguments = adamw_arguments(&[7, 30]);
    for control in &mut arguments[4..] {
        let value = control.to_f64()[0];
        *control = HostTensor::from_f64(DType::F32, &[], &[value]).unwrap();
    }
    let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
    let mut operands = leaves.clone();
    for scalar in &mut operands[4..] {
        *scalar = ops::broadcast_to(&Lazy, scalar, &[7, 30]).unwrap();
    }
    let roots = Lazy.apply(Prim::State(adamw), &operands).unwrap().into_vec();
    let options = Options { donated: vec![(0, 0), (2, 1), (3, 2)], ..Options::default() };
    let program = build(&leaves, &roots, &options).unwrap();
    let kernels = &program.compiled.plan.kernels;
    assert!(
        kernels.iter().all(|kernel| matches!(kernel.kind, KernelKind::Map { .. })),
        "{}",
        program.compiled.plan
    );
    if crate::gpu().limits().storage_buffers >= 10 {
        assert_eq!(kernels.len(), 1, "{}", program.compiled.plan);
    }
    let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
    let expected = lanthorn_interp::eval(&roots, &bindings).unwrap();
    for (found, expected) in program.run(&arguments).unwrap().iter().zip(&expected) {
        assert_close("adamw in place", found, expected, 8e-5);
    }
}

#[test]
fn compound_primitives_decompose() {
    let mut s = Sequence::new(4);
    let arguments =
        [s.tensor(DType::F32, &[2, 5, 12]), s.tensor(DType::F32, &[12]), s.tensor(DType::F32, &[12])];
    let f = |v: &[Value]| {
        let y = ops::layer_norm(&Lazy, &v[0], Some(&v[1]), Some(&v[2]), 1e-5)?;
        Ok(vec![ops::rms_norm(&Lazy, &y, Some(&v[1]), 1e-5)?, y])
    };
    check("norms", &f, &arguments, 5e-5);
}
