//! Masks: what hides keys from queries, or is added to their scores.

use super::TILE;
use super::operands::{Geometry, Part};
use crate::plain::attention::Mask;
use crate::rows::element::Element;
use crate::rows::wide::{Vector, Wide};
use crate::simd::Simd;

/// A mask `[batch, heads, queries, keys]`, dense; axes of size 1 stand for all.
#[derive(Clone, Copy)]
pub struct Masked<'a, E: Element> {
    mask: Mask<'a, E>,
    /// From one entry of each axis to the next, 0 where one stands for all.
    strides: [usize; 4],
}

impl<'a, E: Element> Masked<'a, E> {
    /// # Panics
    /// If the mask does not hold the shape, or the shape is not that of `full` or 1 on each axis.
    pub fn new(mask: Mask<'a, E>, shape: [usize; 4], full: [usize; 4]) -> Self {
        let held = match mask {
            Mask::Visible(mask) => mask.len(),
            Mask::Same(mask) => mask.len(),
            Mask::Wide(mask) => mask.len(),
        };
        let fits = shape.iter().zip(full).all(|(&size, full)| size == full || size == 1);
        assert!(fits && held == shape.iter().product::<usize>(), "attention: mask {shape:?} for {full:?}");
        let mut strides = [0; 4];
        let mut next = 1;
        for (stride, size) in strides.iter_mut().zip(shape).rev() {
            *stride = if size == 1 { 0 } else { next };
            next *= size;
        }
        Masked { mask, strides }
    }

    /// Whether a key is the same to all queries of all heads.
    fn is_of_keys(&self) -> bool {
        self.strides[1] == 0 && self.strides[2] == 0
    }

    /// Where the entries of a query begin, and from one key to the next.
    fn row(&self, batch: usize, head: usize, query: usize) -> (usize, usize) {
        let [by_batch, by_head, by_query, by_key] = self.strides;
        (batch * by_batch + head * by_head + query * by_query, by_key)
    }

    /// What an entry adds to a score in base 2; `None` where it hides the key whatever the score.
    #[inline(always)]
    fn at(&self, entry: usize) -> Option<E::Wide> {
        let in_base_2 = |added: E::Wide| added * E::Wide::from_f64(std::f64::consts::LOG2_E);
        match self.mask {
            Mask::Visible(mask) => (mask[entry] != 0).then_some(E::Wide::ZERO),
            Mask::Same(mask) => Some(in_base_2(mask[entry].to_wide())),
            Mask::Wide(mask) => Some(in_base_2(mask[entry])),
        }
    }

    /// Adds entries to a tile of scores in base 2, keys by queries: those of a part, whose first query is row `first` of the
    /// block and whose first key is `key`.
    ///
    /// # Safety
    /// The tile holds the part, columns in whole vectors.
    #[inline(always)]
    pub(super) unsafe fn add_to<S: Simd>(
        &self,
        scores: *mut E::Wide,
        part: Part,
        key: usize,
        geometry: &Geometry,
        batch: usize,
        kv_head: usize,
        first: usize,
    ) {
        type V<E, S> = Vector<<E as Element>::Wide, S>;
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_of_keys() {
                let (entry, step) = self.row(batch, 0, 0);
                for at in 0..part.keys {
                    let added = self.at(entry + (key + at) * step);
                    if added == Some(E::Wide::ZERO) {
                        continue;
                    }
                    for column in (part.row..part.row + part.rows).step_by(E::Wide::lanes::<S>()) {
                        let score = scores.add(at * TILE + column);
                        match added {
                            Some(added) => (V::<E, S>::load(score) + V::<E, S>::splat(added)).store(score),
                            None => V::<E, S>::splat(E::Wide::NEG_INFINITY).store(score),
                        }
                    }
                }
                return;
            }
            for row in part.row..part.row + part.rows {
                let place = geometry.place(kv_head, first + row);
                let (entry, step) = self.row(batch, place.head, place.query);
                for at in 0..part.keys {
                    let score = scores.add(at * TILE + row);
                    *score = match self.at(entry + (key + at) * step) {
                        Some(added) => *score + added,
                        None => E::Wide::NEG_INFINITY,
                    };
                }
            }
        }
    }
}
