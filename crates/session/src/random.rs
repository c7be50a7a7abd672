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
        self.adopt(Cell::new(value, false))
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
