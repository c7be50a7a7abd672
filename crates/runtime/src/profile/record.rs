//! What is recorded while a profile is on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use lanthorn_compiler::backend::Observer;
use lanthorn_compiler::clock::Moment;
use lanthorn_compiler::cost::KernelInfo;
use lanthorn_compiler::pipeline::{Compiled, Report};

use super::{Profile, Span, SpanKind};

/// How many spans are kept: some 60 MB.
const CAPACITY: usize = 1_000_000;

/// A span with what it needs to name itself.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    what: What,
    start: Duration,
    duration: Duration,
    thread: u32,
}

#[derive(Clone, Debug)]
enum What {
    Compile,
    Pass(&'static str),
    Run,
    /// A kernel of a program.
    Kernel(Arc<[KernelInfo]>, u32),
}

impl Recorded {
    pub fn span(&self) -> Span<'_> {
        let (kind, name, cost) = match &self.what {
            What::Compile => (SpanKind::Compile, "compile", None),
            What::Pass(name) => (SpanKind::Pass, *name, None),
            What::Run => (SpanKind::Run, "run", None),
            What::Kernel(infos, at) => {
                let info = infos.get(*at as usize);
                (SpanKind::Kernel, info.map_or("kernel", |info| &info.name), info)
            }
        };
        Span { kind, name, start: self.start, duration: self.duration, thread: self.thread, cost }
    }
}

/// Collects the spans of one device.
#[derive(Debug)]
pub(crate) struct Recorder {
    begin: Moment,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    recorded: Vec<Recorded>,
    left_out: usize,
    /// A thread's number is its place here, from 1.
    threads: Vec<ThreadId>,
}

impl State {
    fn thread(&mut self) -> u32 {
        let this = thread::current().id();
        let at = self.threads.iter().position(|&thread| thread == this).unwrap_or_else(|| {
            self.threads.push(this);
            self.threads.len() - 1
        });
        at as u32 + 1
    }

    fn push(&mut self, recorded: Recorded) {
        if self.recorded.len() < CAPACITY {
            self.recorded.push(recorded);
        } else {
            self.left_out += 1;
        }
    }
}

impl Recorder {
    pub fn new() -> Recorder {
        Recorder { begin: Moment::now(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self) -> Profile {
        let State { recorded, left_out, .. } = std::mem::take(&mut *self.state());
        Profile { recorded, left_out }
    }

    fn span(&self, what: What, start: Moment, end: Moment, thread: u32) -> Recorded {
        Recorded { what, start: start.since(self.begin), duration: end.since(start), thread }
    }

    /// A program was made, beginning at `start` and ending now.
    pub fn compiled(&self, start: Moment, report: &Report) {
        let end = Moment::now();
        let mut state = self.state();
        let thread = state.thread();
        let mut at = start.since(self.begin);
        for &(pass, duration) in &report.times {
            state.push(Recorded { what: What::Pass(pass), start: at, duration, thread });
            at += duration;
        }
        state.push(self.span(What::Compile, start, end, thread));
    }

    /// A program ran, beginning with the watch and ending now.
    pub fn ran(&self, watch: Watch, compiled: &Compiled) {
        let end = Moment::now();
        let infos = compiled.kernel_infos();
        let mut state = self.state();
        let thread = state.thread();
        for (kernel, start, end) in watch.kernels.into_inner().unwrap_or_else(PoisonError::into_inner) {
            state.push(self.span(What::Kernel(infos.clone(), kernel), start, end, thread));
        }
        state.push(self.span(What::Run, watch.start, end, thread));
    }

    /// A primitive ran eagerly.
    pub fn ran_eagerly(&self, info: KernelInfo, start: Moment, end: Moment) {
        let mut state = self.state();
        let thread = state.thread();
        state.push(self.span(What::Kernel([info].into(), 0), start, end, thread));
    }
}

/// Notes when the kernels of one call began and ended.
pub(crate) struct Watch {
    start: Moment,
    kernels: Mutex<Vec<(u32, Moment, Moment)>>,
}

impl Watch {
    /// For a call of a program of so many kernels, which begins now.
    pub fn start(kernels: usize) -> Watch {
        Watch { kernels: Mutex::new(Vec::with_capacity(kernels)), start: Moment::now() }
    }

    fn kernels(&self) -> MutexGuard<'_, Vec<(u32, Moment, Moment)>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn begin(&self, kernel: usize) {
        let now = Moment::now();
        self.kernels().push((kernel as u32, now, now));
    }

    fn end(&self, kernel: usize) {
        let now = Moment::now();
        if let Some(last) = self.kernels().last_mut().filter(|last| last.0 as usize == kernel) {
            last.2 = now;
        }
    }
}
