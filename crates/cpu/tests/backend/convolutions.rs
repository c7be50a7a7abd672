//! Convolutions of strided images, in every way that the backend has for them.

use lanthorn_ir::layout::Dims;
use lanthorn_ir::prim::{Convolution, Movement, Window, Windows};
use lanthorn_ir::{Builder, DType, Lazy, Prim, Value, ops};

use crate::harness::{Sequence, check, check_prim, tolerance};

/// Image, weight, groups; for each axis step, zeros before and after, zeros between, dilation.
type Case = (&'static [usize], &'static [usize], usize, &'static [(usize, isize, isize, usize, usize)]);

const CASES: [Case; 16] = [
    // Several tiles of columns, of rows, and of depth.
    (&[1, 3, 40, 41], &[5, 3, 3, 3], 1, &[(1, 1, 1, 0, 1), (1, 1, 1, 0, 1)]),
    (&[2, 40, 17, 33], &[33, 40, 3, 3], 1, &[(1, 1, 1, 0, 1), (1, 0, 2, 0, 1)]),
    (&[1, 600, 9, 9], &[20, 600, 1, 1], 1, &[(1, 0, 0, 0, 1), (1, 0, 0, 0, 1)]),
    // Few windows: images share a matrix.
    (&[3, 8, 9, 10], &[20, 8, 3, 3], 1, &[(2, 1, 1, 0, 1), (2, 1, 0, 0, 1)]),
    (&[4, 6, 5, 5], &[12, 3, 3, 2], 2, &[(1, 1, 1, 0, 1), (1, 1, 1, 0, 1)]),
    // More places than windows: the gradient of a weight.
    (&[5, 3, 20, 21], &[7, 3, 18, 19], 1, &[(1, 1, 1, 0, 1), (1, 0, 0, 0, 1)]),
    (&[2, 2, 40, 70], &[3, 2, 20, 35], 1, &[(1, 1, 1, 0, 2), (1, 1, 1, 0, 2)]),
    // Gaps, cuts and dilation.
    (&[2, 4, 6, 7], &[5, 4, 3, 3], 1, &[(1, 2, 2, 1, 1), (2, 1, 2, 2, 1)]),
    (&[2, 4, 12, 14], &[5, 4, 3, 3], 1, &[(1, -2, -1, 0, 2), (1, -1, 3, 0, 3)]),
    (&[1, 2, 3, 4], &[2, 2, 2, 3], 1, &[(1, 3, 3, 1, 2), (1, 4, 4, 0, 2)]),
    // One axis, and three.
    (&[3, 4, 50], &[6, 2, 7], 2, &[(3, 3, 3, 0, 1)]),
    (&[2, 3, 6, 5, 7], &[4, 3, 2, 3, 2], 1, &[(1, 0, 1, 0, 1), (1, 1, 1, 0, 1), (2, 1, 0, 0, 1)]),
    // Channels that do not mix.
    (&[2, 5, 30, 70], &[5, 1, 3, 3], 5, &[(1, 1, 1, 0, 1), (1, 1, 1, 0, 1)]),
    (&[1, 3, 61, 150], &[6, 1, 5, 4], 3, &[(2, 2, 2, 0, 1), (3, 1, 4, 0, 2)]),
    (&[2, 4, 33], &[8, 1, 4], 4, &[(2, -1, 2, 0, 3)]),
    (&[2, 1, 9, 9], &[3, 1, 2, 2], 1, &[(1, 0, 0, 0, 1), (1, 5, 5, 0, 7)]),
];

#[test]
fn convolutions_of_strided_operands_agree() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for (x, weight, groups, axes) in CASES {
            let conv = Convolution {
                strides: axes.iter().map(|axis| axis.0).collect(),
                low: axes.iter().map(|axis| axis.1).collect(),
                high: axes.iter().map(|axis| axis.2).collect(),
                interior: axes.iter().map(|axis| axis.3).collect(),
                dilations: axes.iter().map(|axis| axis.4).collect(),
                groups,
            };
            let mut s = Sequence::new(x.iter().chain(weight).sum::<usize>() as u64);
            let operands = [s.within(dtype, x, -1.0, 1.0), s.within(dtype, weight, -0.2, 1.0)];
            let what = format!("{dtype} {x:?} with {weight:?}");
            check_prim(&what, &Prim::Window(Window::Conv(Box::new(conv))), &operands, tolerance(dtype));
        }
    }
}

#[test]
fn folds_of_windows_agree() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for (sizes, steps) in [([3, 3], [2, 2]), ([2, 5], [1, 1]), ([20, 2], [3, 2]), ([1, 3], [1, 3])] {
            let mut s = Sequence::new(7);
            let x = s.within(dtype, &[2, 3, 40, 50], -3.0, 3.0);
            let rows = s.within(dtype, &[3, 1, 1], -3.0, 3.0);
            let windows = Prim::Movement(Movement::Window(Box::new(Windows {
                axes: Dims::from_slice(&[2, 3]),
                sizes: Dims::from_slice(&sizes),
                steps: Dims::from_slice(&steps),
                dilations: Dims::from_slice(&[1, 1]),
            })));
            let folded = |v: &[Value]| {
                let windows = Lazy.apply1(windows.clone(), &[v[0].clone()])?;
                let most = ops::max(&Lazy, &windows, &[-2, -1], false)?;
                let sum = ops::sum(&Lazy, &ops::mul(&Lazy, &windows, &windows)?, &[-2, -1], false)?;
                Ok(vec![most.clone(), sum, ops::mul(&Lazy, &most, &v[1])?])
            };
            check(&format!("{dtype} {sizes:?}"), &folded, &[x, rows], tolerance(dtype));
        }
    }
}
