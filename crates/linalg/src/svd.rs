//! Singular values: to bidiagonal form by reflections, then QR steps with implicit shifts (Golub and Reinsch 1970; the
//! cases as in LINPACK's dsvdc).

use crate::Failure;
use crate::matrix::{Matrix, rotate};
use crate::qr::{Reflection, product, qr};
use crate::settle::settle;

/// QR steps for one singular value; two or three are usual.
const STEPS: usize = 120;
/// Below this a number counts as zero beside any other of a matrix scaled to 1.
const TINY: f64 = 1e-290;

/// `u [m, k]`, descending `s [k]` and `vt [k, n]` with `a = u diag(s) vt`, `k = min(m, n)`.
pub fn svd(a: &Matrix) -> Result<(Matrix, Vec<f64>, Matrix), Failure> {
    if !a.is_finite() {
        return Err(Failure::NotFinite);
    }
    let scale = a.scale();
    let wide = a.rows < a.columns;
    let tall = if wide { a.transposed() } else { a.clone() }.divided(scale);
    let n = tall.columns;
    // Of a tall matrix only the square factor is worked on.
    let (outer, square) = if tall.rows > n {
        let (q, r) = qr(tall);
        (Some(q), r)
    } else {
        (None, tall)
    };
    let (mut s, mut e, u, v) = bidiagonal(square);
    let (mut u, mut vt) = (u.transposed(), v.transposed());
    implicit_qr(&mut s, &mut e, &mut u, &mut vt)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| s[j].total_cmp(&s[i]));
    let sorted = |rows: &Matrix| {
        let data = order.iter().flat_map(|&i| rows.row(i)).copied().collect();
        Matrix::new(n, n, data)
    };
    let (u, vt) = (sorted(&u).transposed(), sorted(&vt));
    let u = outer.map_or(u.clone(), |q| q.times(&u));
    let s: Vec<f64> = order.iter().map(|&i| s[i] * scale).collect();
    let (u, vt) = if wide { (vt.transposed(), u.transposed()) } else { (u, vt) };
    let (u, vt) = settle(u, &s, vt);
    Ok((u, s, vt))
}

/// The diagonal, what stands to its right (one element fewer, then a 0), `u` and `v` with `a = u b v^T`, square.
fn bidiagonal(mut a: Matrix) -> (Vec<f64>, Vec<f64>, Matrix, Matrix) {
    let n = a.rows;
    let (mut d, mut e) = (vec![0.0; n], vec![0.0; n]);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for k in 0..n {
        let reflection = Reflection::of((k..n).map(|i| a.at(i, k)));
        reflection.apply_left(&mut a, k, k + 1);
        d[k] = reflection.head;
        left.push(reflection);
        if k + 1 < n {
            let reflection = Reflection::of(a.row(k)[k + 1..].iter().copied());
            reflection.apply_right(&mut a, k + 1, k + 1);
            e[k] = reflection.head;
            right.push(reflection);
        }
    }
    (d, e, product(&left, n, n, 0), product(&right, n, n, 1))
}

/// What is left of the bidiagonal to be done.
enum Part {
    /// The last value is 0: the element before it goes away by rotations of `v`.
    LastIsZero,
    /// A value at the place before the part is 0: what stands beside it goes away by rotations of `u`.
    ZeroBefore,
    /// A step of QR.
    Step,
    /// The last value stands alone.
    Done,
}

/// Which part of the first `p` values is unreduced, and how to go on; negligible elements become 0.
fn part(s: &mut [f64], e: &mut [f64], p: usize) -> (usize, Part) {
    // The part begins after the last negligible element beside the diagonal.
    let cut = (0..p - 1).rev().find(|&k| e[k].abs() <= TINY + f64::EPSILON * (s[k].abs() + s[k + 1].abs()));
    if let Some(k) = cut {
        e[k] = 0.0;
    }
    let start = cut.map_or(0, |k| k + 1);
    if start == p - 1 {
        return (start, Part::Done);
    }
    let zero = (start..p).rev().find(|&i| {
        let right = if i + 1 < p { e[i].abs() } else { 0.0 };
        let above = if i > start { e[i - 1].abs() } else { 0.0 };
        s[i].abs() <= TINY + f64::EPSILON * (right + above)
    });
    match zero {
        None => (start, Part::Step),
        Some(i) => {
            s[i] = 0.0;
            if i == p - 1 { (start, Part::LastIsZero) } else { (i + 1, Part::ZeroBefore) }
        }
    }
}

/// Makes `s` the singular values; vectors are the rows of `u` and `v`.
fn implicit_qr(s: &mut [f64], e: &mut [f64], u: &mut Matrix, v: &mut Matrix) -> Result<(), Failure> {
    let mut p = s.len();
    let mut steps = 0;
    while p > 0 {
        let (k, case) = part(s, e, p);
        match case {
            Part::LastIsZero => {
                let mut f = e[p - 2];
                e[p - 2] = 0.0;
                for j in (k..p - 1).rev() {
                    let t = s[j].hypot(f);
                    let (c, sine) = unit(s[j], f, t);
                    s[j] = t;
                    if j != k {
                        f = -sine * e[j - 1];
                        e[j - 1] *= c;
                    }
                    let (x, y) = v.rows_mut(j, p - 1);
                    rotate(x, y, c, sine);
                }
            }
            Part::ZeroBefore => {
                let mut f = e[k - 1];
                e[k - 1] = 0.0;
                for j in k..p {
                    let t = s[j].hypot(f);
                    let (c, sine) = unit(s[j], f, t);
                    s[j] = t;
                    f = -sine * e[j];
                    e[j] *= c;
                    let (x, y) = u.rows_mut(j, k - 1);
                    rotate(x, y, c, sine);
                }
            }
            Part::Step => {
                steps += 1;
                if steps > STEPS {
                    return Err(Failure::NotConverged);
                }
                step(s, e, k, p, u, v);
            }
            Part::Done => {
                if s[k] < 0.0 || (s[k] == 0.0 && s[k].is_sign_negative()) {
                    s[k] = -s[k];
                    v.row_mut(k).iter_mut().for_each(|v| *v = -*v);
                }
                steps = 0;
                p -= 1;
            }
        }
    }
    Ok(())
}

/// The cosine and sine of the angle of `(x, y)` of length `t`.
fn unit(x: f64, y: f64, t: f64) -> (f64, f64) {
    if t == 0.0 { (1.0, 0.0) } else { (x / t, y / t) }
}

/// One QR step on the values `k..p`, with the shift of the last two by two block.
fn step(s: &mut [f64], e: &mut [f64], k: usize, p: usize, u: &mut Matrix, v: &mut Matrix) {
    let scale = [s[p - 1], s[p - 2], e[p - 2], s[k], e[k]].iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let (last, before, beside) = (s[p - 1] / scale, s[p - 2] / scale, e[p - 2] / scale);
    let (first, right) = (s[k] / scale, e[k] / scale);
    let b = ((before + last) * (before - last) + beside * beside) / 2.0;
    let c = (last * beside) * (last * beside);
    let mut shift = 0.0;
    if b != 0.0 || c != 0.0 {
        let root = (b * b + c).sqrt();
        shift = c / (b + if b < 0.0 { -root } else { root });
    }
    let mut f = (first + last) * (first - last) + shift;
    let mut g = first * right;
    for j in k..p - 1 {
        let t = f.hypot(g);
        let (c, sine) = unit(f, g, t);
        if j != k {
            e[j - 1] = t;
        }
        f = c * s[j] + sine * e[j];
        e[j] = c * e[j] - sine * s[j];
        g = sine * s[j + 1];
        s[j + 1] *= c;
        let (x, y) = v.rows_mut(j, j + 1);
        rotate(x, y, c, sine);
        let t = f.hypot(g);
        let (c, sine) = unit(f, g, t);
        s[j] = t;
        f = c * e[j] + sine * s[j + 1];
        s[j + 1] = c * s[j + 1] - sine * e[j];
        g = sine * e[j + 1];
        e[j + 1] *= c;
        let (x, y) = u.rows_mut(j, j + 1);
        rotate(x, y, c, sine);
    }
    e[p - 2] = f;
}
