//! The exponential of a matrix by scaling, a rational approximant and squaring (Higham 2005, "The scaling and squaring
//! method for the matrix exponential revisited", algorithm 2.3, always at degree 13).

use crate::matrix::{Matrix, axpy};
use faer::linalg::solvers::{PartialPivLu, Solve};

/// Coefficients of the Pade approximant of degree 13.
const PADE: [f64; 14] = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
];
/// The 1-norm up to which the approximant is exact to rounding in f64.
const THETA: f64 = 5.371920351148152;

/// `e^a`; NaN throughout if an element is not finite.
pub fn exponential(a: &Matrix) -> Matrix {
    let n = a.rows;
    let norm = (0..n).map(|j| (0..n).map(|i| a.at(i, j).abs()).sum::<f64>()).fold(0.0, f64::max);
    if !norm.is_finite() || !a.is_finite() {
        return Matrix::new(n, n, vec![f64::NAN; n * n]);
    }
    if n == 0 {
        return a.clone();
    }
    let mut squarings = 0;
    let mut scale = 1.0;
    while norm / scale > THETA {
        squarings += 1;
        scale *= 2.0;
    }
    let a = a.clone().divided(scale);
    let a2 = a.times(&a);
    let a4 = a2.times(&a2);
    let a6 = a4.times(&a2);
    // The sum with weights of the sixth, fourth and second power, and of the identity.
    let combined = |weights: [f64; 3], identity: f64| {
        let mut sum = Matrix::zeros(n, n);
        for (power, weight) in [&a6, &a4, &a2].into_iter().zip(weights) {
            axpy(&mut sum.data, weight, &power.data);
        }
        (0..n).for_each(|i| sum.data[i * n + i] += identity);
        sum
    };
    let mut odd = a6.times(&combined([PADE[13], PADE[11], PADE[9]], 0.0));
    axpy(&mut odd.data, 1.0, &combined([PADE[7], PADE[5], PADE[3]], PADE[1]).data);
    let odd = a.times(&odd);
    let mut even = a6.times(&combined([PADE[12], PADE[10], PADE[8]], 0.0));
    axpy(&mut even.data, 1.0, &combined([PADE[6], PADE[4], PADE[2]], PADE[0]).data);
    // (even - odd) x = even + odd, of which the identity is taken out so that it is not rounded: squarings double what
    // is lost in it. The left side is far from singular below theta.
    let mut left = even;
    axpy(&mut left.data, -1.0, &odd.data);
    let mut result = odd;
    result.data.iter_mut().for_each(|v| *v *= 2.0);
    PartialPivLu::new(left.view()).solve_in_place(result.view_mut());
    (0..n).for_each(|i| result.data[i * n + i] += 1.0);
    for _ in 0..squarings {
        result = result.times(&result);
    }
    result
}
