//! Every instruction set of this machine against scalar references.

use half::{bf16, f16};

use super::{Isa, MAX_LANES, Simd, SimdOp, dispatch_on, vecmath};

/// A function of one vector.
trait Map: Copy {
    fn map<S: Simd>(self, x: S::F) -> S::F;
}

struct MapSlice<'a, M>(M, &'a [f32]);

impl<M: Map> SimdOp for MapSlice<'_, M> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<S: Simd>(self) -> Vec<f32> {
        let mut out = vec![0.0; self.1.len()];
        for (x, y) in self.1.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
            // SAFETY: both chunks hold `x.len() <= LANES` values.
            unsafe {
                let value = self.0.map::<S>(S::load_partial(x.as_ptr(), x.len()));
                S::store_partial(y.as_mut_ptr(), x.len(), value);
            }
        }
        out
    }
}

/// Samples of every binade and sign, dense where the functions here bend, and all special values.
fn samples() -> Vec<f32> {
    let mut samples: Vec<f32> = (0..=u32::MAX).step_by(9973).map(f32::from_bits).collect();
    samples.extend((-200_000..=200_000).map(|i| i as f32 * 1e-4));
    samples.extend((-20_000..=20_000).map(|i| i as f32 * 6e-3));
    samples.extend((0..20_000).map(|i| f32::from_bits(1.0f32.to_bits() - 10_000 + i)));
    samples.extend((1..5_000).map(|i| (f64::from(i) * std::f64::consts::FRAC_PI_2) as f32));
    let special = [
        0.0,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        f32::EPSILON,
        0.5,
        1.0,
        88.722_84,
        103.97,
        104.1,
        1e9,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    samples.extend(special.iter().flat_map(|x| [*x, -*x]));
    samples
}

/// The error of `got` in units in the last place of `exact`.
fn ulp_error(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if exact.is_nan() || got.is_nan() {
        return if exact.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if rounded.is_infinite() || got.is_infinite() {
        let neighbour = got.abs() == f32::MAX || rounded.abs() == f32::MAX;
        return if got == rounded {
            0.0
        } else if neighbour && got.is_sign_positive() == rounded.is_sign_positive() {
            1.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = (rounded.abs().max(f32::MIN_POSITIVE).to_bits() >> 23) as i32 - 127 - 23;
    (f64::from(got) - exact).abs() / f64::powi(2.0, exponent)
}

#[track_caller]
fn assert_within<M: Map>(function: M, exact: fn(f64) -> f64, max_ulp: f64) {
    let samples = samples();
    for isa in Isa::supported() {
        let got = dispatch_on(isa, MapSlice(function, &samples));
        let (mut worst, mut at) = (0.0, 0.0);
        for (x, y) in samples.iter().zip(&got) {
            let error = ulp_error(*y, exact(f64::from(*x)));
            if error > worst {
                (worst, at) = (error, *x);
            }
        }
        println!("{:>8}: {worst:.3} ulp at {at:e}", isa.name());
        assert!(worst <= max_ulp, "{isa:?}: {worst} ulp at {at:e}, stated {max_ulp}");
    }
}

macro_rules! bounded {
    ($($test:ident, $function:ident, $exact:expr, $ulp:expr;)*) => {$(
        #[test]
        fn $test() {
            #[derive(Clone, Copy)]
            struct Function;
            impl Map for Function {
                #[inline(always)]
                fn map<S: Simd>(self, x: S::F) -> S::F {
                    vecmath::$function::<S>(x)
                }
            }
            assert_within(Function, $exact, $ulp);
        }
    )*};
}

bounded! {
    exp_is_within_its_stated_error, exp, f64::exp, 1.5;
    exp2_is_within_its_stated_error, exp2, f64::exp2, 1.5;
    expm1_is_within_its_stated_error, expm1, f64::exp_m1, 2.0;
    log_is_within_its_stated_error, log, f64::ln, 2.0;
    log1p_is_within_its_stated_error, log1p, f64::ln_1p, 3.0;
    tanh_is_within_its_stated_error, tanh, f64::tanh, 3.0;
    sigmoid_is_within_its_stated_error, sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 3.0;
    erf_is_within_its_stated_error, erf, libm::erf, 2.0;
    sin_is_within_its_stated_error, sin, f64::sin, 2.0;
    cos_is_within_its_stated_error, cos, f64::cos, 2.0;
}

#[derive(Clone, Copy)]
struct GeluErf;

impl Map for GeluErf {
    #[inline(always)]
    fn map<S: Simd>(self, x: S::F) -> S::F {
        vecmath::gelu_erf::<S>(x)
    }
}

#[derive(Clone, Copy)]
struct GeluTanh;

impl Map for GeluTanh {
    #[inline(always)]
    fn map<S: Simd>(self, x: S::F) -> S::F {
        vecmath::gelu_tanh::<S>(x)
    }
}

#[test]
fn gelu_is_within_its_stated_error() {
    let samples: Vec<f32> = (-100_000..=100_000).map(|i| i as f32 * 1e-4).collect();
    for isa in Isa::supported() {
        let erf = dispatch_on(isa, MapSlice(GeluErf, &samples));
        let tanh = dispatch_on(isa, MapSlice(GeluTanh, &samples));
        let (mut worst_erf, mut worst_tanh) = (0.0f64, 0.0f64);
        for ((x, erf), tanh) in samples.iter().zip(&erf).zip(&tanh) {
            let wide = f64::from(*x);
            let exact = 0.5 * wide * (1.0 + libm::erf(wide / std::f64::consts::SQRT_2));
            worst_erf = worst_erf.max((f64::from(*erf) - exact).abs() / wide.abs().max(1.0));
            let u = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
            let exact = wide / (1.0 + (-2.0 * u).exp());
            if wide.abs() <= 4.0 {
                worst_tanh = worst_tanh.max(ulp_error(*tanh, exact));
            }
        }
        println!("{:>8}: erf {worst_erf:e}, tanh {worst_tanh} ulp", isa.name());
        assert!(worst_erf <= 1.5e-7 && worst_tanh <= 32.0, "{isa:?}: {worst_erf:e}, {worst_tanh}");
        assert!(dispatch_on(isa, MapSlice(GeluErf, &[f32::NAN]))[0].is_nan());
        assert!(dispatch_on(isa, MapSlice(GeluTanh, &[f32::NAN]))[0].is_nan());
    }
}

#[derive(Clone, Copy)]
struct Silu;

impl Map for Silu {
    #[inline(always)]
    fn map<S: Simd>(self, x: S::F) -> S::F {
        vecmath::silu::<S>(x)
    }
}

#[test]
fn silu_is_within_its_stated_error() {
    let samples = samples();
    for isa in Isa::supported() {
        for (x, got) in samples.iter().zip(dispatch_on(isa, MapSlice(Silu, &samples))) {
            let wide = f64::from(*x);
            let exact = wide * (1.0 / (1.0 + (-wide).exp()));
            let within = match *x {
                x if x >= -87.0 || x.is_nan() || x.is_infinite() => ulp_error(got, exact) <= 4.0,
                _ => (f64::from(got) - exact).abs() <= 1e-42,
            };
            assert!(within, "{isa:?}: silu({x:e}) = {got:e}, exact {exact:e}");
        }
    }
}

/// Basic lane operations, checked against scalar Rust.
struct LaneOps;

impl SimdOp for LaneOps {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let n = S::LANES;
        let a: Vec<f32> = (0..n).map(|i| [1.5, -2.5, f32::NAN, 0.0][i % 4] + i as f32).collect();
        let b: Vec<f32> = (0..n).map(|i| [f32::NAN, 3.0, 1.0, -0.5][i % 4]).collect();
        // SAFETY: both vectors hold LANES values.
        let (x, y) = unsafe { (S::load(a.as_ptr()), S::load(b.as_ptr())) };
        for i in 0..n {
            let (p, q) = (a[i], b[i]);
            let nan = p.is_nan() || q.is_nan();
            let expect = |value: f32| if nan { f32::NAN } else { value };
            assert_lane::<S>(S::max(x, y), i, expect(p.max(q)));
            assert_lane::<S>(S::min(x, y), i, expect(p.min(q)));
            let limited = |value: f32| if p.is_nan() { f32::NAN } else { value };
            assert_lane::<S>(S::at_most(x, S::splat(1.0)), i, limited(p.min(1.0)));
            assert_lane::<S>(S::at_least(x, S::splat(1.0)), i, limited(p.max(1.0)));
            assert_lane::<S>(S::round(x), i, p.round_ties_even());
            assert_lane::<S>(S::floor(x), i, p.floor());
            assert_lane::<S>(S::ceil(x), i, p.ceil());
            assert_lane::<S>(S::trunc(x), i, p.trunc());
            assert_lane::<S>(S::neg(x), i, -p);
            assert_lane::<S>(S::abs(x), i, p.abs());
            assert_lane::<S>(S::neg_mul_add(x, y, x), i, p - p * q);
            let (one, zero) = (S::splat(1.0), S::splat(0.0));
            assert_lane::<S>(S::select(S::lt(x, y), one, zero), i, f32::from(p < q));
            assert_lane::<S>(S::select(S::le(x, y), one, zero), i, f32::from(p <= q));
            assert_lane::<S>(S::select(S::gt(x, y), one, zero), i, f32::from(p > q));
            assert_lane::<S>(S::select(S::ne(x, y), one, zero), i, f32::from(p != q));
            assert_lane::<S>(S::select(S::is_nan(x), one, zero), i, f32::from(p.is_nan()));
        }
        assert!(S::reduce_max(x).is_nan() && S::reduce_min(x).is_nan());
        let ramp: Vec<f32> = (1..=n).map(|i| i as f32).collect();
        // SAFETY: `ramp` holds LANES values.
        let ramp = unsafe { S::load(ramp.as_ptr()) };
        assert_eq!(S::reduce_add(ramp), (n * (n + 1) / 2) as f32);
        assert_eq!(S::reduce_max(ramp), n as f32);
        assert_eq!(S::reduce_min(ramp), 1.0);

        let bits = S::splat_i(-100);
        assert_int::<S>(S::shl(bits, 3), -800);
        assert_int::<S>(S::shr_arith(bits, 2), -25);
        assert_int::<S>(S::shr(bits, 28), 15);
        assert_int::<S>(S::mul_i(bits, bits), 10_000);
        assert_int::<S>(S::to_int(S::splat(-2.5)), -2);
        assert!(S::all(S::gt_i(S::splat_i(1), bits)) && !S::any(S::eq_i(bits, S::splat_i(1))));

        let mut rows = [S::splat(0.0); MAX_LANES];
        for (i, row) in rows.iter_mut().enumerate().take(n) {
            let values: Vec<f32> = (0..n).map(|j| (i * n + j) as f32).collect();
            // SAFETY: `values` holds LANES values.
            *row = unsafe { S::load(values.as_ptr()) };
        }
        S::transpose(&mut rows);
        for (i, row) in rows.iter().enumerate().take(n) {
            for j in 0..n {
                assert_lane::<S>(*row, j, (j * n + i) as f32);
            }
        }

        for count in 0..=n {
            let source = vec![7.0f32; count];
            let mut target = vec![1.0f32; count];
            // SAFETY: both hold `count` values.
            unsafe {
                let loaded = S::load_partial(source.as_ptr(), count);
                assert_eq!(S::reduce_add(loaded), 7.0 * count as f32);
                S::store_partial(target.as_mut_ptr(), count, loaded);
            }
            assert_eq!(source, target);
        }
    }
}

fn assert_lane<S: Simd>(value: S::F, lane: usize, expected: f32) {
    let mut lanes = [0.0; MAX_LANES];
    // SAFETY: the buffer holds MAX_LANES >= LANES values.
    unsafe { S::store(lanes.as_mut_ptr(), value) };
    let got = lanes[lane];
    assert!(got == expected || (got.is_nan() && expected.is_nan()), "{:?}: {got} {expected}", S::ISA);
}

fn assert_int<S: Simd>(value: S::I, expected: i32) {
    let mut lanes = [0; MAX_LANES];
    // SAFETY: the buffer holds MAX_LANES >= LANES values.
    unsafe { S::store_i(lanes.as_mut_ptr(), value) };
    assert_eq!(lanes[..S::LANES], [expected; MAX_LANES][..S::LANES], "{:?}", S::ISA);
}

#[test]
fn lane_operations_agree_with_scalar_rust() {
    for isa in Isa::supported() {
        dispatch_on(isa, LaneOps);
    }
}

struct HalfRoundTrip<'a>(&'a [f32]);

impl SimdOp for HalfRoundTrip<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for x in self.0.chunks(S::LANES) {
            let n = x.len();
            let (mut b, mut h) = ([bf16::ZERO; MAX_LANES], [f16::ZERO; MAX_LANES]);
            let (mut wide_b, mut wide_h) = ([0.0f32; MAX_LANES], [0.0f32; MAX_LANES]);
            // SAFETY: `x` holds n <= LANES values and every buffer MAX_LANES.
            unsafe {
                let v = S::load_partial(x.as_ptr(), n);
                S::store_bf16(b.as_mut_ptr(), v);
                S::store_f16(h.as_mut_ptr(), v);
                S::store(wide_b.as_mut_ptr(), S::load_bf16(b.as_ptr()));
                S::store(wide_h.as_mut_ptr(), S::load_f16(h.as_ptr()));
                let (mut part_b, mut part_h) = ([bf16::ZERO; MAX_LANES], [f16::ZERO; MAX_LANES]);
                S::store_bf16_partial(part_b.as_mut_ptr(), n, v);
                S::store_f16_partial(part_h.as_mut_ptr(), n, v);
                assert!(part_b[..n].iter().zip(&b).all(|(p, q)| p.to_bits() == q.to_bits()));
                assert!(part_h[..n].iter().zip(&h).all(|(p, q)| p.to_bits() == q.to_bits()));
                let again = S::load_bf16_partial(b.as_ptr(), n);
                S::store_bf16_partial(part_b.as_mut_ptr(), n, again);
                assert!(part_b[..n].iter().zip(&b).all(|(p, q)| p.to_bits() == q.to_bits()));
                let again = S::load_f16_partial(h.as_ptr(), n);
                S::store_f16_partial(part_h.as_mut_ptr(), n, again);
                assert!(part_h[..n].iter().zip(&h).all(|(p, q)| p.to_bits() == q.to_bits()));
            }
            for i in 0..n {
                if x[i].is_nan() {
                    assert!(b[i].is_nan() && h[i].is_nan() && wide_b[i].is_nan() && wide_h[i].is_nan());
                    continue;
                }
                assert_eq!(b[i].to_bits(), bf16::from_f32(x[i]).to_bits(), "{:?} bf16 of {:e}", S::ISA, x[i]);
                assert_eq!(h[i].to_bits(), f16::from_f32(x[i]).to_bits(), "{:?} f16 of {:e}", S::ISA, x[i]);
                assert_eq!(wide_b[i], b[i].to_f32());
                assert_eq!(wide_h[i], h[i].to_f32());
            }
        }
    }
}

#[test]
fn half_conversions_agree_with_the_half_crate() {
    let mut samples = samples();
    samples.extend((0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32()));
    // Halfway cases between neighbouring f16 values.
    samples.extend(
        (0..0x7bff).map(|bits| (f16::from_bits(bits).to_f32() + f16::from_bits(bits + 1).to_f32()) * 0.5),
    );
    for isa in Isa::supported() {
        dispatch_on(isa, HalfRoundTrip(&samples));
    }
}
