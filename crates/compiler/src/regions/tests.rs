//! How many kernels known patterns take.

use lanthorn_ir::expr::UnaryOp;
use lanthorn_ir::ops::{self, GeluApproximate};
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Lazy, Prim, TensorType, Value};

use crate::kernel::KernelKind;
use crate::testing::{apply, build, check, leaf};

/// The kernels of the optimised program, after holding its results against the reference.
fn kernels(parameters: &[&Value], roots: &[&Value]) -> Vec<KernelKind> {
    let parameters: Vec<Value> = parameters.iter().map(|&v| v.clone()).collect();
    let roots: Vec<Value> = roots.iter().map(|&v| v.clone()).collect();
    check(&parameters, &roots);
    build(&parameters, &roots).plan.kernels.iter().map(|kernel| kernel.kind.clone()).collect()
}

fn tanh(x: &Value) -> Value {
    apply(Prim::Elementwise(Elementwise::Unary(UnaryOp::Tanh)), &[x])
}

fn scalar() -> Value {
    Value::leaf(TensorType::scalar(DType::F32)).unwrap()
}

#[test]
fn a_linear_layer_with_bias_gelu_and_residual_is_one_kernel() {
    let (x, w, bias, residual) = (leaf(&[2, 3, 4]), leaf(&[5, 4]), leaf(&[5]), leaf(&[2, 3, 5]));
    let y = ops::linear(&Lazy, &x, &w, Some(&bias)).unwrap();
    let y = ops::gelu(&Lazy, &y, GeluApproximate::Tanh).unwrap();
    let y = ops::add(&Lazy, &y, &residual).unwrap();
    let found = kernels(&[&x, &w, &bias, &residual], &[&y]);
    assert!(matches!(found[..], [KernelKind::MatMul { .. }]), "{found:?}");
}

#[test]
fn an_activation_that_the_backward_needs_is_a_second_output() {
    let (x, w, bias) = (leaf(&[3, 4]), leaf(&[5, 4]), leaf(&[5]));
    let before = ops::linear(&Lazy, &x, &w, Some(&bias)).unwrap();
    let after = tanh(&before);
    assert_eq!(kernels(&[&x, &w, &bias], &[&before, &after]).len(), 1);
}

#[test]
fn adamw_is_one_map_with_three_outputs() {
    let state: Vec<Value> = (0..4).map(|_| leaf(&[3, 4])).collect();
    let (lr, bias1, bias2) = (scalar(), scalar(), scalar());
    let (p, g, m, v) = (&state[0], &state[1], &state[2], &state[3]);
    let v = ops::square(&Lazy, v).unwrap();
    let updated = ops::adamw(&Lazy, p, g, m, &v, &lr, &bias1, &bias2, 0.9, 0.99, 1e-8, 0.01).unwrap();
    let parameters = [p, g, m, &state[3], &lr, &bias1, &bias2].map(Value::clone);
    // The sampled arguments make no sense as a state, so the results are not compared.
    let compiled = build(&parameters, &updated);
    let [kernel] = &compiled.plan.kernels[..] else { panic!("{}", compiled.plan) };
    assert!(matches!(kernel.kind, KernelKind::Map { .. }));
    assert_eq!((kernel.inputs.len(), kernel.outputs.len()), (7, 3));
}

#[test]
fn fifty_elementwise_ops_are_one_kernel() {
    let x = leaf(&[4, 5]);
    let y = (0..50).fold(x.clone(), |y, _| tanh(&y));
    assert_eq!(kernels(&[&x], &[&y]).len(), 1);
    let compiled = build(std::slice::from_ref(&x), std::slice::from_ref(&y));
    assert_eq!(compiled.plan.workspace_bytes, 0);
}

#[test]
fn branches_of_a_diamond_meet_in_one_kernel() {
    let (x, y, z) = (leaf(&[6]), leaf(&[6]), leaf(&[2, 3]));
    let (a, b) = (tanh(&x), tanh(&tanh(&y)));
    let c = ops::reshape(&Lazy, &tanh(&z), &[6]).unwrap();
    let sum = ops::add(&Lazy, &ops::mul(&Lazy, &a, &b).unwrap(), &c).unwrap();
    assert_eq!(kernels(&[&x, &y, &z], &[&sum]).len(), 1);
}

#[test]
fn a_product_takes_over_the_branch_that_meets_it() {
    let (x, w, y) = (leaf(&[3, 4]), leaf(&[4, 5]), leaf(&[3, 5]));
    let product = ops::matmul(&Lazy, &x, &w).unwrap();
    let gate = tanh(&tanh(&y));
    for (a, b) in [(&product, &gate), (&gate, &product)] {
        let gated = ops::mul(&Lazy, a, b).unwrap();
        let found = kernels(&[&x, &w, &y], &[&gated]);
        assert!(matches!(found[..], [KernelKind::MatMul { .. }]), "{found:?}");
    }
}

#[test]
fn a_normalisation_over_rows_takes_three_kernels() {
    let (x, w) = (leaf(&[4, 8]), leaf(&[8]));
    let mean = ops::mean(&Lazy, &x, &[1], true).unwrap();
    let centred = ops::sub(&Lazy, &x, &mean).unwrap();
    let square = ops::square(&Lazy, &centred).unwrap();
    let variance = ops::mean(&Lazy, &square, &[1], true).unwrap();
    let scale = ops::rsqrt(&Lazy, &ops::add_scalar(&Lazy, &variance, 1e-5).unwrap()).unwrap();
    let y = ops::mul(&Lazy, &ops::mul(&Lazy, &centred, &scale).unwrap(), &w).unwrap();
    let found = kernels(&[&x, &w], &[&y]);
    let kinds: Vec<bool> = found.iter().map(|kind| matches!(kind, KernelKind::Reduce { .. })).collect();
    assert_eq!(kinds, [true, true, false]);
}

#[test]
fn sums_over_the_same_axes_share_a_kernel() {
    let (x, y) = (leaf(&[4, 8]), leaf(&[4, 8]));
    let product = ops::mul(&Lazy, &x, &y).unwrap();
    let square = ops::square(&Lazy, &product).unwrap();
    let sums = [&product, &square].map(|v| ops::sum(&Lazy, v, &[0], false).unwrap());
    let found = kernels(&[&x, &y], &[&sums[0], &sums[1], &product]);
    assert!(matches!(&found[..], [KernelKind::Reduce { folds, .. }] if folds.len() == 2), "{found:?}");
}

#[test]
fn a_fold_of_a_product_starts_a_kernel_and_its_epilogue_goes_on() {
    let (x, w) = (leaf(&[3, 4]), leaf(&[4, 5]));
    let product = ops::matmul(&Lazy, &x, &w).unwrap();
    let norm = tanh(&ops::sum(&Lazy, &tanh(&product), &[1], false).unwrap());
    assert_eq!(kernels(&[&x, &w], &[&norm]).len(), 2);
}

#[test]
fn parts_are_computed_into_their_concatenation() {
    let (x, y, z) = (leaf(&[3, 2]), leaf(&[3, 4]), leaf(&[4, 3]));
    let product = ops::matmul(&Lazy, &y, &z).unwrap();
    let parts = [tanh(&x), tanh(&product)];
    let whole = ops::concat(&Lazy, &parts, 1).unwrap();
    // One kernel for each part, and none for the copy.
    assert_eq!(kernels(&[&x, &y, &z], &[&whole]).len(), 2);
    // What is concatenated may have other readers.
    let again = tanh(&parts[1]);
    assert_eq!(kernels(&[&x, &y, &z], &[&whole, &again]).len(), 2);
}

#[test]
fn views_cost_nothing_until_none_shows_the_elements() {
    let (x, w) = (leaf(&[4, 3]), leaf(&[4, 5]));
    let turned = ops::transpose(&Lazy, &x, 0, 1).unwrap();
    let product = ops::matmul(&Lazy, &turned, &w).unwrap();
    assert_eq!(kernels(&[&x, &w], &[&product]).len(), 1);
    let flat = tanh(&ops::reshape(&Lazy, &turned, &[12]).unwrap());
    assert_eq!(kernels(&[&x], &[&flat]).len(), 1);
}

#[test]
fn results_that_are_arguments_views_or_twice_the_same_get_their_own_memory() {
    let x = leaf(&[2, 3]);
    let y = tanh(&x);
    let turned = ops::transpose(&Lazy, &y, 0, 1).unwrap();
    let constant = ops::full(&Lazy, &[2], 3.0, DType::F32).unwrap();
    let roots = [x.clone(), y.clone(), y, turned, constant.clone(), constant, x.clone()];
    check(&[x], &roots);
}

#[test]
fn a_primitive_that_can_writes_into_a_concatenation() {
    let (table, x) = (leaf(&[6, 4]), leaf(&[2, 3, 4]));
    let ids = Value::leaf(TensorType::new(DType::U8, [2, 3])).unwrap();
    // The sampled ids reach 11, so they are halved.
    let halves = ops::div(&Lazy, &ids, &ops::full(&Lazy, &[2, 3], 2i64, DType::U8).unwrap()).unwrap();
    let rows = apply(Prim::Index(lanthorn_ir::prim::Index::Embedding), &[&table, &halves]);
    let whole = ops::concat(&Lazy, &[rows.clone(), tanh(&x)], 2).unwrap();
    let found = kernels(&[&table, &ids, &x], &[&whole]);
    assert_eq!(found.len(), 3, "{found:?}");
    // Not if somebody else reads its output.
    assert_eq!(kernels(&[&table, &ids, &x], &[&whole, &rows]).len(), 4);
}

#[test]
fn what_only_the_backward_needs_is_computed_there() {
    let (x, w, dz) = (leaf(&[3, 4]), leaf(&[4, 4]), leaf(&[3, 4]));
    let y = tanh(&ops::matmul(&Lazy, &x, &w).unwrap());
    let z = ops::matmul(&Lazy, &y, &w).unwrap();
    let dy = ops::matmul(&Lazy, &ops::mul(&Lazy, &z, &dz).unwrap(), &w).unwrap();
    let slope = ops::rsub_scalar(&Lazy, &ops::square(&Lazy, &y).unwrap(), 1.0).unwrap();
    let dx = ops::mul(&Lazy, &dy, &slope).unwrap();
    let found = kernels(&[&x, &w, &dz], &[&dx]);
    assert_eq!(found.len(), 3, "{found:?}");
    let compiled = build(&[x, w, dz], &[dx]);
    assert_eq!(compiled.plan.kernels[0].outputs.len(), 1, "{}", compiled.plan);
}

#[test]
fn a_widened_value_is_read_in_its_narrow_form() {
    let half = |shape: &[usize]| Value::leaf(TensorType::new(DType::BF16, shape)).unwrap();
    let (x, y, p) = (half(&[3, 4]), half(&[4, 5]), leaf(&[3, 5]));
    let grad = ops::matmul(&Lazy, &x, &y).unwrap();
    let wide = ops::cast(&Lazy, &grad, DType::F32).unwrap();
    let norm = ops::sum(&Lazy, &ops::square(&Lazy, &wide).unwrap(), &[], false).unwrap();
    let scaled = ops::mul(&Lazy, &wide, &ops::rsqrt(&Lazy, &norm).unwrap()).unwrap();
    let updated = ops::sub(&Lazy, &p, &scaled).unwrap();
    assert_eq!(kernels(&[&x, &y, &p], &[&updated]).len(), 3);
    let compiled = build(&[x, y, p], &[updated]);
    // The product, in bf16; the norm; the update. Nobody stores the wide gradient.
    let outputs: Vec<DType> =
        compiled.plan.kernels.iter().flat_map(|k| &k.outputs).map(|o| o.dtype).collect();
    assert_eq!(outputs, [DType::BF16, DType::F32, DType::F32], "{}", compiled.plan);
    assert!(compiled.plan.kernels.iter().all(|kernel| kernel.outputs.len() == 1));
}
