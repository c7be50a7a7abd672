//! Caches in blocks against their decompositions.

use lanthorn_interp::HostTensor;
use lanthorn_ir::expr::F64;
use lanthorn_ir::prim::Paged;
use lanthorn_ir::prim::paged::Lookback;
use lanthorn_ir::{DType, Prim};

use crate::harness::{Sequence, check_prim, tolerance};

fn integers(shape: &[usize], numbers: &[i64]) -> HostTensor {
    HostTensor::from_i64(DType::I32, shape, numbers).unwrap()
}

/// Tables, starts and counts of some sequences with blocks of their own.
fn places(slots: usize, sequences: &[(i64, i64)]) -> [HostTensor; 3] {
    let batch = sequences.len();
    let tables: Vec<i64> = (0..batch * slots).rev().map(|block| block as i64).collect();
    let of = |part: fn(&(i64, i64)) -> i64| sequences.iter().map(part).collect::<Vec<_>>();
    [
        integers(&[batch, slots], &tables),
        integers(&[batch], &of(|sequence| sequence.0)),
        integers(&[batch], &of(|sequence| sequence.1)),
    ]
}

#[test]
fn rows_are_written_to_blocks_in_every_type() {
    for dtype in crate::harness::DTYPES {
        for (rest, slots, sequences, seq) in [
            (&[2, 3][..], 4, &[(0, 3), (5, 0), (7, 2)][..], 3),
            (&[], 3, &[(2, 1)], 1),
            (&[5], 2, &[(0, 0), (1, 1)], 1),
            (&[5], 2, &[(0, 0), (0, 0)], 2),
            (&[1], 2, &[(3, 5), (0, 80)], 80),
            (&[0], 2, &[(3, 1)], 1),
            (&[2], 2, &[], 3),
        ] {
            let mut s = Sequence::new(31);
            let blocks = (sequences.len() * slots).max(1);
            let pool = s.tensor(dtype, &[&[blocks, 3], rest].concat());
            let rows = s.tensor(dtype, &[&[sequences.len(), seq], rest].concat());
            let mut arguments = vec![pool, rows];
            arguments.extend(places(slots, sequences));
            let what = format!("{dtype} {rest:?} {sequences:?}");
            check_prim(&what, &Prim::Paged(Paged::Update), &arguments, 0.0);
        }
    }
}

#[test]
fn attention_to_blocks_agrees() {
    for pool in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8] {
        for (heads, key_heads, width, size, slots, sequences, seq) in [
            (4, 2, 8, 4, 5, &[(0, 1), (17, 1), (9, 0)][..], 1),
            (2, 2, 5, 1, 6, &[(3, 2), (0, 1)], 2),
            (3, 1, 16, 16, 4, &[(0, 40), (20, 33)], 40),
            (2, 1, 4, 3, 2, &[(20, 1), (5, 1), (6, 1)], 1),
            (2, 1, 4, 3, 2, &[(20, 6), (1, 8)], 8),
            (2, 1, 4, 3, 2, &[], 2),
        ] {
            for window in [None, Some(1), Some(4), Some(19)] {
                let mut s = Sequence::new(32);
                let blocks = (sequences.len() * slots).max(1);
                let q = s.tensor(pool.wide(), &[sequences.len(), seq, heads, width]);
                let q = if pool == DType::I8 {
                    s.tensor(DType::F32, &[sequences.len(), seq, heads, width])
                } else {
                    q
                };
                let shape = [blocks, size, key_heads, width];
                let mut arguments = vec![q, s.tensor(pool, &shape), s.tensor(pool, &shape)];
                let scaled = pool == DType::I8;
                if scaled {
                    arguments.extend([0, 1].map(|_| s.within(DType::F32, &shape[..3], 0.1, 0.3)));
                }
                arguments.extend(places(slots, sequences));
                let prim = Prim::Paged(Paged::Attention(Lookback { scale: F64(0.4), window, scaled }));
                let what = format!("{pool} {:?} {window:?}", (heads, key_heads, width, size, sequences));
                let wide = if pool == DType::F64 { DType::F64 } else { DType::F32 };
                check_prim(&what, &prim, &arguments, 4.0 * tolerance(wide));
            }
        }
    }
}
