//! Products of every shape, layout, element type and instruction set against f64 sums.

use std::sync::atomic::{AtomicU32, Ordering};

use half::{bf16, f16};
use proptest::prelude::*;
use smallvec::SmallVec;

use super::kernel::tile_cols_of;
use super::{Element, Epilogue, MatmulPlan, MatmulShape, OperandLayout, PackedB, Store};
use crate::simd::{Isa, isa};

/// An operand in memory together with the values that its elements stand for.
#[derive(Clone)]
struct Operand {
    bytes: Vec<u8>,
    /// Element (0, 0) of the first batch entry, in elements.
    origin: usize,
    layout: OperandLayout,
}

/// How the axes (batch.., rows, cols) of a test operand lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    RowMajor,
    ColumnMajor,
    /// Row-major with gaps between rows and between columns.
    Gaps,
    /// Row-major, rows in descending order of addresses.
    RowsReversed,
    /// Row-major, columns in descending order of addresses.
    ColumnsReversed,
    /// Every row is the same memory.
    OneRow,
    /// Every column is the same memory.
    OneColumn,
}

const FORMS: [Form; 7] = [
    Form::RowMajor,
    Form::ColumnMajor,
    Form::Gaps,
    Form::RowsReversed,
    Form::ColumnsReversed,
    Form::OneRow,
    Form::OneColumn,
];

fn encode(element: Element, value: f32) -> Vec<u8> {
    match element {
        Element::F32 => value.to_ne_bytes().to_vec(),
        Element::Bf16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
        Element::F16 => f16::from_f32(value).to_ne_bytes().to_vec(),
    }
}

fn decode(element: Element, bytes: &[u8], index: usize) -> f32 {
    let at = index * element.bytes();
    match element {
        Element::F32 => f32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()),
        Element::Bf16 => bf16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap()).to_f32(),
        Element::F16 => f16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap()).to_f32(),
    }
}

impl Operand {
    fn new(
        element: Element,
        form: Form,
        batch: &[usize],
        broadcast: &[bool],
        rows: usize,
        cols: usize,
        seed: u64,
    ) -> Operand {
        let (r, c) = (rows.max(1) as isize, cols.max(1) as isize);
        let (row_stride, col_stride, matrix) = match form {
            Form::RowMajor => (c, 1, r * c),
            Form::ColumnMajor => (1, r, r * c),
            Form::Gaps => (2 * c + 3, 2, r * (2 * c + 3)),
            Form::RowsReversed => (-c, 1, r * c),
            Form::ColumnsReversed => (c, -1, r * c),
            Form::OneRow => (0, 1, c),
            Form::OneColumn => (1, 0, r),
        };
        let origin = (-(row_stride.min(0) * (r - 1) + col_stride.min(0) * (c - 1))) as usize;
        let mut batch_strides = SmallVec::<[isize; 4]>::from_elem(0, batch.len());
        let mut total = matrix;
        for (axis, size) in batch.iter().enumerate().rev() {
            if !broadcast[axis] {
                batch_strides[axis] = total;
                total *= (*size).max(1) as isize;
            }
        }
        let mut state = seed | 1;
        let mut bytes = Vec::new();
        for _ in 0..total {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            bytes.extend(encode(element, ((state >> 40) as f32 / (1u64 << 24) as f32) * 2.0 - 1.0));
        }
        Operand { bytes, origin, layout: OperandLayout { element, row_stride, col_stride, batch_strides } }
    }

    fn index(&self, batch: &[usize], row: usize, col: usize) -> usize {
        let layout = &self.layout;
        let mut index = self.origin as isize;
        for (position, stride) in batch.iter().zip(&layout.batch_strides) {
            index += *position as isize * stride;
        }
        (index + row as isize * layout.row_stride + col as isize * layout.col_stride) as usize
    }

    fn get(&self, batch: &[usize], row: usize, col: usize) -> f64 {
        f64::from(decode(self.layout.element, &self.bytes, self.index(batch, row, col)))
    }

    fn pointer(&self) -> *const u8 {
        self.bytes.as_ptr().wrapping_add(self.origin * self.layout.element.bytes())
    }
}

fn positions(batch: &[usize]) -> Vec<Vec<usize>> {
    batch.iter().fold(vec![vec![]], |prefixes, size| {
        prefixes.iter().flat_map(|prefix| (0..*size).map(|i| [prefix.as_slice(), &[i]].concat())).collect()
    })
}

fn shape_of(a: &Operand, b: &Operand, batch: &[usize], m: usize, n: usize, k: usize) -> MatmulShape {
    MatmulShape {
        batch: SmallVec::from_slice(batch),
        rows: m,
        cols: n,
        inner: k,
        a: a.layout.clone(),
        b: b.layout.clone(),
    }
}

/// Scratch memory of exactly the planned size with a guard behind it, filled with NaN.
struct Scratch(Vec<f32>);

const GUARD: usize = 64;

impl Scratch {
    fn new(plan: &MatmulPlan) -> Scratch {
        let mut floats = vec![f32::NAN; plan.scratch_bytes() / 4];
        floats.extend([12345.0; GUARD]);
        Scratch(floats)
    }

    fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let guard = &self.0[self.0.len() - GUARD..];
        assert!(std::thread::panicking() || guard.iter().all(|x| *x == 12345.0), "wrote past scratch memory");
    }
}

/// Counts how often every element arrives and keeps its sum.
struct Collect {
    rows: usize,
    cols: usize,
    sums: Vec<AtomicU32>,
    arrivals: Vec<AtomicU32>,
    threads: usize,
}

impl Collect {
    fn new(plan: &MatmulPlan) -> Collect {
        let shape = plan.shape();
        let len = shape.batch_len() * shape.rows * shape.cols;
        let zeros = || (0..len).map(|_| AtomicU32::new(0)).collect();
        Collect {
            rows: shape.rows,
            cols: shape.cols,
            sums: zeros(),
            arrivals: zeros(),
            threads: plan.threads(),
        }
    }

    fn values(&self) -> Vec<f32> {
        self.sums.iter().map(|bits| f32::from_bits(bits.load(Ordering::Relaxed))).collect()
    }
}

impl Epilogue for Collect {
    fn tile(
        &self,
        batch: usize,
        row: usize,
        col: usize,
        rows: usize,
        cols: usize,
        acc: *mut f32,
        ld: usize,
        worker: usize,
    ) {
        assert!(worker < self.threads && row + rows <= self.rows && col + cols <= self.cols);
        for i in 0..rows {
            for j in 0..cols {
                let at = (batch * self.rows + row + i) * self.cols + col + j;
                // SAFETY: the block's sums are there, by the contract of `Epilogue`.
                let sum = unsafe { *acc.add(i * ld + j) };
                self.sums[at].store(sum.to_bits(), Ordering::Relaxed);
                self.arrivals[at].fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn run_collecting(plan: &MatmulPlan, a: &Operand, b: &Operand) -> Vec<f32> {
    let collect = Collect::new(plan);
    let mut scratch = Scratch::new(plan);
    // SAFETY: the operands hold what their layouts name.
    unsafe { plan.run(a.pointer(), b.pointer(), scratch.pointer(), &collect) };
    assert!(collect.arrivals.iter().all(|count| count.load(Ordering::Relaxed) == 1), "each element once");
    collect.values()
}

/// Exact products, and for each the sum of absolute terms, which bounds its rounding errors.
fn reference(a: &Operand, b: &Operand, shape: &MatmulShape) -> Vec<(f64, f64)> {
    let mut exact = Vec::new();
    for position in positions(&shape.batch) {
        for row in 0..shape.rows {
            for col in 0..shape.cols {
                let mut sums = (0.0, 0.0);
                for k in 0..shape.inner {
                    let term = a.get(&position, row, k) * b.get(&position, k, col);
                    sums = (sums.0 + term, sums.1 + term.abs());
                }
                exact.push(sums);
            }
        }
    }
    exact
}

#[track_caller]
fn assert_close(got: &[f32], exact: &[(f64, f64)], inner: usize, what: &str) {
    assert_eq!(got.len(), exact.len());
    for (i, (got, (sum, magnitude))) in got.iter().zip(exact).enumerate() {
        let bound = magnitude * (inner as f64 + 1.0) * f64::from(f32::EPSILON);
        assert!((f64::from(*got) - sum).abs() <= bound, "{what}: element {i} is {got}, exact {sum}");
    }
}

/// One random product on every instruction set.
fn check(a: &Operand, b: &Operand, shape: &MatmulShape) {
    let exact = reference(a, b, shape);
    for isa in Isa::supported() {
        let plan = MatmulPlan::with(shape.clone(), isa, 1);
        let got = run_collecting(&plan, a, b);
        assert_close(&got, &exact, shape.inner, &format!("{plan:?}"));
        let plan = MatmulPlan::with(shape.clone(), isa, 3);
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&run_collecting(&plan, a, b)), "{plan:?}: threads change the result");
    }
}

fn sizes() -> impl Strategy<Value = (usize, usize, usize)> {
    let size = || prop_oneof![1 => 0..=1usize, 4 => 2..=20usize, 3 => 21..=70usize];
    let deep = prop_oneof![1 => 0..=1usize, 4 => 2..=40usize, 2 => 250..=300usize, 1 => 500..=530usize, 1 => 1020..=1050usize];
    (size(), size(), deep)
}

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![4 => Just(Element::F32), 1 => Just(Element::Bf16), 1 => Just(Element::F16)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn products_agree_with_wide_sums(
        (m, n, k) in sizes(),
        batch in prop::collection::vec(0..=3usize, 0..=2),
        broadcast in prop::collection::vec(any::<(bool, bool)>(), 2),
        (form_a, form_b) in (prop::sample::select(&FORMS[..]), prop::sample::select(&FORMS[..])),
        (element_a, element_b) in (element(), element()),
        seed in any::<u64>(),
    ) {
        let (a_broadcast, b_broadcast): (Vec<bool>, Vec<bool>) = broadcast.into_iter().unzip();
        let a = Operand::new(element_a, form_a, &batch, &a_broadcast, m, k, seed);
        let b = Operand::new(element_b, form_b, &batch, &b_broadcast, k, n, seed ^ 0x5555);
        check(&a, &b, &shape_of(&a, &b, &batch, m, n, k));
    }
}

/// Shapes that take each branch of the plan: many tiles, shared packing in groups, edges of all kinds.
#[test]
fn large_products_agree_with_wide_sums() {
    let cases = [
        (vec![], 300, 520, 70, Form::RowMajor, Form::RowMajor),
        (vec![], 300, 260, 300, Form::ColumnMajor, Form::ColumnMajor),
        (vec![], 131, 77, 515, Form::Gaps, Form::Gaps),
        // Several blocks of K, of odd depth, each of several tiles.
        (vec![], 131, 90, 2301, Form::RowMajor, Form::RowMajor),
        (vec![], 90, 131, 1301, Form::ColumnMajor, Form::ColumnMajor),
        // B in place, in many panels.
        (vec![], 100, 250, 259, Form::ColumnMajor, Form::RowMajor),
        (vec![2, 9], 130, 40, 33, Form::RowMajor, Form::ColumnMajor),
        (vec![40], 9, 300, 20, Form::RowMajor, Form::RowsReversed),
        (vec![3], 40, 33, 600, Form::ColumnMajor, Form::RowMajor),
        (vec![], 1, 3000, 65, Form::RowMajor, Form::RowMajor),
        (vec![], 7, 700, 65, Form::ColumnMajor, Form::ColumnMajor),
        (vec![2], 2, 100, 700, Form::RowMajor, Form::RowMajor),
        (vec![], 8, 3000, 1500, Form::ColumnMajor, Form::ColumnMajor),
        (vec![], 5, 9000, 300, Form::RowMajor, Form::RowMajor),
        (vec![], 300, 1, 1100, Form::ColumnMajor, Form::RowMajor),
        (vec![2], 2000, 1, 65, Form::RowMajor, Form::RowMajor),
        (vec![2], 2000, 1, 65, Form::ColumnMajor, Form::Gaps),
    ];
    for (batch, m, n, k, form_a, form_b) in cases {
        for broadcast in [false, true] {
            let a = Operand::new(Element::F32, form_a, &batch, &[false; 2], m, k, 1);
            let b = Operand::new(Element::F32, form_b, &batch, &[broadcast; 2], k, n, 2);
            check(&a, &b, &shape_of(&a, &b, &batch, m, n, k));
        }
    }
}

/// A shared B beyond the buffer's size is packed in several groups; checked on one row against the
/// skinny method, because wide sums would take long.
#[test]
fn a_b_larger_than_the_shared_buffer_is_packed_in_groups() {
    let (m, n, k) = (450, 5000, 1100);
    let a = Operand::new(Element::F32, Form::RowMajor, &[], &[], m, k, 3);
    let b = Operand::new(Element::F32, Form::RowMajor, &[], &[], k, n, 4);
    let shape = shape_of(&a, &b, &[], m, n, k);
    let whole = run_collecting(&MatmulPlan::new(shape.clone()), &a, &b);
    let row = run_collecting(&MatmulPlan::new(MatmulShape { rows: 1, ..shape }), &a, &b);
    for (x, y) in whole.iter().zip(&row) {
        assert!((x - y).abs() < 1e-3, "{x} {y}");
    }
}

#[test]
fn a_packed_b_gives_the_same_products() {
    for (m, n, k) in [(1, 40, 30), (100, 300, 520), (30, 33, 0), (0, 5, 5)] {
        for element in [Element::F32, Element::Bf16] {
            let a = Operand::new(element, Form::RowMajor, &[2], &[false], m, k, 5);
            let b = Operand::new(element, Form::ColumnMajor, &[2], &[true], k, n, 6);
            let shape = shape_of(&a, &b, &[2], m, n, k);
            let plan = MatmulPlan::prepacked(shape.clone());
            let (collect, mut scratch) = (Collect::new(&plan), Scratch::new(&plan));
            // SAFETY: the operands hold what their layouts name.
            unsafe {
                let packed = PackedB::new(b.pointer(), &b.layout, k, n);
                let bytes = n.next_multiple_of(tile_cols_of(isa())) * k * 4;
                assert_eq!(packed.bytes(), bytes.next_multiple_of(64));
                plan.run_packed(a.pointer(), &packed, scratch.pointer(), &collect);
            }
            assert!(collect.arrivals.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            assert_close(&collect.values(), &reference(&a, &b, &shape), k, "packed");
        }
    }
}

#[test]
fn store_writes_every_element_type_and_layout() {
    for (m, n, k) in [(50, 70, 40), (3, 70, 40), (50, 1, 40), (20, 20, 0), (1, 1, 1)] {
        for element in [Element::F32, Element::Bf16, Element::F16] {
            for form in
                [Form::RowMajor, Form::ColumnMajor, Form::Gaps, Form::RowsReversed, Form::ColumnsReversed]
            {
                let a = Operand::new(Element::F32, Form::RowMajor, &[2], &[false], m, k, 7);
                let b = Operand::new(Element::F32, Form::RowMajor, &[2], &[false], k, n, 8);
                let shape = shape_of(&a, &b, &[2], m, n, k);
                let plan = MatmulPlan::new(shape.clone());
                let mut c = Operand::new(element, form, &[2], &[false], m, n, 9);
                let before = c.clone();
                let mut scratch = Scratch::new(&plan);
                // SAFETY: the operands hold what their layouts name, and the output's elements are distinct.
                unsafe {
                    let data = c.bytes.as_mut_ptr().add(c.origin * element.bytes());
                    let store = Store::new(data, c.layout.clone(), &[2]);
                    plan.run(a.pointer(), b.pointer(), scratch.pointer(), &store);
                }
                let expected = run_collecting(&plan, &a, &b);
                let mut touched = vec![false; c.bytes.len() / element.bytes()];
                let mut at = 0;
                for position in positions(&[2]) {
                    for row in 0..m {
                        for col in 0..n {
                            let rounded = decode(element, &encode(element, expected[at]), 0);
                            assert_eq!(
                                c.get(&position, row, col),
                                f64::from(rounded),
                                "{element:?} {form:?}"
                            );
                            touched[c.index(&position, row, col)] = true;
                            at += 1;
                        }
                    }
                }
                for (i, touched) in touched.iter().enumerate() {
                    let same = decode(element, &c.bytes, i) == decode(element, &before.bytes, i);
                    assert!(*touched || same, "{element:?} {form:?}: wrote between elements");
                }
            }
        }
    }
}

#[test]
fn infinities_and_nan_travel_only_along_their_row_and_column() {
    let (m, n, k) = (30, 50, 20);
    let mut a = Operand::new(Element::F32, Form::RowMajor, &[], &[], m, k, 1);
    let b = Operand::new(Element::F32, Form::RowMajor, &[], &[], k, n, 2);
    let at = a.index(&[], 17, 3) * 4;
    a.bytes[at..at + 4].copy_from_slice(&f32::NAN.to_ne_bytes());
    for isa in Isa::supported() {
        let plan = MatmulPlan::with(shape_of(&a, &b, &[], m, n, k), isa, 2);
        for (i, value) in run_collecting(&plan, &a, &b).iter().enumerate() {
            assert_eq!(value.is_nan(), i / n == 17, "{isa:?}");
        }
    }
}
