//! Profiles: what a device did between two moments, with the time that each part took.
//!
//! A device records while somebody wants it to ([`Device::start_profile`], [`Device::profile`]): compilations with
//! their passes, calls of programs, and every kernel. While nobody does, a call asks one flag.
//!
//! ```
//! # fn main() -> lanthorn_ir::Result<()> {
//! # let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
//! use lanthorn_runtime::{DType, Tensor};
//! let x = Tensor::ones(&device, &[64, 64], DType::F32)?;
//! let (_, profile) = device.profile(|| x.matmul(&x)?.exp()?.to_vec::<f32>())?;
//! println!("{profile}"); // the ten kernels that took longest
//! let kernel = profile.spans().find(|span| span.name == "matmul + exp").unwrap();
//! let cost = kernel.cost.unwrap();
//! assert_eq!(cost.flops, 2 * 64 * 64 * 64 + 64 * 64);
//! let json = profile.to_chrome_trace(); // for ui.perfetto.dev and chrome://tracing
//! assert!(json.contains("\"name\":\"matmul + exp\""));
//! # Ok(())
//! # }
//! ```

mod chrome;
mod record;
mod table;

use std::sync::Arc;
use std::time::Duration;

use lanthorn_compiler::clock::Moment;
use lanthorn_compiler::cost::KernelInfo;
use lanthorn_ir::{Error, Result};

use record::Recorded;
pub(crate) use record::{Recorder, Watch};

use crate::device::Device;

/// What a device did between start and stop.
///
/// Its `Display` is a table of the ten kernels that took longest: calls, time, share of all kernels' time, GFLOP/s
/// and GB/s.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    recorded: Vec<Recorded>,
    left_out: usize,
}

/// What a span of time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// A compilation; its passes lie within it.
    Compile,
    /// A pass of a compilation.
    Pass,
    /// A call of a program; its kernels lie within it. On a GPU it is what the host took to submit, and there are
    /// no kernels.
    Run,
    /// One kernel of a program, or one primitive that ran eagerly.
    Kernel,
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span<'a> {
    pub kind: SpanKind,
    pub name: &'a str,
    /// Since the profile was started.
    pub start: Duration,
    pub duration: Duration,
    /// The thread that called, counted from 1.
    pub thread: u32,
    /// Of a kernel.
    pub cost: Option<&'a KernelInfo>,
}

impl Profile {
    /// Every span, in the order in which they ended; a run follows its kernels.
    pub fn spans(&self) -> impl Iterator<Item = Span<'_>> {
        self.recorded.iter().map(Recorded::span)
    }

    /// How many spans were left out: beyond a million, none is kept.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// Recording what it does.
impl Device {
    /// Starts to record; a recording that runs is forgotten.
    ///
    /// Errors: [`Unsupported`](lanthorn_ir::ErrorKind::Unsupported) where there is no clock, in a browser.
    pub fn start_profile(&self) -> Result<()> {
        if !Moment::PASSES {
            return Err(Error::unsupported("profile", "there is no clock here; use the browser's profiler"));
        }
        self.set_recorder(Some(Arc::new(Recorder::new())));
        Ok(())
    }

    /// Ends the recording and gives it; empty if there was none.
    pub fn stop_profile(&self) -> Profile {
        self.set_recorder(None).map_or_else(Profile::default, |recorder| recorder.take())
    }

    /// Records what happens on the device while `work` is done, in any thread.
    ///
    /// Errors: those of `work`, and of [`Device::start_profile`].
    pub fn profile<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Profile)> {
        self.start_profile()?;
        let done = work();
        let profile = self.stop_profile();
        Ok((done?, profile))
    }
}
