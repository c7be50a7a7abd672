use lanthorn_ir::prim::attention::Attend;
use lanthorn_ir::prim::{Attention, Index, Norm};
use lanthorn_ir::{DType, Layout, Lazy, Prim, TensorType, Value, ops};

use super::*;
use crate::kernel::Fused;
use crate::regions::{Fusion, regions};
use crate::single::single;
use crate::testing::indexed;
use crate::testing::naive::Naive;

fn leaf(shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(DType::F32, shape)).unwrap()
}

fn fused(leaves: &[Value], root: Value) -> Fused {
    regions(&indexed(leaves, &[root]), &Naive::default(), Fusion::On)
}

fn info(prim: Prim, shapes: &[(DType, &[usize])]) -> KernelInfo {
    let operands: Vec<_> = shapes.iter().map(|&(dtype, shape)| (dtype, Layout::contiguous(shape))).collect();
    single(&prim, &operands).unwrap()[0].info()
}

#[test]
fn a_region_counts_steps_and_its_broadcast_operand_once() {
    let (x, bias) = (leaf(&[4, 8]), leaf(&[8]));
    let sum = ops::add(&Lazy, &x, &bias).unwrap();
    let found = fused(&[x, bias], ops::exp(&Lazy, &ops::neg(&Lazy, &sum).unwrap()).unwrap());
    let [kernel] = &found.kernels[..] else { panic!("{found}") };
    let expected =
        KernelInfo { name: "add + neg + exp".into(), bytes_read: 160, bytes_written: 128, flops: 96 };
    assert_eq!(kernel.info(), expected);
}

#[test]
fn a_reduction_counts_body_folds_and_epilogue() {
    let x = leaf(&[4, 8]);
    let sum = ops::sum(&Lazy, &ops::square(&Lazy, &x).unwrap(), &[1], false).unwrap();
    let found = fused(&[x], ops::sqrt(&Lazy, &sum).unwrap());
    let [kernel] = &found.kernels[..] else { panic!("{found}") };
    assert_eq!(kernel.cost(), Cost { bytes_read: 128, bytes_written: 16, flops: 2 * 32 + 4 });
    assert!(kernel.name().ends_with("sum + sqrt"), "{}", kernel.name());
}

#[test]
fn a_product_counts_its_epilogue() {
    let (x, w, bias) = (leaf(&[2, 3, 5]), leaf(&[2, 5, 7]), leaf(&[7]));
    let product = ops::matmul(&Lazy, &x, &w).unwrap();
    let found = fused(&[x, w, bias.clone()], ops::add(&Lazy, &product, &bias).unwrap());
    let [kernel] = &found.kernels[..] else { panic!("{found}") };
    assert_eq!(kernel.name(), "matmul + add");
    let (read, written) = (4 * (30 + 70 + 7), 4 * 42);
    assert_eq!(
        kernel.cost(),
        Cost { bytes_read: read, bytes_written: written, flops: 2 * 2 * 3 * 5 * 7 + 42 }
    );
}

#[test]
fn attention_counts_the_pairs_that_see_each_other() {
    let shape = &[2, 6, 3, 4][..];
    let operands = [(DType::F32, shape); 3];
    let whole = info(Prim::Attention(Attention::Forward(Attend::new(0.5))), &operands);
    assert_eq!((&*whole.name, whole.flops), ("attention", 2 * 3 * 36 * (8 + 8 + 5)));
    let causal = Attend { causal: true, ..Attend::new(0.5) };
    let half = info(Prim::Attention(Attention::Forward(causal)), &operands);
    assert_eq!(half.flops, 2 * 3 * 21 * 21);
    let window = Attend { left: Some(1), ..causal };
    assert_eq!(info(Prim::Attention(Attention::Forward(window)), &operands).flops, 2 * 3 * 11 * 21);
}

#[test]
fn an_embedding_reads_the_rows_that_are_asked_for() {
    let found = info(Prim::Index(Index::Embedding), &[(DType::F32, &[1000, 8]), (DType::I64, &[3])]);
    assert_eq!((found.bytes_read, found.bytes_written, found.flops), (3 * 32 + 24, 96, 0));
    let found = info(Prim::Norm(Norm::Softmax), &[(DType::F32, &[3, 4])]);
    assert_eq!((&*found.name, found.flops), ("softmax", 60));
}

#[test]
fn a_long_region_names_its_first_ops() {
    let x = leaf(&[4]);
    let mut y = ops::exp(&Lazy, &x).unwrap();
    for op in [ops::log1p, ops::sin, ops::cos, ops::tanh, ops::sqrt, ops::floor, ops::exp] {
        y = op(&Lazy, &y).unwrap();
    }
    let found = fused(&[x], y);
    assert_eq!(found.kernels[0].name(), "exp + log1p + sin + cos + tanh + sqrt + 1 more");
}
