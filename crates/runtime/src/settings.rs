//! The settings of a device: threads, memory, determinism, and looking for numbers that are not finite.
//!
//! | setting | read | set | at first |
//! |---|---|---|---|
//! | threads | [`Device::threads`] | [`Device::set_threads`] | `LANTHORN_THREADS`, else what the machine offers |
//! | memory | [`Device::memory_limit`] | [`Device::set_memory_limit`] | no limit |
//! | determinism | [`Device::is_deterministic`] | | what the backend promises |
//! | non-finite numbers | [`Device::traces_non_finite`] | [`Device::set_trace_non_finite`] | not looked for |
//!
//! ```
//! # fn main() -> lanthorn_ir::Result<()> {
//! # let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
//! use lanthorn_runtime::{DType, Tensor};
//! device.set_threads(2)?;
//! assert_eq!(device.threads(), 2);
//! assert!(device.is_deterministic());
//! device.set_memory_limit(Some(1 << 20));
//! let error = Tensor::ones(&device, &[1 << 20], DType::F32)?.to_vec::<f32>().unwrap_err();
//! assert_eq!(error.kind, lanthorn_ir::ErrorKind::OutOfMemory);
//! # Ok(())
//! # }
//! ```

use std::sync::atomic::Ordering;

use lanthorn_ir::Result;

use crate::device::Device;

/// Settings; see [`settings`](crate::settings).
impl Device {
    /// How many threads of the host take part in a kernel, the caller included; 1 where the backend has none.
    pub fn threads(&self) -> usize {
        self.backend().threads()
    }

    /// Sets how many threads take part from the next kernel on; at least one. The threads are the process's: all
    /// devices of the CPU share them. Results do not depend on their number.
    ///
    /// Errors: [`Unsupported`](lanthorn_ir::ErrorKind::Unsupported) for a device whose work is not the host's.
    pub fn set_threads(&self, threads: usize) -> Result<()> {
        self.backend().set_threads(threads)
    }

    /// What [`Device::set_memory_limit`] said.
    pub fn memory_limit(&self) -> Option<usize> {
        self.pool().limit()
    }

    /// The most bytes that the device may hold, idle blocks included. Beyond it, allocating is an error of kind
    /// [`OutOfMemory`](lanthorn_ir::ErrorKind::OutOfMemory).
    pub fn set_memory_limit(&self, bytes: Option<usize>) {
        self.pool().set_limit(bytes);
    }

    /// True if the same program on the same arguments gives the same bits in every run, for any number of threads. It
    /// is so on the CPU and on a GPU, always: there is no faster way that is not, and nothing to switch. Between
    /// devices, and between instruction sets of the CPU, sums may be in another order.
    pub fn is_deterministic(&self) -> bool {
        self.backend().is_deterministic()
    }

    /// What [`Device::set_trace_non_finite`] said.
    pub fn traces_non_finite(&self) -> bool {
        self.tracing_flag().load(Ordering::Relaxed)
    }

    /// With `true`, a primitive that runs eagerly, and a call of a program, whose result is not finite is an error that
    /// names the op that first gave such a number, where, and from what operands
    /// ([`NonFinite`](crate::NonFinite)). For finding faults, not for speed: every result is read, donated
    /// arguments are copied, and a program at fault runs a second time, one primitive at a time.
    pub fn set_trace_non_finite(&self, traces: bool) {
        self.tracing_flag().store(traces, Ordering::Relaxed);
    }
}
