//! The settings of a device: threads, memory, determinism, and looking for numbers that are not finite.
//!
//! | setting | read | set | at first |
//! |---|---|---|---|
//! | threads | [`Device::threads`] | [`Device::set_threads`] | `LANTHORN_THREADS`, else what the machine offers |
//! | memory | [`Device::memory_limit`] | [`Device::set_memory_limit`] | `LANTHORN_MEMORY_LIMIT`, else no limit |
//! | determinism | [`Device::is_deterministic`] | | what the backend promises |
//! | instruction set | | | `LANTHORN_ISA`, else the widest that the machine has |
//! | non-finite numbers | [`Device::traces_non_finite`] | [`Device::set_trace_non_finite`] | not looked for |
//!
//! A variable that says something else than is expected is the error of whatever is first asked of a device.
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

use lanthorn_ir::{Error, ErrorKind, Result};

use crate::device::Device;

const MEMORY_LIMIT: &str = "LANTHORN_MEMORY_LIMIT";

/// What the environment says of the memory limit.
///
/// Errors: what is no size. A limit that was meant to be one must not be lost by a slip of the pen.
pub(crate) fn memory_limit_at_first() -> Result<Option<usize>> {
    let Some(text) = std::env::var_os(MEMORY_LIMIT) else { return Ok(None) };
    let text = text.to_string_lossy();
    match text.trim() {
        "" => Ok(None),
        size => size_of(size).map(Some).ok_or_else(|| {
            let message = format!("{size:?} is no size; expected bytes, or such as 512MiB or 4GiB");
            Error::new(ErrorKind::OutOfMemory, MEMORY_LIMIT, message)
        }),
    }
}

/// Bytes, or whole KiB, MiB or GiB; not zero. `None` for what is no size.
pub fn size_of(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        _ => return None,
    };
    let number: usize = number.parse().ok()?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

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

    /// What [`Device::set_memory_limit`] said, else the environment variable `LANTHORN_MEMORY_LIMIT` when the device was
    /// made: bytes, or such as `512MiB`.
    pub fn memory_limit(&self) -> Option<usize> {
        self.pool().limit()
    }

    /// The most bytes that the device may hold, idle blocks included. Beyond it, allocating is an error of kind
    /// [`OutOfMemory`](lanthorn_ir::ErrorKind::OutOfMemory) that names the bytes wanted, those in use and the limit. What
    /// is in use already stays.
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

#[cfg(test)]
mod tests {
    use super::size_of;

    #[test]
    fn sizes_have_units_or_none() {
        let sizes =
            [("1", 1), ("4096", 4096), ("3b", 3), ("1KiB", 1024), ("512 mib", 512 << 20), ("2GiB", 2 << 30)];
        for (text, bytes) in sizes {
            assert_eq!(size_of(text), Some(bytes), "{text}");
        }
        for text in
            ["0", "-1", "GiB", "1GB", "1.5GiB", "1e9", "lots", "99999999999999999999", "17179869184GiB"]
        {
            assert_eq!(size_of(text), None, "{text}");
        }
    }
}
