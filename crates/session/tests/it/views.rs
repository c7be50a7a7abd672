//! Views and writes through them, held against a list of places that is moved by hand.

use lanthorn_ir::ops::table::Attribute;
use proptest::prelude::*;

use super::support::{Face, close, float, int2, ints};

/// One way to look at a tensor; numbers are folded into what the shape at hand allows.
#[derive(Clone, Debug)]
enum Look {
    Select { axis: usize, index: usize },
    Slice { axis: usize, start: usize, stop: usize, step: usize },
    Transpose { first: usize, second: usize },
    Flip { axis: usize },
    Flatten,
    Unsqueeze { axis: usize },
}

fn look() -> impl Strategy<Value = Look> {
    let at = 0..8usize;
    prop_oneof![
        (at.clone(), at.clone()).prop_map(|(axis, index)| Look::Select { axis, index }),
        (at.clone(), at.clone(), at.clone(), 1..3usize).prop_map(|(axis, start, stop, step)| Look::Slice {
            axis,
            start,
            stop,
            step
        }),
        (at.clone(), at.clone()).prop_map(|(first, second)| Look::Transpose { first, second }),
        at.clone().prop_map(|axis| Look::Flip { axis }),
        Just(Look::Flatten),
        at.prop_map(|axis| Look::Unsqueeze { axis }),
    ]
}

/// Places of a flat list, seen under a shape.
#[derive(Clone, Debug)]
struct Places {
    shape: Vec<usize>,
    places: Vec<usize>,
}

impl Places {
    fn at(&self, coordinates: &[usize]) -> usize {
        let flat = coordinates.iter().zip(&self.shape).fold(0, |flat, (at, size)| flat * size + at);
        self.places[flat]
    }

    /// Whether the places follow one another, each as far from the one before: such elements are never copied.
    fn is_row(&self) -> bool {
        let steps = |pair: &[usize]| pair[1] as i64 - pair[0] as i64;
        let first = self.places.windows(2).next().map(steps);
        self.places.windows(2).all(|pair| Some(steps(pair)) == first)
    }

    /// The places under another shape, where `from` says which coordinates an element comes from.
    fn moved(&self, shape: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Places {
        let mut places = Vec::new();
        let count = shape.iter().product();
        for flat in 0..count {
            let mut rest = flat;
            let mut coordinates = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                coordinates[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            places.push(self.at(&from(&coordinates)));
        }
        Places { shape, places }
    }

    /// The look by hand, and the op that does the same.
    fn look(&self, look: &Look) -> Option<(Places, &'static str, Vec<Attribute>)> {
        let rank = self.shape.len();
        let mut shape = self.shape.clone();
        Some(match *look {
            Look::Flatten => {
                let shape = vec![self.places.len()];
                (Places { shape, places: self.places.clone() }, "reshape", ints(&[-1]).to_vec())
            }
            Look::Unsqueeze { axis } => {
                let axis = axis % (rank + 1);
                shape.insert(axis, 1);
                let places = Places { shape, places: self.places.clone() };
                (places, "unsqueeze", vec![Attribute::Int(axis as i64)])
            }
            _ if rank == 0 => return None,
            Look::Select { axis, index } => {
                let axis = axis % rank;
                let index = index % shape.remove(axis);
                let from = |to: &[usize]| [&to[..axis], &[index], &to[axis..]].concat();
                (self.moved(shape, from), "select", int2(axis as i64, index as i64).to_vec())
            }
            Look::Slice { axis, start, stop, step } => {
                let axis = axis % rank;
                let start = start % shape[axis];
                let stop = start + 1 + stop % (shape[axis] - start);
                shape[axis] = (stop - start).div_ceil(step);
                let from = |to: &[usize]| {
                    let mut from = to.to_vec();
                    from[axis] = start + to[axis] * step;
                    from
                };
                let attributes = [axis, start, stop, step].map(|n| Attribute::Int(n as i64));
                (self.moved(shape, from), "slice", attributes.to_vec())
            }
            Look::Transpose { first, second } => {
                let (first, second) = (first % rank, second % rank);
                shape.swap(first, second);
                let from = |to: &[usize]| {
                    let mut from = to.to_vec();
                    from.swap(first, second);
                    from
                };
                (self.moved(shape, from), "transpose", int2(first as i64, second as i64).to_vec())
            }
            Look::Flip { axis } => {
                let axis = axis % rank;
                let size = shape[axis];
                let from = |to: &[usize]| {
                    let mut from = to.to_vec();
                    from[axis] = size - 1 - to[axis];
                    from
                };
                (self.moved(shape, from), "flip", ints(&[axis as i64]).to_vec())
            }
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_write_through_views_reaches_the_places_that_they_show(
        shape in proptest::collection::vec(1..4usize, 1..4),
        looks in proptest::collection::vec(look(), 1..5),
        is_computed: bool,
    ) {
        let mut face = Face::new();
        let count: usize = shape.iter().product();
        let mut elements: Vec<f64> = (0..count).map(|x| x as f64).collect();
        let start: Vec<f32> = elements.iter().map(|&x| x as f32).collect();
        let mut base = face.f32(&shape, &start);
        if !is_computed {
            base = face.op("neg", &[base], &[]);
            elements.iter_mut().for_each(|x| *x = -*x);
        }
        let mut places = Places { shape, places: (0..count).collect() };
        let (mut view, mut is_copied) = (base, false);
        for look in &looks {
            let Some((next, op, attributes)) = places.look(look) else { continue };
            view = face.op(op, &[view], &attributes);
            let is_view = face.session.describe(view).unwrap().is_view;
            // A flip copies always, a reshape where the places do not lie in a row.
            match look {
                Look::Flip { .. } => prop_assert!(!is_view),
                Look::Flatten if !is_copied => prop_assert_eq!(is_view, next.is_row()),
                Look::Flatten => {}
                _ => prop_assert!(is_view),
            }
            is_copied |= !is_view;
            places = next;
        }
        let shown = |elements: &[f64]| places.places.iter().map(|&at| elements[at]).collect::<Vec<_>>();
        prop_assert_eq!(face.read(view), shown(&elements));

        face.assign(view, "mul_scalar", &[view], &float(3.0));
        face.assign(view, "add_scalar", &[view], &float(100.0));
        let before = elements.clone();
        for &at in &places.places {
            elements[at] = elements[at] * 3.0 + 100.0;
        }
        let written = shown(&elements);
        if is_copied {
            elements = before;
        }
        prop_assert_eq!(face.read(base), elements.clone());
        prop_assert_eq!(face.read(view), written.clone());

        // The other way round.
        face.assign(base, "neg", &[base], &[]);
        elements.iter_mut().for_each(|x| *x = -*x);
        prop_assert_eq!(face.read(view), if is_copied { written } else { shown(&elements) });
    }
}

#[test]
fn diagonals_splits_and_chunks_are_views_too() {
    let mut face = Face::new();
    let x = face.f32(&[2, 2], &[1., 2., 3., 4.]);
    let diagonal = face.op("diagonal", &[x], &[]);
    face.assign(diagonal, "neg", &[diagonal], &[]);
    let halves =
        face.session.op(lanthorn_ir::ops::table::id_of("chunk").unwrap(), &[Some(x)], &int2(2, 1)).unwrap();
    face.assign(halves[1], "mul_scalar", &[halves[1]], &float(10.0));
    assert_eq!(face.read(x), [-1., 20., 3., -40.]);
    assert!(face.session.describe(halves[0]).unwrap().is_view);
}

#[test]
fn results_that_are_no_views_are_tensors_of_their_own() {
    let mut face = Face::new();
    let x = face.f32(&[2], &[1., 2.]);
    // Each of them gives the very value of its operand, or one that movements alone lead to.
    let same = [
        face.op("pow_scalar", &[x], &float(1.0)),
        face.op("cast", &[x], &[Attribute::DType(lanthorn_ir::DType::F32)]),
        face.op("concat", &[x], &[]),
        face.op("clamp", &[x], &[]),
        face.op("repeat", &[x], &ints(&[1])),
    ];
    for copy in same {
        assert!(!face.session.describe(copy).unwrap().is_view);
        face.assign(copy, "neg", &[copy], &[]);
        assert_eq!(face.read(copy), [-1., -2.]);
    }
    assert_eq!(face.read(x), [1., 2.]);
}

#[test]
fn a_reshape_is_a_view_where_the_elements_lie_in_a_row_and_a_flip_never() {
    let mut face = Face::new();
    let x = face.f32(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let turned = face.op("transpose", &[x], &int2(0, 1));
    let back = face.op("transpose", &[turned], &int2(0, 1));
    let row = face.op("select", &[x], &int2(0, 1));
    let column = face.op("select", &[x], &int2(1, 0));
    let spread = face.op("broadcast_to", &[row], &ints(&[2, 3]));
    let reshaped = |face: &mut Face, of, shape: &[i64]| {
        let copy = face.op("reshape", &[of], &ints(shape));
        let is_view = face.session.describe(copy).unwrap().is_view;
        if !is_view {
            face.assign(copy, "neg", &[copy], &[]);
        }
        is_view
    };
    assert!(!reshaped(&mut face, turned, &[6]));
    assert!(!reshaped(&mut face, spread, &[6]));
    assert!(reshaped(&mut face, back, &[6]));
    assert!(reshaped(&mut face, row, &[3, 1]));
    assert!(reshaped(&mut face, column, &[1, 2]));
    assert!(reshaped(&mut face, turned, &[3, 2, 1]));
    let flipped = face.op("flip", &[x], &ints(&[0]));
    assert!(!face.session.describe(flipped).unwrap().is_view);
    face.assign(flipped, "neg", &[flipped], &[]);
    assert_eq!(face.read(flipped), [-4., -5., -6., -1., -2., -3.]);
    assert_eq!(face.read(x), [1., 2., 3., 4., 5., 6.]);
}

#[test]
fn a_view_of_what_requires_no_gradients_becomes_a_variable_of_its_own() {
    let mut face = Face::new();
    let w = face.f32(&[2, 2], &[1., 2., 3., 4.]);
    face.session.requires_grad(w, true).unwrap();
    for base in [w, face.f32(&[2, 2], &[1., 2., 3., 4.])] {
        let detached = face.session.detach(base).unwrap();
        let row = face.op("select", &[detached], &int2(0, 1));
        assert!(!face.session.describe(row).unwrap().requires_grad);
        face.session.requires_grad(row, false).unwrap();
        assert!(face.session.describe(row).unwrap().is_view);
        face.session.requires_grad(row, true).unwrap();
        let about = face.session.describe(row).unwrap();
        assert!(about.requires_grad && !about.is_view);
        let square = face.op("square", &[row], &[]);
        let loss = face.sum(square);
        face.session.backward(loss, None).unwrap();
        let grad = face.session.grad(row).unwrap().unwrap();
        assert_eq!(face.read(grad), [6., 8.]);
        // The elements are no longer the base's.
        face.assign(detached, "neg", &[detached], &[]);
        assert_eq!(face.read(row), [3., 4.]);
        assert_eq!(face.read(detached), [-1., -2., -3., -4.]);
    }
    // One that shows elements of a variable requires gradients as that does.
    let shown = face.op("select", &[w], &int2(0, 1));
    face.session.requires_grad(shown, true).unwrap();
    assert!(face.session.describe(shown).unwrap().is_view);
    let error = face.session.requires_grad(shown, false).unwrap_err();
    assert!(error.to_string().contains("detach it instead"), "{error}");
    let whole = face.session.detach(w).unwrap();
    let ids = face.op("cast", &[whole], &[Attribute::DType(lanthorn_ir::DType::I64)]);
    let ids = face.op("reshape", &[ids], &ints(&[4]));
    assert!(face.session.requires_grad(ids, true).unwrap_err().to_string().contains("i64"));
}

#[test]
fn a_slice_that_moves_over_data_makes_no_new_programs() {
    let mut face = Face::new();
    let data = face.f32(&[50, 3], &(0..150).map(|x| x as f32).collect::<Vec<_>>());
    for row in 0..50 {
        let batch = face.op("narrow", &[data], &[Attribute::Int(0), Attribute::Int(row), Attribute::Int(1)]);
        let total = face.sum(batch);
        assert_eq!(face.read(total), [(9 * row + 3) as f64]);
        face.release(&[batch, total]);
    }
    assert_eq!(face.session.stats().engine.executables, 1);
}

#[test]
fn views_of_views_have_a_bound() {
    let mut face = Face::new();
    let mut x = face.f32(&[2, 2], &[1., 2., 3., 4.]);
    let error = loop {
        match face.try_op("transpose", &[x], &int2(0, 1)) {
            Ok(view) => x = view,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("clone the tensor first"), "{error}");
    close(&face.read(x), &[1., 2., 3., 4.]);
}
