//! Random tensors. The draw number is fixed when one is made, so that two reads see the same elements.

use lanthorn_compiler::slot;
use lanthorn_ir::expr::Scalar;
use lanthorn_ir::{DType, Error, Lazy, Result, TensorType, Value, ops};

use crate::arena::Handle;
use crate::cell::Cell;
use crate::engine::Engine;
use crate::session::{Session, check_type};

/// How random elements are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform from `low` up to and without `high`.
    Uniform { low: f64, high: f64 },
    /// Normal.
    Normal { mean: f64, deviation: f64 },
}

/// How far the first values of a weight lie apart. Its shape is `[outputs, inputs, window..]`, as in torch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// The variance `2 / ((1 + slope^2) fan)`, for what goes through a rectifier with that slope below 0 (He et al. 2015).
    Kaiming { slope: f64, fan: Fan },
    /// The variance `2 gain^2 / (fan in + fan out)` (Glorot and Bengio 2010).
    Xavier { gain: f64 },
}

/// Which connections of a unit are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    In,
    Out,
}

impl Spread {
    /// Uniform values around 0 for a weight of that shape.
    ///
    /// Errors: a shape of fewer than two axes.
    pub fn uniform(self, shape: &[usize]) -> Result<Distribution> {
        // A uniform distribution over -bound..bound has the deviation bound / sqrt(3).
        let bound = self.deviation(shape)? * 3f64.sqrt();
        Ok(Distribution::Uniform { low: -bound, high: bound })
    }

    /// Normal values around 0 for a weight of that shape.
    ///
    /// Errors: a shape of fewer than two axes.
    pub fn normal(self, shape: &[usize]) -> Result<Distribution> {
        Ok(Distribution::Normal { mean: 0.0, deviation: self.deviation(shape)? })
    }

    /// The standard deviation for a weight of that shape.
    fn deviation(self, shape: &[usize]) -> Result<f64> {
        let [outputs, inputs, window @ ..] = shape else {
            let message =
                format!("a weight has the shape [outputs, inputs, window..], got {} axes", shape.len());
            return Err(Error::shape("random", message));
        };
        // In floats: the sizes are not checked yet, and their product may be beyond every integer.
        let window: f64 = window.iter().map(|&size| size as f64).product();
        let [fan_in, fan_out] = [inputs, outputs].map(|&count| count as f64 * window);
        let variance = match self {
            Spread::Kaiming { slope, fan } => {
                let fan = if fan == Fan::In { fan_in } else { fan_out };
                2.0 / ((1.0 + slope * slope) * fan.max(1.0))
            }
            Spread::Xavier { gain } => 2.0 * gain * gain / (fan_in + fan_out).max(1.0),
        };
        Ok(variance.sqrt())
    }
}

impl<E: Engine> Session<E> {
    /// Starts the random sequence of `seed` anew.
    ///
    /// Errors: while a function is recorded, since its calls go on with the session's sequence.
    pub fn seed(&mut self, seed: u64) -> Result<()> {
        self.expect_no_recording("seed")?;
        self.random = [seed, 0];
        Ok(())
    }

    /// Seed and number of the next draw: what a checkpoint stores.
    pub fn random_state(&self) -> [u64; 2] {
        self.random
    }

    /// Continues where a checkpoint left off.
    pub fn set_random_state(&mut self, state: [u64; 2]) {
        self.random = state;
    }

    /// The key of the next draw, `u64[2]` of seed and draw number, for ops that take one.
    pub fn random_key(&mut self) -> Result<Handle> {
        let key = self.next_key()?;
        self.adopt(Cell::new(key, false))
    }

    /// A tensor of random elements.
    ///
    /// Errors: a dtype that is no floating-point type.
    pub fn random(&mut self, ty: &TensorType, distribution: Distribution) -> Result<Handle> {
        check_type("random", ty)?;
        if !ty.dtype.is_float() {
            let message = format!("the dtype is {}, expected a floating-point type", ty.dtype);
            return Err(Error::dtype("random", message));
        }
        let key = self.next_key()?;
        // The ops draw unit values; scale and shift are arguments of the program, so that a changed one makes no
        // new one.
        let (unit, scale, shift) = match distribution {
            Distribution::Uniform { low, high } => {
                (ops::uniform(&Lazy, &key, &ty.shape, 0.0, 1.0, DType::F32, 0)?, high - low, low)
            }
            Distribution::Normal { mean, deviation } => {
                (ops::normal(&Lazy, &key, &ty.shape, 0.0, 1.0, DType::F32, 0)?, deviation, mean)
            }
        };
        let mut value = unit;
        if scale != 1.0 {
            value = ops::mul(&Lazy, &value, &self.scalar_operand(scale)?)?;
        }
        if shift != 0.0 {
            value = ops::add(&Lazy, &value, &self.scalar_operand(shift)?)?;
        }
        let value = ops::cast(&Lazy, &value, ty.dtype)?;
        let mut cell = Cell::new(value, false);
        cell.is_source = true;
        self.adopt(cell)
    }

    /// An f32 of rank 0: part of the structure where it may be, else an argument.
    fn scalar_operand(&self, value: f64) -> Result<Value> {
        let value = Scalar::float(value);
        if value.is_structural() {
            return ops::scalar(&Lazy, value, DType::F32);
        }
        self.number("random", value, DType::F32)
    }

    pub(crate) fn next_key(&mut self) -> Result<Value> {
        if let Some(placeholder) = self.recorded_key()? {
            return Ok(placeholder);
        }
        let ty = TensorType::new(DType::U64, [2]);
        let key = slot::leaf(&ty, self.upload_key(self.random)?)?;
        self.random[1] = self.random[1].wrapping_add(1);
        Ok(key)
    }
}
