//! Convolutions and their transposes, over one to three axes.

use lanthorn_ir::{Builder, Error, Result, ops};
use serde::{Deserialize, Serialize};

use super::{Layer, Pass};
use crate::models::check::layer_sizes;
use crate::params::{Init, ParamKind, ParamSpec};

/// The sizes of [`Conv`]. Its kernel has one size for each spatial axis; the other lists have as many, or one for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvConfig {
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    pub kernel: Vec<usize>,
    pub stride: Vec<usize>,
    pub padding: Padding,
    pub dilation: Vec<usize>,
    pub groups: usize,
    pub bias: bool,
    pub direction: Direction,
}

/// What stands around an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// So many zeros at both ends of each axis.
    Zeros(Vec<usize>),
    /// As many as keep the size, at a stride of 1.
    Same,
}

/// From an image to features, or the transpose of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Forward,
    /// `output_padding` places more at the end of each axis.
    Transposed {
        output_padding: Vec<usize>,
    },
}

impl ConvConfig {
    /// A convolution with bias, a stride of 1 and nothing around the image.
    pub fn new(inputs: usize, outputs: usize, kernel: &[usize]) -> ConvConfig {
        ConvConfig {
            inputs,
            outputs,
            kernel: kernel.to_vec(),
            stride: vec![1],
            padding: Padding::Zeros(vec![0]),
            dilation: vec![1],
            groups: 1,
            bias: true,
            direction: Direction::Forward,
        }
    }

    /// Steps of that size along all axes.
    pub fn stride(self, stride: usize) -> ConvConfig {
        ConvConfig { stride: vec![stride], ..self }
    }

    /// So many zeros around the image.
    pub fn padding(self, padding: usize) -> ConvConfig {
        ConvConfig { padding: Padding::Zeros(vec![padding]), ..self }
    }

    /// The image keeps its size.
    pub fn same(self) -> ConvConfig {
        ConvConfig { padding: Padding::Same, ..self }
    }

    /// The elements of the kernel lie that far apart.
    pub fn dilation(self, dilation: usize) -> ConvConfig {
        ConvConfig { dilation: vec![dilation], ..self }
    }

    /// Channels see only those of their group.
    pub fn groups(self, groups: usize) -> ConvConfig {
        ConvConfig { groups, ..self }
    }

    /// Without a bias, such as before a batch norm.
    pub fn without_bias(self) -> ConvConfig {
        ConvConfig { bias: false, ..self }
    }

    /// The transpose, from features to an image.
    pub fn transposed(self) -> ConvConfig {
        ConvConfig { direction: Direction::Transposed { output_padding: vec![0] }, ..self }
    }
}

/// A convolution of `x [n, inputs, ..]` to `[n, outputs, ..]`, over as many axes as the kernel has.
///
/// Parameters: `NAME.weight [outputs, inputs / groups, kernel..]` (transposed: `[inputs, outputs / groups, kernel..]`)
/// and `NAME.bias [outputs]`, as in torch. The weight begins uniform within `1 / sqrt(fan in)`, the bias with zeros.
#[derive(Clone, Debug)]
pub struct Conv {
    weight: String,
    bias: Option<String>,
    config: ConvConfig,
    init: Init,
}

impl Conv {
    /// A convolution.
    ///
    /// Errors: a kernel of no or more than three axes; sizes beyond 32 bits; groups that do not divide the channels;
    /// padding to the same size in a transposed one.
    pub fn new(name: &str, config: ConvConfig) -> Result<Conv> {
        let fail = |message: String| Err(Error::shape("conv", format!("{name}: {message}")));
        let ConvConfig { inputs, outputs, groups, .. } = config;
        if !(1..=3).contains(&config.kernel.len()) {
            return fail(format!("the kernel has {} axes, expected 1 to 3", config.kernel.len()));
        }
        if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            return fail(format!("{groups} groups do not divide {inputs} and {outputs} channels"));
        }
        if config.padding == Padding::Same && config.direction != Direction::Forward {
            return fail("padding to the same size is of convolutions, not of their transposes".into());
        }
        let sizes = [("inputs", inputs), ("outputs", outputs)];
        layer_sizes("conv", name, &sizes)?;
        let kernel: Vec<(&str, usize)> = config.kernel.iter().map(|&size| ("kernel", size)).collect();
        layer_sizes("conv", name, &kernel)?;
        // Four sizes of 31 bits multiply to more than a word holds.
        let fan_in =
            config.kernel.iter().map(|&size| size as f64).product::<f64>() * (inputs / groups) as f64;
        Ok(Conv {
            weight: format!("{name}.weight"),
            bias: config.bias.then(|| format!("{name}.bias")),
            init: Init::Uniform { bound: 1.0 / fan_in.max(1.0).sqrt() },
            config,
        })
    }

    /// The convolution with another beginning of its weight.
    pub fn with_init(self, init: Init) -> Conv {
        Conv { init, ..self }
    }
}

impl Layer for Conv {
    fn specs(&self) -> Vec<ParamSpec> {
        let ConvConfig { inputs, outputs, groups, .. } = self.config;
        let ends = match self.config.direction {
            Direction::Forward => [outputs, inputs / groups],
            Direction::Transposed { .. } => [inputs, outputs / groups],
        };
        let shape = [&ends[..], &self.config.kernel].concat();
        let weight = ParamSpec::new(&self.weight, &shape, self.init, ParamKind::Weight);
        let bias =
            self.bias.iter().map(|name| ParamSpec::new(name, &[outputs], Init::Zeros, ParamKind::Bias));
        std::iter::once(weight).chain(bias).collect()
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let ConvConfig { kernel, stride, padding, dilation, groups, direction, .. } = &self.config;
        let weight = pass.params().get(&self.weight)?;
        let bias = self.bias.as_ref().map(|name| pass.params().get(name)).transpose()?;
        let (padding, same) = match padding {
            Padding::Zeros(padding) => (&padding[..], false),
            Padding::Same => (&[][..], true),
        };
        match direction {
            Direction::Forward => {
                let conv = match kernel.len() {
                    1 => ops::conv1d,
                    2 => ops::conv2d,
                    _ => ops::conv3d,
                };
                conv(b, x, weight, bias, stride, padding, dilation, *groups, same)
            }
            Direction::Transposed { output_padding } => {
                let conv = match kernel.len() {
                    1 => ops::conv_transpose1d,
                    2 => ops::conv_transpose2d,
                    _ => ops::conv_transpose3d,
                };
                conv(b, x, weight, bias, stride, padding, output_padding, dilation, *groups)
            }
        }
    }
}
