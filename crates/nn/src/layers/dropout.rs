//! Dropout.

use lanthorn_ir::{Builder, Error, Result, ops};

use crate::mode::Mode;

/// In training, each element 0 with some probability, else divided by the probability of staying
/// (Srivastava et al. 2014); in evaluation, nothing.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    probability: f64,
}

impl Dropout {
    /// Dropout with that probability of 0.
    ///
    /// Errors: a probability outside `[0, 1)`.
    pub fn new(probability: f64) -> Result<Dropout> {
        if (0.0..1.0).contains(&probability) {
            return Ok(Dropout { probability });
        }
        Err(Error::shape("dropout", format!("the probability is {probability}, expected 0 to below 1")))
    }

    /// True if training needs a key.
    pub fn is_random(&self) -> bool {
        self.probability > 0.0
    }

    /// `x` with elements dropped.
    ///
    /// Errors: training without a key, unless the probability is 0.
    pub fn forward<B: Builder>(&self, b: &B, x: &B::Value, mode: &Mode<B::Value>) -> Result<B::Value> {
        match mode {
            Mode::Train(draws) if self.is_random() => {
                let (key, stream) = draws.next("dropout")?;
                ops::dropout(b, x, self.probability, &key, stream)
            }
            _ => Ok(x.clone()),
        }
    }
}
