//! Compiled programs with host tensors as arguments.

use std::sync::Arc;

use lanthorn_compiler::backend::{Backend, Call, MemRef, Memory};
use lanthorn_compiler::pipeline::{Compiled, Options, compile, index};
use lanthorn_interp::HostTensor;
use lanthorn_ir::{Result, TensorType, Value};

use super::Device;
use super::memory::{from_bytes, garbage, memory, read, to_bytes};

/// A compiled program.
pub struct Runner {
    pub compiled: Compiled,
    /// The plan knows complex results as pairs of real ones.
    results: Vec<TensorType>,
    backend: &'static dyn Backend,
}

/// The memories of one call.
pub struct Memories {
    pub inputs: Vec<Arc<dyn Memory>>,
    pub outputs: Vec<Arc<dyn Memory>>,
}

impl Device {
    /// Compiles a program; a test names all its leaves.
    pub fn build(&self, leaves: &[Value], roots: &[Value], options: &Options) -> Result<Runner> {
        let (indexed, further) = index(leaves, roots, |_| false);
        assert!(further.is_empty(), "a test names all its leaves");
        let results = roots.iter().map(|root| root.ty().clone()).collect();
        Ok(Runner { compiled: compile(self.backend, indexed, options)?, results, backend: self.backend })
    }

    /// Compiles and runs.
    pub fn run(
        &self,
        leaves: &[Value],
        roots: &[Value],
        arguments: &[HostTensor],
        optimize: bool,
    ) -> Result<Vec<HostTensor>> {
        self.build(leaves, roots, &Options { optimize, ..Options::default() })?.run(arguments)
    }
}

impl Runner {
    /// One call; what lies in fresh memory must not matter, and the workspace's guard must stand.
    pub fn call(
        &self,
        arguments: &[HostTensor],
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> (Result<()>, Memories) {
        let plan = &self.compiled.plan;
        let inputs: Vec<Arc<dyn Memory>> =
            arguments.iter().map(|t| memory(self.backend, &to_bytes(t))).collect();
        let outputs: Vec<Arc<dyn Memory>> = (plan.outputs.iter())
            .map(|output| match output.donated {
                Some(argument) => inputs[argument as usize].clone(),
                None => garbage(self.backend, plan.buffers[output.buffer as usize].bytes()),
            })
            .collect();
        let workspace = garbage(self.backend, plan.workspace_bytes);
        fn refs(memories: &[Arc<dyn Memory>]) -> Vec<MemRef<'_>> {
            memories.iter().map(|memory| MemRef { memory: &**memory, offset: 0 }).collect()
        }
        let result = self.compiled.program.run(&Call {
            inputs: &refs(&inputs),
            outputs: &refs(&outputs),
            workspace: MemRef { memory: &*workspace, offset: 0 },
            cancelled,
            observer: None,
        });
        read(self.backend, &*workspace, plan.workspace_bytes);
        (result, Memories { inputs, outputs })
    }

    /// The results; an argument that was not donated must be as it was.
    pub fn run(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let (result, memories) = self.call(arguments, &|| false);
        result?;
        let plan = &self.compiled.plan;
        for ((memory, argument), at) in memories.inputs.iter().zip(arguments).zip(0u32..) {
            if plan.outputs.iter().all(|output| output.donated != Some(at)) {
                let kept = read(self.backend, &**memory, argument.ty().bytes()) == to_bytes(argument);
                assert!(kept, "argument {at} was overwritten");
            }
        }
        Ok((self.results.iter().zip(&memories.outputs))
            .map(|(ty, memory)| from_bytes(ty, &read(self.backend, &**memory, ty.bytes())))
            .collect())
    }
}
