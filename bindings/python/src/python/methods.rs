//! The methods of the tensor object, and the functions of the module that have a tensor first.

use lanthorn_ir::DType;
use pyo3_ffi as ffi;

use super::args::{Args, end, given, method};
use super::convert::{self, expect_number, expect_other};
use super::object::{self, this, wrap};
use super::py::{self, Object, PyResult, Ref};
use super::{autograd, buffer, dlpack, dtype};
use crate::error::{Error, Result};
use crate::ops::arithmetic::{self, Operand};
use crate::ops::{copy, in_place, matmul as product, reduce, unary, views};
use crate::tensor::Tensor;

type Slf<'a> = Option<Ref<'a>>;
type Returned = PyResult<Object>;

fn one(slf: Slf<'_>, args: &Args<'_>, operation: fn(&Tensor) -> Result<Tensor>) -> Returned {
    args.bind::<0>([], 0)?;
    let tensor = this(slf)?;
    wrap(py::run(tensor.numel(), || operation(&tensor))?)
}

fn two(slf: Slf<'_>, args: &Args<'_>, operation: fn(Operand<'_>, Operand<'_>) -> Result<Tensor>) -> Returned {
    let [other] = args.bind(["other"], 1)?;
    let tensor = this(slf)?;
    let other = other.map(|other| expect_other(other, args.function(), "other")).transpose()?;
    let Some(other) = other else { return Ok(py::none()) };
    let work = tensor.numel().max(other.numel());
    wrap(py::run(work, || operation((&tensor).into(), other.operand()))?)
}

fn two_in_place(
    slf: Slf<'_>,
    args: &Args<'_>,
    operation: fn(&Tensor, Operand<'_>) -> Result<()>,
) -> Returned {
    let [other] = args.bind(["other"], 1)?;
    let tensor = this(slf)?;
    if let Some(other) = other {
        let other = expect_other(other, args.function(), "other")?;
        py::run(tensor.numel(), || operation(&tensor, other.operand()))?;
    }
    itself(slf)
}

fn itself(slf: Slf<'_>) -> Returned {
    Ok(slf.map_or_else(py::none, Ref::to_owned))
}

macro_rules! unary_methods {
    ($($name:ident => $operation:path;)*) => {$(
        fn $name(slf: Slf<'_>, args: &Args<'_>) -> Returned {
            one(slf, args, $operation)
        }
    )*};
}

unary_methods! {
    neg => unary::neg;
    exp => unary::exp;
    log => unary::log;
    tanh => unary::tanh;
    sigmoid => unary::sigmoid;
    sqrt => unary::sqrt;
    relu => arithmetic::relu;
    clone => copy::clone;
    contiguous => copy::contiguous;
    transpose_matrix => views::t;
}

macro_rules! binary_methods {
    ($($name:ident, $in_place:ident => $operation:expr, $write:expr;)*) => {$(
        fn $name(slf: Slf<'_>, args: &Args<'_>) -> Returned {
            two(slf, args, $operation)
        }
        fn $in_place(slf: Slf<'_>, args: &Args<'_>) -> Returned {
            two_in_place(slf, args, $write)
        }
    )*};
}

binary_methods! {
    add, add_ => |a, b| arithmetic::add(a, b), |a, b| in_place::add_(a, b);
    sub, sub_ => |a, b| arithmetic::sub(a, b), |a, b| in_place::sub_(a, b);
    mul, mul_ => |a, b| arithmetic::mul(a, b), |a, b| in_place::mul_(a, b);
    div, div_ => |a, b| arithmetic::div(a, b), |a, b| in_place::div_(a, b);
}

fn pow(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [exponent] = args.bind(["exponent"], 1)?;
    let tensor = this(slf)?;
    let Some(exponent) = exponent else { return Ok(py::none()) };
    let exponent = expect_other(exponent, "pow", "exponent")?;
    wrap(py::run(tensor.numel(), || arithmetic::pow(&tensor, exponent.operand()))?)
}

fn square(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    one(slf, args, |a| arithmetic::pow_scalar(a, 2i64.into()))
}

macro_rules! products {
    ($($name:ident, $argument:literal => $operation:path;)*) => {$(
        fn $name(slf: Slf<'_>, args: &Args<'_>) -> Returned {
            let [other] = args.bind([$argument], 1)?;
            let tensor = this(slf)?;
            let Some(other) = other else { return Ok(py::none()) };
            let other = object::expect(other, args.function(), $argument)?;
            wrap(py::run(product::work(&tensor, &other), || $operation(&tensor, &other))?)
        }
    )*};
}

products! {
    matmul, "other" => product::matmul;
    mm, "mat2" => product::mm;
    bmm, "mat2" => product::bmm;
}

fn copy_(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [source] = args.bind(["src"], 1)?;
    let tensor = this(slf)?;
    if let Some(source) = source {
        let source = object::expect(source, "copy_", "src")?;
        py::run(tensor.numel(), || in_place::copy_(&tensor, &source))?;
    }
    itself(slf)
}

fn fill_(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [value] = args.bind(["value"], 1)?;
    let tensor = this(slf)?;
    if let Some(value) = value {
        let value = expect_number(value, "fill_", "value")?;
        py::run(tensor.numel(), || in_place::fill_(&tensor, value))?;
    }
    itself(slf)
}

fn zero_(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    let tensor = this(slf)?;
    py::run(tensor.numel(), || in_place::zero_(&tensor))?;
    itself(slf)
}

fn view(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let tensor = this(slf)?;
    let (sizes, []) = args.bind_sizes("size", [])?;
    let sizes = sizes.ok_or_else(|| Error::ty("view(): argument 'size' must be given"))?;
    wrap(views::view_as(&tensor, &sizes)?)
}

fn reshape(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let tensor = this(slf)?;
    let (sizes, []) = args.bind_sizes("shape", [])?;
    let sizes = sizes.ok_or_else(|| Error::ty("reshape(): argument 'shape' must be given"))?;
    wrap(py::run(tensor.numel(), || views::reshape(&tensor, &sizes))?)
}

fn expand(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let tensor = this(slf)?;
    let (sizes, []) = args.bind_sizes("size", [])?;
    let sizes = sizes.ok_or_else(|| Error::ty("expand(): argument 'size' must be given"))?;
    wrap(views::expand(&tensor, &sizes)?)
}

fn permute(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let tensor = this(slf)?;
    let (axes, []) = args.bind_sizes("dims", [])?;
    wrap(views::permute(&tensor, &axes.unwrap_or_default())?)
}

fn transpose(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [first, second] = args.bind(["dim0", "dim1"], 2)?;
    let tensor = this(slf)?;
    let (Some(first), Some(second)) = (first, second) else { return Ok(py::none()) };
    let first = convert::index(first, "transpose", "dim0")?;
    wrap(views::transpose(&tensor, first, convert::index(second, "transpose", "dim1")?)?)
}

fn unsqueeze(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [axis] = args.bind(["dim"], 1)?;
    let tensor = this(slf)?;
    let Some(axis) = axis else { return Ok(py::none()) };
    wrap(views::unsqueeze(&tensor, convert::index(axis, "unsqueeze", "dim")?)?)
}

fn squeeze(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [axes] = args.bind(["dim"], 0)?;
    let tensor = this(slf)?;
    let axes = given(axes).map(|axes| convert::ints(axes, "squeeze", "dim")).transpose()?;
    wrap(views::squeeze(&tensor, axes.as_deref())?)
}

fn select(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [axis, index] = args.bind(["dim", "index"], 2)?;
    let tensor = this(slf)?;
    let (Some(axis), Some(index)) = (axis, index) else { return Ok(py::none()) };
    let axis = convert::index(axis, "select", "dim")?;
    wrap(views::select(&tensor, axis, convert::index(index, "select", "index")?)?)
}

fn narrow(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [axis, start, length] = args.bind(["dim", "start", "length"], 3)?;
    let tensor = this(slf)?;
    let (Some(axis), Some(start), Some(length)) = (axis, start, length) else { return Ok(py::none()) };
    let axis = crate::ops::resolve_axis(convert::index(axis, "narrow", "dim")?, tensor.rank())?;
    let size = tensor.shape().get(axis).copied().unwrap_or(0) as i64;
    let (start, length) =
        (convert::index(start, "narrow", "start")?, convert::index(length, "narrow", "length")?);
    let first = if start < 0 { start.saturating_add(size) } else { start };
    if length < 0 {
        return Err(Error::runtime("narrow(): length must be non-negative.").into());
    }
    if first < 0 || first.saturating_add(length) > size {
        return Err(Error::runtime(format!(
            "start ({start}) + length ({length}) exceeds dimension size ({size})."
        ))
        .into());
    }
    wrap(views::slice(&tensor, axis as i64, Some(first), Some(first + length), 1)?)
}

fn as_strided(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [size, stride, offset] = args.bind(["size", "stride", "storage_offset"], 2)?;
    let tensor = this(slf)?;
    let (Some(size), Some(stride)) = (size, stride) else { return Ok(py::none()) };
    let size = convert::ints(size, "as_strided", "size")?;
    let stride = convert::ints(stride, "as_strided", "stride")?;
    let offset = given(offset).map(|at| convert::index(at, "as_strided", "storage_offset")).transpose()?;
    wrap(views::as_strided(&tensor, &size, &stride, offset)?)
}

type Fold = fn(&Tensor, Option<&[i64]>, bool, Option<DType>) -> Result<Tensor>;

fn fold(slf: Slf<'_>, args: &Args<'_>, operation: Fold) -> Returned {
    let [axes, keepdim, kind] = args.bind(["dim", "keepdim", "dtype"], 0)?;
    let tensor = this(slf)?;
    let function = args.function();
    let axes = given(axes).map(|axes| convert::ints(axes, function, "dim")).transpose()?;
    let keepdim = given(keepdim).map(Ref::truth).transpose()?.unwrap_or(false);
    let kind = given(kind).map(|kind| dtype::expect(kind, function, "dtype")).transpose()?;
    wrap(py::run(tensor.numel(), || operation(&tensor, axes.as_deref(), keepdim, kind))?)
}

fn sum(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    fold(slf, args, reduce::sum)
}

fn mean(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    fold(slf, args, reduce::mean)
}

fn to(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [kind] = args.bind(["dtype"], 1)?;
    let tensor = this(slf)?;
    let Some(kind) = kind else { return Ok(py::none()) };
    let kind = dtype::expect(kind, "to", "dtype")?;
    if tensor.dtype() == kind {
        return itself(slf);
    }
    wrap(py::run(tensor.numel(), || copy::to(&tensor, kind))?)
}

fn detach(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    wrap(this(slf)?.detach())
}

fn item(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    convert::item_object(&this(slf)?)
}

fn tolist(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    convert::to_list(&this(slf)?)
}

fn dim(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    py::int(this(slf)?.rank() as i64)
}

fn numel(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    py::int(this(slf)?.numel() as i64)
}

/// All of some numbers, or that of one axis.
fn all_or_one(args: &Args<'_>, tensor: &Tensor, numbers: &[i64]) -> Returned {
    let [axis] = args.bind(["dim"], 0)?;
    match given(axis) {
        None => convert::tuple_of(numbers.iter().copied()),
        Some(axis) => {
            let axis = convert::index(axis, args.function(), "dim")?;
            let axis = crate::ops::resolve_axis(axis, tensor.rank())?;
            let number = numbers.get(axis).copied();
            py::int(
                number
                    .ok_or_else(|| Error::index("Dimension specified as 0 but tensor has no dimensions"))?,
            )
        }
    }
}

fn size(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let tensor = this(slf)?;
    let sizes: Vec<i64> = tensor.shape().iter().map(|&size| size as i64).collect();
    all_or_one(args, &tensor, &sizes)
}

fn stride(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let tensor = this(slf)?;
    let strides: Vec<i64> = tensor.layout().strides.iter().map(|&stride| stride as i64).collect();
    all_or_one(args, &tensor, &strides)
}

fn storage_offset(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    py::int(this(slf)?.layout().offset as i64)
}

fn element_size(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    py::int(this(slf)?.dtype().size() as i64)
}

fn is_contiguous(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    py::boolean(this(slf)?.layout().is_contiguous())
}

fn data_ptr(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    let tensor = this(slf)?;
    let address = tensor.concrete()?.storage().host_address();
    let offset = tensor.layout().offset * tensor.dtype().size();
    py::unsigned(address.map_or(0, |address| address.as_ptr() as u64 + offset as u64))
}

/// The table of methods.
pub fn table() -> *mut ffi::PyMethodDef {
    Box::leak(Box::new([
        method!("add", add),
        method!("sub", sub),
        method!("mul", mul),
        method!("div", div),
        method!("add_", add_),
        method!("sub_", sub_),
        method!("mul_", mul_),
        method!("div_", div_),
        method!("pow", pow),
        method!("square", square),
        method!("neg", neg),
        method!("exp", exp),
        method!("log", log),
        method!("tanh", tanh),
        method!("sigmoid", sigmoid),
        method!("sqrt", sqrt),
        method!("relu", relu),
        method!("matmul", matmul),
        method!("mm", mm),
        method!("bmm", bmm),
        method!("copy_", copy_),
        method!("fill_", fill_),
        method!("zero_", zero_),
        method!("clone", clone),
        method!("contiguous", contiguous),
        method!("view", view),
        method!("reshape", reshape),
        method!("expand", expand),
        method!("permute", permute),
        method!("transpose", transpose),
        method!("t", transpose_matrix),
        method!("unsqueeze", unsqueeze),
        method!("squeeze", squeeze),
        method!("select", select),
        method!("narrow", narrow),
        method!("as_strided", as_strided),
        method!("sum", sum),
        method!("mean", mean),
        method!("to", to),
        method!("detach", detach),
        method!("item", item),
        method!("tolist", tolist),
        method!("dim", dim),
        method!("numel", numel),
        method!("size", size),
        method!("stride", stride),
        method!("storage_offset", storage_offset),
        method!("element_size", element_size),
        method!("is_contiguous", is_contiguous),
        method!("data_ptr", data_ptr),
        method!("numpy", buffer::numpy),
        method!("__array__", buffer::array),
        method!("__dlpack__", dlpack::export),
        method!("__dlpack_device__", dlpack::device),
        method!("backward", autograd::backward),
        method!("requires_grad_", autograd::requires_grad_),
        method!("retain_grad", autograd::retain_grad),
        method!("register_hook", autograd::register_hook),
        method!("register_post_accumulate_grad_hook", autograd::register_post_accumulate_grad_hook),
        method!("_is_view", autograd::is_view),
        end(),
    ]))
    .as_mut_ptr()
}

/// A method as a function of the module: its first argument is the tensor.
macro_rules! function {
    ($name:literal, $function:path) => {{
        fn shifted(_: Slf<'_>, args: &Args<'_>) -> Returned {
            let (first, rest) = args.split_first()?;
            $function(Some(first), &rest)
        }
        method!($name, shifted)
    }};
}

/// The functions of the module that have a tensor first.
pub fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        function!("add", add),
        function!("sub", sub),
        function!("mul", mul),
        function!("div", div),
        function!("pow", pow),
        function!("square", square),
        function!("neg", neg),
        function!("exp", exp),
        function!("log", log),
        function!("tanh", tanh),
        function!("sigmoid", sigmoid),
        function!("sqrt", sqrt),
        function!("relu", relu),
        function!("matmul", matmul),
        function!("mm", mm),
        function!("bmm", bmm),
        function!("sum", sum),
        function!("mean", mean),
        function!("clone", clone),
        function!("reshape", reshape),
        function!("transpose", transpose),
        function!("permute", permute),
        function!("squeeze", squeeze),
        function!("unsqueeze", unsqueeze),
        function!("as_strided", as_strided),
    ]
}
