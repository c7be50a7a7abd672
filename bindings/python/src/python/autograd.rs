//! Gradients as Python sees them: `backward` and `grad`, hooks and nodes.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::args::{Args, end, given, method};
use super::object::{self, this, wrap};
use super::py::{self, Caught, Gil, Keep, Object, PyResult, Ref, without_gil};
use crate::autograd::engine::{self, Backward};
use crate::autograd::hook::Hook;
use crate::autograd::node::Node;
use crate::autograd::{grad_mode, history};
use crate::error::{Error, Result};
use crate::ops::show;
use crate::tensor::{Tensor, WeakTensor};

type Slf<'a> = Option<Ref<'a>>;
type Returned = PyResult<Object>;

/// A Python function as a hook.
struct PyHook(Keep);

impl Hook for PyHook {
    fn call(&self, gradient: &Tensor) -> Result<Option<Tensor>> {
        let gil = Gil::take();
        let call = || -> PyResult<Option<Tensor>> {
            let argument = wrap(gradient.clone())?;
            let result = self.0.get(&gil).call(&[argument.get()])?;
            if result.get().is_none() {
                return Ok(None);
            }
            let tensor = object::of(result.get()).ok_or_else(|| {
                let found = result.get().type_name();
                Error::ty(format!("hooks must return None or a Tensor, not {found}"))
            })?;
            if tensor.shape() != gradient.shape() {
                return Err(Error::runtime(format!(
                    "hook has changed the size of value: from {} to {}",
                    show(gradient.shape()),
                    show(tensor.shape())
                ))
                .into());
            }
            Ok(Some(tensor))
        };
        call().map_err(|fault| {
            fault.set();
            Caught::into_error(Caught::take())
        })
    }
}

/// Lets signals be handled during a long backward pass, now and then.
fn poll() -> Result<()> {
    const EVERY: Duration = Duration::from_millis(50);
    thread_local! {
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    let is_time = LAST.with(|last| match last.get() {
        Some(before) if now.duration_since(before) < EVERY => false,
        _ => {
            last.set(Some(now));
            true
        }
    });
    if !is_time {
        return Ok(());
    }
    let _gil = Gil::take();
    // SAFETY: the GIL is held.
    if unsafe { ffi::PyErr_CheckSignals() } != 0 {
        return Err(Caught::into_error(Caught::take()));
    }
    Ok(())
}

fn tensors(value: Ref<'_>, function: &str, name: &str) -> PyResult<Vec<Tensor>> {
    if let Some(tensor) = object::of(value) {
        return Ok(vec![tensor]);
    }
    if !value.is_list() {
        let found = value.type_name();
        return Err(Error::ty(format!(
            "{function}(): argument '{name}' must be Tensor or tuple of Tensors, not {found}"
        ))
        .into());
    }
    value.items().iter().map(|item| object::expect(item.get(), function, name)).collect()
}

fn optional_tensors(value: Option<Ref<'_>>, function: &str, count: usize) -> PyResult<Vec<Option<Tensor>>> {
    let Some(value) = given(value) else { return Ok(vec![None; count]) };
    if let Some(tensor) = object::of(value) {
        return Ok(vec![Some(tensor)]);
    }
    let item = |item: &Object| match given(Some(item.get())) {
        None => Ok(None),
        Some(item) => object::expect(item, function, "grad_outputs").map(Some),
    };
    value.items().iter().map(item).collect()
}

fn flag(value: Option<Ref<'_>>) -> PyResult<Option<bool>> {
    given(value).map(Ref::truth).transpose()
}

/// `Tensor.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)`.
pub fn backward(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [gradient, retain, create, inputs] =
        args.bind(["gradient", "retain_graph", "create_graph", "inputs"], 0)?;
    let outputs = [this(slf)?];
    let gradients = [given(gradient).map(|g| object::expect(g, "backward", "gradient")).transpose()?];
    let inputs = given(inputs).map(|inputs| tensors(inputs, "backward", "inputs")).transpose()?;
    let create_graph = flag(create)?.unwrap_or(false);
    let retain_graph = flag(retain)?.unwrap_or(create_graph);
    without_gil(|| {
        let options = Backward { retain_graph, create_graph, poll: Some(&poll) };
        engine::backward(&outputs, &gradients, inputs.as_deref(), &options)
    })?;
    Ok(py::none())
}

/// `grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False)`.
fn grad(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let names = ["outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "allow_unused"];
    let [outputs, inputs, gradients, retain, create, unused] = args.bind(names, 2)?;
    let (Some(outputs), Some(inputs)) = (outputs, inputs) else { return Ok(py::none()) };
    let outputs = tensors(outputs, "grad", "outputs")?;
    let inputs = tensors(inputs, "grad", "inputs")?;
    let gradients = optional_tensors(gradients, "grad", outputs.len())?;
    let create_graph = flag(create)?.unwrap_or(false);
    let retain_graph = flag(retain)?.unwrap_or(create_graph);
    let allow_unused = flag(unused)?.unwrap_or(false);
    let found = without_gil(|| {
        let options = Backward { retain_graph, create_graph, poll: Some(&poll) };
        engine::grad(&outputs, &gradients, &inputs, allow_unused, &options)
    })?;
    let one = |gradient: Option<Tensor>| gradient.map_or_else(|| Ok(py::none()), wrap);
    py::tuple(found.into_iter().map(one).collect::<PyResult<_>>()?)
}

/// `backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False)`.
fn backward_of(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let names = ["tensors", "grad_tensors", "retain_graph", "create_graph", "inputs"];
    let [outputs, gradients, retain, create, inputs] = args.bind(names, 1)?;
    let Some(outputs) = outputs else { return Ok(py::none()) };
    let outputs = tensors(outputs, "backward", "tensors")?;
    let gradients = optional_tensors(gradients, "backward", outputs.len())?;
    let inputs = given(inputs).map(|inputs| tensors(inputs, "backward", "inputs")).transpose()?;
    let create_graph = flag(create)?.unwrap_or(false);
    let retain_graph = flag(retain)?.unwrap_or(create_graph);
    without_gil(|| {
        let options = Backward { retain_graph, create_graph, poll: Some(&poll) };
        engine::backward(&outputs, &gradients, inputs.as_deref(), &options)
    })?;
    Ok(py::none())
}

fn set_grad_enabled(_: Slf<'_>, args: &Args<'_>) -> Returned {
    let [enabled] = args.bind(["enabled"], 1)?;
    let enabled = flag(enabled)?.unwrap_or(true);
    py::boolean(grad_mode::set_enabled(enabled))
}

fn is_grad_enabled(_: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    py::boolean(grad_mode::is_enabled())
}

pub(super) fn set_requires_grad(tensor: &Tensor, wanted: bool) -> Result<()> {
    if history::grad_fn(tensor).is_some() {
        if wanted {
            return Ok(());
        }
        return Err(Error::runtime(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a \
             subgraph that doesn't require differentiation use var_no_grad = var.detach().",
        ));
    }
    if wanted && !(tensor.dtype().is_float() || tensor.dtype().is_complex()) {
        return Err(Error::runtime("only Tensors of floating point and complex dtype can require gradients"));
    }
    tensor.with_meta(|meta| meta.requires_grad = wanted);
    if wanted {
        tensor.mark_may_require_grad();
    }
    Ok(())
}

pub fn requires_grad_(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [wanted] = args.bind(["requires_grad"], 0)?;
    set_requires_grad(&this(slf)?, flag(wanted)?.unwrap_or(true))?;
    Ok(slf.map_or_else(py::none, Ref::to_owned))
}

pub fn retain_grad(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    let tensor = this(slf)?;
    if !history::requires_grad(&tensor) {
        return Err(Error::runtime("can't retain_grad on Tensor that has requires_grad=False").into());
    }
    if let Some((node, output)) = history::grad_fn(&tensor) {
        let was_retained = tensor.with_meta(|meta| std::mem::replace(&mut meta.retains_grad, true));
        if !was_retained {
            node.retain(output, tensor.downgrade());
        }
    }
    Ok(py::none())
}

/// Where a hook sits, to take it out again.
enum Place {
    Leaf(WeakTensor, u64),
    PostAccumulate(WeakTensor, u64),
    Node(Weak<Node>, u64),
}

impl Place {
    fn remove(&self) {
        // What comes out is dropped outside of the locks.
        let removed = match self {
            Place::Leaf(tensor, id) => {
                tensor.upgrade().and_then(|tensor| tensor.with_meta(|meta| meta.hooks.remove(*id)))
            }
            Place::PostAccumulate(tensor, id) => {
                tensor.upgrade().and_then(|tensor| tensor.with_meta(|meta| meta.post_accumulate.remove(*id)))
            }
            Place::Node(node, id) => node.upgrade().and_then(|node| node.remove_hook(*id)),
        };
        drop(removed);
    }
}

fn hook_of(value: Option<Ref<'_>>) -> PyResult<Arc<dyn Hook>> {
    let value = value.ok_or_else(|| Error::ty("a hook is missing"))?;
    // SAFETY: a live object.
    if unsafe { ffi::PyCallable_Check(value.as_ptr()) } == 0 {
        return Err(Error::ty(format!("a hook must be callable, not {}", value.type_name())).into());
    }
    Ok(Arc::new(PyHook(Keep::new(value.to_owned()))))
}

pub fn register_hook(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [hook] = args.bind(["hook"], 1)?;
    let tensor = this(slf)?;
    if !history::requires_grad(&tensor) {
        return Err(Error::runtime("cannot register a hook on a tensor that doesn't require gradient").into());
    }
    let hook = hook_of(hook)?;
    let place = match history::grad_fn(&tensor) {
        Some((node, output)) => {
            let id = node.add_hook(output, hook);
            Place::Node(Arc::downgrade(&node), id)
        }
        None => Place::Leaf(tensor.downgrade(), tensor.with_meta(|meta| meta.hooks.add(hook))),
    };
    handle(place)
}

pub fn register_post_accumulate_grad_hook(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    let [hook] = args.bind(["hook"], 1)?;
    let tensor = this(slf)?;
    if !history::requires_grad(&tensor) {
        return Err(Error::runtime("cannot register a hook on a tensor that doesn't require gradient").into());
    }
    if history::grad_fn(&tensor).is_some() {
        return Err(
            Error::runtime("post accumulate grad hooks cannot be registered on non-leaf tensors").into()
        );
    }
    let hook = hook_of(hook)?;
    let id = tensor.with_meta(|meta| meta.post_accumulate.add(hook));
    handle(Place::PostAccumulate(tensor.downgrade(), id))
}

pub fn is_view(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    py::boolean(this(slf)?.base().is_some())
}

/// An object that holds a Rust value which other Rust code gives out.
#[repr(C)]
struct Holder<T> {
    base: PyObject,
    value: ManuallyDrop<Option<T>>,
}

unsafe extern "C" fn dealloc<T>(slf: *mut PyObject) {
    // SAFETY: the last reference to an object of this layout is gone; each part is taken down once.
    unsafe {
        let value = (*slf.cast::<Holder<T>>()).value.take();
        let kind = ffi::Py_TYPE(slf);
        if let Some(free) = (*kind).tp_free {
            free(slf.cast());
        }
        ffi::Py_DECREF(kind.cast());
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(value)));
    }
}

fn hold<T>(kind: &AtomicPtr<PyObject>, value: T) -> Returned {
    // SAFETY: a type of this layout, made at import; its allocator gives zeroed memory, which is overwritten.
    unsafe {
        let object = Object::owned(ffi::PyType_GenericAlloc(kind.load(Ordering::Acquire).cast(), 0))?;
        let place = object.get().as_ptr().cast::<Holder<T>>();
        std::ptr::write(&raw mut (*place).value, ManuallyDrop::new(Some(value)));
        Ok(object)
    }
}

/// The value of a holder whose type the interpreter has checked.
///
/// # Safety
/// The object is a `Holder<T>`.
unsafe fn held<'a, T>(slf: Option<Ref<'a>>) -> PyResult<&'a T> {
    let missing = || Error::runtime("the object holds nothing");
    let slf = slf.ok_or_else(missing)?;
    // SAFETY: the caller's promise.
    let value = unsafe { &(*slf.as_ptr().cast::<Holder<T>>()).value };
    Ok(value.as_ref().ok_or_else(missing)?)
}

static HANDLE: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());
static NODE: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());

fn handle(place: Place) -> Returned {
    hold(&HANDLE, place)
}

fn handle_remove(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    // SAFETY: a method of the handle's type.
    unsafe { held::<Place>(slf)? }.remove();
    Ok(py::none())
}

pub(super) fn node_object(node: Arc<Node>) -> Returned {
    hold(&NODE, node)
}

fn node_name(slf: Slf<'_>, args: &Args<'_>) -> Returned {
    args.bind::<0>([], 0)?;
    // SAFETY: a method of the node's type.
    py::text(unsafe { held::<Arc<Node>>(slf)? }.name())
}

unsafe extern "C" fn node_repr(slf: *mut PyObject) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object of the node's type.
        let node = unsafe { held::<Arc<Node>>(Ref::new(slf))? };
        py::text(&format!("<{} object at {:#x}>", node.short_name(), Arc::as_ptr(node) as usize))
    })
}

unsafe extern "C" fn node_get(slf: *mut PyObject, what: *mut c_void) -> *mut PyObject {
    py::guard(|| {
        // SAFETY: called with a live object of the node's type.
        let node = unsafe { held::<Arc<Node>>(Ref::new(slf))? };
        if what as usize == 1 {
            return py::unsigned(node.sequence());
        }
        let one = |edge: &Option<crate::autograd::node::Edge>| match edge {
            Some(edge) => py::tuple(vec![node_object(edge.node.clone())?, py::int(edge.input as i64)?]),
            None => py::tuple(vec![py::none(), py::int(0)?]),
        };
        py::tuple(node.edges().iter().map(one).collect::<PyResult<_>>()?)
    })
}

/// The functions of this file.
pub fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("grad", grad),
        method!("backward", backward_of),
        method!("_set_grad_enabled", set_grad_enabled),
        method!("is_grad_enabled", is_grad_enabled),
    ]
}

/// Makes the types of nodes and handles.
pub fn register(module: Ref<'_>) -> PyResult<()> {
    let slot = |slot: i32, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let methods = Box::leak(Box::new([method!("remove", handle_remove), end()]));
    let slots = Box::leak(Box::new([
        slot(ffi::Py_tp_dealloc, dealloc::<Place> as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(0, null_mut()),
    ]));
    make::<Place>(module, c"RemovableHandle", c"lanthorn._C.RemovableHandle", slots.as_mut_ptr(), &HANDLE)?;
    let methods = Box::leak(Box::new([method!("name", node_name), end()]));
    let getter = |name: &'static std::ffi::CStr, what: usize| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(node_get),
        set: None,
        doc: std::ptr::null(),
        closure: what as *mut c_void,
    };
    let getters = Box::leak(Box::new([
        getter(c"next_functions", 0),
        getter(c"_sequence_nr", 1),
        ffi::PyGetSetDef::default(),
    ]));
    let slots = Box::leak(Box::new([
        slot(ffi::Py_tp_dealloc, dealloc::<Arc<Node>> as *mut c_void),
        slot(ffi::Py_tp_repr, node_repr as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, getters.as_mut_ptr().cast()),
        slot(0, null_mut()),
    ]));
    make::<Arc<Node>>(module, c"Node", c"lanthorn._C.Node", slots.as_mut_ptr(), &NODE)
}

fn make<T>(
    module: Ref<'_>,
    name: &'static std::ffi::CStr,
    full: &'static std::ffi::CStr,
    slots: *mut ffi::PyType_Slot,
    place: &AtomicPtr<PyObject>,
) -> PyResult<()> {
    let mut spec = ffi::PyType_Spec {
        name: full.as_ptr(),
        basicsize: size_of::<Holder<T>>() as i32,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as u32,
        slots,
    };
    // SAFETY: the spec's parts live for ever.
    let kind = unsafe { Object::owned(ffi::PyType_FromSpec(&mut spec))? };
    super::add(module, name, kind.get())?;
    place.store(kind.into_ptr(), Ordering::Release);
    Ok(())
}
