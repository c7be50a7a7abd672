//! The scalar functions, on single elements at full width.

use lanthorn_ir::expr::{BinaryOp, UnaryOp};

use crate::tensor::Number;

/// `op(x)`.
pub fn unary(op: UnaryOp, x: Number) -> Number {
    match (op, x) {
        (UnaryOp::Not, x) => Number::Bool(!x.bool()),
        (UnaryOp::IsFinite, x) => Number::Bool(x.float().is_finite()),
        (UnaryOp::Neg, Number::Int(v)) => Number::Int(-v),
        (UnaryOp::Abs, Number::Int(v)) => Number::Int(v.abs()),
        (UnaryOp::Sign, Number::Int(v)) => Number::Int(v.signum()),
        (UnaryOp::Relu, Number::Int(v)) => Number::Int(v.max(0)),
        (UnaryOp::BitNot, x) => Number::Int(!x.int()),
        (op, x) => Number::Float(float_unary(op, x.float())),
    }
}

fn float_unary(op: UnaryOp, x: f64) -> f64 {
    use std::f64::consts::{FRAC_1_SQRT_2, PI};
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sign if x == 0.0 => 0.0,
        UnaryOp::Sign => x.signum(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Expm1 => x.exp_m1(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log1p => x.ln_1p(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Recip => 1.0 / x,
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sigmoid => sigmoid(x),
        UnaryOp::Erf => libm::erf(x),
        // Not `max`, which would lose NaN.
        UnaryOp::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        UnaryOp::Gelu => 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2),
        UnaryOp::GeluTanh => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
        UnaryOp::Silu => x * sigmoid(x),
        other => lanthorn_special::unary(other).map_or(f64::NAN, |f| f(x)),
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `op(x, y)` on operands of one kind.
pub fn binary(op: BinaryOp, x: Number, y: Number) -> Number {
    match op {
        BinaryOp::And => return Number::Bool(x.bool() && y.bool()),
        BinaryOp::Or => return Number::Bool(x.bool() || y.bool()),
        _ => {}
    }
    match (x, y) {
        (Number::Float(x), Number::Float(y)) => float_binary(op, x, y),
        (x, y) => int_binary(op, x.int(), y.int()),
    }
}

fn float_binary(op: BinaryOp, x: f64, y: f64) -> Number {
    let either_nan = x.is_nan() || y.is_nan();
    Number::Float(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Pow => x.powf(y),
        BinaryOp::Max | BinaryOp::Min if either_nan => f64::NAN,
        BinaryOp::Max => x.max(y),
        BinaryOp::Min => x.min(y),
        other => match lanthorn_special::binary(other) {
            Some(f) => f(x, y),
            None => return Number::Bool(compare(op, x.partial_cmp(&y))),
        },
    })
}

fn int_binary(op: BinaryOp, x: i128, y: i128) -> Number {
    Number::Int(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div => x.checked_div(y).unwrap_or(0),
        BinaryOp::Rem => x.checked_rem(y).unwrap_or(0),
        BinaryOp::Pow => int_power(x, y),
        BinaryOp::Max => x.max(y),
        BinaryOp::Min => x.min(y),
        BinaryOp::BitAnd => x & y,
        BinaryOp::BitOr => x | y,
        BinaryOp::BitXor => x ^ y,
        // No integer type is wider than 64 bits; the result is wrapped to its type.
        BinaryOp::ShiftLeft => {
            if (0..64).contains(&y) {
                x.wrapping_shl(y as u32)
            } else {
                0
            }
        }
        BinaryOp::ShiftRight => x >> if (0..64).contains(&y) { y } else { 127 },
        _ => return Number::Bool(compare(op, Some(x.cmp(&y)))),
    })
}

/// Wraps; a negative exponent gives the truncated quotient.
fn int_power(base: i128, exponent: i128) -> i128 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, e) => 1 - 2 * (e & 1),
        (_, e) if e < 0 => 0,
        (base, e) => {
            let (mut power, mut square, mut left) = (1i128, base, e);
            while left > 0 {
                if left & 1 == 1 {
                    power = power.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                left >>= 1;
            }
            power
        }
    }
}

fn compare(op: BinaryOp, order: Option<std::cmp::Ordering>) -> bool {
    match op {
        BinaryOp::Eq => order.is_some_and(|o| o.is_eq()),
        BinaryOp::Ne => !order.is_some_and(|o| o.is_eq()),
        BinaryOp::Lt => order.is_some_and(|o| o.is_lt()),
        BinaryOp::Le => order.is_some_and(|o| o.is_le()),
        BinaryOp::Gt => order.is_some_and(|o| o.is_gt()),
        BinaryOp::Ge => order.is_some_and(|o| o.is_ge()),
        _ => false,
    }
}
