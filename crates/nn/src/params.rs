//! Named values: what a model says about its parameters, and their initial values from a seed.

use indexmap::IndexMap;
use lanthorn_ir::ops::Encoding;
use lanthorn_ir::philox::Philox;
use lanthorn_ir::{DType, Dims, Error, ErrorKind, Result, TensorType};
use serde::{Deserialize, Serialize};

use crate::host::HostTensor;

/// Where a parameter's first value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    Zeros,
    Ones,
    /// Normal with mean 0.
    Normal {
        std: f64,
    },
    /// Uniform in `[-bound, bound)`.
    Uniform {
        bound: f64,
    },
}

impl Init {
    /// Uniform with variance `2 / (inputs + outputs)` (Glorot and Bengio 2010).
    pub fn xavier(inputs: usize, outputs: usize) -> Init {
        Init::Uniform { bound: (6.0 / (inputs as f64 + outputs as f64).max(1.0)).sqrt() }
    }

    /// Normal with variance `2 / inputs`, for what goes through a rectifier (He et al. 2015).
    pub fn kaiming(inputs: usize) -> Init {
        Init::Normal { std: (2.0 / inputs.max(1) as f64).sqrt() }
    }
}

/// What a parameter is to an optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamKind {
    /// A matrix of a linear map, or the kernel of a convolution.
    Weight,
    /// An additive vector.
    Bias,
    /// Gain or shift of a normalisation.
    Norm,
    /// A table that is read by ids.
    Embedding,
}

/// One parameter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Unique in the model, such as `h.0.attn.c_attn.weight`.
    pub name: String,
    pub shape: Dims,
    pub init: Init,
    pub kind: ParamKind,
    /// How its rows are packed in blocks; absent where it is kept in the model's dtype.
    pub encoding: Option<Encoding>,
}

impl ParamSpec {
    /// A parameter.
    pub fn new(name: impl Into<String>, shape: &[usize], init: Init, kind: ParamKind) -> ParamSpec {
        ParamSpec { name: name.into(), shape: Dims::from_slice(shape), init, kind, encoding: None }
    }

    /// The parameter with its rows packed in blocks.
    pub fn with_encoding(self, encoding: Option<Encoding>) -> ParamSpec {
        ParamSpec { encoding, ..self }
    }

    /// The parameter's type at that precision; that of its blocks, `u8 [.., bytes of a row]`, where it is packed.
    pub fn ty(&self, dtype: DType) -> TensorType {
        let mut shape = self.shape.clone();
        let Some(encoding) = self.encoding else { return TensorType { dtype, shape } };
        if let Some(row) = shape.last_mut() {
            *row = row.div_ceil(encoding.block_elements()) * encoding.block_bytes();
        }
        TensorType { dtype: DType::U8, shape }
    }

    /// The first value: a function of seed, name and shape alone, with the same bits on every machine.
    ///
    /// Errors: a dtype other than `f32` and `f64`, a parameter that is packed.
    pub fn initial(&self, seed: u64, dtype: DType) -> Result<HostTensor> {
        if let Some(encoding) = self.encoding {
            let message =
                format!("it is packed as {encoding}, which is read from files and has no first value");
            return Err(Error::new(ErrorKind::Unsupported, &self.name, message));
        }
        let count = self.ty(dtype).numel() as u64;
        let words = Philox::new(seed, 0, Philox::stream_of(&format!("init/{}", self.name)));
        match self.init {
            Init::Zeros => HostTensor::from_f64(dtype, &self.shape, (0..count).map(|_| 0.0)),
            Init::Ones => HostTensor::from_f64(dtype, &self.shape, (0..count).map(|_| 1.0)),
            Init::Normal { std } => {
                HostTensor::from_f64(dtype, &self.shape, (0..count).map(|i| std * normal(&words, i)))
            }
            Init::Uniform { bound } => HostTensor::from_f64(
                dtype,
                &self.shape,
                (0..count).map(|i| bound * (2.0 * words.unit(i) - 1.0)),
            ),
        }
    }
}

/// A standard normal number, of block `index` (Box and Muller 1958). The elementary functions are those of one
/// library, so the bits do not depend on the machine's.
fn normal(words: &Philox, index: u64) -> f64 {
    let [a, b, ..] = words.block(index);
    let span = (1u64 << 32) as f64;
    let radius = libm::sqrt(-2.0 * libm::log((f64::from(a) + 1.0) / span));
    radius * libm::cos(std::f64::consts::TAU * (f64::from(b) / span))
}

/// Values by name, in an order that stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Params<V> {
    values: IndexMap<String, V>,
}

impl<V> Default for Params<V> {
    fn default() -> Self {
        Params { values: IndexMap::new() }
    }
}

impl<V> Params<V> {
    /// No values.
    pub fn new() -> Params<V> {
        Params::default()
    }

    /// The value of that name.
    ///
    /// Errors: there is none.
    pub fn get(&self, name: &str) -> Result<&V> {
        self.values.get(name).ok_or_else(|| {
            let message = format!("there is no value of that name among {}", self.values.len());
            Error::new(ErrorKind::InvalidHandle, name, message)
        })
    }

    /// Adds a value, or gives a name another value in its old place.
    pub fn insert(&mut self, name: impl Into<String>, value: V) {
        self.values.insert(name.into(), value);
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The names in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.values.values()
    }

    /// The values in order, to be changed.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.values.values_mut()
    }

    /// The values in order.
    pub fn into_values(self) -> impl ExactSizeIterator<Item = V> {
        self.values.into_values()
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &V)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Another value for each name.
    pub fn map<W>(&self, mut f: impl FnMut(&str, &V) -> W) -> Params<W> {
        self.iter().map(|(name, value)| (name.to_owned(), f(name, value))).collect()
    }

    /// Another value for each name, or the first error.
    pub fn try_map<W>(&self, mut f: impl FnMut(&str, &V) -> Result<W>) -> Result<Params<W>> {
        self.iter().map(|(name, value)| Ok((name.to_owned(), f(name, value)?))).collect()
    }

    /// The same names in the same order with `values`.
    ///
    /// Errors: another number of values.
    pub fn with_values<W>(&self, values: impl IntoIterator<Item = W>) -> Result<Params<W>> {
        let values: Vec<W> = values.into_iter().collect();
        if values.len() != self.len() {
            let (expected, found) = (self.len(), values.len());
            return Err(Error::shape("params", format!("{found} values for {expected} names")));
        }
        Ok(self.names().map(str::to_owned).zip(values).collect())
    }
}

impl<V> FromIterator<(String, V)> for Params<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(entries: I) -> Self {
        Params { values: entries.into_iter().collect() }
    }
}

impl<V> IntoIterator for Params<V> {
    type Item = (String, V);
    type IntoIter = indexmap::map::IntoIter<String, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

/// The first values of all parameters of a model.
///
/// Errors: a dtype other than `f32` and `f64`.
pub fn initial(specs: &[ParamSpec], seed: u64, dtype: DType) -> Result<Params<HostTensor>> {
    specs.iter().map(|spec| Ok((spec.name.clone(), spec.initial(seed, dtype)?))).collect()
}

/// Checks that there is exactly one value of the right type for each parameter, and puts them in the model's order.
///
/// Errors: the first name that is missing, superfluous, or of another shape or dtype. `what` says whose values they
/// are, such as `checkpoint`.
pub fn matched<V>(
    what: &str,
    specs: &[ParamSpec],
    dtype: DType,
    mut values: Params<V>,
    ty: impl Fn(&V) -> &TensorType,
) -> Result<Params<V>> {
    let mut matched = Params::new();
    for spec in specs {
        let Some(value) = values.values.swap_remove(&spec.name) else {
            return Err(Error::shape(what, format!("there is no {}, which the model needs", spec.name)));
        };
        let (expected, found) = (spec.ty(dtype), ty(&value));
        if *found != expected {
            return Err(Error::shape(what, format!("{} is {found}, expected {expected}", spec.name)));
        }
        matched.insert(spec.name.clone(), value);
    }
    if let Some(name) = values.names().next() {
        return Err(Error::shape(what, format!("{name} is no parameter of the model")));
    }
    Ok(matched)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, init: Init) -> ParamSpec {
        ParamSpec::new(name, &[100, 100], init, ParamKind::Weight)
    }

    #[test]
    fn initial_values_have_the_distribution_that_was_asked_for() {
        let moments = |init| {
            let x = spec("w", init).initial(5, DType::F64).unwrap().to_f64().unwrap();
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
            let fourth = x.iter().map(|x| (x - mean).powi(4)).sum::<f64>() / x.len() as f64;
            (mean, variance.sqrt(), fourth / variance.powi(2))
        };
        // Bounds are five standard errors for 10,000 numbers.
        let (mean, std, kurtosis) = moments(Init::Normal { std: 0.02 });
        assert!(mean.abs() < 0.001 && (std / 0.02 - 1.0).abs() < 0.036, "{mean} {std}");
        assert!((kurtosis - 3.0).abs() < 0.25, "{kurtosis}");
        let (mean, std, kurtosis) = moments(Init::Uniform { bound: 3.0 });
        assert!(mean.abs() < 0.09 && (std - 3f64.sqrt()).abs() < 0.04, "{mean} {std}");
        assert!((kurtosis - 1.8).abs() < 0.1, "{kurtosis}");
        assert_eq!(moments(Init::Zeros).0, 0.0);
        assert_eq!(moments(Init::Ones).0, 1.0);
    }

    /// Bits that must not change: checkpoints do not need them, but a seed in a paper or issue does.
    #[test]
    fn initial_values_of_a_seed_are_fixed_for_ever() {
        let first = |seed, dtype| spec("w", Init::Normal { std: 1.0 }).initial(seed, dtype).unwrap();
        let bits: Vec<u64> =
            first(1, DType::F64).to_f64().unwrap()[..3].iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, FIXED);
        assert_ne!(first(1, DType::F64), first(2, DType::F64));
        let wide = first(1, DType::F64).to_f64().unwrap();
        let narrow = first(1, DType::F32).to_f32().unwrap();
        assert!(wide.iter().zip(narrow).all(|(&wide, narrow)| wide as f32 == narrow));
    }

    const FIXED: [u64; 3] = [13829579597283498457, 13823641418339091715, 4577842638890390704];

    #[test]
    fn another_name_gives_other_values_and_other_parameters_do_not_matter() {
        let init = Init::Normal { std: 1.0 };
        let both = initial(&[spec("a", init), spec("b", init)], 9, DType::F32).unwrap();
        let alone = initial(&[spec("b", init)], 9, DType::F32).unwrap();
        assert_ne!(both.get("a").unwrap(), both.get("b").unwrap());
        assert_eq!(both.get("b").unwrap(), alone.get("b").unwrap());
    }

    #[test]
    fn values_that_do_not_match_the_model_are_named() {
        let specs = [spec("a", Init::Zeros), spec("b", Init::Zeros)];
        let values = || initial(&specs, 0, DType::F32).unwrap();
        let check = |values| {
            matched("checkpoint", &specs, DType::F32, values, HostTensor::ty).map_err(|e| e.to_string())
        };
        let reversed: Params<HostTensor> = values().into_iter().rev().collect();
        assert_eq!(check(reversed).unwrap().names().collect::<Vec<_>>(), ["a", "b"]);
        let mut extra = values();
        extra.insert("c", HostTensor::zeros(TensorType::scalar(DType::F32)).unwrap());
        assert_eq!(check(extra).unwrap_err(), "checkpoint: c is no parameter of the model");
        let missing = values().into_iter().take(1).collect();
        assert_eq!(check(missing).unwrap_err(), "checkpoint: there is no b, which the model needs");
        let mut other = values();
        other.insert("a", HostTensor::zeros(TensorType::new(DType::F32, [3])).unwrap());
        assert_eq!(check(other).unwrap_err(), "checkpoint: a is f32[3], expected f32[100, 100]");
    }
}
