//! The vector loops of a tile: one per scalar operation and body.
//!
//! f32 loops are explicit vectors over whole groups (slots are padded to them); `plain` has those of the other
//! bodies. All of a tile's instructions run inside of one dispatched call, the only place that instantiates
//! these loops.

use half::{bf16, f16};
use lanthorn_ir::DType;
use lanthorn_ir::expr::{BinaryOp, UnaryOp};

use super::plain::{binary_f64, binary_int, cast, round, unary_f64, unary_int, wrap};
use super::program::{Body, Instruction, Op};
use crate::simd::{MAX_LANES, Simd, SimdOp, dispatch, vecmath};

macro_rules! each1 {
    ($S:ident, $n:expr, $a:expr, $t:expr, |$x:ident| $e:expr) => {{
        let mut i = 0;
        while i < $n {
            let $x = $S::load($a.add(i));
            $S::store($t.add(i), $e);
            i += $S::LANES;
        }
    }};
}

macro_rules! each2 {
    ($S:ident, $n:expr, $a:expr, $b:expr, $t:expr, |$x:ident, $y:ident| $e:expr) => {{
        let mut i = 0;
        while i < $n {
            let $x = $S::load($a.add(i));
            let $y = $S::load($b.add(i));
            $S::store($t.add(i), $e);
            i += $S::LANES;
        }
    }};
}

/// Narrows vectors and widens them again, as a store and a load would.
macro_rules! through {
    ($S:ident, $n:expr, $a:expr, $t:expr, $half:ty, $store:ident, $load:ident) => {{
        let mut narrow = [<$half>::ZERO; MAX_LANES];
        let mut i = 0;
        while i < $n {
            $S::$store(narrow.as_mut_ptr(), $S::load($a.add(i)));
            $S::store($t.add(i), $S::$load(narrow.as_ptr()));
            i += $S::LANES;
        }
    }};
}

/// Runs instructions over the first `n` elements of slots.
///
/// # Safety
/// All slots hold a tile of their body, or, where `n` is a number of whole groups, `n` elements; `n` is at
/// most a tile.
pub(crate) unsafe fn compute(instructions: &[Instruction], slots: &[*mut u8], n: usize) {
    dispatch(Compute { instructions, slots, n, ahead: &[] });
}

/// As [`compute`], and tells the second-level cache of what the next tile will read, a share before each instruction: what
/// comes from memory comes while this tile is computed.
///
/// # Safety
/// As [`compute`].
pub(crate) unsafe fn compute_ahead(
    instructions: &[Instruction],
    slots: &[*mut u8],
    n: usize,
    ahead: &[Ahead],
) {
    dispatch(Compute { instructions, slots, n, ahead });
}

/// Bytes that will be read soon; they need not exist.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    pub at: *const u8,
    pub bytes: usize,
}

impl Ahead {
    /// Names one of `count` shares.
    #[inline(always)]
    fn name<S: Simd>(self, share: usize, count: usize) {
        const LINE: usize = 64;
        let lines = self.bytes / LINE;
        for line in share * lines / count..(share + 1) * lines / count {
            S::prefetch_far(self.at.wrapping_add(line * LINE).cast());
        }
    }
}

struct Compute<'a> {
    instructions: &'a [Instruction],
    slots: &'a [*mut u8],
    n: usize,
    ahead: &'a [Ahead],
}

impl SimdOp for Compute<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let count = self.instructions.len();
        for (share, instruction) in self.instructions.iter().enumerate() {
            for ahead in self.ahead {
                ahead.name::<S>(share, count);
            }
            // SAFETY: the promise of `compute`.
            unsafe { run::<S>(instruction, self.slots, self.n) };
        }
    }
}

#[inline(always)]
unsafe fn run<S: Simd>(instruction: &Instruction, slots: &[*mut u8], n: usize) {
    let slot = |at: u16| slots[at as usize];
    let (t, a, b, c) =
        (slot(instruction.target), slot(instruction.a), slot(instruction.b), slot(instruction.c));
    // SAFETY: the caller's promise.
    unsafe {
        match (instruction.op, instruction.body) {
            (Op::Unary(op), Body::F32 | Body::Bool) => unary_f32::<S>(op, a as *const f32, t as *mut f32, n),
            (Op::Unary(op), Body::F64) => unary_f64(op, a as *const f64, t, n),
            (Op::Unary(op), Body::I32) => unary_int(op, a as *const i32, t as *mut i32, n),
            (Op::Unary(op), Body::I64) => unary_int(op, a as *const i64, t as *mut i64, n),
            (Op::Unary(op), Body::U64) => unary_int(op, a as *const u64, t as *mut u64, n),
            (Op::Binary(op), Body::F32 | Body::Bool) => {
                binary_f32::<S>(op, a as *const f32, b as *const f32, t as *mut f32, n)
            }
            (Op::Binary(op), Body::F64) => binary_f64(op, a as *const f64, b as *const f64, t, n),
            (Op::Binary(op), Body::I32) => binary_int(op, a as *const i32, b as *const i32, t, n),
            (Op::Binary(op), Body::I64) => binary_int(op, a as *const i64, b as *const i64, t, n),
            (Op::Binary(op), Body::U64) => binary_int(op, a as *const u64, b as *const u64, t, n),
            (Op::Select, body) => {
                let c = c as *const f32;
                if body.size() == 4 {
                    let (a, b, t) = (a as *const f32, b as *const f32, t as *mut f32);
                    let mut i = 0;
                    while i < n {
                        let mask = S::ne(S::load(c.add(i)), S::splat(0.0));
                        S::store(t.add(i), S::select(mask, S::load(a.add(i)), S::load(b.add(i))));
                        i += S::LANES;
                    }
                } else {
                    let (a, b, t) = (a as *const u64, b as *const u64, t as *mut u64);
                    for i in 0..n {
                        *t.add(i) = if *c.add(i) != 0.0 { *a.add(i) } else { *b.add(i) };
                    }
                }
            }
            (Op::Cast(to), body) => cast(body, to, a, t, n),
            (Op::Round(to), _) => {
                let (a, t) = (a as *const f32, t as *mut f32);
                match to {
                    DType::F16 => through!(S, n, a, t, f16, store_f16, load_f16),
                    DType::BF16 => through!(S, n, a, t, bf16, store_bf16, load_bf16),
                    _ => round(to, a, t, n),
                }
            }
        }
        if let Some(dtype) = instruction.wrap {
            wrap(dtype, t, n);
        }
    }
}

#[inline(always)]
unsafe fn unary_f32<S: Simd>(op: UnaryOp, a: *const f32, t: *mut f32, n: usize) {
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match op {
            UnaryOp::Neg => each1!(S, n, a, t, |x| S::neg(x)),
            UnaryOp::Abs => each1!(S, n, a, t, |x| S::abs(x)),
            UnaryOp::Sign => each1!(S, n, a, t, |x| {
                // Plus 0 at both zeros, as in torch.
                let one = S::copysign(S::splat(1.0), x);
                let sign = S::select(S::is_nan(x), x, one);
                S::select(S::eq(x, S::splat(0.0)), S::splat(0.0), sign)
            }),
            UnaryOp::Floor => each1!(S, n, a, t, |x| S::floor(x)),
            UnaryOp::Ceil => each1!(S, n, a, t, |x| S::ceil(x)),
            UnaryOp::Round => each1!(S, n, a, t, |x| S::round(x)),
            UnaryOp::Trunc => each1!(S, n, a, t, |x| S::trunc(x)),
            UnaryOp::Exp => each1!(S, n, a, t, |x| vecmath::exp::<S>(x)),
            UnaryOp::Expm1 => each1!(S, n, a, t, |x| vecmath::expm1::<S>(x)),
            UnaryOp::Log => each1!(S, n, a, t, |x| vecmath::log::<S>(x)),
            UnaryOp::Log1p => each1!(S, n, a, t, |x| vecmath::log1p::<S>(x)),
            UnaryOp::Sqrt => each1!(S, n, a, t, |x| S::sqrt(x)),
            UnaryOp::Rsqrt => each1!(S, n, a, t, |x| S::div(S::splat(1.0), S::sqrt(x))),
            UnaryOp::Recip => each1!(S, n, a, t, |x| S::div(S::splat(1.0), x)),
            UnaryOp::Sin => each1!(S, n, a, t, |x| vecmath::sin::<S>(x)),
            UnaryOp::Cos => each1!(S, n, a, t, |x| vecmath::cos::<S>(x)),
            UnaryOp::Tanh => each1!(S, n, a, t, |x| vecmath::tanh::<S>(x)),
            UnaryOp::Sigmoid => each1!(S, n, a, t, |x| vecmath::sigmoid::<S>(x)),
            UnaryOp::Erf => each1!(S, n, a, t, |x| vecmath::erf::<S>(x)),
            UnaryOp::Relu => each1!(S, n, a, t, |x| S::max(x, S::splat(0.0))),
            UnaryOp::Gelu => each1!(S, n, a, t, |x| vecmath::gelu_erf::<S>(x)),
            UnaryOp::GeluTanh => each1!(S, n, a, t, |x| vecmath::gelu_tanh::<S>(x)),
            UnaryOp::Silu => each1!(S, n, a, t, |x| vecmath::silu::<S>(x)),
            UnaryOp::Not => each1!(S, n, a, t, |x| S::sub(S::splat(1.0), x)),
            UnaryOp::IsFinite => each1!(S, n, a, t, |x| {
                let finite = S::lt(S::abs(x), S::splat(f32::INFINITY));
                S::select(finite, S::splat(1.0), S::splat(0.0))
            }),
            UnaryOp::Softplus => each1!(S, n, a, t, |x| {
                let tail = vecmath::log1p::<S>(vecmath::exp::<S>(S::neg(S::abs(x))));
                S::add(S::max(x, S::splat(0.0)), tail)
            }),
            // In f64, one by one: right to an f32 ulp in the tails too.
            rare => match lanthorn_special::unary(rare) {
                Some(function) => {
                    for i in 0..n {
                        *t.add(i) = function(f64::from(*a.add(i))) as f32;
                    }
                }
                None => debug_assert!(false, "{} is of integers", rare.name()),
            },
        }
    }
}

#[inline(always)]
fn truth<S: Simd>(mask: S::M) -> S::F {
    S::select(mask, S::splat(1.0), S::splat(0.0))
}

#[inline(always)]
unsafe fn binary_f32<S: Simd>(op: BinaryOp, a: *const f32, b: *const f32, t: *mut f32, n: usize) {
    // SAFETY: the caller's promise: slots of a tile.
    unsafe {
        match op {
            BinaryOp::Add => each2!(S, n, a, b, t, |x, y| S::add(x, y)),
            BinaryOp::Sub => each2!(S, n, a, b, t, |x, y| S::sub(x, y)),
            BinaryOp::Mul => each2!(S, n, a, b, t, |x, y| S::mul(x, y)),
            BinaryOp::Div => each2!(S, n, a, b, t, |x, y| S::div(x, y)),
            // The remainder of large quotients needs the exact library function.
            BinaryOp::Rem => {
                for i in 0..n {
                    *t.add(i) = *a.add(i) % *b.add(i);
                }
            }
            // In f64, so that the result is right to an f32 ulp whatever the exponent.
            BinaryOp::Pow => {
                for i in 0..n {
                    *t.add(i) = (*a.add(i) as f64).powf(*b.add(i) as f64) as f32;
                }
            }
            BinaryOp::Max => each2!(S, n, a, b, t, |x, y| S::max(x, y)),
            BinaryOp::Min => each2!(S, n, a, b, t, |x, y| S::min(x, y)),
            BinaryOp::Eq => each2!(S, n, a, b, t, |x, y| truth::<S>(S::eq(x, y))),
            BinaryOp::Ne => each2!(S, n, a, b, t, |x, y| truth::<S>(S::ne(x, y))),
            BinaryOp::Lt => each2!(S, n, a, b, t, |x, y| truth::<S>(S::lt(x, y))),
            BinaryOp::Le => each2!(S, n, a, b, t, |x, y| truth::<S>(S::le(x, y))),
            BinaryOp::Gt => each2!(S, n, a, b, t, |x, y| truth::<S>(S::gt(x, y))),
            BinaryOp::Ge => each2!(S, n, a, b, t, |x, y| truth::<S>(S::ge(x, y))),
            BinaryOp::And => each2!(S, n, a, b, t, |x, y| S::mul(x, y)),
            BinaryOp::Or => each2!(S, n, a, b, t, |x, y| S::max(x, y)),
            rare => match lanthorn_special::binary(rare) {
                Some(function) => {
                    for i in 0..n {
                        *t.add(i) = function(f64::from(*a.add(i)), f64::from(*b.add(i))) as f32;
                    }
                }
                None => debug_assert!(false, "{} is of integers", rare.name()),
            },
        }
    }
}
