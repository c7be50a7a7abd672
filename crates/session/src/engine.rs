//! Where programs run.

use lanthorn_compiler::cancel::CancelToken;
use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::{Layout, Result, TensorType};

/// Makes tensors and runs programs.
pub trait Engine {
    /// A concrete tensor: one in this process's memory, or the number of a worker's. Dropping the last clone
    /// releases it.
    type Concrete: Clone + Send + Sync + 'static;

    /// A program that has been prepared to be called often; cloning is cheap.
    type Program: Clone + Send + Sync + 'static;

    /// A tensor of the elements in row-major order, in the machine's byte order. `bytes` has the length that
    /// `ty` takes.
    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<Self::Concrete>;

    /// Runs the program on arguments of the types of its inputs; gives one tensor for each root.
    ///
    /// A remote engine may only send a message: errors of execution then come with the next read.
    ///
    /// Errors: what the engine reports; after one, every argument is as it was.
    fn run(
        &self,
        program: Indexed,
        arguments: Vec<Self::Concrete>,
        cancel: &CancelToken,
    ) -> Result<Vec<Self::Concrete>>;

    /// Prepares a program that will be called often.
    ///
    /// Errors: what the engine lacks; a remote engine may report it with the first read.
    fn compile(&self, program: Indexed) -> Result<Self::Program>;

    /// As [`Engine::compile`], of a program whose calls may write a result over an argument: `(argument, result)` pairs.
    /// An argument to which somebody else holds a handle stays as it is, and all of them do if the call fails.
    fn compile_donating(&self, program: Indexed, _donated: &[(u32, u32)]) -> Result<Self::Program> {
        self.compile(program)
    }

    /// Runs a prepared program, as [`Engine::run`] does.
    fn call(
        &self,
        program: &Self::Program,
        arguments: &[Self::Concrete],
        cancel: &CancelToken,
    ) -> Result<Vec<Self::Concrete>>;

    /// How many kernels a prepared program has; 0 where the engine does not know.
    fn kernels(&self, _program: &Self::Program) -> usize {
        0
    }

    /// Bytes that a call reads and writes and operations that it does; 0 where the engine does not know.
    fn cost(&self, _program: &Self::Program) -> u64 {
        0
    }

    /// The elements of `tensor` that `view` names by their numbers in row-major order, as a tensor of its own: one that
    /// shares its memory if they lie in a row, else a copy. `None` where the engine makes neither; the elements are
    /// copied by a program then.
    fn part(&self, _tensor: &Self::Concrete, _view: &Layout) -> Result<Option<Self::Concrete>> {
        Ok(None)
    }

    /// The bytes of `tensor` in row-major order, if the engine can wait for them. Ops whose shapes depend on values need it.
    fn read_now(&self, _tensor: &Self::Concrete) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Whether [`Engine::read_now`] gives bytes.
    fn can_read_now(&self) -> bool {
        false
    }

    /// The engine's counters.
    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}

/// The counters of an engine; zero where it keeps none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Bytes of memory in use.
    pub live_bytes: u64,
    /// The most that `live_bytes` has been.
    pub peak_bytes: u64,
    /// Bytes of idle memory kept for reuse.
    pub pooled_bytes: u64,
    /// Executables in the cache.
    pub executables: u64,
    /// Programs compiled.
    pub compiles: u64,
    /// Calls of compiled programs.
    pub calls: u64,
    /// Kernels run.
    pub kernels: u64,
}
