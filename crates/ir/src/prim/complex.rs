//! Complex values seen as pairs of real ones, and back. Both are views where strides allow.
//!
//! These two and movement are all that a complex value meets: arithmetic is composed of real parts by
//! [`crate::ops::complex`](mod@crate::ops::complex), and devices see a complex value as a real one with a last axis of size 2, which has the
//! same bytes. So no kernel knows complex numbers, and derivatives follow from those of real parts: the gradient of a
//! real loss is `dL/dre + i dL/dim`, torch's convention (Kreutz-Delgado 2009, "The complex gradient operator and the
//! CR-calculus").

use serde::{Deserialize, Serialize};
use smallvec::smallvec;

use super::{Applied, Batched, Movement, Optional, Prim, Rules, Types, derived, expect_arity};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{Dims, Layout, ShowShape, TensorType};

/// The two ways to look at complex numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Complex {
    /// `c64[..]` as `f32[.., 2]`: real and imaginary part along a new last axis.
    AsReal,
    /// `f32[.., 2]` as `c64[..]`.
    AsComplex,
}

impl Complex {
    /// The view of `layout` under the other dtype, whose elements it then counts; `None` where parts do not lie side
    /// by side.
    pub fn view(self, layout: &Layout) -> Option<Layout> {
        let Layout { shape, strides, offset } = layout;
        match self {
            Complex::AsReal => {
                let mut pairs = Layout {
                    shape: shape.clone(),
                    strides: strides.iter().map(|stride| stride * 2).collect(),
                    offset: offset * 2,
                };
                pairs.shape.push(2);
                pairs.strides.push(1);
                Some(pairs)
            }
            Complex::AsComplex => {
                let (&last, outer) = strides.split_last()?;
                let sizes = &shape[..outer.len()];
                let even = |(&stride, &size): (&isize, &usize)| size < 2 || stride % 2 == 0;
                let fits = last == 1 && offset % 2 == 0 && outer.iter().zip(sizes).all(even);
                fits.then(|| Layout {
                    shape: Dims::from_slice(sizes),
                    strides: outer.iter().map(|stride| stride / 2).collect(),
                    offset: offset / 2,
                })
            }
        }
    }
}

/// The real type with the bytes of a complex one; any other type itself.
pub fn real_form(ty: &TensorType) -> TensorType {
    match ty.dtype.part() {
        Some(part) => {
            let mut shape = ty.shape.clone();
            shape.push(2);
            TensorType { dtype: part, shape }
        }
        None => ty.clone(),
    }
}

/// The movements of a complex value of rank `rank` as those of its real form.
pub fn real_movements(movement: &Movement, rank: usize) -> Vec<Movement> {
    let with = |dims: &Dims, last: usize| {
        let mut dims = dims.clone();
        dims.push(last);
        dims
    };
    vec![match movement {
        Movement::Reshape { shape } => Movement::Reshape { shape: with(shape, 2) },
        Movement::Permute { axes } => Movement::Permute { axes: with(axes, rank) },
        Movement::Broadcast { shape } => Movement::Broadcast { shape: with(shape, 2) },
        Movement::Slice { starts, stops, steps } => {
            Movement::Slice { starts: with(starts, 0), stops: with(stops, 2), steps: with(steps, 1) }
        }
        Movement::Flip { axes } => Movement::Flip { axes: axes.clone() },
        Movement::Pad { low, high, interior } => {
            Movement::Pad { low: with(low, 0), high: with(high, 0), interior: with(interior, 0) }
        }
        Movement::Concat { axis } => Movement::Concat { axis: *axis },
        Movement::Window(windows) => {
            // The places of the windows come after the parts, which go last again.
            let order = (0..rank).chain(rank + 1..rank + 1 + windows.axes.len()).chain([rank]);
            return vec![movement.clone(), Movement::Permute { axes: order.collect() }];
        }
    }]
}

impl Rules for Complex {
    fn name(&self) -> &'static str {
        match self {
            Complex::AsReal => "as_real",
            Complex::AsComplex => "as_complex",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let name = self.name();
        expect_arity(name, inputs, 1)?;
        let x = inputs[0];
        match self {
            Complex::AsReal if x.dtype.is_complex() => Ok(smallvec![real_form(x)]),
            Complex::AsReal => {
                Err(Error::dtype(name, format!("the operand is {}, expected c64 or c128", x.dtype)))
            }
            Complex::AsComplex => {
                let Some(dtype) = x.dtype.complex() else {
                    return Err(Error::dtype(
                        name,
                        format!("the operand is {}, expected f32 or f64", x.dtype),
                    ));
                };
                match x.shape.split_last() {
                    Some((2, outer)) => Ok(smallvec![TensorType::new(dtype, outer)]),
                    _ => Err(Error::shape(
                        name,
                        format!(
                            "the operand has shape {}, expected a last axis of size 2",
                            ShowShape(&x.shape)
                        ),
                    )),
                }
            }
        }
    }

    fn vjp<B: Builder>(
        &self,
        b: &B,
        _: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        let back = match self {
            Complex::AsReal => Complex::AsComplex,
            Complex::AsComplex => Complex::AsReal,
        };
        Ok(vec![apply(b, back, cotangents[0].as_ref())?])
    }

    fn jvp<B: Builder>(
        &self,
        b: &B,
        _: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        Ok(vec![apply(b, *self, tangents[0].as_ref())?])
    }

    fn batch<B: Builder>(
        &self,
        b: &B,
        _: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        let value = std::slice::from_ref(&inputs[0].value);
        Ok(derived::with_axis(b.apply(Prim::Complex(*self), value)?))
    }

    fn decompose<B: Builder>(&self, _: &B, _: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        Ok(None)
    }

    fn body(&self, _: &mut KernelExpr, _: &[&TensorType], _: &[StepId]) -> Option<Vec<StepId>> {
        None
    }
}

fn apply<B: Builder>(b: &B, op: Complex, value: Option<&B::Value>) -> Result<Option<B::Value>> {
    value.map(|value| b.apply1(Prim::Complex(op), std::slice::from_ref(value))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_count_elements_of_either_dtype() {
        let complex = Layout { shape: Dims::from_slice(&[3, 2]), strides: smallvec![1, 3], offset: 5 };
        let Some(pairs) = Complex::AsReal.view(&complex) else { panic!("always a view") };
        assert_eq!(
            (&pairs.shape[..], &pairs.strides[..], pairs.offset),
            (&[3, 2, 2][..], &[2, 6, 1][..], 10)
        );
        assert_eq!(Complex::AsComplex.view(&pairs), Some(complex));
    }

    #[test]
    fn parts_that_do_not_lie_side_by_side_are_no_view() {
        let pairs = Layout::contiguous([4, 2]);
        for layout in [
            Layout { offset: 1, ..pairs.clone() },
            Layout { strides: smallvec![1, 4], ..pairs.clone() },
            Layout { strides: smallvec![3, 1], ..pairs.clone() },
            Layout { strides: smallvec![2, -1], offset: 2, ..pairs },
        ] {
            assert_eq!(Complex::AsComplex.view(&layout), None, "{layout:?}");
        }
        let single = Layout { shape: Dims::from_slice(&[1, 2]), strides: smallvec![3, 1], offset: 2 };
        assert!(Complex::AsComplex.view(&single).is_some());
    }
}
