//! Scalar expressions as WGSL: one `let` for each step.

use lanthorn_compiler::kernel::{Fold, Phase};
use lanthorn_ir::expr::{BinaryOp, KernelExpr, Scalar, Step, UnaryOp};
use lanthorn_ir::{DType, Error, Result};

use super::functions::Function;
use super::writer::{Writer, refused, value_type};

/// The steps that a phase's stores and folds need.
pub(crate) fn live(phase: &Phase, folds: &[Fold]) -> Vec<bool> {
    let mut live = vec![false; phase.expr.steps.len()];
    for step in phase.stores.iter().map(|store| store.step).chain(folds.iter().map(|fold| fold.step)) {
        live[step as usize] = true;
    }
    for at in (0..live.len()).rev() {
        if live[at] {
            for read in phase.expr.steps[at].reads() {
                live[read as usize] = true;
            }
        }
    }
    live
}

/// Writes the live steps as `{prefix}{step}`. `load` gives the text of an input or of an accumulator.
pub(crate) fn steps(
    writer: &mut Writer<'_>,
    expr: &KernelExpr,
    live: &[bool],
    prefix: &str,
    load: &mut dyn FnMut(&mut Writer<'_>, u32) -> Result<String>,
) -> Result<()> {
    for (at, step) in expr.steps.iter().enumerate().filter(|(at, _)| live[*at]) {
        let dtype = expr.dtypes[at];
        let ty = value_type(dtype).ok_or_else(|| refused(dtype))?;
        let name = |step: u32| format!("{prefix}{step}");
        let value = match *step {
            Step::Load(source) => load(writer, source)?,
            Step::Const(value) => constant(writer, value, dtype)?,
            Step::Unary(op, a) => unary(writer, op, expr.dtype(a), &name(a))?,
            Step::Binary(op, a, b) => binary(writer, op, expr.dtype(a), &name(a), &name(b))?,
            Step::Select(c, a, b) => format!("select({}, {}, {})", name(b), name(a), name(c)),
            Step::Cast(a) => cast(writer, expr.dtype(a), dtype, &name(a))?,
            // No half or f8 operand comes here, but a cast to one and back does.
            Step::Round(_, to) => return Err(refused(to)),
        };
        writer.line(format!("let {prefix}{at}: {ty} = {value};"));
    }
    Ok(())
}

/// A constant as text. What WGSL refuses in a constant (NaN, infinities) comes as a parameter.
pub(crate) fn constant(writer: &mut Writer<'_>, value: Scalar, dtype: DType) -> Result<String> {
    Ok(match dtype {
        DType::Bool => (value.as_f64() != 0.0).to_string(),
        DType::F32 => {
            let value = match value {
                Scalar::Int(v) => v as f32,
                other => other.as_f64() as f32,
            };
            if !value.is_finite() {
                let bits = value.to_bits();
                let field = writer.field(format!("bits_{bits:08x}"), bits);
                return Ok(format!("bitcast<f32>({field})"));
            }
            format!("{value:?}f")
        }
        DType::I32 => {
            let value = match value {
                Scalar::Float(v) => v.0 as i32,
                other => other.as_i64() as i32,
            };
            // The least number is no literal.
            if value == i32::MIN { "(-2147483647i - 1i)".to_string() } else { format!("{value}i") }
        }
        DType::U32 => match value {
            Scalar::Float(v) => format!("{}u", v.0 as u32),
            other => format!("{}u", other.as_i64() as u32),
        },
        other => return Err(refused(other)),
    })
}

fn unary(w: &mut Writer<'_>, op: UnaryOp, dtype: DType, x: &str) -> Result<String> {
    let function = match (op, dtype) {
        (UnaryOp::Not, DType::Bool) => return Ok(format!("!{x}")),
        (UnaryOp::IsFinite, DType::F32) => Function::IsFinite,
        (UnaryOp::IsFinite, _) => return Ok("true".to_string()),
        (UnaryOp::Neg, DType::U32) => return Ok(format!("0u - {x}")),
        (UnaryOp::Neg, _) => return Ok(format!("-{x}")),
        (UnaryOp::Abs, _) => return Ok(format!("abs({x})")),
        (UnaryOp::Sign, DType::U32) => return Ok(format!("min({x}, 1u)")),
        (UnaryOp::Sign, DType::I32) => return Ok(format!("sign({x})")),
        (UnaryOp::Relu, DType::U32) => return Ok(x.to_string()),
        (UnaryOp::Relu, DType::I32) => return Ok(format!("max({x}, 0i)")),
        // Not `max`, which may lose NaN.
        (UnaryOp::Relu, DType::F32) => return Ok(format!("select({x}, 0.0f, {x} < 0.0f)")),
        (UnaryOp::Sign, DType::F32) => Function::Sign,
        (UnaryOp::Floor, DType::F32) => return Ok(format!("floor({x})")),
        (UnaryOp::Ceil, DType::F32) => return Ok(format!("ceil({x})")),
        (UnaryOp::Round, DType::F32) => return Ok(format!("round({x})")),
        (UnaryOp::Trunc, DType::F32) => return Ok(format!("trunc({x})")),
        (UnaryOp::Sqrt, DType::F32) => return Ok(format!("sqrt({x})")),
        (UnaryOp::Rsqrt, DType::F32) => return Ok(format!("1.0f / sqrt({x})")),
        (UnaryOp::Recip, DType::F32) => return Ok(format!("1.0f / {x}")),
        (UnaryOp::Exp, DType::F32) => Function::Exp,
        (UnaryOp::Expm1, DType::F32) => Function::Expm1,
        (UnaryOp::Log, DType::F32) => Function::Log,
        (UnaryOp::Log1p, DType::F32) => Function::Log1p,
        (UnaryOp::Sin, DType::F32) => Function::Sin,
        (UnaryOp::Cos, DType::F32) => Function::Cos,
        (UnaryOp::Tanh, DType::F32) => Function::Tanh,
        (UnaryOp::Sigmoid, DType::F32) => Function::Sigmoid,
        (UnaryOp::Silu, DType::F32) => Function::Silu,
        (UnaryOp::Erf, DType::F32) => Function::Erf,
        (UnaryOp::Gelu, DType::F32) => Function::Gelu,
        (UnaryOp::GeluTanh, DType::F32) => Function::GeluTanh,
        (UnaryOp::Sinh, DType::F32) => Function::Sinh,
        (UnaryOp::Cosh, DType::F32) => Function::Cosh,
        (UnaryOp::Asin, DType::F32) => Function::Asin,
        (UnaryOp::Acos, DType::F32) => Function::Acos,
        (UnaryOp::Atan, DType::F32) => Function::Atan,
        (UnaryOp::Asinh, DType::F32) => Function::Asinh,
        (UnaryOp::Acosh, DType::F32) => Function::Acosh,
        (UnaryOp::Atanh, DType::F32) => Function::Atanh,
        (UnaryOp::Softplus, DType::F32) => Function::Softplus,
        (UnaryOp::BitNot, DType::I32 | DType::U32) => return Ok(format!("~{x}")),
        (op, dtype) => return Err(lacks(op.name(), dtype)),
    };
    Ok(format!("{}({x})", w.call(function)))
}

fn binary(w: &mut Writer<'_>, op: BinaryOp, dtype: DType, x: &str, y: &str) -> Result<String> {
    let infix = |sign: &str| Ok(format!("{x} {sign} {y}"));
    let function = match (op, dtype) {
        (BinaryOp::And, DType::Bool) => return infix("&"),
        (BinaryOp::Or, DType::Bool) => return infix("|"),
        (BinaryOp::Eq, _) => return infix("=="),
        // `!=` of floats is false for NaN in what naga makes of it.
        (BinaryOp::Ne, DType::F32) => return Ok(format!("!({x} == {y})")),
        (BinaryOp::Ne, _) => return infix("!="),
        (BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge, DType::Bool) => {
            let (x, y) = (format!("select(0u, 1u, {x})"), format!("select(0u, 1u, {y})"));
            return binary(w, op, DType::U32, &x, &y);
        }
        (BinaryOp::Lt, _) => return infix("<"),
        (BinaryOp::Le, _) => return infix("<="),
        (BinaryOp::Gt, _) => return infix(">"),
        (BinaryOp::Ge, _) => return infix(">="),
        (BinaryOp::Max, DType::Bool) => return infix("|"),
        (BinaryOp::Min, DType::Bool) => return infix("&"),
        (_, DType::Bool) => return Err(lacks(op.name(), dtype)),
        (BinaryOp::Add, _) => return infix("+"),
        (BinaryOp::Sub, _) => return infix("-"),
        (BinaryOp::Mul, _) => return infix("*"),
        (BinaryOp::Div, DType::F32) => return infix("/"),
        (BinaryOp::Max, DType::I32 | DType::U32) => return Ok(format!("max({x}, {y})")),
        (BinaryOp::Min, DType::I32 | DType::U32) => return Ok(format!("min({x}, {y})")),
        (BinaryOp::Max, DType::F32) => Function::Maximum,
        (BinaryOp::Min, DType::F32) => Function::Minimum,
        (BinaryOp::Rem, DType::F32) => Function::Remainder,
        (BinaryOp::Pow, DType::F32) => Function::Power,
        // WGSL divides by zero to the dividend.
        (BinaryOp::Div, DType::I32) => return Ok(format!("select({x} / {y}, 0i, {y} == 0i)")),
        (BinaryOp::Div, DType::U32) => return Ok(format!("select({x} / {y}, 0u, {y} == 0u)")),
        (BinaryOp::Rem, DType::I32 | DType::U32) => return infix("%"),
        (BinaryOp::Pow, DType::I32) => Function::PowerI32,
        (BinaryOp::Pow, DType::U32) => Function::PowerU32,
        (BinaryOp::Atan2, DType::F32) => Function::Atan2,
        (BinaryOp::Hypot, DType::F32) => Function::Hypot,
        (BinaryOp::CopySign, DType::F32) => Function::Copysign,
        (BinaryOp::BitAnd, DType::I32 | DType::U32) => return infix("&"),
        (BinaryOp::BitOr, DType::I32 | DType::U32) => return infix("|"),
        (BinaryOp::BitXor, DType::I32 | DType::U32) => return infix("^"),
        // WGSL shifts modulo the width; a negative shift is a huge one of u32.
        (BinaryOp::ShiftLeft, DType::I32) => {
            return Ok(format!("select(0i, {x} << (u32({y}) & 31u), u32({y}) < 32u)"));
        }
        (BinaryOp::ShiftLeft, DType::U32) => {
            return Ok(format!("select(0u, {x} << ({y} & 31u), {y} < 32u)"));
        }
        (BinaryOp::ShiftRight, DType::I32) => return Ok(format!("{x} >> min(u32({y}), 31u)")),
        (BinaryOp::ShiftRight, DType::U32) => {
            return Ok(format!("select(0u, {x} >> ({y} & 31u), {y} < 32u)"));
        }
        (op, dtype) => return Err(lacks(op.name(), dtype)),
    };
    Ok(format!("{}({x}, {y})", w.call(function)))
}

fn cast(w: &mut Writer<'_>, from: DType, to: DType, x: &str) -> Result<String> {
    Ok(match (from, to) {
        (from, to) if from == to => x.to_string(),
        (DType::Bool, DType::F32) => format!("select(0.0f, 1.0f, {x})"),
        (DType::Bool, DType::I32) => format!("select(0i, 1i, {x})"),
        (DType::Bool, DType::U32) => format!("select(0u, 1u, {x})"),
        (DType::F32, DType::Bool) => format!("!({x} == 0.0f)"),
        (DType::I32, DType::Bool) => format!("{x} != 0i"),
        (DType::U32, DType::Bool) => format!("{x} != 0u"),
        (DType::F32, DType::I32) => format!("{}({x})", w.call(Function::ToI32)),
        (DType::F32, DType::U32) => format!("{}({x})", w.call(Function::ToU32)),
        (DType::I32 | DType::U32, DType::F32) => format!("f32({x})"),
        (DType::I32, DType::U32) => format!("bitcast<u32>({x})"),
        (DType::U32, DType::I32) => format!("bitcast<i32>({x})"),
        (from, to) => return Err(refused(if value_type(from).is_none() { from } else { to })),
    })
}

fn lacks(op: &str, dtype: DType) -> Error {
    Error::dtype(op, format!("the gpu has no such function of {dtype}; cast it first"))
}

/// `combine(x, y)` of a fold.
pub(crate) fn combine(
    w: &mut Writer<'_>,
    op: lanthorn_ir::prim::ReduceOp,
    dtype: DType,
    x: &str,
    y: &str,
) -> Result<String> {
    use lanthorn_ir::prim::ReduceOp;
    let op = match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    };
    binary(w, op, dtype, x, y)
}

/// What a fold begins with.
pub(crate) fn identity(w: &mut Writer<'_>, op: lanthorn_ir::prim::ReduceOp, dtype: DType) -> Result<String> {
    use lanthorn_ir::prim::ReduceOp;
    let value = match (op, dtype) {
        (ReduceOp::Sum, _) => Scalar::Int(0),
        (ReduceOp::Prod, _) => Scalar::Int(1),
        (ReduceOp::Max, DType::F32) => Scalar::float(f64::NEG_INFINITY),
        (ReduceOp::Min, DType::F32) => Scalar::float(f64::INFINITY),
        (ReduceOp::Max, DType::I32) => Scalar::Int(i32::MIN.into()),
        (ReduceOp::Min, DType::I32) => Scalar::Int(i32::MAX.into()),
        (ReduceOp::Max, _) => Scalar::Int(0),
        (ReduceOp::Min, _) => Scalar::Int(u32::MAX.into()),
    };
    constant(w, value, dtype)
}
