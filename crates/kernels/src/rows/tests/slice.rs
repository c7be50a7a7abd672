use lanthorn_error::ErrorKind;

use super::*;
use crate::rows::{Strided, StridedMut, update_slice};

/// A block of `u32` with its axes in some order in memory.
#[derive(Clone)]
struct Block {
    elements: Vec<u32>,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Block {
    /// `order` names the axes from outer to inner; every axis is `pad` larger in memory.
    fn new(shape: &[usize], order: &[usize], pad: usize, first: u32) -> Block {
        let mut strides = vec![0; shape.len()];
        let mut size = 1;
        for axis in order.iter().rev() {
            strides[*axis] = size as isize;
            size *= shape[*axis] + pad;
        }
        Block { elements: (first..first + size as u32).collect(), shape: shape.to_vec(), strides }
    }

    fn at(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.strides).map(|(i, s)| i * *s as usize).sum()
    }

    fn get(&self, index: &[usize]) -> u32 {
        self.elements[self.at(index)]
    }

    fn view(&self) -> Strided<'_> {
        // SAFETY: the vector holds every element that the strides reach.
        unsafe { Strided::from_raw(self.elements.as_ptr().cast(), &self.shape, &self.strides) }
    }

    fn view_mut(&mut self) -> StridedMut<'_> {
        // SAFETY: as above, borrowed exclusively.
        unsafe { StridedMut::from_raw(self.elements.as_mut_ptr().cast(), &self.shape, &self.strides) }
    }
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn update_slice_writes_the_range_and_keeps_the_rest() {
    let shapes = (prop::array::uniform3(0usize..8), 0usize..3, prop::array::uniform3(0usize..6), 0usize..3);
    proptest!(config(), |((shape, axis, orders, pad) in shapes, length in 0usize..8, start in 0usize..8)| {
        let length = length.min(shape[axis]);
        let start = start.min(shape[axis] - length);
        let mut source_shape = shape;
        source_shape[axis] = length;
        let base = Block::new(&shape, &ORDERS[orders[0]], pad, 0);
        let source = Block::new(&source_shape, &ORDERS[orders[1]], 0, 100_000);
        for cpu in every_cpu() {
            let mut out = Block::new(&shape, &ORDERS[orders[2]], 1, 200_000);
            update_slice(cpu, base.view(), source.view(), start as i64, axis, 4, out.view_mut()).unwrap();
            let mut in_place = base.clone();
            let (from, to) = {
                let (ptr, shape, strides) = (in_place.elements.as_mut_ptr(), &in_place.shape, &in_place.strides);
                // SAFETY: both are the very same operand.
                unsafe {
                    (
                        Strided::from_raw(ptr.cast(), shape, strides),
                        StridedMut::from_raw(ptr.cast(), shape, strides),
                    )
                }
            };
            update_slice(cpu, from, source.view(), start as i64, axis, 4, to).unwrap();
            let mut written = 0;
            for i in 0..shape[0] {
                for j in 0..shape[1] {
                    for k in 0..shape[2] {
                        let index = [i, j, k];
                        let expected = if (start..start + length).contains(&index[axis]) {
                            let mut index = index;
                            index[axis] -= start;
                            source.get(&index)
                        } else {
                            base.get(&index)
                        };
                        prop_assert_eq!(out.get(&index), expected);
                        prop_assert_eq!(in_place.get(&index), expected);
                        written += 1;
                    }
                }
            }
            let untouched = out.elements.iter().enumerate().filter(|(at, x)| **x == 200_000 + *at as u32);
            prop_assert_eq!(untouched.count(), out.elements.len() - written);
        }
    });
}

#[test]
fn update_slice_moves_elements_of_any_width() {
    for element in [1, 2, 3, 4, 8, 16] {
        let base: Vec<u8> = (0..6 * element as u8).collect();
        let source: Vec<u8> = (100..100 + 2 * 2 * element as u8).collect();
        let mut out = vec![0; base.len()];
        // The source is transposed, so its elements move one by one.
        // SAFETY: the vectors hold every element that the strides reach.
        unsafe {
            update_slice(
                Cpu::host(),
                Strided::from_raw(base.as_ptr(), &[3, 2], &[2, 1]),
                Strided::from_raw(source.as_ptr(), &[2, 2], &[1, 2]),
                1,
                0,
                element,
                StridedMut::from_raw(out.as_mut_ptr(), &[3, 2], &[2, 1]),
            )
            .unwrap();
        }
        let pick = |at: usize| &source[at * element..][..element];
        let expected = [&base[..2 * element], pick(0), pick(2), pick(1), pick(3)].concat();
        assert_eq!(out, expected);
    }
}

#[test]
fn update_slice_of_a_long_run_is_split() {
    let base = vec![1u8; 200_000];
    let source = vec![2u8; 100_000];
    let mut out = vec![0u8; 200_000];
    // SAFETY: the vectors hold all elements.
    unsafe {
        update_slice(
            Cpu { threads: 3, ..Cpu::host() },
            Strided::from_raw(base.as_ptr(), &[200_000], &[1]),
            Strided::from_raw(source.as_ptr(), &[100_000], &[1]),
            50_001,
            0,
            1,
            StridedMut::from_raw(out.as_mut_ptr(), &[200_000], &[1]),
        )
        .unwrap();
    }
    assert!((0..200_000).all(|at| out[at] == if (50_001..150_001).contains(&at) { 2 } else { 1 }));
}

#[test]
fn a_range_that_leaves_the_base_is_an_error() {
    let base = Block::new(&[2, 5, 1], &[0, 1, 2], 0, 0);
    let source = Block::new(&[2, 3, 1], &[0, 1, 2], 0, 50);
    for start in [-1, 3, i64::MAX, i64::MIN] {
        let mut out = base.clone();
        let error =
            update_slice(Cpu::host(), base.view(), source.view(), start, 1, 4, out.view_mut()).unwrap_err();
        assert_eq!((error.kind, error.op.as_str()), (ErrorKind::Execute, "update_slice"));
        let text = error.to_string();
        assert!(text.contains(&format!("start {start}")) && text.contains("0..=2"), "{text}");
        assert_eq!(out.elements, base.elements);
    }
}
