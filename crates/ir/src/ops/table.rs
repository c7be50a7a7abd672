//! The table of all ops: names, parameters and docs, and a call by name.
//!
//! Raw bindings, class methods, type declarations and the reference page are generated from [`OPS`], so a
//! front end lists no ops of its own. A test fails when a public op is missing here.

use std::fmt;

use super::arguments::{Arguments, one, take};
use crate::builder::{Builder, Outputs};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{BinaryOp, UnaryOp};
use crate::prim::Elementwise;

pub use super::arguments::Attribute;

/// Where an op stands in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    Pointwise,
    Creation,
    Movement,
    Complex,
    Reduction,
    Contraction,
    LinearAlgebra,
    Indexing,
    Scan,
    Sorting,
    Network,
    /// Sliding windows: convolution, pooling, images of another size.
    Window,
    Loss,
    Random,
    State,
}

/// What a parameter takes. Tensors are passed apart from attributes; both keep the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Tensor,
    /// A tensor or none.
    OptionalTensor,
    /// All remaining tensors; the last tensor parameter of its op.
    Tensors,
    /// An axis, negative from the end; or any signed integer.
    Int,
    /// Signed integers, such as axes.
    Ints,
    /// A signed integer or none.
    OptionalInt,
    /// A size or count.
    Size,
    /// Sizes, such as a shape.
    Sizes,
    /// A 64-bit unsigned number.
    Stream,
    Float,
    OptionalFloat,
    Bool,
    /// A number or bool of any dtype.
    Scalar,
    OptionalScalar,
    DType,
    /// `"mean"`, `"sum"` or `"none"`.
    Reduction,
    /// `"none"` or `"tanh"`.
    GeluApproximate,
    /// `"sum"`, `"prod"`, `"mean"`, `"amax"` or `"amin"`.
    ScatterReduce,
    /// A size or none.
    OptionalSize,
    /// A signed integer of 64 bits on every machine.
    Long,
    /// Any text.
    Text,
    /// `"reduced"` or `"complete"`.
    QrMode,
    /// `"both"`, `"lower"` or `"upper"`.
    Triangle,
    /// `"fro"`, `"nuc"`, `"1"`, `"-1"`, `"2"`, `"-2"`, `"inf"` or `"-inf"`.
    MatrixNorm,
    OptionalMatrixNorm,
    /// `"nearest"`, `"nearest-exact"`, `"linear"`, `"bilinear"`, `"trilinear"`, `"bicubic"` or `"area"`.
    Interpolation,
    /// `"zeros"`, `"border"` or `"reflection"`.
    GridPadding,
    /// An encoding of packed blocks by ggml's name, such as `"Q4_1"`.
    Encoding,
}

impl Kind {
    /// True for kinds that are passed among the tensors.
    pub const fn is_tensor(self) -> bool {
        matches!(self, Kind::Tensor | Kind::OptionalTensor | Kind::Tensors)
    }

    /// The words that a parameter of this kind takes, as [`Attribute::Text`]; none for any other kind.
    pub const fn words(self) -> &'static [&'static str] {
        match self {
            Kind::Reduction => &["mean", "sum", "none"],
            Kind::GeluApproximate => &["none", "tanh"],
            Kind::ScatterReduce => &["sum", "prod", "mean", "amax", "amin"],
            Kind::QrMode => &["reduced", "complete"],
            Kind::Triangle => &["both", "lower", "upper"],
            Kind::MatrixNorm | Kind::OptionalMatrixNorm => {
                &["fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"]
            }
            Kind::Interpolation => {
                &["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"]
            }
            Kind::GridPadding => &["zeros", "border", "reflection"],
            Kind::Encoding => {
                &["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
            }
            _ => &[],
        }
    }
}

/// What a caller is to give, in words.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.words().is_empty() {
            let words: Vec<String> = self.words().iter().map(|word| format!("{word:?}")).collect();
            return write!(f, "one of {}", words.join(", "));
        }
        f.write_str(match self {
            Kind::Tensor => "a tensor",
            Kind::OptionalTensor => "a tensor or none",
            Kind::Tensors => "tensors",
            Kind::Int => "an integer",
            Kind::Ints => "a list of integers",
            Kind::OptionalInt => "an integer or none",
            Kind::Size => "an integer of at least 0",
            Kind::Sizes => "a list of integers of at least 0",
            Kind::Stream => "an integer",
            Kind::Float => "a number",
            Kind::OptionalFloat => "a number or none",
            Kind::Bool => "true or false",
            Kind::Scalar => "a number",
            Kind::OptionalScalar => "a number or none",
            Kind::DType => "a dtype",
            _ => "a value of another kind",
        })
    }
}

/// One parameter of an op.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    /// The value where the caller gives none.
    pub default: Option<Attribute>,
}

/// Whether an op returns one tensor or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Returns {
    Tensor,
    Tensors,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub name: &'static str,
    pub category: Category,
    pub parameters: &'static [Parameter],
    pub returns: Returns,
    /// The function of single elements that the op is, of all its tensors and of nothing else.
    pub elementwise: Option<Elementwise>,
    /// The file in `ops/` that defines the op.
    module: &'static str,
    function: &'static str,
}

/// The ops whose results show elements of their first operand in another shape or order, so that writing to one
/// writes to the other. Of one result or another a copy may still be needed: it is a view if movements alone lead
/// to it.
const VIEWS: &[&str] = &[
    "reshape",
    "flatten",
    "permute",
    "transpose",
    "move_axis",
    "broadcast_to",
    "slice",
    "narrow",
    "select",
    "split_sizes",
    "split",
    "chunk",
    "squeeze",
    "unsqueeze",
    "diagonal",
    "swap_axes",
    "move_axes",
    "expand",
    "unflatten",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "tensor_split",
    "split_at",
    "unbind",
    "sliding_window",
];

impl Op {
    /// True if the op's results are views of its first operand wherever no element has to move.
    pub fn gives_views(&self) -> bool {
        VIEWS.contains(&self.name)
    }

    /// True if the shape of the result depends on values, for no `size` is among the attributes.
    pub fn counts(&self, attributes: &[Attribute]) -> bool {
        let mut numbers = self.parameters.iter().filter(|parameter| !parameter.kind.is_tensor());
        let size = numbers.position(|p| p.name == "size" && p.kind == Kind::OptionalSize);
        size.is_some_and(|at| matches!(attributes.get(at), None | Some(Attribute::None)))
    }

    /// An error of the op's own: what a step of a composition says comes with the name that the user called.
    fn tells(&self, error: Error) -> Error {
        if error.op == self.name {
            return error;
        }
        Error::new(error.kind, self.name, format!("{}: {}", error.op, error.message))
    }

    /// The op's documentation: what its function says in the source, so that there is one copy.
    pub fn docs(&self) -> String {
        let source = SOURCES.iter().find(|(name, _)| *name == self.module).map_or("", |(_, text)| text);
        let definition = [format!("pub fn {}<", self.function), format!("    {} => ", self.function)];
        let mut docs: Vec<&str> = Vec::new();
        for line in source.lines() {
            if definition.iter().any(|d| line.starts_with(d.as_str())) {
                break;
            }
            match line.trim_start().strip_prefix("///") {
                Some(text) => docs.push(text.strip_prefix(' ').unwrap_or(text)),
                None => docs.clear(),
            }
        }
        docs.join("\n")
    }
}

/// The position of an op in [`OPS`]; holds within one build.
pub fn id_of(name: &str) -> Option<usize> {
    OPS.iter().position(|op| op.name == name)
}

/// Calls an op by name. `tensors` and `attributes` follow the order of its parameters; trailing ones may be
/// left out where the table has a default.
pub fn call<B: Builder>(
    b: &B,
    name: &str,
    tensors: &[Option<&B::Value>],
    attributes: &[Attribute],
) -> Result<Outputs<B::Value>> {
    match id_of(name) {
        Some(id) => call_id(b, id, tensors, attributes),
        None => Err(Error::unsupported(name, "there is no op of this name")),
    }
}

/// Calls an op by its position in [`OPS`]; see [`call`].
pub fn call_id<B: Builder>(
    b: &B,
    id: usize,
    tensors: &[Option<&B::Value>],
    attributes: &[Attribute],
) -> Result<Outputs<B::Value>> {
    let Some(op) = OPS.get(id) else {
        return Err(Error::unsupported("call", format!("there is no op number {id}")));
    };
    let result = dispatch(b, id, op, tensors, attributes);
    let error = match (result, tensors) {
        (Ok(results), _) => return Ok(results),
        (Err(error), [Some(x)]) if b.ty(x).rank() == 0 && ALONG_AN_AXIS.contains(&op.name) => {
            match as_a_row(b, id, op, x, attributes) {
                Ok(results) => return Ok(results),
                // A device may lack the op. What is wrong with the axis is said of the value as it is.
                Err(other) if other.kind != ErrorKind::Shape => other,
                Err(_) => error,
            }
        }
        (Err(error), _) => error,
    };
    Err(op.tells(error))
}

/// Ops along an axis that take a value without axes for a row of one element, as torch's do, so that its axis is 0 or -1.
const ALONG_AN_AXIS: &[&str] = &[
    "sum",
    "prod",
    "mean",
    "max",
    "min",
    "var",
    "std",
    "all",
    "any",
    "logsumexp",
    "argmax",
    "argmin",
    "median",
    "nanmedian",
    "mode",
    "softmax",
    "log_softmax",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "sort",
    "argsort",
    "topk",
    "kthvalue",
];

/// An op on a value of rank 0 as a row of one element; results of one element lose the axis.
fn as_a_row<B: Builder>(
    b: &B,
    id: usize,
    op: &Op,
    x: &B::Value,
    attributes: &[Attribute],
) -> Result<Outputs<B::Value>> {
    let row = super::reshape(b, x, &[1])?;
    let results = dispatch(b, id, op, &[Some(&row)], attributes)?;
    let without_axis = |value: B::Value| match b.ty(&value).numel() {
        1 => super::reshape(b, &value, &[]),
        _ => Ok(value),
    };
    results.into_iter().map(without_axis).collect()
}

/// Calls `op`, which is that function of one tensor ([`Op::elementwise`]), as [`call`] does.
pub fn call_unary<B: Builder>(b: &B, op: &Op, function: UnaryOp, x: &B::Value) -> Result<B::Value> {
    super::apply_unary(b, function, x).map_err(|error| op.tells(error))
}

/// As [`call_unary`], of two tensors.
pub fn call_binary<B: Builder>(
    b: &B,
    op: &Op,
    function: BinaryOp,
    x: &B::Value,
    y: &B::Value,
) -> Result<B::Value> {
    super::apply_binary(b, function, x, y).map_err(|error| op.tells(error))
}

/// The function that an op of that name is, if the modules that define ops of one function list it.
const fn elementwise_of(name: &str) -> Option<Elementwise> {
    const UNARY: [&[(&str, UnaryOp)]; 2] = [super::pointwise::UNARY, super::special::UNARY];
    const BINARY: [&[(&str, BinaryOp)]; 2] = [super::pointwise::BINARY, super::arithmetic::BINARY];
    let mut list = 0;
    while list < 2 {
        let mut at = 0;
        while at < UNARY[list].len() {
            if is_same(UNARY[list][at].0, name) {
                return Some(Elementwise::Unary(UNARY[list][at].1));
            }
            at += 1;
        }
        at = 0;
        while at < BINARY[list].len() {
            if is_same(BINARY[list][at].0, name) {
                return Some(Elementwise::Binary(BINARY[list][at].1));
            }
            at += 1;
        }
        list += 1;
    }
    None
}

/// Whether two names are one, for constants.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The keyword-free name: Rust spells `where` as `where_`.
const fn public_name(function: &'static str) -> &'static str {
    let bytes = function.as_bytes();
    if bytes[bytes.len() - 1] == b'_' { function.split_at(bytes.len() - 1).0 } else { function }
}

macro_rules! default {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! ops {
    ($($module:ident $category:ident {
        $($function:ident($($parameter:ident: $kind:ident $(= $default:expr)?),*) -> $returns:ident;)*
    })*) => {
        /// The source of every module, for [`Op::docs`].
        const SOURCES: &[(&str, &str)] = &[
            $((stringify!($module), include_str!(concat!(stringify!($module), ".rs")))),*
        ];

        /// Every op.
        pub static OPS: &[Op] = &[$($(Op {
            name: public_name(stringify!($function)),
            category: Category::$category,
            parameters: &[$(Parameter {
                name: stringify!($parameter),
                kind: Kind::$kind,
                default: default!($($default)?),
            }),*],
            returns: Returns::$returns,
            elementwise: elementwise_of(stringify!($function)),
            module: stringify!($module),
            function: stringify!($function),
        }),*),*];

        /// The ops by name; an op's number is its position in [`OPS`].
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Id { $($($function),*),* }

        /// The op of that number on arguments that it takes out of the lists.
        fn dispatch<B: Builder>(
            b: &B,
            id: usize,
            op: &Op,
            tensors: &[Option<&B::Value>],
            attributes: &[Attribute],
        ) -> Result<Outputs<B::Value>> {
            #[allow(unused_mut)]
            let mut arguments = Arguments::new(op, tensors, attributes)?;
            match id {
                $($(
                    x if x == Id::$function as usize => {
                        let out = super::$function(b, $(take!(arguments, $kind)),*)?;
                        Ok(one!($returns, out))
                    }
                )*)*
                _ => Err(Error::unsupported("call", format!("there is no op number {id}"))),
            }
        }
    };
}

const NO_AXES: Attribute = Attribute::Ints(Vec::new());
/// An empty list, which the op takes for its last two axes.
const LAST_TWO_AXES: Attribute = Attribute::Ints(Vec::new());

/// Hands every row of the table to a macro, so that a front end in Rust writes its methods from it:
/// `module Category { function(parameter: Kind = default) -> Tensor; }`.
#[rustfmt::skip] // The rows are data; they stand as in any macro call.
#[macro_export]
macro_rules! each_op {
    ($then:ident) => { $then! {
    pointwise Pointwise {
        neg(x: Tensor) -> Tensor;
        abs(x: Tensor) -> Tensor;
        sign(x: Tensor) -> Tensor;
        floor(x: Tensor) -> Tensor;
        ceil(x: Tensor) -> Tensor;
        round(x: Tensor) -> Tensor;
        trunc(x: Tensor) -> Tensor;
        exp(x: Tensor) -> Tensor;
        expm1(x: Tensor) -> Tensor;
        log(x: Tensor) -> Tensor;
        log1p(x: Tensor) -> Tensor;
        sqrt(x: Tensor) -> Tensor;
        rsqrt(x: Tensor) -> Tensor;
        reciprocal(x: Tensor) -> Tensor;
        sin(x: Tensor) -> Tensor;
        cos(x: Tensor) -> Tensor;
        tanh(x: Tensor) -> Tensor;
        sinh(x: Tensor) -> Tensor;
        cosh(x: Tensor) -> Tensor;
        asin(x: Tensor) -> Tensor;
        acos(x: Tensor) -> Tensor;
        atan(x: Tensor) -> Tensor;
        asinh(x: Tensor) -> Tensor;
        acosh(x: Tensor) -> Tensor;
        atanh(x: Tensor) -> Tensor;
        sigmoid(x: Tensor) -> Tensor;
        erf(x: Tensor) -> Tensor;
        relu(x: Tensor) -> Tensor;
        silu(x: Tensor) -> Tensor;
        logical_not(x: Tensor) -> Tensor;
        isfinite(x: Tensor) -> Tensor;
        add(x: Tensor, y: Tensor) -> Tensor;
        sub(x: Tensor, y: Tensor) -> Tensor;
        mul(x: Tensor, y: Tensor) -> Tensor;
        div(x: Tensor, y: Tensor) -> Tensor;
        rem(x: Tensor, y: Tensor) -> Tensor;
        pow(x: Tensor, y: Tensor) -> Tensor;
        maximum(x: Tensor, y: Tensor) -> Tensor;
        minimum(x: Tensor, y: Tensor) -> Tensor;
        eq(x: Tensor, y: Tensor) -> Tensor;
        ne(x: Tensor, y: Tensor) -> Tensor;
        lt(x: Tensor, y: Tensor) -> Tensor;
        le(x: Tensor, y: Tensor) -> Tensor;
        gt(x: Tensor, y: Tensor) -> Tensor;
        ge(x: Tensor, y: Tensor) -> Tensor;
        logical_and(x: Tensor, y: Tensor) -> Tensor;
        logical_or(x: Tensor, y: Tensor) -> Tensor;
        add_scalar(x: Tensor, y: Scalar) -> Tensor;
        sub_scalar(x: Tensor, y: Scalar) -> Tensor;
        rsub_scalar(x: Tensor, y: Scalar) -> Tensor;
        mul_scalar(x: Tensor, y: Scalar) -> Tensor;
        div_scalar(x: Tensor, y: Scalar) -> Tensor;
        rem_scalar(x: Tensor, y: Scalar) -> Tensor;
        pow_scalar(x: Tensor, y: Scalar) -> Tensor;
        maximum_scalar(x: Tensor, y: Scalar) -> Tensor;
        minimum_scalar(x: Tensor, y: Scalar) -> Tensor;
        eq_scalar(x: Tensor, y: Scalar) -> Tensor;
        ne_scalar(x: Tensor, y: Scalar) -> Tensor;
        lt_scalar(x: Tensor, y: Scalar) -> Tensor;
        le_scalar(x: Tensor, y: Scalar) -> Tensor;
        gt_scalar(x: Tensor, y: Scalar) -> Tensor;
        ge_scalar(x: Tensor, y: Scalar) -> Tensor;
        square(x: Tensor) -> Tensor;
        tan(x: Tensor) -> Tensor;
        exp2(x: Tensor) -> Tensor;
        log2(x: Tensor) -> Tensor;
        log10(x: Tensor) -> Tensor;
        isnan(x: Tensor) -> Tensor;
        isinf(x: Tensor) -> Tensor;
        where_(condition: Tensor, x: Tensor, y: Tensor) -> Tensor;
        cast(x: Tensor, dtype: DType) -> Tensor;
        clamp(
            x: Tensor,
            low: OptionalScalar = Attribute::None,
            high: OptionalScalar = Attribute::None
        ) -> Tensor;
        full_like(x: Tensor, value: Scalar) -> Tensor;
        zeros_like(x: Tensor) -> Tensor;
        ones_like(x: Tensor) -> Tensor;
    }
    arithmetic Pointwise {
        atan2(x: Tensor, y: Tensor) -> Tensor;
        hypot(x: Tensor, y: Tensor) -> Tensor;
        copysign(x: Tensor, y: Tensor) -> Tensor;
        shift_left(x: Tensor, y: Tensor) -> Tensor;
        shift_right(x: Tensor, y: Tensor) -> Tensor;
        bitwise_and(x: Tensor, y: Tensor) -> Tensor;
        bitwise_or(x: Tensor, y: Tensor) -> Tensor;
        bitwise_xor(x: Tensor, y: Tensor) -> Tensor;
        bitwise_not(x: Tensor) -> Tensor;
        logical_xor(x: Tensor, y: Tensor) -> Tensor;
        remainder(x: Tensor, y: Tensor) -> Tensor;
        remainder_scalar(x: Tensor, y: Scalar) -> Tensor;
        floor_divide(x: Tensor, y: Tensor) -> Tensor;
        floor_divide_scalar(x: Tensor, y: Scalar) -> Tensor;
        trunc_divide(x: Tensor, y: Tensor) -> Tensor;
        frac(x: Tensor) -> Tensor;
        deg2rad(x: Tensor) -> Tensor;
        rad2deg(x: Tensor) -> Tensor;
        logaddexp(x: Tensor, y: Tensor) -> Tensor;
        logaddexp2(x: Tensor, y: Tensor) -> Tensor;
        lerp(x: Tensor, y: Tensor, weight: Tensor) -> Tensor;
        addcmul(x: Tensor, y: Tensor, z: Tensor, value: Scalar = Attribute::Int(1)) -> Tensor;
        addcdiv(x: Tensor, y: Tensor, z: Tensor, value: Scalar = Attribute::Int(1)) -> Tensor;
        nan_to_num(
            x: Tensor,
            nan: Float = Attribute::Float(0.0),
            posinf: OptionalFloat = Attribute::None,
            neginf: OptionalFloat = Attribute::None
        ) -> Tensor;
        isposinf(x: Tensor) -> Tensor;
        isneginf(x: Tensor) -> Tensor;
        signbit(x: Tensor) -> Tensor;
        isclose(
            x: Tensor,
            y: Tensor,
            rtol: Float = Attribute::Float(1e-5),
            atol: Float = Attribute::Float(1e-8),
            equal_nan: Bool = Attribute::Bool(false)
        ) -> Tensor;
        heaviside(x: Tensor, at_zero: Tensor) -> Tensor;
        fmax(x: Tensor, y: Tensor) -> Tensor;
        fmin(x: Tensor, y: Tensor) -> Tensor;
        ldexp(x: Tensor, y: Tensor) -> Tensor;
    }
    special Pointwise {
        erfc(x: Tensor) -> Tensor;
        erfcx(x: Tensor) -> Tensor;
        log_erfcx(x: Tensor) -> Tensor;
        erfinv(x: Tensor) -> Tensor;
        erfcinv(x: Tensor) -> Tensor;
        ndtr(x: Tensor) -> Tensor;
        log_ndtr(x: Tensor) -> Tensor;
        ndtri(x: Tensor) -> Tensor;
        ndtri_exp(x: Tensor) -> Tensor;
        lgamma(x: Tensor) -> Tensor;
        digamma(x: Tensor) -> Tensor;
        i0(x: Tensor) -> Tensor;
        i0e(x: Tensor) -> Tensor;
        i1(x: Tensor) -> Tensor;
        i1e(x: Tensor) -> Tensor;
        polygamma(x: Tensor, n: Size) -> Tensor;
        mvlgamma(x: Tensor, p: Size) -> Tensor;
        xlogy(x: Tensor, y: Tensor) -> Tensor;
        xlog1py(x: Tensor, y: Tensor) -> Tensor;
        entr(x: Tensor) -> Tensor;
        logit(x: Tensor, eps: OptionalFloat = Attribute::None) -> Tensor;
        sinc(x: Tensor) -> Tensor;
    }
    activation Pointwise {
        softplus(
            x: Tensor,
            beta: Float = Attribute::Float(1.0),
            threshold: Float = Attribute::Float(20.0)
        ) -> Tensor;
        log_sigmoid(x: Tensor) -> Tensor;
        leaky_relu(x: Tensor, slope: Float = Attribute::Float(0.01)) -> Tensor;
        prelu(x: Tensor, weight: Tensor) -> Tensor;
        elu(x: Tensor, alpha: Float = Attribute::Float(1.0)) -> Tensor;
        celu(x: Tensor, alpha: Float = Attribute::Float(1.0)) -> Tensor;
        selu(x: Tensor) -> Tensor;
        gelu(x: Tensor, approximate: GeluApproximate = Attribute::None) -> Tensor;
        hardtanh(
            x: Tensor,
            low: Float = Attribute::Float(-1.0),
            high: Float = Attribute::Float(1.0)
        ) -> Tensor;
        relu6(x: Tensor) -> Tensor;
        hardsigmoid(x: Tensor) -> Tensor;
        hardswish(x: Tensor) -> Tensor;
        softsign(x: Tensor) -> Tensor;
        mish(x: Tensor) -> Tensor;
        tanhshrink(x: Tensor) -> Tensor;
        softshrink(x: Tensor, lambd: Float = Attribute::Float(0.5)) -> Tensor;
        hardshrink(x: Tensor, lambd: Float = Attribute::Float(0.5)) -> Tensor;
        threshold(x: Tensor, threshold: Float, value: Float) -> Tensor;
        glu(x: Tensor, axis: Int = Attribute::Int(-1)) -> Tensor;
        quick_gelu(x: Tensor) -> Tensor;
    }
    creation Creation {
        scalar(value: Scalar, dtype: DType = Attribute::DType(DType::F32)) -> Tensor;
        full(shape: Sizes, value: Scalar, dtype: DType = Attribute::DType(DType::F32)) -> Tensor;
        zeros(shape: Sizes, dtype: DType = Attribute::DType(DType::F32)) -> Tensor;
        ones(shape: Sizes, dtype: DType = Attribute::DType(DType::F32)) -> Tensor;
        iota(len: Size, dtype: DType = Attribute::DType(DType::I64)) -> Tensor;
        arange(
            start: Scalar,
            stop: Scalar,
            step: Scalar = Attribute::Int(1),
            dtype: DType = Attribute::DType(DType::I64)
        ) -> Tensor;
        linspace(
            start: Float,
            stop: Float,
            steps: Size,
            dtype: DType = Attribute::DType(DType::F32)
        ) -> Tensor;
        one_hot(ids: Tensor, classes: Size, dtype: DType = Attribute::DType(DType::F32)) -> Tensor;
        eye(n: Size, dtype: DType = Attribute::DType(DType::F32)) -> Tensor;
        lower_triangle(rows: Size, columns: Size, diagonal: Int = Attribute::Int(0)) -> Tensor;
        tril(x: Tensor, diagonal: Int = Attribute::Int(0)) -> Tensor;
        triu(x: Tensor, diagonal: Int = Attribute::Int(0)) -> Tensor;
    }
    movement Movement {
        reshape(x: Tensor, shape: Ints) -> Tensor;
        flatten(x: Tensor, start: Int = Attribute::Int(0), end: Int = Attribute::Int(-1)) -> Tensor;
        permute(x: Tensor, axes: Ints) -> Tensor;
        transpose(x: Tensor, first: Int = Attribute::Int(-2), second: Int = Attribute::Int(-1)) -> Tensor;
        move_axis(x: Tensor, from: Int, to: Int) -> Tensor;
        broadcast_to(x: Tensor, shape: Sizes) -> Tensor;
        slice(
            x: Tensor,
            axis: Int,
            start: Int = Attribute::Int(0),
            stop: OptionalInt = Attribute::None,
            step: Int = Attribute::Int(1)
        ) -> Tensor;
        narrow(x: Tensor, axis: Int, start: Int, length: Size) -> Tensor;
        select(x: Tensor, axis: Int, index: Int) -> Tensor;
        split_sizes(x: Tensor, sizes: Sizes, axis: Int = Attribute::Int(0)) -> Tensors;
        split(x: Tensor, size: Size, axis: Int = Attribute::Int(0)) -> Tensors;
        chunk(x: Tensor, count: Size, axis: Int = Attribute::Int(0)) -> Tensors;
        concat(values: Tensors, axis: Int = Attribute::Int(0)) -> Tensor;
        stack(values: Tensors, axis: Int = Attribute::Int(0)) -> Tensor;
        squeeze(x: Tensor, axes: Ints = NO_AXES) -> Tensor;
        unsqueeze(x: Tensor, axis: Int) -> Tensor;
        flip(x: Tensor, axes: Ints = NO_AXES) -> Tensor;
        repeat(x: Tensor, repeats: Sizes) -> Tensor;
        repeat_interleave(x: Tensor, times: Size, axis: Int) -> Tensor;
        roll(x: Tensor, shift: Int, axis: Int) -> Tensor;
    }
    reduce Reduction {
        sum(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        prod(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        max(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        min(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        mean(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        var(
            x: Tensor,
            axes: Ints = NO_AXES,
            correction: Float = Attribute::Float(1.0),
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        std(
            x: Tensor,
            axes: Ints = NO_AXES,
            correction: Float = Attribute::Float(1.0),
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        norm(
            x: Tensor,
            axes: Ints = NO_AXES,
            keepdim: Bool = Attribute::Bool(false),
            ord: Float = Attribute::Float(2.0)
        ) -> Tensor;
        argmax(
            x: Tensor,
            axis: OptionalInt = Attribute::None,
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        argmin(
            x: Tensor,
            axis: OptionalInt = Attribute::None,
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        logsumexp(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        any(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        all(x: Tensor, axes: Ints = NO_AXES, keepdim: Bool = Attribute::Bool(false)) -> Tensor;
        weighted_mean(x: Tensor, weight: Tensor) -> Tensor;
    }
    complex Complex {
        as_real(x: Tensor) -> Tensor;
        as_complex(x: Tensor) -> Tensor;
        complex(re: Tensor, im: Tensor) -> Tensor;
        polar(magnitude: Tensor, angle: Tensor) -> Tensor;
        real(x: Tensor) -> Tensor;
        imag(x: Tensor) -> Tensor;
        conj(x: Tensor) -> Tensor;
        angle(x: Tensor) -> Tensor;
    }
    contract Contraction {
        matmul(x: Tensor, y: Tensor) -> Tensor;
        matmul_as(x: Tensor, y: Tensor, out: DType) -> Tensor;
        linear(x: Tensor, weight: Tensor, bias: OptionalTensor) -> Tensor;
        dot(x: Tensor, y: Tensor) -> Tensor;
        outer(x: Tensor, y: Tensor) -> Tensor;
        mm(x: Tensor, y: Tensor) -> Tensor;
        bmm(x: Tensor, y: Tensor) -> Tensor;
        mv(x: Tensor, y: Tensor) -> Tensor;
        addmm(
            input: Tensor,
            x: Tensor,
            y: Tensor,
            beta: Scalar = Attribute::Int(1),
            alpha: Scalar = Attribute::Int(1)
        ) -> Tensor;
        baddbmm(
            input: Tensor,
            x: Tensor,
            y: Tensor,
            beta: Scalar = Attribute::Int(1),
            alpha: Scalar = Attribute::Int(1)
        ) -> Tensor;
        inner(x: Tensor, y: Tensor) -> Tensor;
        vecdot(x: Tensor, y: Tensor, axis: Int = Attribute::Int(-1)) -> Tensor;
        tensordot(x: Tensor, y: Tensor, axes_x: Ints, axes_y: Ints) -> Tensor;
        multi_dot(matrices: Tensors) -> Tensor;
        bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: OptionalTensor) -> Tensor;
    }
    einsum Contraction {
        einsum(operands: Tensors, equation: Text) -> Tensor;
    }
    distance Contraction {
        cdist(x: Tensor, y: Tensor, p: Float = Attribute::Float(2.0)) -> Tensor;
        cov(
            x: Tensor,
            correction: Int = Attribute::Int(1),
            fweights: OptionalTensor,
            aweights: OptionalTensor
        ) -> Tensor;
        corrcoef(x: Tensor) -> Tensor;
    }
    linalg LinearAlgebra {
        cholesky(x: Tensor, upper: Bool = Attribute::Bool(false)) -> Tensor;
        cholesky_solve(right: Tensor, factor: Tensor, upper: Bool = Attribute::Bool(false)) -> Tensor;
        cholesky_inverse(factor: Tensor, upper: Bool = Attribute::Bool(false)) -> Tensor;
        lu(x: Tensor) -> Tensors;
        lu_factor(x: Tensor) -> Tensors;
        lu_unpack(lu: Tensor, pivots: Tensor) -> Tensors;
        lu_solve(
            lu: Tensor,
            pivots: Tensor,
            right: Tensor,
            left: Bool = Attribute::Bool(true),
            adjoint: Bool = Attribute::Bool(false)
        ) -> Tensor;
        qr(x: Tensor, mode: QrMode = Attribute::None) -> Tensors;
        eigh(x: Tensor, triangle: Triangle = Attribute::None) -> Tensors;
        eigvalsh(x: Tensor, triangle: Triangle = Attribute::None) -> Tensor;
        svd(x: Tensor, full_matrices: Bool = Attribute::Bool(true)) -> Tensors;
        svdvals(x: Tensor) -> Tensor;
        solve(x: Tensor, right: Tensor, left: Bool = Attribute::Bool(true)) -> Tensor;
        solve_triangular(
            x: Tensor,
            right: Tensor,
            upper: Bool,
            left: Bool = Attribute::Bool(true),
            unitriangular: Bool = Attribute::Bool(false)
        ) -> Tensor;
        triangular_solve(
            right: Tensor,
            x: Tensor,
            upper: Bool = Attribute::Bool(true),
            transpose: Bool = Attribute::Bool(false),
            unitriangular: Bool = Attribute::Bool(false)
        ) -> Tensor;
        inverse(x: Tensor) -> Tensor;
        lstsq(x: Tensor, right: Tensor) -> Tensor;
        pinv(x: Tensor, rtol: OptionalFloat = Attribute::None) -> Tensor;
    }
    matrix LinearAlgebra {
        det(x: Tensor) -> Tensor;
        slogdet(x: Tensor) -> Tensors;
        logdet(x: Tensor) -> Tensor;
        matrix_rank(
            x: Tensor,
            atol: OptionalFloat = Attribute::None,
            rtol: OptionalFloat = Attribute::None
        ) -> Tensor;
        matrix_power(x: Tensor, exponent: Int) -> Tensor;
        matrix_exp(x: Tensor) -> Tensor;
        matrix_norm(
            x: Tensor,
            ord: MatrixNorm = Attribute::None,
            axes: Ints = LAST_TWO_AXES,
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        cond(x: Tensor, ord: OptionalMatrixNorm = Attribute::None) -> Tensor;
        vander(
            x: Tensor,
            columns: OptionalInt = Attribute::None,
            increasing: Bool = Attribute::Bool(true)
        ) -> Tensor;
        block_diag(matrices: Tensors) -> Tensor;
    }
    index Indexing {
        embedding(table: Tensor, ids: Tensor) -> Tensor;
        embedding_grad(grad: Tensor, ids: Tensor, rows: Size) -> Tensor;
        index_select(x: Tensor, axis: Int, ids: Tensor) -> Tensor;
        gather(x: Tensor, axis: Int, ids: Tensor) -> Tensor;
        take_along_axis(x: Tensor, ids: Tensor, axis: Int) -> Tensor;
        take(x: Tensor, ids: Tensor) -> Tensor;
        index(x: Tensor, ids: Tensors, axes: Ints = NO_AXES) -> Tensor;
        index_put(
            x: Tensor,
            values: Tensor,
            ids: Tensors,
            axes: Ints = NO_AXES,
            accumulate: Bool = Attribute::Bool(false)
        ) -> Tensor;
        searchsorted(sorted: Tensor, values: Tensor, right: Bool = Attribute::Bool(false)) -> Tensor;
        bucketize(values: Tensor, edges: Tensor, right: Bool = Attribute::Bool(false)) -> Tensor;
        isin(x: Tensor, elements: Tensor) -> Tensor;
        padded_embedding(table: Tensor, ids: Tensor, padding: Int) -> Tensor;
    }
    diagonal Movement {
        diagonal(
            x: Tensor,
            offset: Int = Attribute::Int(0),
            first: Int = Attribute::Int(-2),
            second: Int = Attribute::Int(-1)
        ) -> Tensor;
        diag_embed(
            x: Tensor,
            offset: Int = Attribute::Int(0),
            first: Int = Attribute::Int(-2),
            second: Int = Attribute::Int(-1)
        ) -> Tensor;
        diag(x: Tensor, offset: Int = Attribute::Int(0)) -> Tensor;
        trace(x: Tensor, offset: Int = Attribute::Int(0)) -> Tensor;
    }
    arrange Movement {
        tile(x: Tensor, repeats: Sizes) -> Tensor;
        swap_axes(x: Tensor, first: Int, second: Int) -> Tensor;
        move_axes(x: Tensor, from: Ints, to: Ints) -> Tensor;
        expand(x: Tensor, shape: Ints) -> Tensor;
        unflatten(x: Tensor, axis: Int, sizes: Ints) -> Tensor;
        atleast_1d(x: Tensor) -> Tensor;
        atleast_2d(x: Tensor) -> Tensor;
        atleast_3d(x: Tensor) -> Tensor;
        hstack(values: Tensors) -> Tensor;
        vstack(values: Tensors) -> Tensor;
        dstack(values: Tensors) -> Tensor;
        tensor_split(x: Tensor, count: Size, axis: Int = Attribute::Int(0)) -> Tensors;
        split_at(x: Tensor, places: Ints, axis: Int = Attribute::Int(0)) -> Tensors;
        unbind(x: Tensor, axis: Int = Attribute::Int(0)) -> Tensors;
        rot90(
            x: Tensor,
            turns: Int = Attribute::Int(1),
            first: Int = Attribute::Int(0),
            second: Int = Attribute::Int(1)
        ) -> Tensor;
        roll_axes(x: Tensor, shifts: Ints, axes: Ints = NO_AXES) -> Tensor;
        meshgrid(values: Tensors, xy: Bool = Attribute::Bool(false)) -> Tensors;
        cross(x: Tensor, y: Tensor, axis: Int = Attribute::Int(-1)) -> Tensor;
        kron(x: Tensor, y: Tensor) -> Tensor;
    }
    scatter Indexing {
        scatter(x: Tensor, axis: Int, ids: Tensor, source: Tensor) -> Tensor;
        scatter_add(x: Tensor, axis: Int, ids: Tensor, source: Tensor) -> Tensor;
        scatter_reduce(
            x: Tensor,
            axis: Int,
            ids: Tensor,
            source: Tensor,
            reduce: ScatterReduce = Attribute::None,
            include_self: Bool = Attribute::Bool(true)
        ) -> Tensor;
        index_add(
            x: Tensor,
            axis: Int,
            ids: Tensor,
            source: Tensor,
            alpha: Scalar = Attribute::Int(1)
        ) -> Tensor;
        index_copy(x: Tensor, axis: Int, ids: Tensor, source: Tensor) -> Tensor;
        index_fill(x: Tensor, axis: Int, ids: Tensor, value: Scalar) -> Tensor;
        masked_fill(x: Tensor, mask: Tensor, value: Scalar) -> Tensor;
        masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor;
        bincount(x: Tensor, weights: OptionalTensor, size: OptionalSize = Attribute::None) -> Tensor;
        histc(
            x: Tensor,
            bins: Size = Attribute::Int(100),
            low: Float = Attribute::Float(0.0),
            high: Float = Attribute::Float(0.0)
        ) -> Tensor;
    }
    dynamic Indexing {
        nonzero(x: Tensor, size: OptionalSize = Attribute::None, fill: Long = Attribute::Int(-1)) -> Tensor;
        argwhere(x: Tensor, size: OptionalSize = Attribute::None) -> Tensor;
        masked_select(
            x: Tensor,
            mask: Tensor,
            size: OptionalSize = Attribute::None,
            fill: Scalar = Attribute::Int(0)
        ) -> Tensor;
        unique(
            x: Tensor,
            axis: OptionalInt = Attribute::None,
            size: OptionalSize = Attribute::None,
            fill: Scalar = Attribute::Int(0)
        ) -> Tensors;
        unique_consecutive(
            x: Tensor,
            axis: OptionalInt = Attribute::None,
            size: OptionalSize = Attribute::None,
            fill: Scalar = Attribute::Int(0)
        ) -> Tensors;
        repeat_counts(x: Tensor, counts: Tensor, axis: Int, size: OptionalSize = Attribute::None) -> Tensor;
    }
    scan Scan {
        cumsum(x: Tensor, axis: Int) -> Tensor;
        cumprod(x: Tensor, axis: Int) -> Tensor;
        cummax(x: Tensor, axis: Int) -> Tensors;
        cummin(x: Tensor, axis: Int) -> Tensors;
        logcumsumexp(x: Tensor, axis: Int) -> Tensor;
        diff(
            x: Tensor,
            before: OptionalTensor,
            after: OptionalTensor,
            times: Size = Attribute::Int(1),
            axis: Int = Attribute::Int(-1)
        ) -> Tensor;
        trapezoid(
            y: Tensor,
            x: OptionalTensor,
            spacing: Float = Attribute::Float(1.0),
            axis: Int = Attribute::Int(-1)
        ) -> Tensor;
        cumulative_trapezoid(
            y: Tensor,
            x: OptionalTensor,
            spacing: Float = Attribute::Float(1.0),
            axis: Int = Attribute::Int(-1)
        ) -> Tensor;
    }
    sort Sorting {
        sort(x: Tensor, axis: Int = Attribute::Int(-1), descending: Bool = Attribute::Bool(false)) -> Tensors;
        argsort(x: Tensor, axis: Int = Attribute::Int(-1), descending: Bool = Attribute::Bool(false)) -> Tensor;
        msort(x: Tensor) -> Tensor;
        topk(
            x: Tensor,
            k: Size,
            axis: Int = Attribute::Int(-1),
            largest: Bool = Attribute::Bool(true),
            sorted: Bool = Attribute::Bool(true)
        ) -> Tensors;
        kthvalue(
            x: Tensor,
            k: Size,
            axis: Int = Attribute::Int(-1),
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensors;
        median(
            x: Tensor,
            axis: OptionalInt = Attribute::None,
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensors;
        nanmedian(
            x: Tensor,
            axis: OptionalInt = Attribute::None,
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensors;
        quantile(
            x: Tensor,
            q: Tensor,
            axis: OptionalInt = Attribute::None,
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        nanquantile(
            x: Tensor,
            q: Tensor,
            axis: OptionalInt = Attribute::None,
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        mode(x: Tensor, axis: Int = Attribute::Int(-1), keepdim: Bool = Attribute::Bool(false)) -> Tensors;
    }
    nn Network {
        softmax(x: Tensor, axis: Int = Attribute::Int(-1)) -> Tensor;
        log_softmax(x: Tensor, axis: Int = Attribute::Int(-1)) -> Tensor;
    }
    attention Network {
        scaled_dot_product_attention(
            query: Tensor,
            key: Tensor,
            value: Tensor,
            is_causal: Bool = Attribute::Bool(false),
            scale: OptionalFloat = Attribute::None,
            past: OptionalTensor,
            attn_mask: OptionalTensor,
            dropout_p: Float = Attribute::Float(0.0),
            dropout_key: OptionalTensor,
            window_left: OptionalInt = Attribute::None,
            window_right: OptionalInt = Attribute::None,
            softcap: OptionalFloat = Attribute::None,
            alibi_slopes: OptionalTensor,
            query_lengths: OptionalTensor,
            key_lengths: OptionalTensor,
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        attention(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            causal: Bool = Attribute::Bool(false),
            scale: OptionalFloat = Attribute::None,
            past: OptionalTensor
        ) -> Tensor;
    }
    multi_head Network {
        multi_head_attention(
            query: Tensor,
            key: Tensor,
            value: Tensor,
            num_heads: Size,
            in_proj_weight: OptionalTensor,
            in_proj_bias: OptionalTensor,
            out_proj_weight: Tensor,
            out_proj_bias: OptionalTensor,
            q_proj_weight: OptionalTensor,
            k_proj_weight: OptionalTensor,
            v_proj_weight: OptionalTensor,
            bias_k: OptionalTensor,
            bias_v: OptionalTensor,
            key_padding_mask: OptionalTensor,
            attn_mask: OptionalTensor,
            add_zero_attn: Bool = Attribute::Bool(false),
            is_causal: Bool = Attribute::Bool(false),
            need_weights: Bool = Attribute::Bool(false),
            average_attn_weights: Bool = Attribute::Bool(true),
            dropout_p: Float = Attribute::Float(0.0),
            dropout_key: OptionalTensor,
            stream: Stream = Attribute::Int(0)
        ) -> Tensors;
    }
    recurrent Network {
        linear_scan(
            a: Tensor,
            x: Tensor,
            initial: OptionalTensor,
            axis: Int = Attribute::Int(-1),
            reverse: Bool = Attribute::Bool(false)
        ) -> Tensor;
        gated_delta_rule(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            log_decay: Tensor,
            beta: Tensor,
            state: OptionalTensor,
            scale: OptionalFloat = Attribute::None,
            chunk: Size = Attribute::Int(64)
        ) -> Tensors;
        linear_attention(
            query: Tensor,
            key: Tensor,
            value: Tensor,
            is_causal: Bool = Attribute::Bool(false),
            normalize: Bool = Attribute::Bool(true)
        ) -> Tensor;
    }
    rnn Network {
        lstm_cell(
            x: Tensor,
            h: Tensor,
            c: Tensor,
            weight_ih: Tensor,
            weight_hh: Tensor,
            bias_ih: OptionalTensor,
            bias_hh: OptionalTensor
        ) -> Tensors;
        gru_cell(
            x: Tensor,
            h: Tensor,
            weight_ih: Tensor,
            weight_hh: Tensor,
            bias_ih: OptionalTensor,
            bias_hh: OptionalTensor
        ) -> Tensor;
        rnn_tanh_cell(
            x: Tensor,
            h: Tensor,
            weight_ih: Tensor,
            weight_hh: Tensor,
            bias_ih: OptionalTensor,
            bias_hh: OptionalTensor
        ) -> Tensor;
        rnn_relu_cell(
            x: Tensor,
            h: Tensor,
            weight_ih: Tensor,
            weight_hh: Tensor,
            bias_ih: OptionalTensor,
            bias_hh: OptionalTensor
        ) -> Tensor;
        lstm(
            x: Tensor,
            h0: OptionalTensor,
            c0: OptionalTensor,
            dropout_key: OptionalTensor,
            weights: Tensors,
            has_biases: Bool = Attribute::Bool(true),
            num_layers: Size = Attribute::Int(1),
            bidirectional: Bool = Attribute::Bool(false),
            batch_first: Bool = Attribute::Bool(false),
            dropout: Float = Attribute::Float(0.0),
            stream: Stream = Attribute::Int(0)
        ) -> Tensors;
        gru(
            x: Tensor,
            h0: OptionalTensor,
            dropout_key: OptionalTensor,
            weights: Tensors,
            has_biases: Bool = Attribute::Bool(true),
            num_layers: Size = Attribute::Int(1),
            bidirectional: Bool = Attribute::Bool(false),
            batch_first: Bool = Attribute::Bool(false),
            dropout: Float = Attribute::Float(0.0),
            stream: Stream = Attribute::Int(0)
        ) -> Tensors;
        rnn_tanh(
            x: Tensor,
            h0: OptionalTensor,
            dropout_key: OptionalTensor,
            weights: Tensors,
            has_biases: Bool = Attribute::Bool(true),
            num_layers: Size = Attribute::Int(1),
            bidirectional: Bool = Attribute::Bool(false),
            batch_first: Bool = Attribute::Bool(false),
            dropout: Float = Attribute::Float(0.0),
            stream: Stream = Attribute::Int(0)
        ) -> Tensors;
        rnn_relu(
            x: Tensor,
            h0: OptionalTensor,
            dropout_key: OptionalTensor,
            weights: Tensors,
            has_biases: Bool = Attribute::Bool(true),
            num_layers: Size = Attribute::Int(1),
            bidirectional: Bool = Attribute::Bool(false),
            batch_first: Bool = Attribute::Bool(false),
            dropout: Float = Attribute::Float(0.0),
            stream: Stream = Attribute::Int(0)
        ) -> Tensors;
    }
    loss Loss {
        mse_loss(x: Tensor, y: Tensor, reduction: Reduction = Attribute::None) -> Tensor;
        l1_loss(x: Tensor, y: Tensor, reduction: Reduction = Attribute::None) -> Tensor;
        huber_loss(
            x: Tensor,
            y: Tensor,
            delta: Float = Attribute::Float(1.0),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        smooth_l1_loss(
            x: Tensor,
            y: Tensor,
            beta: Float = Attribute::Float(1.0),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        binary_cross_entropy(
            x: Tensor,
            targets: Tensor,
            weight: OptionalTensor,
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        binary_cross_entropy_with_logits(
            logits: Tensor,
            targets: Tensor,
            reduction: Reduction = Attribute::None,
            weight: OptionalTensor,
            pos_weight: OptionalTensor
        ) -> Tensor;
        hinge_loss(x: Tensor, targets: Tensor, reduction: Reduction = Attribute::None) -> Tensor;
        soft_margin_loss(x: Tensor, targets: Tensor, reduction: Reduction = Attribute::None) -> Tensor;
        hinge_embedding_loss(
            x: Tensor,
            targets: Tensor,
            margin: Float = Attribute::Float(1.0),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        poisson_nll_loss(
            x: Tensor,
            targets: Tensor,
            log_input: Bool = Attribute::Bool(true),
            full: Bool = Attribute::Bool(false),
            eps: Float = Attribute::Float(1e-8),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        gaussian_nll_loss(
            x: Tensor,
            targets: Tensor,
            variance: Tensor,
            full: Bool = Attribute::Bool(false),
            eps: Float = Attribute::Float(1e-6),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        quantile_loss(
            x: Tensor,
            targets: Tensor,
            quantiles: Tensor,
            reduction: Reduction = Attribute::None
        ) -> Tensor;
    }
    class_loss Loss {
        cross_entropy(
            logits: Tensor,
            targets: Tensor,
            reduction: Reduction = Attribute::None,
            ignore: OptionalInt = Attribute::None,
            weight: OptionalTensor,
            label_smoothing: Float = Attribute::Float(0.0),
            axis: Int = Attribute::Int(-1)
        ) -> Tensor;
        nll_loss(
            x: Tensor,
            targets: Tensor,
            reduction: Reduction = Attribute::None,
            ignore: OptionalInt = Attribute::None,
            weight: OptionalTensor,
            axis: Int = Attribute::Int(-1)
        ) -> Tensor;
        kl_div(
            x: Tensor,
            targets: Tensor,
            reduction: Reduction = Attribute::None,
            log_target: Bool = Attribute::Bool(false)
        ) -> Tensor;
        multilabel_soft_margin_loss(
            logits: Tensor,
            targets: Tensor,
            weight: OptionalTensor,
            reduction: Reduction = Attribute::None
        ) -> Tensor;
    }
    similarity Loss {
        cosine_similarity(
            x: Tensor,
            y: Tensor,
            axis: Int = Attribute::Int(1),
            eps: Float = Attribute::Float(1e-8)
        ) -> Tensor;
        pairwise_distance(
            x: Tensor,
            y: Tensor,
            p: Float = Attribute::Float(2.0),
            eps: Float = Attribute::Float(1e-6),
            keepdim: Bool = Attribute::Bool(false)
        ) -> Tensor;
        cosine_embedding_loss(
            x: Tensor,
            y: Tensor,
            targets: Tensor,
            margin: Float = Attribute::Float(0.0),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        margin_ranking_loss(
            x: Tensor,
            y: Tensor,
            targets: Tensor,
            margin: Float = Attribute::Float(0.0),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
        triplet_margin_loss(
            anchor: Tensor,
            positive: Tensor,
            negative: Tensor,
            margin: Float = Attribute::Float(1.0),
            p: Float = Attribute::Float(2.0),
            eps: Float = Attribute::Float(1e-6),
            swap: Bool = Attribute::Bool(false),
            reduction: Reduction = Attribute::None
        ) -> Tensor;
    }
    random Random {
        uniform(
            key: Tensor,
            shape: Sizes,
            low: Float = Attribute::Float(0.0),
            high: Float = Attribute::Float(1.0),
            dtype: DType = Attribute::DType(DType::F32),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        normal(
            key: Tensor,
            shape: Sizes,
            mean: Float = Attribute::Float(0.0),
            std: Float = Attribute::Float(1.0),
            dtype: DType = Attribute::DType(DType::F32),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        bernoulli(key: Tensor, shape: Sizes, p: Float, stream: Stream = Attribute::Int(0)) -> Tensor;
        dropout(x: Tensor, p: Float, key: Tensor, stream: Stream = Attribute::Int(0)) -> Tensor;
        bernoulli_like(key: Tensor, p: Tensor, stream: Stream = Attribute::Int(0)) -> Tensor;
        uniform_like(
            key: Tensor,
            x: Tensor,
            low: Float = Attribute::Float(0.0),
            high: Float = Attribute::Float(1.0),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        normal_like(
            key: Tensor,
            x: Tensor,
            mean: Float = Attribute::Float(0.0),
            std: Float = Attribute::Float(1.0),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        random_bits(
            key: Tensor,
            shape: Sizes,
            dtype: DType = Attribute::DType(DType::U32),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        randint(
            key: Tensor,
            shape: Sizes,
            low: Scalar,
            high: Scalar,
            dtype: DType = Attribute::DType(DType::I64),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        exponential(
            key: Tensor,
            shape: Sizes,
            rate: Float = Attribute::Float(1.0),
            dtype: DType = Attribute::DType(DType::F32),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        gumbel(
            key: Tensor,
            shape: Sizes,
            dtype: DType = Attribute::DType(DType::F32),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        truncated_normal(
            key: Tensor,
            shape: Sizes,
            mean: Float = Attribute::Float(0.0),
            std: Float = Attribute::Float(1.0),
            low: Float = Attribute::Float(-2.0),
            high: Float = Attribute::Float(2.0),
            dtype: DType = Attribute::DType(DType::F32),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        categorical(
            key: Tensor,
            logits: Tensor,
            samples: OptionalSize = Attribute::None,
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        multinomial(
            key: Tensor,
            weights: Tensor,
            samples: Size,
            replacement: Bool = Attribute::Bool(false),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        randperm(key: Tensor, n: Size, stream: Stream = Attribute::Int(0)) -> Tensor;
        permutation(
            key: Tensor,
            x: Tensor,
            axis: Int = Attribute::Int(0),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
    }
    sampling Random {
        sample_logits(
            logits: Tensor,
            key: Tensor,
            temperature: Float = Attribute::Float(1.0),
            top_k: Size = Attribute::Int(0),
            keepdim: Bool = Attribute::Bool(false),
            stream: Stream = Attribute::Int(0)
        ) -> Tensor;
        threefry(x: Tensor, key: Tensor) -> Tensor;
    }
    control State {
        stop_gradient(x: Tensor) -> Tensor;
    }
    paged State {
        paged_update(
            pool: Tensor,
            rows: Tensor,
            tables: Tensor,
            starts: Tensor,
            counts: Tensor
        ) -> Tensor;
        paged_attention(
            q: Tensor,
            keys: Tensor,
            values: Tensor,
            tables: Tensor,
            starts: Tensor,
            counts: Tensor,
            key_scales: OptionalTensor,
            value_scales: OptionalTensor,
            scale: OptionalFloat = Attribute::None,
            window: OptionalSize = Attribute::None
        ) -> Tensor;
    }
    state State {
        update_slice(base: Tensor, source: Tensor, start: Tensor, axis: Int) -> Tensor;
        adamw(
            parameter: Tensor,
            grad: Tensor,
            m: Tensor,
            v: Tensor,
            lr: Tensor,
            bias1: Tensor,
            bias2: Tensor,
            beta1: Float = Attribute::Float(0.9),
            beta2: Float = Attribute::Float(0.999),
            eps: Float = Attribute::Float(1e-8),
            weight_decay: Float = Attribute::Float(0.01)
        ) -> Tensors;
        sgd(
            parameter: Tensor,
            grad: Tensor,
            lr: Tensor,
            velocity: OptionalTensor,
            gain: OptionalTensor,
            momentum: Float = Attribute::Float(0.0),
            nesterov: Bool = Attribute::Bool(false),
            weight_decay: Float = Attribute::Float(0.0)
        ) -> Tensors;
        adam(
            parameter: Tensor,
            grad: Tensor,
            m: Tensor,
            v: Tensor,
            lr: Tensor,
            bias1: Tensor,
            bias2: Tensor,
            beta1: Float = Attribute::Float(0.9),
            beta2: Float = Attribute::Float(0.999),
            eps: Float = Attribute::Float(1e-8),
            weight_decay: Float = Attribute::Float(0.0)
        ) -> Tensors;
        lion(
            parameter: Tensor,
            grad: Tensor,
            m: Tensor,
            lr: Tensor,
            beta1: Float = Attribute::Float(0.9),
            beta2: Float = Attribute::Float(0.99),
            weight_decay: Float = Attribute::Float(0.0)
        ) -> Tensors;
        global_norm(tensors: Tensors) -> Tensor;
        clip_by_norm(norm: Tensor, tensors: Tensors, limit: Float) -> Tensors;
    }
    layerwise State {
        lars(
            parameter: Tensor,
            grad: Tensor,
            lr: Tensor,
            velocity: OptionalTensor,
            momentum: Float = Attribute::Float(0.0),
            nesterov: Bool = Attribute::Bool(false),
            weight_decay: Float = Attribute::Float(0.0001),
            trust: Float = Attribute::Float(0.001)
        ) -> Tensors;
        lamb(
            parameter: Tensor,
            grad: Tensor,
            m: Tensor,
            v: Tensor,
            lr: Tensor,
            bias1: Tensor,
            bias2: Tensor,
            beta1: Float = Attribute::Float(0.9),
            beta2: Float = Attribute::Float(0.999),
            eps: Float = Attribute::Float(1e-6),
            weight_decay: Float = Attribute::Float(0.0)
        ) -> Tensors;
        muon(
            parameter: Tensor,
            grad: Tensor,
            velocity: Tensor,
            lr: Tensor,
            momentum: Float = Attribute::Float(0.95),
            nesterov: Bool = Attribute::Bool(true),
            weight_decay: Float = Attribute::Float(0.1),
            steps: Size = Attribute::Int(5),
            eps: Float = Attribute::Float(1e-7)
        ) -> Tensors;
    }
    padding Movement {
        pad(x: Tensor, low: Ints, high: Ints, value: Scalar = Attribute::Int(0)) -> Tensor;
        reflection_pad(x: Tensor, low: Ints, high: Ints) -> Tensor;
        replication_pad(x: Tensor, low: Ints, high: Ints) -> Tensor;
        circular_pad(x: Tensor, low: Ints, high: Ints) -> Tensor;
    }
    window Window {
        sliding_window(
            x: Tensor,
            axis: Int,
            size: Size,
            step: Size = Attribute::Int(1),
            dilation: Size = Attribute::Int(1)
        ) -> Tensor;
        unfold(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES
        ) -> Tensor;
        fold_(
            x: Tensor,
            size: Sizes,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES
        ) -> Tensor;
    }
    convolution Window {
        conv1d(
            x: Tensor,
            weight: Tensor,
            bias: OptionalTensor,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            groups: Size = Attribute::Int(1),
            same: Bool = Attribute::Bool(false)
        ) -> Tensor;
        conv2d(
            x: Tensor,
            weight: Tensor,
            bias: OptionalTensor,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            groups: Size = Attribute::Int(1),
            same: Bool = Attribute::Bool(false)
        ) -> Tensor;
        conv3d(
            x: Tensor,
            weight: Tensor,
            bias: OptionalTensor,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            groups: Size = Attribute::Int(1),
            same: Bool = Attribute::Bool(false)
        ) -> Tensor;
        conv_transpose1d(
            x: Tensor,
            weight: Tensor,
            bias: OptionalTensor,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            output_padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            groups: Size = Attribute::Int(1)
        ) -> Tensor;
        conv_transpose2d(
            x: Tensor,
            weight: Tensor,
            bias: OptionalTensor,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            output_padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            groups: Size = Attribute::Int(1)
        ) -> Tensor;
        conv_transpose3d(
            x: Tensor,
            weight: Tensor,
            bias: OptionalTensor,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            output_padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            groups: Size = Attribute::Int(1)
        ) -> Tensor;
        short_conv1d(x: Tensor, weight: Tensor, state: OptionalTensor) -> Tensors;
    }
    pool Window {
        max_pool1d(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensor;
        max_pool2d(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensor;
        max_pool3d(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensor;
        max_pool1d_with_indices(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensors;
        max_pool2d_with_indices(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensors;
        max_pool3d_with_indices(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            dilation: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensors;
        avg_pool1d(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false),
            count_include_pad: Bool = Attribute::Bool(true),
            divisor: OptionalInt = Attribute::None
        ) -> Tensor;
        avg_pool2d(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false),
            count_include_pad: Bool = Attribute::Bool(true),
            divisor: OptionalInt = Attribute::None
        ) -> Tensor;
        avg_pool3d(
            x: Tensor,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            padding: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false),
            count_include_pad: Bool = Attribute::Bool(true),
            divisor: OptionalInt = Attribute::None
        ) -> Tensor;
        lp_pool1d(
            x: Tensor,
            p: Float,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensor;
        lp_pool2d(
            x: Tensor,
            p: Float,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensor;
        lp_pool3d(
            x: Tensor,
            p: Float,
            kernel: Sizes,
            stride: Sizes = NO_AXES,
            ceil_mode: Bool = Attribute::Bool(false)
        ) -> Tensor;
    }
    adaptive Window {
        adaptive_avg_pool1d(x: Tensor, size: Sizes) -> Tensor;
        adaptive_avg_pool2d(x: Tensor, size: Sizes) -> Tensor;
        adaptive_avg_pool3d(x: Tensor, size: Sizes) -> Tensor;
        adaptive_max_pool1d(x: Tensor, size: Sizes) -> Tensor;
        adaptive_max_pool2d(x: Tensor, size: Sizes) -> Tensor;
        adaptive_max_pool3d(x: Tensor, size: Sizes) -> Tensor;
        adaptive_max_pool1d_with_indices(x: Tensor, size: Sizes) -> Tensors;
        adaptive_max_pool2d_with_indices(x: Tensor, size: Sizes) -> Tensors;
        adaptive_max_pool3d_with_indices(x: Tensor, size: Sizes) -> Tensors;
        global_avg_pool(x: Tensor) -> Tensor;
        global_max_pool(x: Tensor) -> Tensor;
    }
    resample Window {
        interpolate(
            x: Tensor,
            size: Sizes = NO_AXES,
            scale: OptionalFloat = Attribute::None,
            mode: Interpolation = Attribute::None,
            align_corners: Bool = Attribute::Bool(false)
        ) -> Tensor;
        pixel_shuffle(x: Tensor, factor: Size) -> Tensor;
        pixel_unshuffle(x: Tensor, factor: Size) -> Tensor;
        channel_shuffle(x: Tensor, groups: Size) -> Tensor;
    }
    grid Window {
        affine_grid(theta: Tensor, size: Sizes, align_corners: Bool = Attribute::Bool(false)) -> Tensor;
        grid_sample(
            x: Tensor,
            grid: Tensor,
            mode: Interpolation,
            padding: GridPadding = Attribute::None,
            align_corners: Bool = Attribute::Bool(false)
        ) -> Tensor;
        max_unpool1d(x: Tensor, indices: Tensor, size: Sizes) -> Tensor;
        max_unpool2d(x: Tensor, indices: Tensor, size: Sizes) -> Tensor;
        max_unpool3d(x: Tensor, indices: Tensor, size: Sizes) -> Tensor;
    }
    normalization Network {
        layer_norm(
            x: Tensor,
            weight: OptionalTensor,
            bias: OptionalTensor,
            eps: Float = Attribute::Float(1e-5)
        ) -> Tensor;
        rms_norm(x: Tensor, weight: OptionalTensor, eps: Float = Attribute::Float(1e-6)) -> Tensor;
        group_norm(
            x: Tensor,
            groups: Size,
            weight: OptionalTensor,
            bias: OptionalTensor,
            eps: Float = Attribute::Float(1e-5)
        ) -> Tensor;
        instance_norm(
            x: Tensor,
            weight: OptionalTensor,
            bias: OptionalTensor,
            eps: Float = Attribute::Float(1e-5)
        ) -> Tensor;
        batch_norm(
            x: Tensor,
            weight: OptionalTensor,
            bias: OptionalTensor,
            running_mean: Tensor,
            running_var: Tensor,
            training: Bool = Attribute::Bool(false),
            momentum: Float = Attribute::Float(0.1),
            eps: Float = Attribute::Float(1e-5)
        ) -> Tensors;
        local_response_norm(
            x: Tensor,
            size: Size,
            alpha: Float = Attribute::Float(1e-4),
            beta: Float = Attribute::Float(0.75),
            k: Float = Attribute::Float(1.0)
        ) -> Tensor;
        normalize(
            x: Tensor,
            p: Float = Attribute::Float(2.0),
            axis: Int = Attribute::Int(1),
            eps: Float = Attribute::Float(1e-12)
        ) -> Tensor;
        weight_norm(v: Tensor, g: Tensor, axis: Int = Attribute::Int(0)) -> Tensor;
    }
    position Network {
        rotary_embedding(
            x: Tensor,
            positions: OptionalTensor,
            theta: Float = Attribute::Float(10000.0),
            interleaved: Bool = Attribute::Bool(false),
            axis: Int = Attribute::Int(-2),
            width: OptionalInt = Attribute::None,
            factor: OptionalFloat = Attribute::None,
            low: Float = Attribute::Float(1.0),
            high: Float = Attribute::Float(4.0),
            context: Size = Attribute::Int(8192),
            inverse: Bool = Attribute::Bool(false)
        ) -> Tensor;
        position_embedding(table: Tensor, offset: OptionalTensor, length: Size) -> Tensor;
        sinusoidal_positions(
            length: Size,
            width: Size,
            theta: Float = Attribute::Float(10000.0),
            dtype: DType = Attribute::DType(DType::F32)
        ) -> Tensor;
        alibi_slopes(heads: Size, dtype: DType = Attribute::DType(DType::F32)) -> Tensor;
    }
    quantized Network {
        dequantize(blocks: Tensor, encoding: Encoding) -> Tensor;
        quantized_linear(x: Tensor, blocks: Tensor, encoding: Encoding) -> Tensor;
    }
    dropout Random {
        alpha_dropout(x: Tensor, p: Float, key: Tensor, stream: Stream = Attribute::Int(0)) -> Tensor;
        feature_dropout(x: Tensor, p: Float, key: Tensor, stream: Stream = Attribute::Int(0)) -> Tensor;
        feature_alpha_dropout(x: Tensor, p: Float, key: Tensor, stream: Stream = Attribute::Int(0)) -> Tensor;
    }
} };
}
each_op!(ops);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lazy, TensorType, Value};

    #[test]
    fn every_public_op_is_in_the_table() {
        let mut defined = Vec::new();
        for (module, source) in SOURCES {
            for line in source.lines() {
                let function = line.strip_prefix("pub fn ").and_then(|rest| rest.split_once("<B: Builder>"));
                let generated = line.strip_prefix("    ").and_then(|rest| rest.split_once(" => "));
                let generated =
                    generated.filter(|(name, variant)| is_identifier(name) && variant.ends_with(';'));
                if let Some((name, _)) = function.or(generated) {
                    defined.push((*module, name));
                }
            }
        }
        assert!(defined.len() > 100, "the sources were not read: {defined:?}");
        let listed: Vec<_> = OPS.iter().map(|op| (op.module, op.function)).collect();
        for op in &defined {
            assert!(listed.contains(op), "{op:?} is missing from the table");
        }
        assert_eq!(defined.len(), listed.len(), "an op is listed twice");
    }

    #[test]
    fn every_module_of_ops_is_in_the_table() {
        for line in include_str!("mod.rs").lines() {
            if let Some(module) = line.strip_prefix("pub use ").and_then(|l| l.strip_suffix("::*;")) {
                assert!(SOURCES.iter().any(|(name, _)| *name == module), "{module} is missing");
            }
        }
    }

    fn is_identifier(name: &str) -> bool {
        name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    }

    #[test]
    fn words_and_views_are_those_of_the_table() {
        for name in VIEWS {
            let op = &OPS[id_of(name).unwrap()];
            let moves = matches!(op.category, Category::Movement | Category::Window);
            assert!(moves && op.parameters[0].kind == Kind::Tensor, "{name}");
        }
        let (x, y) = (leaf(&[2]), leaf(&[2]));
        for word in Kind::Reduction.words() {
            call(&Lazy, "mse_loss", &[x.clone(), y.clone()], &[Attribute::Text((*word).into())]).unwrap();
        }
        for word in Kind::GeluApproximate.words() {
            call(&Lazy, "gelu", &[x.clone()], &[Attribute::Text((*word).into())]).unwrap();
        }
        let image = leaf(&[1, 1, 3, 3]);
        for word in Kind::Interpolation.words() {
            let attributes = [Attribute::Ints(vec![2]), Attribute::None, Attribute::Text((*word).into())];
            call(&Lazy, "interpolate", &[image.clone()], &attributes).unwrap();
        }
        let grid = leaf(&[1, 2, 2, 2]);
        for word in Kind::GridPadding.words() {
            let attributes = ["nearest", *word].map(|word| Attribute::Text(word.into()));
            call(&Lazy, "grid_sample", &[image.clone(), grid.clone()], &attributes).unwrap();
        }
    }

    #[test]
    fn every_op_has_docs() {
        for op in OPS {
            assert!(!op.docs().is_empty(), "{} has no docs", op.name);
        }
        let op = &OPS[id_of("where").unwrap()];
        assert_eq!(op.docs(), "`x` where `condition`, else `y`; all three broadcast.");
    }

    fn call(
        b: &Lazy,
        name: &str,
        tensors: &[Option<Value>],
        attributes: &[Attribute],
    ) -> Result<Outputs<Value>> {
        let tensors: Vec<Option<&Value>> = tensors.iter().map(Option::as_ref).collect();
        super::call(b, name, &tensors, attributes)
    }

    fn leaf(shape: &[usize]) -> Option<Value> {
        Some(Value::leaf(TensorType::new(DType::F32, shape)).unwrap())
    }

    #[test]
    fn calls_by_name_take_defaults() {
        let x = leaf(&[2, 3]);
        let out = call(&Lazy, "sum", std::slice::from_ref(&x), &[]).unwrap();
        assert_eq!(out[0].ty().rank(), 0);
        let axes = [Attribute::Ints(vec![-1]), Attribute::Bool(true)];
        assert_eq!(&call(&Lazy, "sum", std::slice::from_ref(&x), &axes).unwrap()[0].ty().shape[..], &[2, 1]);
        let joined = call(&Lazy, "concat", &[x.clone(), x.clone(), x.clone()], &[]).unwrap();
        assert_eq!(&joined[0].ty().shape[..], &[6, 3]);
        let parts =
            call(&Lazy, "chunk", std::slice::from_ref(&x), &[Attribute::Int(3), Attribute::Int(1)]).unwrap();
        assert_eq!(parts.len(), 3);
        let normed = call(&Lazy, "layer_norm", &[x.clone(), None, leaf(&[3])], &[]).unwrap();
        assert_eq!(normed[0].ty(), x.as_ref().unwrap().ty());
    }

    #[test]
    fn calls_by_name_say_what_is_wrong() {
        let x = leaf(&[2, 3]);
        let fails = |name: &str, tensors: &[Option<Value>], attributes: &[Attribute]| {
            call(&Lazy, name, tensors, attributes).unwrap_err().to_string()
        };
        assert_eq!(fails("frobnicate", &[], &[]), "frobnicate: there is no op of this name");
        assert_eq!(fails("add", std::slice::from_ref(&x), &[]), "add: the tensor y is missing");
        assert_eq!(fails("neg", &[x.clone(), x.clone()], &[]), "neg: takes 1 tensors, got 2");
        assert_eq!(
            fails("sum", std::slice::from_ref(&x), &[Attribute::Bool(true)]),
            "sum: axes is true, expected a list of integers"
        );
        assert_eq!(
            fails("mse_loss", &[x.clone(), x.clone()], &[Attribute::Text("median".into())]),
            "mse_loss: reduction is \"median\", expected one of \"mean\", \"sum\", \"none\""
        );
    }
}
