//! Recurrences, step by step: the linear scan and the gated delta rule, as `lanthorn_ir::prim::recurrent` defines
//! them. State is carried in the wide type.

use crate::interrupt::stretches;
use crate::pool::pool;
use crate::rows::operands::Shared;
use crate::rows::{Element, Wide};

/// Steps of a linear scan, and of the delta rule, between two questions whether to stop.
const SCAN_STEPS: usize = 1 << 12;
const RULE_STEPS: usize = 64;

/// Lanes that one task carries: what fits the registers.
const BLOCK: usize = 32;

/// `h_t = a_t h_(t-1) + x_t` over the middle axis of `[outer, steps, inner]`, or from its end with `reverse`.
pub fn linear_scan<E: Element>(
    a: &[E],
    x: &[E],
    h: &mut [E],
    [outer, steps, inner]: [usize; 3],
    reverse: bool,
) {
    let count = outer * steps * inner;
    assert_eq!([a.len(), x.len(), h.len()], [count; 3], "linear_scan: a, x and h");
    if count == 0 {
        return;
    }
    let blocks = inner.div_ceil(BLOCK);
    let h = Shared::new(h);
    pool().run(outer * blocks, &|task, _| {
        let (lane, start) = (task / blocks, task % blocks * BLOCK);
        let width = BLOCK.min(inner - start);
        let mut state = [E::Wide::ZERO; BLOCK];
        for turn in stretches(steps, SCAN_STEPS).flatten() {
            let step = if reverse { steps - 1 - turn } else { turn };
            let at = (lane * steps + step) * inner + start;
            let row = a[at..at + width].iter().zip(&x[at..at + width]);
            for (i, ((a, x), state)) in row.zip(&mut state).enumerate() {
                // Nothing stands before the first step, whatever its factor is.
                *state = if turn == 0 { x.to_wide() } else { a.to_wide() * *state + x.to_wide() };
                // SAFETY: the element lies in `h`, whose length was checked, and belongs to this task alone.
                unsafe { h.at(at + i).write(E::from_wide(*state)) };
            }
        }
    });
}

/// Numbers beside operands of type `E`: of that type or its wide one.
#[derive(Clone, Copy)]
pub enum Beside<'a, E: Element> {
    Same(&'a [E]),
    Wide(&'a [E::Wide]),
}

impl<E: Element> Beside<'_, E> {
    fn len(&self) -> usize {
        match self {
            Beside::Same(numbers) => numbers.len(),
            Beside::Wide(numbers) => numbers.len(),
        }
    }

    fn get(&self, at: usize) -> E::Wide {
        match self {
            Beside::Same(numbers) => numbers[at].to_wide(),
            Beside::Wide(numbers) => numbers[at],
        }
    }
}

/// The operands of one gated delta rule, all dense.
pub struct DeltaRule<'a, E: Element> {
    /// `[batch, steps, heads, width]`
    pub q: &'a [E],
    pub k: &'a [E],
    /// `[batch, steps, heads, value_width]`
    pub v: &'a [E],
    /// `[batch, steps, heads]`, or with an axis of `width` more.
    pub log_decay: Beside<'a, E>,
    /// `[batch, steps, heads]`
    pub beta: Beside<'a, E>,
    pub batch: usize,
    pub steps: usize,
    pub heads: usize,
    pub width: usize,
    pub value_width: usize,
    pub scale: f64,
}

impl<E: Element> DeltaRule<'_, E> {
    /// Writes the outputs `[batch, steps, heads, value_width]` and takes the state
    /// `[batch, heads, width, value_width]` from before the first step to behind the last.
    pub fn run(&self, outputs: &mut [E], state: &mut [E::Wide]) {
        let rows = self.batch * self.steps * self.heads;
        assert_eq!([self.q.len(), self.k.len()], [rows * self.width; 2], "gated_delta_rule: q and k");
        assert_eq!([self.v.len(), outputs.len()], [rows * self.value_width; 2], "gated_delta_rule: v and o");
        assert_eq!(self.beta.len(), rows, "gated_delta_rule: beta");
        let channels = self.log_decay.len() != rows || self.width == 1;
        let expected = if channels { rows * self.width } else { rows };
        assert_eq!(self.log_decay.len(), expected, "gated_delta_rule: log_decay");
        let size = self.width * self.value_width;
        assert_eq!(state.len(), self.batch * self.heads * size, "gated_delta_rule: state");
        // Columns of the state do not know of each other.
        let blocks = self.value_width.div_ceil(BLOCK);
        let (outputs, state) = (Shared::new(outputs), Shared::new(state));
        pool().run(self.batch * self.heads * blocks, &|task, _| {
            let (sequence, start) = (task / blocks, task % blocks * BLOCK);
            let columns = start..self.value_width.min(start + BLOCK);
            for step in stretches(self.steps, RULE_STEPS).flatten() {
                let (item, head) = (sequence / self.heads, sequence % self.heads);
                let row = (item * self.steps + step) * self.heads + head;
                // SAFETY: the columns of this sequence's state and outputs lie in the checked slices and belong to
                // this task alone.
                unsafe {
                    self.step(
                        row,
                        columns.clone(),
                        channels,
                        state.at(sequence * size),
                        outputs.at(row * self.value_width),
                    )
                };
            }
        });
    }

    /// One step of some columns.
    ///
    /// # Safety
    /// `state` begins a matrix `[width, value_width]` and `outputs` a row of `value_width`, both writable in `columns`.
    unsafe fn step(
        &self,
        row: usize,
        columns: std::ops::Range<usize>,
        channels: bool,
        state: *mut E::Wide,
        outputs: *mut E,
    ) {
        let (q, k) = (&self.q[row * self.width..][..self.width], &self.k[row * self.width..][..self.width]);
        let v = &self.v[row * self.value_width..][..self.value_width];
        let count = columns.len();
        let row_of = |channel: usize| {
            // SAFETY: the caller's promise; rows of one matrix do not overlap, and one is held at a time.
            unsafe {
                std::slice::from_raw_parts_mut(state.add(channel * self.value_width + columns.start), count)
            }
        };
        let mut seen = [E::Wide::ZERO; BLOCK];
        let shared = if channels { E::Wide::ONE } else { self.log_decay.get(row).exp() };
        for (channel, k) in k.iter().enumerate() {
            let decay = if channels { self.log_decay.get(row * self.width + channel).exp() } else { shared };
            for (s, seen) in row_of(channel).iter_mut().zip(&mut seen) {
                *s = *s * decay;
                *seen = *seen + k.to_wide() * *s;
            }
        }
        let beta = self.beta.get(row);
        let mut errors = [E::Wide::ZERO; BLOCK];
        for ((error, seen), v) in errors.iter_mut().zip(seen).zip(&v[columns.clone()]) {
            *error = beta * (v.to_wide() - seen);
        }
        let mut read = [E::Wide::ZERO; BLOCK];
        for (channel, (q, k)) in q.iter().zip(k).enumerate() {
            let of_channel = row_of(channel).iter_mut().zip(&errors).zip(&mut read);
            for ((s, error), read) in of_channel {
                *s = *s + k.to_wide() * *error;
                *read = *read + q.to_wide() * *s;
            }
        }
        let scale = E::Wide::from_f64(self.scale);
        for (column, read) in columns.zip(read) {
            // SAFETY: the caller's promise.
            unsafe { outputs.add(column).write(E::from_wide(scale * read)) };
        }
    }
}
