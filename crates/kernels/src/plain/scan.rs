//! Scans along an axis of dense values.

use std::ops::Range;

use super::number::Number;
use crate::interrupt::stretches;
use crate::rows::Cpu;
use crate::rows::operands::{ELEMENTS_PER_TASK, Shared};

/// The lines of a dense value along one axis.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// The product of the axes before.
    pub outer: usize,
    pub size: usize,
    /// The product of the axes behind: neighbours of a line are that far apart.
    pub inner: usize,
}

impl Lines {
    /// The lines of `shape` along `axis`, which it has.
    pub fn new(shape: &[usize], axis: usize) -> Lines {
        Lines {
            outer: shape[..axis].iter().product(),
            size: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// How many lines there are.
    pub(super) fn count(&self) -> usize {
        if self.size == 0 { 0 } else { self.outer * self.inner }
    }

    /// The place of a line's first element.
    pub(super) fn first(&self, line: usize) -> usize {
        line / self.inner * self.size * self.inner + line % self.inner
    }

    /// Calls `line` with the place of the first element of each line, threaded.
    pub(super) fn run(&self, cpu: Cpu, line: impl Fn(usize) + Sync) {
        let count = self.count();
        let chunk = (ELEMENTS_PER_TASK / self.size.max(1)).max(1);
        cpu.run_plain(count.div_ceil(chunk), |task, _| {
            for at in task * chunk..count.min((task + 1) * chunk) {
                line(self.first(at));
            }
        });
    }

    /// The steps of a line, some thousand at a time.
    fn steps(&self) -> impl Iterator<Item = Range<usize>> {
        stretches(self.size, ELEMENTS_PER_TASK)
    }

    /// The place of element `step` of a line in the direction of the scan.
    fn at(&self, first: usize, step: usize, reverse: bool) -> usize {
        let step = if reverse { self.size - 1 - step } else { step };
        first + step * self.inner
    }
}

/// How elements combine, in [`Number::Wide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Sum,
    Prod,
}

/// Each element combined with all before it on the axis.
pub fn fold<T: Number>(cpu: Cpu, combine: Combine, lines: Lines, reverse: bool, x: &[T], out: &mut [T]) {
    assert_eq!(x.len(), out.len(), "a scan keeps the shape");
    let out = Shared::new(out);
    lines.run(cpu, |first| {
        let mut total = x[lines.at(first, 0, reverse)].widen();
        for step in lines.steps().flatten() {
            let at = lines.at(first, step, reverse);
            if step > 0 {
                let element = x[at].widen();
                total = match combine {
                    Combine::Sum => T::plus(total, element),
                    Combine::Prod => T::times(total, element),
                };
            }
            // SAFETY: the place lies in the value and belongs to this line.
            unsafe { out.at(at).write(T::narrow(total)) };
        }
    });
}

/// `log(sum(exp(x)))` over each element and all before it on the axis.
pub fn log_sum_exp<T: Number<Wide = f64>>(cpu: Cpu, lines: Lines, reverse: bool, x: &[T], out: &mut [T]) {
    assert_eq!(x.len(), out.len(), "a scan keeps the shape");
    let out = Shared::new(out);
    lines.run(cpu, |first| {
        let mut total = f64::NEG_INFINITY;
        for step in lines.steps().flatten() {
            let at = lines.at(first, step, reverse);
            total = log_add_exp(total, x[at].widen());
            // SAFETY: the place lies in the value and belongs to this line.
            unsafe { out.at(at).write(T::narrow(total)) };
        }
    });
}

fn log_add_exp(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if high.is_infinite() { high } else { high + libm::log1p(libm::exp(low - high)) }
}

/// The largest (or smallest) of each element and all before it on the axis and its place, the last of several; NaN wins.
pub fn extreme<T: Number>(
    cpu: Cpu,
    largest: bool,
    lines: Lines,
    reverse: bool,
    x: &[T],
    values: &mut [T],
    places: &mut [i64],
) {
    assert!(x.len() == values.len() && x.len() == places.len(), "a scan keeps the shape");
    let (values, places) = (Shared::new(values), Shared::new(places));
    lines.run(cpu, |first| {
        let mut best = x[lines.at(first, 0, reverse)];
        let mut chosen = 0;
        for step in lines.steps().flatten() {
            let at = lines.at(first, step, reverse);
            let here = x[at];
            let loses = if largest { here.below(best) } else { best.below(here) };
            if here.is_nan() || !(loses || best.is_nan()) {
                (best, chosen) = (here, step);
            }
            let place = if reverse { lines.size - 1 - chosen } else { chosen };
            // SAFETY: the place lies in the value and belongs to this line.
            unsafe {
                values.at(at).write(best);
                places.at(at).write(place as i64);
            }
        }
    });
}
