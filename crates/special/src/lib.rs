//! Special functions of one f64: what `std` and `libm` lack, accurate to a few units in the last place, tails included.
//!
//! The reference backend and the CPU take the functions from here, the latter for f32 too. Nothing here may allocate
//! in common cases, panic or loop without a bound, whatever the argument. The values are held against mpmath in
//! `tests/`, and against SciPy and torch by the cases of the ops.

pub mod bessel;
pub mod erf;
pub mod gamma;
pub mod normal;

use lanthorn_ir::expr::{BinaryOp, UnaryOp};

/// The function of one number that `op` names, of those that are rarely used and need no vector loop of their own;
/// `None` for any other.
pub fn unary(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Sinh => f64::sinh,
        UnaryOp::Cosh => f64::cosh,
        UnaryOp::Asin => f64::asin,
        UnaryOp::Acos => f64::acos,
        UnaryOp::Atan => f64::atan,
        // Those of `std` cancel near 0 and 1 or overflow early.
        UnaryOp::Asinh => libm::asinh,
        UnaryOp::Acosh => libm::acosh,
        UnaryOp::Atanh => libm::atanh,
        UnaryOp::Softplus => softplus,
        UnaryOp::Erfc => libm::erfc,
        UnaryOp::Erfcx => erf::erfcx,
        UnaryOp::LogErfcx => erf::log_erfcx,
        UnaryOp::Erfinv => erf::erfinv,
        UnaryOp::Erfcinv => erf::erfcinv,
        UnaryOp::Ndtr => normal::ndtr,
        UnaryOp::LogNdtr => normal::log_ndtr,
        UnaryOp::Ndtri => normal::ndtri,
        UnaryOp::NdtriExp => normal::ndtri_exp,
        UnaryOp::Lgamma => gamma::lgamma,
        UnaryOp::Digamma => gamma::digamma,
        UnaryOp::BesselI0 => bessel::i0,
        UnaryOp::BesselI0e => bessel::i0e,
        UnaryOp::BesselI1 => bessel::i1,
        UnaryOp::BesselI1e => bessel::i1e,
        UnaryOp::Neg
        | UnaryOp::Abs
        | UnaryOp::Sign
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Round
        | UnaryOp::Trunc
        | UnaryOp::Exp
        | UnaryOp::Expm1
        | UnaryOp::Log
        | UnaryOp::Log1p
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Recip
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh
        | UnaryOp::Sigmoid
        | UnaryOp::Erf
        | UnaryOp::Relu
        | UnaryOp::Gelu
        | UnaryOp::GeluTanh
        | UnaryOp::Silu
        | UnaryOp::Not
        | UnaryOp::IsFinite
        | UnaryOp::BitNot => return None,
    })
}

/// The function of two numbers that `op` names; see [`unary`].
pub fn binary(op: BinaryOp) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        BinaryOp::Atan2 => f64::atan2,
        BinaryOp::Hypot => hypot,
        BinaryOp::CopySign => f64::copysign,
        BinaryOp::Polygamma => gamma::polygamma,
        BinaryOp::ErfcIntegral => erf::erfc_integral,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Pow
        | BinaryOp::Max
        | BinaryOp::Min
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRight => return None,
    })
}

/// `log(1 + e^x)`.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `sqrt(x^2 + y^2)` without overflow; infinite where either operand is.
fn hypot(x: f64, y: f64) -> f64 {
    x.hypot(y)
}
