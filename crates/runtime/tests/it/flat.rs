//! The short way of small calls gives the bits of the general one.

use lanthorn_ir::expr::{BinaryOp, UnaryOp};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{Builder, DType, Layout, Prim, TensorType};
use lanthorn_runtime::host::HostMemory;
use lanthorn_runtime::{Device, Eager, EagerTensor, Storage};

use super::device;

const DTYPES: [DType; 9] = [
    DType::F32,
    DType::F64,
    DType::BF16,
    DType::F16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U64,
    DType::Bool,
];

/// Numbers of both signs with zeros, infinities and NaN where the dtype has them, from a place behind the first.
fn sample(device: &Device, dtype: DType, count: usize, seed: usize) -> EagerTensor {
    let special = [0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 3.0e38, 1e-40];
    let numbers: Vec<f32> = (0..count + 1)
        .map(|at| match (at + seed) % 4 {
            0 => special[(at / 4 + seed) % special.len()],
            _ => ((at * 7 + seed * 13) % 23) as f32 / 4.0 - 2.5,
        })
        .collect();
    let eager = Eager::new(device);
    let whole = EagerTensor::from_slice(device, &[count + 1], &numbers).unwrap();
    let whole = match dtype {
        DType::F32 => whole,
        dtype => eager.apply1(Prim::Elementwise(Elementwise::Cast(dtype)), &[whole]).unwrap(),
    };
    whole.with_layout(Layout { offset: 1, ..Layout::contiguous([count]) }).unwrap()
}

/// Both ways on the same operands.
fn compare(eager: &Eager, function: Elementwise, operands: &[&EagerTensor]) {
    let prim = Prim::Elementwise(function);
    let owned: Vec<EagerTensor> = operands.iter().map(|&operand| operand.clone()).collect();
    let general = eager.apply1(prim.clone(), &owned);
    let what = || format!("{function:?} of {:?}", operands[0]);
    match (eager.apply1_refs(prim, operands), general) {
        (Ok(short), Ok(general)) => {
            assert_eq!(short.ty(), general.ty(), "{}", what());
            assert_eq!(short.to_bytes().unwrap(), general.to_bytes().unwrap(), "{}", what());
        }
        (Err(short), Err(general)) => assert_eq!(short.to_string(), general.to_string()),
        (short, general) => panic!("{}: {short:?}, {general:?}", what()),
    }
}

#[test]
fn every_function_gives_the_bits_of_the_general_way() {
    let device = device();
    let eager = Eager::new(&device);
    for dtype in DTYPES {
        for count in [1, 5, 16, 37] {
            let (x, y) = (sample(&device, dtype, count, 1), sample(&device, dtype, count, 2));
            UnaryOp::ALL.into_iter().for_each(|op| compare(&eager, Elementwise::Unary(op), &[&x]));
            DTYPES.into_iter().for_each(|to| compare(&eager, Elementwise::Cast(to), &[&x]));
            for op in BinaryOp::ALL {
                compare(&eager, Elementwise::Binary(op), &[&x, &y]);
                compare(&eager, Elementwise::Binary(op), &[&x, &x]);
            }
        }
    }
}

#[test]
fn numbers_of_elements_up_to_and_beyond_a_tile_give_the_same() {
    let device = device();
    let eager = Eager::new(&device);
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for count in [15, 17, 64, 511, 512, 513] {
            let (x, y) = (sample(&device, dtype, count, 3), sample(&device, dtype, count, 4));
            for op in [BinaryOp::Add, BinaryOp::Lt, BinaryOp::Pow] {
                compare(&eager, Elementwise::Binary(op), &[&x, &y]);
            }
        }
    }
}

#[test]
fn elements_at_the_very_end_of_foreign_memory_are_not_read_beyond() {
    let device = device();
    if !device.is_host() {
        return;
    }
    let eager = Eager::new(&device);
    let numbers: Vec<f32> = (0..21).map(|at| at as f32).collect();
    let storage = Storage::external(&device, HostMemory::from_vec(numbers).shared(), false);
    for (offset, count) in [(0, 21), (18, 3), (4, 17), (20, 1)] {
        let layout = Layout { offset, ..Layout::contiguous([count]) };
        let x = EagerTensor::new(storage.clone(), DType::F32, layout).unwrap();
        let sum = eager.apply1_refs(Prim::Elementwise(Elementwise::Binary(BinaryOp::Add)), &[&x, &x]);
        let expected: Vec<f32> = (offset..offset + count).map(|at| 2.0 * at as f32).collect();
        assert_eq!(sum.unwrap().to_vec::<f32>().unwrap(), expected);
    }
}

#[test]
fn shapes_are_kept_and_other_operands_take_the_general_way() {
    let device = device();
    let eager = Eager::new(&device);
    let add = |x: &EagerTensor, y: &EagerTensor| {
        eager.apply1_refs(Prim::Elementwise(Elementwise::Binary(BinaryOp::Add)), &[x, y])
    };
    let x = EagerTensor::from_slice(&device, &[2, 1, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let sum = add(&x, &x).unwrap();
    assert_eq!((sum.shape(), sum.layout().is_contiguous()), (&[2, 1, 3][..], true));
    assert_eq!(sum.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    let flipped = x.with_layout(x.layout().flip(&[2])).unwrap();
    assert_eq!(add(&x, &flipped).unwrap().to_vec::<f32>().unwrap(), [4.0, 4.0, 4.0, 10.0, 10.0, 10.0]);
    let none = EagerTensor::empty(&device, &TensorType::new(DType::F32, [0, 3])).unwrap();
    assert_eq!(add(&none, &none).unwrap().shape(), [0, 3]);
    let scalar = EagerTensor::scalar(&device, 2.0, DType::F32).unwrap();
    assert_eq!(add(&scalar, &scalar).unwrap().item().unwrap(), 4.0);
    // What does not fit is refused in the same words.
    let other = EagerTensor::from_slice(&device, &[2, 1, 3], &[1f64; 6]).unwrap();
    let elsewhere = EagerTensor::from_slice(&super::device(), &[2, 1, 3], &[1f32; 6]).unwrap();
    for wrong in [&other, &elsewhere] {
        let prim = Prim::Elementwise(Elementwise::Binary(BinaryOp::Add));
        let general = eager.apply(prim, &[x.clone(), wrong.clone()]).unwrap_err();
        assert_eq!(add(&x, wrong).unwrap_err().to_string(), general.to_string());
    }
}

#[test]
fn counters_count_the_short_way() {
    let device = device();
    let eager = Eager::new(&device);
    let x = sample(&device, DType::F32, 4, 0);
    let before = device.stats();
    for _ in 0..5 {
        let y = lanthorn_ir::ops::add(&eager, &x, &x).unwrap();
        assert_eq!(device.stats().live_bytes, before.live_bytes + 64);
        drop(y);
    }
    let after = device.stats();
    assert_eq!((after.kernels - before.kernels, after.live_bytes), (5, before.live_bytes));
    assert_eq!(after.peak_bytes, before.peak_bytes.max(before.live_bytes + 64));
    let blocks = after.allocations + after.reuses - before.allocations - before.reuses;
    assert!(blocks >= 5 && after.allocations - before.allocations <= 1);
}
