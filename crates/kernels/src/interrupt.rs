//! Stopping in the middle of a kernel: the pool hands out no more tasks once somebody says stop.
//!
//! [`interruptible`] frames a kernel. Every run of the [`pool`](crate::pool) under the frame, by the calling thread or
//! nested in a task, asks before each task, and long loops within a task ask by [`stretches`]. Once anything has been
//! left out, nothing more runs under the frame: a kernel of several steps never takes up what an earlier step has not
//! finished, and what it has written is thrown away by whoever set the frame. Without a frame nobody is asked.

use std::cell::Cell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asked by every thread before each task, so it should be cheap: true to stop.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Runs `work`; `None` if it was told to stop while some of its work was left. What it wrote is then of no use.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use lanthorn_kernels::{interrupt::interruptible, pool::pool};
///
/// let done = AtomicUsize::new(0);
/// let task = |_, _| {
///     done.fetch_add(1, Ordering::Relaxed);
/// };
/// let stop = || done.load(Ordering::Relaxed) >= 10;
/// assert!(interruptible(&stop, || pool().run(1_000_000, &task)).is_none());
/// assert!(done.into_inner() < 1_000_000);
/// ```
pub fn interruptible<R>(stop: Stop<'_>, work: impl FnOnce() -> R) -> Option<R> {
    // SAFETY: only the lifetime changes, and the frame is left before this function returns.
    let stop = unsafe { std::mem::transmute::<Stop<'_>, Stop<'static>>(stop) };
    let frame = Frame { stop, is_cut: AtomicBool::new(false) };
    let result = {
        let _entered = Current(&frame).enter();
        work()
    };
    (!frame.is_cut.into_inner()).then_some(result)
}

/// `0..count` in ranges of up to `length`, for a long loop within a task. Ends early where the kernel is to stop.
pub fn stretches(count: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let current = Current::of_thread();
    (0..count)
        .step_by(length)
        .take_while(move |_| !current.is_to_stop())
        .map(move |first| first..count.min(first + length))
}

struct Frame {
    stop: Stop<'static>,
    /// Something has been left out.
    is_cut: AtomicBool,
}

thread_local! {
    static CURRENT: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// The frame that work belongs to, if it belongs to one. It is alive as long as the work is.
#[derive(Clone, Copy)]
pub(crate) struct Current(*const Frame);

impl Current {
    pub(crate) const NONE: Current = Current(ptr::null());

    /// That of the calling thread.
    pub(crate) fn of_thread() -> Current {
        Current(CURRENT.get())
    }

    /// To be asked only while work is left, for that work is then left out.
    #[inline]
    pub(crate) fn is_to_stop(self) -> bool {
        // SAFETY: `interruptible` keeps the frame until all of its work has ended.
        match unsafe { self.0.as_ref() } {
            None => false,
            Some(frame) => frame.is_to_stop(),
        }
    }

    /// Makes it the thread's own until the result is dropped.
    pub(crate) fn enter(self) -> Entered {
        Entered { before: Current(CURRENT.replace(self.0)) }
    }
}

impl Frame {
    fn is_to_stop(&self) -> bool {
        // Relaxed: the pool orders one run after the other, so a later run sees what an earlier one has left out.
        if self.is_cut.load(Ordering::Relaxed) {
            return true;
        }
        let stops = (self.stop)();
        if stops {
            self.is_cut.store(true, Ordering::Relaxed);
        }
        stops
    }
}

/// While it lives, the thread works under a frame.
pub(crate) struct Entered {
    before: Current,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.0);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::pool::pool;

    /// Says stop when it has been asked `often` times; asked once before each task, it lets as many run.
    fn after(often: usize) -> impl Fn() -> bool + Sync {
        let asked = AtomicUsize::new(0);
        move || asked.fetch_add(1, Ordering::Relaxed) >= often
    }

    fn count_into(done: &AtomicUsize) -> impl Fn(usize, usize) + Sync + '_ {
        |_, _| {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn exactly_the_tasks_before_the_stop_run() {
        for threads in [1, 2, 4] {
            for often in [0, 1, 7, 99] {
                let done = AtomicUsize::new(0);
                let result = interruptible(&after(often), || pool().run_on(threads, 100, &count_into(&done)));
                assert!(result.is_none());
                assert_eq!(done.into_inner(), often, "{threads} threads");
            }
        }
    }

    #[test]
    fn a_stop_that_comes_after_the_last_task_comes_too_late() {
        for threads in [1, 3] {
            let done = AtomicUsize::new(0);
            let run = || pool().run_on(threads, 100, &count_into(&done));
            assert!(interruptible(&after(100), run).is_some());
            assert_eq!(done.into_inner(), 100);
        }
    }

    #[test]
    fn nothing_runs_under_the_frame_after_something_was_left_out() {
        // The stop is taken back, which must not bring the work back.
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) == 5;
        for threads in [1, 3] {
            asked.store(0, Ordering::Relaxed);
            let done = AtomicUsize::new(0);
            let result = interruptible(&stop, || {
                pool().run_on(threads, 50, &count_into(&done));
                let before = done.load(Ordering::Relaxed);
                pool().run_on(threads, 50, &count_into(&done));
                stretches(10, 3).for_each(|_| count_into(&done)(0, 0));
                assert_eq!(done.load(Ordering::Relaxed), before);
            });
            assert!(result.is_none());
            // Other threads may ask between the stop and its being noted.
            assert!((5..50).contains(&done.into_inner()), "{threads} threads");
        }
    }

    #[test]
    fn what_runs_outside_of_the_frame_or_without_tasks_is_not_stopped() {
        let done = AtomicUsize::new(0);
        assert!(interruptible(&|| true, || pool().run(0, &count_into(&done))).is_some());
        assert!(interruptible(&|| true, || pool().run(9, &count_into(&done))).is_none());
        pool().run(9, &count_into(&done));
        assert_eq!(stretches(10, 4).collect::<Vec<_>>(), [0..4, 4..8, 8..10]);
        assert_eq!(done.into_inner(), 9);
    }

    #[test]
    fn nested_runs_and_loops_within_a_task_are_stopped_too() {
        for threads in [1, 3] {
            let (inner, stretched) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let is_stopped = AtomicBool::new(false);
            let stop = || is_stopped.load(Ordering::Relaxed);
            let result = interruptible(&stop, || {
                pool().run_on(threads, threads, &|_, _| {
                    is_stopped.store(true, Ordering::Relaxed);
                    pool().run_on(threads, 5, &count_into(&inner));
                    stretches(5, 1).for_each(|_| count_into(&stretched)(0, 0));
                });
            });
            assert!(result.is_none());
            assert_eq!((inner.into_inner(), stretched.into_inner()), (0, 0), "{threads} threads");
        }
    }

    #[test]
    fn a_panic_leaves_the_frame() {
        let run = || interruptible(&|| true, || -> () { panic!("of the work") });
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        let done = AtomicUsize::new(0);
        pool().run_on(2, 9, &count_into(&done));
        assert_eq!(done.into_inner(), 9);
    }
}
