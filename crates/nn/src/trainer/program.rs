//! Programs by what they do and what they take.

use lanthorn_ir::{DType, Result, TensorType, Value};
use lanthorn_runtime::{EagerTensor, Executable};

use crate::metrics::Metric;
use crate::step::Inputs;

/// What a program does with a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// Forward, backward and update; with `checked`, the update must be finite.
    Step {
        checked: bool,
    },
    /// Gradients of one part of a step; the first one has no sums to add to.
    Gradients {
        first: bool,
    },
    /// The update with summed gradients; with `checked`, it must be finite.
    Update {
        checked: bool,
    },
    Evaluate(Vec<Metric>),
    Predict,
}

/// The programs used last.
#[derive(Debug, Default)]
pub struct Programs {
    /// The one used last stands last.
    programs: Vec<(Purpose, Vec<TensorType>, Executable)>,
}

/// How many signatures a trainer keeps: those of a step, of a shorter last batch, and of evaluating both, with room.
const KEPT: usize = 12;

impl Programs {
    /// The program for a batch of these types, or a new one.
    pub fn get(
        &mut self,
        purpose: Purpose,
        batch: &[EagerTensor],
        make: impl FnOnce() -> Result<Executable>,
    ) -> Result<Executable> {
        let is_it = |(found, types, _): &(Purpose, Vec<TensorType>, Executable)| {
            *found == purpose && types.iter().eq(batch.iter().map(EagerTensor::ty))
        };
        let found = match self.programs.iter().position(is_it) {
            Some(at) => self.programs.remove(at),
            None => {
                let program = make()?;
                if self.programs.len() >= KEPT {
                    self.programs.remove(0);
                }
                (purpose, batch.iter().map(|tensor| tensor.ty().clone()).collect(), program)
            }
        };
        let program = found.2.clone();
        self.programs.push(found);
        Ok(program)
    }
}

/// The parameters of a program, in the order in which a call gives its arguments.
#[derive(Debug, Default)]
pub struct Leaves {
    pub all: Vec<Value>,
}

impl Leaves {
    /// One of this type.
    pub fn one(&mut self, ty: TensorType) -> Result<Value> {
        let leaf = Value::leaf(ty)?;
        self.all.push(leaf.clone());
        Ok(leaf)
    }

    /// One of a tensor's type.
    pub fn like(&mut self, tensor: &EagerTensor) -> Result<Value> {
        self.one(tensor.ty().clone())
    }

    /// Input and targets.
    pub fn inputs(&mut self, batch: &[EagerTensor]) -> Result<Inputs<Value>> {
        let mut like = |at: usize| match batch.get(at) {
            Some(tensor) => self.like(tensor),
            None => Err(super::missing("train")),
        };
        Ok(Inputs { input: like(0)?, targets: like(1)?, key: None })
    }

    /// So many numbers.
    pub fn scalars(&mut self, count: usize, dtype: DType) -> Result<Vec<Value>> {
        (0..count).map(|_| self.one(TensorType::scalar(dtype))).collect()
    }

    /// The key of what is random, if anything is.
    pub fn key(&mut self, is_random: bool) -> Result<Option<Value>> {
        is_random.then(|| self.one(TensorType::new(DType::U64, [2]))).transpose()
    }
}
