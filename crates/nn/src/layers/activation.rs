//! Activations and other layers without parameters.

use lanthorn_ir::ops::GeluApproximate;
use lanthorn_ir::{Builder, Result, ops};
use serde::{Deserialize, Serialize};

use super::{Layer, Pass};

/// A function of each element, or along one axis. The ops of the same names say what each computes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    Relu,
    Relu6,
    LeakyRelu {
        slope: f64,
    },
    Elu {
        alpha: f64,
    },
    Celu {
        alpha: f64,
    },
    Selu,
    Gelu,
    /// GELU by tanh, as GPT-2 has it.
    GeluTanh,
    QuickGelu,
    Silu,
    Mish,
    Sigmoid,
    LogSigmoid,
    HardSigmoid,
    HardSwish,
    Tanh,
    HardTanh,
    Softplus,
    Softsign,
    Softmax {
        axis: isize,
    },
    LogSoftmax {
        axis: isize,
    },
    Glu {
        axis: isize,
    },
}

impl Activation {
    /// The function's value.
    pub fn forward<B: Builder>(&self, b: &B, x: &B::Value) -> Result<B::Value> {
        match *self {
            Activation::Relu => ops::relu(b, x),
            Activation::Relu6 => ops::relu6(b, x),
            Activation::LeakyRelu { slope } => ops::leaky_relu(b, x, slope),
            Activation::Elu { alpha } => ops::elu(b, x, alpha),
            Activation::Celu { alpha } => ops::celu(b, x, alpha),
            Activation::Selu => ops::selu(b, x),
            Activation::Gelu => ops::gelu(b, x, GeluApproximate::None),
            Activation::GeluTanh => ops::gelu(b, x, GeluApproximate::Tanh),
            Activation::QuickGelu => ops::quick_gelu(b, x),
            Activation::Silu => ops::silu(b, x),
            Activation::Mish => ops::mish(b, x),
            Activation::Sigmoid => ops::sigmoid(b, x),
            Activation::LogSigmoid => ops::log_sigmoid(b, x),
            Activation::HardSigmoid => ops::hardsigmoid(b, x),
            Activation::HardSwish => ops::hardswish(b, x),
            Activation::Tanh => ops::tanh(b, x),
            Activation::HardTanh => ops::hardtanh(b, x, -1.0, 1.0),
            Activation::Softplus => ops::softplus(b, x, 1.0, 20.0),
            Activation::Softsign => ops::softsign(b, x),
            Activation::Softmax { axis } => ops::softmax(b, x, axis),
            Activation::LogSoftmax { axis } => ops::log_softmax(b, x, axis),
            Activation::Glu { axis } => ops::glu(b, x, axis),
        }
    }
}

impl Layer for Activation {
    fn apply<B: Builder>(&self, b: &B, _: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        self.forward(b, x)
    }
}

/// Everything but the batch as one axis: `x [n, ..]` to `[n, elements]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flatten;

impl Layer for Flatten {
    fn apply<B: Builder>(&self, b: &B, _: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        ops::flatten(b, x, 1, -1)
    }
}

/// Each element of the batch in another shape: `x [n, ..]` to `[n, shape..]`; one size may be -1, which is what is
/// left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshape(pub Vec<isize>);

impl Layer for Reshape {
    fn apply<B: Builder>(&self, b: &B, _: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let batch = b.ty(x).shape.first().map(|&size| size as isize);
        let shape: Vec<isize> = batch.into_iter().chain(self.0.iter().copied()).collect();
        ops::reshape(b, x, &shape)
    }
}
