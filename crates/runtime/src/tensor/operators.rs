//! Operators: `(&a + &b)?`, `(&a * 2.0)?`, `(-&a)?`. They are the methods of the same name and report the same
//! errors, so their result is a [`Result`]; one may stand on the right of the next.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use lanthorn_ir::Result;

use super::Tensor;

macro_rules! operators {
    ($($trait:ident $method:ident $scalar:ident;)*) => {$(
        impl $trait<&Tensor> for &Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: &Tensor) -> Result<Tensor> {
                Tensor::$method(self, other)
            }
        }

        impl $trait<Tensor> for &Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: Tensor) -> Result<Tensor> {
                Tensor::$method(self, &other)
            }
        }

        impl $trait<&Tensor> for Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: &Tensor) -> Result<Tensor> {
                Tensor::$method(&self, other)
            }
        }

        impl $trait for Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: Tensor) -> Result<Tensor> {
                Tensor::$method(&self, &other)
            }
        }

        impl $trait<Result<Tensor>> for &Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: Result<Tensor>) -> Result<Tensor> {
                Tensor::$method(self, &other?)
            }
        }

        impl $trait<f64> for &Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: f64) -> Result<Tensor> {
                self.$scalar(other)
            }
        }

        impl $trait<f64> for Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: f64) -> Result<Tensor> {
                self.$scalar(other)
            }
        }
    )*};
}

operators! {
    Add add add_scalar;
    Sub sub sub_scalar;
    Mul mul mul_scalar;
    Div div div_scalar;
    Rem rem rem_scalar;
}

impl Neg for &Tensor {
    type Output = Result<Tensor>;
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}
