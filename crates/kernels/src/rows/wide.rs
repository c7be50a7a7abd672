//! Vectors of the type that a kernel computes in: f32 for f32 and the half types, f64 for f64.
//!
//! f32 vectors are those of [`simd`](crate::simd); f64 vectors are plain arrays that the compiler turns into
//! vector code of the instruction set. One kernel body serves both.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::simd::{Isa, MAX_LANES, Simd, vecmath};

/// A type to compute in.
pub trait Wide:
    Copy
    + Debug
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;

    /// A vector's worth of values.
    type Lanes<S: Simd>: Copy;

    /// Lanes per vector.
    fn lanes<S: Simd>() -> usize;
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;

    fn splat<S: Simd>(value: Self) -> Self::Lanes<S>;
    /// # Safety
    /// [`Wide::lanes`] values at `source` are readable.
    unsafe fn load<S: Simd>(source: *const Self) -> Self::Lanes<S>;
    /// # Safety
    /// [`Wide::lanes`] values at `target` are writable.
    unsafe fn store<S: Simd>(target: *mut Self, value: Self::Lanes<S>);
    /// The first `count` values, zeros in the other lanes.
    /// # Safety
    /// `count <= lanes` values at `source` are readable.
    unsafe fn load_first<S: Simd>(source: *const Self, count: usize) -> Self::Lanes<S>;
    /// # Safety
    /// `count <= lanes` values at `target` are writable.
    unsafe fn store_first<S: Simd>(target: *mut Self, count: usize, value: Self::Lanes<S>);
    fn vector_add<S: Simd>(a: Self::Lanes<S>, b: Self::Lanes<S>) -> Self::Lanes<S>;
    fn vector_sub<S: Simd>(a: Self::Lanes<S>, b: Self::Lanes<S>) -> Self::Lanes<S>;
    fn vector_mul<S: Simd>(a: Self::Lanes<S>, b: Self::Lanes<S>) -> Self::Lanes<S>;
    /// `a * b + c`
    fn mul_add<S: Simd>(a: Self::Lanes<S>, b: Self::Lanes<S>, c: Self::Lanes<S>) -> Self::Lanes<S>;
    /// The larger; which operand is returned for NaN is unspecified.
    fn max_fast<S: Simd>(a: Self::Lanes<S>, b: Self::Lanes<S>) -> Self::Lanes<S>;
    fn vector_exp<S: Simd>(a: Self::Lanes<S>) -> Self::Lanes<S>;
    /// `2^a` for `a <= 127`, at most 2 ulp; where that is subnormal, zero or the value.
    fn vector_exp2_to_zero<S: Simd>(a: Self::Lanes<S>) -> Self::Lanes<S>;
    /// `e^a` for `a <= 88`, at most 2 ulp; where that is subnormal, zero or the value. Cheaper than
    /// [`Wide::vector_exp`].
    fn vector_exp_to_zero<S: Simd>(a: Self::Lanes<S>) -> Self::Lanes<S>;
    /// `a > b ? x : y`; `y` where either is NaN.
    fn select_greater<S: Simd>(
        a: Self::Lanes<S>,
        b: Self::Lanes<S>,
        x: Self::Lanes<S>,
        y: Self::Lanes<S>,
    ) -> Self::Lanes<S>;
    /// Transposes the matrix of the first [`Wide::lanes`] vectors.
    fn transpose<S: Simd>(rows: &mut [Self::Lanes<S>; MAX_LANES]);
    fn reduce_add<S: Simd>(a: Self::Lanes<S>) -> Self;
    fn reduce_max<S: Simd>(a: Self::Lanes<S>) -> Self;
    /// The first `count <= lanes` lanes of `a`, `fill` in the others.
    fn keep_first<S: Simd>(a: Self::Lanes<S>, count: usize, fill: Self) -> Self::Lanes<S>;
}

static ONES: [f32; MAX_LANES] = [1.0; MAX_LANES];

impl Wide for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;

    type Lanes<S: Simd> = S::F;

    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        S::LANES
    }
    #[inline(always)]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f32 {
        self.sqrt()
    }
    #[inline(always)]
    fn exp(self) -> f32 {
        self.exp()
    }
    #[inline(always)]
    fn ln(self) -> f32 {
        self.ln()
    }

    #[inline(always)]
    fn splat<S: Simd>(value: f32) -> S::F {
        S::splat(value)
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(source: *const f32) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load(source) }
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(target: *mut f32, value: S::F) {
        // SAFETY: the caller's promise.
        unsafe { S::store(target, value) }
    }
    #[inline(always)]
    unsafe fn load_first<S: Simd>(source: *const f32, count: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load_partial(source, count) }
    }
    #[inline(always)]
    unsafe fn store_first<S: Simd>(target: *mut f32, count: usize, value: S::F) {
        // SAFETY: the caller's promise.
        unsafe { S::store_partial(target, count, value) }
    }
    #[inline(always)]
    fn vector_add<S: Simd>(a: S::F, b: S::F) -> S::F {
        S::add(a, b)
    }
    #[inline(always)]
    fn vector_sub<S: Simd>(a: S::F, b: S::F) -> S::F {
        S::sub(a, b)
    }
    #[inline(always)]
    fn vector_mul<S: Simd>(a: S::F, b: S::F) -> S::F {
        S::mul(a, b)
    }
    #[inline(always)]
    fn mul_add<S: Simd>(a: S::F, b: S::F, c: S::F) -> S::F {
        S::mul_add(a, b, c)
    }
    #[inline(always)]
    fn max_fast<S: Simd>(a: S::F, b: S::F) -> S::F {
        S::max_fast(a, b)
    }
    #[inline(always)]
    fn vector_exp<S: Simd>(a: S::F) -> S::F {
        vecmath::exp::<S>(a)
    }
    #[inline(always)]
    fn vector_exp2_to_zero<S: Simd>(a: S::F) -> S::F {
        exp2_to_zero::<S>(a)
    }
    #[inline(always)]
    fn vector_exp_to_zero<S: Simd>(a: S::F) -> S::F {
        exp_to_zero::<S>(a)
    }
    #[inline(always)]
    fn select_greater<S: Simd>(a: S::F, b: S::F, x: S::F, y: S::F) -> S::F {
        S::select(S::gt(a, b), x, y)
    }
    #[inline(always)]
    fn transpose<S: Simd>(rows: &mut [S::F; MAX_LANES]) {
        S::transpose(rows);
    }
    #[inline(always)]
    fn reduce_add<S: Simd>(a: S::F) -> f32 {
        S::reduce_add(a)
    }
    #[inline(always)]
    fn reduce_max<S: Simd>(a: S::F) -> f32 {
        S::reduce_max(a)
    }
    #[inline(always)]
    fn keep_first<S: Simd>(a: S::F, count: usize, fill: f32) -> S::F {
        // SAFETY: `count <= LANES <= MAX_LANES`, the length of `ONES`.
        let ones = unsafe { S::load_partial(ONES.as_ptr(), count) };
        S::select(S::eq(ones, S::splat(1.0)), a, S::splat(fill))
    }
}

/// The exponent below which `times_power` gives zero.
#[inline(always)]
fn vanishing<S: Simd>() -> f32 {
    if matches!(S::ISA, Isa::Avx512) { -160.0 } else { -127.0 }
}

/// `p * 2^n` for integral `n` from [`vanishing`] to 127 and `p` near 1; zero where the result would be
/// subnormal, unless there is an instruction for it.
#[inline(always)]
fn times_power<S: Simd>(p: S::F, n: S::F) -> S::F {
    if matches!(S::ISA, Isa::Avx512) {
        return S::scale(p, n);
    }
    S::mul(p, S::from_bits(S::shl(S::add_i(S::to_int(n), S::splat_i(127)), 23)))
}

/// `2^x`. The polynomial is the minimax approximation of degree 6 on [-1/2, 1/2] (by Remez' exchange) with relative
/// error 3e-9 before rounding.
#[inline(always)]
fn exp2_to_zero<S: Simd>(x: S::F) -> S::F {
    let x = S::at_least(x, S::splat(vanishing::<S>()));
    let n = S::round(x);
    let f = S::sub(x, n);
    let p = S::mul_add(S::splat(1.559_467_8e-4), f, S::splat(1.340_664_3e-3));
    let p = S::mul_add(p, f, S::splat(9.617_693e-3));
    let p = S::mul_add(p, f, S::splat(5.550_310_4e-2));
    let p = S::mul_add(p, f, S::splat(2.402_265_2e-1));
    let p = S::mul_add(p, f, S::splat(6.931_472_4e-1));
    let p = S::mul_add(p, f, S::splat(1.0));
    times_power::<S>(p, n)
}

/// `e^x`; the polynomial is that of [`exp2_to_zero`] with its argument scaled.
#[inline(always)]
fn exp_to_zero<S: Simd>(x: S::F) -> S::F {
    // ln 2 in two parts: products of the first with integers below 2^10 are exact.
    const LN_2_HIGH: f32 = 11_356.0 / 16_384.0;
    const LN_2_LOW: f32 = (std::f64::consts::LN_2 - 11_356.0 / 16_384.0) as f32;
    let x = S::at_least(x, S::splat(vanishing::<S>() * std::f32::consts::LN_2));
    let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
    let r = S::neg_mul_add(n, S::splat(LN_2_HIGH), x);
    let r = S::neg_mul_add(n, S::splat(LN_2_LOW), r);
    let p = S::mul_add(S::splat(1.406_124_1e-3), r, S::splat(8.379_01e-3));
    let p = S::mul_add(p, r, S::splat(4.166_477_5e-2));
    let p = S::mul_add(p, r, S::splat(1.666_636_5e-1));
    let p = S::mul_add(p, r, S::splat(5.000_000_6e-1));
    let p = S::mul_add(p, r, S::splat(1.000_000_1));
    let p = S::mul_add(p, r, S::splat(1.0));
    times_power::<S>(p, n)
}

/// Lanes of an f64 vector: enough for two registers of any instruction set.
const F64_LANES: usize = 8;

macro_rules! f64_lanes {
    ($i:ident => $value:expr) => {{
        let mut lanes = [0.0; F64_LANES];
        let mut $i = 0;
        while $i < F64_LANES {
            lanes[$i] = $value;
            $i += 1;
        }
        lanes
    }};
}

impl Wide for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;

    type Lanes<S: Simd> = [f64; F64_LANES];

    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        F64_LANES
    }
    #[inline(always)]
    fn from_f64(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        self.sqrt()
    }
    #[inline(always)]
    fn exp(self) -> f64 {
        self.exp()
    }
    #[inline(always)]
    fn ln(self) -> f64 {
        self.ln()
    }

    #[inline(always)]
    fn splat<S: Simd>(value: f64) -> [f64; F64_LANES] {
        [value; F64_LANES]
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(source: *const f64) -> [f64; F64_LANES] {
        // SAFETY: the caller's promise.
        unsafe { source.cast::<[f64; F64_LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(target: *mut f64, value: [f64; F64_LANES]) {
        // SAFETY: the caller's promise.
        unsafe { target.cast::<[f64; F64_LANES]>().write_unaligned(value) }
    }
    #[inline(always)]
    unsafe fn load_first<S: Simd>(source: *const f64, count: usize) -> [f64; F64_LANES] {
        let mut lanes = [0.0; F64_LANES];
        // SAFETY: the caller's promise; the array holds `lanes >= count` values.
        unsafe { std::ptr::copy_nonoverlapping(source, lanes.as_mut_ptr(), count) };
        lanes
    }
    #[inline(always)]
    unsafe fn store_first<S: Simd>(target: *mut f64, count: usize, value: [f64; F64_LANES]) {
        // SAFETY: the caller's promise; the array holds `lanes >= count` values.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), target, count) };
    }
    #[inline(always)]
    fn vector_add<S: Simd>(a: [f64; F64_LANES], b: [f64; F64_LANES]) -> [f64; F64_LANES] {
        f64_lanes!(i => a[i] + b[i])
    }
    #[inline(always)]
    fn vector_sub<S: Simd>(a: [f64; F64_LANES], b: [f64; F64_LANES]) -> [f64; F64_LANES] {
        f64_lanes!(i => a[i] - b[i])
    }
    #[inline(always)]
    fn vector_mul<S: Simd>(a: [f64; F64_LANES], b: [f64; F64_LANES]) -> [f64; F64_LANES] {
        f64_lanes!(i => a[i] * b[i])
    }
    #[inline(always)]
    fn mul_add<S: Simd>(a: [f64; F64_LANES], b: [f64; F64_LANES], c: [f64; F64_LANES]) -> [f64; F64_LANES] {
        // Without the instruction, `f64::mul_add` would be a call.
        if S::FUSED { f64_lanes!(i => a[i].mul_add(b[i], c[i])) } else { f64_lanes!(i => a[i] * b[i] + c[i]) }
    }
    #[inline(always)]
    fn max_fast<S: Simd>(a: [f64; F64_LANES], b: [f64; F64_LANES]) -> [f64; F64_LANES] {
        f64_lanes!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn vector_exp<S: Simd>(a: [f64; F64_LANES]) -> [f64; F64_LANES] {
        f64_lanes!(i => a[i].exp())
    }
    #[inline(always)]
    fn vector_exp2_to_zero<S: Simd>(a: [f64; F64_LANES]) -> [f64; F64_LANES] {
        f64_lanes!(i => a[i].exp2())
    }
    #[inline(always)]
    fn vector_exp_to_zero<S: Simd>(a: [f64; F64_LANES]) -> [f64; F64_LANES] {
        f64_lanes!(i => a[i].exp())
    }
    #[inline(always)]
    fn select_greater<S: Simd>(
        a: [f64; F64_LANES],
        b: [f64; F64_LANES],
        x: [f64; F64_LANES],
        y: [f64; F64_LANES],
    ) -> [f64; F64_LANES] {
        f64_lanes!(i => if a[i] > b[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    fn transpose<S: Simd>(rows: &mut [[f64; F64_LANES]; MAX_LANES]) {
        let before = *rows;
        for (j, row) in rows.iter_mut().enumerate().take(F64_LANES) {
            for (lane, before) in row.iter_mut().zip(&before) {
                *lane = before[j];
            }
        }
    }
    #[inline(always)]
    fn reduce_add<S: Simd>(a: [f64; F64_LANES]) -> f64 {
        ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
    }
    #[inline(always)]
    fn reduce_max<S: Simd>(a: [f64; F64_LANES]) -> f64 {
        let mut largest = a[0];
        let mut i = 1;
        while i < F64_LANES {
            largest = if largest > a[i] || largest.is_nan() { largest } else { a[i] };
            i += 1;
        }
        largest
    }
    #[inline(always)]
    fn keep_first<S: Simd>(a: [f64; F64_LANES], count: usize, fill: f64) -> [f64; F64_LANES] {
        f64_lanes!(i => if i < count { a[i] } else { fill })
    }
}

/// A vector of `W` with operators, so that kernels read as formulas.
pub struct Vector<W: Wide, S: Simd>(pub(crate) W::Lanes<S>, PhantomData<S>);

impl<W: Wide, S: Simd> Clone for Vector<W, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Wide, S: Simd> Copy for Vector<W, S> {}

impl<W: Wide, S: Simd> Vector<W, S> {
    #[inline(always)]
    pub(crate) fn new(lanes: W::Lanes<S>) -> Self {
        Vector(lanes, PhantomData)
    }
    #[inline(always)]
    pub fn splat(value: W) -> Self {
        Self::new(W::splat::<S>(value))
    }
    #[inline(always)]
    pub fn zero() -> Self {
        Self::splat(W::ZERO)
    }
    /// `self * b + c`
    #[inline(always)]
    pub fn mul_add(self, b: Self, c: Self) -> Self {
        Self::new(W::mul_add::<S>(self.0, b.0, c.0))
    }
    /// The larger; unspecified for NaN.
    #[inline(always)]
    pub fn max_fast(self, b: Self) -> Self {
        Self::new(W::max_fast::<S>(self.0, b.0))
    }
    #[inline(always)]
    pub fn exp(self) -> Self {
        Self::new(W::vector_exp::<S>(self.0))
    }
    /// As [`Wide::vector_exp_to_zero`].
    #[inline(always)]
    pub fn exp_to_zero(self) -> Self {
        Self::new(W::vector_exp_to_zero::<S>(self.0))
    }
    /// As [`Wide::vector_exp2_to_zero`].
    #[inline(always)]
    pub fn exp2_to_zero(self) -> Self {
        Self::new(W::vector_exp2_to_zero::<S>(self.0))
    }
    /// `self > bound ? x : y`
    #[inline(always)]
    pub fn select_greater(self, bound: Self, x: Self, y: Self) -> Self {
        Self::new(W::select_greater::<S>(self.0, bound.0, x.0, y.0))
    }
    /// The sum of the lanes.
    #[inline(always)]
    pub fn sum(self) -> W {
        W::reduce_add::<S>(self.0)
    }
    /// The largest lane.
    #[inline(always)]
    pub fn largest(self) -> W {
        W::reduce_max::<S>(self.0)
    }
    /// # Safety
    /// As [`Wide::load`].
    #[inline(always)]
    pub unsafe fn load(source: *const W) -> Self {
        // SAFETY: the caller's promise.
        Self::new(unsafe { W::load::<S>(source) })
    }
    /// # Safety
    /// As [`Wide::store`].
    #[inline(always)]
    pub unsafe fn store(self, target: *mut W) {
        // SAFETY: the caller's promise.
        unsafe { W::store::<S>(target, self.0) }
    }
}

impl<W: Wide, S: Simd> Add for Vector<W, S> {
    type Output = Self;
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        Self::new(W::vector_add::<S>(self.0, b.0))
    }
}

impl<W: Wide, S: Simd> Sub for Vector<W, S> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        Self::new(W::vector_sub::<S>(self.0, b.0))
    }
}

impl<W: Wide, S: Simd> Mul for Vector<W, S> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        Self::new(W::vector_mul::<S>(self.0, b.0))
    }
}
