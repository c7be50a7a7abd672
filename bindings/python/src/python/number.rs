//! Operators, comparisons and indices of the tensor object.

use std::ffi::c_void;

use lanthorn_ir::DType;
use lanthorn_ir::expr::{BinaryOp, Scalar};
use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::convert::{self, Other};
use super::object::{self, wrap};
use super::py::{self, Object, PyResult, Ref};
use crate::error::{Error, Result};
use crate::ops::arithmetic::{self, Operand};
use crate::ops::{compare, in_place, matmul, unary};
use crate::tensor::Tensor;
use crate::tensor::index::{self, Index};

type BinaryOperation = fn(Operand<'_>, Operand<'_>) -> Result<Tensor>;
type InPlaceOperation = fn(&Tensor, Operand<'_>) -> Result<()>;

/// An operator on objects of which one is a tensor.
fn binary(a: *mut PyObject, b: *mut PyObject, operation: BinaryOperation) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with live objects.
        let (Some(a), Some(b)) = (unsafe { Ref::new(a) }, unsafe { Ref::new(b) }) else {
            return Ok(py::not_implemented());
        };
        let (Some(a), Some(b)) = (convert::other(a)?, convert::other(b)?) else {
            return Ok(py::not_implemented());
        };
        let work = a.numel().max(b.numel());
        wrap(py::run(work, || operation(a.operand(), b.operand()))?)
    })
}

/// An operator that writes over its left operand.
fn in_place(a: *mut PyObject, b: *mut PyObject, operation: InPlaceOperation) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with live objects.
        let (Some(slf), Some(b)) = (unsafe { Ref::new(a) }, unsafe { Ref::new(b) }) else {
            return Ok(py::not_implemented());
        };
        let (Some(target), Some(other)) = (object::of(slf), convert::other(b)?) else {
            return Ok(py::not_implemented());
        };
        py::run(target.numel(), || operation(&target, other.operand()))?;
        Ok(slf.to_owned())
    })
}

macro_rules! binary_slot {
    ($name:ident, $operation:expr) => {
        unsafe extern "C" fn $name(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
            binary(a, b, $operation)
        }
    };
}

macro_rules! in_place_slot {
    ($name:ident, $operation:expr) => {
        unsafe extern "C" fn $name(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
            in_place(a, b, $operation)
        }
    };
}

binary_slot!(nb_add, |a, b| arithmetic::add(a, b));
binary_slot!(nb_subtract, |a, b| arithmetic::sub(a, b));
binary_slot!(nb_multiply, |a, b| arithmetic::mul(a, b));
binary_slot!(nb_true_divide, |a, b| arithmetic::div(a, b));
in_place_slot!(nb_inplace_add, |a, b| in_place::add_(a, b));
in_place_slot!(nb_inplace_subtract, |a, b| in_place::sub_(a, b));
in_place_slot!(nb_inplace_multiply, |a, b| in_place::mul_(a, b));
in_place_slot!(nb_inplace_true_divide, |a, b| in_place::div_(a, b));

unsafe extern "C" fn nb_power(a: *mut PyObject, b: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    binary(a, b, |a, b| arithmetic::pow(a, b))
}

unsafe extern "C" fn nb_matrix_multiply(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with live objects.
        let (Some(a), Some(b)) = (unsafe { Ref::new(a) }, unsafe { Ref::new(b) }) else {
            return Ok(py::not_implemented());
        };
        match (object::of(a), object::of(b)) {
            (Some(a), Some(b)) => wrap(py::run(matmul::work(&a, &b), || matmul::matmul(&a, &b))?),
            _ => Ok(py::not_implemented()),
        }
    })
}

unsafe extern "C" fn nb_negative(slf: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object.
        let tensor = object::this(unsafe { Ref::new(slf) })?;
        wrap(py::run(tensor.numel(), || unary::neg(&tensor))?)
    })
}

unsafe extern "C" fn nb_bool(slf: *mut PyObject) -> i32 {
    py::guard_int(|| {
        // SAFETY: called with a live object.
        let tensor = object::this(unsafe { Ref::new(slf) })?;
        match tensor.numel() {
            1 => Ok((convert::item(&tensor)?.as_f64() != 0.0).into()),
            0 => Err(Error::runtime("Boolean value of Tensor with no values is ambiguous").into()),
            _ => Err(Error::runtime("Boolean value of Tensor with more than one value is ambiguous").into()),
        }
    })
}

unsafe extern "C" fn nb_float(slf: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object.
        let tensor = object::this(unsafe { Ref::new(slf) })?;
        py::float(convert::item(&tensor)?.as_f64())
    })
}

unsafe extern "C" fn nb_int(slf: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object.
        let tensor = object::this(unsafe { Ref::new(slf) })?;
        match convert::item(&tensor)? {
            // Python converts floats of any size, and refuses NaN.
            Scalar::Float(value) => {
                // SAFETY: gives a new reference or raises.
                unsafe { Object::owned(ffi::PyLong_FromDouble(value.0)) }
            }
            other => py::int(other.as_i64()),
        }
    })
}

unsafe extern "C" fn nb_index(slf: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object.
        let tensor = object::this(unsafe { Ref::new(slf) })?;
        if tensor.numel() != 1 || !(tensor.dtype().is_int() || tensor.dtype() == DType::Bool) {
            return Err(
                Error::ty("only integer tensors of a single element can be converted to an index").into()
            );
        }
        py::int(convert::item(&tensor)?.as_i64())
    })
}

unsafe extern "C" fn richcompare(a: *mut PyObject, b: *mut PyObject, op: i32) -> *mut PyObject {
    let operation: BinaryOperation = match op {
        ffi::Py_LT => |a, b| compare::compare(BinaryOp::Lt, a, b),
        ffi::Py_LE => |a, b| compare::compare(BinaryOp::Le, a, b),
        ffi::Py_EQ => |a, b| compare::compare(BinaryOp::Eq, a, b),
        ffi::Py_NE => |a, b| compare::compare(BinaryOp::Ne, a, b),
        ffi::Py_GT => |a, b| compare::compare(BinaryOp::Gt, a, b),
        _ => |a, b| compare::compare(BinaryOp::Ge, a, b),
    };
    binary(a, b, operation)
}

/// One part of an index.
fn part(value: Ref<'_>) -> PyResult<Index> {
    // SAFETY: constants of the interpreter, and checks of a live object's type.
    let (is_ellipsis, is_slice) =
        unsafe { (value.as_ptr() == ffi::Py_Ellipsis(), ffi::PySlice_Check(value.as_ptr()) != 0) };
    if value.is_none() {
        return Ok(Index::NewAxis);
    }
    if is_ellipsis {
        return Ok(Index::Ellipsis);
    }
    if is_slice {
        let bound = |name: &std::ffi::CStr| -> PyResult<Option<i64>> {
            let bound = value.attr(name)?;
            if bound.get().is_none() {
                return Ok(None);
            }
            // Bounds beyond 64 bits are those of an axis anyway.
            clamped(bound.get()).map(Some)
        };
        let step = bound(c"step")?.unwrap_or(1);
        return Ok(Index::Slice { start: bound(c"start")?, stop: bound(c"stop")?, step });
    }
    if value.is_bool() {
        return Err(Error::not_implemented("indexing with a bool is not implemented").into());
    }
    if let Some(tensor) = object::of(value) {
        if tensor.rank() == 0 && tensor.dtype().is_int() {
            return Ok(Index::At(convert::item(&tensor)?.as_i64()));
        }
        return Err(
            Error::not_implemented("indexing with tensors is not implemented; use index_select").into()
        );
    }
    if value.is_index() {
        return Ok(Index::At(value.int()?));
    }
    if value.is_list() {
        return Err(Error::not_implemented("indexing with lists is not implemented; use index_select").into());
    }
    let found = value.type_name();
    Err(Error::index(format!(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {found})"
    ))
    .into())
}

/// An integer, limited to 64 bits.
fn clamped(value: Ref<'_>) -> PyResult<i64> {
    if !value.is_index() {
        return Err(Error::ty("slice indices must be integers or None or have an __index__ method").into());
    }
    // SAFETY: a live object; without an exception type the value is clipped.
    let clipped = unsafe { ffi::PyNumber_AsSsize_t(value.as_ptr(), std::ptr::null_mut()) };
    // SAFETY: the GIL is held.
    if clipped == -1 && unsafe { !ffi::PyErr_Occurred().is_null() } {
        return Err(py::Fault::Set);
    }
    Ok(clipped as i64)
}

/// The part of a tensor that `x[key]` names.
fn indexed(tensor: &Tensor, key: Ref<'_>) -> PyResult<Tensor> {
    if !key.is_tuple() {
        return Ok(index::apply(tensor, &[part(key)?])?);
    }
    let items = key.items();
    let parts: Vec<Index> = items.iter().map(|item| part(item.get())).collect::<PyResult<_>>()?;
    Ok(index::apply(tensor, &parts)?)
}

unsafe extern "C" fn mp_subscript(slf: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with live objects.
        let (tensor, key) = unsafe { (object::this(Ref::new(slf))?, Ref::new(key)) };
        let key = key.ok_or_else(|| Error::index("no index"))?;
        wrap(indexed(&tensor, key)?)
    })
}

unsafe extern "C" fn mp_ass_subscript(slf: *mut PyObject, key: *mut PyObject, value: *mut PyObject) -> i32 {
    py::guard_int(|| {
        // SAFETY: called with live objects, or null for a deletion.
        let (tensor, key, value) = unsafe { (object::this(Ref::new(slf))?, Ref::new(key), Ref::new(value)) };
        let (Some(key), Some(value)) = (key, value) else {
            return Err(Error::ty("Tensor does not support deleting items").into());
        };
        // Elements are written whatever the view's own history says.
        let target = indexed(&tensor, key)?;
        match convert::other(value)? {
            Some(Other::Tensor(source)) => py::run(target.numel(), || set(&target, &source))?,
            Some(Other::Number(number)) => py::run(target.numel(), || in_place::fill_(&target, number))?,
            None => {
                let source = convert::tensor_of(value, Some(tensor.dtype()))?;
                set(&target, &source)?;
            }
        }
        Ok(0)
    })
}

/// Writes `source` over a view; leading axes of size 1 that it has too many fall away.
fn set(target: &Tensor, source: &Tensor) -> Result<()> {
    let extra = source.rank().saturating_sub(target.rank());
    if extra > 0 && source.shape()[..extra].iter().all(|&size| size == 1) {
        let trimmed = crate::ops::views::reshape_to(source, &source.shape()[extra..])?;
        return in_place::copy_(target, &trimmed);
    }
    if !crate::ops::broadcasts(source.shape(), target.shape()) {
        return Err(Error::runtime(format!(
            "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
            crate::ops::show(source.shape()),
            crate::ops::show(target.shape())
        )));
    }
    in_place::copy_(target, source)
}

unsafe extern "C" fn mp_length(slf: *mut PyObject) -> isize {
    let mut length = -1;
    py::guard_int(|| {
        // SAFETY: called with a live object.
        let tensor = object::this(unsafe { Ref::new(slf) })?;
        let first = tensor.shape().first().ok_or_else(|| Error::ty("len() of a 0-d tensor"))?;
        length = *first as isize;
        Ok(0)
    });
    length
}

unsafe extern "C" fn iterate(slf: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object.
        let tensor = object::this(unsafe { Ref::new(slf) })?;
        let Some(&size) = tensor.shape().first() else {
            return Err(Error::ty("iteration over a 0-d tensor").into());
        };
        let row = |at: usize| wrap(index::apply(&tensor, &[Index::At(at as i64)])?);
        let rows = py::tuple((0..size).map(row).collect::<PyResult<_>>()?)?;
        // SAFETY: a live tuple.
        unsafe { Object::owned(ffi::PyObject_GetIter(rows.get().as_ptr())) }
    })
}

/// The slots of this file.
pub fn slots() -> Vec<ffi::PyType_Slot> {
    let slot = |slot: i32, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    vec![
        slot(ffi::Py_nb_add, nb_add as *mut c_void),
        slot(ffi::Py_nb_subtract, nb_subtract as *mut c_void),
        slot(ffi::Py_nb_multiply, nb_multiply as *mut c_void),
        slot(ffi::Py_nb_true_divide, nb_true_divide as *mut c_void),
        slot(ffi::Py_nb_power, nb_power as *mut c_void),
        slot(ffi::Py_nb_matrix_multiply, nb_matrix_multiply as *mut c_void),
        slot(ffi::Py_nb_inplace_add, nb_inplace_add as *mut c_void),
        slot(ffi::Py_nb_inplace_subtract, nb_inplace_subtract as *mut c_void),
        slot(ffi::Py_nb_inplace_multiply, nb_inplace_multiply as *mut c_void),
        slot(ffi::Py_nb_inplace_true_divide, nb_inplace_true_divide as *mut c_void),
        slot(ffi::Py_nb_negative, nb_negative as *mut c_void),
        slot(ffi::Py_nb_bool, nb_bool as *mut c_void),
        slot(ffi::Py_nb_float, nb_float as *mut c_void),
        slot(ffi::Py_nb_int, nb_int as *mut c_void),
        slot(ffi::Py_nb_index, nb_index as *mut c_void),
        slot(ffi::Py_tp_richcompare, richcompare as *mut c_void),
        slot(ffi::Py_mp_subscript, mp_subscript as *mut c_void),
        slot(ffi::Py_mp_ass_subscript, mp_ass_subscript as *mut c_void),
        slot(ffi::Py_mp_length, mp_length as *mut c_void),
        slot(ffi::Py_tp_iter, iterate as *mut c_void),
    ]
}
