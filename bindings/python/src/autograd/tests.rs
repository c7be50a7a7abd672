//! The tape without Python.

use std::thread;

use lanthorn_ir::DType;

use super::engine::{Backward, backward, grad};
use super::{grad_mode, history};
use crate::error::Result;
use crate::ops::{arithmetic, factory, in_place, matmul, reduce, unary, views};
use crate::tensor::Tensor;

const ONCE: Backward<'static> = Backward { retain_graph: false, create_graph: false, poll: None };

fn leaf(shape: &[usize], value: f64) -> Tensor {
    let tensor = factory::full(shape, value.into(), DType::F64, false).unwrap();
    tensor.with_meta(|meta| meta.requires_grad = true);
    tensor.mark_may_require_grad();
    tensor
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.concrete().unwrap().to_f64_vec().unwrap()
}

fn gradient(tensor: &Tensor) -> Vec<f64> {
    numbers(&tensor.peek_meta(|meta| meta.grad.clone()).flatten().unwrap())
}

#[test]
fn chains_of_100_000_nodes_need_no_deep_stack() {
    let run = || -> Result<()> {
        let x = leaf(&[1], 2.0);
        let mut y = x.clone();
        for _ in 0..100_000 {
            y = arithmetic::add(&y, 1.0)?;
        }
        backward(&[y], &[None], None, &ONCE)?;
        assert_eq!(gradient(&x), [1.0]);
        // Dropped without having run, with saved tensors that hold the nodes before them.
        let mut y = x.clone();
        for _ in 0..100_000 {
            y = arithmetic::mul(&y, &x)?;
        }
        drop(y);
        Ok(())
    };
    thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap().unwrap();
}

#[test]
fn threads_add_to_one_leaf_without_losing_any() {
    let x = leaf(&[64], 1.0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let y = reduce::sum(&unary::exp(&x).unwrap(), None, false, None).unwrap();
                    backward(&[y], &[None], None, &ONCE).unwrap();
                }
            });
        }
    });
    let expected = 100.0 * 1f64.exp();
    assert!(gradient(&x).iter().all(|g| (g - expected).abs() < 1e-9));
}

#[test]
fn derivatives_of_derivatives_are_recorded_only_when_asked() {
    let x = leaf(&[3], 2.0);
    let y = reduce::sum(&arithmetic::pow_scalar(&x, 3i64.into()).unwrap(), None, false, None).unwrap();
    let options = Backward { create_graph: true, retain_graph: true, poll: None };
    let first = grad(&[y.clone()], &[None], &[x.clone()], false, &options).unwrap()[0].clone().unwrap();
    assert_eq!(numbers(&first), [12.0; 3]);
    let second =
        grad(&[reduce::sum(&first, None, false, None).unwrap()], &[None], &[x.clone()], false, &ONCE)
            .unwrap();
    assert_eq!(numbers(second[0].as_ref().unwrap()), [12.0; 3]);
    let plain = grad(&[y], &[None], &[x], false, &ONCE).unwrap();
    assert!(!history::requires_grad(plain[0].as_ref().unwrap()));
    assert!(grad_mode::is_enabled());
}

#[test]
fn a_write_through_a_view_changes_the_history_of_its_base() {
    let (a, y) = (leaf(&[2, 3], 1.0), leaf(&[3], 5.0));
    let base = arithmetic::mul(&a, 2.0).unwrap();
    let row = views::select(&base, 0, 1).unwrap();
    in_place::mul_(&row, &y).unwrap();
    assert_eq!(numbers(&base), [2.0, 2.0, 2.0, 10.0, 10.0, 10.0]);
    assert_eq!(history::grad_fn(&base).unwrap().0.short_name(), "CopySlices");
    assert_eq!(history::grad_fn(&row).unwrap().0.short_name(), "AsStridedBackward0");
    let loss = reduce::sum(&base, None, false, None).unwrap();
    backward(&[loss], &[None], None, &ONCE).unwrap();
    assert_eq!(gradient(&a), [2.0, 2.0, 2.0, 10.0, 10.0, 10.0]);
    assert_eq!(gradient(&y), [2.0; 3]);
}

#[test]
fn an_error_between_nodes_stops_the_run_and_leaves_the_mode_as_it_was() {
    let x = leaf(&[1], 1.0);
    let y = unary::exp(&unary::exp(&x).unwrap()).unwrap();
    let stop = || Err(crate::Error::runtime("stop"));
    let options = Backward { poll: Some(&stop), ..ONCE };
    assert_eq!(backward(&[y], &[None], None, &options).unwrap_err().message, "stop");
    assert!(grad_mode::is_enabled());
    assert!(x.peek_meta(|meta| meta.grad.is_none()).unwrap());
}

#[test]
fn tensors_without_memory_pass_the_same_ops() {
    let x = factory::empty(&[4, 6], DType::F32, true).unwrap();
    let product = matmul::matmul(&views::t(&x).unwrap(), &x).unwrap();
    let total = reduce::sum(&product, Some(&[0]), true, None).unwrap();
    assert_eq!(total.shape(), [1, 6]);
    assert!(total.is_meta() && total.concrete().is_err());
    in_place::add_(&x, 1.0).unwrap();
}
