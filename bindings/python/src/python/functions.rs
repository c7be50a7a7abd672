//! Functions of the module: factories, promotion, the table of ops.

use lanthorn_ir::DType;
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::ops::table::{Attribute, Kind, Op, Returns};
use pyo3_ffi as ffi;

use super::args::{Args, given, method};
use super::convert::{self, expect_number};
use super::object::{self, wrap};
use super::py::{self, Object, PyResult, Ref};
use super::{buffer, dlpack, dtype, methods};
use crate::error::Error;
use crate::ops::arithmetic::{DEFAULT, result_type};
use crate::ops::{factory, generic};
use crate::tensor::Tensor;
use crate::tensor::promote;

type Slf<'a> = Option<Ref<'a>>;
type Returned = PyResult<Object>;

/// `dtype`, `requires_grad` and `device` of a factory.
struct Options {
    dtype: Option<DType>,
    requires_grad: bool,
    is_meta: bool,
}

const OPTIONS: [&str; 3] = ["dtype", "requires_grad", "device"];

impl Options {
    fn read(function: &str, values: [Option<Ref<'_>>; 3]) -> PyResult<Options> {
        let [kind, requires_grad, device] = values;
        let device = given(device).map(Ref::str).transpose()?;
        let is_meta = match device.as_deref() {
            None | Some("cpu") => false,
            Some("meta") => true,
            Some(other) => {
                return Err(
                    Error::runtime(format!("there is no device '{other}'; expected cpu or meta")).into()
                );
            }
        };
        Ok(Options {
            dtype: given(kind).map(|kind| dtype::expect(kind, function, "dtype")).transpose()?,
            requires_grad: given(requires_grad).map(Ref::truth).transpose()?.unwrap_or(false),
            is_meta,
        })
    }

    fn finish(&self, tensor: Tensor) -> Returned {
        if self.requires_grad {
            if !tensor.dtype().is_float() {
                return Err(Error::runtime(
                    "Only Tensors of floating point and complex dtype can require gradients",
                )
                .into());
            }
            tensor.with_meta(|meta| meta.requires_grad = true);
            tensor.mark_may_require_grad();
        }
        wrap(tensor)
    }
}

fn tensor(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [data, kind, requires_grad, device] = args.bind(["data", "dtype", "requires_grad", "device"], 1)?;
    let options = Options::read("tensor", [kind, requires_grad, device])?;
    let Some(data) = data else { return Ok(py::none()) };
    let tensor = convert::tensor_of(data, options.dtype)?;
    options.finish(tensor)
}

fn filled(args: &Args<'_>, value: Option<Scalar>) -> Returned {
    let (sizes, values) = args.bind_sizes("size", OPTIONS)?;
    let options = Options::read(args.function(), values)?;
    let function = args.function();
    let sizes = sizes.ok_or_else(|| Error::ty(format!("{function}(): argument 'size' must be given")))?;
    let (shape, dtype) = (crate::ops::sizes_of(&sizes)?, options.dtype.unwrap_or(DEFAULT));
    let tensor = match value {
        Some(value) => factory::full(&shape, value, dtype, options.is_meta)?,
        None => factory::empty(&shape, dtype, options.is_meta)?,
    };
    options.finish(tensor)
}

fn zeros(_: Slf<'_>, args: &Args<'_>) -> Returned {
    filled(args, Some(Scalar::Int(0)))
}

fn ones(_: Slf<'_>, args: &Args<'_>) -> Returned {
    filled(args, Some(Scalar::Int(1)))
}

fn empty(_: Slf<'_>, args: &Args<'_>) -> Returned {
    filled(args, None)
}

fn full(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [size, value, kind, requires_grad, device] =
        args.bind(["size", "fill_value", "dtype", "requires_grad", "device"], 2)?;
    let (Some(size), Some(value)) = (size, value) else { return Ok(py::none()) };
    let options = Options::read("full", [kind, requires_grad, device])?;
    let shape = crate::ops::sizes_of(&convert::ints(size, "full", "size")?)?;
    let value = expect_number(value, "full", "fill_value")?;
    let natural = match value {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::Float(_) => DEFAULT,
    };
    options.finish(factory::full(&shape, value, options.dtype.unwrap_or(natural), options.is_meta)?)
}

fn arange(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [start, stop, step, kind, requires_grad, device] =
        args.bind(["start", "end", "step", "dtype", "requires_grad", "device"], 0)?;
    let options = Options::read("arange", [kind, requires_grad, device])?;
    let number = |value: Option<Ref<'_>>, name: &str| {
        given(value).map(|value| expect_number(value, "arange", name)).transpose()
    };
    let (start, stop) = match (number(start, "start")?, number(stop, "end")?) {
        (Some(stop), None) => (Scalar::Int(0), stop),
        (Some(start), Some(stop)) => (start, stop),
        (None, Some(stop)) => (Scalar::Int(0), stop),
        (None, None) => return Err(Error::ty("arange(): argument 'end' must be given").into()),
    };
    let step = number(step, "step")?.unwrap_or(Scalar::Int(1));
    let is_float = [start, stop, step].iter().any(|number| matches!(number, Scalar::Float(_)));
    let dtype = options.dtype.unwrap_or(if is_float { DEFAULT } else { DType::I64 });
    options.finish(factory::arange(start, stop, step, dtype)?)
}

fn uniform(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [seed, draw, size, low, high, kind] =
        args.bind(["seed", "draw", "size", "low", "high", "dtype"], 3)?;
    let (Some(seed), Some(draw), Some(size)) = (seed, draw, size) else { return Ok(py::none()) };
    let shape = crate::ops::sizes_of(&convert::ints(size, "uniform", "size")?)?;
    let bound = |value: Option<Ref<'_>>, name: &str, default: f64| -> PyResult<f64> {
        Ok(given(value)
            .map(|v| expect_number(v, "uniform", name))
            .transpose()?
            .map_or(default, |v| v.as_f64()))
    };
    let (low, high) = (bound(low, "low", 0.0)?, bound(high, "high", 1.0)?);
    let kind = given(kind).map(|kind| dtype::expect(kind, "uniform", "dtype")).transpose()?;
    let seed = convert::index(seed, "uniform", "seed")? as u64;
    let draw = convert::index(draw, "uniform", "draw")? as u64;
    let elements = shape.iter().product();
    wrap(py::run(elements, || factory::uniform(seed, draw, &shape, low, high, kind.unwrap_or(DEFAULT)))?)
}

fn promote_types(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [a, b] = args.bind(["type1", "type2"], 2)?;
    let (Some(a), Some(b)) = (a, b) else { return Ok(py::none()) };
    let a = dtype::expect(a, "promote_types", "type1")?;
    dtype::object(promote::promote_types(a, dtype::expect(b, "promote_types", "type2")?)?)
}

fn can_cast(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [from, to] = args.bind(["from_", "to"], 2)?;
    let (Some(from), Some(to)) = (from, to) else { return Ok(py::none()) };
    let from = dtype::expect(from, "can_cast", "from_")?;
    py::boolean(promote::can_cast(from, dtype::expect(to, "can_cast", "to")?))
}

fn result_type_of(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [a, b] = args.bind(["tensor1", "tensor2"], 2)?;
    let (Some(a), Some(b)) = (a, b) else { return Ok(py::none()) };
    let a = convert::expect_other(a, "result_type", "tensor1")?;
    let b = convert::expect_other(b, "result_type", "tensor2")?;
    dtype::object(result_type(a.operand(), b.operand())?)
}

/// An argument of an op of the table.
fn attribute(op: &Op, name: &str, kind: Kind, value: Ref<'_>) -> PyResult<Attribute> {
    Ok(match kind {
        _ if value.is_none() => Attribute::None,
        Kind::Int | Kind::OptionalInt | Kind::Size | Kind::OptionalSize | Kind::Long | Kind::Stream => {
            Attribute::Int(convert::index(value, op.name, name)?)
        }
        Kind::Ints | Kind::Sizes => Attribute::Ints(convert::ints(value, op.name, name)?),
        Kind::Float | Kind::OptionalFloat => Attribute::Float(expect_number(value, op.name, name)?.as_f64()),
        Kind::Bool => Attribute::Bool(value.truth()?),
        Kind::Scalar | Kind::OptionalScalar => match expect_number(value, op.name, name)? {
            Scalar::Bool(value) => Attribute::Bool(value),
            Scalar::Int(value) => Attribute::Int(value),
            Scalar::Float(value) => Attribute::Float(value.0),
        },
        Kind::DType => Attribute::DType(dtype::expect(value, op.name, name)?),
        Kind::Text
        | Kind::Reduction
        | Kind::GeluApproximate
        | Kind::Interpolation
        | Kind::GridPadding
        | Kind::ScatterReduce
        | Kind::QrMode
        | Kind::Triangle
        | Kind::MatrixNorm
        | Kind::OptionalMatrixNorm
        | Kind::Encoding => Attribute::Text(value.str()?),
        Kind::Tensor | Kind::OptionalTensor | Kind::Tensors => Attribute::None,
    })
}

/// `_call(name, *args, **kwargs)`: an op of the engine's table, without autograd.
fn call(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let name = args.at(0).ok_or_else(|| Error::ty("_call(): the name of an op is missing"))?.str()?;
    let (id, op) = generic::find(&name)?;
    let keywords = args.keywords()?;
    if let Some((unknown, _)) =
        keywords.iter().find(|(name, _)| !op.parameters.iter().any(|p| p.name == name))
    {
        return Err(Error::ty(format!("{name}() got an unexpected keyword argument '{unknown}'")).into());
    }
    let positional = args.positional() - 1;
    if positional > op.parameters.len() {
        let most = op.parameters.len();
        return Err(Error::ty(format!("{name}() takes {most} arguments but {positional} were given")).into());
    }
    let (mut tensors, mut attributes) = (Vec::new(), Vec::new());
    let mut work = 0usize;
    for (at, parameter) in op.parameters.iter().enumerate() {
        let by_name = keywords.iter().find(|(name, _)| name == parameter.name).map(|(_, value)| *value);
        let by_place = args.at(at + 1);
        if by_name.is_some() && by_place.is_some() {
            return Err(
                Error::ty(format!("{name}() got multiple values for argument '{}'", parameter.name)).into()
            );
        }
        let value = by_place.or(by_name);
        match parameter.kind {
            Kind::Tensor | Kind::OptionalTensor => {
                let value = given(value).map(|v| object::expect(v, op.name, parameter.name)).transpose()?;
                work = work.saturating_add(value.as_ref().map_or(0, Tensor::numel));
                tensors.push(value);
            }
            Kind::Tensors => {
                let value = value.ok_or_else(|| Error::ty(format!("{name}(): the tensors are missing")))?;
                for item in value.items() {
                    let tensor = object::expect(item.get(), op.name, parameter.name)?;
                    work = work.saturating_add(tensor.numel());
                    tensors.push(Some(tensor));
                }
            }
            kind => attributes.push(match value {
                Some(value) => attribute(op, parameter.name, kind, value)?,
                None => Attribute::None,
            }),
        }
    }
    let results = py::run(work, || generic::call(id, &tensors, &attributes))?;
    match (op.returns, results.len()) {
        (Returns::Tensor, 1) => wrap(results.into_iter().next().ok_or_else(|| Error::runtime("no result"))?),
        _ => py::tuple(results.into_iter().map(wrap).collect::<PyResult<_>>()?),
    }
}

/// Bytes that tensors hold, and how many bytes the pool keeps for the next ones.
fn memory(_: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    let stats = crate::device().stats();
    py::tuple(vec![py::unsigned(stats.live_bytes as u64)?, py::unsigned(stats.pooled_bytes as u64)?])
}

/// The most bytes that the process's tensors may hold, idle memory included; None: as many as there are.
fn memory_limit(_: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    match crate::device().memory_limit() {
        Some(bytes) => py::unsigned(bytes as u64),
        None => Ok(py::none()),
    }
}

fn set_memory_limit(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [bytes] = args.bind(["bytes"], 1)?;
    let bytes = given(bytes).map(|bytes| convert::index(bytes, "set_memory_limit", "bytes")).transpose()?;
    let limit = bytes.map(|bytes| match usize::try_from(bytes) {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err(Error::value(format!("set_memory_limit(): bytes must be positive or None, not {bytes}"))),
    });
    crate::device().set_memory_limit(limit.transpose()?);
    Ok(py::none())
}

fn is_tensor(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [value] = args.bind(["obj"], 1)?;
    py::boolean(value.is_some_and(|value| object::of(value).is_some()))
}

/// The functions of the module.
pub fn functions() -> Vec<ffi::PyMethodDef> {
    let mut all = vec![
        method!("tensor", tensor),
        method!("zeros", zeros),
        method!("ones", ones),
        method!("empty", empty),
        method!("full", full),
        method!("arange", arange),
        method!("uniform", uniform),
        method!("from_numpy", buffer::from_numpy),
        method!("frombuffer", buffer::frombuffer),
        method!("from_dlpack", dlpack::import),
        method!("promote_types", promote_types),
        method!("can_cast", can_cast),
        method!("result_type", result_type_of),
        method!("is_tensor", is_tensor),
        method!("_call", call),
        method!("memory_limit", memory_limit),
        method!("set_memory_limit", set_memory_limit),
        method!("_memory", memory),
    ];
    all.extend(methods::functions());
    all
}
