//! Arguments of a call by name: checked against the table, then handed on in Rust's own types.

use std::fmt;

use super::table::{Kind, Op, Parameter};
use super::{
    Encoding, GeluApproximate, GridPadding, Interpolation, MatrixNorm, QrMode, Reduction, ScatterReduce,
    Triangle,
};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;

/// An argument that is not a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// No value: the default, if there is one.
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Ints(Vec<i64>),
    DType(DType),
    Text(String),
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::None => f.write_str("absent"),
            Attribute::Bool(v) => write!(f, "{v}"),
            Attribute::Int(v) => write!(f, "{v}"),
            Attribute::Float(v) => write!(f, "{v:?}"),
            Attribute::Ints(v) => {
                let list: Vec<String> = v.iter().map(i64::to_string).collect();
                write!(f, "[{}]", list.join(", "))
            }
            Attribute::DType(v) => write!(f, "{v}"),
            Attribute::Text(v) => write!(f, "{v:?}"),
        }
    }
}

/// Reads the arguments of one call in the order of the op's parameters.
pub(super) struct Arguments<'a, V> {
    op: &'a Op,
    parameters: std::slice::Iter<'static, Parameter>,
    tensors: std::slice::Iter<'a, Option<&'a V>>,
    attributes: std::slice::Iter<'a, Attribute>,
}

impl<'a, V: Clone> Arguments<'a, V> {
    /// Checks the counts.
    pub fn new(op: &'a Op, tensors: &'a [Option<&'a V>], attributes: &'a [Attribute]) -> Result<Self> {
        let (mut all, mut of_tensors, mut is_open) = (0, 0, false);
        for parameter in op.parameters {
            all += 1;
            of_tensors += usize::from(parameter.kind.is_tensor());
            is_open |= parameter.kind == Kind::Tensors;
        }
        let excess = |what: &str, most: usize, given: usize| {
            Err(Error::shape(op.name, format!("takes {most} {what}, got {given}")))
        };
        if tensors.len() > of_tensors && !is_open {
            return excess("tensors", of_tensors, tensors.len());
        }
        if attributes.len() > all - of_tensors {
            return excess("attributes", all - of_tensors, attributes.len());
        }
        Ok(Arguments {
            op,
            parameters: op.parameters.iter(),
            tensors: tensors.iter(),
            attributes: attributes.iter(),
        })
    }

    fn name(&mut self) -> &'static str {
        self.parameters.next().map_or("argument", |p| p.name)
    }

    pub fn tensor(&mut self) -> Result<&'a V> {
        let name = self.name();
        match self.tensors.next() {
            Some(&Some(value)) => Ok(value),
            _ => Err(Error::shape(self.op.name, format!("the tensor {name} is missing"))),
        }
    }

    pub fn optional_tensor(&mut self) -> Option<&'a V> {
        self.name();
        self.tensors.next().copied().flatten()
    }

    pub fn tensors(&mut self) -> Result<Vec<V>> {
        let name = self.name();
        self.tensors
            .by_ref()
            .map(|value| {
                let missing = || Error::shape(self.op.name, format!("one of the tensors {name} is missing"));
                value.cloned().ok_or_else(missing)
            })
            .collect()
    }

    /// The next attribute through `read`, which says `None` for a value of another kind.
    pub fn attribute<T>(&mut self, read: impl Fn(&Attribute) -> Option<T>) -> Result<T> {
        let parameter = self.parameters.next();
        let given = self.attributes.next().filter(|a| **a != Attribute::None);
        let value = given.or_else(|| parameter.and_then(|p| p.default.as_ref()));
        let (name, kind) = parameter.map_or(("argument", Kind::Int), |p| (p.name, p.kind));
        match value {
            Some(value) => read(value)
                .ok_or_else(|| Error::argument(self.op.name, format!("{name} is {value}, expected {kind}"))),
            None => Err(Error::shape(self.op.name, format!("the argument {name} is missing"))),
        }
    }
}

pub(super) fn int(attribute: &Attribute) -> Option<isize> {
    match attribute {
        Attribute::Int(v) => isize::try_from(*v).ok(),
        _ => None,
    }
}

pub(super) fn int64(attribute: &Attribute) -> Option<i64> {
    match attribute {
        Attribute::Int(v) => Some(*v),
        _ => None,
    }
}

pub(super) fn ints(attribute: &Attribute) -> Option<Vec<isize>> {
    match attribute {
        Attribute::Ints(v) => v.iter().map(|&v| isize::try_from(v).ok()).collect(),
        _ => None,
    }
}

pub(super) fn size(attribute: &Attribute) -> Option<usize> {
    match attribute {
        Attribute::Int(v) => usize::try_from(*v).ok(),
        _ => None,
    }
}

pub(super) fn sizes(attribute: &Attribute) -> Option<Vec<usize>> {
    match attribute {
        Attribute::Ints(v) => v.iter().map(|&v| usize::try_from(v).ok()).collect(),
        _ => None,
    }
}

pub(super) fn float(attribute: &Attribute) -> Option<f64> {
    match attribute {
        Attribute::Float(v) => Some(*v),
        Attribute::Int(v) => Some(*v as f64),
        _ => None,
    }
}

pub(super) fn boolean(attribute: &Attribute) -> Option<bool> {
    match attribute {
        Attribute::Bool(v) => Some(*v),
        _ => None,
    }
}

pub(super) fn scalar(attribute: &Attribute) -> Option<Scalar> {
    match attribute {
        Attribute::Float(v) => Some(Scalar::float(*v)),
        Attribute::Int(v) => Some(Scalar::Int(*v)),
        Attribute::Bool(v) => Some(Scalar::Bool(*v)),
        _ => None,
    }
}

pub(super) fn dtype(attribute: &Attribute) -> Option<DType> {
    match attribute {
        Attribute::DType(v) => Some(*v),
        _ => None,
    }
}

pub(super) fn reduction(attribute: &Attribute) -> Option<Reduction> {
    match attribute {
        Attribute::None => Some(Reduction::default()),
        Attribute::Text(v) => match v.as_str() {
            "mean" => Some(Reduction::Mean),
            "sum" => Some(Reduction::Sum),
            "none" => Some(Reduction::None),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn gelu_approximate(attribute: &Attribute) -> Option<GeluApproximate> {
    match attribute {
        Attribute::None => Some(GeluApproximate::default()),
        Attribute::Text(v) => match v.as_str() {
            "none" => Some(GeluApproximate::None),
            "tanh" => Some(GeluApproximate::Tanh),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn scatter_reduce(attribute: &Attribute) -> Option<ScatterReduce> {
    match attribute {
        Attribute::None => Some(ScatterReduce::default()),
        Attribute::Text(v) => match v.as_str() {
            "sum" => Some(ScatterReduce::Sum),
            "prod" => Some(ScatterReduce::Prod),
            "mean" => Some(ScatterReduce::Mean),
            "amax" => Some(ScatterReduce::Amax),
            "amin" => Some(ScatterReduce::Amin),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn text(attribute: &Attribute) -> Option<String> {
    match attribute {
        Attribute::Text(v) => Some(v.clone()),
        _ => None,
    }
}

pub(super) fn qr_mode(attribute: &Attribute) -> Option<QrMode> {
    match attribute {
        Attribute::None => Some(QrMode::default()),
        Attribute::Text(v) => QrMode::from_word(v),
        _ => None,
    }
}

pub(super) fn triangle(attribute: &Attribute) -> Option<Triangle> {
    match attribute {
        Attribute::None => Some(Triangle::default()),
        Attribute::Text(v) => Triangle::from_word(v),
        _ => None,
    }
}

pub(super) fn matrix_norm(attribute: &Attribute) -> Option<MatrixNorm> {
    match attribute {
        Attribute::None => Some(MatrixNorm::default()),
        Attribute::Text(v) => MatrixNorm::from_word(v),
        _ => None,
    }
}

pub(super) fn interpolation(attribute: &Attribute) -> Option<Interpolation> {
    match attribute {
        Attribute::None => Some(Interpolation::default()),
        Attribute::Text(v) => Interpolation::of(v),
        _ => None,
    }
}

pub(super) fn grid_padding(attribute: &Attribute) -> Option<GridPadding> {
    match attribute {
        Attribute::None => Some(GridPadding::default()),
        Attribute::Text(v) => GridPadding::of(v),
        _ => None,
    }
}

pub(super) fn encoding(attribute: &Attribute) -> Option<Encoding> {
    match attribute {
        Attribute::Text(v) => Encoding::from_name(v).filter(|encoding| encoding.is_packed()),
        _ => None,
    }
}

/// `read` for a parameter that may be absent.
pub(super) fn optional<T>(
    read: impl Fn(&Attribute) -> Option<T>,
) -> impl Fn(&Attribute) -> Option<Option<T>> {
    move |attribute| match attribute {
        Attribute::None => Some(None),
        other => read(other).map(Some),
    }
}

/// The next argument, as the op's function takes it.
macro_rules! take {
    ($arguments:ident, Tensor) => {
        $arguments.tensor()?
    };
    ($arguments:ident, OptionalTensor) => {
        $arguments.optional_tensor()
    };
    ($arguments:ident, Tensors) => {
        &$arguments.tensors()?
    };
    ($arguments:ident, Int) => {
        $arguments.attribute(super::arguments::int)?
    };
    ($arguments:ident, Ints) => {
        &$arguments.attribute(super::arguments::ints)?
    };
    ($arguments:ident, OptionalInt) => {
        $arguments
            .attribute(super::arguments::optional(super::arguments::int64))?
            .map(super::arguments::convert)
            .transpose()?
    };
    ($arguments:ident, Size) => {
        $arguments.attribute(super::arguments::size)?
    };
    ($arguments:ident, Sizes) => {
        &$arguments.attribute(super::arguments::sizes)?
    };
    ($arguments:ident, Stream) => {
        $arguments.attribute(super::arguments::int64)? as u64
    };
    ($arguments:ident, Float) => {
        $arguments.attribute(super::arguments::float)?
    };
    ($arguments:ident, OptionalFloat) => {
        $arguments.attribute(super::arguments::optional(super::arguments::float))?
    };
    ($arguments:ident, Bool) => {
        $arguments.attribute(super::arguments::boolean)?
    };
    ($arguments:ident, Scalar) => {
        $arguments.attribute(super::arguments::scalar)?
    };
    ($arguments:ident, OptionalScalar) => {
        $arguments.attribute(super::arguments::optional(super::arguments::scalar))?
    };
    ($arguments:ident, DType) => {
        $arguments.attribute(super::arguments::dtype)?
    };
    ($arguments:ident, Reduction) => {
        $arguments.attribute(super::arguments::reduction)?
    };
    ($arguments:ident, GeluApproximate) => {
        $arguments.attribute(super::arguments::gelu_approximate)?
    };
    ($arguments:ident, ScatterReduce) => {
        $arguments.attribute(super::arguments::scatter_reduce)?
    };
    ($arguments:ident, OptionalSize) => {
        $arguments.attribute(super::arguments::optional(super::arguments::size))?
    };
    ($arguments:ident, Long) => {
        $arguments.attribute(super::arguments::int64)?
    };
    ($arguments:ident, Text) => {
        &$arguments.attribute(super::arguments::text)?
    };
    ($arguments:ident, QrMode) => {
        $arguments.attribute(super::arguments::qr_mode)?
    };
    ($arguments:ident, Triangle) => {
        $arguments.attribute(super::arguments::triangle)?
    };
    ($arguments:ident, MatrixNorm) => {
        $arguments.attribute(super::arguments::matrix_norm)?
    };
    ($arguments:ident, OptionalMatrixNorm) => {
        $arguments.attribute(super::arguments::optional(super::arguments::matrix_norm))?
    };
    ($arguments:ident, Interpolation) => {
        $arguments.attribute(super::arguments::interpolation)?
    };
    ($arguments:ident, GridPadding) => {
        $arguments.attribute(super::arguments::grid_padding)?
    };
    ($arguments:ident, Encoding) => {
        $arguments.attribute(super::arguments::encoding)?
    };
}
pub(super) use take;

/// An op's result as a list.
macro_rules! one {
    (Tensor, $out:ident) => {
        smallvec::smallvec![$out]
    };
    (Tensors, $out:ident) => {
        $out.into()
    };
}
pub(super) use one;

/// An integer in the width that the op takes: `i64` for values, `isize` for positions.
pub(super) fn convert<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| Error::shape("call", format!("{value} does not fit this machine")))
}

/// The same from Rust's types, which front ends in Rust take.
mod from {
    use super::*;

    impl From<bool> for Attribute {
        fn from(value: bool) -> Attribute {
            Attribute::Bool(value)
        }
    }

    impl From<f64> for Attribute {
        fn from(value: f64) -> Attribute {
            Attribute::Float(value)
        }
    }

    impl From<DType> for Attribute {
        fn from(value: DType) -> Attribute {
            Attribute::DType(value)
        }
    }

    impl From<Scalar> for Attribute {
        fn from(value: Scalar) -> Attribute {
            match value {
                Scalar::Float(v) => Attribute::Float(v.0),
                Scalar::Int(v) => Attribute::Int(v),
                Scalar::Bool(v) => Attribute::Bool(v),
            }
        }
    }

    impl From<&str> for Attribute {
        fn from(value: &str) -> Attribute {
            Attribute::Text(value.into())
        }
    }

    impl From<Reduction> for Attribute {
        fn from(value: Reduction) -> Attribute {
            match value {
                Reduction::Mean => "mean",
                Reduction::Sum => "sum",
                Reduction::None => "none",
            }
            .into()
        }
    }

    impl From<GeluApproximate> for Attribute {
        fn from(value: GeluApproximate) -> Attribute {
            match value {
                GeluApproximate::None => "none",
                GeluApproximate::Tanh => "tanh",
            }
            .into()
        }
    }

    impl From<ScatterReduce> for Attribute {
        fn from(value: ScatterReduce) -> Self {
            let word = match value {
                ScatterReduce::Sum => "sum",
                ScatterReduce::Prod => "prod",
                ScatterReduce::Mean => "mean",
                ScatterReduce::Amax => "amax",
                ScatterReduce::Amin => "amin",
            };
            Attribute::Text(word.into())
        }
    }

    impl From<QrMode> for Attribute {
        fn from(value: QrMode) -> Attribute {
            match value {
                QrMode::Reduced => "reduced",
                QrMode::Complete => "complete",
            }
            .into()
        }
    }

    impl From<Triangle> for Attribute {
        fn from(value: Triangle) -> Attribute {
            match value {
                Triangle::Both => "both",
                Triangle::Lower => "lower",
                Triangle::Upper => "upper",
            }
            .into()
        }
    }

    impl From<MatrixNorm> for Attribute {
        fn from(value: MatrixNorm) -> Attribute {
            match value {
                MatrixNorm::Frobenius => "fro",
                MatrixNorm::Nuclear => "nuc",
                MatrixNorm::One => "1",
                MatrixNorm::MinusOne => "-1",
                MatrixNorm::Two => "2",
                MatrixNorm::MinusTwo => "-2",
                MatrixNorm::Infinity => "inf",
                MatrixNorm::MinusInfinity => "-inf",
            }
            .into()
        }
    }

    impl From<Interpolation> for Attribute {
        fn from(value: Interpolation) -> Attribute {
            match value {
                Interpolation::Nearest => "nearest",
                Interpolation::NearestExact => "nearest-exact",
                Interpolation::Linear => "linear",
                Interpolation::Cubic => "bicubic",
                Interpolation::Area => "area",
            }
            .into()
        }
    }

    impl From<GridPadding> for Attribute {
        fn from(value: GridPadding) -> Attribute {
            match value {
                GridPadding::Zeros => "zeros",
                GridPadding::Border => "border",
                GridPadding::Reflection => "reflection",
            }
            .into()
        }
    }

    impl From<Encoding> for Attribute {
        fn from(value: Encoding) -> Attribute {
            value.name().into()
        }
    }

    impl From<i64> for Attribute {
        fn from(value: i64) -> Attribute {
            Attribute::Int(value)
        }
    }

    impl From<isize> for Attribute {
        fn from(value: isize) -> Attribute {
            Attribute::Int(value as i64)
        }
    }

    /// A number beyond `i64` becomes the largest one, which no op takes.
    impl From<usize> for Attribute {
        fn from(value: usize) -> Attribute {
            Attribute::Int(i64::try_from(value).unwrap_or(i64::MAX))
        }
    }

    /// A stream of random numbers, of which all 64 bits count.
    impl From<u64> for Attribute {
        fn from(value: u64) -> Attribute {
            Attribute::Int(value as i64)
        }
    }

    impl From<&[isize]> for Attribute {
        fn from(values: &[isize]) -> Attribute {
            Attribute::Ints(values.iter().map(|&v| v as i64).collect())
        }
    }

    impl From<&[usize]> for Attribute {
        fn from(values: &[usize]) -> Attribute {
            Attribute::Ints(values.iter().map(|&v| i64::try_from(v).unwrap_or(i64::MAX)).collect())
        }
    }

    impl<T: Into<Attribute>> From<Option<T>> for Attribute {
        fn from(value: Option<T>) -> Attribute {
            value.map_or(Attribute::None, T::into)
        }
    }
}
