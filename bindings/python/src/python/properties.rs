//! The properties of tensors: what is read and written without a call.

use std::ffi::c_void;

use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::args::given;
use super::autograd::{node_object, set_requires_grad};
use super::object::{self, this, wrap};
use super::py::{self, Object, PyResult, Ref};
use super::{convert, dtype};
use crate::autograd::history;
use crate::error::Error;
use crate::ops::show;
use crate::tensor::Tensor;

type Returned = PyResult<Object>;

/// What a property shows.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Property {
    Dtype,
    Shape,
    Ndim,
    RequiresGrad,
    Grad,
    GradFn,
    IsLeaf,
    OutputNr,
    RetainsGrad,
    Version,
    Base,
    Device,
    Transposed,
    IsMeta,
    Keys,
}

const PROPERTIES: [(&std::ffi::CStr, Property); 15] = [
    (c"dtype", Property::Dtype),
    (c"shape", Property::Shape),
    (c"ndim", Property::Ndim),
    (c"requires_grad", Property::RequiresGrad),
    (c"grad", Property::Grad),
    (c"grad_fn", Property::GradFn),
    (c"is_leaf", Property::IsLeaf),
    (c"output_nr", Property::OutputNr),
    (c"retains_grad", Property::RetainsGrad),
    (c"_version", Property::Version),
    (c"_base", Property::Base),
    (c"device", Property::Device),
    (c"T", Property::Transposed),
    (c"is_meta", Property::IsMeta),
    (c"_dispatch_keys", Property::Keys),
];

fn optional(tensor: Option<Tensor>) -> Returned {
    tensor.map_or_else(|| Ok(py::none()), wrap)
}

unsafe extern "C" fn get(slf: *mut PyObject, what: *mut c_void) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object.
        let tensor = this(unsafe { Ref::new(slf) })?;
        let Some((_, property)) = PROPERTIES.get(what as usize) else { return Ok(py::none()) };
        match property {
            Property::Dtype => dtype::object(tensor.dtype()),
            Property::Shape => convert::tuple_of(tensor.shape().iter().map(|&size| size as i64)),
            Property::Ndim => py::int(tensor.rank() as i64),
            Property::RequiresGrad => py::boolean(history::requires_grad(&tensor)),
            Property::Grad => optional(tensor.peek_meta(|meta| meta.grad.clone()).flatten()),
            Property::GradFn => match history::grad_fn(&tensor) {
                Some((node, _)) => node_object(node),
                None => Ok(py::none()),
            },
            Property::IsLeaf => py::boolean(history::grad_fn(&tensor).is_none()),
            Property::OutputNr => py::int(history::grad_fn(&tensor).map_or(0, |(_, output)| output) as i64),
            Property::RetainsGrad => py::boolean(tensor.peek_meta(|meta| meta.retains_grad).unwrap_or(false)),
            Property::Version => py::unsigned(tensor.version()),
            Property::Base => optional(tensor.base().cloned()),
            Property::Device => py::text(if tensor.is_meta() { "meta" } else { "cpu" }),
            Property::Transposed => wrap(crate::ops::views::t(&tensor)?),
            Property::IsMeta => py::boolean(tensor.is_meta()),
            Property::Keys => py::unsigned(tensor.keys().bits()),
        }
    })
}

unsafe extern "C" fn set(slf: *mut PyObject, value: *mut PyObject, what: *mut c_void) -> i32 {
    py::guard_int(|| {
        // SAFETY: called with live objects, or null for a deletion.
        let (tensor, value) = unsafe { (this(Ref::new(slf))?, Ref::new(value)) };
        match PROPERTIES.get(what as usize) {
            Some((_, Property::RequiresGrad)) => {
                let wanted = value.ok_or_else(|| Error::runtime("requires_grad cannot be deleted"))?;
                if !wanted.is_bool() {
                    return Err(Error::runtime("requires_grad must be a bool").into());
                }
                set_requires_grad(&tensor, wanted.truth()?)?;
            }
            Some((_, Property::Grad)) => {
                let grad = given(value).map(|grad| grad_for(&tensor, grad)).transpose()?;
                let old = tensor.with_meta(|meta| std::mem::replace(&mut meta.grad, grad));
                drop(old);
            }
            _ => return Err(py::raise(py::Kind::Attribute, "attribute is not writable")),
        }
        Ok(0)
    })
}

/// A tensor that may become the gradient of another.
fn grad_for(tensor: &Tensor, value: Ref<'_>) -> PyResult<Tensor> {
    let Some(grad) = object::of(value) else {
        let found = value.type_name();
        return Err(Error::ty(format!(
            "assigned grad expected to be a Tensor or None but got grad of type {found}"
        ))
        .into());
    };
    if grad.is(tensor) {
        return Err(Error::runtime("can't assign Variable as its own grad").into());
    }
    if grad.dtype() != tensor.dtype() {
        return Err(Error::runtime(format!(
            "attempting to assign a gradient with dtype '{}' to a tensor with dtype '{}'. Please ensure that the \
             gradient and the tensor have the same dtype",
            dtype::show(grad.dtype()),
            dtype::show(tensor.dtype())
        ))
        .into());
    }
    if grad.shape() != tensor.shape() {
        return Err(Error::runtime(format!(
            "assigned grad has data of a different size: {} for a tensor of {}",
            show(grad.shape()),
            show(tensor.shape())
        ))
        .into());
    }
    Ok(grad)
}

/// The properties of tensors.
pub fn properties() -> *mut ffi::PyGetSetDef {
    let mut rows: Vec<ffi::PyGetSetDef> = Vec::new();
    for (at, (name, property)) in PROPERTIES.iter().enumerate() {
        let is_written = matches!(property, Property::RequiresGrad | Property::Grad);
        rows.push(ffi::PyGetSetDef {
            name: name.as_ptr(),
            get: Some(get),
            set: if is_written { Some(set) } else { None },
            doc: std::ptr::null(),
            closure: at as *mut c_void,
        });
    }
    rows.push(ffi::PyGetSetDef::default());
    Box::leak(rows.into_boxed_slice()).as_mut_ptr()
}
