//! Layouts: a reshape of any view either keeps row-major order or says that it is none.

use lanthorn_ir::layout::{Layout, numel};
use proptest::prelude::*;

/// The storage positions that a layout shows, in row-major order.
fn positions(layout: &Layout) -> Vec<usize> {
    let mut positions = vec![layout.offset as isize];
    for (&size, &stride) in layout.shape.iter().zip(&layout.strides) {
        positions = positions.iter().flat_map(|&p| (0..size).map(move |i| p + i as isize * stride)).collect();
    }
    positions.into_iter().map(|p| p as usize).collect()
}

#[derive(Clone, Debug)]
enum Move {
    Permute(usize),
    Broadcast(usize),
    Slice(usize, usize, usize, usize),
    Flip(usize),
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        (0..4usize).prop_map(Move::Permute),
        (0..3usize).prop_map(Move::Broadcast),
        (0..4usize, 0..3usize, 0..5usize, 1..3usize).prop_map(|(a, b, c, d)| Move::Slice(a, b, c, d)),
        (0..4usize).prop_map(Move::Flip),
    ]
}

fn moved(layout: &Layout, step: &Move) -> Layout {
    let rank = layout.rank();
    match *step {
        Move::Permute(by) => {
            let axes: Vec<usize> = (0..rank).map(|a| (a + by) % rank.max(1)).collect();
            layout.permute(&axes)
        }
        Move::Broadcast(size) => layout.broadcast(&[&[size], &layout.shape[..]].concat()),
        Move::Slice(axis, start, length, step) if rank > 0 => {
            let axis = axis % rank;
            let (mut starts, mut stops, mut steps) = (vec![0; rank], layout.shape.to_vec(), vec![1; rank]);
            starts[axis] = start.min(stops[axis]);
            stops[axis] = (starts[axis] + length).min(stops[axis]);
            steps[axis] = step;
            layout.slice(&starts, &stops, &steps)
        }
        Move::Flip(axis) if rank > 0 => layout.flip(&[axis % rank]),
        _ => layout.clone(),
    }
}

/// Ways to write `n` as a shape.
fn shapes_of(n: usize) -> Vec<Vec<usize>> {
    let mut shapes = vec![vec![n], vec![1, n], vec![n, 1]];
    for a in 1..=n {
        if n.is_multiple_of(a) {
            shapes.extend([vec![a, n / a], vec![a, 1, n / a]]);
            shapes.extend((1..=n / a).filter(|&b| (n / a).is_multiple_of(b)).map(|b| vec![a, b, n / a / b]));
        }
    }
    shapes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reshape_shows_the_same_positions(
        sizes in prop::collection::vec(0..4usize, 0..4),
        steps in prop::collection::vec(any_move(), 0..5),
    ) {
        let view = steps.iter().fold(Layout::contiguous(&sizes), |view, step| moved(&view, step));
        let shown = positions(&view);
        prop_assert_eq!(shown.len(), view.numel());
        if let Some((low, high)) = view.extent() {
            prop_assert_eq!((Some(&low), Some(&high)), (shown.iter().min(), shown.iter().max()));
            prop_assert!(high < numel(&sizes));
        }
        let ordered = shown.windows(2).all(|pair| pair[1] == pair[0] + 1);
        prop_assert_eq!(view.is_contiguous(), ordered || view.numel() == 0);
        for shape in shapes_of(view.numel()) {
            if let Some(reshaped) = view.reshape(&shape) {
                prop_assert_eq!(positions(&reshaped), shown.clone(), "{:?} as {:?}", view, shape);
            } else {
                prop_assert!(!view.is_contiguous(), "{:?} is contiguous and reshapes to {:?}", view, shape);
            }
        }
        // Splitting an axis or adding axes of size 1 never moves data.
        let raised = [&[1], &view.shape[..], &[1]].concat();
        prop_assert!(view.reshape(&raised).is_some());
    }
}

#[test]
fn a_step_beyond_the_axis_shows_one_element() {
    let view = Layout::contiguous([2, 3, 2]).slice(&[0, 1, 0], &[2, 3, 2], &[1, usize::MAX / 4, 1]);
    assert_eq!((&view.shape[..], view.numel()), (&[2, 1, 2][..], 4));
    assert_eq!(view.extent(), Some((2, 9)));
}
