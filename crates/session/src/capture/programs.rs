//! The programs of one captured function.
//!
//! A call that nothing comes between writes a tensor's new elements over the old ones where it can, so that parameters
//! and moments are in memory once. While a call runs elsewhere the old elements can be read: it has a program of its own,
//! made when it is first asked for.

use std::sync::OnceLock;

use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::{Result, TensorType};

use super::{Effect, Source};
use crate::engine::Engine;

/// Whether a call may take the memory of what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// It may: nothing else happens until the call has ended.
    Taken,
    /// What is written can be read meanwhile.
    Kept,
}

pub(super) struct Programs<E: Engine> {
    taking: E::Program,
    keeping: OnceLock<E::Program>,
    /// What `keeping` is made of.
    source: Indexed,
    /// `(argument, result)`: the argument's memory may receive the result.
    donated: Vec<(u32, u32)>,
}

impl<E: Engine> Programs<E> {
    pub fn new(
        engine: &E,
        program: Indexed,
        sources: &[Source],
        effects: &[Effect],
        roots: &[TensorType],
    ) -> Result<Programs<E>> {
        let donated = pairs(&program, sources, effects, roots);
        let taking = engine.compile_donating(program.clone(), &donated)?;
        Ok(Programs { taking, keeping: OnceLock::new(), source: program, donated })
    }

    /// The program for a call.
    pub fn of(&self, engine: &E, memory: Memory) -> Result<&E::Program> {
        if memory == Memory::Taken || self.donated.is_empty() {
            return Ok(&self.taking);
        }
        match self.keeping.get() {
            Some(program) => Ok(program),
            None => {
                let program = engine.compile(self.source.clone())?;
                Ok(self.keeping.get_or_init(|| program))
            }
        }
    }

    /// The arguments that a call may write over.
    pub fn donated(&self) -> impl Iterator<Item = usize> {
        self.donated.iter().map(|&(argument, _)| argument as usize)
    }
}

/// Each argument with the result that takes its place.
fn pairs(program: &Indexed, sources: &[Source], effects: &[Effect], roots: &[TensorType]) -> Vec<(u32, u32)> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for effect in effects {
        let Effect::Write { target, root } = *effect else { continue };
        let Some(argument) = sources.iter().position(|source| *source == target) else { continue };
        let node = program.inputs.get(argument).and_then(|&node| program.nodes.get(node as usize));
        let ty = node.and_then(|node| node.types.first());
        let is_taken = pairs.iter().any(|&(_, taken)| taken as usize == root);
        if ty.is_some() && ty == roots.get(root) && !is_taken {
            pairs.push((argument as u32, root as u32));
        }
    }
    pairs
}
