//! Donation, commit, reuse and scale.

use lanthorn_ir::expr::UnaryOp;
use lanthorn_ir::prim::{Contract, Control, Elementwise, Movement};
use lanthorn_ir::{DType, Dims, Lazy, Prim, TensorType, Value, ops};

use crate::pipeline::Options;
use crate::testing::scalar::Number;
use crate::testing::{apply, build, build_with, call, check, check_indexed, indexed, leaf, samples};

fn unary(op: UnaryOp, x: &Value) -> Value {
    apply(Prim::Elementwise(Elementwise::Unary(op)), &[x])
}

fn donating(pairs: &[(u32, u32)]) -> Options {
    Options { donated: pairs.to_vec(), ..Options::default() }
}

/// A training step in small: parameter and momentum, a loss.
fn step() -> (Vec<Value>, Vec<Value>) {
    let (p, m, x) = (leaf(&[4, 4]), leaf(&[4, 4]), leaf(&[3, 4]));
    let y = unary(UnaryOp::Tanh, &ops::matmul(&Lazy, &x, &p).unwrap());
    let loss = ops::sum(&Lazy, &ops::square(&Lazy, &y).unwrap(), &[], false).unwrap();
    let turned = ops::transpose(&Lazy, &x, 0, 1).unwrap();
    let grad = ops::matmul(&Lazy, &turned, &y).unwrap();
    let m2 = ops::add(&Lazy, &ops::mul_scalar(&Lazy, &m, 0.9).unwrap(), &grad).unwrap();
    let p2 = ops::sub(&Lazy, &p, &ops::mul_scalar(&Lazy, &m2, 0.1).unwrap()).unwrap();
    (vec![p, m, x], vec![loss, p2, m2])
}

#[test]
fn donated_memory_holds_the_result_and_needs_no_copy() {
    let (parameters, roots) = step();
    let options = Options { finite: vec![0], ..donating(&[(0, 1), (1, 2)]) };
    check_indexed(&indexed(&parameters, &roots), &options);
    let compiled = build_with(&parameters, &roots, &options);
    let plan = &compiled.plan;
    assert_eq!(plan.kernels.len(), 3, "{plan}");
    assert_eq!(plan.commit, 2, "{plan}");
    assert_eq!((plan.outputs[1].donated, plan.outputs[2].donated), (Some(0), Some(1)));
}

#[test]
fn adamw_updates_its_state_in_place() {
    for shape in [&[4, 4][..], &[1, 4], &[4, 1, 2]] {
        let [p, g, m, v] = [0; 4].map(|_| leaf(shape));
        let [lr, bias1, bias2] = [0; 3].map(|_| leaf(&[]));
        let grad = ops::reshape(&Lazy, &unary(UnaryOp::Tanh, &g), &[-1]).unwrap();
        let grad =
            ops::reshape(&Lazy, &grad, &shape.iter().map(|&d| d as isize).collect::<Vec<_>>()).unwrap();
        let roots = ops::adamw(&Lazy, &p, &grad, &m, &v, &lr, &bias1, &bias2, 0.9, 0.99, 1e-8, 0.01).unwrap();
        let compiled =
            build_with(&[p, g, m, v, lr, bias1, bias2], &roots, &donating(&[(0, 0), (2, 1), (3, 2)]));
        assert_eq!((compiled.plan.kernels.len(), compiled.plan.commit), (1, 0), "{}", compiled.plan);
    }
}

#[test]
fn a_call_that_stops_early_leaves_donated_arguments_as_they_were() {
    let (parameters, roots) = step();
    let options = Options { finite: vec![0], ..donating(&[(0, 1), (1, 2)]) };
    let compiled = build_with(&parameters, &roots, &options);
    let mut arguments = samples(&indexed(&parameters, &roots));
    let before = |memories: &crate::testing::Memories, arguments: &[Vec<Number>]| {
        (0..2).all(|at| memories.inputs[at].values(parameters[at].ty()) == arguments[at])
    };
    let (result, memories) = call(&compiled, &arguments, &|| true);
    assert!(result.is_err() && before(&memories, &arguments));
    // A loss that is not finite stops the call at the commit point.
    arguments[2][0] = Number::F(f64::INFINITY);
    arguments[2][1] = Number::F(f64::NEG_INFINITY);
    arguments[0].iter_mut().for_each(|p| *p = Number::F(1.0));
    let (result, memories) = call(&compiled, &arguments, &|| false);
    assert!(result.is_err() && before(&memories, &arguments));
}

#[test]
fn a_cancellation_after_the_commit_point_comes_too_late() {
    let (parameters, roots) = step();
    let compiled = build_with(&parameters, &roots, &donating(&[(0, 1), (1, 2)]));
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let commit = compiled.plan.commit;
    let cancelled = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > commit;
    let arguments = samples(&indexed(&parameters, &roots));
    assert!(call(&compiled, &arguments, &cancelled).0.is_ok());
}

#[test]
fn results_that_cannot_be_written_in_place_are_copied_last() {
    let (x, y) = (leaf(&[3, 3]), leaf(&[3, 3]));
    // Swapped arguments, a transposed argument, and a product of the argument.
    let turned = ops::transpose(&Lazy, &x, 0, 1).unwrap();
    let swapped = [y.clone(), x.clone()];
    for roots in
        [swapped.to_vec(), vec![turned.clone(), y.clone()], vec![unary(UnaryOp::Exp, &turned), x.clone()]]
    {
        let options = donating(&[(0, 0), (1, 1)]);
        check_indexed(&indexed(&[x.clone(), y.clone()], &roots), &options);
    }
    let product = ops::matmul(&Lazy, &x, &y).unwrap();
    check_indexed(&indexed(&[x.clone(), y.clone()], &[product]), &donating(&[(0, 0)]));
}

#[test]
fn a_checked_result_that_depends_on_a_donated_one_comes_before_commit() {
    let x = leaf(&[3]);
    let updated = unary(UnaryOp::Exp, &x);
    let loss = ops::sum(&Lazy, &updated, &[], false).unwrap();
    let options = Options { finite: vec![1], ..donating(&[(0, 0)]) };
    check_indexed(&indexed(&[x], &[updated, loss]), &options);
}

#[test]
fn what_a_failure_behind_it_could_spoil_is_kept_apart() {
    let (p, m) = (leaf(&[4, 4]), leaf(&[4, 4]));
    let ids = Value::leaf(TensorType::new(DType::I64, [2])).unwrap();
    let updated = unary(UnaryOp::Tanh, &p);
    // A product keeps the two updates in kernels of their own.
    let moved = ops::add(&Lazy, &m, &ops::matmul(&Lazy, &p, &p).unwrap()).unwrap();
    let reads_new = ops::embedding(&Lazy, &updated, &ids).unwrap();
    let reads_old = ops::embedding(&Lazy, &p, &ids).unwrap();
    let donors = |rows: &Value, options: &Options| {
        let roots = [updated.clone(), moved.clone(), rows.clone()];
        let parameters = [p.clone(), m.clone(), ids.clone()];
        let plan = build_with(&parameters, &roots, options).plan;
        plan.outputs.iter().map(|output| output.donated).collect::<Vec<_>>()
    };
    let both = donating(&[(0, 0), (1, 1)]);
    assert_eq!(donors(&reads_new, &both), [None, Some(1), None]);
    assert_eq!(donors(&reads_old, &both), [Some(0), Some(1), None]);
    let anyway = Options { half_written: vec![0], ..both };
    assert_eq!(donors(&reads_new, &anyway), [Some(0), None, None]);
    let anyway = Options { half_written: vec![0, 1], ..anyway };
    assert_eq!(donors(&reads_new, &anyway), [Some(0), Some(1), None]);
}

#[test]
fn a_donation_that_does_not_fit_is_refused() {
    let x = leaf(&[3]);
    let y = ops::sum(&Lazy, &x, &[], false).unwrap();
    let compile = |options: &Options| {
        crate::pipeline::compile(
            &crate::testing::naive::Naive::default(),
            indexed(std::slice::from_ref(&x), std::slice::from_ref(&y)),
            options,
        )
    };
    for pairs in [[(0, 0)], [(1, 0)], [(0, 1)]] {
        assert!(compile(&donating(&pairs)).is_err());
    }
    assert!(compile(&Options { finite: vec![1], ..Options::default() }).is_err());
    // A checked result needs memory of its own: the argument's is written after the check.
    let state = leaf(&[]);
    let next = [unary(UnaryOp::Exp, &state)];
    let options = Options { finite: vec![0], ..donating(&[(0, 0)]) };
    let naive = crate::testing::naive::Naive::default();
    assert!(crate::pipeline::compile(&naive, indexed(&[state], &next), &options).is_err());
}

#[test]
fn values_that_die_give_their_memory_to_the_next() {
    // Transposes keep the maps apart; each needs one operand and one result of 4 KiB.
    let x = leaf(&[32, 32]);
    let mut y = x.clone();
    for _ in 0..10 {
        y = unary(
            UnaryOp::Tanh,
            &apply(Prim::Movement(Movement::Permute { axes: Dims::from_slice(&[1, 0]) }), &[&y]),
        );
    }
    let compiled = build(std::slice::from_ref(&x), std::slice::from_ref(&y));
    assert_eq!(compiled.plan.kernels.len(), 10);
    assert_eq!(compiled.plan.workspace_bytes, 2 * 4096);
    assert_eq!(compiled.report.peak_bytes, 4 * 4096);
    check(&[x], &[y]);
}

#[test]
fn an_epilogue_writes_over_the_residual_that_dies() {
    let (x, w) = (leaf(&[32, 32]), leaf(&[32, 32]));
    let mut h = ops::matmul(&Lazy, &x, &w).unwrap();
    for _ in 0..8 {
        let inner = unary(UnaryOp::Tanh, &ops::matmul(&Lazy, &h, &w).unwrap());
        h = ops::add(&Lazy, &h, &ops::matmul(&Lazy, &inner, &w).unwrap()).unwrap();
    }
    let out = ops::sum(&Lazy, &h, &[], false).unwrap();
    let compiled = build(&[x.clone(), w.clone()], std::slice::from_ref(&out));
    // The stream and the hidden value, plus the test backend's scratch.
    assert_eq!(compiled.plan.workspace_bytes, 2 * 4096 + 128, "{}", compiled.plan);
    check(&[x, w], &[out]);
}

#[test]
fn side_branches_run_before_they_keep_much_alive() {
    // The backward of a deep net: `dx` chains on, `dw` branches off; roots name the last layer's `dw` last.
    let (x, w) = (leaf(&[64, 8]), leaf(&[8, 8]));
    let layers = 16;
    let mut activations = vec![x.clone()];
    for layer in 0..layers {
        activations.push(unary(UnaryOp::Tanh, &ops::matmul(&Lazy, &activations[layer], &w).unwrap()));
    }
    let mut dx = activations[layers].clone();
    let mut grads = Vec::new();
    for layer in (0..layers).rev() {
        let turned = ops::transpose(&Lazy, &activations[layer], 0, 1).unwrap();
        grads.push(apply(Prim::Contract(Contract::MatMul { out: DType::F32 }), &[&turned, &dx]));
        dx = unary(UnaryOp::Sigmoid, &ops::matmul(&Lazy, &dx, &w).unwrap());
    }
    grads.reverse();
    let compiled = build(&[x, w], &grads);
    // All activations and two cotangents; without the schedule all cotangents would be alive too.
    let one = 64 * 8 * 4;
    assert!(compiled.plan.workspace_bytes <= (layers + 2) * one + 128, "{}", compiled.plan);
}

#[test]
fn a_recomputation_waits_for_its_barrier_and_saves_memory() {
    // Segments of two layers, of which only the inputs are kept; or everything is.
    let build_net = |recompute: bool| {
        let (x, w) = (leaf(&[32, 32]), leaf(&[32, 32]));
        let layer = |h: &Value| unary(UnaryOp::Tanh, &ops::matmul(&Lazy, h, &w).unwrap());
        let mut inputs = vec![x.clone()];
        let mut hidden = Vec::new();
        for at in 0..6 {
            hidden.push([layer(&inputs[at]), layer(&layer(&inputs[at]))]);
            inputs.push(hidden[at][1].clone());
        }
        let mut d = inputs[6].clone();
        for at in (0..6).rev() {
            let kept = match recompute {
                true => {
                    let held = apply(Prim::Control(Control::Barrier), &[&inputs[at], &d]);
                    layer(&layer(&held))
                }
                false => hidden[at][1].clone(),
            };
            let first = match recompute {
                true => layer(&apply(Prim::Control(Control::Barrier), &[&inputs[at], &d])),
                false => hidden[at][0].clone(),
            };
            let turned = ops::matmul(&Lazy, &ops::mul(&Lazy, &d, &kept).unwrap(), &first).unwrap();
            d = ops::matmul(&Lazy, &turned, &w).unwrap();
        }
        let parameters = [x, w];
        check(&parameters, std::slice::from_ref(&d));
        build(&parameters, &[d])
    };
    let (kept, recomputed) = (build_net(false), build_net(true));
    assert!(recomputed.plan.workspace_bytes < kept.plan.workspace_bytes - 2 * 4096, "{}", recomputed.plan);
    assert!(recomputed.plan.kernels.iter().any(|kernel| !kernel.after.is_empty()));
}

#[test]
fn a_hundred_thousand_nodes_compile_on_a_small_stack() {
    let run = || {
        let x = leaf(&[8]);
        let key = Value::leaf(TensorType::new(DType::F32, [8])).unwrap();
        let mut y = x.clone();
        for at in 0..100_000 {
            y = match at % 4 {
                0 => unary(UnaryOp::Tanh, &y),
                1 => ops::add(&Lazy, &y, &key).unwrap(),
                2 => apply(Prim::Movement(Movement::Flip { axes: Dims::from_slice(&[0]) }), &[&y]),
                _ => ops::mul_scalar(&Lazy, &y, 0.5).unwrap(),
            };
        }
        let compiled = build(&[x, key], &[y]);
        compiled.plan.kernels.len()
    };
    let kernels = std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
    assert!((25_000..=25_001).contains(&kernels), "{kernels}");
}
