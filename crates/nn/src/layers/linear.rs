//! A linear map with bias.

use lanthorn_ir::ops::{self, Encoding};
use lanthorn_ir::{Builder, Result};

use crate::params::{Init, ParamKind, ParamSpec, Params};

/// `x [.., inputs]` to `x W^T + bias`, `[.., outputs]`.
///
/// Parameters: `NAME.weight [outputs, inputs]` and, unless without, `NAME.bias [outputs]`. The weight may be packed in
/// blocks, as GGUF files have it; then it is read where it lies and cannot be trained.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: String,
    bias: Option<String>,
    inputs: usize,
    outputs: usize,
    init: Init,
    encoding: Option<Encoding>,
}

impl Linear {
    /// A map whose weight begins uniform within `1 / sqrt(inputs)` and whose bias begins with zeros.
    pub fn new(name: &str, inputs: usize, outputs: usize) -> Linear {
        Linear {
            weight: format!("{name}.weight"),
            bias: Some(format!("{name}.bias")),
            inputs,
            outputs,
            init: Init::Uniform { bound: 1.0 / (inputs.max(1) as f64).sqrt() },
            encoding: None,
        }
    }

    /// The map with another beginning.
    pub fn with_init(self, init: Init) -> Linear {
        Linear { init, ..self }
    }

    /// The map without a bias.
    pub fn without_bias(self) -> Linear {
        Linear { bias: None, ..self }
    }

    /// The name before `.weight`.
    pub fn name(&self) -> &str {
        self.weight.strip_suffix(".weight").unwrap_or(&self.weight)
    }

    /// The map with its weight packed in blocks.
    pub fn with_encoding(self, encoding: Option<Encoding>) -> Linear {
        Linear { encoding, ..self }
    }

    /// The parameters.
    pub fn specs(&self) -> Vec<ParamSpec> {
        let weight = ParamSpec::new(&self.weight, &[self.outputs, self.inputs], self.init, ParamKind::Weight)
            .with_encoding(self.encoding);
        let bias =
            self.bias.iter().map(|name| ParamSpec::new(name, &[self.outputs], Init::Zeros, ParamKind::Bias));
        std::iter::once(weight).chain(bias).collect()
    }

    /// The map of `x [.., inputs]`.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let bias = self.bias.as_ref().map(|name| params.get(name)).transpose()?;
        let weight = params.get(&self.weight)?;
        let Some(encoding) = self.encoding else { return ops::linear(b, x, weight, bias) };
        let product = ops::quantized_linear(b, x, weight, encoding)?;
        bias.map_or(Ok(product.clone()), |bias| ops::add(b, &product, bias))
    }
}
