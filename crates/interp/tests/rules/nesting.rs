//! Transforms in transforms, in any order, against what they must come to.

use lanthorn_interp::{HostTensor, eval};
use lanthorn_ir::graph::topological;
use lanthorn_ir::transform::{checkpoint, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap, vmap_axes};
use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Result, Value, ops};

use crate::support::{Sequence, assert_close, floats, leaf, leaf_of};

const SIZE: usize = 3;

/// Leaves with what they are bound to.
#[derive(Default)]
struct Bound(Vec<(Value, HostTensor)>);

impl Bound {
    fn leaf(&mut self, tensor: HostTensor) -> Value {
        let leaf = leaf_of(&tensor);
        self.0.push((leaf.clone(), tensor));
        leaf
    }

    fn random(&mut self, seed: u64, shape: &[usize]) -> Value {
        self.leaf(Sequence::new(seed).tensor(shape, 0.2, 1.2))
    }

    fn run(&self, values: &[Value]) -> Vec<Vec<f64>> {
        eval(values, &self.0).unwrap().iter().map(HostTensor::to_f64).collect()
    }

    fn of(&self, value: &Value) -> Vec<f64> {
        self.run(std::slice::from_ref(value)).remove(0)
    }
}

fn one<V: Clone>(x: &V) -> &[V] {
    std::slice::from_ref(x)
}

/// A smooth loss that mixes the elements of `x [n]` and `w [n]` in products, norms and a softmax.
fn loss(x: &Value, w: &Value) -> Result<Value> {
    let h = ops::tanh(&Lazy, &ops::outer(&Lazy, x, w)?)?;
    let p = ops::softmax(&Lazy, &h, -1)?;
    let y = ops::matmul(&Lazy, &p, &ops::exp(&Lazy, x)?)?;
    ops::sum(&Lazy, &ops::mul(&Lazy, &y, &ops::layer_norm(&Lazy, &y, Some(w), None, 1e-1)?)?, &[], false)
}

/// The loss for each of `SIZE` rows, each by itself.
fn by_rows(bound: &Bound, xs: &Value, f: impl Fn(&Value) -> Result<Value>) -> Vec<f64> {
    let rows =
        (0..SIZE).map(|i| f(&ops::select(&Lazy, xs, 0, i as isize)?)).collect::<Result<Vec<_>>>().unwrap();
    bound.run(&rows).concat()
}

#[test]
fn vmap_of_grad_and_grad_of_vmap_are_gradients_row_by_row() {
    let mut bound = Bound::default();
    let (xs, w) = (bound.random(1, &[SIZE, 4]), bound.random(2, &[4]));
    let expected = by_rows(&bound, &xs, |x| grad(&loss(x, &w)?, one(x)).map(|g| g[0].clone()));
    let inner = |v: &[Value]| grad(&loss(&v[0], &w)?, &v[..1]);
    let mapped = vmap(inner, one(&xs), &[true]).unwrap();
    assert_close("vmap of grad", &bound.of(&mapped[0]), &expected, 1e-12);

    let losses = vmap(|v| Ok(vec![loss(&v[0], &w)?]), one(&xs), &[true]).unwrap();
    let total = ops::sum(&Lazy, &losses[0], &[], false).unwrap();
    assert_close("grad of vmap", &bound.of(&grad(&total, one(&xs)).unwrap()[0]), &expected, 1e-12);

    // And once more on the outside: second derivatives through both.
    let again = ops::sum(&Lazy, &ops::square(&Lazy, &mapped[0]).unwrap(), &[], false).unwrap();
    let found = bound.of(&grad(&again, one(&w)).unwrap()[0]);
    let rows = (0..SIZE).map(|i| {
        let x = ops::select(&Lazy, &xs, 0, i as isize)?;
        let g = grad(&loss(&x, &w)?, one(&x))?;
        ops::sum(&Lazy, &ops::square(&Lazy, &g[0])?, &[], false)
    });
    let rows = rows.collect::<Result<Vec<_>>>().unwrap();
    let total = rows.iter().skip(1).fold(rows[0].clone(), |sum, row| ops::add(&Lazy, &sum, row).unwrap());
    assert_close("grad of vmap of grad", &found, &bound.of(&grad(&total, one(&w)).unwrap()[0]), 1e-11);
}

#[test]
fn hessian_vector_products_agree_in_all_four_orders() {
    let mut bound = Bound::default();
    let (x, w, v) = (bound.random(3, &[4]), bound.random(4, &[4]), bound.random(5, &[4]));
    let y = loss(&x, &w).unwrap();
    let g = grad(&y, one(&x)).unwrap().remove(0);
    // Rows of the Hessian one by one, as the measure of all others.
    let rows: Vec<Value> = (0..4)
        .map(|i| {
            let row = ops::select(&Lazy, &g, 0, i).unwrap();
            ops::dot(&Lazy, &grad(&row, one(&x)).unwrap()[0], &v).unwrap()
        })
        .collect();
    let expected = bound.run(&rows).concat();

    let reverse_reverse = vjp(one(&g), one(&v), one(&x)).unwrap()[0].clone().unwrap();
    let forward_reverse = jvp(one(&g), one(&x), one(&v)).unwrap()[0].clone().unwrap();
    let slope = jvp(one(&y), one(&x), one(&v)).unwrap()[0].clone().unwrap();
    let reverse_forward = grad(&slope, one(&x)).unwrap().remove(0);
    // Forward over forward gives one number, v H v.
    let twice = jvp(one(&slope), one(&x), one(&v)).unwrap()[0].clone().unwrap();
    for (what, found) in [
        ("reverse over reverse", reverse_reverse),
        ("forward over reverse", forward_reverse),
        ("reverse over forward", reverse_forward),
    ] {
        assert_close(what, &bound.of(&found), &expected, 1e-11);
    }
    let vhv: f64 = bound.of(&v).iter().zip(&expected).map(|(a, b)| a * b).sum();
    assert_close("forward over forward", &bound.of(&twice), &[vhv], 1e-11);

    let matrix = hessian(&y, one(&x)).unwrap();
    assert_eq!(matrix[0][0].ty().shape[..], [4, 4]);
    let product = ops::matmul(&Lazy, &matrix[0][0], &v).unwrap();
    assert_close("hessian", &bound.of(&product), &expected, 1e-11);
}

#[test]
fn third_derivatives_are_exact() {
    // d^3/dx^3 of sin(x) exp(2x), in each of the eight orders of modes.
    let mut bound = Bound::default();
    let x = bound.leaf(floats(&[], &[0.3]));
    let unit = bound.leaf(floats(&[], &[1.0]));
    let y = ops::exp(&Lazy, &ops::mul_scalar(&Lazy, &x, 2.0).unwrap()).unwrap();
    let y = ops::mul(&Lazy, &ops::sin(&Lazy, &x).unwrap(), &y).unwrap();
    let at = 0.3f64;
    // (D + 2)^3 sin
    let expected = (2.0 * at).exp() * (-at.cos() - 6.0 * at.sin() + 12.0 * at.cos() + 8.0 * at.sin());
    for modes in 0..8 {
        let mut y = y.clone();
        for order in 0..3 {
            y = if modes >> order & 1 == 0 {
                grad(&y, one(&x)).unwrap().remove(0)
            } else {
                jvp(one(&y), one(&x), one(&unit)).unwrap()[0].clone().unwrap()
            };
        }
        assert_close(&format!("modes {modes:03b}"), &bound.of(&y), &[expected], 1e-12);
    }
}

#[test]
fn vmap_of_jvp_and_jvp_of_vmap_are_one() {
    let mut bound = Bound::default();
    let (xs, w, ts) = (bound.random(6, &[SIZE, 4]), bound.random(7, &[4]), bound.random(8, &[SIZE, 4]));
    let slope = |x: &Value, t: &Value| {
        let y = loss(x, &w)?;
        Ok(jvp(one(&y), one(x), one(t))?.remove(0).unwrap())
    };
    let rows: Result<Vec<Value>> = (0..SIZE as isize)
        .map(|i| slope(&ops::select(&Lazy, &xs, 0, i)?, &ops::select(&Lazy, &ts, 0, i)?))
        .collect();
    let expected = bound.run(&rows.unwrap()).concat();
    let inner = |v: &[Value]| Ok(vec![slope(&v[0], &v[1])?]);
    let mapped = vmap(inner, &[xs.clone(), ts.clone()], &[true, true]).unwrap();
    assert_close("vmap of jvp", &bound.of(&mapped[0]), &expected, 1e-12);
    let losses = vmap(|v| Ok(vec![loss(&v[0], &w)?]), one(&xs), &[true]).unwrap();
    let outer = jvp(&losses, one(&xs), one(&ts)).unwrap().remove(0).unwrap();
    assert_close("jvp of vmap", &bound.of(&outer), &expected, 1e-12);
}

#[test]
fn checkpoints_nest_with_every_transform() {
    let mut bound = Bound::default();
    let (xs, w, ts) = (bound.random(9, &[SIZE, 4]), bound.random(10, &[4]), bound.random(11, &[SIZE, 4]));
    let kept = |x: &Value, w: &Value| {
        checkpoint(|v| Ok(vec![loss(&v[0], &v[1])?]), &[x.clone(), w.clone()]).map(|y| y[0].clone())
    };
    let wrt = [xs.clone(), w.clone()];
    let mapped = |f: &dyn Fn(&Value, &Value) -> Result<Value>| {
        let losses = vmap(|v| Ok(vec![f(&v[0], &w)?]), one(&xs), &[true]).unwrap();
        ops::sum(&Lazy, &losses[0], &[], false).unwrap()
    };
    let plain = mapped(&|x, w| loss(x, w));
    let expected = bound.run(&grad(&plain, &wrt).unwrap());
    let inside = mapped(&|x, w| kept(x, w));
    let outside = checkpoint(
        |v| {
            Ok(vec![{
                let losses = vmap(|r| Ok(vec![loss(&r[0], &v[1])?]), one(&v[0]), &[true])?;
                ops::sum(&Lazy, &losses[0], &[], false)?
            }])
        },
        &wrt,
    )
    .unwrap()
    .remove(0);
    let both = checkpoint(
        |v| {
            Ok(vec![{
                let losses = vmap(|r| Ok(vec![kept(&r[0], &v[1])?]), one(&v[0]), &[true])?;
                ops::sum(&Lazy, &losses[0], &[], false)?
            }])
        },
        &wrt,
    )
    .unwrap()
    .remove(0);
    let second = |total: &Value| {
        let g = grad(total, &wrt).unwrap();
        jvp(&g[1..], one(&xs), one(&ts)).unwrap().remove(0).unwrap()
    };
    let curvature = bound.of(&second(&plain));
    for (what, total) in [("checkpoint in vmap", inside), ("vmap in checkpoint", outside), ("both", both)] {
        for (found, expected) in bound.run(&grad(&total, &wrt).unwrap()).iter().zip(&expected) {
            assert_close(what, found, expected, 1e-12);
        }
        assert_close(&format!("{what}, jvp of vjp"), &bound.of(&second(&total)), &curvature, 1e-11);
        let slope = jvp(one(&total), one(&xs), one(&ts)).unwrap().remove(0).unwrap();
        let inner: f64 = expected[0].iter().zip(bound.of(&ts)).map(|(a, b)| a * b).sum();
        assert_close(&format!("{what}, jvp"), &bound.of(&slope), &[inner], 1e-12);
    }
    // A gradient taken inside a checkpoint.
    let inner =
        checkpoint(|v| grad(&loss(&v[0], &w)?, &v[..1]), &[ops::select(&Lazy, &xs, 0, 0).unwrap()]).unwrap();
    assert_close("grad in checkpoint", &bound.of(&inner[0]), &expected[0][..4], 1e-12);
}

#[test]
fn vmap_in_vmap_maps_two_axes() {
    let mut bound = Bound::default();
    let (xs, ws) = (bound.random(12, &[SIZE, 4]), bound.random(13, &[2, 4]));
    let pairs = vmap(
        |x| vmap(|w| grad(&loss(&x[0], &w[0])?, &[x[0].clone(), w[0].clone()]), one(&ws), &[true]),
        one(&xs),
        &[true],
    )
    .unwrap();
    assert_eq!(pairs[0].ty().shape[..], [SIZE, 2, 4]);
    let mut expected = [Vec::new(), Vec::new()];
    for (i, j) in (0..SIZE as isize).flat_map(|i| (0..2).map(move |j| (i, j))) {
        let x = ops::select(&Lazy, &xs, 0, i).unwrap();
        let w = ops::select(&Lazy, &ws, 0, j).unwrap();
        let grads = grad(&loss(&x, &w).unwrap(), &[x, w]).unwrap();
        for (all, one) in expected.iter_mut().zip(bound.run(&grads)) {
            all.extend(one);
        }
    }
    for (found, expected) in bound.run(&pairs).iter().zip(&expected) {
        assert_close("gradients of every pair", found, expected, 1e-12);
    }
}

#[test]
fn jacobians_of_both_modes_agree_with_each_other_and_with_formulas() {
    let mut bound = Bound::default();
    let (x, w) = (bound.random(14, &[2, 3]), bound.random(15, &[3]));
    let unused = bound.random(16, &[2]);
    let y = ops::matmul(&Lazy, &ops::sin(&Lazy, &x).unwrap(), &ops::square(&Lazy, &w).unwrap()).unwrap();
    let wrt = [x.clone(), w.clone(), unused];
    let (reverse, forward) = (jacrev(&y, &wrt).unwrap(), jacfwd(&y, &wrt).unwrap());
    let shapes: Vec<_> = reverse.iter().map(|j| j.ty().shape.to_vec()).collect();
    assert_eq!(shapes, [vec![2, 2, 3], vec![2, 3], vec![2, 2]]);
    for (reverse, forward) in reverse.iter().zip(&forward) {
        assert_eq!(reverse.ty(), forward.ty());
        assert_close("jacobians", &bound.of(reverse), &bound.of(forward), 1e-13);
    }
    let (x, w) = (bound.of(&x), bound.of(&w));
    let expected: Vec<f64> = (0..2)
        .flat_map(|i| (0..6).map(move |at| (i, at)))
        .map(|(i, at)| if at / 3 == i { x[at].cos() * w[at % 3] * w[at % 3] } else { 0.0 })
        .collect();
    assert_close("jacobian in x", &bound.of(&reverse[0]), &expected, 1e-13);
    assert!(bound.of(&reverse[2]).iter().all(|&v| v == 0.0));

    // A Jacobian is a value like any other: mapped, differentiated, of nothing.
    let rows = bound.random(17, &[SIZE, 3]);
    let mapped = vmap(|v| jacfwd(&ops::sin(&Lazy, &v[0])?, &v[..1]), one(&rows), &[true]).unwrap();
    assert_eq!(mapped[0].ty().shape[..], [SIZE, 3, 3]);
    let rows = bound.of(&rows);
    let expected: Vec<f64> = (0..SIZE * 9)
        .map(|at| if at / 3 % 3 == at % 3 { rows[at / 9 * 3 + at % 3].cos() } else { 0.0 })
        .collect();
    assert_close("mapped jacobian", &bound.of(&mapped[0]), &expected, 1e-13);
    let none = leaf(DType::F64, &[0]);
    let empty = jacrev(&ops::sin(&Lazy, &none).unwrap(), one(&none)).unwrap();
    assert_eq!(empty[0].ty().shape[..], [0, 0]);
}

#[test]
fn a_hessian_of_several_values_is_symmetric_in_blocks() {
    let mut bound = Bound::default();
    let (x, w) = (bound.random(18, &[4]), bound.random(19, &[4]));
    let blocks = hessian(&loss(&x, &w).unwrap(), &[x, w]).unwrap();
    let (xw, wx) = (bound.of(&blocks[0][1]), bound.of(&blocks[1][0]));
    for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
        assert_close("mixed block", &[xw[i * 4 + j]], &[wx[j * 4 + i]], 1e-11);
    }
    assert!(xw.iter().any(|v| v.abs() > 1e-3));
}

#[test]
fn vmap_takes_and_gives_any_axis() {
    let mut bound = Bound::default();
    let (x, w) = (bound.random(20, &[4, SIZE]), bound.random(21, &[4, 2]));
    let f = |v: &[Value]| {
        let product = ops::matmul(&Lazy, &v[0], &v[1])?;
        Ok(vec![product.clone(), ops::outer(&Lazy, &product, &v[0])?])
    };
    let found = vmap_axes(f, &[x.clone(), w.clone()], &[Some(-1), None], &[1, -1]).unwrap();
    assert_eq!(found[0].ty().shape[..], [2, SIZE]);
    assert_eq!(found[1].ty().shape[..], [2, 4, SIZE]);
    let turned = ops::transpose(&Lazy, &x, 0, 1).unwrap();
    let plain = vmap(f, &[turned, w.clone()], &[true, false]).unwrap();
    let plain =
        [ops::transpose(&Lazy, &plain[0], 0, 1).unwrap(), ops::move_axis(&Lazy, &plain[1], 0, -1).unwrap()];
    assert_eq!(bound.run(&found), bound.run(&plain));
    // One axis serves all results.
    let same = vmap_axes(f, &[x.clone(), w.clone()], &[Some(1), None], &[0]).unwrap();
    assert_eq!(same[1].ty().shape[..], [SIZE, 2, 4]);

    says(
        vmap_axes(f, &[x.clone(), w.clone()], &[Some(2), None], &[0]),
        ErrorKind::Shape,
        "vmap: argument 0 has no axis 2; f64[4, 3] has axes -2..2",
    );
    says(
        vmap_axes(f, &[x.clone(), w.clone()], &[Some(1), None], &[0, 3]),
        ErrorKind::Shape,
        "vmap: result 1 has no axis 3; f64[3, 2, 4] has axes -3..3",
    );
    says(
        vmap_axes(f, &[x, w], &[Some(1), None], &[0, 0, 0]),
        ErrorKind::Shape,
        "vmap: 3 axes for 2 results, expected 1 or 2",
    );
}

/// A key that is mapped gives every element its own values, one that is not gives all the same.
#[test]
fn random_values_under_vmap_follow_their_key() {
    let mut bound = Bound::default();
    let keys = HostTensor::from_i64(DType::U64, &[SIZE, 2], &[7, 0, 7, 1, 8, 0]).unwrap();
    let xs = bound.random(22, &[SIZE, 5]);
    let noisy = |x: &Value, key: &Value| {
        let noise = ops::normal(&Lazy, key, &[5], 0.0, 1.0, DType::F64, 3)?;
        ops::mul(&Lazy, x, &noise)
    };
    let keys = bound.leaf(keys);
    let mapped =
        vmap(|v| Ok(vec![noisy(&v[0], &v[1])?]), &[xs.clone(), keys.clone()], &[true, true]).unwrap();
    let rows: Vec<Value> = (0..SIZE as isize)
        .map(|i| {
            let x = ops::select(&Lazy, &xs, 0, i).unwrap();
            noisy(&x, &ops::select(&Lazy, &keys, 0, i).unwrap()).unwrap()
        })
        .collect();
    assert_eq!(bound.of(&mapped[0]), bound.run(&rows).concat());

    let key = ops::select(&Lazy, &keys, 0, 1).unwrap();
    let shared = vmap(|v| Ok(vec![noisy(&v[0], &key)?]), one(&xs), &[true]).unwrap();
    let noise = bound.of(&ops::normal(&Lazy, &key, &[5], 0.0, 1.0, DType::F64, 3).unwrap());
    let expected: Vec<f64> = bound.of(&xs).iter().enumerate().map(|(i, x)| x * noise[i % 5]).collect();
    assert_eq!(bound.of(&shared[0]), expected);

    // A gradient sees the mask that its forward drew, under a checkpoint too.
    let dropped = |x: &Value| ops::dropout(&Lazy, x, 0.5, &key, 1);
    let y = dropped(&xs).unwrap();
    let total = ops::sum(&Lazy, &y, &[], false).unwrap();
    let again = checkpoint(|v| Ok(vec![ops::sum(&Lazy, &dropped(&v[0])?, &[], false)?]), one(&xs)).unwrap();
    for loss in [total, again[0].clone()] {
        let mask = bound.of(&grad(&loss, one(&xs)).unwrap()[0]);
        for ((mask, y), x) in mask.iter().zip(bound.of(&y)).zip(bound.of(&xs)) {
            assert_close("mask", &[mask * x], &[y], 1e-13);
        }
        assert!(mask.contains(&0.0) && mask.contains(&2.0));
    }
}

#[test]
fn an_axis_of_no_elements_is_mapped_too() {
    let bound = Bound::default();
    let (xs, keys) = (leaf(DType::F64, &[0, 4]), leaf(DType::U64, &[0, 2]));
    let w = ops::ones(&Lazy, &[4], DType::F64).unwrap();
    let f = |v: &[Value]| {
        let noise = ops::uniform(&Lazy, &v[1], &[4], 0.0, 1.0, DType::F64, 0)?;
        grad(&loss(&ops::mul(&Lazy, &v[0], &noise)?, &w)?, &v[..1])
    };
    let mapped = vmap(f, &[xs.clone(), keys.clone()], &[true, true]).unwrap();
    let bindings =
        [(xs, floats(&[0, 4], &[])), (keys, HostTensor::from_i64(DType::U64, &[0, 2], &[]).unwrap())];
    assert_eq!(eval(&mapped, &bindings).unwrap()[0].shape(), [0, 4]);
    drop(bound);
}

#[test]
fn no_derivative_flows_through_stop_gradient() {
    let mut bound = Bound::default();
    let (x, t) = (bound.random(23, &[4]), bound.random(24, &[4]));
    let stopped = ops::stop_gradient(&Lazy, &ops::exp(&Lazy, &x).unwrap()).unwrap();
    let y = ops::mul(&Lazy, &stopped, &x).unwrap();
    let total = ops::sum(&Lazy, &y, &[], false).unwrap();
    let exp: Vec<f64> = bound.of(&x).iter().map(|x| x.exp()).collect();
    let g = grad(&total, one(&x)).unwrap().remove(0);
    assert_close("grad", &bound.of(&g), &exp, 1e-14);
    let tangent = jvp(one(&y), one(&x), one(&t)).unwrap().remove(0).unwrap();
    let expected: Vec<f64> = exp.iter().zip(bound.of(&t)).map(|(e, t)| e * t).collect();
    assert_close("jvp", &bound.of(&tangent), &expected, 1e-14);
    // What stands behind it is constant to every order, mapped, checkpointed or not.
    assert!(
        bound
            .of(&grad(&ops::sum(&Lazy, &g, &[], false).unwrap(), one(&x)).unwrap()[0])
            .iter()
            .all(|&v| v == 0.0)
    );
    assert!(vjp(one(&stopped), one(&t), one(&x)).unwrap()[0].is_none());
    let f = |v: &[Value]| {
        let y = ops::mul(&Lazy, &ops::stop_gradient(&Lazy, &v[0])?, &v[0])?;
        checkpoint(|v| Ok(vec![ops::stop_gradient(&Lazy, &v[0])?]), one(&y))?;
        grad(&ops::sum(&Lazy, &y, &[], false)?, &v[..1])
    };
    let rows = bound.random(25, &[SIZE, 4]);
    let mapped = vmap(f, one(&rows), &[true]).unwrap();
    assert_eq!(bound.of(&mapped[0]), bound.of(&rows));
}

#[test]
fn derivatives_of_what_was_written_are_those_of_what_was_there() {
    let mut bound = Bound::default();
    let (x, other, t) = (bound.random(26, &[4]), bound.random(27, &[4]), bound.random(28, &[4]));
    let old = ops::exp(&Lazy, &x).unwrap();
    let new = ops::inner::written(&Lazy, &ops::mul(&Lazy, &x, &other).unwrap(), &old).unwrap();
    let expected: Vec<f64> = bound.of(&x).iter().zip(bound.of(&other)).map(|(x, y)| x * y).collect();
    assert_eq!(bound.of(&new), expected);
    // d(new^2) = 2 new d(old), and nothing through the product.
    let square = ops::square(&Lazy, &new).unwrap();
    let total = ops::sum(&Lazy, &square, &[], false).unwrap();
    let slope: Vec<f64> = bound.of(&x).iter().zip(&expected).map(|(x, new)| 2.0 * new * x.exp()).collect();
    let found = grad(&total, &[x.clone(), other.clone()]).unwrap();
    assert_close("grad", &bound.of(&found[0]), &slope, 1e-14);
    assert!(bound.of(&found[1]).iter().all(|&v| v == 0.0));
    let tangent = jvp(one(&square), one(&x), one(&t)).unwrap().remove(0).unwrap();
    let along: Vec<f64> = slope.iter().zip(bound.of(&t)).map(|(slope, t)| slope * t).collect();
    assert_close("jvp", &bound.of(&tangent), &along, 1e-14);
    let f = |v: &[Value]| {
        let y = ops::inner::written(&Lazy, &v[1], &ops::square(&Lazy, &v[0])?)?;
        Ok(vec![ops::mul(&Lazy, &y, &v[0])?])
    };
    let rows = bound.random(29, &[SIZE, 4]);
    let mapped = vmap(f, &[rows.clone(), other.clone()], &[true, false]).unwrap();
    let products = ops::mul(&Lazy, &rows, &other).unwrap();
    assert_eq!(bound.of(&mapped[0]), bound.of(&products));
    let narrow = leaf(DType::F32, &[4]);
    assert!(ops::inner::written(&Lazy, &narrow, &x).unwrap_err().to_string().starts_with("written: f32[4]"));
}

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, text: &str) {
    let error: Error = result.unwrap_err();
    assert_eq!((error.kind, error.to_string().as_str()), (kind, text));
}

#[test]
fn errors_name_the_transform_that_was_called() {
    use ErrorKind::{Dtype, Shape};
    let (x, ints, wide) = (leaf(DType::F64, &[3]), leaf(DType::I64, &[3]), leaf(DType::F64, &[2]));
    let y = ops::sum(&Lazy, &x, &[], false).unwrap();
    says(grad(&x, one(&x)), Shape, "grad: the loss is f64[3], expected one floating-point element");
    let whole = ops::sum(&Lazy, &ints, &[], false).unwrap();
    says(grad(&whole, one(&x)), Shape, "grad: the loss is i64[], expected one floating-point element");
    says(grad(&y, one(&ints)), Dtype, "grad: value 0 is i64[3], expected a floating-point dtype");
    says(vjp(one(&y), one(&y), one(&ints)), Dtype, "vjp: value 0 is i64[3], expected a floating-point dtype");
    says(vjp(one(&x), one(&wide), one(&x)), Shape, "vjp: cotangent 0 is f64[2], expected f64[3]");
    says(vjp(one(&x), &[], one(&x)), Shape, "vjp: 0 cotangents for 1 outputs");
    says(
        jvp(one(&y), one(&ints), one(&ints)),
        Dtype,
        "jvp: value 0 is i64[3], expected a floating-point dtype",
    );
    says(jvp(one(&y), one(&x), one(&wide)), Shape, "jvp: tangent 0 is f64[2], expected f64[3]");
    says(jacrev(&ints, one(&x)), Dtype, "jacrev: the output is i64[3], expected a floating-point dtype");
    says(jacfwd(&x, one(&ints)), Dtype, "jacfwd: value 0 is i64[3], expected a floating-point dtype");
    says(hessian(&x, one(&x)), Shape, "hessian: the loss is f64[3], expected one floating-point element");
    let map = |v: &[Value]| Ok(v.to_vec());
    says(vmap(map, one(&x), &[false]), Shape, "vmap: no argument is mapped");
    says(vmap(map, one(&y), &[true]), Shape, "vmap: argument 0 has rank 0 and no axis to map over");
    says(vmap(map, one(&x), &[]), Shape, "vmap: 0 flags for 1 arguments");
    // What the loss does not reach gets zeros, from values of no derivative too.
    let by_count = ops::cast(&Lazy, &ops::argmax(&Lazy, &x, Some(0), false).unwrap(), DType::F64).unwrap();
    let mut bound = Bound::default();
    bound.0.push((x.clone(), floats(&[3], &[1.0, 3.0, 2.0])));
    let zeros = grad(&by_count, &[x.clone(), wide]).unwrap();
    assert_eq!(bound.run(&zeros), [vec![0.0; 3], vec![0.0; 2]]);
    assert!(jvp(one(&by_count), one(&x), one(&x)).unwrap()[0].is_none());
}

/// A checkpoint under `vmap` still computes again behind barriers.
#[test]
fn a_mapped_checkpoint_still_recomputes() {
    let x = leaf(DType::F32, &[SIZE, 4]);
    let f = |v: &[Value]| checkpoint(|x| Ok(vec![ops::exp(&Lazy, &ops::sin(&Lazy, &x[0])?)?]), v);
    let y = vmap(f, one(&x), &[true]).unwrap();
    let loss = ops::sum(&Lazy, &y[0], &[], false).unwrap();
    let grads = grad(&loss, one(&x)).unwrap();
    let order = topological(&grads, |_| false);
    let count = |name: &str| order.iter().filter(|node| node.prim().name() == name).count();
    assert_eq!((count("barrier"), count("checkpoint")), (1, 0));
}
