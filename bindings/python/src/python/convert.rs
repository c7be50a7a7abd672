//! Between Python values and the core's: numbers, sizes, nested lists, printed forms.

use lanthorn_ir::DType;
use lanthorn_ir::expr::Scalar;
use lanthorn_runtime::EagerTensor;
use pyo3_ffi as ffi;

use super::py::{self, Fault, Object, PyResult, Ref};
use super::{buffer, dtype, object};
use crate::autograd::history;
use crate::error::Error;
use crate::ops::arithmetic::{DEFAULT, Operand};
use crate::tensor::{Data, Tensor};
use crate::{device, ops};

/// Lists nested more deeply are an error, those that contain themselves among them.
const MOST_AXES: usize = 128;

/// A Python number, if it is one.
pub fn number(value: Ref<'_>) -> PyResult<Option<Scalar>> {
    if value.is_bool() {
        return Ok(Some(Scalar::Bool(value.truth()?)));
    }
    if value.is_int() {
        return Ok(Some(Scalar::Int(value.int()?)));
    }
    if value.is_float() {
        return Ok(Some(Scalar::float(value.float()?)));
    }
    // Numbers of other libraries, but nothing with items.
    // SAFETY: a live object; the checks read its type.
    let (is_number, is_sequence) =
        unsafe { (ffi::PyNumber_Check(value.as_ptr()) != 0, ffi::PySequence_Check(value.as_ptr()) != 0) };
    // SAFETY: as above.
    let is_complex = unsafe { ffi::PyComplex_Check(value.as_ptr()) != 0 };
    if !is_number || is_sequence || is_complex || object::of(value).is_some() {
        return Ok(None);
    }
    if value.is_index() {
        return Ok(Some(Scalar::Int(value.int()?)));
    }
    Ok(Some(Scalar::float(value.float()?)))
}

/// An argument that must be a number; a tensor of one element counts.
pub fn expect_number(value: Ref<'_>, function: &str, name: &str) -> PyResult<Scalar> {
    if let Some(number) = number(value)? {
        return Ok(number);
    }
    if let Some(tensor) = object::of(value).filter(|tensor| tensor.rank() == 0) {
        return Ok(item(&tensor)?);
    }
    let found = value.type_name();
    Err(Error::ty(format!("{function}(): argument '{name}' must be Number, not {found}")).into())
}

/// An operand: a tensor kept alive, or a number.
pub enum Other {
    Tensor(Tensor),
    Number(Scalar),
}

impl Other {
    /// As the core takes it.
    pub fn operand(&self) -> Operand<'_> {
        match self {
            Other::Tensor(tensor) => Operand::Tensor(tensor),
            Other::Number(number) => Operand::Number(*number),
        }
    }

    /// How many elements it has.
    pub fn numel(&self) -> usize {
        match self {
            Other::Tensor(tensor) => tensor.numel(),
            Other::Number(_) => 1,
        }
    }
}

/// An operand, if the value can be one.
pub fn other(value: Ref<'_>) -> PyResult<Option<Other>> {
    if let Some(tensor) = object::of(value) {
        return Ok(Some(Other::Tensor(tensor)));
    }
    Ok(number(value)?.map(Other::Number))
}

/// An argument that must be a tensor or a number.
pub fn expect_other(value: Ref<'_>, function: &str, name: &str) -> PyResult<Other> {
    other(value)?.ok_or_else(|| {
        let found = value.type_name();
        Error::ty(format!("{function}(): argument '{name}' must be Tensor or Number, not {found}")).into()
    })
}

/// An argument that must be a whole number.
pub fn index(value: Ref<'_>, function: &str, name: &str) -> PyResult<i64> {
    if value.is_index() && !value.is_bool() {
        return value.int();
    }
    let found = value.type_name();
    Err(Error::ty(format!("{function}(): argument '{name}' must be int, not {found}")).into())
}

/// An argument that must be a list or tuple of whole numbers, or one of them.
pub fn ints(value: Ref<'_>, function: &str, name: &str) -> PyResult<Vec<i64>> {
    if value.is_list() {
        let item = |(at, item): (usize, &Object)| {
            let item = item.get();
            if item.is_index() && !item.is_bool() {
                return item.int();
            }
            let found = item.type_name();
            Err(Fault::from(Error::ty(format!(
                "{function}(): argument '{name}' must be tuple of ints, but found element of type {found} at pos {at}"
            ))))
        };
        return value.items().iter().enumerate().map(item).collect();
    }
    if value.is_index() && !value.is_bool() {
        return Ok(vec![value.int()?]);
    }
    let found = value.type_name();
    Err(Error::ty(format!("{function}(): argument '{name}' must be tuple of ints, not {found}")).into())
}

/// Sizes as a tuple.
pub fn tuple_of(sizes: impl IntoIterator<Item = i64>) -> PyResult<Object> {
    py::tuple(sizes.into_iter().map(py::int).collect::<PyResult<_>>()?)
}

/// The only element.
pub fn item(tensor: &Tensor) -> crate::Result<Scalar> {
    if tensor.numel() != 1 {
        return Err(Error::runtime(format!(
            "a Tensor with {} elements cannot be converted to Scalar",
            tensor.numel()
        )));
    }
    let concrete = tensor.concrete()?;
    Ok(match concrete.dtype() {
        DType::Bool => Scalar::Bool(concrete.item()? != 0.0),
        DType::I64 => Scalar::Int(concrete.to_vec::<i64>()?.first().copied().unwrap_or(0)),
        DType::U64 => Scalar::Int(concrete.to_vec::<u64>()?.first().copied().unwrap_or(0) as i64),
        dtype if dtype.is_int() => Scalar::Int(concrete.item()? as i64),
        _ => Scalar::float(concrete.item()?),
    })
}

/// A number as Python has it.
pub fn scalar(value: Scalar) -> PyResult<Object> {
    match value {
        Scalar::Bool(value) => py::boolean(value),
        Scalar::Int(value) => py::int(value),
        Scalar::Float(value) => py::float(value.0),
    }
}

/// The only element, as a Python number.
pub fn item_object(tensor: &Tensor) -> PyResult<Object> {
    if tensor.dtype() == DType::U64 && tensor.numel() == 1 {
        return py::unsigned(tensor.concrete()?.to_vec::<u64>()?.first().copied().unwrap_or(0));
    }
    scalar(item(tensor)?)
}

/// All elements as nested lists.
pub fn to_list(tensor: &Tensor) -> PyResult<Object> {
    let concrete = tensor.concrete()?;
    let elements: Vec<Object> = match concrete.dtype() {
        DType::Bool => concrete.to_vec::<bool>()?.into_iter().map(py::boolean).collect::<PyResult<_>>()?,
        DType::I64 => concrete.to_vec::<i64>()?.into_iter().map(py::int).collect::<PyResult<_>>()?,
        DType::U64 => concrete.to_vec::<u64>()?.into_iter().map(py::unsigned).collect::<PyResult<_>>()?,
        dtype if dtype.is_int() => {
            concrete.to_f64_vec()?.into_iter().map(|v| py::int(v as i64)).collect::<PyResult<_>>()?
        }
        _ => concrete.to_f64_vec()?.into_iter().map(py::float).collect::<PyResult<_>>()?,
    };
    let mut level = elements;
    if tensor.rank() == 0 {
        return level.pop().ok_or_else(|| Error::runtime("tolist: no element").into());
    }
    for (axis, &size) in tensor.shape().iter().enumerate().rev() {
        let rows: usize = tensor.shape()[..axis].iter().product();
        let mut items = level.into_iter();
        let row = |_| py::list(items.by_ref().take(size).collect());
        level = (0..rows).map(row).collect::<PyResult<_>>()?;
    }
    level.pop().ok_or_else(|| Error::runtime("tolist: no list").into())
}

/// What a nested list holds.
#[derive(Default)]
struct Contents {
    bools: bool,
    ints: bool,
    floats: bool,
    numbers: Vec<Scalar>,
}

/// A tensor of Python data: numbers, nested lists, arrays, other tensors.
pub fn tensor_of(data: Ref<'_>, wanted: Option<DType>) -> PyResult<Tensor> {
    if let Some(tensor) = object::of(data) {
        let copy = Tensor::new(ops::copy::contiguous_copy(tensor.data())?);
        return Ok(ops::copy::to(&copy, wanted.unwrap_or(tensor.dtype()))?);
    }
    if !data.is_list() && number(data)?.is_none() {
        // SAFETY: a live object.
        if unsafe { ffi::PyObject_CheckBuffer(data.as_ptr()) } != 0 {
            let array = buffer::tensor_over(data)?;
            let copy = Tensor::new(ops::copy::contiguous_copy(array.data())?);
            return Ok(ops::copy::to(&copy, wanted.unwrap_or(array.dtype()))?);
        }
    }
    let mut shape = Vec::new();
    measure(data, &mut shape)?;
    let mut contents = Contents::default();
    collect(data, &shape, 0, &mut contents)?;
    let natural = match (contents.floats, contents.ints, contents.bools) {
        (true, _, _) => DEFAULT,
        (false, true, _) => DType::I64,
        (false, false, true) => DType::Bool,
        _ => DEFAULT,
    };
    let dtype = wanted.unwrap_or(natural);
    let numbers = &contents.numbers;
    let wide = if contents.floats || dtype.is_float() {
        let values: Vec<f64> = numbers.iter().map(|number| number.as_f64()).collect();
        EagerTensor::from_vec(device(), &shape, values)?
    } else {
        let values: Vec<i64> = numbers.iter().map(|number| number.as_i64()).collect();
        EagerTensor::from_vec(device(), &shape, values)?
    };
    Ok(Tensor::new(ops::cast(&Data::Concrete(wide), dtype)?))
}

/// The shape that the first items of a nested list have.
fn measure(data: Ref<'_>, shape: &mut Vec<usize>) -> PyResult<()> {
    let mut level = data.to_owned();
    while level.get().is_list() {
        let items = level.get().items();
        shape.push(items.len());
        if shape.len() > MOST_AXES {
            return Err(Error::value(format!("too many dimensions '{}'", level.get().type_name())).into());
        }
        match items.into_iter().next() {
            Some(first) => level = first,
            None => break,
        }
    }
    if let Some(tensor) = object::of(level.get()) {
        shape.extend(tensor.shape());
    }
    Ok(())
}

/// The numbers of a nested list of that shape. Not deeper than [`MOST_AXES`].
fn collect(data: Ref<'_>, shape: &[usize], axis: usize, contents: &mut Contents) -> PyResult<()> {
    if let Some(tensor) = object::of(data) {
        if *tensor.shape() != shape[axis..] {
            return Err(Error::value(format!(
                "only one element tensors can be converted to Python scalars, got one of shape {}",
                ops::show(tensor.shape())
            ))
            .into());
        }
        let concrete = tensor.concrete()?;
        let dtype = concrete.dtype();
        contents.floats |= dtype.is_float();
        contents.ints |= dtype.is_int();
        contents.bools |= dtype == DType::Bool;
        if dtype == DType::I64 {
            contents.numbers.extend(concrete.to_vec::<i64>()?.into_iter().map(Scalar::Int));
        } else {
            contents.numbers.extend(concrete.to_f64_vec()?.into_iter().map(Scalar::float));
        }
        return Ok(());
    }
    let Some(&size) = shape.get(axis) else {
        let Some(value) = number(data)? else {
            let found = data.type_name();
            return Err(match data.is_list() {
                true => Error::value(format!(
                    "expected a number at dim {axis}, got a {found}: the lists are ragged"
                )),
                false if found == "str" => Error::ty("new(): invalid data type 'str'"),
                false => Error::runtime(format!("Could not infer dtype of {found}")),
            }
            .into());
        };
        match value {
            Scalar::Bool(_) => contents.bools = true,
            Scalar::Int(_) => contents.ints = true,
            Scalar::Float(_) => contents.floats = true,
        }
        contents.numbers.push(value);
        return Ok(());
    };
    if !data.is_list() {
        return Err(Error::ty(format!("expected a sequence at dim {axis}, got {}", data.type_name())).into());
    }
    let items = data.items();
    if items.len() != size {
        let found = items.len();
        return Err(
            Error::value(format!("expected sequence of length {size} at dim {axis} (got {found})")).into()
        );
    }
    items.iter().try_for_each(|item| collect(item.get(), shape, axis + 1, contents))
}

/// As upstream prints tensors.
pub fn repr(tensor: &Tensor) -> crate::Result<String> {
    let mut text = match tensor.data() {
        Data::Concrete(concrete) => format!("tensor({}", concrete.show_elements(7)?),
        Data::Meta { ty, .. } => format!("tensor(..., device='meta', size={}", show_size(&ty.shape)),
    };
    let dtype = tensor.dtype();
    if tensor.numel() == 0 && tensor.rank() != 1 && !tensor.is_meta() {
        text.push_str(&format!(", size={}", show_size(tensor.shape())));
    }
    if !matches!(dtype, DType::F32 | DType::I64 | DType::Bool) {
        text.push_str(&format!(", dtype={}", dtype::show(dtype)));
    }
    if let Some((node, _)) = history::grad_fn(tensor) {
        text.push_str(&format!(", grad_fn=<{}>", node.short_name()));
    } else if history::requires_grad(tensor) {
        text.push_str(", requires_grad=True");
    }
    text.push(')');
    Ok(text)
}

fn show_size(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    match &sizes[..] {
        [one] => format!("({one},)"),
        sizes => format!("({})", sizes.join(", ")),
    }
}
