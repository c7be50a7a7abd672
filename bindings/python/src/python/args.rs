//! Arguments of fast calls: positions and keywords bound to names.

use pyo3_ffi as ffi;
use pyo3_ffi::PyObject;

use super::py::{PyResult, Ref};
use crate::error::Error;

/// Arguments by the places of their names.
pub type Bound<'a, const N: usize> = [Option<Ref<'a>>; N];

/// The arguments of one call as the interpreter hands them over.
pub struct Args<'a> {
    function: &'static str,
    values: &'a [*mut PyObject],
    positional: usize,
    names: *mut PyObject,
}

impl<'a> Args<'a> {
    /// # Safety
    /// The arguments of a `METH_FASTCALL | METH_KEYWORDS` function, which live for `'a`.
    pub unsafe fn new(
        function: &'static str,
        values: *const *mut PyObject,
        count: isize,
        names: *mut PyObject,
    ) -> Args<'a> {
        // SAFETY: the caller's promise: so many values, those of the keywords last.
        unsafe {
            let keywords = if names.is_null() { 0 } else { ffi::PyTuple_Size(names) };
            let all = (count + keywords) as usize;
            let values = if all == 0 { &[] } else { std::slice::from_raw_parts(values, all) };
            Args { function, values, positional: count as usize, names }
        }
    }

    /// The first positional argument, and the rest.
    pub fn split_first(&self) -> PyResult<(Ref<'a>, Args<'a>)> {
        let function = self.function;
        let first = self.at(0).ok_or_else(|| {
            Error::ty(format!("{function}() missing 1 required positional arguments: \"input\""))
        })?;
        let values = &self.values[1..];
        Ok((first, Args { function, values, positional: self.positional - 1, names: self.names }))
    }

    /// The function's name, for messages.
    pub fn function(&self) -> &'static str {
        self.function
    }

    /// How many positional arguments there are.
    pub fn positional(&self) -> usize {
        self.positional
    }

    /// A positional argument.
    pub fn at(&self, index: usize) -> Option<Ref<'a>> {
        let value = self.values[..self.positional].get(index)?;
        // SAFETY: arguments live as long as the call.
        unsafe { Ref::new(*value) }
    }

    /// The keyword arguments.
    pub fn keywords(&self) -> PyResult<Vec<(String, Ref<'a>)>> {
        let values = &self.values[self.positional..];
        let pair = |(at, value): (usize, &*mut PyObject)| {
            // SAFETY: the names are a tuple of as many strings; values live as long as the call.
            let (name, value) =
                unsafe { (Ref::new(ffi::PyTuple_GetItem(self.names, at as isize)), Ref::new(*value)) };
            match (name, value) {
                (Some(name), Some(value)) => Ok((name.str()?, value)),
                _ => Err(Error::ty(format!("{}(): broken keyword arguments", self.function)).into()),
            }
        };
        values.iter().enumerate().map(pair).collect()
    }

    /// Binds arguments to names, of which the first `required` must be given. `None` stands for absence where the
    /// caller treats it so.
    pub fn bind<const N: usize>(&self, names: [&str; N], required: usize) -> PyResult<Bound<'a, N>> {
        let function = self.function;
        if self.positional > N {
            let plural = if N == 1 { "" } else { "s" };
            return Err(Error::ty(format!(
                "{function}() takes {N} positional argument{plural} but {} were given",
                self.positional
            ))
            .into());
        }
        let mut bound: Bound<'a, N> = [None; N];
        for (slot, at) in bound.iter_mut().zip(0..self.positional) {
            *slot = self.at(at);
        }
        if self.values.len() > self.positional {
            for (name, value) in self.keywords()? {
                let Some(at) = names.iter().position(|known| *known == name) else {
                    return Err(Error::ty(format!(
                        "{function}() got an unexpected keyword argument '{name}'"
                    ))
                    .into());
                };
                if bound[at].replace(value).is_some() {
                    return Err(
                        Error::ty(format!("{function}() got multiple values for argument '{name}'")).into()
                    );
                }
            }
        }
        for (name, value) in names.iter().zip(&bound).take(required) {
            if value.is_none() {
                return Err(Error::ty(format!(
                    "{function}() missing 1 required positional arguments: \"{name}\""
                ))
                .into());
            }
        }
        Ok(bound)
    }

    /// Binds sizes that may be one sequence or the positional arguments themselves, and then keywords.
    pub fn bind_sizes<const N: usize>(
        &self,
        sizes: &str,
        names: [&str; N],
    ) -> PyResult<(Option<Vec<i64>>, Bound<'a, N>)> {
        let mut found = match (self.at(0), self.positional) {
            (None, _) => None,
            (Some(first), 1) if first.is_list() => Some(super::convert::ints(first, self.function, sizes)?),
            (Some(_), count) => {
                let one =
                    |at: usize| self.at(at).map(|value| super::convert::index(value, self.function, sizes));
                Some((0..count).filter_map(one).collect::<PyResult<Vec<i64>>>()?)
            }
        };
        let mut bound: Bound<'a, N> = [None; N];
        for (name, value) in self.keywords()? {
            if name == sizes && found.is_none() {
                found = Some(super::convert::ints(value, self.function, sizes)?);
            } else if let Some(at) = names.iter().position(|known| *known == name) {
                bound[at] = Some(value);
            } else {
                let function = self.function;
                return Err(
                    Error::ty(format!("{function}() got an unexpected keyword argument '{name}'")).into()
                );
            }
        }
        Ok((found, bound))
    }
}

/// An argument, with `None` as absence.
pub fn given(value: Option<Ref<'_>>) -> Option<Ref<'_>> {
    value.filter(|value| !value.is_none())
}

/// A row of a method table.
macro_rules! method {
    ($name:literal, $function:path, $flags:expr) => {{
        unsafe extern "C" fn entry(
            slf: *mut pyo3_ffi::PyObject,
            values: *const *mut pyo3_ffi::PyObject,
            count: isize,
            names: *mut pyo3_ffi::PyObject,
        ) -> *mut pyo3_ffi::PyObject {
            // SAFETY: the interpreter calls with live objects and holds the GIL.
            unsafe {
                $crate::python::py::guard(|| {
                    let args = $crate::python::args::Args::new($name, values, count, names);
                    // A static function has no object of its own.
                    let slf = $crate::python::py::Ref::new(slf);
                    $function(slf, &args)
                })
            }
        }
        pyo3_ffi::PyMethodDef {
            ml_name: concat!($name, "\0").as_ptr().cast(),
            ml_meth: pyo3_ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: entry },
            ml_flags: pyo3_ffi::METH_FASTCALL | pyo3_ffi::METH_KEYWORDS | $flags,
            ml_doc: std::ptr::null(),
        }
    }};
    ($name:literal, $function:path) => {
        method!($name, $function, 0)
    };
}
pub(crate) use method;

/// The end of a method table.
pub const fn end() -> ffi::PyMethodDef {
    ffi::PyMethodDef::zeroed()
}
