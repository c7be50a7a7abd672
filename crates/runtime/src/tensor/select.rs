//! Methods that select, write, scan and sort: those that give several tensors, or take an axis before their tensors.

use std::borrow::Borrow;

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::ops::ScatterReduce;
use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{Error, Result, Value, ops};

use super::Tensor;

/// Methods that give several tensors.
macro_rules! lists {
    ($(fn $name:ident($($attribute:ident: $kind:ty),*);)*) => {
        impl Tensor {$(
            #[doc = concat!("See [`", stringify!($name), "`](lanthorn_ir::ops::", stringify!($name), "()).")]
            pub fn $name(&self $(, $attribute: $kind)*) -> Result<Vec<Tensor>> {
                let x = self.value();
                Tensor::outputs(stringify!($name), &[self], |lazy| ops::$name(lazy, &x $(, $attribute)*))
            }
        )*}

        #[cfg(test)]
        pub(super) const LISTS: &[&str] = &[$(stringify!($name)),*];
    };
}

lists! {
    fn cummax(axis: isize);
    fn cummin(axis: isize);
    fn sort(axis: isize, descending: bool);
    fn topk(k: usize, axis: isize, largest: bool, sorted: bool);
    fn kthvalue(k: usize, axis: isize, keepdim: bool);
    fn median(axis: Option<isize>, keepdim: bool);
    fn nanmedian(axis: Option<isize>, keepdim: bool);
    fn mode(axis: isize, keepdim: bool);
    fn unique(axis: Option<isize>, size: Option<usize>, fill: Scalar);
    fn unique_consecutive(axis: Option<isize>, size: Option<usize>, fill: Scalar);
    fn tensor_split(count: usize, axis: isize);
    fn split_at(places: &[isize], axis: isize);
}

/// Methods that take an axis, then tensors, then attributes.
macro_rules! along {
    ($(fn $name:ident($($tensor:ident),* $(; $($attribute:ident: $kind:ty),*)?);)*) => {
        impl Tensor {$(
            #[doc = concat!("See [`", stringify!($name), "`](lanthorn_ir::ops::", stringify!($name), "()).")]
            pub fn $name(
                &self,
                axis: isize
                $(, $tensor: &Tensor)* $($(, $attribute: $kind)*)?
            ) -> Result<Tensor> {
                Tensor::apply(stringify!($name), [self $(, $tensor)*], |lazy, [x $(, $tensor)*]| {
                    ops::$name(lazy, x, axis $(, $tensor)* $($(, $attribute)*)?)
                })
            }
        )*}

        #[cfg(test)]
        pub(super) const ALONG: &[&str] = &[$(stringify!($name)),*];
    };
}

along! {
    fn index_select(ids);
    fn gather(ids);
    fn scatter(ids, source);
    fn scatter_add(ids, source);
    fn scatter_reduce(ids, source; reduce: ScatterReduce, include_self: bool);
    fn index_add(ids, source; alpha: Scalar);
    fn index_copy(ids, source);
    fn index_fill(ids; value: Scalar);
}

/// Methods that join tensors.
macro_rules! joins {
    ($(fn $name:ident;)*) => {
        impl Tensor {$(
            #[doc = concat!("See [`", stringify!($name), "`](lanthorn_ir::ops::", stringify!($name), "()).")]
            pub fn $name<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
                let values: Vec<Value> = tensors.iter().map(|tensor| tensor.borrow().value()).collect();
                let outputs =
                    Tensor::outputs(stringify!($name), tensors, |lazy| Ok(vec![ops::$name(lazy, &values)?]));
                only(stringify!($name), outputs?)
            }
        )*}

        #[cfg(test)]
        pub(super) const JOINS: &[&str] = &[$(stringify!($name)),*];
    };
}

joins! {
    fn hstack;
    fn vstack;
    fn dstack;
}

#[cfg(test)]
pub(super) const BY_HAND: &[&str] =
    &["index", "index_put", "meshgrid", "bincount", "diff", "trapezoid", "cumulative_trapezoid"];

fn only(name: &str, mut outputs: Vec<Tensor>) -> Result<Tensor> {
    outputs.pop().ok_or_else(|| Error::unsupported(name, "gave no result"))
}

fn ints(values: &[isize]) -> Attribute {
    Attribute::Ints(values.iter().map(|&v| v as i64).collect())
}

impl Tensor {
    /// See [`index`](lanthorn_ir::ops::index()).
    pub fn index<T: Borrow<Tensor>>(&self, ids: &[T], axes: &[isize]) -> Result<Tensor> {
        let tensors: Vec<Option<&Tensor>> =
            std::iter::once(self).chain(ids.iter().map(Borrow::borrow)).map(Some).collect();
        only("index", Tensor::call("index", &tensors, &[ints(axes)])?)
    }

    /// See [`index_put`](lanthorn_ir::ops::index_put()).
    pub fn index_put<T: Borrow<Tensor>>(
        &self,
        values: &Tensor,
        ids: &[T],
        axes: &[isize],
        accumulate: bool,
    ) -> Result<Tensor> {
        let tensors: Vec<Option<&Tensor>> =
            [self, values].into_iter().chain(ids.iter().map(Borrow::borrow)).map(Some).collect();
        only("index_put", Tensor::call("index_put", &tensors, &[ints(axes), Attribute::Bool(accumulate)])?)
    }

    /// See [`meshgrid`](lanthorn_ir::ops::meshgrid()).
    pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T], xy: bool) -> Result<Vec<Tensor>> {
        let tensors: Vec<Option<&Tensor>> = tensors.iter().map(|tensor| Some(tensor.borrow())).collect();
        Tensor::call("meshgrid", &tensors, &[Attribute::Bool(xy)])
    }

    /// See [`bincount`](lanthorn_ir::ops::bincount()).
    pub fn bincount(&self, weights: Option<&Tensor>, size: Option<usize>) -> Result<Tensor> {
        let size = size.map_or(Attribute::None, |size| Attribute::Int(size as i64));
        only("bincount", Tensor::call("bincount", &[Some(self), weights], &[size])?)
    }

    /// See [`diff`](lanthorn_ir::ops::diff()).
    pub fn diff(
        &self,
        before: Option<&Tensor>,
        after: Option<&Tensor>,
        times: usize,
        axis: isize,
    ) -> Result<Tensor> {
        let attributes = [Attribute::Int(times as i64), Attribute::Int(axis as i64)];
        only("diff", Tensor::call("diff", &[Some(self), before, after], &attributes)?)
    }

    /// See [`trapezoid`](lanthorn_ir::ops::trapezoid()).
    pub fn trapezoid(&self, x: Option<&Tensor>, spacing: f64, axis: isize) -> Result<Tensor> {
        let attributes = [Attribute::Float(spacing), Attribute::Int(axis as i64)];
        only("trapezoid", Tensor::call("trapezoid", &[Some(self), x], &attributes)?)
    }

    /// See [`cumulative_trapezoid`](lanthorn_ir::ops::cumulative_trapezoid()).
    pub fn cumulative_trapezoid(&self, x: Option<&Tensor>, spacing: f64, axis: isize) -> Result<Tensor> {
        let attributes = [Attribute::Float(spacing), Attribute::Int(axis as i64)];
        only("cumulative_trapezoid", Tensor::call("cumulative_trapezoid", &[Some(self), x], &attributes)?)
    }
}
