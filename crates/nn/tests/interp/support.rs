//! Tiny models with values on the reference backend.

use lanthorn_interp::HostTensor as Reference;
use lanthorn_ir::DType;
use lanthorn_nn::params::initial;
use lanthorn_nn::step::{Held, Inputs};
use lanthorn_nn::{Gpt, GptConfig, HostTensor, Model, Optimizer, Params};

pub fn tiny() -> GptConfig {
    GptConfig { vocab: 11, context: 6, layers: 2, width: 8, heads: 2, ..GptConfig::small(11) }
}

/// A host tensor of floats as the reference backend's.
pub fn reference(tensor: &HostTensor) -> Reference {
    let ty = tensor.ty();
    Reference::from_f64(ty.dtype, &ty.shape, &tensor.to_f64().unwrap()).unwrap()
}

/// Parameters that are far from their first values: no gain is 1 and no bias 0.
pub fn shaken(model: &impl Model, seed: u64, dtype: DType) -> Params<Reference> {
    initial(&model.specs(), seed, dtype).unwrap().map(|name, first| {
        let words = lanthorn_ir::philox::Philox::new(seed, 1, lanthorn_ir::philox::Philox::stream_of(name));
        let ty = first.ty();
        let moved: Vec<f64> =
            (first.to_f64().unwrap().iter().zip(0..)).map(|(x, i)| x + 0.6 * (words.unit(i) - 0.5)).collect();
        Reference::from_f64(ty.dtype, &ty.shape, &moved).unwrap()
    })
}

pub fn ids(shape: &[usize], seed: u64, vocab: u64) -> Reference {
    let words = lanthorn_ir::philox::Philox::new(seed, 0, 7);
    let count: usize = shape.iter().product();
    let ids: Vec<i64> = (0..count as u64).map(|i| words.below(i, vocab) as i64).collect();
    Reference::from_i64(DType::I32, shape, &ids).unwrap()
}

pub fn scalar(value: f64, dtype: DType) -> Reference {
    Reference::from_f64(dtype, &[], &[value]).unwrap()
}

pub fn key(seed: i64, draw: i64) -> Reference {
    Reference::from_i64(DType::U64, &[2], &[seed, draw]).unwrap()
}

/// The largest difference, relative to the largest value.
pub fn distance(x: &Reference, y: &Reference) -> f64 {
    assert_eq!(x.ty(), y.ty());
    let (x, y) = (x.to_f64(), y.to_f64());
    let scale = y.iter().fold(1e-300, |m: f64, y| m.max(y.abs()));
    x.iter().zip(&y).fold(0.0, |m: f64, (x, y)| m.max((x - y).abs())) / scale
}

/// A whole batch to overfit.
pub fn inputs(gpt: &Gpt) -> Inputs<Reference> {
    let (context, vocab) = (gpt.config().context, gpt.config().vocab as u64);
    Inputs { input: ids(&[2, context], 1, vocab), targets: ids(&[2, context], 2, vocab), key: None }
}

/// These parameters with a fresh optimiser.
pub fn held(gpt: &Gpt, optimizer: &Optimizer, params: Params<Reference>) -> Held<Reference> {
    let zeros = |spec: &lanthorn_nn::ParamSpec| {
        let p = params.get(&spec.name)?;
        Reference::from_f64(p.ty().dtype, p.shape(), &vec![0.0; p.ty().numel()])
    };
    let slots = optimizer.slots(&gpt.specs(), zeros).unwrap();
    Held { params, slots, state: Params::new(), ema: Params::new() }
}

pub fn scalars(optimizer: &Optimizer, t: u64, lr: f64, dtype: DType) -> Vec<Reference> {
    optimizer.scalars(t, lr).into_iter().map(|x| scalar(x, dtype)).collect()
}
