//! Dtypes: what each holds, how casts round inside of a region, what support says and kernels do.

use lanthorn_compiler::backend::Support;
use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::expr::{BinaryOp, Scalar, UnaryOp};
use lanthorn_ir::prim::{Elementwise, Reduce, ReduceOp};
use lanthorn_ir::{DType, Dims, Lazy, Prim, Result, TensorType, Value, ops};

use crate::backend;
use crate::harness::run;

const INTEGERS: [DType; 8] =
    [DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64];
const NARROW: [DType; 4] = [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2];

fn leaf(dtype: DType, shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(dtype, shape)).unwrap()
}

/// The reference and the CPU, with and without fusion, give the same bits.
fn check_bits(name: &str, leaves: &[Value], roots: &[Value], arguments: &[HostTensor]) {
    let bindings: Vec<(Value, HostTensor)> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
    let expected = eval(roots, &bindings).unwrap();
    for optimize in [true, false] {
        let found = run(leaves, roots, arguments, optimize).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.ty(), expected.ty(), "{name}");
            assert_eq!(found.to_bytes(), expected.to_bytes(), "{name}, optimize {optimize}");
        }
    }
}

/// Numbers between which and at which the narrow dtypes round, in every binade that they have.
fn around_ties() -> HostTensor {
    let mut numbers = Vec::new();
    for exponent in -27..18 {
        for part in [0.0, 1.0 / 16.0, 1.0 / 8.0, 0.1876, 1.0 / 256.0, 3.0 / 512.0, 1.0 / 2048.0, 0.7] {
            let value = (1.0 + part) * 2f64.powi(exponent);
            numbers.extend([value, -value, value * 1.000_001]);
        }
    }
    numbers.extend([
        0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        448.0,
        464.0,
        465.0,
        57344.0,
        61439.0,
        61440.0,
        65520.0,
    ]);
    HostTensor::from_f64(DType::F32, &[numbers.len()], &numbers).unwrap()
}

#[test]
fn a_cast_rounds_inside_of_a_region() {
    let x = around_ties();
    for dtype in NARROW {
        let leaf = leaf(DType::F32, x.shape());
        let narrow = ops::cast(&Lazy, &ops::mul_scalar(&Lazy, &leaf, 1.5).unwrap(), dtype).unwrap();
        let wide = ops::cast(&Lazy, &narrow, DType::F32).unwrap();
        // Read by the region that computes it, and stored by it too.
        let roots = [ops::neg(&Lazy, &wide).unwrap(), narrow, wide];
        check_bits(dtype.name(), &[leaf], &roots, std::slice::from_ref(&x));
    }
}

#[test]
fn a_cast_from_one_narrow_dtype_to_another_rounds_to_both() {
    let x = around_ties();
    for (first, second) in [(DType::BF16, DType::F16), (DType::F16, DType::F8E5M2), (DType::F64, DType::BF16)]
    {
        let leaf = leaf(DType::F32, x.shape());
        let once = ops::cast(&Lazy, &leaf, first).unwrap();
        let twice = ops::cast(&Lazy, &once, second).unwrap();
        let root = ops::cast(&Lazy, &twice, DType::F32).unwrap();
        check_bits(&format!("{first} {second}"), &[leaf], &[root], std::slice::from_ref(&x));
    }
}

#[test]
fn constants_are_numbers_of_their_dtype() {
    for dtype in [DType::F16, DType::BF16] {
        let x = HostTensor::from_f64(dtype, &[3], &[1.0, 2.0, -4.0]).unwrap();
        let leaf = leaf(dtype, &[3]);
        let root = ops::cast(&Lazy, &ops::mul_scalar(&Lazy, &leaf, 0.1).unwrap(), DType::F32).unwrap();
        let found = run(&[leaf], &[root], &[x], true).unwrap();
        // The product by the rounded tenth is not rounded again, for nobody asks for it.
        assert_eq!(found[0].to_f64()[0], dtype.round(0.1), "{dtype}");
    }
}

#[test]
fn eight_bit_floats_are_stored_moved_and_converted() {
    for dtype in [DType::F8E4M3, DType::F8E5M2] {
        let ty = TensorType::new(dtype, [16, 16]);
        // One NaN of each sign: which one a move gives is nobody's promise.
        let spare = |code: u8| dtype == DType::F8E5M2 && matches!(code & 0x7f, 0x7d | 0x7e);
        let codes: Vec<u8> = (0..=255).filter(|&code| !spare(code)).chain([0; 4]).take(256).collect();
        let codes = HostTensor::from_bytes(&ty, &codes).unwrap();
        let x = leaf(dtype, &[16, 16]);
        let turned = ops::transpose(&Lazy, &x, 0, 1).unwrap();
        let flat = ops::reshape(&Lazy, &turned, &[-1]).unwrap();
        let ids = leaf(DType::I64, &[3]);
        let mask = leaf(DType::Bool, &[16, 1]);
        let roots = [
            ops::cast(&Lazy, &x, DType::F32).unwrap(),
            ops::cast(&Lazy, &x, DType::I32).unwrap(),
            flat,
            ops::concat(&Lazy, &[turned.clone(), x.clone()], 1).unwrap(),
            ops::pad(&Lazy, &x, &[1, 0], &[0, 2], 0.0).unwrap(),
            ops::embedding(&Lazy, &x, &ids).unwrap(),
            ops::where_(&Lazy, &mask, &x, &turned).unwrap(),
        ];
        let rows = HostTensor::from_i64(DType::I64, &[3], &[15, 0, 7]).unwrap();
        let bits: Vec<i64> = (0..16).map(|i| i % 2).collect();
        let chosen = HostTensor::from_i64(DType::Bool, &[16, 1], &bits).unwrap();
        check_bits(dtype.name(), &[x, ids, mask], &roots, &[codes, rows, chosen]);
    }
}

#[test]
fn nothing_computes_in_eight_bit_floats() {
    let x = leaf(DType::F8E4M3, &[2, 2]);
    let says = |found: Result<Value>, op: &str| {
        let error = found.unwrap_err().to_string();
        assert!(error.contains("f8e4m3") && error.starts_with(op), "{error}");
    };
    says(ops::add(&Lazy, &x, &x), "add");
    says(ops::exp(&Lazy, &x), "exp");
    says(ops::sum(&Lazy, &x, &[], false), "sum");
    says(ops::matmul(&Lazy, &x, &x), "matmul");
    says(ops::softmax(&Lazy, &x, -1), "softmax");
    says(ops::iota(&Lazy, 3, DType::F8E4M3), "iota");
}

/// Numbers over the whole range of a dtype.
fn numbers(dtype: DType, shape: &[usize], seed: u64) -> HostTensor {
    let count = shape.iter().product::<usize>() as u64;
    let mixed = (0..count).map(|i| (i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) as i64);
    HostTensor::from_i64(dtype, shape, &mixed.collect::<Vec<_>>()).unwrap()
}

#[test]
fn integers_multiply_as_matrices_exactly_and_wrap() {
    for dtype in INTEGERS {
        let (x, y) = (leaf(dtype, &[2, 3, 5]), leaf(dtype, &[5, 2, 4]));
        let turned = ops::permute(&Lazy, &y, &[1, 0, 2]).unwrap();
        let product = ops::matmul(&Lazy, &x, &turned).unwrap();
        let wide = ops::matmul_as(&Lazy, &x, &turned, DType::I64).unwrap();
        let shifted = ops::add_scalar(&Lazy, &product, 1i64).unwrap();
        let arguments = [numbers(dtype, &[2, 3, 5], 3), numbers(dtype, &[5, 2, 4], 8)];
        check_bits(dtype.name(), &[x, y], &[product, wide, shifted], &arguments);
    }
}

#[test]
fn integers_and_truth_values_sum_in_i64() {
    for dtype in INTEGERS.into_iter().chain([DType::Bool]) {
        let x = leaf(dtype, &[3, 700]);
        let roots = [
            ops::sum(&Lazy, &x, &[-1], false).unwrap(),
            ops::sum(&Lazy, &x, &[0], true).unwrap(),
            ops::prod(&Lazy, &x, &[0], false).unwrap(),
            ops::max(&Lazy, &x, &[1], false).unwrap(),
            ops::min(&Lazy, &x, &[], false).unwrap(),
            ops::any(&Lazy, &x, &[1], false).unwrap(),
            ops::all(&Lazy, &x, &[0], false).unwrap(),
        ];
        assert_eq!(roots[0].ty().dtype, DType::I64);
        check_bits(dtype.name(), std::slice::from_ref(&x), &roots, &[numbers(dtype, &[3, 700], 1)]);
    }
}

#[test]
fn integer_arithmetic_wraps_alike() {
    for dtype in INTEGERS {
        let (x, y) = (leaf(dtype, &[600]), leaf(dtype, &[600]));
        let binary = |op| {
            use lanthorn_ir::Builder;
            Lazy.apply1(Prim::Elementwise(Elementwise::Binary(op)), &[x.clone(), y.clone()]).ok()
        };
        let roots: Vec<Value> = BinaryOp::ALL.into_iter().filter_map(binary).collect();
        assert!(roots.len() > 10, "{dtype}");
        let arguments = [numbers(dtype, &[600], 5), numbers(dtype, &[600], 99)];
        check_bits(dtype.name(), &[x.clone(), y.clone()], &roots, &arguments);
    }
}

#[test]
fn every_cast_agrees_with_the_reference() {
    let values = [
        0.0,
        1.0,
        -1.0,
        0.5,
        -2.7,
        127.0,
        128.0,
        255.9,
        256.0,
        65504.0,
        70000.0,
        2147483648.0,
        -1e10,
        1e19,
        2e19,
    ];
    let all: Vec<DType> = DType::ALL.into_iter().filter(|dtype| !dtype.is_complex()).collect();
    for &from in &all {
        let numbers =
            [&values[..], if from.is_float() { &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY] } else { &[] }];
        let numbers = numbers.concat();
        let x = HostTensor::from_f64(from, &[numbers.len()], &numbers).unwrap();
        let leaf = leaf(from, x.shape());
        // A NaN's bits are nobody's promise: casts to floats are compared by value.
        let (floats, others): (Vec<DType>, Vec<DType>) = all.iter().partition(|dtype| dtype.is_float());
        let casts =
            |to: &[DType]| to.iter().map(|&to| ops::cast(&Lazy, &leaf, to).unwrap()).collect::<Vec<_>>();
        check_bits(from.name(), std::slice::from_ref(&leaf), &casts(&others), std::slice::from_ref(&x));
        let roots = casts(&floats);
        let expected = eval(&roots, &[(leaf.clone(), x.clone())]).unwrap();
        let found = run(std::slice::from_ref(&leaf), &roots, std::slice::from_ref(&x), true).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            let to = found.ty().dtype;
            for (a, b) in found.to_f64().iter().zip(expected.to_f64()) {
                assert!(*a == b || a.is_nan() && b.is_nan(), "{from} to {to}: {a} and {b}");
            }
        }
    }
}

/// What `support` promises of a primitive, a program of it keeps: it compiles and runs, or `infer` has refused it.
#[test]
fn support_and_kernels_agree_on_every_dtype() {
    let shape = [3usize, 4];
    let mut tried = 0;
    for dtype in DType::ALL {
        let unary = UnaryOp::ALL.into_iter().map(Elementwise::Unary).map(|op| (Prim::Elementwise(op), 1));
        let binary = BinaryOp::ALL.into_iter().map(Elementwise::Binary).map(|op| (Prim::Elementwise(op), 2));
        let casts = DType::ALL.into_iter().map(Elementwise::Cast).map(|op| (Prim::Elementwise(op), 1));
        let folds = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min]
            .map(|op| (Prim::Reduce(Reduce::Fold { op, axes: Dims::from_slice(&[1]) }), 1));
        let others =
            [(Prim::Reduce(Reduce::ArgMax { axis: 0 }), 1), (Prim::Reduce(Reduce::ArgMin { axis: 1 }), 1)];
        for (prim, arity) in unary.chain(binary).chain(casts).chain(folds).chain(others) {
            let ty = TensorType::new(dtype, shape);
            let types = vec![&ty; arity];
            if prim.infer(&types).is_err() {
                continue;
            }
            let support = backend().support(&prim, &types);
            let leaves: Vec<Value> = (0..arity).map(|_| leaf(dtype, &shape)).collect();
            let roots = {
                use lanthorn_ir::Builder;
                Lazy.apply(prim.clone(), &leaves).unwrap()
            };
            // Small ones: some functions of orders and counts take time in proportion.
            let small: Vec<i64> = (0..12).map(|i| i % 4).collect();
            let arguments = vec![HostTensor::from_i64(dtype, &shape, &small).unwrap(); arity];
            let found = run(&leaves, &roots, &arguments, true);
            assert_eq!(
                support.is_ok(),
                found.is_ok(),
                "{prim} of {dtype}: {support:?} but {:?}",
                found.err()
            );
            assert!(
                matches!(support, Ok(Support::Kernel | Support::Decompose)),
                "{prim} of {dtype}: {support:?}"
            );
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn numbers_that_do_not_fit_are_refused_by_name() {
    let says = |found: Result<Value>, text: &str| assert_eq!(found.unwrap_err().to_string(), text);
    says(ops::full(&Lazy, &[2], 300i64, DType::U8), "full: the scalar 300 does not fit u8");
    says(ops::full(&Lazy, &[2], -1i64, DType::U64), "full: the scalar -1 does not fit u64");
    says(ops::full(&Lazy, &[2], 1e10, DType::I32), "full: the scalar 10000000000 does not fit i32");
    says(ops::scalar(&Lazy, f64::INFINITY, DType::I64), "scalar: the scalar inf does not fit i64");
    says(
        ops::scalar(&Lazy, 0.5, DType::I8),
        "scalar: the scalar 0.5 is not a whole number but the operand is i8; cast it",
    );
    says(ops::arange(&Lazy, 250i64, 260i64, 1i64, DType::U8), "arange: the value 259 does not fit u8");
    let top = 2f64.powi(63);
    assert_eq!(Scalar::float(top).fit("scalar", DType::U64), Ok(Scalar::float(top)));
    assert!(Scalar::float(top).fit("scalar", DType::I64).is_err());
    assert!(Scalar::float(f64::NAN).fit("scalar", DType::I64).is_err());
}
