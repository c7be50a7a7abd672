//! What a device must offer. The run-time and the passes know backends only by these traits.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_ir::{Error, ErrorKind, Prim, Result, TensorType};

use crate::kernel::Kernel;
use crate::plan::Plan;

/// Memory of one device.
pub trait Memory: Send + Sync + 'static {
    /// Its length.
    fn bytes(&self) -> usize;
    /// Its address, where the host can reach it.
    fn host(&self) -> Option<NonNull<u8>>;
    /// The backend's own type.
    fn as_any(&self) -> &dyn Any;
}

/// Bytes of a device on their way to the host: the memory as it was when the read was asked for, whatever is
/// written to it afterwards.
pub trait Readback: Send {
    /// The bytes if they have arrived, once; does not wait.
    ///
    /// Errors: the device failed, or the bytes have been taken before.
    fn poll(&mut self) -> Result<Option<Vec<u8>>>;

    /// The bytes, waiting for them.
    ///
    /// Errors: as `poll`, and where the host cannot wait for the device (a browser): poll there.
    fn wait(self: Box<Self>) -> Result<Vec<u8>>;
}

/// Bytes that have arrived.
pub struct Arrived(Option<Vec<u8>>);

impl Arrived {
    /// A readback that has nothing to wait for.
    pub fn new(bytes: Vec<u8>) -> Arrived {
        Arrived(Some(bytes))
    }
}

impl Readback for Arrived {
    fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        self.0.take().map(Some).ok_or_else(|| {
            Error::new(ErrorKind::Transfer, "read", "the bytes of this read have been taken already")
        })
    }

    fn wait(mut self: Box<Self>) -> Result<Vec<u8>> {
        Ok(self.poll()?.unwrap_or_default())
    }
}

/// A place in memory.
#[derive(Clone, Copy)]
pub struct MemRef<'a> {
    pub memory: &'a dyn Memory,
    /// In bytes; a multiple of the element size.
    pub offset: usize,
}

impl MemRef<'_> {
    /// The address of the place, of which `bytes` bytes are to be read or written by the host.
    ///
    /// Errors: memory that the host cannot reach, and a range that leaves it.
    pub fn host(&self, bytes: usize) -> Result<NonNull<u8>> {
        let fail = |message: String| Error::new(ErrorKind::Transfer, "transfer", message);
        let whole = self.memory.bytes();
        if self.offset.checked_add(bytes).is_none_or(|end| end > whole) {
            return Err(fail(format!("{bytes} bytes at {} leave a memory of {whole}", self.offset)));
        }
        let base = self.memory.host().ok_or_else(|| fail("the host cannot reach this memory".into()))?;
        // SAFETY: the offset lies in the memory, as was checked.
        Ok(unsafe { base.add(self.offset) })
    }
}

/// How a backend runs a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// By a kernel of its own.
    Kernel,
    /// By its decomposition.
    Decompose,
}

/// What one kernel needs besides its operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Bytes of scratch, 64-byte aligned.
    pub scratch: usize,
    /// `(input, output)` pairs for which the output may be the very memory of the input, provided that both
    /// have one layout and no other operand of the kernel touches it.
    pub in_place: Vec<(u32, u32)>,
    /// Whether a run may fail for the numbers that it gets.
    pub fails: Fails,
}

/// Whether and when a kernel fails for the numbers that it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fails {
    #[default]
    Never,
    /// Before it has written anything.
    BeforeWriting,
    /// With its outputs half written.
    HalfWay,
}

/// Limits of a backend.
#[derive(Clone, Copy, Debug)]
pub struct BackendCaps {
    /// How many operands (inputs and outputs) a fused region may have.
    pub region_operands: usize,
    /// How many steps a fused region may have.
    pub region_steps: usize,
}

/// Asked between kernels and, where the host runs them, between the tasks of one, by every thread: it is cheap. True
/// stops the call if it has not committed.
pub type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// Told of each kernel of a call as the host runs it, in the calling thread.
///
/// A device that takes all kernels in one submission, such as a GPU, tells nothing.
pub trait Observer: Sync {
    /// The kernel of that number in the plan begins.
    fn begin(&self, kernel: usize);

    /// It has ended, well or with an error.
    fn end(&self, kernel: usize);
}

/// The operands of one call of a program.
pub struct Call<'a> {
    pub inputs: &'a [MemRef<'a>],
    /// For a donated result this is the argument's own memory.
    pub outputs: &'a [MemRef<'a>],
    pub workspace: MemRef<'a>,
    pub cancelled: Cancelled<'a>,
    pub observer: Option<&'a dyn Observer>,
}

/// A program that a backend made of a plan; holds structure only and may run in several threads at once.
pub trait Program: Send + Sync {
    /// Runs all kernels. An error before the commit point leaves donated arguments as they were.
    fn run(&self, call: &Call<'_>) -> Result<()>;
}

/// A kernel whose operands have been analysed: what is left to a run is addresses. It holds structure only, may be
/// kept, and may run in several threads at once.
pub trait PreparedKernel: Send + Sync {
    /// Bytes of scratch of a run, 64-byte aligned; they do not change.
    fn scratch(&self) -> usize;

    /// Runs the kernel now. `inputs` and `outputs` are the operands' buffers at their beginning (an operand's own
    /// layout offset comes on top).
    fn run(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>], scratch: MemRef<'_>) -> Result<()>;
}

/// A pointwise kernel whose operands lie side by side, however many elements they have, up to those for which it was
/// prepared. It may be kept, and may run in several threads at once.
pub trait FlatKernel: Send + Sync {
    /// Runs the kernel now on the first `count` elements from the given places on. The output is memory of its own. What
    /// lies there behind the elements may change.
    fn run(&self, count: usize, inputs: &[MemRef<'_>], output: MemRef<'_>) -> Result<()>;
}

/// A device's kernels and memory.
pub trait Backend: Send + Sync + 'static {
    /// The device name, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Refuses what the environment asks of the backend and is nothing that it knows: a setting must not be lost by a
    /// slip of the pen.
    ///
    /// Errors: the variable, what it says and what would be right.
    fn check_environment(&self) -> Result<()> {
        Ok(())
    }

    /// How many threads of the host take part in a kernel, the caller included.
    fn threads(&self) -> usize {
        1
    }

    /// Sets how many threads take part from the next kernel on; at least one.
    ///
    /// Errors: a device whose work is not the host's.
    fn set_threads(&self, _threads: usize) -> Result<()> {
        Err(Error::unsupported("set_threads", format!("{} has no threads to be set; cpu has", self.name())))
    }

    /// Whether it promises the same bits in every run of one program on the same arguments, for any number of
    /// threads.
    fn is_deterministic(&self) -> bool {
        false
    }

    /// Limits for fusion.
    fn caps(&self) -> BackendCaps;

    /// How the primitive runs on operands of these types; an error names a dtype that the backend lacks.
    fn support(&self, prim: &Prim, inputs: &[&TensorType]) -> Result<Support>;

    /// Scratch and in-place permission of a kernel, exactly as `lower` and `prepare` will use them.
    fn requirements(&self, kernel: &Kernel) -> Requirements;

    /// Whether its kernel of the primitive writes outputs of any layout, so that a part of a concatenation needs
    /// no copy. The kernels of regions do.
    fn writes_views(&self, _prim: &Prim) -> bool {
        false
    }

    /// Memory of at least `bytes`, 64-byte aligned, contents unspecified.
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>>;

    /// Copies bytes of the host to the device. Kernels that were started before see the memory as it was, those
    /// started afterwards as it is. Nobody else uses the range meanwhile.
    ///
    /// The default serves memory that the host reaches.
    fn write(&self, to: MemRef<'_>, bytes: &[u8]) -> Result<()> {
        let address = to.host(bytes.len())?;
        // SAFETY: the range lies in the memory, and the caller keeps everybody else away from it.
        unsafe { std::ptr::copy(bytes.as_ptr(), address.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Starts to copy bytes of the device to the host. The place may be written again as soon as this returns.
    ///
    /// The default serves memory that the host reaches.
    fn read(&self, from: MemRef<'_>, bytes: usize) -> Result<Box<dyn Readback>> {
        let address = from.host(bytes)?;
        // SAFETY: the range lies in the memory, and the caller keeps writers away from it.
        let bytes = unsafe { std::slice::from_raw_parts(address.as_ptr(), bytes) };
        Ok(Box::new(Arrived::new(bytes.to_vec())))
    }

    /// Makes a program.
    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>>;

    /// Makes one kernel ready to run by itself: the eager path.
    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>>;

    /// Makes a pointwise kernel of contiguous operands ready to run on fewer elements too; `None` where that would not be
    /// quicker than the kernel for their number.
    fn prepare_flat(&self, _kernel: &Kernel) -> Result<Option<Arc<dyn FlatKernel>>> {
        Ok(None)
    }
}
