//! Scalar expressions: what one element of a fused region computes.
//!
//! A [`KernelExpr`] is a list of steps in order of evaluation; a step refers only to earlier ones. Every
//! pointwise primitive gives its `body` as such steps, fusion concatenates bodies, and each backend either
//! interprets the list over tiles or writes it out as shader text.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::float8::{F8E4M3, F8E5M2};

/// The index of a step in its expression.
pub type StepId = u32;

/// A 64-bit float that compares and hashes by its bits, for attributes that are structure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct F64(pub f64);

impl PartialEq for F64 {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for F64 {}
impl std::hash::Hash for F64 {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

fn is_negative_zero(value: f64) -> bool {
    value == 0.0 && value.is_sign_negative()
}

/// A structural scalar, kept at full width until an element type is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scalar {
    Float(F64),
    Int(i64),
    Bool(bool),
}

impl Scalar {
    /// A floating-point scalar.
    pub fn float(value: f64) -> Self {
        Scalar::Float(F64(value))
    }

    /// The value as f64.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(F64(v)) => v,
            Scalar::Int(v) => v as f64,
            Scalar::Bool(v) => v as u8 as f64,
        }
    }

    /// The value as i64 (floats truncate towards zero).
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Float(F64(v)) => v as i64,
            Scalar::Int(v) => v,
            Scalar::Bool(v) => v as i64,
        }
    }

    /// True for the numbers that are part of a program's structure wherever a front end passes one. Any other is
    /// an argument, so that a decayed rate makes no new program. -0 is another number than 0.
    pub fn is_structural(self) -> bool {
        let value = self.as_f64();
        [0.0, 1.0, -1.0, 2.0, 0.5].contains(&value) && !is_negative_zero(value)
    }

    /// True for 0, and not for -0.
    pub fn is_plain_zero(self) -> bool {
        let value = self.as_f64();
        value == 0.0 && !is_negative_zero(value)
    }

    /// The number as a scalar of `dtype`: of an integer dtype, a whole number that it holds. Floats round, and any
    /// number but 0 is a true `bool`. (A cast of a tensor refuses nothing: see
    /// [`Elementwise::Cast`](crate::prim::Elementwise::Cast).)
    ///
    /// Errors: for an integer dtype, a fraction, NaN, an infinity, or a number out of its range.
    pub fn fit(self, op: &str, dtype: DType) -> Result<Scalar> {
        if !dtype.is_int() {
            return Ok(self);
        }
        let refused = |what: String| Err(Error::dtype(op, what));
        match self {
            Scalar::Float(F64(v)) if v.is_finite() && v.fract() != 0.0 => {
                refused(format!("the scalar {v} is not a whole number but the operand is {dtype}; cast it"))
            }
            // The upper half of u64 has no i64.
            Scalar::Float(F64(v)) if dtype == DType::U64 && v >= 2f64.powi(63) && v < 2f64.powi(64) => {
                Ok(self)
            }
            Scalar::Float(F64(v))
                if v.abs() <= 2f64.powi(63) && dtype.holds(v as i64) && v < 2f64.powi(63) =>
            {
                Ok(Scalar::Int(v as i64))
            }
            Scalar::Float(F64(v)) => refused(format!("the scalar {v} does not fit {dtype}")),
            other if dtype.holds(other.as_i64()) => Ok(Scalar::Int(other.as_i64())),
            other => refused(format!("the scalar {} does not fit {dtype}", other.as_i64())),
        }
    }

    /// The bytes of one element in the machine's byte order, of which the first `dtype.size()` count: a float is
    /// rounded to `dtype`, a whole number wrapped to it.
    pub fn to_bytes(self, dtype: DType) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut put = |source: &[u8]| bytes[..source.len()].copy_from_slice(source);
        let float = self.as_f64();
        let single = float as f32;
        macro_rules! whole {
            ($element:ty) => {
                put(&match self {
                    Scalar::Float(v) => (v.0 as $element).to_ne_bytes(),
                    other => (other.as_i64() as $element).to_ne_bytes(),
                })
            };
        }
        match dtype {
            DType::Bool => put(&[(float != 0.0) as u8]),
            DType::U8 => whole!(u8),
            DType::U16 => whole!(u16),
            DType::U32 => whole!(u32),
            DType::U64 => whole!(u64),
            DType::I8 => whole!(i8),
            DType::I16 => whole!(i16),
            DType::I32 => whole!(i32),
            DType::I64 => whole!(i64),
            DType::F16 => put(&half::f16::from_f32(single).to_ne_bytes()),
            DType::BF16 => put(&half::bf16::from_f32(single).to_ne_bytes()),
            DType::F32 => put(&single.to_ne_bytes()),
            DType::F64 => put(&float.to_ne_bytes()),
            DType::F8E4M3 => put(&[F8E4M3::from_f32(single).0]),
            DType::F8E5M2 => put(&[F8E5M2::from_f32(single).0]),
            // A real number: the imaginary part stays 0.
            DType::C64 => put(&single.to_ne_bytes()),
            DType::C128 => put(&float.to_ne_bytes()),
        }
        bytes
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Scalar::float(value)
    }
}
impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::Int(value)
    }
}
impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::Bool(value)
    }
}

/// A function of one scalar. `Round` rounds half to even; `Sign(0) = 0`; NaN propagates everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UnaryOp {
    Neg,
    Abs,
    Sign,
    Floor,
    Ceil,
    Round,
    Trunc,
    Exp,
    Expm1,
    Log,
    Log1p,
    Sqrt,
    Rsqrt,
    Recip,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Erf,
    Relu,
    /// `x * Phi(x)` with the exact normal distribution function.
    Gelu,
    /// The tanh approximation of GELU.
    GeluTanh,
    Silu,
    /// Logical not, of `bool`.
    Not,
    /// True where the value is neither NaN nor infinite.
    IsFinite,
    Sinh,
    Cosh,
    Asin,
    Acos,
    Atan,
    Asinh,
    Acosh,
    Atanh,
    /// `log(1 + e^x)`.
    Softplus,
    /// `1 - erf(x)`.
    Erfc,
    /// `e^(x^2) erfc(x)`.
    Erfcx,
    /// `log(e^(x^2) erfc(x))`.
    LogErfcx,
    /// The inverse of `erf`.
    Erfinv,
    /// The inverse of `erfc`.
    Erfcinv,
    /// The standard normal distribution function.
    Ndtr,
    /// Its logarithm.
    LogNdtr,
    /// Its inverse.
    Ndtri,
    /// The inverse of its logarithm.
    NdtriExp,
    /// `log |Gamma(x)|`.
    Lgamma,
    /// The derivative of `Lgamma`.
    Digamma,
    /// Modified Bessel functions of the first kind, of order 0 and 1; `e` for those times `e^-|x|`.
    BesselI0,
    BesselI0e,
    BesselI1,
    BesselI1e,
    /// All bits inverted, of integers.
    BitNot,
}

impl UnaryOp {
    /// Every unary function.
    pub const ALL: [UnaryOp; 50] = [
        UnaryOp::Neg,
        UnaryOp::Abs,
        UnaryOp::Sign,
        UnaryOp::Floor,
        UnaryOp::Ceil,
        UnaryOp::Round,
        UnaryOp::Trunc,
        UnaryOp::Exp,
        UnaryOp::Expm1,
        UnaryOp::Log,
        UnaryOp::Log1p,
        UnaryOp::Sqrt,
        UnaryOp::Rsqrt,
        UnaryOp::Recip,
        UnaryOp::Sin,
        UnaryOp::Cos,
        UnaryOp::Tanh,
        UnaryOp::Sigmoid,
        UnaryOp::Erf,
        UnaryOp::Relu,
        UnaryOp::Gelu,
        UnaryOp::GeluTanh,
        UnaryOp::Silu,
        UnaryOp::Not,
        UnaryOp::IsFinite,
        UnaryOp::Sinh,
        UnaryOp::Cosh,
        UnaryOp::Asin,
        UnaryOp::Acos,
        UnaryOp::Atan,
        UnaryOp::Asinh,
        UnaryOp::Acosh,
        UnaryOp::Atanh,
        UnaryOp::Softplus,
        UnaryOp::Erfc,
        UnaryOp::Erfcx,
        UnaryOp::LogErfcx,
        UnaryOp::Erfinv,
        UnaryOp::Erfcinv,
        UnaryOp::Ndtr,
        UnaryOp::LogNdtr,
        UnaryOp::Ndtri,
        UnaryOp::NdtriExp,
        UnaryOp::Lgamma,
        UnaryOp::Digamma,
        UnaryOp::BesselI0,
        UnaryOp::BesselI0e,
        UnaryOp::BesselI1,
        UnaryOp::BesselI1e,
        UnaryOp::BitNot,
    ];

    /// The op's name.
    pub const fn name(self) -> &'static str {
        match self {
            UnaryOp::Neg => "neg",
            UnaryOp::Abs => "abs",
            UnaryOp::Sign => "sign",
            UnaryOp::Floor => "floor",
            UnaryOp::Ceil => "ceil",
            UnaryOp::Round => "round",
            UnaryOp::Trunc => "trunc",
            UnaryOp::Exp => "exp",
            UnaryOp::Expm1 => "expm1",
            UnaryOp::Log => "log",
            UnaryOp::Log1p => "log1p",
            UnaryOp::Sqrt => "sqrt",
            UnaryOp::Rsqrt => "rsqrt",
            UnaryOp::Recip => "reciprocal",
            UnaryOp::Sin => "sin",
            UnaryOp::Cos => "cos",
            UnaryOp::Tanh => "tanh",
            UnaryOp::Sigmoid => "sigmoid",
            UnaryOp::Erf => "erf",
            UnaryOp::Relu => "relu",
            UnaryOp::Gelu => "gelu",
            UnaryOp::GeluTanh => "gelu_tanh",
            UnaryOp::Silu => "silu",
            UnaryOp::Not => "logical_not",
            UnaryOp::IsFinite => "isfinite",
            UnaryOp::Sinh => "sinh",
            UnaryOp::Cosh => "cosh",
            UnaryOp::Asin => "asin",
            UnaryOp::Acos => "acos",
            UnaryOp::Atan => "atan",
            UnaryOp::Asinh => "asinh",
            UnaryOp::Acosh => "acosh",
            UnaryOp::Atanh => "atanh",
            UnaryOp::Softplus => "softplus",
            UnaryOp::Erfc => "erfc",
            UnaryOp::Erfcx => "erfcx",
            UnaryOp::LogErfcx => "log_erfcx",
            UnaryOp::Erfinv => "erfinv",
            UnaryOp::Erfcinv => "erfcinv",
            UnaryOp::Ndtr => "ndtr",
            UnaryOp::LogNdtr => "log_ndtr",
            UnaryOp::Ndtri => "ndtri",
            UnaryOp::NdtriExp => "ndtri_exp",
            UnaryOp::Lgamma => "lgamma",
            UnaryOp::Digamma => "digamma",
            UnaryOp::BesselI0 => "i0",
            UnaryOp::BesselI0e => "i0e",
            UnaryOp::BesselI1 => "i1",
            UnaryOp::BesselI1e => "i1e",
            UnaryOp::BitNot => "bitwise_not",
        }
    }

    /// True if the function is defined on integers too.
    pub const fn takes_ints(self) -> bool {
        matches!(self, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Relu | UnaryOp::BitNot)
    }
}

/// A function of two scalars. `Max` and `Min` propagate NaN; integer `Div` truncates towards zero and
/// `Rem` takes the dividend's sign (float `Rem` too); integer division by zero gives 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    Max,
    Min,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    /// The angle of the point `(y, x)`, of floats; the operands come in that order.
    Atan2,
    /// `sqrt(x^2 + y^2)` without overflow, of floats.
    Hypot,
    /// The size of the first with the sign of the second, of floats.
    CopySign,
    /// The derivative of digamma of order `x` at `y`, of floats; the order is a whole number, in which nothing is differentiated.
    Polygamma,
    /// `e^(y^2)` times the `x`-fold repeated integral of `erfc` at `y`, of floats; the order as in `Polygamma`.
    ErfcIntegral,
    /// Bit by bit, of integers.
    BitAnd,
    BitOr,
    BitXor,
    /// Of integers. A shift by less than 0 or by the width or more gives 0.
    ShiftLeft,
    /// Of integers, with copies of the sign bit. A shift by less than 0 or by the width or more leaves only those.
    ShiftRight,
}

impl BinaryOp {
    /// Every binary function.
    pub const ALL: [BinaryOp; 26] = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Rem,
        BinaryOp::Pow,
        BinaryOp::Max,
        BinaryOp::Min,
        BinaryOp::Eq,
        BinaryOp::Ne,
        BinaryOp::Lt,
        BinaryOp::Le,
        BinaryOp::Gt,
        BinaryOp::Ge,
        BinaryOp::And,
        BinaryOp::Or,
        BinaryOp::Atan2,
        BinaryOp::Hypot,
        BinaryOp::CopySign,
        BinaryOp::Polygamma,
        BinaryOp::ErfcIntegral,
        BinaryOp::BitAnd,
        BinaryOp::BitOr,
        BinaryOp::BitXor,
        BinaryOp::ShiftLeft,
        BinaryOp::ShiftRight,
    ];

    /// The op's name.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "add",
            BinaryOp::Sub => "sub",
            BinaryOp::Mul => "mul",
            BinaryOp::Div => "div",
            BinaryOp::Rem => "rem",
            BinaryOp::Pow => "pow",
            BinaryOp::Max => "maximum",
            BinaryOp::Min => "minimum",
            BinaryOp::Eq => "eq",
            BinaryOp::Ne => "ne",
            BinaryOp::Lt => "lt",
            BinaryOp::Le => "le",
            BinaryOp::Gt => "gt",
            BinaryOp::Ge => "ge",
            BinaryOp::And => "logical_and",
            BinaryOp::Or => "logical_or",
            BinaryOp::Atan2 => "atan2",
            BinaryOp::Hypot => "hypot",
            BinaryOp::CopySign => "copysign",
            BinaryOp::Polygamma => "polygamma",
            BinaryOp::ErfcIntegral => "erfc_integral",
            BinaryOp::BitAnd => "bitwise_and",
            BinaryOp::BitOr => "bitwise_or",
            BinaryOp::BitXor => "bitwise_xor",
            BinaryOp::ShiftLeft => "shift_left",
            BinaryOp::ShiftRight => "shift_right",
        }
    }

    /// True if the result is `bool` whatever the operands.
    pub const fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
        )
    }

    /// True if the operands must be integers.
    pub const fn is_bitwise(self) -> bool {
        matches!(
            self,
            BinaryOp::BitAnd
                | BinaryOp::BitOr
                | BinaryOp::BitXor
                | BinaryOp::ShiftLeft
                | BinaryOp::ShiftRight
        )
    }

    /// True if the operands must be floats.
    pub const fn is_of_floats(self) -> bool {
        matches!(
            self,
            BinaryOp::Atan2
                | BinaryOp::Hypot
                | BinaryOp::CopySign
                | BinaryOp::Polygamma
                | BinaryOp::ErfcIntegral
        )
    }

    /// True if the operands must be `bool`.
    pub const fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }
}

/// One step of a scalar expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Step {
    /// The element of that operand.
    Load(u32),
    /// A structural constant.
    Const(Scalar),
    Unary(UnaryOp, StepId),
    Binary(BinaryOp, StepId, StepId),
    /// `condition ? then : otherwise`.
    Select(StepId, StepId, StepId),
    /// Conversion to the step's dtype.
    Cast(StepId),
    /// The f32 rounded to that half or f8 dtype, held in f32 again.
    Round(StepId, DType),
}

impl Step {
    /// The steps that this one reads.
    pub fn reads(&self) -> SmallVec<[StepId; 3]> {
        match *self {
            Step::Load(_) | Step::Const(_) => SmallVec::new(),
            Step::Unary(_, a) | Step::Cast(a) | Step::Round(a, _) => SmallVec::from_slice(&[a]),
            Step::Binary(_, a, b) => SmallVec::from_slice(&[a, b]),
            Step::Select(c, a, b) => SmallVec::from_slice(&[c, a, b]),
        }
    }

    /// The same step with every read mapped.
    pub fn map_reads(&self, map: impl Fn(StepId) -> StepId) -> Step {
        match *self {
            Step::Load(_) | Step::Const(_) => *self,
            Step::Unary(op, a) => Step::Unary(op, map(a)),
            Step::Cast(a) => Step::Cast(map(a)),
            Step::Round(a, dtype) => Step::Round(map(a), dtype),
            Step::Binary(op, a, b) => Step::Binary(op, map(a), map(b)),
            Step::Select(c, a, b) => Step::Select(map(c), map(a), map(b)),
        }
    }
}

/// Steps with the type each computes in. Half and f8 values are held in their wide type
/// ([`DType::wide`]): a load widens, an output narrows, and between them only a cast that the program asks for
/// rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelExpr {
    pub steps: Vec<Step>,
    /// The wide dtype of each step.
    pub dtypes: Vec<DType>,
}

impl KernelExpr {
    /// Adds a step (or finds the equal one) and returns its id. Linear search over the last steps keeps
    /// this cheap; full value numbering is the graph's job.
    pub fn push(&mut self, step: Step, dtype: DType) -> StepId {
        let dtype = dtype.wide();
        let recent = self.steps.len().saturating_sub(32);
        for at in (recent..self.steps.len()).rev() {
            if self.steps[at] == step && self.dtypes[at] == dtype {
                return at as StepId;
            }
        }
        self.steps.push(step);
        self.dtypes.push(dtype);
        (self.steps.len() - 1) as StepId
    }

    /// The wide dtype of a step.
    pub fn dtype(&self, step: StepId) -> DType {
        self.dtypes[step as usize]
    }

    /// A constant of `dtype`, rounded to it.
    pub fn constant(&mut self, value: Scalar, dtype: DType) -> StepId {
        let value = if dtype.wide() == dtype { value } else { Scalar::float(dtype.round(value.as_f64())) };
        self.push(Step::Const(value), dtype)
    }

    /// `op(a)` in the operand's type (`bool` for `IsFinite`).
    pub fn unary(&mut self, op: UnaryOp, a: StepId) -> StepId {
        let dtype = if op == UnaryOp::IsFinite { DType::Bool } else { self.dtype(a) };
        self.push(Step::Unary(op, a), dtype)
    }

    /// `op(a, b)` in the operands' type (`bool` for comparisons).
    pub fn binary(&mut self, op: BinaryOp, a: StepId, b: StepId) -> StepId {
        let dtype = if op.is_comparison() { DType::Bool } else { self.dtype(a) };
        self.push(Step::Binary(op, a, b), dtype)
    }

    /// `condition ? then : otherwise`.
    pub fn select(&mut self, condition: StepId, then: StepId, otherwise: StepId) -> StepId {
        let dtype = self.dtype(then);
        self.push(Step::Select(condition, then, otherwise), dtype)
    }

    /// `a` cast to `dtype`, as a program asks for it: rounded to a half or f8 dtype.
    pub fn cast(&mut self, a: StepId, dtype: DType) -> StepId {
        let from = self.dtype(a);
        let wide = self.widen(a, dtype);
        let is_rounded = matches!(self.steps[wide as usize], Step::Round(_, to) if to == dtype);
        if dtype.wide() == dtype || from == DType::Bool || is_rounded {
            return wide;
        }
        self.push(Step::Round(wide, dtype), dtype)
    }

    /// `a` in the wide type of `dtype`, for a result that its store will round.
    pub fn widen(&mut self, a: StepId, dtype: DType) -> StepId {
        if self.dtype(a) == dtype.wide() {
            return a;
        }
        self.push(Step::Cast(a), dtype)
    }
}
