//! Any shapes, with axes of size 0 and 1: values element by element, and gradients of the operands' types.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::layout::broadcast_shapes;
use lanthorn_ir::prim::Movement;
use lanthorn_ir::transform::Tape;
use lanthorn_ir::{Builder, DType, Dims, Prim, Result, ops};
use proptest::prelude::*;

use crate::support::{assert_close, floats};

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![Just(0usize), Just(1), Just(1), 2..4usize], 0..4)
}

/// A shape and another that broadcasts with it.
fn broadcastable() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    (shape(), prop::collection::vec(any::<bool>(), 4), 0..4usize).prop_map(|(full, ones, cut)| {
        let kept = full.len().saturating_sub(cut);
        let other = full[full.len() - kept..].iter().zip(ones).map(|(&n, one)| if one { 1 } else { n });
        (full.clone(), other.collect())
    })
}

/// 1, 2, 3, ... under a shape.
fn ramp(shape: &[usize]) -> HostTensor {
    let n: usize = shape.iter().product();
    floats(shape, &(0..n).map(|i| i as f64 + 1.0).collect::<Vec<_>>())
}

fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |places, &size| {
        let extend = |place: &Vec<usize>| (0..size).map(|i| [&place[..], &[i]].concat()).collect::<Vec<_>>();
        places.iter().flat_map(extend).collect()
    })
}

/// The element at a place, whose leading axes and axes of size 1 do not matter.
fn at(x: &HostTensor, place: &[usize]) -> f64 {
    let place = &place[place.len() - x.shape().len()..];
    let mut flat = 0;
    for (&i, &size) in place.iter().zip(x.shape()) {
        flat = flat * size + i.min(size - 1);
    }
    x.to_f64()[flat]
}

/// Gradients of the weighted sum of a function have their operands' types and agree with the linear part.
fn gradients(
    f: impl Fn(&Tape<Interp>, &[<Tape<Interp> as Builder>::Value]) -> Result<<Tape<Interp> as Builder>::Value>,
    inputs: &[HostTensor],
) -> Vec<HostTensor> {
    let tape = Tape::new(Interp);
    let watched: Vec<_> = inputs.iter().map(|x| tape.watch(x.clone())).collect();
    let y = f(&tape, &watched).unwrap();
    let weights = tape.constant(ramp(y.value().shape()));
    let loss = ops::sum(&tape, &ops::mul(&tape, &y, &weights).unwrap(), &[], false).unwrap();
    let grads = tape.grad(&loss, &watched).unwrap();
    grads.into_iter().map(|g| g.into_value()).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn binary_ops_broadcast((a, b) in broadcastable()) {
        let (x, y) = (ramp(&a), ramp(&b));
        let shape = broadcast_shapes("mul", &a, &b).unwrap();
        let found = ops::mul(&Interp, &x, &y).unwrap();
        let expected: Vec<f64> = places(&shape).iter().map(|p| at(&x, p) * at(&y, p)).collect();
        prop_assert_eq!((found.shape(), found.to_f64()), (&shape[..], expected));

        let grads = gradients(|t, v| ops::mul(t, &v[0], &v[1]), &[x.clone(), y.clone()]);
        prop_assert_eq!((grads[0].ty(), grads[1].ty()), (x.ty(), y.ty()));
        let weights = ramp(&shape);
        let total = |g: &HostTensor, x: &HostTensor| g.to_f64().iter().zip(x.to_f64()).map(|(a, b)| a * b).sum::<f64>();
        let expected: f64 = places(&shape).iter().map(|p| at(&weights, p) * at(&x, p) * at(&y, p)).sum();
        // A bilinear form: <dx, x> = <dy, y> = the form itself.
        assert_close("broadcast gradients", &[total(&grads[0], &x), total(&grads[1], &y)], &[expected; 2], 1e-12);
    }

    #[test]
    fn sums_fold_their_axes(sizes in shape(), picks in prop::collection::vec(any::<bool>(), 4), keepdim: bool) {
        let x = ramp(&sizes);
        let axes: Vec<isize> = (0..sizes.len()).filter(|&a| picks[a]).map(|a| a as isize - sizes.len() as isize).collect();
        let folds = |a: usize| picks[a] || axes.is_empty();
        let kept: Vec<usize> = (0..sizes.len()).map(|a| if folds(a) { 1 } else { sizes[a] }).collect();
        let found = ops::sum(&Interp, &x, &axes, keepdim).unwrap();
        let expected: Vec<f64> = places(&kept)
            .iter()
            .map(|out| {
                let falls = |p: &&Vec<usize>| (0..sizes.len()).all(|a| folds(a) || p[a] == out[a]);
                places(&sizes).iter().filter(falls).map(|p| at(&x, p)).sum()
            })
            .collect();
        let shape: Vec<usize> =
            if keepdim { kept.clone() } else { (0..sizes.len()).filter(|&a| !folds(a)).map(|a| sizes[a]).collect() };
        prop_assert_eq!((found.shape(), found.to_f64()), (&shape[..], expected));
        let grads = gradients(|t, v| ops::sum(t, &v[0], &axes, keepdim), std::slice::from_ref(&x));
        prop_assert_eq!(grads[0].ty(), x.ty());
    }

    #[test]
    fn movements_and_their_gradients_are_transposes(
        sizes in shape(),
        kind in 0..6usize,
        numbers in prop::collection::vec(0..4usize, 12),
    ) {
        let rank = sizes.len();
        let pick = |from: usize| -> Dims { (0..rank).map(|a| numbers[from + a]).collect() };
        let movement = match kind {
            0 => {
                let starts: Dims = (0..rank).map(|a| numbers[a].min(sizes[a])).collect();
                let stops = (0..rank).map(|a| (starts[a] + numbers[a + 4]).min(sizes[a])).collect();
                Movement::Slice { starts, stops, steps: (0..rank).map(|a| numbers[a + 8] + 1).collect() }
            }
            1 => Movement::Pad { low: pick(0), high: pick(4), interior: pick(8) },
            2 => Movement::Flip { axes: (0..rank).filter(|&a| numbers[a] > 1).collect() },
            3 => {
                let mut axes: Dims = (0..rank).collect();
                axes.sort_by_key(|&a| numbers[a]);
                Movement::Permute { axes }
            }
            4 => Movement::Reshape { shape: [&sizes[..], &[1]].concat().into_iter().rev().collect() },
            _ => {
                let grown = sizes.iter().zip(&numbers).map(|(&n, &more)| if n == 1 { more } else { n });
                let mut shape = Dims::from_slice(&numbers[8..9]);
                shape.extend(grown);
                Movement::Broadcast { shape }
            }
        };
        let x = ramp(&sizes);
        let prim = Prim::Movement(movement);
        let y = Interp.apply1(prim.clone(), std::slice::from_ref(&x)).unwrap();
        let grads = gradients(|t, v| t.apply1(prim.clone(), v), std::slice::from_ref(&x));
        prop_assert_eq!(grads[0].ty(), x.ty());
        // <w, M x> = <M^T w, x>
        let dot = |a: &HostTensor, b: &HostTensor| a.to_f64().iter().zip(b.to_f64()).map(|(a, b)| a * b).sum::<f64>();
        assert_close("movement", &[dot(&grads[0], &x)], &[dot(&ramp(y.shape()), &y)], 1e-12);
    }

    #[test]
    fn matrix_products_of_any_size(batch in shape(), m in 0..3usize, k in 0..3usize, n in 0..3usize, single: bool) {
        let left = [&batch[..], &[m, k]].concat();
        let right = if single { vec![k, n] } else { [&batch[..], &[k, n]].concat() };
        let (x, y) = (ramp(&left), ramp(&right));
        let found = ops::matmul(&Interp, &x, &y).unwrap();
        let shape = [&batch[..], &[m, n]].concat();
        let expected: Vec<f64> = places(&shape)
            .iter()
            .map(|p| {
                let (lead, row, column) = (&p[..batch.len()], p[batch.len()], p[batch.len() + 1]);
                let term = |i: usize| at(&x, &[lead, &[row, i]].concat()) * at(&y, &[lead, &[i, column]].concat());
                (0..k).map(term).sum()
            })
            .collect();
        prop_assert_eq!((found.shape(), found.to_f64()), (&shape[..], expected));
        let grads = gradients(|t, v| ops::matmul(t, &v[0], &v[1]), &[x.clone(), y.clone()]);
        prop_assert_eq!((grads[0].ty(), grads[1].ty()), (x.ty(), y.ty()));
    }

    #[test]
    fn networks_take_empty_and_single_axes(sizes in shape(), width in 0..3usize, heads in 0..3usize) {
        let rows = [&sizes[..], &[width]].concat();
        let x = ramp(&rows);
        let weight = ramp(&[width]);
        for grads in [
            gradients(|t, v| ops::softmax(t, &v[0], -1), &[x.clone(), weight.clone()]),
            gradients(|t, v| ops::log_softmax(t, &v[0], -1), &[x.clone(), weight.clone()]),
            gradients(|t, v| ops::layer_norm(t, &v[0], Some(&v[1]), None, 1e-3), &[x.clone(), weight.clone()]),
            gradients(|t, v| ops::rms_norm(t, &v[0], Some(&v[1]), 1e-3), &[x.clone(), weight.clone()]),
            gradients(|t, v| ops::linear(t, &v[0], &ops::unsqueeze(t, &v[1], 0)?, None), &[x.clone(), weight.clone()]),
        ] {
            prop_assert_eq!((grads[0].ty(), grads[1].ty()), (x.ty(), weight.ty()));
        }
        let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
        let q = ramp(&[size(0), size(1), heads, width]);
        let k = ramp(&[size(0), size(2), heads.min(1), width]);
        let grads = gradients(|t, v| ops::attention(t, &v[0], &v[1], &v[1], true, Some(0.1), None), &[q.clone(), k.clone()]);
        prop_assert_eq!((grads[0].ty(), grads[1].ty()), (q.ty(), k.ty()));
        prop_assert!(grads.iter().all(|g| g.to_f64().iter().all(|x| x.is_finite())));
    }

    #[test]
    fn every_dtype_moves_and_compares(sizes in shape(), dtype in 0..13usize) {
        let dtype = DType::ALL[dtype];
        let n: usize = sizes.iter().product();
        let x = HostTensor::from_i64(dtype, &sizes, &(0..n as i64).collect::<Vec<_>>()).unwrap();
        let moved = ops::flip(&Interp, &ops::unsqueeze(&Interp, &x, 0).unwrap(), &[]).unwrap();
        let back = ops::squeeze(&Interp, &ops::flip(&Interp, &moved, &[]).unwrap(), &[0]).unwrap();
        prop_assert_eq!(&back, &x);
        let equal = ops::eq(&Interp, &x, &back).unwrap();
        prop_assert_eq!(equal.to_i64(), vec![1; n]);
        prop_assert_eq!(ops::cast(&Interp, &ops::cast(&Interp, &x, DType::F64).unwrap(), dtype).unwrap(), x);
    }
}
