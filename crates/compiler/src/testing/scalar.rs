//! One element at full width, and what each step does to it.

use half::{bf16, f16};
use lanthorn_ir::DType;
use lanthorn_ir::expr::{BinaryOp, KernelExpr, Scalar, Step, UnaryOp};
use lanthorn_ir::prim::ReduceOp;

/// A float (also one of lower precision) or an integer (also `bool`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    F(f64),
    I(i64),
}

impl Number {
    pub fn f(self) -> f64 {
        match self {
            Number::F(x) => x,
            Number::I(x) => x as f64,
        }
    }

    pub fn i(self) -> i64 {
        match self {
            Number::F(x) => x as i64,
            Number::I(x) => x,
        }
    }

    pub fn of(scalar: Scalar, dtype: DType) -> Number {
        match dtype.is_float() {
            true => Number::F(scalar.as_f64()),
            false => Number::I(scalar.as_i64()),
        }
    }

    /// The number as an element of `dtype` would hold it.
    pub fn narrow(self, dtype: DType) -> Number {
        let mut bytes = [0; 16];
        encode(self, dtype, &mut bytes);
        decode(dtype, &bytes)
    }
}

pub fn decode(dtype: DType, bytes: &[u8]) -> Number {
    let take = |n: usize| {
        let mut word = [0u8; 8];
        word[..n].copy_from_slice(&bytes[..n]);
        u64::from_le_bytes(word)
    };
    match dtype {
        DType::Bool | DType::U8 => Number::I(take(1) as i64),
        DType::I32 => Number::I(take(4) as u32 as i32 as i64),
        DType::I64 | DType::U64 => Number::I(take(8) as i64),
        DType::F16 => Number::F(f16::from_bits(take(2) as u16).to_f64()),
        DType::BF16 => Number::F(bf16::from_bits(take(2) as u16).to_f64()),
        DType::F32 => Number::F(f32::from_bits(take(4) as u32) as f64),
        DType::F64 => Number::F(f64::from_bits(take(8))),
        other => unimplemented!("{other}"),
    }
}

pub fn encode(value: Number, dtype: DType, bytes: &mut [u8]) {
    match dtype {
        DType::Bool => bytes[0] = (value.i() != 0) as u8,
        DType::U8 => bytes[0] = value.i() as u8,
        DType::I32 => bytes[..4].copy_from_slice(&(value.i() as i32).to_le_bytes()),
        DType::I64 | DType::U64 => bytes[..8].copy_from_slice(&value.i().to_le_bytes()),
        DType::F16 => bytes[..2].copy_from_slice(&f16::from_f32(value.f() as f32).to_le_bytes()),
        DType::BF16 => bytes[..2].copy_from_slice(&bf16::from_f32(value.f() as f32).to_le_bytes()),
        DType::F32 => bytes[..4].copy_from_slice(&(value.f() as f32).to_le_bytes()),
        DType::F64 => bytes[..8].copy_from_slice(&value.f().to_le_bytes()),
        other => unimplemented!("{other}"),
    }
}

/// All steps of an expression for one element.
pub fn evaluate(expr: &KernelExpr, load: impl Fn(u32) -> Number) -> Vec<Number> {
    let mut values: Vec<Number> = Vec::with_capacity(expr.steps.len());
    for (step, &dtype) in expr.steps.iter().zip(&expr.dtypes) {
        let at = |step: u32| values[step as usize];
        values.push(match *step {
            Step::Load(input) => load(input),
            Step::Const(scalar) => Number::of(scalar, dtype),
            Step::Unary(op, a) => unary(op, at(a)),
            Step::Binary(op, a, b) => binary(op, at(a), at(b)),
            Step::Select(c, a, b) => {
                if at(c).i() != 0 {
                    at(a)
                } else {
                    at(b)
                }
            }
            Step::Round(a, to) => Number::F(to.round(at(a).f())),
            Step::Cast(a) => match dtype {
                DType::Bool => Number::I((at(a).f() != 0.0) as i64),
                _ if dtype.is_float() => Number::F(at(a).f()),
                _ => Number::I(at(a).i()),
            },
        });
    }
    values
}

fn unary(op: UnaryOp, x: Number) -> Number {
    if let (Number::I(x), true) = (x, op.takes_ints() || op == UnaryOp::Not) {
        return Number::I(match op {
            UnaryOp::Neg => x.wrapping_neg(),
            UnaryOp::Abs => x.wrapping_abs(),
            UnaryOp::Sign => x.signum(),
            UnaryOp::Relu => x.max(0),
            _ => (x == 0) as i64,
        });
    }
    let x = x.f();
    Number::F(match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sign if x == 0.0 || x.is_nan() => x,
        UnaryOp::Sign => x.signum(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Recip => 1.0 / x,
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryOp::Relu => {
            if x > 0.0 || x.is_nan() {
                x
            } else {
                0.0
            }
        }
        UnaryOp::Gelu | UnaryOp::GeluTanh => {
            0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh())
        }
        UnaryOp::IsFinite => return Number::I(x.is_finite() as i64),
        other => unimplemented!("{other:?}"),
    })
}

fn binary(op: BinaryOp, x: Number, y: Number) -> Number {
    let truth = |holds: bool| Number::I(holds as i64);
    match (op, x, y) {
        (BinaryOp::And, ..) => return truth(x.i() != 0 && y.i() != 0),
        (BinaryOp::Or, ..) => return truth(x.i() != 0 || y.i() != 0),
        (BinaryOp::Eq, ..) => return truth(x == y),
        (BinaryOp::Ne, ..) => return truth(x != y),
        (BinaryOp::Lt, ..) => return truth(x.f() < y.f()),
        (BinaryOp::Le, ..) => return truth(x.f() <= y.f()),
        (BinaryOp::Gt, ..) => return truth(x.f() > y.f()),
        (BinaryOp::Ge, ..) => return truth(x.f() >= y.f()),
        (_, Number::I(x), Number::I(y)) => {
            return Number::I(match op {
                BinaryOp::Add => x.wrapping_add(y),
                BinaryOp::Sub => x.wrapping_sub(y),
                BinaryOp::Mul => x.wrapping_mul(y),
                BinaryOp::Div => x.checked_div(y).unwrap_or(0),
                BinaryOp::Rem => x.checked_rem(y).unwrap_or(0),
                BinaryOp::Max => x.max(y),
                BinaryOp::Min => x.min(y),
                other => unimplemented!("{other:?}"),
            });
        }
        _ => {}
    }
    let (x, y) = (x.f(), y.f());
    Number::F(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Pow => x.powf(y),
        _ if x.is_nan() || y.is_nan() => f64::NAN,
        BinaryOp::Max => x.max(y),
        _ => x.min(y),
    })
}

pub fn combine(op: ReduceOp, x: Number, y: Number) -> Number {
    let op = match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    };
    binary(op, x, y)
}

pub fn neutral(op: ReduceOp, dtype: DType) -> Option<Number> {
    match op {
        ReduceOp::Sum => Some(Number::of(Scalar::Int(0), dtype)),
        ReduceOp::Prod => Some(Number::of(Scalar::Int(1), dtype)),
        ReduceOp::Max | ReduceOp::Min => None,
    }
}
